/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks: moves messages, runs the gate, and gives and takes orders of rank 0.
 */
#include "runtime/train/tally.h"
#include "runtime/train/trainer_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts, by position, the messages whose memory is free there (messages.h, invariant 3). A word needs no memory. */
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
    const struct ah_plan *plan = t->options.plan;
    for (uint32_t p = 0; p < plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++)
        if (ah_plan_compute_op(plan, p)->op != AH_PLAN_DEVICE_ADAM)
            ranks->last_pass = p;
    int rc = ah_messages_read(plan, &t->arena, &ranks->messages, err);
    for (enum ah_channel c = 0; c < AH_CHANNELS && !rc; c++) {
        const bool arrives = c == AH_CHANNEL_OUTPUT_IN || c == AH_CHANNEL_GRADIENT_IN;
        rc = arrives && ranks->messages.of[c] ? list_begun(t, c, err) : AH_OK;
    }
    return rc;
}

int ah_ranks_meet(struct ah_trainer *t, struct ah_error *err)
{
    struct ranks *ranks = &t->ranks;
    if (!ah_ranks_several(ranks))
        return AH_OK;
    ranks->piece = malloc(AH_LINKS_PIECE_BYTES);
    ranks->together = calloc((size_t)ranks->options->ranks * AH_SUM_CHANNELS, sizeof *ranks->together);
    ranks->losses = calloc(ah_ranks_step_micro_batches(t), sizeof *ranks->losses);
    ranks->arrived = calloc(ah_ranks_step_micro_batches(t), sizeof *ranks->arrived);
    if (!ranks->piece || !ranks->together || !ranks->losses || !ranks->arrived)
        return ah_error_memory(err);
    ranks->links = ranks->options->links;
    if (ranks->links)
        return AH_OK;
    int rc = ah_links_open(&ranks->own, ranks->options, t->options.plan, err);
    ranks->links = rc ? NULL : &ranks->own;
    return rc;
}

void ah_ranks_release(struct ah_trainer *t)
{
    ah_links_release(&t->ranks.own);
    ah_tally_free(t->ranks.tally);
    free(t->ranks.piece);
    free(t->ranks.together);
    free(t->ranks.losses);
    free(t->ranks.arrived);
}

/* ---- a world of turns ---- */

/* A walk over the positions. Each position may need messages, and then may send one. */
struct walk {
    struct ah_trainer *t;
    /* partner of the latest send, if no position has needed a message since; else NULL */
    struct ranks_partner *last;
    uint32_t sent_at;
};

static void walk_need(struct walk *walk, enum ah_channel channel, uint32_t position)
{
    struct ranks *ranks = &walk->t->ranks;
    const struct ah_messages *messages = &ranks->messages;
    const uint32_t n = messages->of[channel] ? messages->number[channel][position] : AH_MESSAGES_NONE;
    if (n == AH_MESSAGES_NONE)
        return;
    if (walk->last && messages->of[channel][n].from <= walk->sent_at) {
        *walk->last = (struct ranks_partner){true, channel, n};
        ranks->joined[channel][n] = true;
    }
    walk->last = NULL;
}

static void walk_send(struct walk *walk, enum ah_channel channel, uint32_t position)
{
    struct ranks *ranks = &walk->t->ranks;
    const struct ah_messages *messages = &ranks->messages;
    const uint32_t n = messages->of[channel] ? messages->number[channel][position] : AH_MESSAGES_NONE;
    if (n == AH_MESSAGES_NONE)
        return;
    walk->last = &ranks->partner[channel][n];
    walk->sent_at = position;
}

int ah_ranks_pair(struct ah_trainer *t, struct ah_error *err)
{
    struct ranks *ranks = &t->ranks;
    const struct ah_messages *messages = &ranks->messages;
    struct walk walk = {.t = t};
    if (!ah_ranks_several(ranks) || ah_comm_independent(ranks->options->comm))
        return AH_OK;
    for (enum ah_channel c = 0; c < AH_CHANNELS; c++) {
        ranks->partner[c] = ah_arena_array(&t->arena, messages->micro_batches, sizeof *ranks->partner[c]);
        ranks->joined[c] = ah_arena_array(&t->arena, messages->micro_batches, sizeof *ranks->joined[c]);
        if (!ranks->partner[c] || !ranks->joined[c])
            return ah_error_memory(err);
    }
    for (uint32_t p = 0; p < messages->positions; p++) {
        walk_need(&walk, AH_CHANNEL_GRADIENT_IN, p);
        walk_need(&walk, AH_CHANNEL_OUTPUT_IN, p);
        walk_send(&walk, AH_CHANNEL_OUTPUT_OUT, p);
        walk_send(&walk, AH_CHANNEL_GRADIENT_OUT, p);
    }
    return AH_OK;
}

int ah_ranks_ready(struct ah_trainer *t, struct ah_error *err)
{
    const struct ranks *ranks = &t->ranks;
    uint32_t word = 0, *words;
    if (!ah_ranks_several(ranks) || ah_comm_independent(ranks->options->comm))
        return AH_OK;
    words = ah_arena_array(&t->arena, ranks->options->ranks, sizeof *words);
    if (!words)
        return ah_error_memory(err);
    int rc = ah_links_collect(ranks->links, &word, sizeof word, words, err);
    return rc ? rc : ah_links_share(ranks->links, &word, sizeof word, err);
}

static void *place_of(const struct ah_trainer *t, const struct ah_message *message, void *device_arena)
{
    char *arena = device_arena;
    return message->bytes ? arena + t->options.plan->arena.tensors[message->tensor].offset_bytes : NULL;
}

/* Moves a piece to or from another pipeline, with earlier pieces that had `more` set. Only the lane `sums` calls it. */
static int move_sum(struct ah_trainer *t, const struct ah_op_moved *moved, struct ah_error *err)
{
    struct ranks *ranks = &t->ranks;
    ranks->together[ranks->n_together++] =
        (struct ah_comm_moved){ranks->links->sums[moved->channel - AH_CHANNELS], moved->data, moved->bytes};
    if (moved->more)
        return AH_OK;
    const size_t n = ranks->n_together;
    ranks->n_together = 0;
    return ah_comm_move_together(ranks->options->comm, ranks->together, n, err);
}

int ah_ranks_move(void *context, const struct ah_op_moved *moved, struct ah_error *err)
{
    struct ah_trainer *t = context;
    struct ranks *ranks = &t->ranks;
    const struct ah_links *links = ranks->links;
    const struct ranks_partner *partner = NULL;
    const uint32_t channel = moved->channel;
    if (channel >= AH_CHANNELS)
        return move_sum(t, moved, err);
    if (t->pace.nics)
        return ah_pace_move(t, moved, err);
    if (ranks->partner[channel] && ranks->trains_now)
        partner = &ranks->partner[channel][ranks->moved[channel]++ % ranks->messages.micro_batches];
    if (!partner || !partner->any)
        return ah_links_move(links, links->channel[channel], moved->data, moved->bytes, err);
    const struct ah_message *message = &ranks->messages.of[partner->channel][partner->micro_batch];
    const struct ah_comm_moved both[] = {
        {links->channel[channel], moved->data, moved->bytes},
        {links->channel[partner->channel], place_of(t, message, moved->device_arena), message->bytes}};
    return ah_comm_move_together(links->place->comm, both, sizeof both / sizeof *both, err);
}

uint64_t ah_ranks_step_batch(const struct ah_trainer *t)
{
    return t->options.rank ? t->options.rank->step_batch : t->options.plan->training.batch;
}

uint64_t ah_ranks_step_micro_batches(const struct ah_trainer *t)
{
    const struct ah_plan_training *training = &t->options.plan->training;
    return ah_ranks_step_batch(t) / (training->batch / training->micro_batches);
}

uint64_t ah_ranks_micro_batch(const struct ah_trainer *t, uint32_t rank, uint64_t m)
{
    const struct ah_trainer_rank *place = t->options.rank;
    return place ? place->stages[rank].first_micro_batch + m * (place->shards ? place->ranks : 1) : m;
}

uint64_t ah_ranks_shard(const struct ah_trainer *t)
{
    return t->options.rank && t->options.rank->shards ? t->options.rank->rank : 0;
}

/* ---- messages through one rank ---- */

static int move_bytes(const struct ah_trainer *t, uint32_t channel, void *data, uint64_t bytes,
                      struct ah_error *err)
{
    return ah_links_move(t->ranks.links, channel, data, bytes, err);
}

/* Runs the gate at the gatekeeper: gets sums of blocks from their owners, and sends all sums to all training ranks. If
 * ranks share states, the last rank keeps the gate and has all sums already (bind_net.c). */
static int keep_gate(struct ah_trainer *t, double *sums, uint64_t blocks, struct ah_error *err)
{
    const struct ah_trainer_rank *options = t->options.rank;
    int rc = AH_OK;
    for (uint64_t block = 0, end; block < blocks && !options->shards && !rc; block = end) {
        const uint32_t owner = options->owner[block];
        for (end = block; end < blocks && options->owner[end] == owner;)
            end++;
        if (owner != options->rank && t->ranks.links->trains[owner])
            rc = move_bytes(t, t->ranks.links->gate[owner].up, sums + block, (end - block) * sizeof *sums,
                            err);
    }
    for (uint32_t rank = 0; rank < options->ranks && !rc; rank++)
        if (rank != options->rank && t->ranks.links->trains[rank])
            rc = move_bytes(t, t->ranks.links->gate[rank].down, sums, blocks * sizeof *sums, err);
    return rc;
}

/* Sends the sums of this rank's blocks and gets all sums. Only owners send, because pipelines have equal sums. */
int ah_ranks_gate(void *context, struct ah_error *err)
{
    struct ah_trainer *t = context;
    const struct ah_trainer_rank *place = t->options.rank;
    double *sums = ah_device_pointer(t->device, t->addresses.sums);
    const uint64_t blocks = ah_model_blocks(t->job.model), first = t->job.part.first_block;
    if (place->rank == t->ranks.links->gatekeeper)
        return keep_gate(t, sums, blocks, err);
    int rc =
        place->owner[first] == place->rank && !place->shards
            ? move_bytes(t, t->ranks.links->gate[0].up, sums + first, t->job.n_blocks * sizeof *sums, err)
            : AH_OK;
    return rc ? rc : move_bytes(t, t->ranks.links->gate[0].down, sums, blocks * sizeof *sums, err);
}

/* Sends numbers to rank 0 from the rank `from`, which knows them. */
static int bring_numbers(struct ah_trainer *t, uint32_t from, double *values, uint64_t n,
                         struct ah_error *err)
{
    const uint32_t rank = t->options.rank->rank;
    return from && (!rank || rank == from)
               ? move_bytes(t, t->ranks.links->other[rank ? 0 : from].up, values, n * sizeof *values, err)
               : AH_OK;
}

int ah_ranks_gather(struct ah_trainer *t, int64_t step, double *grad_norm, struct ah_error *err)
{
    const struct ah_trainer_rank *place = t->options.rank;
    const uint64_t blocks = ah_model_blocks(t->job.model);
    double *own = ah_device_pointer(t->device, ah_run_header(t, step, AH_HEADER_LOSS));
    int rc = AH_OK;
    for (uint32_t rank = 0; rank < place->ranks && !rc; rank++) {
        const struct ah_trainer_stage *stage = &place->stages[rank];
        double *losses = t->ranks.arrived;
        if (stage->first_block + stage->blocks < blocks)
            continue;
        if (rank == place->rank)
            memcpy(losses, own, stage->micro_batches * sizeof *losses);
        rc = bring_numbers(t, rank, losses, stage->micro_batches, err);
        for (uint64_t m = 0; m < stage->micro_batches; m++)
            t->ranks.losses[ah_ranks_micro_batch(t, rank, m)] = losses[m];
    }
    return rc ? rc : bring_numbers(t, t->ranks.links->gatekeeper, grad_norm, 1, err);
}

int ah_ranks_agree(struct ah_trainer *t, struct ranks_verdict *verdict, struct ah_error *err)
{
    return ah_links_share(t->ranks.links, verdict, sizeof *verdict, err);
}

/* ---- orders ---- */

int ah_ranks_order(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err)
{
    struct ranks_order copy = *order;
    return ah_ranks_leads(&t->ranks) ? ah_links_share(t->ranks.links, &copy, sizeof copy, err) : AH_OK;
}

static int order_piece(struct ah_trainer *t, uint32_t rank, enum ranks_order_kind kind,
                       enum ah_trainer_vector vector, const struct ah_weights_piece *piece,
                       struct ah_error *err)
{
    struct ranks_order order = {.kind = kind, .vector = vector, .piece = *piece};
    return move_bytes(t, t->ranks.links->other[rank].down, &order, sizeof order, err);
}

int ah_ranks_read_piece(struct ah_trainer *t, uint32_t owner, enum ah_trainer_vector vector,
                        const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err)
{
    int rc = order_piece(t, owner, RANKS_READ, vector, piece, err);
    rc = rc ? rc
            : move_bytes(t, t->ranks.links->other[owner].up, ret_values, piece->n * sizeof *ret_values, err);
    return ah_ranks_fail(t, rc, err);
}

/* True if the stage holds the piece's block, or a copy of the table with the piece. */
static bool keeps(const struct ah_trainer *t, const struct ah_trainer_stage *stage,
                  const struct ah_weights_piece *piece)
{
    const bool copies = t->options.model->tied && !piece->block && !piece->tensor &&
                        stage->first_block + stage->blocks == ah_model_blocks(t->options.model);
    return copies ||
           (piece->block >= stage->first_block && piece->block - stage->first_block < stage->blocks);
}

int ah_ranks_write_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                         const struct ah_weights_piece *piece, const float *values, struct ah_error *err)
{
    union {
        const float *values;
        void *sent; /* not const, but a send only reads */
    } from = {values};
    const struct ah_trainer_rank *place = t->options.rank;
    int rc = AH_OK;
    for (uint32_t rank = 1; rank < place->ranks && !rc; rank++) {
        if (!keeps(t, &place->stages[rank], piece))
            continue;
        rc = order_piece(t, rank, RANKS_WRITE, vector, piece, err);
        rc = rc ? rc
                : move_bytes(t, t->ranks.links->other[rank].down, from.sent, piece->n * sizeof *values, err);
    }
    return ah_ranks_fail(t, rc, err);
}

static int do_piece(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err)
{
    const bool writes = order->kind == RANKS_WRITE;
    float *values = t->ranks.piece;
    const uint64_t bytes = order->piece.n * sizeof *values;
    int rc = writes ? move_bytes(t, t->ranks.links->other[0].down, values, bytes, err)
                    : ah_trainer_read(t, order->vector, &order->piece, values, err);
    if (rc)
        return rc;
    return writes ? ah_state_write(t, order->vector, &order->piece, values, err)
                  : move_bytes(t, t->ranks.links->other[0].up, values, bytes, err);
}

static int obey(struct ah_trainer *t, const struct ranks_order *order, struct ah_batches *held_out,
                struct ah_error *err)
{
    struct ah_trainer_evaluation evaluation;
    switch (order->kind) {
    case RANKS_RUN:
        return ah_ranks_run(t, order->steps, err);
    case RANKS_EVALUATE: {
        int rc = held_out ? ah_trainer_evaluate(t, held_out, NULL, &evaluation, err)
                          : ah_error_set(err, AH_E_USAGE, "rank 0 has held-out data, but this rank has none");
        return rc == AH_E_INTERRUPTED ? AH_OK : rc;
    }
    case RANKS_READ:
    case RANKS_WRITE:
        return do_piece(t, order, err);
    case RANKS_MEASURED:
        return ah_ranks_tell_measured(t, err);
    case RANKS_RECORDED:
        return ah_ranks_tell_recorded(t, err);
    case RANKS_MEET:
    case RANKS_FILL:
    case RANKS_SAME:
    case RANKS_LOAD:
    case RANKS_HASH:
        return ah_together_obey(t, order, err);
    case RANKS_END:
        break;
    }
    return AH_OK;
}

int ah_trainer_follow(struct ah_trainer *t, struct ah_batches *held_out, struct ah_error *err)
{
    struct ranks_order order = {.kind = RANKS_RUN};
    int rc = ah_tally_new(&t->ranks.tally, t->options.plan, err);
    while (!rc && order.kind != RANKS_END) {
        rc = move_bytes(t, t->ranks.links->other[0].down, &order, sizeof order, err);
        rc = rc ? rc : obey(t, &order, held_out, err);
    }
    return rc ? ah_ranks_fail(t, rc, err) : AH_OK;
}

/* ---- the watch ---- */

bool ah_ranks_other_waits(const void *context, char *ret_text, size_t room)
{
    const struct ah_trainer *t = context;
    const uint32_t rank = t->options.rank->rank;
    struct ah_buffer waits = {0};
    ah_links_waits(t->options.rank->comm, t->job.training.micro_batches, ah_links_each(t->options.rank),
                   &waits);
    const bool any = waits.size && !waits.failed;
    snprintf(ret_text, room, "rank %" PRIu32 " waits for %s", rank, any ? waits.data : "no other");
    ah_buffer_release(&waits);
    return any;
}

uint64_t ah_ranks_pulse(const void *context)
{
    const struct ah_trainer *t = context;
    return __atomic_load_n(&t->ranks.heard, __ATOMIC_RELAXED) + ah_pace_pulse(t);
}

/* ---- failures ---- */

void ah_ranks_failed(void *context, const struct ah_error *why)
{
    const struct ah_trainer *t = context;
    struct ah_error placed = *why;
    if (why->code == AH_E_PEER) /* the world is lost already */
        return;
    ah_run_place(t, &placed);
    ah_comm_revoke(t->options.rank->comm, &placed);
}

int ah_ranks_fail(struct ah_trainer *t, int rc, struct ah_error *err)
{
    const struct ah_trainer_rank *place = t->options.rank;
    if (!rc || !place)
        return rc;
    const bool has_ended = t->ranks.ended;
    t->ranks.ended = true;
    return has_ended && rc != AH_E_PEER ? rc : ah_links_fail(place, rc, err);
}
