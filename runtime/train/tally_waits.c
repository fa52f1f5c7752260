/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the lanes for which compute waited: the measured counterpart of `blame` in runtime/schedule/dispatch.c.
 *
 * 1. The last few instances of every item are kept, by iteration. An instance may wait for instances that the plan
 *    names; if it takes a slot, for the instance that gave the slot back (with n slots, take k waits for give k - n);
 *    for compute and the norm, for an op that no plan mentions. It waited for whichever of these ended last.
 * 2. The wait [from, start] of a compute item is charged backwards. The lane of the item it waited for is charged from
 *    the time when that item could begin. The time before is charged to the lane that delayed that item, and so on,
 *    until `from` or compute.
 * 3. The first round of a run has two instances of early items; only the later instance is kept.
 */
#include "runtime/train/tally_internal.h"

#include <string.h>

/* ---- the plan ---- */

static int take_rings(struct tally_waits *waits, struct ah_arena *arena, struct ah_error *err)
{
    for (int r = 0; r < AH_GRAPH_RINGS; r++) {
        struct tally_ring *ring = &waits->rings[r];
        ring->slots = waits->graph.slots[r];
        for (uint32_t i = 0; i < waits->graph.n_items; i++)
            ring->room += waits->graph.items[i].gives[r];
        ring->room = TALLY_KEPT * ring->room + ring->slots + 1;
        ring->gave = ah_arena_array(arena, ring->room, sizeof *ring->gave);
        if (!ring->gave)
            return ah_error_memory(err);
    }
    return AH_OK;
}

int ah_tally_waits_init(struct tally_waits *waits, const struct ah_plan *plan, struct ah_arena *arena,
                        struct ah_error *err)
{
    waits->plan = plan;
    int rc = ah_graph_read(plan, arena, &waits->graph, err);
    if (!rc)
        rc = take_rings(waits, arena, err);
    if (rc)
        return rc;
    waits->done = ah_arena_array(arena, TALLY_KEPT * waits->graph.n_items + 1, sizeof *waits->done);
    if (!waits->done)
        return ah_error_memory(err);
    rc = plan->part ? ah_tally_others_init(waits, arena, err) : AH_OK;
    if (!rc)
        ah_tally_waits_begin(waits);
    return rc;
}

void ah_tally_waits_begin(struct tally_waits *waits)
{
    memset(waits->done, 0, TALLY_KEPT * waits->graph.n_items * sizeof *waits->done);
    memset(waits->n_data, 0, sizeof waits->n_data);
    memset(waits->end_ns, 0, sizeof waits->end_ns);
    for (size_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        waits->current[lane] = AH_GRAPH_NONE;
    for (int r = 0; r < AH_GRAPH_RINGS; r++)
        waits->rings[r].taken = waits->rings[r].given = 0;
    if (waits->others.any)
        ah_tally_others_begin(waits);
}

/* ---- records ---- */

static struct tally_done *done_of(const struct tally_waits *waits, uint32_t item, uint64_t iteration)
{
    return &waits->done[(size_t)item * TALLY_KEPT + iteration % TALLY_KEPT];
}

const struct tally_done *ah_tally_waits_done(const struct tally_waits *waits, uint32_t item,
                                             uint64_t iteration)
{
    const struct tally_done *done = done_of(waits, item, iteration);
    return iteration && done->iteration == iteration ? done : NULL;
}

static void begin_item(struct tally_waits *waits, uint32_t item, uint64_t iteration,
                       const struct ah_op_record *record, uint64_t from_ns)
{
    const struct ah_graph_item *it = &waits->graph.items[item];
    struct tally_done *done = done_of(waits, item, iteration);
    *done = (struct tally_done){
        .iteration = iteration, .from_ns = from_ns, .start_ns = record->start_ns, .end_ns = record->end_ns};
    for (int r = 0; r < AH_GRAPH_RINGS; r++) {
        struct tally_ring *ring = &waits->rings[r];
        if (it->takes[r])
            done->take = ring->taken++;
        if (it->gives[r])
            ring->gave[ring->given++ % ring->room] = (struct tally_given){item, iteration};
    }
}

void ah_tally_waits_op(struct tally_waits *waits, const struct ah_op_record *record)
{
    const uint32_t lane = record->lane;
    uint64_t from_ns = waits->end_ns[lane];
    waits->end_ns[lane] = record->end_ns;
    if (record->op == SIZE_MAX && lane >= AH_DEVICE_LANES) {
        if (waits->others.any)
            ah_tally_others_op(waits, record);
        return;
    }
    if (record->op == SIZE_MAX) {
        waits->data[lane][waits->n_data[lane]++ % TALLY_DATA_KEPT] =
            (struct tally_data){record->start_ns, record->end_ns};
        waits->current[lane] = AH_GRAPH_NONE;
        return;
    }
    uint32_t item = waits->graph.of_tile[waits->graph.first_tile[record->op] + record->tile];
    uint64_t iteration = record->step + (waits->graph.items[item].early ? 1 : 0);
    if (waits->current[lane] == item && waits->current_step[lane] == record->step)
        done_of(waits, item, iteration)->end_ns = record->end_ns;
    else
        begin_item(waits, item, iteration, record, from_ns);
    waits->current[lane] = item;
    waits->current_step[lane] = record->step;
}

/* ---- blame ---- */

struct instance {
    uint32_t item; /* AH_GRAPH_NONE: nothing */
    uint64_t iteration;
    uint64_t end_ns;
};

static void keep_later(const struct tally_waits *waits, struct instance *latest, uint32_t item,
                       uint64_t iteration, uint64_t limit_ns)
{
    const struct tally_done *done = ah_tally_waits_done(waits, item, iteration);
    if (done && done->end_ns <= limit_ns && done->end_ns > latest->end_ns)
        *latest = (struct instance){item, iteration, done->end_ns};
}

/* Returns the last-ended instance of those for which this instance waited; end_ns is 0 if none is known. */
static struct instance waited_for(const struct tally_waits *waits, uint32_t item,
                                  const struct tally_done *done)
{
    const struct ah_graph_item *it = &waits->graph.items[item];
    struct instance latest = {AH_GRAPH_NONE, 0, 0};
    for (uint32_t w = it->first_wait; w < it[1].first_wait; w++) {
        const struct ah_graph_wait *wait = &waits->graph.waits[w];
        if (done->iteration > wait->back)
            keep_later(waits, &latest, wait->item, done->iteration - wait->back, done->start_ns);
    }
    for (int r = 0; r < AH_GRAPH_RINGS; r++) {
        const struct tally_ring *ring = &waits->rings[r];
        if (!it->takes[r] || done->take < ring->slots || done->take - ring->slots >= ring->given)
            continue;
        const struct tally_given *gave = &ring->gave[(done->take - ring->slots) % ring->room];
        keep_later(waits, &latest, gave->item, gave->iteration, done->start_ns);
    }
    return latest;
}

/* Returns the latest op outside the plan, not on compute, that ended in (after_ns, until_ns]; NULL if there is none. */
static const struct tally_data *data_between(const struct tally_waits *waits, size_t *ret_lane,
                                             uint64_t after_ns, uint64_t until_ns)
{
    const struct tally_data *latest = NULL;
    for (size_t lane = AH_PLAN_LANE_H2D; lane < AH_DEVICE_LANES; lane++)
        for (uint64_t k = 0; k < TALLY_DATA_KEPT && k < waits->n_data[lane]; k++) {
            const struct tally_data *data =
                &waits->data[lane][(waits->n_data[lane] - 1 - k) % TALLY_DATA_KEPT];
            if (data->end_ns > after_ns && data->end_ns <= until_ns &&
                (!latest || data->end_ns > latest->end_ns)) {
                latest = data;
                *ret_lane = lane;
            }
        }
    return latest;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

uint64_t ah_tally_waits_charge(double us[TALLY_WAITS], size_t lane, uint64_t from_ns, uint64_t began_ns,
                               uint64_t to_ns)
{
    uint64_t first_ns = later(began_ns, from_ns);
    if (first_ns < to_ns)
        us[lane - AH_PLAN_LANE_H2D] += (double)(to_ns - first_ns) / 1e3;
    return began_ns < to_ns ? began_ns : to_ns;
}

static bool waits_for_data(const struct tally_waits *waits, uint32_t item)
{
    const struct ah_plan_op *op = &waits->plan->ops[waits->graph.items[item].op];
    return op->lane == AH_PLAN_LANE_COMPUTE || op->op == AH_PLAN_NORM;
}

static bool is_gate(const struct tally_waits *waits, uint32_t item)
{
    return waits->others.any && waits->plan->ops[waits->graph.items[item].op].op == AH_PLAN_NORM;
}

static size_t lane_of(const struct tally_waits *waits, uint32_t item)
{
    return ah_trainer_lane((enum ah_plan_lane)waits->graph.items[item].lane);
}

static void blame(const struct tally_waits *waits, uint32_t item, const struct tally_done *done,
                  double us[TALLY_WAITS])
{
    const bool others = waits->others.any;
    const uint64_t from_ns = others ? ah_tally_others_sent(waits, item, done, us) : done->from_ns;
    uint64_t to_ns = done->start_ns;
    while (from_ns && to_ns > from_ns) {
        struct instance cause = waited_for(waits, item, done);
        const struct tally_data *data = NULL;
        size_t lane = 0;
        if (waits_for_data(waits, item))
            data = data_between(waits, &lane, later(cause.end_ns, from_ns), to_ns);
        if (data)
            to_ns = ah_tally_waits_charge(us, lane, from_ns, data->start_ns, to_ns);
        if (others)
            to_ns =
                ah_tally_others_blame(waits, item, done->iteration,
                                      (const uint64_t[3]){from_ns, later(cause.end_ns, from_ns), to_ns}, us);
        if (cause.end_ns <= from_ns || waits->graph.items[cause.item].lane == AH_PLAN_LANE_COMPUTE)
            return;
        item = cause.item;
        done = ah_tally_waits_done(waits, item, cause.iteration);
        to_ns = is_gate(waits, item) ? ah_tally_waits_charge(us, TALLY_GATE, from_ns, done->start_ns, to_ns)
                                     : ah_tally_waits_charge(us, lane_of(waits, item), from_ns,
                                                             waited_for(waits, item, done).end_ns, to_ns);
    }
}

void ah_tally_waits_exposed(const struct tally_waits *waits, uint64_t step, double ret_us[TALLY_EXPOSED])
{
    double us[TALLY_WAITS] = {0};
    for (uint32_t p = 0; p < waits->graph.positions; p++) {
        const struct tally_done *done =
            ah_tally_waits_done(waits, p, step + (waits->graph.items[p].early ? 1 : 0));
        if (done && !(waits->others.any && ah_tally_others_sends(waits, p)))
            blame(waits, p, done, us);
    }
    memcpy(ret_us, us, TALLY_EXPOSED * sizeof *ret_us);
}

void ah_tally_waits_iteration(const struct tally_waits *waits, uint64_t step,
                              struct tally_iteration *ret_iteration)
{
    uint64_t from_ns = UINT64_MAX, end_ns = 0, worked_ns = 0;
    *ret_iteration = (struct tally_iteration){.us = 0};
    for (uint32_t p = 0; p < waits->graph.positions; p++) {
        const struct tally_done *done = ah_tally_waits_done(waits, p, step);
        if (!done)
            continue;
        const bool sends = ah_tally_others_sends(waits, p);
        const uint64_t began_ns = sends || !done->from_ns ? done->start_ns : done->from_ns;
        from_ns = began_ns < from_ns ? began_ns : from_ns;
        end_ns = later(end_ns, done->end_ns);
        if (sends)
            continue;
        worked_ns += done->end_ns - done->start_ns;
        blame(waits, p, done, ret_iteration->waits_us);
    }
    ret_iteration->us = end_ns > from_ns ? (double)(end_ns - from_ns) / 1e3 : 0;
    ret_iteration->compute_us = (double)worked_ns / 1e3;
}
