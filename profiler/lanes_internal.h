/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: runs ops on a device's lanes as work of a sampler, on one lane by itself or on two at once.
 *
 * Times come from the device's spans, so that submitting and waking up are not measured. They last from the start of
 * the first op to the end of the last, gaps between ops included, because a training's lane has gaps, too.
 */
#ifndef AH_PROFILER_LANES_INTERNAL_H
#define AH_PROFILER_LANES_INTERNAL_H

#include "profiler/sampler.h"
#include "runtime/device/device.h"

/* Open lanes so that they can queue and remember this many ops. */
enum { AH_LANES_REPEATS_MAX = 4096 };

/* Ops that a lane runs in turn, again and again. */
struct ah_lanes_work {
    struct ah_device *device; /* borrowed */
    uint32_t lane;
    const struct ah_op *ops; /* borrowed; n of them */
    size_t n;
    size_t next;
};

/* `run` of a sampler's work, whose context is a struct ah_lanes_work. */
int ah_lanes_run(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err);

/* Returns a work for the sampler. */
struct ah_sampler_work ah_lanes_sampler_work(struct ah_lanes_work *work);

/* Runs two works on two lanes at once, `repeats` of each. They start together; `ret_seconds_each` is the time per op
 * while both lanes were working. AH_E_FAILED if there was no such time. */
int ah_lanes_run_both(struct ah_lanes_work *const works[2], const uint64_t repeats[2],
                      double ret_seconds_each[2], struct ah_error *err);

/* Returns how many ops, with fractions, were done in [begin_ns, end_ns], given their `n` spans in order: contiguous
 * work from spans[0].start to the last end. */
double ah_lanes_done_between(const struct ah_span *spans, size_t n, uint64_t begin_ns, uint64_t end_ns);

/* Fills `bytes` at `ref` with numbers that look like weights (fp32 or bf16 in about [-1, 1]). `stage` is free
 * space of AH_LANES_STAGE_BYTES in the pinned arena. */
enum { AH_LANES_STAGE_BYTES = 1 << 20 };
int ah_lanes_fill(struct ah_device *device, struct ah_ref ref, uint64_t bytes, struct ah_ref stage,
                  struct ah_error *err);

#endif
