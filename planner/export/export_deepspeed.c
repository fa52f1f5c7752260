/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports for DeepSpeed: a configuration in JSON. The plan decides the ZeRO stage:
 *
 *     nothing on the host                  0
 *     all optimizers on the host           2, offload_optimizer
 *     some optimizers on the host          3, offload_optimizer.ratio (only stage 3 has it)
 *     weights on the host                  3, offload_param
 *
 * docs/export.md has the source of every key.
 */
#include "planner/export/export_internal.h"

static void put_batch(struct ah_export_draft *draft)
{
    const struct ah_plan_training *training = &draft->plan->training;
    ah_export_add_integer(draft, "train_batch_size", training->batch);
    ah_export_add_integer(draft, "train_micro_batch_size_per_gpu", training->batch / training->micro_batches);
    ah_export_add_integer(draft, "gradient_accumulation_steps", training->micro_batches);
    ah_export_add_bool(draft, "bf16.enabled", training->dtype == AH_BF16);
    ah_export_add_number(draft, "gradient_clipping", training->clip);
}

static void put_weights(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    ah_export_add_text(draft, "zero_optimization.offload_param.device", "cpu");
    ah_export_add_bool(draft, "zero_optimization.offload_param.pin_memory", true);
    ah_export_add_integer(draft, "zero_optimization.stage3_max_live_parameters",
                          sums->device_weights + 2 * sums->largest_host_weight);
    ah_export_add_integer(draft, "zero_optimization.stage3_max_reuse_distance", sums->device_weights);
    ah_export_add_integer(draft, "zero_optimization.stage3_prefetch_bucket_size", sums->largest_host_weight);
    ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.weights", ah_export_weights_device,
                   "weights stay on the device",
                   "DeepSpeed keeps every weight on the host, and on the device at most "
                   "stage3_max_live_parameters of them");
}

static void put_optimizers(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    double share = ah_export_host_share(sums);
    ah_export_add_text(draft, "zero_optimization.offload_optimizer.device", "cpu");
    ah_export_add_bool(draft, "zero_optimization.offload_optimizer.pin_memory", true);
    if (share >= 1)
        return;
    ah_export_add_number(draft, "zero_optimization.offload_optimizer.ratio", share);
    ah_export_add_integer(draft, "zero_optimization.sub_group_size", sums->largest_block);
    if (!sums->host_first)
        ah_export_lose(draft, AH_EXPORT_SPEED, "blocks.optimizer", ah_export_optimizer_host,
                       "optimizer on the host",
                       "DeepSpeed offloads the same share of the parameters, but always the first ones");
}

static void put_zero(struct ah_export_draft *draft)
{
    const struct ah_export_sums *sums = &draft->sums;
    bool optimizers = sums->host_parameters != 0;
    bool weights = sums->largest_host_weight != 0;
    bool some = optimizers && sums->host_parameters != sums->trained_parameters;
    ah_export_add_integer(draft, "zero_optimization.stage", weights || some ? 3 : optimizers ? 2 : 0);
    if (!optimizers && !weights)
        return;
    ah_export_add_bool(draft, "zero_optimization.overlap_comm", true);
    ah_export_add_bool(draft, "zero_optimization.contiguous_gradients", true);
    if (optimizers)
        put_optimizers(draft);
    if (weights)
        put_weights(draft);
}

void ah_export_deepspeed(struct ah_export_draft *draft)
{
    put_batch(draft);
    put_zero(draft);
    ah_export_lose(draft, AH_EXPORT_MEMORY, "blocks.activations", ah_export_recomputes,
                   "recomputed from the block's input",
                   "DeepSpeed has no setting for this: checkpoint these blocks in the model's code");
    ah_export_lose(draft, AH_EXPORT_MEMORY, "blocks.activations", ah_export_selective,
                   "norms, rope and the MLP's product are recomputed",
                   "DeepSpeed has no setting for this: checkpoint these parts in the model's code");
    if (draft->plan->training.state_dtype != AH_FP32)
        ah_export_lose(draft, AH_EXPORT_MEMORY, "training.state_dtype", NULL,
                       "moments are bf16, rounded stochastically",
                       "DeepSpeed keeps fp32 moments: 4 more bytes per parameter");
    ah_export_add_note(draft, "the model's shape comes from the model passed to deepspeed.initialize()");
}
