/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of traces:
 *
 *     trace.c            the file: processes, tracks, events in the order of time
 *     trace_predicted.c  the simulated timeline
 *     trace_measured.c   the measured timeline
 */
#ifndef AH_CLI_TRACE_TRACE_INTERNAL_H
#define AH_CLI_TRACE_TRACE_INTERNAL_H

#include "cli/frame/emit.h"
#include "cli/trace/trace.h"
#include "runtime/schedule/occupancy.h"

/* Tracks: one for iterations, one for each lane, and one for the hardware's work for each lane. */
enum { TRACE_NAME_MAX = 192, TRACK_ITERATIONS = 0, TRACE_LANES = AH_PLAN_LANES };
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
    int64_t ns; /* from the start of its process's timeline */
    enum mark_kind kind;
    uint32_t item; /* index of the replay's item or of the slice; number of the iteration */
    uint32_t from; /* of an arrow: the item where it starts; `from` and `item` identify an arrow */
};

struct trace {
    const struct ah_plan *plan;
    const struct ah_replay *replay;
    const struct ah_timeline *measured; /* (optional) */
    struct ah_arena *arena;
    struct ah_occupancy occupancy;
    double *end_us; /* end of each iteration; in the arena */
    size_t iterations;
    int64_t from_ns, to_ns; /* span of the items to show, by their starts */
    struct mark *marks;     /* in the arena */
    size_t n_marks;
    struct ah_buffer text;
    bool comma;
};

/* Opens an object for an event; the caller adds fields and closes it (trace.c). */
void ah_trace_open(struct trace *trace, struct ah_emit *emit, const char *phase, unsigned process);
void ah_trace_emit_ns(struct ah_emit *emit, const char *key, int64_t ns);

/* Adds the track and the time of a slice. */
void ah_trace_emit_slice(struct ah_emit *emit, uint64_t track, int64_t start_ns, int64_t end_ns);

/* Prints an op's name, "backward layer.3" (a norm has no block), and returns `out`. */
const char *ah_trace_name(const struct ah_plan *plan, size_t op, char out[TRACE_NAME_MAX]);

/* Adds fields that describe a tile of an op to the event's args. */
void ah_trace_emit_op(struct ah_emit *emit, const struct ah_plan *plan, size_t op, uint64_t tile);

/* Adds the marks of the prediction; ah_trace_measure() adds measured ones. The other two print a mark's event. */
int ah_trace_predict(struct trace *trace, struct ah_error *err);
void ah_trace_print_predicted(struct trace *trace, const struct mark *mark);
void ah_trace_measure(struct trace *trace);
void ah_trace_print_measured(struct trace *trace, const struct mark *mark);

#endif
