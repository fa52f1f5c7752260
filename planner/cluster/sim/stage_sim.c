/* SPDX-License-Identifier: Apache-2.0
 *
 * Except for NICs, a stage depends only on its inputs. So each stage advances alone until it lacks an input or needs a
 * NIC. The events are each stage's send to another node, and the sums of segments that all their owners have reached.
 * The event that can start earliest starts; between equals the lower stage, and stages before segments.
 *
 * Invariants:
 * 1. When an event starts, every stage has advanced as far as it can. So starts never go back in time, and transfers
 *    pass a NIC in the order of their start.
 * 2. The segments of a stage wait in its queue in the order of all segments, so that no two stages wait for each other.
 * 3. After the start of a pass, the step takes at least the REST: the stage's own passes and sends, the path of the
 *    last gradient through the stages before, the sums of the first blocks (every pipeline has an owner of them, and
 *    they come last), and the slowest update. If that exceeds the caller's limit, the simulation stops.
 */
#include "planner/cluster/sim/stage_sim.h"

#include "planner/cluster/sim/event_tree.h"
#include "planner/cluster/sim/nics.h"
#include "runtime/schedule/turns.h"

#include <math.h>
#include <stdlib.h>

#define LIMIT_MARGIN 1e-9 /* more than the rounding errors of (3) */

struct lane {
    const struct ah_pipeline *pipeline;
    const struct ah_stage *stage;
    size_t index; /* index in the pipeline */
    size_t node;
    double nic_us;       /* time that a send to another node occupies its NIC */
    double sends_us[2];  /* forward, backward; 0: it sends nothing */
    uint64_t next;       /* index of the next of its 2m passes */
    struct ah_turn made; /* the pass before `next` */
    struct lane *to;     /* the lane on another node to send the output of `made` to; NULL: nothing to send */
    bool called;         /* in the simulation's list `called` */
    double free_us, busy_us;
    double rest_us; /* the REST of (3), at the start of its next pass */
    double last_us; /* start of its last backward; negative: not started */
    double sync_free_us;
    size_t front;      /* its next segment, as an index in the list of all */
    double *starts_us; /* (2m); NULL: not wanted */
    double *outputs;   /* (m): arrival of an output at the next stage; INFINITY: not yet */
    double *gradients; /* (m): arrival of a gradient at the previous stage */
    uint64_t in_flight, most_in_flight;
};

struct simulation {
    const struct ah_cluster_problem *problem;
    const struct ah_arrangement *arrangement;
    const struct ah_stage_sim_result *result; /* borrowed: its optional arrays receive starts and sums */
    struct ah_segments segments;
    struct lane *lanes;
    size_t n_lanes;
    double *cells;
    struct ah_nics nics;
    bool *summed;     /* (segments) */
    uint32_t *called; /* (lanes): lanes that may be able to continue */
    size_t n_called;
    struct ah_event_tree
        events;      /* (lanes, segments): earliest starts; too early if a NIC was taken meanwhile */
    double sync_us;  /* latest end of a segment's sum so far */
    double limit_us; /* limit of (3); INFINITY: none */
    bool late;       /* the limit was exceeded */
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- set up ---- */

static size_t count_nodes(const struct ah_cluster_problem *problem)
{
    size_t n = 0;
    for (size_t c = 0; c < problem->n_classes; c++)
        n = problem->classes[c].node >= n ? problem->classes[c].node + 1 : n;
    return n;
}

static void count_lanes_and_cells(const struct ah_arrangement *arrangement, size_t *ret_lanes,
                                  size_t *ret_cells)
{
    *ret_lanes = *ret_cells = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        *ret_lanes += arrangement->pipelines[p].n_stages;
        *ret_cells += 2 * arrangement->pipelines[p].n_stages * arrangement->pipelines[p].micro_batches;
    }
}

static bool owns(const struct ah_segment *segment, size_t lane)
{
    for (size_t i = 0; i < segment->n_owners; i++)
        if (segment->owners[i] == lane)
            return true;
    return false;
}

static void find_front(struct simulation *r, size_t lane)
{
    size_t s = r->lanes[lane].front;
    while (s < r->segments.n && (r->summed[s] || !owns(&r->segments.items[s], lane)))
        s++;
    r->lanes[lane].front = s;
}

/* Returns the time of the sums of the first blocks and of a tied table. */
static double last_sums_us(const struct ah_segments *segments)
{
    double us = 0;
    for (size_t s = 0; s < segments->n; s++)
        us += segments->items[s].first == 0 ? segments->items[s].ring_us : 0;
    return us;
}

/* Sets every stage's REST (3) before its first pass. */
static void set_rests(struct simulation *r)
{
    double update_us = 0, behind_us = 0;
    for (size_t i = 0; i < r->n_lanes; i++)
        update_us = later(update_us, r->lanes[i].stage->update_us);
    for (size_t i = 0; i < r->n_lanes; i++) {
        struct lane *lane = &r->lanes[i];
        const struct ah_stage *stage = lane->stage;
        double passes_us = stage->forward_us + stage->backward_us + lane->sends_us[0] + lane->sends_us[1];
        behind_us = lane->index ? behind_us : update_us + last_sums_us(&r->segments);
        lane->rest_us = behind_us + (double)lane->pipeline->micro_batches * passes_us;
        behind_us += stage->backward_us + lane->sends_us[1];
    }
}

static void set_sends(const struct ah_cluster_problem *problem, struct lane *lane)
{
    const size_t class = lane->stage->class;
    lane->node = problem->classes[class].node;
    lane->nic_us = ah_nics_pass_us((double)problem->boundary_bytes, problem->classes[class].nic_bytes_per_s);
    if (lane->index + 1 < lane->pipeline->n_stages)
        lane->sends_us[0] = ah_problem_send_us(problem, class, lane->stage[1].class);
    if (lane->index > 0)
        lane->sends_us[1] = ah_problem_send_us(problem, class, lane->stage[-1].class);
}

static void set_lanes(struct simulation *r, size_t n_cells)
{
    double *cells = r->cells, *starts_us = r->result->starts_us;
    for (size_t i = 0; i < n_cells; i++)
        cells[i] = INFINITY;
    for (size_t p = 0; p < r->arrangement->n_pipelines; p++) {
        const struct ah_pipeline *pipeline = &r->arrangement->pipelines[p];
        uint64_t m = pipeline->micro_batches;
        for (size_t i = 0; i < pipeline->n_stages; i++, cells += 2 * m) {
            struct lane *lane = &r->lanes[r->n_lanes++];
            *lane = (struct lane){.pipeline = pipeline,
                                  .starts_us = starts_us ? starts_us + (cells - r->cells) : NULL,
                                  .stage = &pipeline->stages[i],
                                  .index = i,
                                  .last_us = -1,
                                  .outputs = cells,
                                  .gradients = cells + m};
            set_sends(r->problem, lane);
        }
    }
    for (size_t i = 0; i < r->n_lanes; i++)
        find_front(r, i);
    set_rests(r);
}

static void release_simulation(struct simulation *r)
{
    ah_segments_release(&r->segments);
    free(r->lanes);
    free(r->cells);
    ah_nics_release(&r->nics);
    free(r->summed);
    free(r->called);
    ah_event_tree_release(&r->events);
}

static int init_simulation(struct simulation *r, struct ah_error *err)
{
    size_t lanes, cells, nodes = count_nodes(r->problem);
    count_lanes_and_cells(r->arrangement, &lanes, &cells);
    int rc = ah_segments_init(&r->segments, r->problem, r->arrangement, err);
    if (rc)
        return rc;
    r->lanes = calloc(lanes, sizeof *r->lanes);
    r->cells = calloc(cells, sizeof *r->cells);
    r->summed = calloc(r->segments.n + 1, sizeof *r->summed);
    r->called = calloc(lanes, sizeof *r->called);
    if (!r->lanes || !r->cells || !r->summed || !r->called)
        rc = ah_error_memory(err);
    rc = rc ? rc : ah_nics_init(&r->nics, nodes, err);
    rc = rc ? rc : ah_event_tree_init(&r->events, lanes + r->segments.n, err);
    if (rc)
        release_simulation(r);
    else
        set_lanes(r, cells);
    return rc;
}

/* ---- passes and sends ---- */

/* Returns the lane that receives a pass's output; NULL: none does. */
static struct lane *target(struct lane *lane, struct ah_turn turn)
{
    if (turn.backward)
        return lane->index > 0 ? lane - 1 : NULL;
    return lane->index + 1 < lane->pipeline->n_stages ? lane + 1 : NULL;
}

/* Returns the time at which the input of a pass arrives. */
static double arrived_us(const struct lane *lane, struct ah_turn turn)
{
    if (turn.backward)
        return lane->index + 1 < lane->pipeline->n_stages ? lane[1].gradients[turn.micro_batch] : 0;
    return lane->index > 0 ? lane[-1].outputs[turn.micro_batch] : 0;
}

static void call_lane(struct simulation *r, struct lane *lane)
{
    if (!lane->called)
        r->called[r->n_called++] = (uint32_t)(lane - r->lanes);
    lane->called = true;
}

static void compute_pass(struct simulation *r, struct lane *lane, struct ah_turn turn, double start)
{
    double us = turn.backward ? lane->stage->backward_us : lane->stage->forward_us;
    r->late |= start + lane->rest_us > r->limit_us;
    if (lane->starts_us)
        lane->starts_us[lane->next] = start;
    lane->next++;
    lane->made = turn;
    lane->free_us = start + us;
    lane->busy_us += us;
    lane->rest_us -= us + lane->sends_us[turn.backward];
    if (!turn.backward)
        lane->in_flight++;
    lane->most_in_flight = lane->in_flight > lane->most_in_flight ? lane->in_flight : lane->most_in_flight;
    if (turn.backward)
        lane->in_flight--;
}

/* Sends the output of the last pass. */
static void send_result(struct simulation *r, struct lane *lane, struct lane *to, double start)
{
    double us = lane->sends_us[lane->made.backward];
    lane->free_us = start + us;
    lane->busy_us += us;
    (lane->made.backward ? lane->gradients : lane->outputs)[lane->made.micro_batch] = lane->free_us;
    call_lane(r, to);
}

/* Returns the earliest start of the lane's send to another node. */
static double send_start(const struct simulation *r, const struct lane *lane)
{
    return later(lane->free_us, ah_nics_free_us(&r->nics, lane->node, lane->to->node));
}

static void send_away(struct simulation *r, struct lane *lane, double start)
{
    struct lane *to = lane->to;
    ah_nics_take(&r->nics, lane->node, start + lane->nic_us, to->node, start + to->nic_us);
    lane->to = NULL;
    send_result(r, lane, to, start);
    call_lane(r, lane);
}

/* ---- segments ---- */

/* Returns the time at which a stage's last backward has passed the segment's first block. */
static double passed_us(const struct simulation *r, const struct lane *lane, const struct ah_segment *segment)
{
    double us = lane->last_us + lane->stage->backward_us;
    if (!segment->tied)
        for (size_t i = lane->stage->first; i < segment->first; i++)
            us -= ah_stage_backward_us(r->problem, lane->stage, i);
    return us;
}

static double segment_start(const struct simulation *r, size_t s)
{
    const struct ah_segment *segment = &r->segments.items[s];
    double start = 0;
    for (size_t i = 0; i < segment->n_owners; i++) {
        const struct lane *lane = &r->lanes[segment->owners[i]];
        size_t node = r->problem->classes[lane->stage->class].node;
        if (lane->front != s || lane->last_us < 0)
            return INFINITY;
        start = later(start, later(lane->sync_free_us, passed_us(r, lane, segment)));
        if (segment->volume_bytes > 0)
            start = later(start, ah_nics_free_us(&r->nics, node, node));
    }
    return start;
}

static void sum(struct simulation *r, size_t s, double start)
{
    const struct ah_segment *segment = &r->segments.items[s];
    double end = start + segment->ring_us;
    r->summed[s] = true;
    if (r->result->sums_us)
        r->result->sums_us[s] = start;
    r->sync_us = later(r->sync_us, end);
    for (size_t i = 0; i < segment->n_owners; i++) {
        struct lane *lane = &r->lanes[segment->owners[i]];
        const struct ah_problem_class *class = &r->problem->classes[lane->stage->class];
        lane->sync_free_us = end;
        find_front(r, segment->owners[i]);
        if (segment->volume_bytes > 0) {
            double until = start + ah_nics_pass_us(segment->volume_bytes, class->nic_bytes_per_s);
            ah_nics_take(&r->nics, class->node, until, class->node, until);
        }
    }
}

/* ---- the loop ---- */

/* Returns the earliest start of an event: a lane's send or, with numbers after the lanes, a segment. */
static double start_of(const struct simulation *r, size_t thing)
{
    if (thing < r->n_lanes)
        return r->lanes[thing].to ? send_start(r, &r->lanes[thing]) : (double)INFINITY;
    return r->summed[thing - r->n_lanes] ? (double)INFINITY : segment_start(r, thing - r->n_lanes);
}

static void enter_event(struct simulation *r, size_t thing)
{
    if (thing < r->n_lanes + r->segments.n)
        ah_event_tree_set(&r->events, thing, start_of(r, thing));
}

/* Advances a lane until it lacks an input or needs a NIC. */
static void advance_lane(struct simulation *r, struct lane *lane)
{
    const uint64_t passes = 2 * lane->pipeline->micro_batches;
    while (lane->next < passes && !lane->to) {
        struct ah_turn turn =
            ah_turn_of(lane->index, lane->pipeline->n_stages, lane->pipeline->micro_batches, lane->next);
        double arrived = arrived_us(lane, turn);
        if (isinf(arrived))
            return;
        double start = later(lane->free_us, arrived);
        struct lane *to = target(lane, turn);
        compute_pass(r, lane, turn, start);
        if (lane->next == passes) {
            lane->last_us = start;
            enter_event(r, r->n_lanes + lane->front);
        }
        if (to && to->node != lane->node) {
            lane->to = to;
            enter_event(r, (size_t)(lane - r->lanes));
        } else if (to) {
            send_result(r, lane, to, lane->free_us);
        }
    }
}

/* Advances all called lanes (invariant 1). */
static void advance_all(struct simulation *r)
{
    while (r->n_called && !r->late) {
        struct lane *lane = &r->lanes[r->called[--r->n_called]];
        lane->called = false;
        advance_lane(r, lane);
    }
}

static void advance_segment(struct simulation *r, size_t s, double start)
{
    const struct ah_segment *segment = &r->segments.items[s];
    sum(r, s, start);
    enter_event(r, r->n_lanes + s);
    for (size_t i = 0; i < segment->n_owners; i++)
        enter_event(r, r->n_lanes + r->lanes[segment->owners[i]].front);
}

static void run_events(struct simulation *r)
{
    for (size_t i = r->n_lanes; i-- > 0;)
        call_lane(r, &r->lanes[i]);
    advance_all(r);
    for (;;) {
        size_t first = ah_event_tree_first(&r->events);
        if (r->late || isinf(r->events.us[first]))
            return;
        double start = start_of(r, first);
        if (start > r->events.us[first]) { /* a NIC was taken after the event was timed */
            ah_event_tree_set(&r->events, first, start);
            continue;
        }
        if (first >= r->n_lanes) {
            advance_segment(r, first - r->n_lanes, start);
            continue;
        }
        send_away(r, &r->lanes[first], start);
        advance_all(r);
        enter_event(r, first);
    }
}

static void fill_result(const struct simulation *r, struct ah_stage_sim_result *result)
{
    double busy_us = 0, most_us = -1;
    size_t lane = 0;
    result->pipelines_us = result->update_us = 0;
    for (size_t p = 0; p < r->arrangement->n_pipelines; p++) {
        if (result->pipeline_us)
            result->pipeline_us[p] = r->lanes[lane].free_us;
        result->pipelines_us = later(result->pipelines_us, r->lanes[lane].free_us);
        for (size_t i = 0; i < r->arrangement->pipelines[p].n_stages; i++, lane++) {
            const struct lane *l = &r->lanes[lane];
            busy_us += l->busy_us;
            if (l->busy_us > most_us) {
                most_us = l->busy_us;
                result->busiest_pipeline = p;
                result->busiest_stage = i;
            }
            result->update_us = later(result->update_us, l->stage->update_us);
            if (result->busy_us)
                result->busy_us[lane] = l->busy_us;
            if (result->in_flight)
                result->in_flight[lane] = l->most_in_flight;
        }
    }
    result->bubble = 1 - busy_us / ((double)r->n_lanes * result->pipelines_us);
    result->exposed_sync_us = later(r->sync_us - result->pipelines_us, 0);
    result->step_us = result->pipelines_us + result->exposed_sync_us + result->update_us;
    if (r->late)
        result->step_us = INFINITY;
}

int ah_stage_sim_run(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement,
                     struct ah_stage_sim_result *result, struct ah_error *err)
{
    struct simulation r = {.problem = problem, .arrangement = arrangement, .result = result};
    r.limit_us = result->limit_us > 0 ? result->limit_us * (1 + LIMIT_MARGIN) : (double)INFINITY;
    int rc = init_simulation(&r, err);
    if (rc)
        return rc;
    run_events(&r);
    fill_result(&r, result);
    release_simulation(&r);
    return AH_OK;
}
