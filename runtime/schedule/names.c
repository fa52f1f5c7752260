/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of blocks and tensors. A tensor's name begins with its block (docs/planning.md, "Memory").
 */
#include "runtime/schedule/names.h"

#include <inttypes.h>
#include <stdio.h>

void ah_name_block(struct ah_name_blocks blocks, size_t block, char ret_name[AH_NAME_MAX])
{
    size_t at = blocks.first + block;
    if (!at)
        snprintf(ret_name, AH_NAME_MAX, "embedding");
    else if (at + 1 == blocks.of_model)
        snprintf(ret_name, AH_NAME_MAX, "head");
    else
        snprintf(ret_name, AH_NAME_MAX, "layer.%zu", at - 1);
}

void ah_name_range(struct ah_name_blocks blocks, size_t first, size_t end, struct ah_buffer *out)
{
    size_t layers_end = blocks.of_model - 1 - blocks.first; /* number of the head */
    for (size_t i = first, next; i < end; i = next) {
        char name[AH_NAME_MAX];
        bool layer = blocks.first + i && i < layers_end;
        next = !layer ? i + 1 : end < layers_end ? end : layers_end;
        ah_name_block(blocks, i, name);
        ah_buffer_printf(out, "%s%s", i > first ? ", " : "", name);
        if (next - i > 1)
            ah_buffer_printf(out, "-%zu", blocks.first + next - 2);
    }
}

void ah_name_tensor(const struct ah_plan *plan, size_t i, char ret_name[AH_NAME_MAX])
{
    const struct ah_plan_tensor *tensor = &plan->arena.tensors[i];
    const char *label = ah_words_tensor[tensor->label];
    char block[AH_NAME_MAX];
    if (tensor->block == AH_PLAN_NOWHERE) {
        snprintf(ret_name, AH_NAME_MAX, "%s", label);
        return;
    }
    ah_name_block(ah_names_of_plan(plan), tensor->block, block);
    if (tensor->label == AH_TENSOR_WEIGHTS || tensor->label == AH_TENSOR_STATES)
        snprintf(ret_name, AH_NAME_MAX, "%.40s.%s", block, label);
    else
        snprintf(ret_name, AH_NAME_MAX, "%.40s.%s.%" PRIu64, block, label, tensor->micro_batch);
}
