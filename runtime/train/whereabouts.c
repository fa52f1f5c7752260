/* SPDX-License-Identifier: Apache-2.0
 *
 * Whereabouts: reads from counters during a run what a rank is doing, for people who watch the run (beats.c).
 *
 * A receive is posted as soon as its memory is free, so a posted message does not mean that an op waits for it. A rank
 * waits for another rank if no work of its own runs and compute waits for a message, directly or through other lanes.
 * If compute has nothing to do, the program may wait for a report or an order of another rank.
 */
#include "runtime/train/trainer_internal.h"

enum { MESSAGES_MAX = 64 };

struct view {
    const struct ah_device *device;
    struct ah_device_head heads[AH_DEVICE_LANES_ALL];
    struct ah_comm_under_way messages[MESSAGES_MAX];
    size_t n_messages;
};

/* The cause of a lane's wait. */
enum cause { CAUSE_NONE, CAUSE_MESSAGE, CAUSE_OWN_WORK };

struct found {
    enum cause cause;
    const struct ah_comm_under_way *message;
};

/* Purpose and direction of the messages that each lane carries. */
static const struct {
    unsigned purposes; /* bits of enum ah_links_purpose */
    bool sends, receives;
} carried[AH_DEVICE_LANES_ALL] = {
    [AH_LANE_HOST] = {1u << AH_LINKS_GATE_UP | 1u << AH_LINKS_GATE_DOWN, true, true},
    [AH_LANE_SEND] = {1u << AH_LINKS_OUTPUT | 1u << AH_LINKS_GRADIENT, true, false},
    [AH_LANE_RECEIVE_BEFORE] = {1u << AH_LINKS_OUTPUT, false, true},
    [AH_LANE_RECEIVE_BEHIND] = {1u << AH_LINKS_GRADIENT, false, true},
    [AH_LANE_SUMS] = {1u << AH_LINKS_PARTIAL | 1u << AH_LINKS_TOTAL, true, true},
};

static const struct ah_comm_under_way *find_message(const struct view *view, unsigned purposes, bool sends,
                                                    bool receives)
{
    for (size_t i = 0; i < view->n_messages; i++) {
        const struct ah_comm_channel *channel = &view->messages[i].channel;
        if ((purposes >> channel->purpose & 1) && (channel->sends ? sends : receives))
            return &view->messages[i];
    }
    return NULL;
}

/* Finds what delays a lane. Own work counts before messages, since it needs no other rank to end. Waits lead to ops
 * submitted earlier, so the search ends; `depth` only matters if counters changed while they were read. */
static struct found cause_of_wait(const struct view *view, uint32_t lane, unsigned depth)
{
    const struct ah_device_head *head = &view->heads[lane];
    struct found found = {CAUSE_NONE, NULL};
    bool waits = false;
    if (!head->any || !depth)
        return found;
    for (uint32_t i = 0; i < head->n_waits && found.cause != CAUSE_OWN_WORK; i++) {
        const struct ah_wait *wait = &head->waits[i];
        if (view->heads[wait->lane].done >= wait->ticket)
            continue;
        waits = true;
        const struct found one = cause_of_wait(view, wait->lane, depth - 1);
        found = one.cause > found.cause ? one : found;
    }
    if (waits)
        return found;
    found.message = find_message(view, carried[lane].purposes, carried[lane].sends, carried[lane].receives);
    found.cause = found.message ? CAUSE_MESSAGE : CAUSE_OWN_WORK;
    return found;
}

/* If no submitted op delays compute, finds own work on any lane, else a message that host, program or lanes wait
 * for. */
static struct found find_other(const struct view *view)
{
    static const uint32_t lanes[] = {AH_LANE_HOST, AH_LANE_SUMS, AH_LANE_SEND, AH_LANE_RECEIVE_BEFORE,
                                     AH_LANE_RECEIVE_BEHIND};
    const struct ah_comm_under_way *word =
        find_message(view, 1u << AH_LINKS_UP | 1u << AH_LINKS_DOWN, true, true);
    struct found found = {CAUSE_NONE, NULL};
    for (uint32_t lane = 0; lane < view->device->lanes && found.cause != CAUSE_OWN_WORK; lane++) {
        const struct found one = cause_of_wait(view, lane, AH_DEVICE_LANES_ALL);
        found = one.cause == CAUSE_OWN_WORK ? one : found;
    }
    if (found.cause == CAUSE_OWN_WORK)
        return found;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes && !found.message && lanes[i] < view->device->lanes;
         i++) {
        if (word && lanes[i] != AH_LANE_HOST)
            break;
        found = cause_of_wait(view, lanes[i], AH_DEVICE_LANES_ALL);
    }
    return found.message || !word ? found : (struct found){CAUSE_MESSAGE, word};
}

static void read_view(const struct ah_trainer *t, struct view *ret_view)
{
    *ret_view = (struct view){.device = t->device};
    for (uint32_t lane = 0; lane < t->device->lanes && t->device->driver->head; lane++)
        t->device->driver->head(t->device, lane, &ret_view->heads[lane]);
    if (ah_ranks_several(&t->ranks))
        ret_view->n_messages = ah_comm_under_way(t->options.rank->comm, ret_view->messages, MESSAGES_MAX);
}

static void name_op(const struct ah_trainer *t, uint64_t tag, struct ah_trainer_beat *beat)
{
    const struct ah_plan *plan = t->options.plan;
    if (tag >= t->graph.n_items)
        return;
    const struct ah_plan_op *op = &plan->ops[t->graph.items[tag].op];
    beat->has_op = true;
    beat->op = op->op;
    beat->block = op->op == AH_PLAN_NORM ? AH_BEAT_NONE : (uint32_t)(ah_plan_first_block(plan) + op->block);
    beat->micro_batch = ah_run_is_of_micro_batch(op->op) ? (uint32_t)op->micro_batch : AH_BEAT_NONE;
}

static void name_wait(const struct ah_trainer *t, const struct ah_comm_under_way *message,
                      struct ah_trainer_beat *beat)
{
    beat->waits = true;
    beat->peer = message->channel.peer;
    beat->purpose = message->channel.purpose;
    beat->sends = message->channel.sends;
    beat->message = message->before;
    if (beat->purpose <= AH_LINKS_GRADIENT) /* one message per micro-batch */
        beat->message = beat->message / ah_links_each(t->options.rank) % t->job.training.micro_batches;
}

void ah_whereabouts_read(const struct ah_trainer *t, struct ah_trainer_beat *ret_beat)
{
    struct view view;
    read_view(t, &view);
    *ret_beat = (struct ah_trainer_beat){.step = __atomic_load_n(&t->reported_step, __ATOMIC_RELAXED)};
    const struct ah_device_head *compute = &view.heads[AH_LANE_COMPUTE];
    struct found found = cause_of_wait(&view, AH_LANE_COMPUTE, AH_DEVICE_LANES_ALL);
    if (found.cause == CAUSE_NONE) /* compute is idle, or its next op is not submitted yet */
        found = find_other(&view);
    if (compute->any)
        name_op(t, compute->tag, ret_beat);
    if (found.cause == CAUSE_MESSAGE)
        name_wait(t, found.message, ret_beat);
}
