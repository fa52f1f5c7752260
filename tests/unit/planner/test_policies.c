/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares policies with the table of docs/policies/README.md, row by row. Strings have one letter per block: "k s r"
 * for activations, "d h" for weights, "d h" for the optimizer.
 */
#include "planner/policies/policies.h"

#include "tests/property/schedule/jobs.h"

static void open_job(struct test_job *j, uint64_t micro_batches)
{
    test_job_open(
        j, "tiny",
        (struct ah_plan_training){.batch = 4, .micro_batches = micro_batches, .seq = 64, .dtype = AH_BF16});
    assert_int_equal(j->job.n_blocks, 8);
}

static const struct {
    enum ah_policy policy;
    uint32_t numbers[AH_PLAN_POLICY_NUMBERS];
    const char *activations, *weights, *optimizer;
} settings[] = {
    {AH_POLICY_RESIDENT, {0}, "kkkkkkkk", "dddddddd", "dddddddd"},
    {AH_POLICY_RESIDENT, {1}, "kssssssk", "dddddddd", "dddddddd"},
    {AH_POLICY_RESIDENT, {2}, "krrrrrrk", "dddddddd", "dddddddd"},
    {AH_POLICY_ZERO_OFFLOAD, {0, 8}, "kkkkkkkk", "dddddddd", "hhhhhhhh"},
    {AH_POLICY_ZERO_OFFLOAD, {1, 3}, "krrrrrrk", "dddddddd", "hhhddddd"},
    {AH_POLICY_PATRICKSTAR, {0, 2, 5}, "kkkkkkkk", "hhdddddd", "hhhddddd"},
    {AH_POLICY_PATRICKSTAR, {1, 0, 0}, "krrrrrrk", "dddddddd", "hhhhhhhh"},
    {AH_POLICY_STRONGHOLD, {0, 2, 0}, "kkkkkkkk", "dddhhhhd", "dddhhhhd"},
    {AH_POLICY_STRONGHOLD, {1, 0, 1}, "krrrrrrk", "dhhhhhhd", "hhhhhhhh"},
    {AH_POLICY_STREAM, {0, 0}, "krrrrrrk", "hhhhhhhh", "hhhhhhhh"},
    {AH_POLICY_STREAM, {1, 1}, "kkkkkkkk", "dhhhhhhd", "hhhhhhhh"},
    {AH_POLICY_AUTOHETE_PAPER, {2, 3}, "krrkkkkk", "dddddddd", "dddddhhh"},
    {AH_POLICY_AUTOHETE_PAPER, {0, 8}, "kkkkkkkk", "dddddddd", "hhhhhhhh"},
    {AH_POLICY_AUTOHETE_PAPER, {6, 11}, "krrrrrrk", "hhhddddd", "hhhhhhhh"},
};

TEST(policies, place_as_documented)
{
    struct test_job j;
    struct ah_config configs[8];
    open_job(&j, 1);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        assert_true(ah_policies_configs(&j.job, settings[i].policy, settings[i].numbers, configs));
        for (size_t block = 0; block < 8; block++) {
            bool tied = j.job.model->tied && block == 7; /* the head has no weights of its own */
            assert_int_equal("ksr"[configs[block].activations], settings[i].activations[block]);
            assert_int_equal("dh"[configs[block].weights], settings[i].weights[block]);
            if (!tied && ah_job_block(&j.job, block)->trained_elements)
                assert_int_equal("dh"[configs[block].optimizer], settings[i].optimizer[block]);
        }
    }
    test_job_close(&j);
}

TEST(policies, place_only_what_blocks_may_have)
{
    static const char *frozen[] = {"*", "!embedding.*", "!layer.0.*", "!layer.4.*"};
    for (uint64_t micro_batches = 1; micro_batches <= 2; micro_batches++) {
        struct test_job j;
        struct ah_config configs[8], all[AH_CONFIGS_MAX];
        test_job_open(&j, "tiny",
                      (struct ah_plan_training){.batch = 4,
                                                .micro_batches = micro_batches,
                                                .seq = 64,
                                                .dtype = AH_BF16,
                                                .trainable = frozen,
                                                .n_trainable = 4});
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
            assert_true(ah_policies_configs(&j.job, settings[i].policy, settings[i].numbers, configs));
            for (size_t block = 0; block < 8; block++) {
                size_t n = ah_configs(&j.job, ah_job_block(&j.job, block), all), k = 0;
                while (k < n && memcmp(&all[k], &configs[block], sizeof *all) != 0)
                    k++;
                assert_true(k < n);
            }
        }
        test_job_close(&j);
    }
}

TEST(policies, families_are_as_large_as_documented)
{
    static const uint32_t expected[][AH_PLAN_POLICY_NUMBERS] = {
        [AH_POLICY_RESIDENT] = {3, 1, 1},    [AH_POLICY_ZERO_OFFLOAD] = {2, 9, 1},
        [AH_POLICY_PATRICKSTAR] = {2, 9, 9}, [AH_POLICY_STRONGHOLD] = {2, 7, 2},
        [AH_POLICY_STREAM] = {2, 2, 1},      [AH_POLICY_AUTOHETE_PAPER] = {7, 17, 1}};
    struct test_job j;
    open_job(&j, 1);
    for (size_t policy = 0; policy < sizeof expected / sizeof *expected; policy++) {
        uint32_t sizes[AH_PLAN_POLICY_NUMBERS];
        ah_policies_sizes(&j.job, (enum ah_policy)policy, sizes);
        assert_memory_equal(sizes, expected[policy], sizeof sizes);
    }
    struct ah_config configs[8];
    assert_false(ah_policies_configs(&j.job, AH_POLICY_PATRICKSTAR, (const uint32_t[]){0, 5, 4}, configs));
    test_job_close(&j);
}

/* Plans of a policy overlap only work that the policy's system can overlap. */
TEST(policies, keep_the_rules_of_their_systems)
{
    static const struct {
        bool updates_after_backward, step_ends, block_major;
        uint32_t least_fetch_ahead, most_fetch_ahead;
    } rules[] = {[AH_POLICY_RESIDENT] = {true, true, false, 0, 0},
                 [AH_POLICY_ZERO_OFFLOAD] = {true, true, false, 0, 0},
                 [AH_POLICY_PATRICKSTAR] = {true, true, false, 0, 1},
                 [AH_POLICY_STRONGHOLD] = {false, true, false, 1, 8},
                 [AH_POLICY_STREAM] = {false, true, true, 1, 2},
                 [AH_POLICY_AUTOHETE_PAPER] = {false, false, false, 1, 8}};
    struct test_job j;
    open_job(&j, 2);
    for (size_t policy = 0; policy < sizeof rules / sizeof *rules; policy++) {
        struct ah_knobs knobs;
        bool block_major = false;
        uint32_t least = UINT32_MAX, most = 0;
        size_t n = 0;
        for (; ah_policies_knobs(&j.job, (enum ah_policy)policy, AH_SCHEDULING_PRIORITY, n, &knobs); n++) {
            assert_int_equal(knobs.updates_after_backward, rules[policy].updates_after_backward);
            assert_int_equal(knobs.step_ends, rules[policy].step_ends);
            assert_int_equal(knobs.scheduling, policy == AH_POLICY_AUTOHETE_PAPER ? AH_SCHEDULING_PRIORITY
                                                                                  : AH_SCHEDULING_FIFO);
            assert_int_equal(knobs.device_state_tiles, 0);
            block_major |= knobs.micro_order == AH_BLOCK_MAJOR;
            least = knobs.fetch_ahead < least ? knobs.fetch_ahead : least;
            most = knobs.fetch_ahead > most ? knobs.fetch_ahead : most;
        }
        assert_true(n >= 3);
        assert_int_equal(block_major, rules[policy].block_major);
        assert_int_equal(least, rules[policy].least_fetch_ahead);
        assert_int_equal(most, rules[policy].most_fetch_ahead);
    }
    test_job_close(&j);
}
