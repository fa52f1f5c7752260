/* SPDX-License-Identifier: Apache-2.0
 *
 * One race of things that may start next: of each stage its pass or its send, of the segments those whose owners all
 * come to them. The one that can start earliest does; ties: the lower stage, stages before segments.
 *
 * Invariants:
 * 1. What starts never starts before what started earlier in the loop: starts never go back, so that transfers pass a
 *    NIC in the order of their start.
 * 2. The segments of a stage wait in its queue in the order of all segments, so that no two stages wait for each other.
 */
#include "planner/cluster/rehearsal.h"

#include "planner/cluster/race.h"
#include "runtime/schedule/turns.h"

#include <math.h>
#include <stdlib.h>

struct lane {
    const struct ah_pipeline *pipeline;
    const struct ah_stage *stage;
    size_t index; /* in its pipeline */
    uint64_t next;
    bool sending; /* what pass `next` - 1 made */
    double free_us, busy_us;
    double last_us; /* start of its last backward; negative: not yet */
    double sync_free_us;
    size_t front;      /* of its segments, counted in the list of all */
    double *starts_us; /* (2m); NULL: nobody asks */
    double *outputs;   /* (m): when an output arrived at the next stage; negative: not yet */
    double *gradients; /* (m): the same of a gradient, at the stage before */
    uint64_t in_flight, most_in_flight;
};

struct rehearsal {
    const struct ah_instance *instance;
    const struct ah_arrangement *arrangement;
    const struct ah_rehearsal_result *result; /* where the caller wants to be told of starts */
    struct ah_segments segments;
    struct lane *lanes;
    size_t n_lanes;
    double *cells;
    double *out_us, *in_us; /* (nodes): when a NIC is free */
    bool *summed;           /* (segments) */
    struct ah_race race; /* (lanes, segments): when they can start; too early where a NIC was taken since */
    double sync_us;      /* the last end of a segment */
    uint64_t left;       /* passes, sends and segments to come */
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- set up ---- */

static size_t count_nodes(const struct ah_instance *instance)
{
    size_t n = 0;
    for (size_t c = 0; c < instance->n_classes; c++)
        n = instance->classes[c].node >= n ? instance->classes[c].node + 1 : n;
    return n;
}

static void count(const struct ah_arrangement *arrangement, size_t *ret_lanes, size_t *ret_cells)
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

static void find_front(struct rehearsal *r, size_t lane)
{
    size_t s = r->lanes[lane].front;
    while (s < r->segments.n && (r->summed[s] || !owns(&r->segments.items[s], lane)))
        s++;
    r->lanes[lane].front = s;
}

static void set_lanes(struct rehearsal *r, size_t n_cells)
{
    double *cells = r->cells, *starts_us = r->result->starts_us;
    for (size_t i = 0; i < n_cells; i++)
        cells[i] = -1;
    for (size_t p = 0; p < r->arrangement->n_pipelines; p++) {
        const struct ah_pipeline *pipeline = &r->arrangement->pipelines[p];
        uint64_t m = pipeline->micro_batches;
        for (size_t i = 0; i < pipeline->n_stages; i++, cells += 2 * m)
            r->lanes[r->n_lanes++] =
                (struct lane){.pipeline = pipeline,
                              .starts_us = starts_us ? starts_us + (cells - r->cells) : NULL,
                              .stage = &pipeline->stages[i],
                              .index = i,
                              .last_us = -1,
                              .outputs = cells,
                              .gradients = cells + m};
        r->left += 2 * m * pipeline->n_stages + 2 * m * (pipeline->n_stages - 1);
    }
    r->left += r->segments.n;
    for (size_t i = 0; i < r->n_lanes; i++)
        find_front(r, i);
}

static void release(struct rehearsal *r)
{
    ah_segments_release(&r->segments);
    free(r->lanes);
    free(r->cells);
    free(r->out_us);
    free(r->in_us);
    free(r->summed);
    ah_race_release(&r->race);
}

static int init(struct rehearsal *r, struct ah_error *err)
{
    size_t lanes, cells, nodes = count_nodes(r->instance);
    count(r->arrangement, &lanes, &cells);
    int rc = ah_segments_init(&r->segments, r->instance, r->arrangement, err);
    if (rc)
        return rc;
    r->lanes = calloc(lanes, sizeof *r->lanes);
    r->cells = calloc(cells, sizeof *r->cells);
    r->out_us = calloc(nodes, sizeof *r->out_us);
    r->in_us = calloc(nodes, sizeof *r->in_us);
    r->summed = calloc(r->segments.n + 1, sizeof *r->summed);
    if (!r->lanes || !r->cells || !r->out_us || !r->in_us || !r->summed) {
        release(r);
        return ah_error_memory(err);
    }
    rc = ah_race_init(&r->race, lanes + r->segments.n, err);
    if (rc)
        release(r);
    else
        set_lanes(r, cells);
    return rc;
}

/* ---- passes and sends ---- */

static struct ah_turn turn_of(const struct lane *lane, uint64_t k)
{
    return ah_turn_of(lane->index, lane->pipeline->n_stages, lane->pipeline->micro_batches, k);
}

/* The lane that the last pass sends to, by its distance; 0: it sends nothing. */
static int target(const struct lane *lane, struct ah_turn turn)
{
    if (turn.backward)
        return lane->index > 0 ? -1 : 0;
    return lane->index + 1 < lane->pipeline->n_stages ? 1 : 0;
}

/* When the lane can go on; INFINITY: not known yet, or done. */
static double lane_start(const struct rehearsal *r, const struct lane *lane)
{
    if (lane->sending) {
        const struct lane *to = lane + target(lane, turn_of(lane, lane->next - 1));
        size_t a = r->instance->classes[lane->stage->class].node;
        size_t b = r->instance->classes[to->stage->class].node;
        return a == b ? lane->free_us : later(lane->free_us, later(r->out_us[a], r->in_us[b]));
    }
    if (lane->next == 2 * lane->pipeline->micro_batches)
        return INFINITY;
    struct ah_turn turn = turn_of(lane, lane->next);
    double arrived = 0;
    if (!turn.backward && lane->index > 0)
        arrived = lane[-1].outputs[turn.micro_batch];
    else if (turn.backward && lane->index + 1 < lane->pipeline->n_stages)
        arrived = lane[1].gradients[turn.micro_batch];
    return arrived < 0 ? (double)INFINITY : later(lane->free_us, arrived);
}

static void send(struct rehearsal *r, struct lane *lane, double start)
{
    struct ah_turn turn = turn_of(lane, lane->next - 1);
    const struct lane *to = lane + target(lane, turn);
    const struct ah_instance_class *a = &r->instance->classes[lane->stage->class];
    const struct ah_instance_class *b = &r->instance->classes[to->stage->class];
    double us = ah_instance_send_us(r->instance, lane->stage->class, to->stage->class);
    if (a->node != b->node) {
        r->out_us[a->node] = start + 1e6 * (double)r->instance->boundary_bytes / a->nic_bytes_per_s;
        r->in_us[b->node] = start + 1e6 * (double)r->instance->boundary_bytes / b->nic_bytes_per_s;
    }
    lane->free_us = start + us;
    lane->busy_us += us;
    lane->sending = false;
    (turn.backward ? lane->gradients : lane->outputs)[turn.micro_batch] = lane->free_us;
}

static void compute(struct lane *lane, double start)
{
    if (lane->starts_us)
        lane->starts_us[lane->next] = start;
    struct ah_turn turn = turn_of(lane, lane->next++);
    double us = turn.backward ? lane->stage->backward_us : lane->stage->forward_us;
    lane->free_us = start + us;
    lane->busy_us += us;
    lane->sending = target(lane, turn) != 0;
    if (!turn.backward)
        lane->in_flight++;
    lane->most_in_flight = lane->in_flight > lane->most_in_flight ? lane->in_flight : lane->most_in_flight;
    if (turn.backward)
        lane->in_flight--;
    if (lane->next == 2 * lane->pipeline->micro_batches)
        lane->last_us = start;
}

/* ---- segments ---- */

/* When the last backward of a stage has passed block `first`. */
static double passed_us(const struct rehearsal *r, const struct lane *lane, const struct ah_segment *segment)
{
    double us = lane->last_us + lane->stage->backward_us;
    if (!segment->tied)
        for (size_t i = lane->stage->first; i < segment->first; i++)
            us -= ah_stage_backward_us(r->instance, lane->stage, i);
    return us;
}

static double segment_start(const struct rehearsal *r, size_t s)
{
    const struct ah_segment *segment = &r->segments.items[s];
    double start = 0;
    for (size_t i = 0; i < segment->n_owners; i++) {
        const struct lane *lane = &r->lanes[segment->owners[i]];
        size_t node = r->instance->classes[lane->stage->class].node;
        if (lane->front != s || lane->last_us < 0)
            return INFINITY;
        start = later(start, later(lane->sync_free_us, passed_us(r, lane, segment)));
        if (segment->volume_bytes > 0)
            start = later(start, later(r->out_us[node], r->in_us[node]));
    }
    return start;
}

static void sum(struct rehearsal *r, size_t s, double start)
{
    const struct ah_segment *segment = &r->segments.items[s];
    double end = start + segment->ring_us;
    r->summed[s] = true;
    if (r->result->sums_us)
        r->result->sums_us[s] = start;
    r->sync_us = later(r->sync_us, end);
    for (size_t i = 0; i < segment->n_owners; i++) {
        struct lane *lane = &r->lanes[segment->owners[i]];
        const struct ah_instance_class *class = &r->instance->classes[lane->stage->class];
        lane->sync_free_us = end;
        find_front(r, segment->owners[i]);
        if (segment->volume_bytes > 0)
            r->out_us[class->node] = r->in_us[class->node] =
                start + 1e6 * segment->volume_bytes / class->nic_bytes_per_s;
    }
}

/* ---- the loop ---- */

/* When a lane, or behind the lanes a segment, can start. */
static double start_of(const struct rehearsal *r, size_t thing)
{
    if (thing < r->n_lanes)
        return lane_start(r, &r->lanes[thing]);
    return r->summed[thing - r->n_lanes] ? (double)INFINITY : segment_start(r, thing - r->n_lanes);
}

static void enter(struct rehearsal *r, size_t thing)
{
    if (thing < r->n_lanes + r->segments.n)
        ah_race_set(&r->race, thing, start_of(r, thing));
}

/* A lane goes on; its neighbours may have waited for that, or its segment for its last backward. */
static void go_lane(struct rehearsal *r, size_t i, double start)
{
    struct lane *lane = &r->lanes[i];
    if (lane->sending)
        send(r, lane, start);
    else
        compute(lane, start);
    enter(r, i);
    if (lane->index > 0)
        enter(r, i - 1);
    if (lane->index + 1 < lane->pipeline->n_stages)
        enter(r, i + 1);
    if (lane->last_us >= 0)
        enter(r, r->n_lanes + lane->front);
}

static void go_segment(struct rehearsal *r, size_t s, double start)
{
    const struct ah_segment *segment = &r->segments.items[s];
    sum(r, s, start);
    enter(r, r->n_lanes + s);
    for (size_t i = 0; i < segment->n_owners; i++)
        enter(r, r->n_lanes + r->lanes[segment->owners[i]].front);
}

static void go(struct rehearsal *r)
{
    for (size_t i = 0; i < r->n_lanes; i++)
        enter(r, i);
    while (r->left) {
        size_t first = ah_race_first(&r->race);
        double start = start_of(r, first);
        if (start > r->race.us[first]) { /* a NIC was taken meanwhile */
            ah_race_set(&r->race, first, start);
            continue;
        }
        r->left--;
        if (first < r->n_lanes)
            go_lane(r, first, start);
        else
            go_segment(r, first - r->n_lanes, start);
    }
}

static void tell(const struct rehearsal *r, struct ah_rehearsal_result *result)
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
}

int ah_rehearsal_run(const struct ah_instance *instance, const struct ah_arrangement *arrangement,
                     struct ah_rehearsal_result *result, struct ah_error *err)
{
    struct rehearsal r = {.instance = instance, .arrangement = arrangement, .result = result};
    int rc = init(&r, err);
    if (rc)
        return rc;
    go(&r);
    tell(&r, result);
    release(&r);
    return AH_OK;
}
