/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports for Megatron: arguments of its training scripts, as a bash array.
 *
 * If n layers of the plan do not keep everything, the first n layers are recomputed whole. The export then fits;
 * Megatron's selective recompute would save less memory than ours. The optimizer's share on the host begins with the
 * first parameters. docs/export.md has the source of every argument.
 */
#include "planner/export/export_internal.h"

static void put_batch(struct ah_export_draft *draft)
{
    const struct ah_plan_training *training = &draft->plan->training;
    ah_export_add_integer(draft, "num-layers", draft->sums.layers);
    ah_export_add_integer(draft, "seq-length", training->seq);
    ah_export_add_integer(draft, "micro-batch-size", training->batch / training->micro_batches);
    ah_export_add_integer(draft, "global-batch-size", training->batch);
    if (training->dtype == AH_BF16)
        ah_export_add_flag(draft, "bf16");
    ah_export_add_number(draft, "clip-grad", training->clip);
}

static void put_recompute(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    size_t layers = sums->layers_recompute + sums->layers_selective;
    if (!layers)
        return;
    ah_export_add_text(draft, "recompute-granularity", "full");
    ah_export_add_text(draft, "recompute-method", "block");
    ah_export_add_integer(draft, "recompute-num-layers", layers);
    ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.activations", ah_export_selective,
                   "norms, rope and the MLP's product are recomputed", "Megatron recomputes whole layers");
    if (!sums->saving_first)
        ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.activations", ah_export_saves_less, "recomputed",
                       "Megatron recomputes the same number of layers, but the first ones");
}

static void put_optimizer(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    bool small_states = draft->plan->training.state_dtype != AH_FP32;
    if (!sums->host_parameters && !small_states)
        return;
    ah_export_add_flag(draft, "use-distributed-optimizer");
    ah_export_add_flag(draft, "use-precision-aware-optimizer");
    if (small_states) {
        ah_export_add_text(draft, "exp-avg-dtype", "bf16");
        ah_export_add_text(draft, "exp-avg-sq-dtype", "bf16");
        ah_export_lose(draft, AH_EXPORT_RESULT, "training.state_dtype", NULL,
                       "bf16 moments are rounded stochastically", "Megatron rounds them to nearest");
    }
    if (!sums->host_parameters)
        return;
    ah_export_add_flag(draft, "optimizer-cpu-offload");
    ah_export_add_number(draft, "optimizer-offload-fraction", ah_export_host_share(sums));
    ah_export_add_flag(draft, "overlap-cpu-optimizer-d2h-h2d");
    if (!sums->host_first)
        ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.optimizer", ah_export_optimizer_host,
                       "optimizer on the host",
                       "Megatron offloads the same share of the parameters, but always the first ones");
}

static bool sums_on_host(const struct ah_plan_block *block)
{
    return block->accumulator == AH_ACCUMULATOR_HOST;
}

void ah_export_megatron(struct ah_export_draft *draft)
{
    put_batch(draft);
    put_recompute(draft);
    put_optimizer(draft);
    ah_export_lose(draft, AH_EXPORT_MEMORY, "blocks.weights", ah_export_weights_host,
                   "weights on the host, fetched before use",
                   "Megatron keeps all weights on the device: it needs more memory than the plan");
    ah_export_lose(draft, AH_EXPORT_MEMORY, "blocks.accumulator", sums_on_host,
                   "gradients of micro-batches summed on the host",
                   "Megatron sums them on the device, in fp32");
    ah_export_add_note(draft, "the model's shape (hidden size, heads, query groups, ffn, positions, tying) "
                              "needs its own arguments");
}
