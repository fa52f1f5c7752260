/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests random changes to choices: they reach every allowed config and knob, and no other.
 */
#include "planner/search/vary.h"

#include "planner/search/knobs.h"
#include "tests/property/planner/instances.h"

/* Opens a random instance with random restrictions, sometimes with frozen blocks or micro-batches. */
static bool open_instance(struct instance *it, uint64_t *random, uint32_t allowed[INSTANCE_BLOCKS])
{
    struct ah_config all[AH_CONFIGS_MAX];
    if (!instance_open(it, random, 1 + instance_below(random, 6)))
        return false;
    for (size_t block = 0; block < it->job.n_blocks; block++) {
        size_t n = ah_configs(&it->job, ah_job_block(&it->job, block), all);
        allowed[block] = (uint32_t)instance_below(random, UINT64_C(1) << n) | 1u << instance_below(random, n);
    }
    return true;
}

static void first_choice(const struct ah_vary *vary, struct ah_config *ret_configs)
{
    for (size_t block = 0; block < vary->job->n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        assert_true(ah_vary_options(vary, block, all) > 0);
        ret_configs[block] = all[0];
    }
}

TEST(vary, gives_each_block_what_it_may_have)
{
    uint64_t random = check_seed(20261121);
    for (int i = 0; i < 40;) {
        struct instance it;
        uint32_t allowed[INSTANCE_BLOCKS];
        struct ah_config configs[INSTANCE_BLOCKS];
        if (!open_instance(&it, &random, allowed))
            continue;
        i++;
        const struct ah_vary vary = {&it.job, allowed};
        struct ah_knobs knobs = ah_knobs_first(&it.job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR);
        first_choice(&vary, configs);
        for (int change = 0; change < 500; change++) {
            ah_vary_choice(&vary, &random, configs, &knobs);
            for (size_t block = 0; block < it.job.n_blocks; block++)
                assert_true(ah_vary_allows(&vary, block, &configs[block]));
            assert_true(knobs.tile_elements > 0 && knobs.device_state_tiles > 0);
        }
        instance_close(&it);
    }
}

TEST(vary, says_whether_anything_changed)
{
    uint64_t random = 3, seed = 5, unchanged = 0;
    struct instance it;
    while (!instance_open(&it, &seed, 6))
        ;
    const struct ah_vary vary = {&it.job, NULL};
    struct ah_knobs knobs = ah_knobs_first(&it.job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR);
    struct ah_config configs[INSTANCE_BLOCKS], before[INSTANCE_BLOCKS];
    first_choice(&vary, configs);
    for (int change = 0; change < 2000; change++) {
        struct ah_knobs knobs_before = knobs;
        memcpy(before, configs, sizeof before);
        if (ah_vary_choice(&vary, &random, configs, &knobs))
            continue;
        unchanged++;
        assert_memory_equal(before, configs, it.job.n_blocks * sizeof *configs);
        assert_true(ah_knobs_equal(&knobs_before, &knobs));
    }
    assert_true(unchanged > 0 && unchanged < 1000);
    instance_close(&it);
}

/* Every config of every block and every knob is reached. */
TEST(vary, reaches_everything)
{
    uint64_t random = 11, seed = 5;
    uint32_t seen[INSTANCE_BLOCKS] = {0};
    struct instance it;
    while (!instance_open(&it, &seed, 4))
        ;
    const struct ah_vary vary = {&it.job, NULL};
    struct ah_knobs knobs = ah_knobs_first(&it.job, AH_SCHEDULING_PRIORITY, AH_MICRO_BATCH_MAJOR),
                    first = knobs;
    struct ah_config configs[INSTANCE_BLOCKS];
    bool moved[6] = {false};
    first_choice(&vary, configs);
    for (int change = 0; change < 20000; change++) {
        ah_vary_choice(&vary, &random, configs, &knobs);
        for (size_t block = 0; block < it.job.n_blocks; block++) {
            struct ah_config all[AH_CONFIGS_MAX];
            size_t n = ah_vary_options(&vary, block, all);
            for (size_t i = 0; i < n; i++)
                if (!memcmp(&all[i], &configs[block], sizeof all[i]))
                    seen[block] |= 1u << i;
        }
        const bool differ[6] = {knobs.tile_elements != first.tile_elements,
                                knobs.fetch_ahead != first.fetch_ahead,
                                knobs.send_behind != first.send_behind,
                                knobs.host_gradient_tiles != first.host_gradient_tiles,
                                knobs.host_weight_tiles != first.host_weight_tiles,
                                knobs.device_state_tiles != first.device_state_tiles};
        for (size_t i = 0; i < 6; i++)
            moved[i] |= differ[i];
    }
    for (size_t i = 0; i < 6; i++)
        assert_true(moved[i]);
    for (size_t block = 0; block < it.job.n_blocks; block++) {
        struct ah_config all[AH_CONFIGS_MAX];
        assert_int_equal(seen[block], (UINT64_C(1) << ah_vary_options(&vary, block, all)) - 1);
    }
    instance_close(&it);
}
