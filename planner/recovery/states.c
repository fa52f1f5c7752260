/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/recovery/states.h"

#include "runtime/schedule/job.h"

static void size_row(uint64_t row[AH_SHARD_KINDS], const struct ah_plan_training *training, uint64_t elements,
                     uint64_t trained)
{
    row[AH_SHARD_WEIGHT] = elements * ah_dtype_bytes(training->dtype);
    row[AH_SHARD_MASTER] = training->dtype == AH_FP32 ? 0 : trained * sizeof(float);
    row[AH_SHARD_M] = row[AH_SHARD_V] = trained * ah_dtype_bytes(training->state_dtype);
}

int ah_states_init(struct ah_states *ret_states, const struct ah_model *model,
                   const struct ah_plan_training *training, size_t slices, struct ah_arena *arena,
                   struct ah_error *err)
{
    struct ah_states states = {.slices = slices, .tied = model->tied};
    struct ah_plan_training one = *training; /* micro_batches: no matter */
    struct ah_job job;
    one.batch /= one.micro_batches;
    one.micro_batches = 1;
    int rc = ah_job_init(&job, model, &one, arena, err);
    if (rc)
        return rc;
    states.n_blocks = job.n_blocks;
    states.bytes = ah_arena_array(arena, job.n_blocks + 1, sizeof *states.bytes);
    if (!states.bytes)
        return ah_error_memory(err);
    uint64_t table = model->tied ? model->vocabulary * model->width : 0;
    for (size_t b = 0; b < job.n_blocks; b++) {
        const struct ah_job_group *group = ah_job_block(&job, b);
        bool trained = group->trained_elements >= table;
        uint64_t less = b ? 0 : table;
        size_row(states.bytes[b], training, group->flat_elements - less,
                 group->trained_elements - (trained ? less : 0));
        if (!b)
            size_row(states.bytes[job.n_blocks], training, table, trained ? table : 0);
    }
    *ret_states = states;
    return AH_OK;
}

size_t ah_states_shards(const struct ah_states *states)
{
    return (states->n_blocks + 1) * states->slices * AH_SHARD_KINDS;
}

size_t ah_states_index(const struct ah_states *states, struct ah_shard shard)
{
    return (shard.row * states->slices + shard.slice) * AH_SHARD_KINDS + shard.kind;
}

struct ah_shard ah_states_shard(const struct ah_states *states, size_t index)
{
    return (struct ah_shard){.row = index / AH_SHARD_KINDS / states->slices,
                             .slice = index / AH_SHARD_KINDS % states->slices,
                             .kind = (enum ah_shard_kind)(index % AH_SHARD_KINDS)};
}

/* Returns s x bytes / n, without overflow. */
static uint64_t slice_start(uint64_t bytes, uint64_t s, uint64_t n)
{
    return bytes / n * s + bytes % n * s / n;
}

uint64_t ah_states_bytes(const struct ah_states *states, size_t index)
{
    struct ah_shard shard = ah_states_shard(states, index);
    uint64_t bytes = states->bytes[shard.row][shard.kind];
    return slice_start(bytes, shard.slice + 1, states->slices) -
           slice_start(bytes, shard.slice, states->slices);
}

bool ah_states_covers(const struct ah_states *states, uint64_t first_block, uint64_t blocks, size_t row)
{
    if (row == states->n_blocks)
        return states->tied && (first_block == 0 || first_block + blocks == states->n_blocks);
    return first_block <= row && row < first_block + blocks;
}
