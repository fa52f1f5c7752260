/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the search with trying everything on small random clusters. The oracle simulates every set of pipelines,
 * order of units, split of blocks and share of micro-batches, with every limit on the update. Working units share their
 * hosts. An exhausted search finds the optimum, and no bound exceeds the optimum. Problems with groups of micro-batches
 * that pipelines must keep are tested in the same way.
 */
#include "planner/cluster/bound/relaxation.h"
#include "planner/cluster/search/arrangement_search.h"
#include "tests/property/cluster/oracle.h"

#include <stdio.h>

enum { INSTANCES = 600, GROUPED = 300, PIPELINES_MAX = 20000, PLANS_MAX = 60000, MENU_MAX = 40 };

/* For each limit on the update, from the largest down, the best of all treatments of a stage. */
struct menu {
    bool made;
    struct ah_stage items[MENU_MAX];
    double updates_us[MENU_MAX]; /* 0: nothing is away, so any limit is kept */
    size_t n;
};

struct trial_pipeline {
    struct ah_stage stages[MOST_UNITS];
    size_t n_stages;
};

struct all {
    const struct ah_cluster_problem *in;
    struct trial_pipeline *pipelines;
    size_t n_pipelines;
    struct trial_pipeline making;
    size_t left[MOST_CLASSES];
    struct ah_pipeline chosen[MOST_UNITS];
    size_t n_chosen;
    /* indexed by class, then sharers, first, end, in flight */
    struct menu (*menus)[MOST_UNITS + 1][MOST_BLOCKS][MOST_BLOCKS + 1][MOST_UNITS + 1];
    uint64_t plans, limits;
    bool count_only;
    double best_us;
};

/* Lists the stage's treatments under ever lower limits. */
static void make_menu(const struct ah_cluster_problem *in, struct ah_stage stage, uint64_t in_flight,
                      struct menu *menu)
{
    struct ah_cluster_problem limited = *in;
    menu->made = true;
    for (bool more = true; more && oracle_fit(&limited, in_flight, &stage);) {
        assert_true(menu->n < MENU_MAX);
        double update_us = stage.states_away ? oracle_update(in, &stage) : 0;
        menu->items[menu->n] = stage;
        menu->updates_us[menu->n++] = update_us;
        more = update_us > 0;
        limited.update_limit_us = update_us * (1 - 1e-12);
    }
}

/* Takes from every stage's menu the first treatment within the limit. Returns false if some stage has none. */
static bool choose(struct all *all, struct ah_arrangement *plan, double limit_us, double *ret_longest_us)
{
    *ret_longest_us = 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            struct ah_stage *stage = &plan->pipelines[p].stages[i];
            uint64_t behind = plan->pipelines[p].n_stages - i, m = plan->pipelines[p].micro_batches;
            struct menu *menu =
                &all->menus[stage->class][stage->sharers][stage->first][stage->end][m < behind ? m : behind];
            size_t at = 0;
            if (!menu->made)
                make_menu(all->in, *stage, m < behind ? m : behind, menu);
            while (at < menu->n && menu->updates_us[at] > limit_us)
                at++;
            if (at == menu->n)
                return false;
            *stage = menu->items[at];
            *ret_longest_us = fmax(*ret_longest_us, menu->updates_us[at]);
        }
    return true;
}

static void all_splits(struct all *all, size_t i, size_t first)
{
    size_t n = all->in->n_blocks;
    if (i == all->making.n_stages) {
        if (first == n && all->n_pipelines < PIPELINES_MAX)
            all->pipelines[all->n_pipelines++] = all->making;
        return;
    }
    for (size_t end = first + 1; end <= n; end++) {
        all->making.stages[i].first = first;
        all->making.stages[i].end = end;
        all_splits(all, i + 1, end);
    }
}

static void all_sequences(struct all *all)
{
    if (all->making.n_stages)
        all_splits(all, 0, 0);
    for (size_t class = 0; class < all->in->n_classes; class ++) {
        if (!all->left[class])
            continue;
        all->left[class]--;
        all->making.stages[all->making.n_stages++].class = class;
        all_sequences(all);
        all->making.n_stages--;
        all->left[class]++;
    }
}

static int by_stages(const void *a, const void *b)
{
    const struct ah_pipeline *p = a, *q = b;
    for (size_t i = 0; i < p->n_stages && i < q->n_stages; i++) {
        int class = (int)p->stages[i].class - (int)q->stages[i].class;
        int end = (int)p->stages[i].end - (int)q->stages[i].end;
        if (class || end)
            return class ? class : end;
    }
    return p->n_stages != q->n_stages ? (int)p->n_stages - (int)q->n_stages
                                      : (int)p->micro_batches - (int)q->micro_batches;
}

/* Gives the first pipeline the leading groups, and every other pipeline one group. Equal pipelines keep their order.
 * Returns false if a pipeline's number of micro-batches does not fit its groups. */
static bool put_in_groups(const struct ah_problem_groups *groups, struct ah_arrangement *plan)
{
    struct ah_pipeline sorted[MOST_UNITS];
    const size_t n = plan->n_pipelines;
    bool used[MOST_UNITS] = {false};
    if (n < groups->fewest || n > groups->most)
        return false;
    memcpy(sorted, plan->pipelines, n * sizeof *sorted);
    for (size_t place = 0; place < n; place++) {
        uint64_t wanted = 0;
        size_t p = 0;
        for (size_t g = place ? groups->n - n + place : 0; g <= groups->n - n + place; g++)
            wanted += groups->micro_batches[g];
        while (p < n && (used[p] || sorted[p].micro_batches != wanted))
            p++;
        if (p == n)
            return false;
        used[p] = true;
        plan->pipelines[place] = sorted[p];
    }
    return true;
}

static void try_plan(struct all *all)
{
    struct ah_pipeline pipelines[MOST_UNITS];
    struct ah_arrangement plan = {pipelines, all->n_chosen};
    memcpy(pipelines, all->chosen, sizeof pipelines);
    qsort(pipelines, plan.n_pipelines, sizeof *pipelines, by_stages);
    all->plans++;
    if (all->count_only || (all->in->groups.n && !put_in_groups(&all->in->groups, &plan)))
        return;
    double limit_us = INFINITY, longest_us;
    oracle_share(all->in, &plan);
    for (bool more = true; more && choose(all, &plan, limit_us, &longest_us);) {
        all->best_us = fmin(all->best_us, oracle_step_us(all->in, &plan));
        all->limits++;
        more = longest_us > 0;
        limit_us = longest_us * (1 - 1e-12);
    }
}

static void all_shares(struct all *all, size_t p, uint64_t left)
{
    if (all->plans > PLANS_MAX)
        return;
    if (p == all->n_chosen) {
        if (!left)
            try_plan(all);
        return;
    }
    for (uint64_t m = 1; m <= left; m++) {
        all->chosen[p].micro_batches = m;
        all_shares(all, p + 1, left - m);
    }
}

static void all_sets(struct all *all, size_t from)
{
    if (all->n_chosen)
        all_shares(all, 0, all->in->micro_batches);
    for (size_t c = from; c < all->n_pipelines && all->plans <= PLANS_MAX; c++) {
        struct trial_pipeline *pipeline = &all->pipelines[c];
        size_t taken = 0;
        for (; taken < pipeline->n_stages && all->left[pipeline->stages[taken].class]; taken++)
            all->left[pipeline->stages[taken].class]--;
        if (taken == pipeline->n_stages) {
            struct trial_pipeline copy = *pipeline;
            all->chosen[all->n_chosen++] =
                (struct ah_pipeline){.stages = copy.stages, .n_stages = copy.n_stages};
            all_sets(all, c);
            all->n_chosen--;
        }
        while (taken-- > 0)
            all->left[pipeline->stages[taken].class]++;
    }
}

/* Returns the optimum, INFINITY if nothing fits, or a negative number if there are too many plans to try. */
static double try_all(const struct ah_cluster_problem *in, uint64_t *ret_plans)
{
    struct all all = {
        .in = in, .pipelines = calloc(PIPELINES_MAX, sizeof *all.pipelines), .best_us = INFINITY};
    all.menus = calloc(MOST_CLASSES, sizeof *all.menus);
    assert_true(all.pipelines && all.menus);
    for (size_t class = 0; class < in->n_classes; class ++)
        all.left[class] = in->classes[class].units;
    all_sequences(&all);
    all.count_only = true;
    all_sets(&all, 0);
    bool too_many = all.plans > PLANS_MAX || all.n_pipelines == PIPELINES_MAX;
    *ret_plans = all.plans;
    all.count_only = false;
    all.plans = 0;
    if (!too_many)
        all_sets(&all, 0);
    free(all.pipelines);
    free(all.menus);
    return too_many ? -1 : all.best_us;
}

struct tally {
    size_t problems, infeasible, several, uneven, unmixed_tp;
    size_t away;
    size_t heuristic_within_1;
    double heuristic_worst, gap_worst;
    uint64_t plans;
};

static void check_arrangement(const struct ah_cluster_problem *in, const struct ah_draft *best,
                              double step_us)
{
    uint64_t micro_batches = 0;
    for (size_t p = 0; p < best->arrangement.n_pipelines; p++) {
        struct ah_pipeline *pipeline = &best->arrangement.pipelines[p];
        micro_batches += pipeline->micro_batches;
        for (size_t i = 0; i < pipeline->n_stages; i++)
            assert_true(pipeline->stages[i].memory_bytes <=
                        in->kinds[in->classes[pipeline->stages[i].class].kind].capacity_bytes);
    }
    for (size_t p = 1; p < best->arrangement.n_pipelines && in->groups.n; p++)
        assert_int_equal(best->arrangement.pipelines[p].micro_batches,
                         in->groups.micro_batches[in->groups.n - best->arrangement.n_pipelines + p]);
    assert_int_equal(micro_batches, in->micro_batches);
    assert_true(fabs(oracle_step_us(in, &best->arrangement) - step_us) <= 1e-9 * step_us);
}

static void check_problem(struct case_problem *c, double optimum_us, struct tally *tally)
{
    const struct ah_arrangement_search_limits quick = {.improvements = 10000, .shaking = 40000};
    const struct ah_arrangement_search_limits whole = {.improvements = 10000, .exhaustion = 20000000};
    struct ah_error err = {0};
    struct ah_arrangement_search_result result, rough;
    struct ah_draft best;
    CHECK_OK(ah_draft_init(&best, &c->problem, &err), err);
    CHECK_OK(ah_arrangement_search_run(&c->problem, &quick, INFINITY, &best, &rough, &err), err);
    CHECK_OK(ah_arrangement_search_run(&c->problem, &whole, INFINITY, &best, &result, &err), err);
    assert_true(result.exhausted);
    if (isinf(optimum_us)) {
        assert_true(isinf(result.step_us));
        tally->infeasible++;
    } else {
        if (fabs(result.step_us - optimum_us) > 1e-9 * optimum_us)
            fail_msg("found %.6f, the optimum is %.6f", result.step_us, optimum_us);
        assert_true(result.bound_us <= optimum_us * (1 + 1e-9));
        assert_true(rough.bound_us <= optimum_us);
        assert_true(rough.step_us >= optimum_us * (1 - 1e-9));
        if (rough.step_us > 1.05 * optimum_us)
            fail_msg("the search without exhaustion found %.3f, the optimum is %.3f", rough.step_us,
                     optimum_us);
        check_arrangement(&c->problem, &best, result.step_us);
        tally->several += best.arrangement.n_pipelines > 1;
        tally->uneven += best.arrangement.n_pipelines > 1 && best.arrangement.pipelines[0].micro_batches !=
                                                                 best.arrangement.pipelines[1].micro_batches;
        for (size_t i = 0; i < best.n_stages; i++)
            if (best.stages[i].states_away) {
                tally->away++;
                break;
            }
        tally->heuristic_within_1 += rough.step_us <= 1.01 * optimum_us;
        tally->heuristic_worst = fmax(tally->heuristic_worst, rough.step_us / optimum_us);
        tally->gap_worst = fmax(tally->gap_worst, 1 - rough.bound_us / optimum_us);
    }
    ah_draft_release(&best);
}

/* Cuts the micro-batches into groups. Some numbers of pipelines may be excluded. */
static void draw_groups(struct ah_cluster_problem *in, uint64_t *groups, uint64_t *random)
{
    size_t n = 0;
    for (uint64_t left = in->micro_batches; left; n++) {
        groups[n] = 1 + check_draw(random, check_draw(random, 3) ? left : 1);
        left -= groups[n];
    }
    in->groups = (struct ah_problem_groups){.micro_batches = groups, .n = n, .fewest = 1, .most = n};
    if (!check_draw(random, 3))
        in->groups.fewest += check_draw(random, n);
    else if (!check_draw(random, 2))
        in->groups.most -= check_draw(random, n);
}

TEST(exhaust, keeps_groups)
{
    size_t problems = check_scaled(GROUPED);
    uint64_t random = 0x2545f4914f6cdd1d, groups[8];
    struct tally tally = {.heuristic_worst = 1};
    while (tally.problems < problems) {
        struct case_problem c;
        uint64_t plans;
        draw_problem(&c, &random, 8, MOST_UNITS, 8);
        assert_true(c.problem.micro_batches <= 8);
        draw_groups(&c.problem, groups, &random);
        double optimum_us = try_all(&c.problem, &plans);
        if (optimum_us < 0)
            continue;
        check_problem(&c, optimum_us, &tally);
        tally.problems++;
    }
    printf("%zu instances, %zu infeasible, %zu with several pipelines, %zu of them uneven, %zu with "
           "something away; "
           "search without exhaustion: %zu within 1 %%, worst %.3f times the optimum\n",
           tally.problems, tally.infeasible, tally.several, tally.uneven, tally.away,
           tally.heuristic_within_1, tally.heuristic_worst);
    assert_true(tally.several && tally.uneven && tally.away);
}

TEST(exhaust, finds_the_optimum)
{
    size_t problems = check_scaled(INSTANCES);
    uint64_t random = 0x9e3779b97f4a7c15;
    struct tally tally = {.heuristic_worst = 1};
    while (tally.problems < problems) {
        struct case_problem c;
        uint64_t plans;
        draw_problem(&c, &random, 8, MOST_UNITS, 8);
        double optimum_us = try_all(&c.problem, &plans);
        if (optimum_us < 0)
            continue;
        check_problem(&c, optimum_us, &tally);
        tally.problems++;
        tally.plans += plans;
    }
    printf("%zu instances, %llu plans tried, %zu infeasible, %zu with several pipelines, %zu of them uneven, "
           "%zu with "
           "something away; "
           "search without exhaustion: %zu within 1 %%, worst %.3f times the optimum; widest gap of the "
           "bound %.0f %%\n",
           tally.problems, (unsigned long long)tally.plans, tally.infeasible, tally.several, tally.uneven,
           tally.away, tally.heuristic_within_1, tally.heuristic_worst, 100 * tally.gap_worst);
    assert_true(tally.several && tally.uneven && tally.away && tally.infeasible < problems / 2);
}
