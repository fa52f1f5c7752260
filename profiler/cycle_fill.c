/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills a cycle with values like those at the start of a run, as far as values affect time. Matrices get small numbers
 * of both signs, so that none become infinite, subnormal or equal. Gains are 1, biases 0, tokens of the whole
 * vocabulary.
 */
#include "profiler/cycle_internal.h"

#include "base/bf16.h"
#include "profiler/lanes_internal.h"
#include "runtime/schedule/flat.h"

#include <string.h>

#define MATRIX_MOST 0.035f /* bound of uniform numbers with deviation 0.02 */
#define ANGLE       0.7071068f

struct filler {
    const struct ah_cycle *cycle;
    struct ah_device *device;
    unsigned char *stage; /* AH_LANES_STAGE_BYTES of host memory */
    uint64_t state;
    struct ah_error *err;
};

static uint32_t next(struct filler *filler)
{
    filler->state = filler->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(filler->state >> 32);
}

/* Copies the stage to `bytes` at `ref`, as often as needed. */
static int send_stage(struct filler *filler, struct ah_ref ref, uint64_t bytes)
{
    int rc = AH_OK;
    for (uint64_t done = 0; done < bytes && !rc; done += AH_LANES_STAGE_BYTES) {
        uint64_t left = bytes - done;
        struct ah_op copy = {.kind = AH_OP_COPY, .arg = {ref, filler->cycle->stage}};
        struct ah_lanes_work work = {filler->device, AH_LANE_H2D, &copy, 1, 0};
        double seconds;
        copy.arg[0].offset_bytes += done;
        copy.u.copy.bytes = left < AH_LANES_STAGE_BYTES ? left : AH_LANES_STAGE_BYTES;
        rc = ah_lanes_run(&work, 1, &seconds, filler->err);
    }
    return rc;
}

static void stage_float(struct filler *filler, enum ah_dtype dtype, size_t i, float value)
{
    const uint16_t narrow = ah_bf16_from_fp32(value);
    if (dtype == AH_BF16)
        memcpy(filler->stage + i * sizeof narrow, &narrow, sizeof narrow);
    else
        memcpy(filler->stage + i * sizeof value, &value, sizeof value);
}

static void stage_floats(struct filler *filler, enum ah_dtype dtype, float value)
{
    for (size_t i = 0; i < AH_LANES_STAGE_BYTES / ah_dtype_bytes(dtype); i++)
        stage_float(filler, dtype, i, value);
}

static void stage_random(struct filler *filler, enum ah_dtype dtype)
{
    for (size_t i = 0; i < AH_LANES_STAGE_BYTES / ah_dtype_bytes(dtype); i++) {
        float even = (float)(next(filler) >> 8) / (float)(1 << 23) - 1;
        stage_float(filler, dtype, i, MATRIX_MOST * even);
    }
}

/* Sends the matrices of every block if `matrices`, else the gains. */
static int send_weights(struct filler *filler, bool matrices)
{
    const struct ah_job *job = filler->cycle->job;
    int rc = AH_OK;
    for (size_t block = 0; block < filler->cycle->n_blocks; block++) {
        const struct ah_cycle_block *it = &filler->cycle->blocks[block];
        const struct ah_flat flat = ah_flat_of(job->model, it->group->kind, it->group->trained);
        for (size_t i = 0; i < flat.n && !rc; i++) {
            const struct ah_flat_tensor *tensor = &flat.tensors[i];
            struct ah_ref ref = it->weights;
            ref.offset_bytes += tensor->first * job->weight_bytes;
            bool bias = strstr(tensor->tensor.name, ".bias") != NULL;
            if (tensor->tensor.matrix == matrices && !bias)
                rc = send_stage(filler, ref, tensor->elements * job->weight_bytes);
        }
    }
    return rc;
}

/* Sends indices below the vocabulary. They repeat after the size of a stage. */
static int send_indices(struct filler *filler, enum ah_cycle_datum datum)
{
    const struct ah_job *job = filler->cycle->job;
    for (size_t i = 0; i < AH_LANES_STAGE_BYTES / sizeof(uint32_t); i++) {
        uint32_t index = next(filler) % (uint32_t)job->model->vocabulary;
        memcpy(filler->stage + i * sizeof index, &index, sizeof index);
    }
    return send_stage(filler, filler->cycle->data[datum], job->tokens * sizeof(uint32_t));
}

static int send_data(struct filler *filler)
{
    const struct ah_cycle *cycle = filler->cycle;
    const struct ah_job *job = cycle->job;
    int rc = send_indices(filler, AH_CYCLE_TOKENS);
    rc = rc ? rc : send_indices(filler, AH_CYCLE_TARGETS);
    memset(filler->stage, 1, AH_LANES_STAGE_BYTES);
    rc = rc ? rc : send_stage(filler, cycle->data[AH_CYCLE_MASK], job->tokens);
    stage_floats(filler, AH_FP32, ANGLE);
    const uint64_t table = job->training.seq * job->model->head_dim * sizeof(float);
    rc = rc ? rc : send_stage(filler, cycle->data[AH_CYCLE_ROPE_TABLE], table);
    if (!rc && job->model->window_rope)
        rc = send_stage(filler, cycle->data[AH_CYCLE_WINDOW_ROPE_TABLE], table);
    stage_floats(filler, AH_FP32, 1 / (float)job->tokens);
    return rc ? rc : send_stage(filler, cycle->data[AH_CYCLE_LOSS_SCALE], sizeof(float));
}

int ah_cycle_fill(const struct ah_cycle *cycle, struct ah_device *device, struct ah_error *err)
{
    struct filler filler = {.cycle = cycle,
                            .device = device,
                            .stage = ah_device_pointer(device, cycle->stage),
                            .state = 1,
                            .err = err};
    enum ah_dtype dtype = cycle->job->training.dtype;
    int rc = send_data(&filler);
    stage_random(&filler, dtype);
    rc = rc ? rc : send_weights(&filler, true);
    stage_floats(&filler, dtype, 1);
    return rc ? rc : send_weights(&filler, false);
}
