/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays the programs of plans for random clusters, models and trainings together:
 *
 * 1. Every item and sum starts exactly when it can (played.h), even where lanes of some programs are a thousand times
 *    slower than others.
 * 2. The document states the times of the replay; a changed claim is detected.
 * 3. With nothing away, the step equals the simulation's, to rounding. Exceptions: gradients that wait for a place;
 *    plans that do not clip, whose updates wait for no gate and shorten the step; and, rarely, a message and a sum that
 *    could take a NIC at the same instant, where rounding decides. No step is shorter than the busiest stage or the
 *    path of a micro-batch.
 * 4. Gradients are summed only if a rank trains them.
 * 5. The program of a single rank replays as in the simulator.
 */
#include "runtime/schedule/replay.h"
#include "tests/property/cluster/planned.h"
#include "tests/property/cluster/played.h"

enum { INSTANCES = 1200 };

struct seen {
    size_t plans, pipelines, equal, tied, earlier, held, away, waited, asymmetric, sums, frozen, overlapping;
    double least, most, sum;
};

/* Draws more micro-batches, more slow networks and some larger nodes. Half of the cases may use another policy. */
static void draw(struct planned *c, uint64_t *random)
{
    static const uint64_t batches[] = {1, 3, 8, 12, 24};
    planned_draw(c, random);
    const bool slow = check_random(random) % 3 == 0, others = check_random(random) % 2;
    for (size_t i = 0; i < c->cluster.n_nodes; i++) {
        c->nodes[i].nic_bytes_per_s = slow ? planned_some(random, 1e6, 1e7) : planned_some(random, 1e8, 1e10);
        if (check_random(random) % 4 == 0)
            c->nodes[i].gpus = 4;
    }
    for (size_t g = 0; g < c->cluster.n_gpus && others; g++)
        c->gpus[g].memory_bytes *= 2 + check_random(random) % 4;
    c->request.training.seq = 64;
    c->request.training.batch = c->request.training.micro_batches =
        batches[check_random(random) % (sizeof batches / sizeof *batches)];
    c->request.policy = others ? check_random(random) % AH_CLUSTER_POLICIES : AH_CLUSTER_POLICY_OPTIMAL;
    c->request.search = AH_CLUSTER_SEARCH_GRAPH;
}

/* ---- rule 2 ---- */

static void check_claims(struct planned *c)
{
    struct ah_cluster_plan plan = c->plan;
    struct ah_error err = {0};
    CHECK_OK(ah_cluster_replay_check(&plan, &err), err);
    plan.predicted.programs_us *= 1 + 1e-6;
    assert_int_equal(ah_cluster_replay_check(&plan, &err), AH_E_DOCUMENT);
    plan.predicted = c->plan.predicted;
    plan.predicted.programs_period_us *= 1 - 1e-6;
    assert_int_equal(ah_cluster_replay_check(&plan, &err), AH_E_DOCUMENT);
}

/* ---- rule 3 ---- */

static double compute_us(const struct ah_plan *program, bool updates, uint64_t micro_batch)
{
    double us = 0;
    for (size_t i = 0; i < program->n_ops; i++) {
        const struct ah_plan_op *op = &program->ops[i];
        if (op->lane == AH_PLAN_LANE_COMPUTE && (op->op == AH_PLAN_DEVICE_ADAM) == updates &&
            (op->micro_batch == micro_batch || micro_batch == UINT64_MAX))
            us += op->us;
    }
    return us;
}

/* Returns the step of the simulation. As in programs, updates have one rate for all blocks of a stage. */
static double simulated_us(const struct played *p)
{
    double update_us = 0;
    bool shares = false; /* one stage has the table, which an arrangement counts at both embedding and head */
    for (size_t i = 0; i < p->n; i++) {
        update_us = fmax(update_us, compute_us(p->stages[i].program, true, UINT64_MAX));
        shares = shares || (p->stages[i].program->model.tied && p->stages[i].program->part->stages == 1);
    }
    assert_true(shares || update_us >= p->plan->predicted.update_us * (1 - 1e-9));
    return p->plan->predicted.step_us - p->plan->predicted.update_us + update_us;
}

static void check_bounds(const struct played *p)
{
    for (size_t i = 0; i < p->n; i += p->stages[i].n) {
        double way_us = 0;
        for (size_t k = i; k < i + p->stages[i].n; k++) {
            const struct ah_plan *program = p->stages[k].program;
            way_us += compute_us(program, false, 0);
            assert_true(p->result.step_us >= compute_us(program, false, UINT64_MAX) * (1 - 1e-9));
            assert_true(p->result.period_us >= compute_us(program, false, UINT64_MAX) * (1 - 1e-9));
        }
        assert_true(p->result.step_us >= way_us * (1 - 1e-9));
    }
}

static bool is_away(const struct ah_cluster_plan *plan)
{
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            if (plan->pipelines[p].stages[i].host_bytes)
                return true;
    return false;
}

static void compare(const struct planned *c, const struct played *p, struct seen *seen)
{
    const double us = p->result.step_us;
    check_bounds(p);
    if (is_away(&c->plan)) {
        const double ratio = us / c->plan.predicted.step_us;
        seen->least = fmin(seen->least, ratio);
        seen->most = fmax(seen->most, ratio);
        seen->sum += ratio;
        seen->away++;
        return;
    }
    const double expected_us = simulated_us(p);
    const bool gated = c->plan.training.clip > 0, earlier = us < expected_us * (1 - 1e-9);
    const bool apart = (gated && earlier) || (!p->result.held && us > expected_us * (1 + 1e-9));
    if (apart && !p->waited)
        fail_msg("together %.12g us, rehearsed %.12g, %llu held", us, expected_us,
                 (unsigned long long)p->result.held);
    seen->tied += apart;
    seen->equal += !apart && !earlier;
    seen->earlier += !gated && earlier;
}

/* ---- rule 1, where some programs are far ahead of others ---- */

static void disturb(const struct ah_plan *program, uint64_t *random)
{
    static const double times[] = {0.01, 1, 30};
    for (size_t lane = 0; lane < AH_PLAN_LANES; lane++) {
        double factor = times[check_random(random) % 3];
        for (size_t i = 0; i < program->n_ops; i++)
            program->ops[i].us *= program->ops[i].lane == lane ? factor : 1;
    }
}

static void check_disturbed(const struct planned *c, struct seen *seen, uint64_t *random)
{
    static struct played played;
    for (size_t i = 0; i < c->plan.n_programs; i++)
        disturb(&c->plan.programs[i], random);
    played_open(&played, &c->plan);
    played_check(&played);
    seen->held += played.result.held > 0;
    played_close(&played);
}

/* ---- all ---- */

static void check_plan(struct planned *c, struct seen *seen, uint64_t *random)
{
    static struct played played;
    played_open(&played, &c->plan);
    played_check(&played);
    check_claims(c);
    for (size_t i = 0; i < c->plan.n_segments; i++)
        assert_true(c->plan.segments[i].bytes);
    compare(c, &played, seen);
    seen->plans++;
    seen->pipelines += c->plan.n_pipelines;
    seen->sums += c->plan.n_segments;
    seen->waited += played.waited;
    seen->frozen += c->request.training.n_trainable > 1;
    seen->overlapping += played.result.period_us < played.result.step_us * (1 - 1e-6);
    for (size_t i = 1; i < played.n; i++)
        seen->asymmetric += played.stages[i].stage->tp != played.stages[0].stage->tp;
    played_close(&played);
    check_disturbed(c, seen, random);
}

TEST(cluster_replay, starts_what_can_start)
{
    size_t problems = check_scaled(INSTANCES);
    struct seen seen = {.least = INFINITY};
    uint64_t random = check_seed(12);
    for (size_t i = 0; i < problems; i++) {
        static struct planned c;
        draw(&c, &random);
        if (planned_plan(&c))
            check_plan(&c, &seen, &random);
        planned_release(&c);
    }
    print_message(
        "%zu clusters, %zu plans, %zu pipelines, %zu sums, %zu plans freeze blocks; %zu things waited for "
        "a NIC; %zu stages of another degree; %zu equal the rehearsal, %zu but for who takes a NIC, %zu that "
        "do "
        "not clip are shorter; "
        "disturbed, %zu have gradients that "
        "wait for a "
        "place; %zu steps go on beside the next; %zu with something away take %.3f to %.3f times what was "
        "rehearsed, mean %.3f\n",
        problems, seen.plans, seen.pipelines, seen.sums, seen.frozen, seen.waited, seen.asymmetric,
        seen.equal, seen.tied, seen.earlier, seen.held, seen.overlapping, seen.away, seen.least, seen.most,
        seen.sum / (double)seen.away);
    assert_true(2 * seen.plans > problems && seen.pipelines > seen.plans && seen.sums && seen.frozen);
    assert_true(seen.waited && seen.held && seen.asymmetric && seen.equal > problems / 4 && seen.earlier &&
                seen.away > 5);
    assert_true(100 * seen.tied <= seen.equal);
}

/* ---- rule 5 ---- */

static size_t compare_with_replay(const struct ah_cluster_plan *plan)
{
    static struct played played;
    struct ah_error err = {0};
    struct ah_replay replay;
    size_t n = 0;
    played_open(&played, plan);
    const struct played_stage *s = &played.stages[0];
    CHECK_OK(ah_replay_run(s->program, PLAYED_STEPS + 1, &played.arena, &replay, &err), err);
    for (size_t i = 0; i < replay.n_items; i++) {
        const struct ah_replay_item *item = &replay.items[i];
        if (item->iteration >= PLAYED_STEPS)
            continue;
        size_t at =
            played_at(s, item->iteration, s->graph.of_tile[s->graph.first_tile[item->op] + item->tile]);
        if (isinf(s->end_us[at]))
            continue;
        assert_true(fabs(s->start_us[at] - item->start_us) <= 1e-9 * item->finish_us);
        assert_true(fabs(s->end_us[at] - item->finish_us) <= 1e-9 * item->finish_us);
        n++;
    }
    played_close(&played);
    return n;
}

TEST(cluster_replay, plays_a_rank_alone_as_the_simulator_does)
{
    uint64_t random = check_seed(8);
    size_t away = 0, shared = 0, compared = 0;
    for (size_t i = 0; i < 30; i++) {
        static struct planned c;
        planned_draw(&c, &random);
        c.cluster.n_nodes = 1;
        c.nodes[0].gpus = 1;
        if (planned_plan(&c) && c.plan.pipelines[0].n_stages == 1) {
            compared += compare_with_replay(&c.plan);
            away += is_away(&c.plan);
            shared += c.plan.programs[0].sharing.n_resources > 0;
        }
        planned_release(&c);
    }
    print_message("%zu items, %zu plans with something away, %zu share a host\n", compared, away, shared);
    assert_true(compared > 500 && away > 1 && shared > 1);
}
