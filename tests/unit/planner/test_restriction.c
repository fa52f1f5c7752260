/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which configs and orders are allowed when a request excludes techniques.
 */
#include "planner/policies/restriction.h"
#include "tests/support/check.h"

#include <string.h>

struct fixture {
    struct ah_model model;
    struct ah_arena arena;
    struct ah_job job;
    const char *patterns[2];
};

static void setup(struct fixture *f)
{
    struct ah_error err;
    *f = (struct fixture){.patterns = {"*", "!layer.1.*"}};
    f->model = (struct ah_model){.name = "small",
                                 .family = AH_FAMILY_GPT2,
                                 .layers = 3,
                                 .width = 64,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .head_dim = 16,
                                 .mlp_width = 256,
                                 .vocabulary = 300,
                                 .max_positions = 64,
                                 .padding_token = AH_MODEL_NO_PADDING,
                                 .position = AH_POSITION_LEARNED,
                                 .norm = AH_MODEL_NORM_LAYER,
                                 .norm_epsilon = 1e-5,
                                 .activation = AH_MODEL_GELU_TANH};
    struct ah_plan_training training = {.batch = 2,
                                        .micro_batches = 1,
                                        .seq = 32,
                                        .dtype = AH_BF16,
                                        .trainable = f->patterns,
                                        .n_trainable = 2};
    CHECK_OK(ah_job_init(&f->job, &f->model, &training, &f->arena, &err), err);
}

static struct ah_restriction without(struct fixture *f, uint32_t techniques)
{
    struct ah_restriction restriction;
    struct ah_error err;
    CHECK_OK(ah_restriction_init(&restriction, &f->job, techniques, &f->arena, &err), err);
    return restriction;
}

/* True if `block` may use its i-th config. Every other block uses its first allowed config. */
static bool block_may(const struct fixture *f, const struct ah_restriction *restriction, size_t block,
                      size_t i)
{
    struct ah_config configs[8], all[AH_CONFIGS_MAX];
    for (size_t other = 0; other < f->job.n_blocks; other++) {
        size_t n = ah_configs(&f->job, ah_job_block(&f->job, other), all), k = 0;
        while (restriction->allowed && k < n && !(restriction->allowed[other] >> k & 1))
            k++;
        assert_true(k < n);
        configs[other] = all[other == block ? i : k];
    }
    return ah_restriction_allows(restriction, &f->job, configs);
}

/* Excluding a technique forbids exactly the configs that use it, if the block has a choice. */
TEST(restriction, forbids_what_has_it)
{
    static const char *const none_forbidden_here[] = {"embedding", "head"};
    struct fixture f;
    setup(&f);
    for (uint32_t t = 0; t <= AH_TECHNIQUE_STREAMED; t++) {
        struct ah_restriction restriction = without(&f, UINT32_C(1) << t);
        size_t forbidden = 0;
        for (size_t block = 0; block < f.job.n_blocks; block++) {
            const struct ah_job_group *group = ah_job_block(&f.job, block);
            struct ah_config all[AH_CONFIGS_MAX];
            size_t n = ah_configs(&f.job, group, all);
            for (size_t i = 0; i < n; i++) {
                const bool has[] = {[AH_TECHNIQUE_KEEP] = all[i].activations == AH_ACTIVATIONS_KEEP &&
                                                          strcmp(group->name, none_forbidden_here[0]) &&
                                                          strcmp(group->name, none_forbidden_here[1]),
                                    [AH_TECHNIQUE_SELECTIVE] = all[i].activations == AH_ACTIVATIONS_SELECTIVE,
                                    [AH_TECHNIQUE_RECOMPUTE] = all[i].activations == AH_ACTIVATIONS_RECOMPUTE,
                                    [AH_TECHNIQUE_DEVICE_WEIGHTS] = all[i].weights == AH_WEIGHTS_DEVICE,
                                    [AH_TECHNIQUE_HOST_WEIGHTS] = all[i].weights == AH_WEIGHTS_HOST,
                                    [AH_TECHNIQUE_GATHERED_WEIGHTS] = false, /* of several GPUs only */
                                    [AH_TECHNIQUE_DEVICE_OPTIMIZER] = all[i].optimizer == AH_OPTIMIZER_DEVICE,
                                    [AH_TECHNIQUE_HOST_OPTIMIZER] = all[i].optimizer == AH_OPTIMIZER_HOST,
                                    [AH_TECHNIQUE_STREAMED] = all[i].optimizer == AH_OPTIMIZER_STREAMED};
                if (block_may(&f, &restriction, block, i) == has[t])
                    fail_msg("without %s: config %zu of %s", ah_words_technique[t], i, group->name);
                forbidden += has[t];
            }
        }
        assert_true(forbidden > 0 || t == AH_TECHNIQUE_GATHERED_WEIGHTS);
    }
    ah_arena_release(&f.arena);
}

TEST(restriction, none_restricts_nothing)
{
    struct fixture f;
    setup(&f);
    struct ah_restriction restriction = without(&f, 0);
    struct ah_knobs knobs = {.tile_elements = 4096, .fetch_ahead = 3, .host_weight_tiles = 5};
    struct ah_knobs same = ah_restriction_knobs(&restriction, &f.job, &knobs);
    assert_null(restriction.allowed);
    assert_int_equal(same.tile_elements, 4096);
    assert_int_equal(same.fetch_ahead, 3);
    assert_int_equal(same.host_weight_tiles, 5);
    assert_true(!same.step_ends && !same.updates_after_backward);
    ah_arena_release(&f.arena);
}

TEST(restriction, orders)
{
    struct fixture f;
    setup(&f);
    const struct ah_knobs knobs = {.tile_elements = 4096,
                                   .fetch_ahead = 3,
                                   .host_gradient_tiles = 8,
                                   .host_weight_tiles = 8,
                                   .device_state_tiles = 4};
    struct ah_restriction ends = without(&f, UINT32_C(1) << AH_TECHNIQUE_ITERATION_OVERLAP);
    struct ah_restriction late = without(&f, UINT32_C(1) << AH_TECHNIQUE_BACKWARD_OVERLAP);
    struct ah_restriction whole = without(&f, UINT32_C(1) << AH_TECHNIQUE_TILES);
    struct ah_knobs got = ah_restriction_knobs(&ends, &f.job, &knobs);
    assert_true(got.step_ends && !got.updates_after_backward);
    got = ah_restriction_knobs(&late, &f.job, &knobs);
    assert_true(!got.step_ends && got.updates_after_backward && got.tile_elements == 4096);
    got = ah_restriction_knobs(&whole, &f.job, &knobs);
    assert_true(!got.step_ends && !got.updates_after_backward && got.fetch_ahead == 3);
    assert_int_equal(got.host_gradient_tiles, 0);
    assert_int_equal(got.host_weight_tiles, 0);
    assert_int_equal(got.device_state_tiles, 2);
    for (size_t i = 0; i < f.job.n_groups; i++)
        assert_true(got.tile_elements >= f.job.groups[i].flat_elements);
    assert_int_equal(got.tile_elements % AH_PLAN_TILE_UNIT, 0);
    ah_arena_release(&f.arena);
}

TEST(restriction, nothing_left)
{
    struct fixture f;
    struct ah_restriction restriction;
    struct ah_error err;
    setup(&f);
    uint32_t all = UINT32_C(1) << AH_TECHNIQUE_DEVICE_OPTIMIZER | UINT32_C(1) << AH_TECHNIQUE_HOST_OPTIMIZER |
                   UINT32_C(1) << AH_TECHNIQUE_STREAMED;
    assert_int_equal(ah_restriction_init(&restriction, &f.job, all, &f.arena, &err), AH_E_USAGE);
    assert_non_null(strstr(err.text, "'embedding'"));
    ah_arena_release(&f.arena);
}

TEST(restriction, bits_and_lists_say_the_same)
{
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    for (uint32_t bits = 0; bits < UINT32_C(1) << AH_TECHNIQUES; bits += 37) {
        unsigned *techniques = NULL;
        size_t n = 0;
        CHECK_OK(ah_restriction_list(bits, &arena, &techniques, &n, &err), err);
        assert_int_equal(ah_restriction_bits(techniques, n), bits);
        for (size_t i = 1; i < n; i++)
            assert_true(techniques[i - 1] < techniques[i]);
    }
    ah_arena_release(&arena);
}
