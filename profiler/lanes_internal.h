/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: runs ops on a device's lanes as work for a sampler, on one lane alone or on two at once.
 *
 * Times come from the device's spans, so they do not include submitting and waking up. A time lasts from the start of
 * the first op to the end of the last. It includes the gaps between ops, because training has these gaps, too.
 */
#ifndef AH_PROFILER_LANES_INTERNAL_H
#define AH_PROFILER_LANES_INTERNAL_H

#include "profiler/sampler.h"
#include "runtime/device/device.h"

/* Open lanes with a queue and a history of this many ops. */
enum { AH_LANES_REPEATS_MAX = 4096 };

/* A list of ops that a lane repeats. `next` is the index of the op to submit next. */
struct ah_lanes_work {
    struct ah_device *device; /* borrowed */
    uint32_t lane;
    const struct ah_op *ops; /* borrowed; n ops */
    size_t n;
    size_t next;
};

/* The `run` function of a sampler's work. `context` is a struct ah_lanes_work. */
int ah_lanes_run(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err);

/* Returns the sampler's work for a lane. */
struct ah_sampler_work ah_lanes_sampler_work(struct ah_lanes_work *work);

/* Runs two works on two lanes at once, `repeats` of each, starting together. `ret_seconds_each` is the time per op
 * while both lanes were working. AH_E_FAILED: there was no such time. */
int ah_lanes_run_both(struct ah_lanes_work *const works[2], const uint64_t repeats[2],
                      double ret_seconds_each[2], struct ah_error *err);

/* Returns how many ops, with fractions, were done in [begin_ns, end_ns]. `spans` has their `n` spans in order; the work
 * is contiguous from the first start to the last end. */
double ah_lanes_done_between(const struct ah_span *spans, size_t n, uint64_t begin_ns, uint64_t end_ns);

/* Fills `bytes` at `ref` with numbers like those of weights (fp32 or bf16 in about [-1, 1]). `stage` is free memory of
 * AH_LANES_STAGE_BYTES in the pinned arena. */
enum { AH_LANES_STAGE_BYTES = 1 << 20 };
int ah_lanes_fill(struct ah_device *device, struct ah_ref ref, uint64_t bytes, struct ah_ref stage,
                  struct ah_error *err);

#endif
