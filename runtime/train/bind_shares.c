/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares: how a rank of each pipeline adds up the gradients of the blocks that all of them have, so that all have the total.
 *
 * A block's vector is cut into pieces. Piece q belongs to pipeline q modulo their number; its rank gets that piece of all
 * others, adds them up in the order of the pipelines (fold.h: groups), and gives the total back. So each rank sends and
 * receives twice its vector, less what it keeps: what a ring does. Messages of a turn go together: those pieces of the sums
 * that are next, and the totals of the turn before.
 *
 * Adding two numbers gives the same bits in either order, so that a rank adds what comes before its own sum elsewhere and then
 * to it, in its place.
 */
#include "runtime/train/bind_internal.h"

struct share {
    struct ah_binder *binder;
    const struct ah_trainer_share *it;
    uint32_t pipelines, own; /* which of them this rank is of */
    struct ah_ref vector;    /* the block's sum */
    uint64_t elements, piece;
    size_t last_message; /* of the turn; SIZE_MAX: there is none */
};

/* ---- messages ---- */

static struct ah_stretch piece_of(const struct share *s, uint64_t turn, uint32_t pipeline)
{
    uint64_t first = (turn * s->pipelines + pipeline) * s->piece;
    first = first < s->elements ? first : s->elements;
    const uint64_t end = first + s->piece;
    return (struct ah_stretch){first, end < s->elements ? end : s->elements};
}

static struct ah_ref at(struct ah_ref vector, uint64_t element)
{
    vector.offset_bytes += element * sizeof(float);
    return vector;
}

/* Where a piece of another pipeline's sum arrives. */
static struct ah_ref partial_of(const struct share *s, uint32_t pipeline)
{
    const uint32_t place = pipeline < s->own ? pipeline : pipeline - 1;
    return at(s->binder->places->partials, place * s->binder->places->share_piece);
}

static int message(struct share *s, uint32_t pipeline, enum ah_bind_sum sum, struct ah_ref ref,
                   uint64_t elements)
{
    const bool arrives = sum == AH_SUM_PARTIAL_IN || sum == AH_SUM_TOTAL_IN;
    struct ah_bound *all = s->binder->bound;
    struct ah_bound_op *bound = ah_bind_push(s->binder, arrives ? AH_OP_RECEIVE : AH_OP_SEND);
    if (!bound)
        return AH_E_MEMORY;
    if (s->last_message != SIZE_MAX)
        all->ops[s->last_message].op.u.message.more = true;
    s->last_message = all->n_ops - 1;
    bound->learns = true;
    bound->op.arg[0] = ref;
    bound->op.u.message = s->binder->options->message;
    bound->op.u.message.channel = ah_bind_sum_channel(s->it->ranks[pipeline], sum);
    bound->op.u.message.bytes = elements * sizeof(float);
    return AH_OK;
}

/* Of this turn: pieces of sums to whom they belong, and those that belong here. */
static int send_partials(struct share *s, uint64_t turn)
{
    const struct ah_stretch own = piece_of(s, turn, s->own);
    int rc = AH_OK;
    for (uint32_t p = 0; p < s->pipelines && !rc; p++) {
        const struct ah_stretch piece = piece_of(s, turn, p);
        if (p == s->own)
            continue;
        if (piece.end > piece.first)
            rc = message(s, p, AH_SUM_PARTIAL_OUT, at(s->vector, piece.first), piece.end - piece.first);
        if (!rc && own.end > own.first)
            rc = message(s, p, AH_SUM_PARTIAL_IN, partial_of(s, p), own.end - own.first);
    }
    return rc;
}

static int send_totals(struct share *s, uint64_t turn)
{
    const struct ah_stretch own = piece_of(s, turn, s->own);
    int rc = AH_OK;
    for (uint32_t p = 0; p < s->pipelines && !rc; p++) {
        const struct ah_stretch piece = piece_of(s, turn, p);
        if (p == s->own)
            continue;
        if (own.end > own.first)
            rc = message(s, p, AH_SUM_TOTAL_OUT, at(s->vector, own.first), own.end - own.first);
        if (!rc && piece.end > piece.first)
            rc = message(s, p, AH_SUM_TOTAL_IN, at(s->vector, piece.first), piece.end - piece.first);
    }
    return rc;
}

/* ---- sums ---- */

/* ((p0 + p1) + ...) + own, in its place, then those behind. */
static int add_piece(struct share *s, uint64_t turn)
{
    const struct ah_stretch piece = piece_of(s, turn, s->own);
    const struct ah_ref own = at(s->vector, piece.first);
    const uint64_t n = piece.end - piece.first;
    int rc = AH_OK;
    for (uint32_t p = 1; p < s->own && !rc && n; p++)
        rc = ah_bind_elements(s->binder, AH_OP_ACCUMULATE, partial_of(s, 0), partial_of(s, p), AH_MOVE_NONE,
                              n);
    for (uint32_t p = s->own ? s->own : 1; p < s->pipelines && !rc && n; p++)
        rc = ah_bind_elements(s->binder, AH_OP_ACCUMULATE, own, partial_of(s, p == s->own ? 0 : p),
                              AH_MOVE_NONE, n);
    return rc;
}

/* Equal ones for all pipelines, where one turn is enough. */
static uint64_t piece_elements(const struct share *s)
{
    const uint64_t most = s->binder->places->share_piece;
    const uint64_t each = (s->elements + s->pipelines - 1) / s->pipelines;
    const uint64_t aligned = (each + AH_FLAT_ALIGN - 1) / AH_FLAT_ALIGN * AH_FLAT_ALIGN;
    return aligned < most ? aligned : most;
}

static int bind_block(struct share *s)
{
    const uint64_t all = s->pipelines * s->piece, turns = (s->elements + all - 1) / all;
    int rc = AH_OK;
    for (uint64_t turn = 0; turn <= turns && !rc; turn++) {
        s->last_message = SIZE_MAX;
        if (turn)
            rc = send_totals(s, turn - 1);
        if (!rc && turn < turns)
            rc = send_partials(s, turn);
        if (!rc && turn < turns)
            rc = add_piece(s, turn);
    }
    return rc;
}

/* The position at which the sum of the rank's own pipeline is complete. */
static uint64_t made_at(const struct ah_binder *b, uint64_t block)
{
    const enum ah_plan_op_kind kind = ah_job_is_head(b->job, block) ? AH_PLAN_FORWARD : AH_PLAN_BACKWARD;
    const uint64_t last = b->plan->training.micro_batches - 1;
    for (size_t i = 0; i < b->plan->n_ops; i++) {
        const struct ah_plan_op *op = &b->plan->ops[i];
        if (op->op == kind && op->block == block && op->micro_batch == last)
            return op->position;
    }
    return 0;
}

static int square(struct share *s, uint64_t block, bool on_host)
{
    struct ah_binder *b = s->binder;
    if (!(b->plan->training.clip > 0))
        return AH_OK;
    return ah_bind_squares(b, on_host ? b->places->sums : b->places->device_sums,
                           on_host ? b->job->part.first_block + block : block, s->vector,
                           (struct ah_stretch){0, s->elements});
}

int ah_bind_share_ops(struct ah_binder *b, size_t share)
{
    const struct ah_trainer_rank *rank = b->options->rank;
    const uint64_t first = b->job->part.first_block;
    struct share s = {.binder = b,
                      .it = &rank->shares[share],
                      .pipelines = rank->pipelines,
                      .own = rank->stages[rank->rank].pipeline};
    int rc = AH_OK;
    if (s.it->ranks[s.own] != rank->rank)
        return AH_OK;
    for (uint64_t block = s.it->first_block - first, n = 0; n < s.it->blocks && !rc; n++, block++) {
        const struct ah_places_block *it = &b->places->blocks[block];
        const bool on_host = ah_bind_sums_on(b, block, AH_ACCUMULATOR_HOST);
        s.elements = it->group->trained_elements;
        if (!s.elements)
            continue;
        s.piece = piece_elements(&s);
        s.vector = it->host_sum.ref;
        rc = on_host ? AH_OK : ah_bind_gradient_sum(b, block, made_at(b, block), &s.vector);
        rc = rc ? rc : bind_block(&s);
        rc = rc ? rc : square(&s, block, on_host);
    }
    return rc;
}
