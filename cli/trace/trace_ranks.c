/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. A step of a rank lasts from the end of the previous step's compute to the end of its own; sends count as compute.
 *    It is shown if both ends were recorded.
 * 2. The window lasts from the first start of these steps on any rank to the last end. It shows spans that begin in it.
 * 3. A send of a micro-batch pairs with the receive that ends at the nearest time: neither ends without the other.
 */
#include "cli/trace/trace_ranks.h"

#include "base/file.h"
#include "cli/trace/trace_internal.h"
#include "planner/cluster/sim/cluster_replay.h"
#include "runtime/run/run_ranks.h"
#include "runtime/run/run_timeline.h"
#include "runtime/schedule/graph.h"
#include "runtime/schedule/replay.h"
#include "runtime/train/recorded.h"
#include "runtime/train/world.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = AH_DEVICE_LANES_ALL, FIRST_PREDICTED = 1 };

static const char *const lane_names[LANES] = {[AH_LANE_COMPUTE] = "compute",
                                              [AH_LANE_H2D] = "h2d",
                                              [AH_LANE_D2H] = "d2h",
                                              [AH_LANE_HOST] = "host",
                                              [AH_LANE_SEND] = "send",
                                              [AH_LANE_RECEIVE_BEFORE] = "receive_before",
                                              [AH_LANE_RECEIVE_BEHIND] = "receive_behind",
                                              [AH_LANE_SUMS] = "sums"};

/* One process of the trace file. */
struct timeline {
    uint32_t rank;
    bool measured;
    const struct ah_plan *program;
    struct ah_graph graph; /* for predictions: the graph of the program */
    struct ah_recorded_span *spans;
    size_t n, room;
    int64_t clock_ns, clock_within_ns;
};

/* An event: a span, a step, or one end of an arrow. */
enum event_kind { EVENT_STEP, EVENT_SPAN, EVENT_LEAVES, EVENT_ARRIVES };
struct event {
    int64_t ns, end_ns;
    enum event_kind kind;
    const struct timeline *timeline;
    const struct ah_recorded_span *span;
    uint64_t number; /* number of the step or the arrow */
};

struct traced {
    const struct ah_run *run;
    const struct ah_cluster_plan *plan;
    const struct ah_world *world;
    struct ah_arena arena;
    struct timeline *measured, *predicted; /* by rank: its timeline */
    struct ah_recorded_steps steps;
    struct event *events; /* owned */
    size_t n, room;
    uint64_t arrows;
    struct trace out;
    bool failed;
};

/* ---- predicted ---- */

static void put_span(struct traced *t, struct timeline *timeline, const struct ah_recorded_span *span)
{
    if (timeline->n == timeline->room) {
        const size_t room = timeline->room ? 2 * timeline->room : 1024;
        struct ah_recorded_span *more = ah_arena_array(&t->arena, room, sizeof *more);
        if (!more) {
            t->failed = true;
            return;
        }
        if (timeline->n)
            memcpy(more, timeline->spans, timeline->n * sizeof *more);
        timeline->spans = more;
        timeline->room = room;
    }
    timeline->spans[timeline->n++] = *span;
}

static struct timeline *stage_of(struct traced *t, size_t of)
{
    size_t p = 0;
    while (of >= t->plan->pipelines[p].n_stages)
        of -= t->plan->pipelines[p++].n_stages;
    return &t->predicted[ah_world_rank(t->plan, t->plan->pipelines[p].stages[of].ranks[0])];
}

static void on_span(void *context, const struct ah_cluster_replay_span *span)
{
    struct traced *t = context;
    struct ah_recorded_span put = {.step = span->step,
                                   .lane = AH_LANE_SUMS,
                                   .op = AH_RECORDED_NO_OP,
                                   .start_ns = llround(span->start_us * 1e3),
                                   .end_ns = llround(span->end_us * 1e3)};
    if (!span->sum) {
        struct timeline *timeline = stage_of(t, span->of);
        const struct ah_graph_item *item = &timeline->graph.items[span->item];
        const enum ah_plan_op_kind kind = timeline->program->ops[item->op].op;
        const bool sends = kind == AH_PLAN_SEND_OUTPUT || kind == AH_PLAN_SEND_INPUT_GRADIENT;
        put.lane = sends ? AH_LANE_SEND : item->lane;
        put.op = item->op;
        put.tile = item->tile;
        put_span(t, timeline, &put);
        return;
    }
    const struct ah_cluster_plan_segment *segment = &t->plan->segments[span->of];
    for (size_t i = 0; i < segment->groups[0].n_ranks; i++)
        put_span(t, &t->predicted[ah_world_rank(t->plan, segment->groups[0].ranks[i])], &put);
}

/* Adds the simulation of the one program of ranks that share states to each rank's timeline. */
static int predict_shards(struct traced *t, struct ah_error *err)
{
    struct ah_replay replay;
    int rc = ah_replay_run(&t->plan->programs[0], AH_CLUSTER_REPLAY_STEPS + 1, &t->arena, &replay, err);
    for (size_t i = 0; !rc && i < replay.n_items; i++) {
        const struct ah_replay_item *item = &replay.items[i];
        const struct ah_recorded_span put = {.step = item->iteration,
                                             .lane = ah_trainer_lane(item->lane),
                                             .op = item->op,
                                             .tile = item->tile,
                                             .start_ns = llround(item->start_us * 1e3),
                                             .end_ns = llround(item->finish_us * 1e3)};
        for (uint32_t rank = 0; rank < t->world->ranks && item->iteration < AH_CLUSTER_REPLAY_STEPS; rank++)
            put_span(t, &t->predicted[rank], &put);
    }
    return !rc && t->failed ? ah_error_memory(err) : rc;
}

static int predict(struct traced *t, struct ah_error *err)
{
    if (t->plan->sharding)
        return predict_shards(t, err);
    const struct ah_cluster_replay_listener listener = {.tell = on_span, .context = t};
    struct ah_cluster_replay_result result;
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < t->world->ranks && !rc; rank++)
        rc = ah_graph_read(t->predicted[rank].program, &t->arena, &t->predicted[rank].graph, err);
    rc = rc ? rc : ah_cluster_replay(t->plan, &listener, &result, err);
    return !rc && t->failed ? ah_error_memory(err) : rc;
}

/* ---- steps ---- */

static bool is_of_compute(const struct ah_recorded_span *span)
{
    return span->op != AH_RECORDED_NO_OP && (span->lane == AH_LANE_COMPUTE || span->lane == AH_LANE_SEND);
}

/* Returns the op at the last position with ops. A rank that shares states may own nothing that the last ones update. */
static uint64_t last_op(const struct timeline *timeline)
{
    const struct ah_plan *program = timeline->program;
    const uint64_t *order = program->lanes.order[AH_PLAN_LANE_COMPUTE];
    bool any = false;
    uint64_t end = program->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    for (; end > 0; end--) {
        for (size_t i = 0; i < timeline->n && !any; i++)
            any = is_of_compute(&timeline->spans[i]) && timeline->spans[i].op == order[end - 1];
        if (any)
            break;
    }
    return order[end ? end - 1 : 0];
}

/* Finds the time at which the last position of a step ends; false: it was not recorded. */
static bool end_of_step(const struct timeline *timeline, uint64_t step, int64_t *ret_ns)
{
    const uint64_t last = last_op(timeline);
    bool found = false;
    for (size_t i = 0; i < timeline->n; i++)
        if (is_of_compute(&timeline->spans[i]) && timeline->spans[i].step == step &&
            timeline->spans[i].op == last) {
            *ret_ns = timeline->spans[i].end_ns;
            found = true;
        }
    return found;
}

static void put_event(struct traced *t, const struct event *event)
{
    if (t->n == t->room) {
        const size_t room = t->room ? 2 * t->room : 4096;
        struct event *more = realloc(t->events, room * sizeof *more);
        if (!more) {
            t->failed = true;
            return;
        }
        t->events = more;
        t->room = room;
    }
    t->events[t->n++] = *event;
}

struct window {
    int64_t start_ns, end_ns;
};

static void put_steps(struct traced *t, const struct timeline *timeline, uint64_t first, uint64_t n,
                      struct window *window)
{
    for (uint64_t step = first; step < first + n; step++) {
        struct event event = {.kind = EVENT_STEP, .timeline = timeline, .number = step};
        if (!step || !end_of_step(timeline, step - 1, &event.ns) ||
            !end_of_step(timeline, step, &event.end_ns))
            continue;
        window->start_ns = event.ns < window->start_ns ? event.ns : window->start_ns;
        window->end_ns = event.end_ns > window->end_ns ? event.end_ns : window->end_ns;
        put_event(t, &event);
    }
}

static bool is_shown(const struct window *window, const struct ah_recorded_span *span)
{
    return span->start_ns >= window->start_ns && span->start_ns < window->end_ns;
}

static void put_spans(struct traced *t, const struct timeline *timeline, const struct window *window)
{
    for (size_t i = 0; i < timeline->n; i++) {
        const struct ah_recorded_span *span = &timeline->spans[i];
        if (is_shown(window, span))
            put_event(t, &(struct event){span->start_ns, span->end_ns, EVENT_SPAN, timeline, span, 0});
    }
}

/* ---- arrows ---- */

/* Returns the receive that belongs to a send, by rule 3. */
static const struct ah_recorded_span *find_receive(const struct timeline *to, uint32_t lane,
                                                   uint64_t micro_batch, int64_t end_ns)
{
    const struct ah_recorded_span *nearest = NULL;
    for (size_t i = 0; i < to->n; i++) {
        const struct ah_recorded_span *span = &to->spans[i];
        if (span->lane == lane && span->tile == micro_batch &&
            (!nearest || llabs(span->end_ns - end_ns) < llabs(nearest->end_ns - end_ns)))
            nearest = span;
    }
    return nearest;
}

static void put_arrows(struct traced *t, const struct timeline *from, const struct window *window)
{
    const struct ah_trainer_rank *place = &t->world->places[from->rank];
    for (size_t i = 0; i < from->n; i++) {
        const struct ah_recorded_span *sent = &from->spans[i];
        if (sent->lane != AH_LANE_SEND || sent->op == AH_RECORDED_NO_OP || !is_shown(window, sent))
            continue;
        const struct ah_plan_op *op = &from->program->ops[sent->op];
        const bool output = op->op == AH_PLAN_SEND_OUTPUT;
        const struct timeline *to = &t->measured[output ? place->behind : place->before];
        const struct ah_recorded_span *taken = find_receive(
            to, output ? AH_LANE_RECEIVE_BEFORE : AH_LANE_RECEIVE_BEHIND, op->micro_batch, sent->end_ns);
        if (!taken || !is_shown(window, taken))
            continue;
        const int64_t in_ns = taken->end_ns > taken->start_ns ? taken->end_ns - 1 : taken->end_ns;
        put_event(t, &(struct event){sent->start_ns, 0, EVENT_LEAVES, from, sent, t->arrows});
        put_event(t, &(struct event){in_ns, 0, EVENT_ARRIVES, to, taken, t->arrows++});
    }
}

/* ---- printing ---- */

/* Returns the number of a timeline's process in the file. */
static unsigned process_of(const struct timeline *timeline)
{
    return 1 + 2 * timeline->rank + !timeline->measured;
}

static void open_about(struct traced *t, struct ah_emit *emit, const struct timeline *timeline,
                       uint64_t track, const char *what)
{
    ah_trace_open(&t->out, emit, "M", process_of(timeline));
    ah_emit_integer(emit, "tid", track);
    ah_emit_text(emit, "name", what);
    ah_emit_open(emit, "args", '{');
}

static void print_text(struct traced *t, const struct timeline *timeline, uint64_t track, const char *what,
                       const char *name)
{
    struct ah_emit emit;
    open_about(t, &emit, timeline, track, what);
    ah_emit_text(&emit, "name", name);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_order(struct traced *t, const struct timeline *timeline, uint64_t track, const char *what,
                        uint64_t place)
{
    struct ah_emit emit;
    open_about(t, &emit, timeline, track, what);
    ah_emit_integer(&emit, "sort_index", place);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void print_process(struct traced *t, const struct timeline *timeline)
{
    const struct ah_trainer_stage *stage = &t->world->places[timeline->rank].stages[timeline->rank];
    const struct ah_run_ranks *ranks = t->run->options->ranks;
    char name[512];
    snprintf(name, sizeof name, "%spipeline %" PRIu32 " stage %" PRIu64 " rank %" PRIu32 "%s'%.200s'",
             timeline->measured ? "" : "predicted (simulated): ", stage->pipeline,
             timeline->program->part->stage, timeline->rank, timeline->measured ? " on host " : ", node ",
             timeline->measured ? ah_run_ranks_host(ranks, timeline->rank)
                                : ah_run_ranks_node(ranks, timeline->rank));
    print_text(t, timeline, 0, "process_name", name);
    print_order(t, timeline, 0, "process_sort_index",
                timeline->rank + (timeline->measured ? 0 : (uint64_t)t->world->ranks));
    print_text(t, timeline, TRACK_ITERATIONS, "thread_name", timeline->measured ? "steps" : "iterations");
    print_order(t, timeline, TRACK_ITERATIONS, "thread_sort_index", 0);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        size_t i = 0;
        while (i < timeline->n && timeline->spans[i].lane != lane)
            i++;
        if (i == timeline->n)
            continue;
        print_text(t, timeline, lane + 1, "thread_name", lane_names[lane]);
        print_order(t, timeline, lane + 1, "thread_sort_index", lane + 1);
    }
}

static const char *name_span(const struct event *event, char out[TRACE_NAME_MAX])
{
    const struct ah_recorded_span *span = event->span;
    const struct ah_plan *program = event->timeline->program;
    if (span->op != AH_RECORDED_NO_OP)
        return ah_trace_name(program, span->op, out);
    if (span->lane == AH_LANE_RECEIVE_BEFORE || span->lane == AH_LANE_RECEIVE_BEHIND)
        snprintf(out, TRACE_NAME_MAX, "%s of micro-batch %" PRIu32,
                 span->lane == AH_LANE_RECEIVE_BEFORE ? "output" : "gradient", span->tile);
    else
        snprintf(out, TRACE_NAME_MAX, "%s", span->lane == AH_LANE_SUMS ? "sums of gradients" : "data");
    return out;
}

static void print_span(const struct event *event, struct ah_emit *emit)
{
    const struct ah_recorded_span *span = event->span;
    const struct ah_plan *program = event->timeline->program;
    const bool of_plan = span->op != AH_RECORDED_NO_OP;
    char name[TRACE_NAME_MAX];
    ah_trace_emit_slice(emit, span->lane + 1, event->ns, event->end_ns);
    ah_emit_text(emit, "name", name_span(event, name));
    ah_emit_text(emit, "cat", of_plan ? ah_words_plan_op[program->ops[span->op].op] : lane_names[span->lane]);
    ah_emit_open(emit, "args", '{');
    if (of_plan)
        ah_trace_emit_op(emit, program, span->op, span->tile);
    ah_emit_integer(emit, "step", span->step);
    ah_emit_close(emit);
}

static void print_step(const struct event *event, struct ah_emit *emit)
{
    char name[48];
    snprintf(name, sizeof name, event->timeline->measured ? "step %" PRIu64 : "iteration %" PRIu64,
             event->number);
    ah_trace_emit_slice(emit, TRACK_ITERATIONS, event->ns, event->end_ns);
    ah_emit_text(emit, "name", name);
    ah_emit_text(emit, "cat", "iteration");
    ah_emit_open(emit, "args", '{');
    ah_emit_integer(emit, "step", event->number);
    ah_emit_close(emit);
}

static void print_arrow(const struct event *event, struct ah_emit *emit)
{
    ah_emit_integer(emit, "tid", event->span->lane + 1);
    ah_trace_emit_ns(emit, "ts", event->ns);
    ah_emit_text(emit, "name", "message");
    ah_emit_text(emit, "cat", "message");
    ah_emit_integer(emit, "id", event->number);
    if (event->kind == EVENT_ARRIVES)
        ah_emit_text(emit, "bp", "e");
}

static void print_event(struct traced *t, const struct event *event)
{
    static const char *const phases[] = {
        [EVENT_STEP] = "X", [EVENT_SPAN] = "X", [EVENT_LEAVES] = "s", [EVENT_ARRIVES] = "f"};
    struct ah_emit emit;
    ah_trace_open(&t->out, &emit, phases[event->kind], process_of(event->timeline));
    if (event->kind == EVENT_STEP)
        print_step(event, &emit);
    else if (event->kind == EVENT_SPAN)
        print_span(event, &emit);
    else
        print_arrow(event, &emit);
    ah_emit_close(&emit);
}

static void print_about(struct traced *t)
{
    struct ah_emit emit = {.out = &t->out.text, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_bool(&emit, "simulated", false);
    ah_emit_text(&emit, "generator", "autohete " AUTOHETE_VERSION);
    ah_emit_text(&emit, "model", t->plan->inputs.model.name);
    ah_emit_text(&emit, "cluster", t->plan->inputs.cluster.name);
    ah_emit_open(&emit, "clocks_ahead_us", '[');
    for (uint32_t rank = 0; rank < t->world->ranks; rank++)
        ah_emit_number(&emit, NULL, (double)t->measured[rank].clock_ns / 1e3);
    ah_emit_close(&emit);
    ah_emit_open(&emit, "clocks_within_us", '[');
    for (uint32_t rank = 0; rank < t->world->ranks; rank++)
        ah_emit_number(&emit, NULL, (double)t->measured[rank].clock_within_ns / 1e3);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static int by_time(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return ((int)a->kind > (int)b->kind) - ((int)a->kind < (int)b->kind);
}

static int print_trace(struct traced *t, struct ah_error *err)
{
    ah_buffer_puts(&t->out.text, "{\"displayTimeUnit\":\"ms\",\"otherData\":");
    print_about(t);
    ah_buffer_puts(&t->out.text, ",\"traceEvents\":[");
    for (uint32_t rank = 0; rank < t->world->ranks; rank++) {
        print_process(t, &t->measured[rank]);
        print_process(t, &t->predicted[rank]);
    }
    if (t->n)
        qsort(t->events, t->n, sizeof *t->events, by_time);
    for (size_t i = 0; i < t->n; i++)
        print_event(t, &t->events[i]);
    ah_buffer_puts(&t->out.text, "\n]}\n");
    return t->out.text.failed || t->failed ? ah_error_memory(err) : AH_OK;
}

/* ---- the file ---- */

/* Adds the events of all measured or all predicted timelines. Times count from the start of their window. */
static void put_timelines(struct traced *t, const struct timeline *timelines, uint64_t first, uint64_t n)
{
    const bool measured = timelines->measured;
    const size_t before = t->n;
    struct window window = {INT64_MAX, INT64_MIN};
    for (uint32_t rank = 0; rank < t->world->ranks; rank++)
        put_steps(t, &timelines[rank], first, n, &window);
    for (uint32_t rank = 0; rank < t->world->ranks; rank++) {
        put_spans(t, &timelines[rank], &window);
        if (measured)
            put_arrows(t, &timelines[rank], &window);
    }
    for (size_t i = before; i < t->n; i++) {
        t->events[i].ns -= window.start_ns;
        t->events[i].end_ns -= window.start_ns;
    }
}

static int collect_timelines(struct traced *t, struct ah_error *err)
{
    const uint32_t ranks = t->world->ranks;
    struct ah_recorded *recorded = ah_arena_array(&t->arena, ranks, sizeof *recorded);
    t->measured = ah_arena_array(&t->arena, ranks, sizeof *t->measured);
    t->predicted = ah_arena_array(&t->arena, ranks, sizeof *t->predicted);
    if (!recorded || !t->measured || !t->predicted)
        return ah_error_memory(err);
    int rc = ah_recorded_collect(t->run->trainer, &t->arena, recorded, err);
    for (uint32_t rank = 0; rank < ranks && !rc; rank++) {
        t->predicted[rank] = (struct timeline){.rank = rank, .program = t->world->programs[rank]};
        t->measured[rank] = t->predicted[rank];
        t->measured[rank].measured = true;
        t->measured[rank].spans = recorded[rank].spans;
        t->measured[rank].n = recorded[rank].n;
        t->measured[rank].clock_ns = recorded[rank].clock_ns;
        t->measured[rank].clock_within_ns = recorded[rank].clock_within_ns;
        if (recorded[rank].lost)
            ah_run_tell(t->run->host, AH_RUN_WARNING,
                        "%" PRIu64 " spans of rank %" PRIu32 " were lost; the trace has gaps",
                        recorded[rank].lost, rank);
    }
    return rc ? rc : predict(t, err);
}

int ah_trace_ranks_write(struct ah_run *run, struct ah_cli *cli, const char *path, struct ah_error *err)
{
    const struct ah_run_ranks *ranks = run->options->ranks;
    struct traced t = {.run = run,
                       .plan = ah_run_ranks_cluster_plan(ranks),
                       .world = ah_run_ranks_world(ranks),
                       .steps = ah_run_traced_steps(run)};
    int rc = collect_timelines(&t, err);
    if (!rc) {
        put_timelines(&t, t.measured, t.steps.first, t.steps.n);
        put_timelines(&t, t.predicted, FIRST_PREDICTED, AH_CLUSTER_REPLAY_STEPS - FIRST_PREDICTED);
        rc = print_trace(&t, err);
    }
    if (!rc && !strcmp(path, "-"))
        ah_buffer_append(&cli->out, t.out.text.data, t.out.text.size);
    else if (!rc)
        rc = ah_file_write(path, t.out.text.data, t.out.text.size, err);
    ah_buffer_release(&t.out.text);
    free(t.events);
    ah_arena_release(&t.arena);
    return rc;
}
