/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the bound with independent answers: all assignments of small instances under the schedule itself, all
 * vectors of counts one by one, and CBC on rows assembled here. Also compares pairs of instances, one faster or larger.
 */
#include "planner/bound/milp_solve_internal.h"
#include "tests/property/planner/cbc.h"
#include "tests/property/planner/instances.h"

enum { SMALL = 150, SCHEDULES = 60, LARGE = 40, PAIRS = 400, CELLS = INSTANCE_BLOCKS * AH_CONFIGS_MAX };

/* ---- budgets that matter ---- */

/* Draws budgets between the needs of the leanest and the richest counts, and sometimes below the leanest. */
static void choose_budgets(struct ah_milp_input *input, uint64_t *random)
{
    struct ah_config lean[INSTANCE_BLOCKS], rich[INSTANCE_BLOCKS];
    struct ah_milp_needs low = {0}, high = {0};
    struct ah_error err = {0};
    for (size_t block = 0; block < input->job->n_blocks; block++) {
        struct ah_config configs[AH_CONFIGS_MAX];
        size_t n = ah_configs(input->job, ah_job_block(input->job, block), configs);
        rich[block] = configs[0];
        lean[block] = configs[n - 1];
    }
    CHECK_OK(ah_milp_needs(input, lean, &low, &err), err);
    CHECK_OK(ah_milp_needs(input, rich, &high, &err), err);
    double device = (double)low.device_bytes * 0.8;
    device += check_uniform(random) * ((double)high.device_bytes * 1.1 - device);
    input->device_bytes = (uint64_t)device;
    input->host_bytes = (uint64_t)((double)(low.host_bytes + 1000) * (0.1 + 1.4 * check_uniform(random)));
}

static void random_allowed(const struct ah_job *job, uint64_t *random, unsigned most, uint32_t *ret_allowed)
{
    for (size_t block = 0; block < job->n_blocks; block++) {
        struct ah_config configs[AH_CONFIGS_MAX];
        size_t n = ah_configs(job, ah_job_block(job, block), configs);
        ret_allowed[block] = 0;
        for (unsigned i = 0; i < most; i++)
            ret_allowed[block] |= 1u << instance_below(random, n);
    }
}

static struct ah_milp_input input_of(const struct instance *it, uint64_t *random)
{
    return (struct ah_milp_input){.job = &it->job,
                                  .costs = &it->costs,
                                  .micro_order =
                                      instance_below(random, 2) ? AH_BLOCK_MAJOR : AH_MICRO_BATCH_MAJOR,
                                  .most_tile_elements = 8 * AH_PLAN_TILE_UNIT,
                                  .most_fetch_ahead = 1 + (uint32_t)instance_below(random, 4)};
}

/* ---- the schedule as oracle ---- */

struct best_schedule {
    bool fits;
    double period_us;
};

static const struct ah_knobs schedule_knobs[] = {
    {.fetch_ahead = 0, .send_behind = 0, .device_state_tiles = 2},
    {.fetch_ahead = 1, .send_behind = 3, .device_state_tiles = 64},
};

static void try_all(const struct ah_milp_input *input, struct ah_schedule *schedule,
                    struct ah_config *configs, size_t block, struct best_schedule *best)
{
    if (block < input->job->n_blocks) {
        struct ah_config all[AH_CONFIGS_MAX];
        size_t n = ah_configs(input->job, ah_job_block(input->job, block), all);
        for (size_t i = 0; i < n; i++) {
            configs[block] = all[i];
            if (input->allowed[block] >> i & 1)
                try_all(input, schedule, configs, block + 1, best);
        }
        return;
    }
    for (size_t k = 0; k < sizeof schedule_knobs / sizeof schedule_knobs[0]; k++) {
        struct ah_choice choice = {.configs = configs, .knobs = schedule_knobs[k], .costs = input->costs};
        struct ah_score score;
        struct ah_error err = {0};
        choice.knobs.micro_order = input->micro_order;
        choice.knobs.tile_elements = input->most_tile_elements;
        int rc = ah_schedule_evaluate(schedule, &choice, &score, &err);
        if (rc == AH_E_FAILED)
            continue;
        CHECK_OK(rc, err);
        if (score.device.peak_bytes > input->device_bytes ||
            score.pinned_bytes + score.pageable_bytes > input->host_bytes)
            continue;
        if (!best->fits || score.period_us < best->period_us)
            *best = (struct best_schedule){true, score.period_us};
    }
}

TEST(milp, never_beaten_by_a_schedule)
{
    uint64_t random = check_seed(31);
    size_t feasible = 0, infeasible = 0;
    double gap = 0;
    for (int i = 0; i < SCHEDULES; i++) {
        struct instance it;
        uint32_t allowed[INSTANCE_BLOCKS];
        struct ah_config configs[INSTANCE_BLOCKS];
        struct ah_schedule schedule = {0};
        struct ah_error err = {0};
        struct best_schedule best = {0};
        struct ah_milp_result result;
        if (!instance_open(&it, &random, 1 + instance_below(&random, 3)))
            continue;
        struct ah_milp_input input = input_of(&it, &random);
        choose_budgets(&input, &random);
        random_allowed(&it.job, &random, 3, allowed);
        input.allowed = allowed;
        CHECK_OK(ah_schedule_init(&schedule, &it.job, &err), err);
        try_all(&input, &schedule, configs, 0, &best);
        CHECK_OK(ah_milp_solve(&input, &it.arena, &result, &err), err);
        if (best.fits && !result.feasible)
            fail_msg("instance %d: called infeasible, yet a schedule of %g us fits", i, best.period_us);
        if (best.fits && result.bound_us > best.period_us)
            fail_msg("instance %d: bound %.17g above a schedule of %.17g us", i, result.bound_us,
                     best.period_us);
        gap += best.fits ? 1 - result.bound_us / best.period_us : 0;
        feasible += best.fits;
        infeasible += !result.feasible;
        ah_schedule_release(&schedule);
        instance_close(&it);
    }
    print_message("%zu with a schedule, mean gap %.3f; %zu infeasible\n", feasible, gap / (double)feasible,
                  infeasible);
    assert_true(feasible > SCHEDULES / 8 && infeasible > 1);
}

/* ---- all vectors of counts, by brute force ---- */

struct plain {
    const struct ah_milp *milp;
    uint32_t counts[CELLS];
    bool feasible;
    int64_t least;
    size_t vectors;
};

static int64_t plain_sum(const struct plain *p, size_t row)
{
    int64_t sum = 0;
    for (size_t j = 0; j < p->milp->n_columns; j++)
        sum += (int64_t)p->counts[j] * ah_milp_coefficients(p->milp, row)[j];
    return sum;
}

static void plain_try(struct plain *p)
{
    int64_t time = 0;
    p->vectors++;
    for (size_t i = 0; i < p->milp->n_rows; i++) {
        int64_t sum = plain_sum(p, i);
        if (p->milp->rows[i].kind == AH_MILP_TIME)
            time = sum > time ? sum : time;
        else if (sum > p->milp->rows[i].limit)
            return;
    }
    if (!p->feasible || time < p->least)
        p->least = time;
    p->feasible = true;
}

static void plain_all(struct plain *p, size_t class, size_t column, uint32_t left)
{
    if (class == p->milp->n_classes) {
        plain_try(p);
        return;
    }
    const struct ah_milp_class *it = &p->milp->classes[class];
    if (column + 1 == it->first_column + it->n_columns) {
        p->counts[column] = left;
        const struct ah_milp_class *next = class + 1 < p->milp->n_classes ? it + 1 : it;
        plain_all(p, class + 1, next->first_column, next->blocks);
        return;
    }
    for (uint32_t count = 0; count <= left; count++) {
        p->counts[column] = count;
        plain_all(p, class, column + 1, left - count);
    }
}

/* Checks memory as if no weights were kept from forward to backward, which needs the least memory. */
static void check_limits(const struct ah_milp *milp, const struct ah_milp_candidate *candidate)
{
    for (size_t i = 0; i < milp->n_rows; i++) {
        int64_t sum = 0;
        if (milp->rows[i].kind != AH_MILP_DEVICE && milp->rows[i].kind != AH_MILP_HOST)
            continue;
        for (size_t j = 0; j < milp->n_columns; j++) {
            const struct ah_milp_column *column = &milp->columns[j];
            if (!column->kept)
                sum += (int64_t)candidate->counts[column->of_class * AH_CONFIGS_MAX + column->config] *
                       ah_milp_coefficients(milp, i)[j];
        }
        assert_true(sum <= milp->rows[i].limit);
    }
}

static void check_candidates(const struct ah_milp *milp, const struct ah_milp_result *result)
{
    for (size_t i = 0; i < result->n_candidates; i++) {
        const struct ah_milp_candidate *candidate = &result->candidates[i];
        assert_true(candidate->bound_us >= result->bound_us);
        assert_true(i == 0 || candidate->bound_us >= result->candidates[i - 1].bound_us);
        for (size_t k = 0; k < milp->n_classes; k++) {
            uint32_t blocks = 0;
            for (size_t c = 0; c < AH_CONFIGS_MAX; c++) {
                uint32_t count = candidate->counts[k * AH_CONFIGS_MAX + c];
                assert_true(count == 0 || milp->classes[k].allowed >> c & 1);
                blocks += count;
            }
            assert_int_equal(blocks, milp->classes[k].blocks);
        }
        check_limits(milp, candidate);
    }
}

TEST(milp, is_the_least_of_all_counts)
{
    uint64_t random = check_seed(4);
    size_t feasible = 0, infeasible = 0, vectors = 0;
    for (int i = 0; i < SMALL; i++) {
        struct instance it;
        uint32_t allowed[INSTANCE_BLOCKS];
        struct ah_error err = {0};
        struct ah_milp milp;
        struct ah_milp_result result;
        if (!instance_open(&it, &random, 1 + instance_below(&random, 4)))
            continue;
        struct ah_milp_input input = input_of(&it, &random);
        choose_budgets(&input, &random);
        random_allowed(&it.job, &random, 4, allowed);
        input.allowed = i % 3 ? allowed : NULL;
        CHECK_OK(ah_milp_build(&milp, &input, &it.arena, &err), err);
        CHECK_OK(ah_milp_solve(&input, &it.arena, &result, &err), err);
        struct plain plain = {.milp = &milp};
        if (ah_milp_vectors(&milp, 300000) < 300000) {
            plain_all(&plain, 0, 0, milp.classes[0].blocks);
            assert_int_equal(plain.vectors, ah_milp_vectors(&milp, 300000));
            assert_true(!plain.feasible || result.feasible);
            assert_true(!result.exact || plain.feasible == result.feasible);
            double least_us = (double)plain.least / AH_MILP_UNITS_PER_US;
            if (plain.feasible && result.exact)
                check_near(result.bound_us / least_us, 1, 2e-9);
            if (plain.feasible)
                assert_true(result.bound_us <= least_us);
            feasible += plain.feasible;
            infeasible += !plain.feasible;
            vectors += plain.vectors;
        }
        check_candidates(&milp, &result);
        instance_close(&it);
    }
    print_message("%zu vectors; %zu instances feasible, %zu not\n", vectors, feasible, infeasible);
    assert_true(feasible > SMALL / 5 && infeasible > 5);
}

/* ---- CBC on the same rows, assembled another way ---- */

static double cbc_bound_us(const struct ah_milp *milp, struct ah_arena *arena, bool whole, bool *ret_feasible)
{
    size_t n = milp->n_columns + 1, rows = milp->n_rows + milp->n_classes;
    double *objective = ah_arena_array(arena, n, sizeof *objective),
           *upper = ah_arena_array(arena, n, sizeof *upper);
    double *low = ah_arena_array(arena, rows, sizeof *low), *high = ah_arena_array(arena, rows, sizeof *high);
    double *values = ah_arena_array(arena, rows * n, sizeof *values), found = 0;
    bool *integer = ah_arena_array(arena, n, sizeof *integer);
    assert_true(objective && upper && low && high && values && integer);
    objective[n - 1] = 1;
    upper[n - 1] = INFINITY;
    for (size_t j = 0; j + 1 < n; j++) {
        upper[j] = milp->classes[milp->columns[j].of_class].blocks;
        integer[j] = whole;
        values[(milp->n_rows + milp->columns[j].of_class) * n + j] = 1;
    }
    for (size_t i = 0; i < rows; i++) {
        bool is_class = i >= milp->n_rows, time = !is_class && milp->rows[i].kind == AH_MILP_TIME;
        low[i] = is_class ? milp->classes[i - milp->n_rows].blocks : -(double)INFINITY;
        high[i] = is_class ? low[i] : time ? 0 : (double)milp->rows[i].limit / 1024;
        for (size_t j = 0; !is_class && j + 1 < n; j++)
            values[i * n + j] = (double)ah_milp_coefficients(milp, i)[j] / 1024; /* us, KiB */
        if (time)
            values[i * n + n - 1] = -1;
        if (!is_class && milp->rows[i].kind == AH_MILP_CAP)
            high[i] = (double)milp->rows[i].limit / 1024;
    }
    struct ah_solver_problem problem = {.n_columns = n,
                                        .n_rows = rows,
                                        .objective = objective,
                                        .upper = upper,
                                        .integer = integer,
                                        .row_lower = low,
                                        .row_upper = high,
                                        .coefficients = values};
    *ret_feasible = cbc_solve(&problem, &found);
    return found;
}

TEST(milp, agrees_with_cbc)
{
    uint64_t random = check_seed(33);
    size_t feasible = 0, relaxed = 0, infeasible = 0;
    for (int i = 0; i < LARGE; i++) {
        struct instance it;
        struct ah_error err = {0};
        struct ah_milp milp;
        struct ah_milp_result result;
        bool exists;
        if (!instance_open(&it, &random, 6 + instance_below(&random, 8)))
            continue;
        struct ah_milp_input input = input_of(&it, &random);
        choose_budgets(&input, &random);
        CHECK_OK(ah_milp_build(&milp, &input, &it.arena, &err), err);
        CHECK_OK(ah_milp_solve(&input, &it.arena, &result, &err), err);
        double expected_us = cbc_bound_us(&milp, &it.arena, result.exact, &exists);
        assert_int_equal(result.feasible, exists);
        if (exists)
            check_near(result.bound_us / expected_us, 1, 1e-6);
        check_candidates(&milp, &result);
        if (exists && result.n_candidates) /* near enough to be worth trying */
            assert_true(result.candidates[0].bound_us < expected_us * 1.25);
        feasible += exists;
        relaxed += exists && !result.exact;
        infeasible += !exists;
        instance_close(&it);
    }
    print_message("%zu feasible, %zu of them relaxed; %zu infeasible\n", feasible, relaxed, infeasible);
    assert_true(relaxed > LARGE / 4 && infeasible > 1);
}

/* ---- monotone ---- */

/* Lowers some of the costs by much, by little, or by one bit. */
static struct ah_costs cheaper(const struct ah_costs *costs, struct ah_cost_group *groups, size_t n_groups,
                               uint64_t *random)
{
    struct ah_costs ret = *costs;
    double *all[] = {&ret.h2d_latency_us,    &ret.h2d_us_per_byte,      &ret.d2h_latency_us,
                     &ret.d2h_us_per_byte,   &ret.host_adam_us,         &ret.host_accumulate_us,
                     &ret.device_adam_us,    &ret.device_accumulate_us, &ret.norm_us,
                     &ret.device_squares_us, &ret.host_squares_us,      &ret.host_us_per_byte};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t how = instance_below(random, 6);
        if (how == 0)
            *all[i] *= check_uniform(random);
        else if (how == 1)
            *all[i] *= 1 - 1e-6 * check_uniform(random);
        else if (how == 2)
            *all[i] = nextafter(*all[i], 0);
    }
    memcpy(groups, costs->groups, n_groups * sizeof *groups);
    for (size_t g = 0; g < n_groups; g++)
        if (instance_below(random, 4) == 0)
            groups[g].forward_us *= 1 - 0.3 * check_uniform(random);
    ret.groups = groups;
    return ret;
}

TEST(milp, monotone_to_the_bit)
{
    uint64_t random = check_seed(34);
    size_t falls = 0, exact = 0, both = 0;
    for (int i = 0; i < PAIRS; i++) {
        struct instance it;
        struct ah_cost_group groups[INSTANCE_GROUPS];
        struct ah_error err = {0};
        struct ah_milp_result before, after;
        if (!instance_open(&it, &random, 1 + instance_below(&random, 12)))
            continue;
        struct ah_milp_input input = input_of(&it, &random);
        choose_budgets(&input, &random);
        CHECK_OK(ah_milp_solve(&input, &it.arena, &before, &err), err);
        struct ah_costs costs = cheaper(&it.costs, groups, it.job.n_groups, &random);
        input.costs = &costs;
        input.device_bytes += instance_below(&random, 3) ? 0 : instance_below(&random, 1000000);
        input.host_bytes += instance_below(&random, 3) ? 0 : instance_below(&random, 1000000);
        CHECK_OK(ah_milp_solve(&input, &it.arena, &after, &err), err);
        assert_int_equal(before.exact, after.exact);
        if (before.feasible) {
            assert_true(after.feasible);
            if (after.bound_us > before.bound_us)
                fail_msg("pair %d: %.17g us rose to %.17g", i, before.bound_us, after.bound_us);
            falls += after.bound_us < before.bound_us;
            both++;
            exact += after.exact;
        }
        instance_close(&it);
    }
    print_message("%zu pairs, %zu fell, %zu exact\n", both, falls, exact);
    assert_true(both > PAIRS / 4 && falls > both / 4 && exact > 10 && both - exact > 10);
}

/* ---- infeasible ---- */

static bool feasible_with(struct ah_milp_input input, uint64_t device, uint64_t host, struct ah_arena *arena)
{
    struct ah_milp_result result;
    struct ah_error err = {0};
    input.device_bytes += device;
    input.host_bytes += host;
    CHECK_OK(ah_milp_solve(&input, arena, &result, &err), err);
    return result.feasible;
}

static void check_alone(const struct ah_milp_input *input, uint64_t bytes, bool device,
                        struct ah_arena *arena, size_t *n)
{
    if (bytes == AH_MILP_NEVER) {
        assert_false(
            feasible_with(*input, device ? UINT64_C(1) << 50 : 0, device ? 0 : UINT64_C(1) << 50, arena));
        return;
    }
    assert_true(bytes > 0);
    assert_true(feasible_with(*input, device ? bytes : 0, device ? 0 : bytes, arena));
    assert_false(feasible_with(*input, device ? bytes - 1 : 0, device ? 0 : bytes - 1, arena));
    ++*n;
}

TEST(milp, says_how_much_is_short)
{
    uint64_t random = check_seed(35);
    size_t device = 0, host = 0, both = 0;
    for (int i = 0; i < PAIRS; i++) {
        struct instance it;
        uint32_t allowed[INSTANCE_BLOCKS];
        struct ah_error err = {0};
        struct ah_milp_result result;
        if (!instance_open(&it, &random, 1 + instance_below(&random, 8)))
            continue;
        struct ah_milp_input input = input_of(&it, &random);
        choose_budgets(&input, &random);
        input.device_bytes = (uint64_t)((double)input.device_bytes * check_uniform(&random));
        random_allowed(&it.job, &random, 2,
                       allowed); /* if some device configs are excluded, both memories may be short */
        input.allowed = i % 2 ? allowed : NULL;
        CHECK_OK(ah_milp_solve(&input, &it.arena, &result, &err), err);
        if (!result.feasible) {
            const struct ah_milp_shortage *s = &result.shortage;
            assert_int_equal(result.n_candidates, 0);
            check_alone(&input, s->device_bytes, true, &it.arena, &device);
            check_alone(&input, s->host_bytes, false, &it.arena, &host);
            if (s->device_bytes == AH_MILP_NEVER && s->host_bytes == AH_MILP_NEVER) {
                assert_true(feasible_with(input, s->both_device_bytes, s->both_host_bytes, &it.arena));
                both++;
            }
        }
        instance_close(&it);
    }
    print_message("short: device %zu, host %zu, both %zu\n", device, host, both);
    assert_true(device > 5 && host > 5 && both > 5);
}

/* ---- repeated runs ---- */

TEST(milp, same_input_same_result)
{
    uint64_t random = check_seed(36);
    struct instance it;
    while (!instance_open(&it, &random, 12))
        ;
    struct ah_milp_input input = input_of(&it, &random);
    struct ah_milp_result a, b;
    struct ah_error err = {0};
    input.device_bytes = input.host_bytes = UINT64_C(1) << 40;
    CHECK_OK(ah_milp_solve(&input, &it.arena, &a, &err), err);
    CHECK_OK(ah_milp_solve(&input, &it.arena, &b, &err), err);
    assert_true(a.feasible && a.n_candidates > 0);
    assert_int_equal(a.n_candidates, b.n_candidates);
    assert_true(a.bound_us == b.bound_us);
    for (size_t i = 0; i < a.n_candidates; i++)
        assert_memory_equal(a.candidates[i].counts, b.candidates[i].counts,
                            a.n_classes * AH_CONFIGS_MAX * sizeof(uint32_t));
    for (size_t block = 0; block < it.job.n_blocks; block++)
        assert_int_equal(a.class_of[block], it.job.group_of[block]);
    instance_close(&it);
}
