/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of blocks, and of the tensors in a plan's arena. A tensor is named after its block, what it holds, and a number
 * (docs/planning.md, "Memory").
 */
#ifndef AH_RUNTIME_SCHEDULE_NAMES_H
#define AH_RUNTIME_SCHEDULE_NAMES_H

#include "base/buffer.h"
#include "runtime/schedule/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a tensor holds, and whose it is. */
struct ah_tensor_name {
    uint8_t label; /* enum ah_tensor_label */
    uint32_t block;
    uint32_t micro_batch;
};

/* Numbers of blocks: a plan counts its blocks from 0, but their names count in the model. */
struct ah_name_blocks {
    size_t of_model; /* number of blocks in the model */
    size_t first;    /* number in the model of the plan's block 0 */
};

static inline struct ah_name_blocks ah_names_of_plan(const struct ah_plan *plan)
{
    return (struct ah_name_blocks){ah_plan_model_blocks(plan), ah_plan_first_block(plan)};
}

static inline struct ah_name_blocks ah_names_of_job(const struct ah_job *job)
{
    return (struct ah_name_blocks){ah_model_blocks(job->model), job->part.first_block};
}

/* Size of a buffer in which every name fits. */
enum { AH_NAME_MAX = 96 };
void ah_name_block(struct ah_name_blocks blocks, size_t block, char ret_name[AH_NAME_MAX]);

/* Appends the names of blocks [first, end) as ranges: "embedding, layer.0-6", "layer.7", "layer.8-11, head". */
void ah_name_range(struct ah_name_blocks blocks, size_t first, size_t end, struct ah_buffer *out);

/* Returns the block of a tensor as a plan states it: AH_PLAN_NOWHERE if it belongs to no single block. */
static inline uint64_t ah_name_owner(const struct ah_tensor_name *name)
{
    return name->label == AH_TENSOR_STATE_RING || name->label == AH_TENSOR_TOKENS ? AH_PLAN_NOWHERE
                                                                                  : name->block;
}

/* Writes the name of the plan's i-th tensor, for messages: "layer.3.saved.0", "state_ring". */
void ah_name_tensor(const struct ah_plan *plan, size_t i, char ret_name[AH_NAME_MAX]);

#endif
