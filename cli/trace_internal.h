/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of traces share.
 *
 *     trace.c            the file: processes, tracks, events in the order of time
 *     trace_predicted.c  what the simulator says
 *     trace_measured.c   what a run did
 */
#ifndef AH_CLI_TRACE_INTERNAL_H
#define AH_CLI_TRACE_INTERNAL_H

#include "cli/emit.h"
#include "cli/trace.h"
#include "runtime/schedule/occupancy.h"

/* Tracks: of iterations, of lanes, then of what the hardware did for each lane. */
enum { TRACE_NAME_MAX = 192, TRACK_ITERATIONS = 0, TRACE_LANES = AH_PLAN_LANE_HOST + 1 };
enum { TRACK_ACTIVITIES = TRACE_LANES + 1 };
enum trace_process { PROCESS_PREDICTED = 1, PROCESS_MEASURED = 2 };

/* In the order in which events of one time stand. */
enum mark_kind {
    MARK_ITERATION,
    MARK_ITEM,
    MARK_STEP,
    MARK_SLICE,
    MARK_ACTIVITY,
    MARK_MEMORY,
    MARK_LEAVES,
    MARK_ARRIVES,
    MARK_KINDS
};

struct mark {
    int64_t ns; /* since the zero of its process */
    enum mark_kind kind;
    uint32_t item; /* of the replay, or a slice; of an iteration its number */
    uint32_t from; /* of an arrow: the item where it leaves; it names the arrow together with `item` */
};

struct trace {
    const struct ah_plan *plan;
    const struct ah_replay *replay;
    const struct ah_trace_measured *measured; /* (optional) */
    struct ah_arena *arena;
    struct ah_occupancy occupancy;
    double *end_us; /* of iterations; in the arena */
    size_t iterations;
    int64_t from_ns, to_ns; /* of the replay, what is shown: what begins there */
    struct mark *marks;     /* in the arena */
    size_t n_marks;
    struct ah_buffer text;
    bool comma;
};

/* trace.c: an object for an event, to be filled and closed. */
void ah_trace_open(struct trace *trace, struct ah_emit *emit, const char *phase, unsigned process);
void ah_trace_emit_ns(struct ah_emit *emit, const char *key, int64_t ns);

/* The fields of a slice's track and time. */
void ah_trace_emit_slice(struct ah_emit *emit, uint64_t track, int64_t start_ns, int64_t end_ns);

/* "backward layer.3"; the norm is of all blocks. Returns `out`. */
const char *ah_trace_name(const struct ah_plan *plan, size_t op, char out[TRACE_NAME_MAX]);

/* Fields about a tile of an op, into its args. */
void ah_trace_emit_op(struct ah_emit *emit, const struct ah_plan *plan, size_t op, uint64_t tile);

/* trace_predicted.c, trace_measured.c: marks, then their events. */
int ah_trace_predict(struct trace *trace, struct ah_error *err);
void ah_trace_print_predicted(struct trace *trace, const struct mark *mark);
void ah_trace_measure(struct trace *trace);
void ah_trace_print_measured(struct trace *trace, const struct mark *mark);

#endif
