/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces a run as measured. Work that belongs to no op of the plan is called data.
 */
#include "cli/trace/trace_internal.h"

#include <inttypes.h>
#include <stdio.h>

static const char data_word[] = "data";

void ah_trace_measure(struct trace *trace)
{
    const struct ah_timeline *measured = trace->measured;
    for (uint32_t i = 0; i < measured->n_steps; i++)
        trace->marks[trace->n_marks++] = (struct mark){measured->steps[i].start_ns, MARK_STEP, i, 0};
    for (uint32_t i = 0; i < measured->n_slices; i++)
        trace->marks[trace->n_marks++] = (struct mark){measured->slices[i].start_ns, MARK_SLICE, i, 0};
    for (uint32_t i = 0; i < measured->n_activities; i++)
        trace->marks[trace->n_marks++] = (struct mark){measured->activities[i].start_ns, MARK_ACTIVITY, i, 0};
}

static void print_step(struct trace *trace, const struct ah_timeline_step *step)
{
    struct ah_emit emit;
    char name[48];
    snprintf(name, sizeof name, "step %" PRIu64, step->step);
    ah_trace_open(trace, &emit, "X", PROCESS_MEASURED);
    ah_trace_emit_slice(&emit, TRACK_ITERATIONS, step->start_ns, step->end_ns);
    ah_emit_text(&emit, "name", name);
    ah_emit_text(&emit, "cat", "iteration");
    ah_emit_open(&emit, "args", '{');
    ah_emit_integer(&emit, "step", step->step);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_slice(struct trace *trace, const struct ah_timeline_slice *slice)
{
    struct ah_emit emit;
    char name[TRACE_NAME_MAX];
    bool of_plan = slice->op < trace->plan->n_ops;
    ah_trace_open(trace, &emit, "X", PROCESS_MEASURED);
    ah_trace_emit_slice(&emit, (uint64_t)slice->lane + 1, slice->start_ns, slice->end_ns);
    ah_emit_text(&emit, "name", of_plan ? ah_trace_name(trace->plan, slice->op, name) : data_word);
    ah_emit_text(&emit, "cat", of_plan ? ah_words_plan_op[trace->plan->ops[slice->op].op] : data_word);
    ah_emit_open(&emit, "args", '{');
    if (of_plan)
        ah_trace_emit_op(&emit, trace->plan, slice->op, slice->tile);
    ah_emit_integer(&emit, "step", slice->step);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void emit_owner(const struct trace *trace, struct ah_emit *emit, const struct ah_timeline_slice *slice)
{
    char name[TRACE_NAME_MAX];
    bool of_plan = slice->op < trace->plan->n_ops;
    ah_emit_text(emit, "of", of_plan ? ah_trace_name(trace->plan, slice->op, name) : data_word);
    if (of_plan)
        ah_emit_integer(emit, "tile", slice->tile);
    ah_emit_integer(emit, "step", slice->step);
}

static void print_activity(struct trace *trace, const struct ah_timeline_activity *shown)
{
    static const char *const words[] = {
        [AH_ACTIVITY_KERNEL] = "kernel", [AH_ACTIVITY_COPY] = "copy", [AH_ACTIVITY_FILL] = "fill"};
    const struct ah_device_activity *activity = shown->activity;
    struct ah_emit emit;
    ah_trace_open(trace, &emit, "X", PROCESS_MEASURED);
    ah_trace_emit_slice(&emit, TRACK_ACTIVITIES + activity->lane, shown->start_ns, shown->end_ns);
    ah_emit_text(&emit, "name", activity->name[0] ? activity->name : words[activity->kind]);
    ah_emit_text(&emit, "cat", words[activity->kind]);
    ah_emit_open(&emit, "args", '{');
    if (activity->kind != AH_ACTIVITY_KERNEL)
        ah_emit_integer(&emit, "bytes", activity->bytes);
    if (shown->slice)
        emit_owner(trace, &emit, shown->slice);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

void ah_trace_print_measured(struct trace *trace, const struct mark *mark)
{
    if (mark->kind == MARK_STEP)
        print_step(trace, &trace->measured->steps[mark->item]);
    else if (mark->kind == MARK_SLICE)
        print_slice(trace, &trace->measured->slices[mark->item]);
    else
        print_activity(trace, &trace->measured->activities[mark->item]);
}
