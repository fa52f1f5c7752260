/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of traces:
 *
 *     trace.c            the file: processes, tracks, events in the order of time
 *     trace_predicted.c  the simulated timeline
 *     trace_measured.c   the measured one
 */
#ifndef AH_CLI_TRACE_TRACE_INTERNAL_H
#define AH_CLI_TRACE_TRACE_INTERNAL_H

#include "cli/frame/emit.h"
#include "cli/trace/trace.h"
#include "runtime/schedule/occupancy.h"

/* Tracks: one for iterations, then one per lane, then one per lane for what the hardware did. */
enum { TRACE_NAME_MAX = 192, TRACK_ITERATIONS = 0, TRACE_LANES = AH_PLAN_LANE_HOST + 1 };
enum { TRACK_ACTIVITIES = TRACE_LANES + 1 };
enum trace_process { PROCESS_PREDICTED = 1, PROCESS_MEASURED = 2 };

/* The order of events at the same time. */
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
    uint32_t item; /* index of the replay's item or of the slice; for an iteration, its number */
    uint32_t
        from; /* arrows: the item where the arrow starts; together with `item`, it identifies the arrow */
};

struct trace {
    const struct ah_plan *plan;
    const struct ah_replay *replay;
    const struct ah_timeline *measured; /* (optional) */
    struct ah_arena *arena;
    struct ah_occupancy occupancy;
    double *end_us; /* end of each iteration; in the arena */
    size_t iterations;
    int64_t from_ns, to_ns; /* shows items of the replay that begin in this span */
    struct mark *marks;     /* in the arena */
    size_t n_marks;
    struct ah_buffer text;
    bool comma;
};

/* trace.c: opens an object for an event, which the caller fills and closes. */
void ah_trace_open(struct trace *trace, struct ah_emit *emit, const char *phase, unsigned process);
void ah_trace_emit_ns(struct ah_emit *emit, const char *key, int64_t ns);

/* Adds the fields of a slice's track and time. */
void ah_trace_emit_slice(struct ah_emit *emit, uint64_t track, int64_t start_ns, int64_t end_ns);

/* Prints an op's name, "backward layer.3"; a norm has no block's name. Returns `out`. */
const char *ah_trace_name(const struct ah_plan *plan, size_t op, char out[TRACE_NAME_MAX]);

/* Adds fields about a tile of an op to the event's args. */
void ah_trace_emit_op(struct ah_emit *emit, const struct ah_plan *plan, size_t op, uint64_t tile);

/* trace_predicted.c, trace_measured.c: _predict() and _measure() add marks; _print_...() print a mark's event. */
int ah_trace_predict(struct trace *trace, struct ah_error *err);
void ah_trace_print_predicted(struct trace *trace, const struct mark *mark);
void ah_trace_measure(struct trace *trace);
void ah_trace_print_measured(struct trace *trace, const struct mark *mark);

#endif
