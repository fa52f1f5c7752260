/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets in flat vectors: a running sum, rounded up (docs/layout.md).
 */
#include "runtime/schedule/flat.h"

#include "schemas/plan.h"

#include <string.h>

static uint64_t round_up(uint64_t elements)
{
    return (elements + AH_FLAT_ALIGN - 1) / AH_FLAT_ALIGN * AH_FLAT_ALIGN;
}

struct ah_flat ah_flat_of(const struct ah_model *model, enum ah_block_kind kind, uint32_t trained)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    struct ah_flat flat = {.n = ah_model_tensors(model, kind, tensors)};
    for (size_t i = 0; i < flat.n; i++) {
        struct ah_flat_tensor *tensor = &flat.tensors[i];
        *tensor = (struct ah_flat_tensor){.tensor = tensors[i],
                                          .elements = tensors[i].rows * tensors[i].cols,
                                          .first = flat.elements,
                                          .trained = trained >> i & 1};
        flat.elements += round_up(tensor->elements);
        flat.parameters += tensor->elements;
        if (!tensor->trained)
            continue;
        tensor->trained_first = flat.trained_elements;
        flat.trained_elements += round_up(tensor->elements);
        flat.trained_parameters += tensor->elements;
    }
    return flat;
}

size_t ah_flat_runs(const struct ah_flat *flat, struct ah_run_of_elements ret_runs[AH_MODEL_TENSORS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < flat->n; i++) {
        const struct ah_flat_tensor *tensor = &flat->tensors[i];
        if (!tensor->trained)
            continue;
        uint64_t end = tensor->trained_first + round_up(tensor->elements);
        struct ah_run_of_elements *last = n ? &ret_runs[n - 1] : NULL;
        if (last && last->decay == tensor->tensor.matrix &&
            tensor->first - last->full_first == tensor->trained_first - last->first)
            last->end = end;
        else
            ret_runs[n++] = (struct ah_run_of_elements){.first = tensor->trained_first,
                                                        .end = end,
                                                        .full_first = tensor->first,
                                                        .decay = tensor->tensor.matrix};
    }
    return n;
}

struct ah_stretch ah_flat_stretch(const struct ah_flat *flat, size_t tensor)
{
    const struct ah_flat_tensor *it = &flat->tensors[tensor];
    return (struct ah_stretch){it->trained_first,
                               it->trained_first + (it->trained ? round_up(it->elements) : 0)};
}

struct ah_stretch ah_flat_shard(uint64_t elements, uint64_t shards, uint64_t rank)
{
    const uint64_t units = (elements + AH_PLAN_TILE_UNIT - 1) / AH_PLAN_TILE_UNIT;
    const uint64_t part = (units + shards - 1) / shards * AH_PLAN_TILE_UNIT;
    const uint64_t first = rank * part < elements ? rank * part : elements;
    return (struct ah_stretch){first, first + part < elements ? first + part : elements};
}

size_t ah_flat_find(const struct ah_flat *flat, const char *name)
{
    size_t i = 0;
    while (i < flat->n && strcmp(flat->tensors[i].tensor.name, name) != 0)
        i++;
    return i;
}
