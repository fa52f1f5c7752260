/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: turns CUPTI's buffers into activities of a device.
 *
 *     struct ah_cuda_records records = {.calls = &calls};
 *     rc = ah_cuda_records_read(&records, buffer, bytes, err);             // for every buffer
 *     rc = ah_cuda_records_settle(&records, stream_ids, n, err);           // then: assigns records to ops, sorts them
 *     ... records.settled, records.n
 *     ah_cuda_records_release(&records);
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_RECORDS_H
#define AH_RUNTIME_DEVICE_CUDA_RECORDS_H

#include "base/arena.h"
#include "runtime/device/cuda/cupti_calls.h"
#include "runtime/device/device.h"

/* Returns the number that identifies an op in CUPTI's records. */
static inline uint64_t ah_cuda_records_id(uint32_t lane, uint64_t ticket)
{
    return ticket * AH_DEVICE_LANES_MAX + lane;
}

/* An activity that is not yet assigned to an op. */
struct ah_cuda_record {
    struct ah_device_activity activity;
    uint32_t correlation; /* number of the call that enqueued it */
    uint32_t stream;      /* CUPTI's number for the stream */
};

/* A call that was made for an op. */
struct ah_cuda_record_op {
    uint32_t correlation;
    uint64_t id;
};

struct ah_cuda_records {
    const struct ah_cupti *calls; /* borrowed */
    struct ah_cuda_record *found; /* owned, as all here */
    size_t n_found, found_room;
    struct ah_cuda_record_op *ops;
    size_t n_ops, ops_room;
    struct ah_device_activity *settled;
    size_t n;
    uint64_t untimed; /* activities without times */
    uint64_t overhead_ns;
    struct ah_arena names;
    const char *last_name, *last_text; /* of the newest kernel: the name from CUPTI, and its readable form */
};

/* Adds the records in a buffer. AH_E_MEMORY; AH_E_FAILED for a buffer that CUPTI cannot read. */
int ah_cuda_records_read(struct ah_cuda_records *records, uint8_t *buffer, size_t bytes,
                         struct ah_error *err);

/* Assigns all records to ops and sorts them by lane and start. An activity belongs to the op for which its call was
 * made. If no record names that op, the activity only gets the lane of its stream (`stream_ids`, by lane). Activities
 * of other streams are dropped. */
int ah_cuda_records_settle(struct ah_cuda_records *records, const uint32_t *stream_ids, uint32_t n_streams,
                           struct ah_error *err);

void ah_cuda_records_release(struct ah_cuda_records *records);

/* Returns the readable part of a kernel's name, in arena; NULL: out of memory. For a name mangled by a C++ compiler,
 * that is its identifier and the identifier of its class argument, such as "rope", "Kernel2<cutlass_80_gemm>". */
const char *ah_cuda_records_name(struct ah_arena *arena, const char *name);

#endif
