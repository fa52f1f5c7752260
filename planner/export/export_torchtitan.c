/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports for torchtitan: a TOML file for its JobConfig.
 *
 * Activations are all kept, all selective ("op"), all recomputed, or recomputed in every n-th layer. n is the largest
 * number with which at least as many layers are recomputed as in the plan. Offload is all or nothing. docs/export.md
 * has the source of every key.
 */
#include "planner/export/export_internal.h"

#include <math.h>
#include <stdio.h>

static void put_training(struct ah_export_draft *draft, bool offload)
{
    const struct ah_plan_training *training = &draft->plan->training;
    ah_export_add_integer(draft, "training.local_batch_size", training->batch / training->micro_batches);
    ah_export_add_integer(draft, "training.global_batch_size", training->batch);
    ah_export_add_integer(draft, "training.seq_len", training->seq);
    ah_export_add_number(draft, "training.max_norm", training->clip > 0 ? training->clip : (double)INFINITY);
    ah_export_add_text(draft, "training.mixed_precision_param",
                       training->dtype == AH_BF16 ? "bfloat16" : "float32");
    ah_export_add_bool(draft, "training.enable_cpu_offload", offload);
}

/* True if the plan recomputes exactly layers n, 2n, and so on, counted from 1. */
static bool every_nth(const struct ah_plan *plan, size_t n)
{
    for (size_t i = 1; i + 1 < plan->n_blocks; i++)
        if (ah_export_recomputes(&plan->blocks[i]) != (i % n == 0))
            return false;
    return true;
}

static void put_every_nth(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    size_t n = sums->layers / sums->layers_recompute;
    char *text = ah_arena_alloc(draft->arena, 24);
    if (!text) {
        draft->failed = true;
        return;
    }
    snprintf(text, 24, "%zu", n);
    ah_export_add_text(draft, "activation_checkpoint.mode", n > 1 ? "selective" : "full");
    if (n > 1)
        ah_export_add_text(draft, "activation_checkpoint.selective_ac_option", text);
    if (!every_nth(draft->plan, n))
        ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.activations", ah_export_recomputes,
                       "recomputed, other layers not",
                       n > 1 ? "torchtitan recomputes every n-th layer, at least as many"
                             : "torchtitan recomputes all layers");
}

static void put_selective(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    ah_export_add_text(draft, "activation_checkpoint.mode", "selective");
    ah_export_add_text(draft, "activation_checkpoint.selective_ac_option", "op");
    ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.activations", ah_export_selective,
                   "norms, rope and the MLP's product are recomputed",
                   sums->layers_selective < sums->layers
                       ? "torchtitan recomputes these and every other matrix product, in all layers"
                       : "torchtitan recomputes these and every other matrix product");
}

static void put_activations(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    if (!sums->layers_recompute && !sums->layers_selective) {
        ah_export_add_text(draft, "activation_checkpoint.mode", "none");
    } else if (!sums->layers_recompute) {
        put_selective(draft);
    } else if (!sums->layers_selective) {
        put_every_nth(draft);
    } else {
        ah_export_add_text(draft, "activation_checkpoint.mode", "full");
        ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.activations", ah_export_selective,
                       "norms, rope and the MLP's product are recomputed",
                       "torchtitan recomputes all layers");
        if (sums->layers_recompute + sums->layers_selective < sums->layers)
            ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.activations", ah_export_recomputes,
                           "recomputed, other layers not", "torchtitan recomputes all layers");
    }
}

static bool resident(const struct ah_plan_block *block)
{
    return ah_export_weights_device(block) || ah_export_optimizer_device(block);
}

static bool offloaded(const struct ah_plan_block *block)
{
    return ah_export_weights_host(block) || ah_export_optimizer_host(block);
}

void ah_export_torchtitan(struct ah_export_draft *draft)
{
    bool offload = draft->sums.host_parameters || draft->sums.largest_host_weight;
    put_training(draft, offload);
    put_activations(draft);
    if (offload) {
        ah_export_lose(draft, AH_EXPORT_MEMORY, "blocks.weights", offloaded,
                       "weights, or optimizer alone, on the host",
                       "torchtitan offloads only with FSDP, which needs two or more processes: a single GPU "
                       "cannot offload");
        ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.weights", resident,
                       "weights, or optimizer too, stay on the device",
                       "torchtitan offloads weights, gradients and states of either all blocks or none");
    }
    if (draft->plan->training.state_dtype != AH_FP32)
        ah_export_lose(draft, AH_EXPORT_MEMORY, "training.state_dtype", NULL,
                       "moments are bf16, rounded stochastically",
                       "torchtitan keeps moments in the weights' fp32");
    ah_export_add_note(draft, "the model's shape comes from model.name and model.flavor");
}
