/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares every row with the schedule itself, for random choices of everything. No row demands more time or memory
 * than the schedule takes. The work of each lane, the sum in rows (1) to (4), equals the schedule's to the last digits.
 * At a budget that a choice just fits, the bound plus its configs' prices does not exceed its period.
 */
#include "planner/bound/milp_internal.h"
#include "tests/property/planner/instances.h"

enum { INSTANCES = 1500, CHOICES = 6 };

#define CLOSE (1 + 1e-9)

static struct ah_knobs random_knobs(uint64_t *random)
{
    static const uint64_t tiles[] = {1, 1, 2, 4, 16};
    static const uint32_t ahead[] = {0, 1, 2, 3, 6, 1000};
    static const uint32_t rings[] = {0, 0, 4, 16};
    return (struct ah_knobs){.tile_elements = AH_PLAN_TILE_UNIT * tiles[instance_below(random, 5)],
                             .micro_order = instance_below(random, 2) ? AH_BLOCK_MAJOR : AH_MICRO_BATCH_MAJOR,
                             .fetch_ahead = ahead[instance_below(random, 6)],
                             .send_behind = ahead[instance_below(random, 6)],
                             .host_gradient_tiles = rings[instance_below(random, 4)],
                             .host_weight_tiles = rings[instance_below(random, 4)],
                             .device_state_tiles = 1 + (uint32_t)instance_below(random, 6),
                             .updates_after_backward = instance_below(random, 6) == 0,
                             .step_ends = instance_below(random, 6) == 0,
                             .scheduling =
                                 instance_below(random, 4) ? AH_SCHEDULING_PRIORITY : AH_SCHEDULING_FIFO};
}

static void random_configs(const struct ah_job *job, uint64_t *random, struct ah_config *ret_configs)
{
    bool alike = instance_below(random, 2);
    for (size_t block = 0; block < job->n_blocks; block++) {
        struct ah_config configs[AH_CONFIGS_MAX];
        size_t n = ah_configs(job, ah_job_block(job, block), configs);
        bool copy = alike && block && job->group_of[block] == job->group_of[block - 1];
        ret_configs[block] = copy ? ret_configs[block - 1] : configs[instance_below(random, n)];
    }
}

/* Sums the columns' pieces, with as many fetches as possible. The sum is exact if nothing is fetched more than once. */
static void sum_work(const struct ah_milp *milp, const struct ah_config *configs,
                     double ret_us[AH_PLAN_LANES])
{
    memset(ret_us, 0, AH_PLAN_LANES * sizeof *ret_us);
    for (size_t block = 0; block < milp->job->n_blocks; block++) {
        const struct ah_milp_class *class = &milp->classes[milp->class_of[block]];
        for (size_t j = class->first_column; j < class->first_column + class->n_columns; j++) {
            const struct ah_milp_column *column = &milp->columns[j];
            if (column->kept || memcmp(&column->choice, &configs[block], sizeof configs[block]) != 0)
                continue;
            for (int lane = 0; lane < AH_PLAN_LANES; lane++)
                ret_us[lane] += column->pieces.lane_us[lane];
        }
    }
    if (milp->clip)
        ret_us[AH_PLAN_LANE_HOST] += milp->costs->norm_us;
}

static bool fetches_layers(const struct ah_job *job, const struct ah_config *configs)
{
    bool table = (job->model->tied || ah_job_shards(job) > 1) && configs[0].weights != AH_WEIGHTS_DEVICE;
    for (size_t block = 1; block < job->n_blocks; block++)
        if (configs[block].weights != AH_WEIGHTS_DEVICE)
            return true;
    return table && job->training.micro_batches > 1;
}

static void check_work(const struct ah_milp_input *input, const struct ah_config *configs,
                       const struct ah_score *score)
{
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    struct ah_milp milp;
    double work_us[AH_PLAN_LANES];
    CHECK_OK(ah_milp_build(&milp, input, &arena, &err), err);
    sum_work(&milp, configs, work_us);
    bool fetched = fetches_layers(input->job, configs);
    for (int lane = 0; lane < AH_PLAN_LANES; lane++)
        if (!fetched || (lane != AH_PLAN_LANE_H2D && lane != AH_PLAN_LANE_NET))
            check_near(work_us[lane] / (1 + score->work_us[lane]),
                       score->work_us[lane] / (1 + score->work_us[lane]), 1e-9);
    ah_arena_release(&arena);
}

static void check_needs(const struct ah_milp_input *input, const struct ah_config *configs,
                        const struct ah_score *score, const struct ah_knobs *knobs)
{
    struct ah_milp_needs needs;
    struct ah_error err = {0};
    CHECK_OK(ah_milp_needs(input, configs, &needs, &err), err);
    if (needs.time_us > score->period_us * CLOSE)
        fail_msg("row '%s': %.17g us, the schedule takes %.17g (order %d, clip %g, %llu micro-batches)",
                 needs.limit, needs.time_us, score->period_us, knobs->micro_order, input->job->training.clip,
                 (unsigned long long)input->job->training.micro_batches);
    if (needs.device_bytes > score->device.live_bytes)
        fail_msg("device: rows say %llu, %llu are live (order %d, clip %g, %llu micro-batches)",
                 (unsigned long long)needs.device_bytes, (unsigned long long)score->device.live_bytes,
                 knobs->micro_order, input->job->training.clip,
                 (unsigned long long)input->job->training.micro_batches);
    if (needs.host_bytes > score->pinned_bytes + score->pageable_bytes)
        fail_msg("host: rows say %llu, the schedule takes %llu", (unsigned long long)needs.host_bytes,
                 (unsigned long long)(score->pinned_bytes + score->pageable_bytes));
}

/* Prices the choice at a budget of exactly its needs, or of slightly more. */
static double priced(struct ah_milp_input input, const struct ah_config *configs,
                     const struct ah_score *score, double slack)
{
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    struct ah_milp_result result;
    input.device_bytes = (uint64_t)((1 + slack) * (double)score->device.peak_bytes);
    input.host_bytes = (uint64_t)((1 + slack) * (double)(score->pinned_bytes + score->pageable_bytes));
    CHECK_OK(ah_milp_solve(&input, &arena, &result, &err), err);
    assert_true(result.feasible);
    double us = result.base_us;
    for (size_t block = 0; block < input.job->n_blocks; block++) {
        const double *prices_us = result.prices_us + result.class_of[block] * (size_t)AH_CONFIGS_MAX;
        struct ah_config all[AH_CONFIGS_MAX];
        size_t n = ah_configs(input.job, ah_job_block(input.job, block), all), config = 0;
        while (memcmp(&all[config], &configs[block], sizeof configs[block]) != 0)
            config++;
        double least_us = prices_us[0];
        for (size_t i = 0; i < n; i++)
            least_us = fmin(least_us, prices_us[i]);
        assert_true(least_us == 0);
        us += prices_us[config];
    }
    if (us > score->period_us * CLOSE)
        fail_msg("priced at %.17g us, the schedule takes %.17g", us, score->period_us);
    ah_arena_release(&arena);
    return us;
}

/* How close the rows come to the schedule. Checking the least ratios notices a row that bounds nothing. */
struct tightness {
    double time, device, host, priced;
    size_t n, n_priced;
};

static void check_choice(struct instance *it, struct ah_schedule *schedule, uint64_t *random,
                         struct tightness *tight)
{
    struct ah_config configs[INSTANCE_BLOCKS];
    struct ah_knobs knobs = random_knobs(random);
    struct ah_choice choice = {.configs = configs, .knobs = knobs, .costs = &it->costs};
    struct ah_milp_input input = {.job = &it->job,
                                  .costs = &it->costs,
                                  .micro_order = knobs.micro_order,
                                  .most_tile_elements = knobs.tile_elements,
                                  .most_fetch_ahead = knobs.fetch_ahead ? knobs.fetch_ahead : 1};
    struct ah_error err = {0};
    struct ah_score score;
    struct ah_milp_needs needs;
    random_configs(&it->job, random, configs);
    int rc = ah_schedule_evaluate(schedule, &choice, &score, &err);
    if (rc == AH_E_FAILED)
        return; /* rings too small for this order */
    CHECK_OK(rc, err);
    check_work(&input, configs, &score);
    check_needs(&input, configs, &score, &knobs);
    CHECK_OK(ah_milp_needs(&input, configs, &needs, &err), err);
    tight->time += needs.time_us / score.period_us;
    tight->device += (double)needs.device_bytes / (double)score.device.live_bytes;
    tight->host +=
        (1.0 + (double)needs.host_bytes) / (1.0 + (double)(score.pinned_bytes + score.pageable_bytes));
    tight->n++;
    input.most_fetch_ahead = 0;
    input.most_tile_elements = 0;
    check_needs(&input, configs, &score, &knobs);
    if (instance_below(random, CHOICES))
        return;
    tight->priced += priced(input, configs, &score, check_uniform(random)) / score.period_us;
    tight->n_priced++;
}

static void check_instances(uint64_t random, bool shared)
{
    struct tightness tight = {0};
    for (int i = 0; i < (int)check_scaled(INSTANCES); i++) {
        struct instance it;
        struct ah_schedule schedule = {0};
        struct ah_error err = {0};
        if (!instance_open_as(&it, &random, 1 + instance_below(&random, 6), shared))
            continue;
        CHECK_OK(ah_schedule_init(&schedule, &it.job, &err), err);
        for (int c = 0; c < CHOICES; c++)
            check_choice(&it, &schedule, &random, &tight);
        ah_schedule_release(&schedule);
        instance_close(&it);
    }
    print_message("%zu choices; rows over schedule, mean: time %.3f, device %.3f, host %.3f, prices %.3f\n",
                  tight.n, tight.time / (double)tight.n, tight.device / (double)tight.n,
                  tight.host / (double)tight.n, tight.priced / (double)tight.n_priced);
    assert_true(tight.priced > 0.5 * (double)tight.n_priced);
    assert_true(tight.n > check_scaled(INSTANCES) * CHOICES / 2);
}

TEST(rows, never_say_more_than_the_schedule)
{
    check_instances(check_seed(20260721), false);
}

TEST(rows, never_say_more_than_the_schedule_of_ranks_that_share_states)
{
    check_instances(check_seed(20261128), true);
}
