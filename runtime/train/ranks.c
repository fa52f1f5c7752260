/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks: channels, and what goes over rank 0.
 */
#include "runtime/schedule/trainable.h"
#include "runtime/train/trainer_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What channels are for, as both ends number it. */
enum purpose {
    PURPOSE_OUTPUT,
    PURPOSE_GRADIENT,
    PURPOSE_GATE_UP,
    PURPOSE_GATE_DOWN,
    PURPOSE_UP,
    PURPOSE_DOWN
};

/* ---- channels ---- */

static const struct {
    enum purpose purpose;
    bool sends, behind;
} of_pipeline[AH_CHANNELS] = {
    [AH_CHANNEL_OUTPUT_IN] = {PURPOSE_OUTPUT, false, false},
    [AH_CHANNEL_OUTPUT_OUT] = {PURPOSE_OUTPUT, true, true},
    [AH_CHANNEL_GRADIENT_IN] = {PURPOSE_GRADIENT, false, true},
    [AH_CHANNEL_GRADIENT_OUT] = {PURPOSE_GRADIENT, true, false},
};

struct asking {
    struct ah_comm_channel *channels;
    uint32_t n;
};

static uint32_t ask(struct asking *asking, uint32_t peer, enum purpose purpose, bool sends,
                    uint64_t most_bytes)
{
    asking->channels[asking->n] =
        (struct ah_comm_channel){.peer = peer, .purpose = purpose, .sends = sends, .most_bytes = most_bytes};
    return asking->n++;
}

static struct ranks_pair ask_pair(struct asking *asking, uint32_t peer, enum purpose up, bool receives_up,
                                  uint64_t most_bytes)
{
    const enum purpose down = up == PURPOSE_UP ? PURPOSE_DOWN : PURPOSE_GATE_DOWN;
    const uint32_t channel = ask(asking, peer, up, !receives_up, most_bytes);
    return (struct ranks_pair){channel, ask(asking, peer, down, receives_up, most_bytes)};
}

/* With `centre`: all others that `has` (NULL: all) if this rank is it, else the centre alone. */
static void ask_pairs(const struct ah_trainer_rank *options, struct asking *asking, uint32_t centre,
                      const bool *has, enum purpose up, uint64_t most_bytes, struct ranks_pair *ret_pairs)
{
    if (has && !has[options->rank])
        return;
    if (options->rank != centre) {
        ret_pairs[0] = ask_pair(asking, centre, up, false, most_bytes);
        return;
    }
    for (uint32_t peer = 0; peer < options->ranks; peer++)
        if (peer != centre && (!has || has[peer]))
            ret_pairs[peer] = ask_pair(asking, peer, up, true, most_bytes);
}

/* Who takes part in the gate: a rank that trains nothing has no norm to take. */
static int find_training(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_model *model = t->job.model;
    const struct ah_plan_training *training = &t->job.training;
    struct ranks *ranks = &t->ranks;
    const uint64_t blocks = ah_model_blocks(model);
    uint32_t *trained = calloc(blocks, sizeof *trained);
    ranks->trains = ah_arena_array(&t->arena, ranks->options->ranks, sizeof *ranks->trains);
    ranks->gatekeeper = ranks->options->ranks;
    int rc = trained && ranks->trains ? AH_OK : ah_error_memory(err);
    rc = rc ? rc : ah_trainable_match(model, training->trainable, training->n_trainable, trained, err);
    for (uint64_t block = 0; block < blocks && !rc; block++) {
        const uint32_t owner = ranks->options->owner[block];
        ranks->trains[owner] |= trained[block] != 0;
        if (trained[block] && ranks->gatekeeper == ranks->options->ranks)
            ranks->gatekeeper = owner;
    }
    free(trained);
    return rc;
}

/* Places become free in the order of messages (messages.h, invariant 3); a word has one from the first position on. */
static int list_begun(struct ah_trainer *t, enum ah_channel channel, struct ah_error *err)
{
    struct ranks *ranks = &t->ranks;
    const struct ah_messages *messages = &ranks->messages;
    uint32_t *begun = ah_arena_array(&t->arena, messages->positions, sizeof *begun);
    ranks->begun[channel] = begun;
    ranks->received[channel] = ah_arena_array(&t->arena, messages->micro_batches, sizeof(uint64_t));
    if (!begun || !ranks->received[channel])
        return ah_error_memory(err);
    for (uint32_t p = 0, n = 0; p < messages->positions; p++) {
        while (n < messages->micro_batches && messages->of[channel][n].from <= p)
            n++;
        begun[p] = n;
    }
    return AH_OK;
}

int ah_ranks_read(struct ah_trainer *t, struct ah_error *err)
{
    struct ranks *ranks = &t->ranks;
    if (!ah_ranks_several(ranks))
        return AH_OK;
    int rc = ah_messages_read(t->options.plan, &t->arena, &ranks->messages, err);
    rc = rc ? rc : find_training(t, err);
    for (enum ah_channel c = 0; c < AH_CHANNELS && !rc; c++)
        rc = ranks->messages.of[c] && !of_pipeline[c].sends ? list_begun(t, c, err) : AH_OK;
    return rc;
}

int ah_ranks_meet(struct ah_trainer *t, struct ah_error *err)
{
    struct ranks *ranks = &t->ranks;
    const struct ah_trainer_rank *options = ranks->options;
    if (!ah_ranks_several(ranks))
        return AH_OK;
    struct asking asking = {.channels =
                                calloc(AH_CHANNELS + 4 * (size_t)options->ranks, sizeof *asking.channels)};
    ranks->gate = ah_arena_array(&t->arena, options->ranks, sizeof *ranks->gate);
    ranks->other = ah_arena_array(&t->arena, options->ranks, sizeof *ranks->other);
    ranks->piece = malloc(AH_RANKS_PIECE_BYTES);
    if (!asking.channels || !ranks->gate || !ranks->other || !ranks->piece) {
        free(asking.channels);
        return ah_error_memory(err);
    }
    for (enum ah_channel c = 0; c < AH_CHANNELS; c++)
        if (ranks->messages.of[c])
            ranks->channel[c] = ask(&asking, of_pipeline[c].behind ? options->behind : options->before,
                                    of_pipeline[c].purpose, of_pipeline[c].sends, t->job.residual_bytes);
    ask_pairs(options, &asking, 0, NULL, PURPOSE_UP, AH_RANKS_PIECE_BYTES, ranks->other);
    ask_pairs(options, &asking, ranks->gatekeeper, ranks->trains, PURPOSE_GATE_UP,
              ah_model_blocks(t->job.model) * sizeof(double), ranks->gate);
    int rc = ah_comm_channels(options->comm, asking.channels, asking.n, err);
    free(asking.channels);
    ranks->met = !rc;
    return rc;
}

void ah_ranks_release(struct ah_trainer *t)
{
    free(t->ranks.piece);
}

int ah_ranks_move(void *context, uint32_t channel, void *data, uint64_t bytes, struct ah_error *err)
{
    const struct ah_trainer *t = context;
    return ah_comm_move(t->options.rank->comm, t->ranks.channel[channel], data, bytes, err);
}

/* ---- over rank 0 ---- */

static int move(struct ah_trainer *t, uint32_t channel, void *data, uint64_t bytes, struct ah_error *err)
{
    return ah_comm_move(t->options.rank->comm, channel, data, bytes, err);
}

/* From rank 0 to all. */
static int share(struct ah_trainer *t, void *data, uint64_t bytes, struct ah_error *err)
{
    const struct ah_trainer_rank *options = t->options.rank;
    int rc = AH_OK;
    if (options->rank)
        return move(t, t->ranks.other[0].down, data, bytes, err);
    for (uint32_t rank = 1; rank < options->ranks && !rc; rank++)
        rc = move(t, t->ranks.other[rank].down, data, bytes, err);
    return rc;
}

/* The gatekeeper hears of each run of blocks, and tells of all. */
static int keep_gate(struct ah_trainer *t, double *sums, uint64_t blocks, struct ah_error *err)
{
    const struct ah_trainer_rank *options = t->options.rank;
    int rc = AH_OK;
    for (uint64_t block = 0, end; block < blocks && !rc; block = end) {
        const uint32_t owner = options->owner[block];
        for (end = block; end < blocks && options->owner[end] == owner;)
            end++;
        if (owner != options->rank && t->ranks.trains[owner])
            rc = move(t, t->ranks.gate[owner].up, sums + block, (end - block) * sizeof *sums, err);
    }
    for (uint32_t rank = 0; rank < options->ranks && !rc; rank++)
        if (rank != options->rank && t->ranks.trains[rank])
            rc = move(t, t->ranks.gate[rank].down, sums, blocks * sizeof *sums, err);
    return rc;
}

/* Of block sums each rank has those of its own blocks, and gets all. */
int ah_ranks_gate(void *context, struct ah_error *err)
{
    struct ah_trainer *t = context;
    double *sums = ah_device_pointer(t->device, t->places.sums);
    const uint64_t blocks = ah_model_blocks(t->job.model);
    if (t->options.rank->rank == t->ranks.gatekeeper)
        return keep_gate(t, sums, blocks, err);
    int rc =
        move(t, t->ranks.gate[0].up, sums + t->job.part.first_block, t->job.n_blocks * sizeof *sums, err);
    return rc ? rc : move(t, t->ranks.gate[0].down, sums, blocks * sizeof *sums, err);
}

/* One number from the rank that knows it. */
static int bring(struct ah_trainer *t, uint32_t from, double *value, struct ah_error *err)
{
    const uint32_t rank = t->options.rank->rank;
    return from && (!rank || rank == from)
               ? move(t, t->ranks.other[rank ? 0 : from].up, value, sizeof *value, err)
               : AH_OK;
}

int ah_ranks_gather(struct ah_trainer *t, struct ranks_report *report, struct ah_error *err)
{
    const uint32_t head = t->options.rank->owner[ah_model_blocks(t->job.model) - 1];
    int rc = bring(t, head, &report->loss, err);
    return rc ? rc : bring(t, t->ranks.gatekeeper, &report->grad_norm, err);
}

int ah_ranks_agree(struct ah_trainer *t, struct ranks_verdict *verdict, struct ah_error *err)
{
    return share(t, verdict, sizeof *verdict, err);
}

/* ---- orders ---- */

int ah_ranks_order(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err)
{
    struct ranks_order copy = *order;
    return ah_ranks_leads(&t->ranks) ? share(t, &copy, sizeof copy, err) : AH_OK;
}

static uint32_t order_piece(struct ah_trainer *t, enum ranks_order_kind kind, enum ah_trainer_vector vector,
                            const struct ah_weights_piece *piece, int *ret_rc, struct ah_error *err)
{
    const uint32_t owner = t->options.rank->owner[piece->block];
    struct ranks_order order = {.kind = kind, .vector = vector, .piece = *piece};
    *ret_rc = move(t, t->ranks.other[owner].down, &order, sizeof order, err);
    return owner;
}

int ah_ranks_read_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                        const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err)
{
    int rc;
    const uint32_t owner = order_piece(t, RANKS_READ, vector, piece, &rc, err);
    rc = rc ? rc : move(t, t->ranks.other[owner].up, ret_values, piece->n * sizeof *ret_values, err);
    return ah_ranks_fail(t, rc, err);
}

int ah_ranks_write_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                         const struct ah_weights_piece *piece, const float *values, struct ah_error *err)
{
    union {
        const float *values;
        void *sent; /* a send only reads */
    } from = {values};
    int rc;
    const uint32_t owner = order_piece(t, RANKS_WRITE, vector, piece, &rc, err);
    rc = rc ? rc : move(t, t->ranks.other[owner].down, from.sent, piece->n * sizeof *values, err);
    return ah_ranks_fail(t, rc, err);
}

static int do_piece(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err)
{
    const bool writes = order->kind == RANKS_WRITE;
    float *values = t->ranks.piece;
    const uint64_t bytes = order->piece.n * sizeof *values;
    int rc = writes ? move(t, t->ranks.other[0].down, values, bytes, err)
                    : ah_trainer_read(t, order->vector, &order->piece, values, err);
    if (rc)
        return rc;
    return writes ? ah_trainer_write(t, order->vector, &order->piece, values, err)
                  : move(t, t->ranks.other[0].up, values, bytes, err);
}

static int obey(struct ah_trainer *t, const struct ranks_order *order, struct ah_batches *held_out,
                struct ah_error *err)
{
    struct ah_trainer_evaluation evaluation;
    switch (order->kind) {
    case RANKS_RUN:
        return ah_trainer_run(t, order->steps, NULL, err);
    case RANKS_EVALUATE: {
        int rc = held_out ? ah_trainer_evaluate(t, held_out, NULL, &evaluation, err)
                          : ah_error_set(err, AH_E_USAGE, "rank 0 has held-out data, this rank has none");
        return rc == AH_E_INTERRUPTED ? AH_OK : rc;
    }
    case RANKS_READ:
    case RANKS_WRITE:
        return do_piece(t, order, err);
    case RANKS_END:
        break;
    }
    return AH_OK;
}

int ah_trainer_follow(struct ah_trainer *t, struct ah_batches *held_out, struct ah_error *err)
{
    struct ranks_order order = {.kind = RANKS_RUN};
    int rc = AH_OK;
    while (!rc && order.kind != RANKS_END) {
        rc = move(t, t->ranks.other[0].down, &order, sizeof order, err);
        rc = rc ? rc : obey(t, &order, held_out, err);
    }
    return rc ? ah_ranks_fail(t, rc, err) : AH_OK;
}

/* ---- failures ---- */

int ah_ranks_fail(struct ah_trainer *t, int rc, struct ah_error *err)
{
    const struct ah_trainer_rank *options = t->options.rank;
    struct ah_error why = {0};
    uint32_t rank;
    if (!rc || !ah_ranks_several(&t->ranks))
        return rc;
    t->ranks.ended = true;
    if (rc != AH_E_PEER)
        ah_comm_revoke(options->comm, err ? err : &(struct ah_error){.code = rc});
    if (!ah_comm_fault(options->comm, &rank, &why) || rank == options->rank)
        return rc;
    return why.code && why.code != AH_E_PEER
               ? ah_error_set(err, why.code, "rank %" PRIu32 ": %.700s", rank, why.text)
               : rc;
}
