/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of blocks, and of the tensors in a plan's arena. A tensor is named after its block, what it holds, and a number
 * (docs/planning.md, "Memory").
 */
#ifndef AH_RUNTIME_SCHEDULE_NAMES_H
#define AH_RUNTIME_SCHEDULE_NAMES_H

#include "base/buffer.h"
#include "runtime/schedule/job.h"
#include "runtime/schedule/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The part of a tensor's name that says what it holds. */
enum ah_tensor_label {
    AH_TENSOR_WEIGHTS,
    AH_TENSOR_FETCHED,
    AH_TENSOR_STATES,
    AH_TENSOR_INPUT,
    AH_TENSOR_SAVED,
    AH_TENSOR_OUTPUT, /* output of a stage, until it is sent */
    AH_TENSOR_GRADIENT,
    AH_TENSOR_SUM,
    AH_TENSOR_GROUP_SUM, /* the sum of a group that is summed separately (fold.h) */
    AH_TENSOR_SCRATCH,
    AH_TENSOR_RESIDUAL_GRADIENT,
    AH_TENSOR_STATE_RING,
    AH_TENSOR_TOKENS,
    AH_TENSOR_LABELS
};

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

void ah_name_tensor(struct ah_name_blocks blocks, const struct ah_layout_tensor *tensor,
                    struct ah_tensor_name name, char ret_name[AH_NAME_MAX]);

/* Reads label and block from a tensor's name, and the number after the label (`ret_number`): a micro-batch, a position,
 * or 0. Returns false if `text` is not such a name. */
bool ah_name_read(struct ah_name_blocks blocks, const char *text, struct ah_tensor_name *ret_name,
                  uint64_t *ret_number);

#endif
