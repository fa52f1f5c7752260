/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests exports of random plans. If a target can set what stays on the device, an export asks for no more there than
 * the plan keeps. A plan is exported without loss exactly if the target can express all of it.
 */
#include "planner/export/export.h"

#include "tests/support/documents.h"

#include <stdlib.h>
#include <string.h>

#define PATH "tests/cli/documents/plan.json"

enum { ROUNDS = 3000, LAYERS_MAX = 40 };

struct totals {
    uint64_t layers, keep, trained, host;
    bool resident; /* nothing on the host, nothing recomputed */
};

static const struct ah_export_setting *find(const struct ah_export *export, const char *path)
{
    for (size_t i = 0; i < export->n_settings; i++)
        if (!strcmp(export->settings[i].path, path))
            return &export->settings[i];
    return NULL;
}

/* Draws few or many kinds of blocks, because a plan that mixes everything is never exported exactly. */
static void randomize(struct ah_plan *plan, struct ah_plan_block *blocks, uint64_t *seed)
{
    unsigned kinds = 1 + (unsigned)(check_random(seed) % 4);
    plan->n_blocks = 3 + check_random(seed) % (LAYERS_MAX - 2);
    plan->blocks = blocks;
    for (size_t i = 0; i < plan->n_blocks; i++) {
        bool layer = i > 0 && i + 1 < plan->n_blocks;
        struct ah_plan_block *block = &blocks[i];
        *block = (struct ah_plan_block){.index = i, .parameters = 1 + check_random(seed) % 100000};
        block->activations =
            layer ? (enum ah_activations)(check_random(seed) % kinds % 3) : AH_ACTIVATIONS_KEEP;
        block->optimizer = (enum ah_optimizer)(check_random(seed) % kinds % 4);
        if (block->optimizer != AH_OPTIMIZER_DEVICE)
            block->weights = (enum ah_weights)(check_random(seed) % kinds % 2);
    }
    plan->lanes.n_order[AH_PLAN_LANE_H2D] = plan->lanes.n_order[AH_PLAN_LANE_D2H] =
        plan->lanes.n_order[AH_PLAN_LANE_HOST] = 0;
    for (size_t i = 0; i < plan->n_blocks; i++)
        plan->lanes.n_order[AH_PLAN_LANE_H2D] += blocks[i].weights == AH_WEIGHTS_HOST ||
                                                 blocks[i].optimizer == AH_OPTIMIZER_HOST ||
                                                 blocks[i].optimizer == AH_OPTIMIZER_STREAMED;
}

static struct totals add_up(const struct ah_plan *plan)
{
    struct totals totals = {.layers = plan->n_blocks - 2, .resident = true};
    for (size_t i = 0; i < plan->n_blocks; i++) {
        const struct ah_plan_block *block = &plan->blocks[i];
        bool host = block->optimizer == AH_OPTIMIZER_HOST || block->optimizer == AH_OPTIMIZER_STREAMED;
        bool layer = i > 0 && i + 1 < plan->n_blocks;
        totals.keep += layer && block->activations == AH_ACTIVATIONS_KEEP;
        totals.trained += block->optimizer == AH_OPTIMIZER_NONE ? 0 : block->parameters;
        totals.host += host ? block->parameters : 0;
        if (host || block->weights == AH_WEIGHTS_HOST || block->activations != AH_ACTIVATIONS_KEEP)
            totals.resident = false;
    }
    return totals;
}

/* Returns the number of layers that the target keeps whole, counted as its documentation does. */
static uint64_t kept_layers(const struct ah_export *export, const struct totals *totals)
{
    const struct ah_export_setting *mode = find(export, "activation_checkpoint.mode");
    const struct ah_export_setting *option = find(export, "activation_checkpoint.selective_ac_option");
    const struct ah_export_setting *layers = find(export, "recompute-num-layers");
    if (export->target == AH_EXPORT_MEGATRON)
        return totals->layers - (layers ? layers->integer : 0);
    if (!strcmp(mode->text, "none"))
        return totals->layers;
    if (!strcmp(mode->text, "full") || !strcmp(option->text, "op"))
        return 0;
    return totals->layers - totals->layers / strtoull(option->text, NULL, 10);
}

static void check_memory(const struct ah_export *export, const struct totals *totals)
{
    const struct ah_export_setting *stage = find(export, "zero_optimization.stage");
    const struct ah_export_setting *ratio = find(export, "zero_optimization.offload_optimizer.ratio");
    const struct ah_export_setting *fraction = find(export, "optimizer-offload-fraction");
    const struct ah_export_setting *offload = find(export, "training.enable_cpu_offload");
    double share = 0;
    if (export->target == AH_EXPORT_DEEPSPEED)
        share = ratio ? ratio->number : stage->integer > 0 ? 1 : 0;
    else if (export->target == AH_EXPORT_MEGATRON)
        share = fraction ? fraction->number : 0;
    else
        share = (double)offload->integer;
    assert_true(share <= 1 && share * (double)totals->trained >= (double)totals->host);
    if (export->target != AH_EXPORT_DEEPSPEED)
        assert_true(kept_layers(export, totals) <= totals->keep);
}

TEST(export, never_asks_for_more_device_memory_than_the_plan)
{
    struct ah_document document;
    struct ah_error err = {0};
    uint64_t seed = check_seed(20261121);
    size_t exact = 0;
    load_document(&document, PATH, AH_DOCUMENT_PLAN);
    for (size_t round = 0; round < ROUNDS; round++) {
        struct ah_plan_block blocks[LAYERS_MAX + 2];
        struct ah_plan plan = *document.body.plan;
        randomize(&plan, blocks, &seed);
        struct totals totals = add_up(&plan);
        for (unsigned target = 0; ah_words_export_target[target]; target++) {
            struct ah_arena arena = {0};
            struct ah_export export;
            CHECK_OK(ah_export_plan(&plan, "", (enum ah_export_target)target, &arena, &export, &err), err);
            check_memory(&export, &totals);
            assert_int_equal(export.n_losses == 0, totals.resident);
            exact += export.n_losses == 0;
            ah_arena_release(&arena);
        }
    }
    assert_true(exact > 30); /* both outcomes occurred */
    assert_true(exact < 2 * (size_t)ROUNDS);
    ah_document_release(&document);
}
