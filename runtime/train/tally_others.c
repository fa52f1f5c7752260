/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds why compute of a rank waits for other ranks, in addition to the waits of the plan:
 *
 * 1. SENDS are in the order of compute but run on a separate lane; compute waits until they are done.
 * 2. MESSAGES. An item that needs a message begins when the message has arrived. The neighbour is charged only for time
 *    after the sends in which the item waited for nothing on this rank, however long the receive took.
 * 3. SUMS. An item that reads a total waits for the lane of sums, which does one share after another. With several
 *    pipelines, updates come after all passes, so the item waited for the last share to end.
 * 4. THE GATE is the item of the norm; its time starts when this rank's own part was ready (tally_waits.c).
 */
#include "runtime/train/tally_internal.h"

#include <string.h>

static bool arrives(enum ah_channel channel)
{
    return channel == AH_CHANNEL_OUTPUT_IN || channel == AH_CHANNEL_GRADIENT_IN;
}

int ah_tally_others_init(struct tally_waits *waits, struct ah_arena *arena, struct ah_error *err)
{
    struct tally_others *others = &waits->others;
    int rc = ah_messages_read(waits->plan, arena, &others->messages, err);
    if (rc)
        return rc;
    const uint64_t n = others->messages.micro_batches;
    for (enum ah_channel c = 0; c < AH_CHANNELS; c++) {
        if (!arrives(c) || !others->messages.of[c])
            continue;
        others->arrived_ns[c] = ah_arena_array(arena, TALLY_KEPT * n, sizeof(uint64_t));
        others->arrived[c] = ah_arena_array(arena, n, sizeof(uint64_t));
        if (!others->arrived_ns[c] || !others->arrived[c])
            return ah_error_memory(err);
    }
    others->sums = ah_arena_array(arena, TALLY_SUMS_KEPT, sizeof *others->sums);
    others->any = others->sums;
    return others->any ? AH_OK : ah_error_memory(err);
}

void ah_tally_others_begin(struct tally_waits *waits)
{
    struct tally_others *others = &waits->others;
    for (enum ah_channel c = 0; c < AH_CHANNELS; c++)
        if (others->arrived[c])
            memset(others->arrived[c], 0, others->messages.micro_batches * sizeof *others->arrived[c]);
    others->first_step = others->n_sums = 0;
}

/* A share has very many messages. Messages less than this apart count as one span of sums. */
enum { SUMS_GAP_NS = 50000 };

static void hear_sum(struct tally_others *others, const struct ah_op_record *record)
{
    struct tally_data *last = others->n_sums ? &others->sums[(others->n_sums - 1) % TALLY_SUMS_KEPT] : NULL;
    if (last && record->start_ns <= last->end_ns + SUMS_GAP_NS)
        last->end_ns = record->end_ns;
    else
        others->sums[others->n_sums++ % TALLY_SUMS_KEPT] =
            (struct tally_data){record->start_ns, record->end_ns};
}

void ah_tally_others_op(struct tally_waits *waits, const struct ah_op_record *record)
{
    struct tally_others *others = &waits->others;
    const enum ah_channel channel =
        record->lane == AH_LANE_RECEIVE_BEFORE ? AH_CHANNEL_OUTPUT_IN : AH_CHANNEL_GRADIENT_IN;
    if (record->lane == AH_LANE_SUMS)
        hear_sum(others, record);
    else if (others->arrived[channel] && record->tile < others->messages.micro_batches)
        others->arrived_ns[channel][record->tile * TALLY_KEPT +
                                    others->arrived[channel][record->tile]++ % TALLY_KEPT] = record->end_ns;
}

static enum ah_plan_op_kind kind_of(const struct tally_waits *waits, uint32_t item)
{
    return waits->plan->ops[waits->graph.items[item].op].op;
}

bool ah_tally_others_sends(const struct tally_waits *waits, uint32_t item)
{
    const enum ah_plan_op_kind kind = kind_of(waits, item);
    return kind == AH_PLAN_SEND_OUTPUT || kind == AH_PLAN_SEND_INPUT_GRADIENT;
}

uint64_t ah_tally_others_sent(const struct tally_waits *waits, uint32_t item, const struct tally_done *done,
                              double us[TALLY_WAITS])
{
    uint64_t end_ns = 0;
    for (uint32_t p = item; item < waits->graph.positions && p > 0 && ah_tally_others_sends(waits, p - 1);
         p--) {
        const struct tally_done *sent = ah_tally_waits_done(waits, p - 1, done->iteration);
        if (sent && sent->end_ns > end_ns)
            end_ns = sent->end_ns;
    }
    if (!done->from_ns || end_ns <= done->from_ns)
        return done->from_ns;
    end_ns = end_ns < done->start_ns ? end_ns : done->start_ns;
    (void)ah_tally_waits_charge(us, AH_LANE_SEND, done->from_ns, done->from_ns, end_ns);
    return end_ns;
}

/* Returns the time at which the message that an item needs arrived; 0 if it needs none, or the time is unknown. */
static uint64_t arrival_of(const struct tally_waits *waits, uint32_t item, uint64_t iteration,
                           enum ah_channel channel)
{
    const struct tally_others *others = &waits->others;
    if (!others->arrived[channel] || item >= waits->graph.positions || !others->first_step ||
        iteration < others->first_step)
        return 0;
    const uint32_t m = others->messages.number[channel][item];
    const uint64_t instance = iteration - others->first_step;
    if (m == AH_MESSAGES_NONE || instance >= others->arrived[channel][m] ||
        instance + TALLY_KEPT < others->arrived[channel][m])
        return 0;
    return others->arrived_ns[channel][m * TALLY_KEPT + instance % TALLY_KEPT];
}

static bool reads_totals(const struct tally_waits *waits, uint32_t item)
{
    const enum ah_plan_op_kind kind = kind_of(waits, item);
    return kind == AH_PLAN_DEVICE_ADAM || kind == AH_PLAN_HOST_ADAM || kind == AH_PLAN_NORM ||
           kind == AH_PLAN_SEND_GRADIENTS;
}

/* Charges spans of sums from the latest back, until one ended before `after_ns`. */
static uint64_t blame_sums(const struct tally_waits *waits, uint64_t from_ns, uint64_t after_ns,
                           uint64_t to_ns, double us[TALLY_WAITS])
{
    const struct tally_others *others = &waits->others;
    for (uint64_t k = 0; k < others->n_sums && k < TALLY_SUMS_KEPT; k++) {
        const struct tally_data *sum = &others->sums[(others->n_sums - 1 - k) % TALLY_SUMS_KEPT];
        if (sum->end_ns > to_ns) /* a later item waited for this span */
            continue;
        if (sum->end_ns <= after_ns)
            break;
        to_ns = ah_tally_waits_charge(us, AH_LANE_SUMS, from_ns, sum->start_ns, to_ns);
    }
    return to_ns;
}

uint64_t ah_tally_others_blame(const struct tally_waits *waits, uint32_t item, uint64_t iteration,
                               const uint64_t from_after_to_ns[3], double us[TALLY_WAITS])
{
    static const struct {
        enum ah_channel channel;
        uint32_t lane;
    } sides[] = {{AH_CHANNEL_OUTPUT_IN, AH_LANE_RECEIVE_BEFORE},
                 {AH_CHANNEL_GRADIENT_IN, AH_LANE_RECEIVE_BEHIND}};
    const uint64_t from_ns = from_after_to_ns[0], after_ns = from_after_to_ns[1];
    uint64_t to_ns = from_after_to_ns[2];
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const uint64_t arrived_ns = arrival_of(waits, item, iteration, sides[i].channel);
        if (arrived_ns > after_ns && to_ns > from_ns)
            to_ns = ah_tally_waits_charge(us, sides[i].lane, from_ns, from_ns,
                                          arrived_ns < to_ns ? arrived_ns : to_ns);
    }
    return reads_totals(waits, item) ? blame_sums(waits, from_ns, after_ns, to_ns, us) : to_ns;
}
