/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of blocks and tensors. A tensor's begins with its block and its contents (docs/planning.md, "Memory").
 */
#include "runtime/schedule/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *const labels[AH_TENSOR_LABELS] = {
    [AH_TENSOR_WEIGHTS] = "weights",     [AH_TENSOR_FETCHED] = "fetched",
    [AH_TENSOR_STATES] = "states",       [AH_TENSOR_INPUT] = "input",
    [AH_TENSOR_SAVED] = "saved",         [AH_TENSOR_OUTPUT] = "output",
    [AH_TENSOR_GRADIENT] = "gradient",   [AH_TENSOR_SUM] = "gradient_sum",
    [AH_TENSOR_SCRATCH] = "scratch",     [AH_TENSOR_RESIDUAL_GRADIENT] = "residual_gradient",
    [AH_TENSOR_GROUP_SUM] = "group_sum", [AH_TENSOR_STATE_RING] = "state_ring",
    [AH_TENSOR_TOKENS] = "tokens",
};

static bool is_of_all_blocks(unsigned label)
{
    return label == AH_TENSOR_STATE_RING || label == AH_TENSOR_TOKENS;
}

void ah_name_tensor(struct ah_name_blocks blocks, const struct ah_layout_tensor *tensor,
                    struct ah_tensor_name name, char ret_name[AH_NAME_MAX])
{
    char owner[AH_NAME_MAX];
    ah_name_block(blocks, name.block, owner);
    if (is_of_all_blocks(name.label))
        snprintf(ret_name, AH_NAME_MAX, "%s", labels[name.label]);
    else if (tensor->persistent)
        snprintf(ret_name, AH_NAME_MAX, "%.40s.%s", owner, labels[name.label]);
    else if (name.label == AH_TENSOR_SCRATCH || name.label == AH_TENSOR_FETCHED)
        snprintf(ret_name, AH_NAME_MAX, "%.40s.%s.%u", owner, labels[name.label], tensor->to);
    else
        snprintf(ret_name, AH_NAME_MAX, "%.40s.%s.%u", owner, labels[name.label], name.micro_batch);
}

/* Reads a block's name at the beginning of `text` and moves `text` past its dot. Returns false if there is none. */
static bool read_owner(size_t n_blocks, const char **text, uint32_t *ret_block)
{
    static const char embedding[] = "embedding.", head[] = "head.", layer[] = "layer.";
    char *end;
    if (!strncmp(*text, embedding, sizeof embedding - 1)) {
        *ret_block = 0;
        *text += sizeof embedding - 1;
        return true;
    }
    if (!strncmp(*text, head, sizeof head - 1)) {
        *ret_block = (uint32_t)n_blocks - 1;
        *text += sizeof head - 1;
        return true;
    }
    if (strncmp(*text, layer, sizeof layer - 1) != 0)
        return false;
    unsigned long long number = strtoull(*text + sizeof layer - 1, &end, 10);
    if (number >= n_blocks - 2 || *end != '.')
        return false;
    *ret_block = (uint32_t)number + 1;
    *text = end + 1;
    return true;
}

bool ah_name_read(struct ah_name_blocks blocks, const char *text, struct ah_tensor_name *ret_name,
                  uint64_t *ret_number)
{
    uint32_t block = (uint32_t)blocks.first; /* used for tensors that belong to no single block */
    bool owned = read_owner(blocks.of_model, &text, &block);
    if (block < blocks.first)
        return false;
    block -= (uint32_t)blocks.first;
    size_t length = strcspn(text, ".");
    for (unsigned label = 0; label < AH_TENSOR_LABELS; label++) {
        if (strncmp(labels[label], text, length) != 0 || labels[label][length] ||
            owned == is_of_all_blocks(label))
            continue;
        *ret_name = (struct ah_tensor_name){.label = (uint8_t)label, .block = block};
        *ret_number = text[length] ? strtoull(text + length + 1, NULL, 10) : 0;
        return true;
    }
    return false;
}
