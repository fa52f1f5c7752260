/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a cycle's ops stay within their arenas and cover each group's passes in each way, in separate memory.
 */
#include "profiler/cycle_internal.h"

#include "tests/property/schedule/jobs.h"

static const struct ah_cycle_limits plenty = {.layers = 4, .bytes = UINT64_C(1) << 40};

static void open_cycle(struct test_job *job, struct ah_cycle *cycle, const char *model,
                       const struct ah_cycle_limits *limits)
{
    struct ah_error err = {0};
    test_job_open(job, model, (struct ah_plan_training){.batch = 2, .micro_batches = 1, .seq = 64});
    CHECK_OK(ah_cycle_init(cycle, &job->job, limits, &err), err);
}

static void close_cycle(struct test_job *job, struct ah_cycle *cycle)
{
    ah_cycle_release(cycle);
    test_job_close(job);
}

/* Counts passes of layers by pass and way. Checks that passes follow each other without gaps between their ops. */
static void count_passes(const struct ah_cycle *cycle, unsigned ret_counts[2][AH_ACTIVATIONS_WAYS])
{
    size_t begin = 0;
    memset(ret_counts, 0, 2 * sizeof *ret_counts);
    for (size_t i = 0; i < cycle->n_passes; i++) {
        const struct ah_cycle_pass *pass = &cycle->passes[i];
        assert_true(pass->end > begin && pass->end <= cycle->n_ops);
        begin = pass->end;
        ret_counts[pass->pass][pass->activations] += pass->group->kind == AH_BLOCK_LAYER;
    }
    assert_int_equal(begin, cycle->n_ops);
}

TEST(cycle, ops_are_sound)
{
    for (size_t i = 0; i < TEST_MODELS; i++) {
        struct test_job job;
        struct ah_cycle cycle;
        struct ah_error err = {0};
        unsigned counts[2][AH_ACTIVATIONS_WAYS];
        open_cycle(&job, &cycle, test_models[i], &plenty);
        for (size_t op = 0; op < cycle.n_ops; op++)
            CHECK_OK(ah_op_check(&cycle.ops[op], cycle.arena_bytes, &err), err);
        count_passes(&cycle, counts);
        for (int pass = 0; pass < 2; pass++)
            for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
                assert_true(counts[pass][way] > 0);
        close_cycle(&job, &cycle);
    }
}

/* With two layers, a cycle has three turns, so that each layer runs in every way. */
TEST(cycle, few_layers_take_turns)
{
    struct test_job job;
    struct ah_cycle cycle;
    unsigned counts[2][AH_ACTIVATIONS_WAYS];
    open_cycle(&job, &cycle, "tiny", &(struct ah_cycle_limits){.layers = 2, .bytes = plenty.bytes});
    count_passes(&cycle, counts);
    for (int pass = 0; pass < 2; pass++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            assert_int_equal(counts[pass][way], 2);
    /* On the left are three turns of two layers, on the right one turn of three layers. */
    assert_true(ah_cycle_flops(&job.job, 2) >= 2 * ah_cycle_flops(&job.job, 3));
    close_cycle(&job, &cycle);
}

static bool overlap(struct ah_ref a, uint64_t a_bytes, struct ah_ref b, uint64_t b_bytes)
{
    return a.offset_bytes < b.offset_bytes + b_bytes && b.offset_bytes < a.offset_bytes + a_bytes;
}

TEST(cycle, blocks_have_places_of_their_own)
{
    struct test_job job;
    struct ah_cycle cycle;
    open_cycle(&job, &cycle, "gpt2-124m", &plenty);
    assert_int_equal(cycle.n_blocks, 6);
    for (size_t i = 0; i < cycle.n_blocks; i++)
        for (size_t j = 0; j < i; j++) {
            const struct ah_cycle_block *a = &cycle.blocks[i], *b = &cycle.blocks[j];
            uint64_t a_saved = a->group->saved_bytes[0], b_weights = b->group->flat_elements * 4;
            assert_false(overlap(a->saved, a_saved, b->saved, b->group->saved_bytes[0]));
            assert_false(overlap(a->weights, a->group->flat_elements * 4, b->weights, b_weights));
            assert_false(overlap(a->saved, a_saved, b->weights, b_weights));
            assert_false(overlap(a->saved, a_saved, b->gradients, b->group->trained_elements * 4));
        }
    close_cycle(&job, &cycle);
}

TEST(cycle, fits)
{
    struct test_job job;
    struct ah_cycle cycle, smaller;
    struct ah_error err = {0};
    open_cycle(&job, &cycle, "gpt2-124m", &plenty);
    struct ah_cycle_limits tight = {.layers = 4, .bytes = cycle.arena_bytes[AH_ARENA_DEVICE] - 1};
    CHECK_OK(ah_cycle_init(&smaller, &job.job, &tight, &err), err);
    assert_int_equal(smaller.n_blocks, 5);
    assert_true(smaller.arena_bytes[AH_ARENA_DEVICE] <= tight.bytes);
    ah_cycle_release(&smaller);
    tight.bytes = 1 << 20;
    CHECK_FAILS(ah_cycle_init(&smaller, &job.job, &tight, &err), err, AH_E_CAPACITY, "1048576 are free");
    close_cycle(&job, &cycle);
}
