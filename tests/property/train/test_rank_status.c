/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what ranks report about their progress in training. All others wait for a delayed one, directly or in a chain.
 */
#include "runtime/train/behind.h"
#include "runtime/train/links.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/hooked.h"

#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

enum { STEPS = 20, RANKS = 3, HELD_AT_MOST_S = 200 };

static struct golden golden;
static struct pipeline pipeline;

/* Delays a rank until rank 0 has heard that all others wait for it. */
struct held {
    uint32_t slow;
    atomic_uint_fast64_t ops;
    atomic_bool is_held, seen;
    sem_t over;
    struct ah_trainer_beat last[RANKS]; /* last beat of each rank */
};

static void hold_up(void *context, const struct hooked_op *op)
{
    enum { AT = 40 };
    struct held *held = context;
    struct timespec until;
    if (op->lane != AH_LANE_COMPUTE || atomic_fetch_add(&held->ops, 1) != AT)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HELD_AT_MOST_S;
    atomic_store(&held->is_held, true);
    sem_timedwait(&held->over, &until);
}

/* True if all other ranks have been waiting for the delayed rank for some time. */
static bool all_wait(const struct held *held, const struct ah_trainer_beat *beats, uint32_t ranks)
{
    uint32_t waits_for[RANKS], root[RANKS];
    for (uint32_t rank = 0; rank < ranks; rank++)
        waits_for[rank] = beats[rank].waits ? beats[rank].peer : AH_BEHIND_NOBODY;
    ah_behind_find(waits_for, ranks, root);
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (root[rank] != held->slow || (rank != held->slow && !beats[rank].waits_ns))
            return false;
    return beats[held->slow].has_op && !beats[held->slow].waits;
}

static void hear(void *context, const struct ah_trainer_beat *beats, uint32_t ranks)
{
    struct held *held = context;
    memcpy(held->last, beats, (ranks < RANKS ? ranks : RANKS) * sizeof *beats);
    if (ranks != RANKS || !atomic_load(&held->is_held) || atomic_load(&held->seen) ||
        !all_wait(held, beats, ranks))
        return;
    atomic_store(&held->seen, true);
    sem_post(&held->over);
}

static void ignore_stall(void *context, const struct ah_error *why)
{
    (void)context;
    (void)why;
}

static int train_on(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                    struct ah_error *err)
{
    (void)context;
    (void)held_out;
    return ah_trainer_run(trainer, STEPS, NULL, err);
}

static void run_held(struct held *held)
{
    sem_init(&held->over, 0, 0);
    hooked_set(&(struct hooked_hooks){.before = hold_up, .context = held});
    for (size_t i = 0; i < pipeline.n; i++) {
        struct ah_trainer_options *options = &pipeline.stages[i].options;
        options->device.watch = (struct ah_device_watch){.patience_s = 0.4, .stalled = ignore_stall};
        options->tells = true;
    }
    pipeline.stages[0].options.heard = hear;
    pipeline.stages[0].options.heard_context = held;
    pipeline.stages[held->slow].options.driver = hooked_driver();
    pipeline_run(&pipeline, NULL, train_on, NULL);
    pipeline.stages[held->slow].options.driver = ah_device_cpu();
    pipeline_expect_ok(&pipeline);
    sem_destroy(&held->over);
}

TEST(rank_status, all_wait_for_the_rank_that_is_held_up)
{
    uint64_t seed = check_seed(71), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, "llama", AH_FP32, AH_FP32);
    for (uint32_t slow = 0; slow < RANKS; slow++) {
        static struct held held;
        held = (struct held){.slow = slow};
        pipeline_open(&pipeline, &golden, RANKS, turn, &seed);
        run_held(&held);
        assert_true(held.is_held);
        if (!held.seen)
            fail_msg("rank %" PRIu32 " was held up for %d s, and rank 0 never heard that all wait for it",
                     slow, HELD_AT_MOST_S);
        for (uint32_t rank = 0; rank < RANKS; rank++) /* reported once more at the end */
            assert_int_equal(held.last[rank].step, STEPS);
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

static void hear_alone(void *context, const struct ah_trainer_beat *beats, uint32_t ranks)
{
    struct held *held = context;
    held->last[0] = beats[0];
    if (ranks == 1 && atomic_load(&held->is_held) && beats[0].has_op && !beats[0].waits &&
        !atomic_exchange(&held->seen, true))
        sem_post(&held->over);
}

/* No stall limit is set, so the device may be delayed. */
TEST(rank_status, a_trainer_alone_tells_of_itself)
{
    struct held held = {.slow = 0};
    struct ah_trainer *trainer;
    struct ah_error err = {0};
    golden_open_as(&golden, "llama", AH_FP32, AH_FP32);
    golden_plan_resident(&golden);
    sem_init(&held.over, 0, 0);
    hooked_set(&(struct hooked_hooks){.before = hold_up, .context = &held});
    struct ah_trainer_options options = golden.options;
    options.driver = hooked_driver();
    options.tells = true;
    options.heard = hear_alone;
    options.heard_context = &held;
    CHECK_OK(ah_trainer_open(&trainer, &options, &err), err);
    CHECK_OK(ah_trainer_run(trainer, STEPS, NULL, &err), err);
    ah_trainer_close(trainer);
    assert_true(held.seen);
    assert_int_equal(held.last[0].step, STEPS);
    sem_destroy(&held.over);
    golden_close(&golden);
}
