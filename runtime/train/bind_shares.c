/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares: binds the ops with which ranks add up gradients of the same blocks, so that each rank gets the total.
 *
 * Each MEMBER of a share has a vector. A run of blocks has one rank of each pipeline as members, and its vector is
 * block after block. A table (trainer.h) has all heads and then all embeddings as members; a pipeline of one stage has
 * two members on one rank.
 *
 * The vector is cut into pieces. Piece q belongs to member q modulo the number of members. The owner's rank gets the
 * parts of the piece from all others, adds them up in the order of members, and sends the total back. For a table,
 * heads and embeddings are added up separately first. So with n members, each sends and receives about 2 (n - 1) / n of
 * its vector, as in a ring. A turn moves the next pieces and the totals of the previous turn together.
 *
 * Adding two numbers gives the same bits in either order. So parts before a rank's own are added up elsewhere, then
 * added to its own.
 */
#include "runtime/train/bind_internal.h"

enum { GOES = 4 };

struct member {
    uint32_t rank;
    bool is_ours;
    struct ah_ref vector; /* set only if is_ours */
};

struct share {
    struct ah_binder *binder;
    const struct ah_trainer_share *it;
    struct member *members;
    uint32_t n;
    uint64_t elements, piece;
    size_t last_message; /* index of the last op of the messages that move together; SIZE_MAX: none yet */
};

/* ---- pieces ---- */

static struct ah_stretch piece_of(const struct share *s, uint64_t turn, uint32_t member)
{
    uint64_t first = (turn * s->n + member) * s->piece;
    first = first < s->elements ? first : s->elements;
    const uint64_t end = first + s->piece;
    return (struct ah_stretch){first, end < s->elements ? end : s->elements};
}

static struct ah_ref element_at(struct ah_ref vector, uint64_t element)
{
    vector.offset_bytes += element * sizeof(float);
    return vector;
}

/* Returns where a member's part of the owner's piece is: in its vector, or as received. The owner is on this rank. */
static struct ah_ref part_of(const struct share *s, uint32_t owner, uint32_t member, uint64_t turn)
{
    uint64_t place = 0;
    if (s->members[member].is_ours)
        return element_at(s->members[member].vector, piece_of(s, turn, owner).first);
    for (uint32_t o = 0; o <= owner; o++)
        for (uint32_t m = 0; m < (o < owner ? s->n : member); m++)
            place += s->members[o].is_ours && !s->members[m].is_ours;
    return element_at(s->binder->addresses->partials, place * s->binder->addresses->share_piece);
}

/* ---- messages ---- */

static int message(struct share *s, uint32_t rank, enum ah_bind_sum sum, struct ah_ref ref, uint64_t elements)
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
    bound->op.u.message.channel = ah_bind_sum_channel(rank, sum);
    bound->op.u.message.bytes = elements * sizeof(float);
    return AH_OK;
}

/* Binds the message of a member's part of a piece to the owner or, if `totals`, of the total back. Skips messages
 * within a rank and between other ranks. */
static int move_part(struct share *s, uint64_t turn, uint32_t owner, uint32_t member, bool totals)
{
    const struct ah_stretch piece = piece_of(s, turn, owner);
    const struct member *to = &s->members[owner], *from = &s->members[member];
    const uint64_t n = piece.end - piece.first;
    if (owner == member || !n || to->is_ours == from->is_ours)
        return AH_OK;
    if (from->is_ours)
        return message(s, to->rank, totals ? AH_SUM_TOTAL_IN : AH_SUM_PARTIAL_OUT,
                       element_at(from->vector, piece.first), n);
    return totals ? message(s, from->rank, AH_SUM_TOTAL_OUT, element_at(to->vector, piece.first), n)
                  : message(s, from->rank, AH_SUM_PARTIAL_IN, part_of(s, owner, member, turn), n);
}

/* Returns the number, 0 to 3, under which two members exchange messages. A channel moves one message at a time, but
 * each of two ranks may be two members. Both ends use the same number, and messages with one number move together. */
static uint32_t number_of(const struct share *s, uint32_t owner, uint32_t member)
{
    const uint32_t half = s->n / 2;
    const bool second_owner = owner >= half && s->members[owner - half].rank == s->members[owner].rank;
    const bool second_member = member >= half && s->members[member - half].rank == s->members[member].rank;
    return (second_owner ? 2U : 0U) + second_member;
}

static int move_turn(struct share *s, uint64_t turn, bool totals, uint32_t number)
{
    int rc = AH_OK;
    for (uint32_t owner = 0; owner < s->n; owner++)
        for (uint32_t member = 0; member < s->n && !rc; member++)
            if (number_of(s, owner, member) == number)
                rc = move_part(s, turn, owner, member, totals);
    return rc;
}

/* ---- sums ---- */

static int add_elements(struct share *s, struct ah_ref to, struct ah_ref what, uint64_t n)
{
    return ah_bind_elements(s->binder, AH_OP_ACCUMULATE, to, what, AH_OFFSET_NONE, n);
}

/* Adds up the parts of members [first, end) in order: in the owner's part if it is one of them, else in the first. */
static int fold(struct share *s, uint64_t turn, uint32_t owner, uint32_t first, uint32_t end,
                struct ah_ref *ret_sum)
{
    const struct ah_stretch piece = piece_of(s, turn, owner);
    const bool has_own = owner >= first && owner < end;
    const struct ah_ref begun = part_of(s, owner, first, turn);
    int rc = AH_OK;
    *ret_sum = begun;
    for (uint32_t m = first + 1; m < end && !rc; m++) {
        const bool to_own = has_own && m == owner;
        const struct ah_ref part = part_of(s, owner, m, turn);
        rc = to_own ? add_elements(s, part, begun, piece.end - piece.first)
                    : add_elements(s, *ret_sum, part, piece.end - piece.first);
        *ret_sum = to_own ? part : *ret_sum;
    }
    return rc;
}

static int add_piece(struct share *s, uint64_t turn, uint32_t owner)
{
    const struct ah_stretch piece = piece_of(s, turn, owner);
    const uint64_t n = piece.end - piece.first;
    const uint32_t half = s->it->tied ? s->n / 2 : s->n;
    struct ah_ref of_heads, of_all;
    if (!n || !s->members[owner].is_ours)
        return AH_OK;
    int rc = fold(s, turn, owner, 0, half, &of_heads);
    if (!rc && s->it->tied) {
        rc = fold(s, turn, owner, half, s->n, &of_all);
        rc = rc             ? rc
             : owner < half ? add_elements(s, of_heads, of_all, n)
                            : add_elements(s, of_all, of_heads, n);
    }
    for (uint32_t m = 0; m < s->n && !rc; m++)
        if (m != owner && s->members[m].is_ours)
            rc = ah_bind_elements(s->binder, AH_OP_CAST, element_at(s->members[m].vector, piece.first),
                                  element_at(s->members[owner].vector, piece.first), AH_OFFSET_NONE, n);
    return rc;
}

/* Returns the number of elements of a piece. If one turn is enough, all members get equal pieces. */
static uint64_t piece_elements(const struct share *s)
{
    const uint64_t most = s->binder->addresses->share_piece;
    const uint64_t each = (s->elements + s->n - 1) / s->n;
    const uint64_t aligned = (each + AH_FLAT_ALIGN - 1) / AH_FLAT_ALIGN * AH_FLAT_ALIGN;
    return aligned < most ? aligned : most;
}

static int bind_vectors(struct share *s)
{
    s->piece = piece_elements(s);
    const uint64_t all = s->n * s->piece, turns = (s->elements + all - 1) / all;
    int rc = AH_OK;
    for (uint64_t turn = 0; turn <= turns && !rc; turn++) {
        for (uint32_t number = 0; number < GOES && !rc; number++) {
            s->last_message = SIZE_MAX;
            rc = turn ? move_turn(s, turn - 1, true, number) : AH_OK;
            if (!rc && turn < turns)
                rc = move_turn(s, turn, false, number);
        }
        for (uint32_t owner = 0; owner < s->n && turn < turns && !rc; owner++)
            rc = add_piece(s, turn, owner);
    }
    return rc;
}

/* Returns the position at which the block's sum over this pipeline is complete. */
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

static int find_sum(struct ah_binder *b, uint64_t block, struct ah_ref *ret_vector)
{
    *ret_vector = b->addresses->blocks[block].host_sum.ref;
    return ah_bind_sums_on(b, block, AH_ACCUMULATOR_HOST)
               ? AH_OK
               : ah_bind_gradient_sum(b, block, made_at(b, block), ret_vector);
}

/* Binds the op that squares a block's total, after the last share of the block. */
static int square(struct ah_binder *b, uint64_t block)
{
    const bool on_host = ah_bind_sums_on(b, block, AH_ACCUMULATOR_HOST);
    const struct ah_stretch counted = ah_bind_counted(b, block);
    struct ah_ref vector;
    int rc = find_sum(b, block, &vector);
    if (rc || !counted.end || !(b->plan->training.clip > 0))
        return rc;
    return ah_bind_squares(b, on_host ? b->addresses->sums : b->addresses->device_sums,
                           on_host ? b->job->part.first_block + block : block, vector, counted);
}

/* Returns the part of a block's gradient that its own share adds up: everything except a split table. */
static struct ah_stretch own_of(const struct ah_binder *b, uint64_t block)
{
    struct ah_stretch own = ah_bind_counted(b, block);
    if (ah_job_splits_table(b->job) && !(b->job->part.first_block + block))
        own.first = ah_bind_table(b, block).end;
    return own;
}

static int bind_blocks(struct share *s)
{
    struct ah_binder *b = s->binder;
    const uint64_t first = s->it->first_block - b->job->part.first_block;
    const uint32_t own = b->options->rank->stages[b->options->rank->rank].pipeline;
    int rc = AH_OK;
    for (uint64_t block = first; block < first + s->it->blocks && !rc; block++) {
        const struct ah_stretch part = own_of(b, block);
        s->elements = part.end - part.first;
        if (!s->elements)
            continue;
        rc = find_sum(b, block, &s->members[own].vector);
        s->members[own].vector = element_at(s->members[own].vector, part.first);
        rc = rc ? rc : bind_vectors(s);
        if (!rc && !part.first)
            rc = square(b, block);
    }
    return rc;
}

static int bind_table(struct share *s)
{
    struct ah_binder *b = s->binder;
    const uint32_t own = b->options->rank->stages[b->options->rank->rank].pipeline;
    struct member *head = &s->members[own], *embedding = &s->members[s->n / 2 + own];
    int rc = AH_OK;
    for (int is_head = 0; is_head < 2 && !rc; is_head++) {
        struct member *member = is_head ? head : embedding;
        const uint64_t block = is_head ? b->job->n_blocks - 1 : 0;
        if (!member->is_ours)
            continue;
        const struct ah_stretch table = ah_bind_table(b, block);
        rc = find_sum(b, block, &member->vector);
        member->vector = element_at(member->vector, table.first);
        s->elements = table.end - table.first;
    }
    rc = rc ? rc : bind_vectors(s);
    return rc || !embedding->is_ours ? rc : square(b, 0);
}

int ah_bind_share_ops(struct ah_binder *b, size_t share)
{
    const struct ah_trainer_rank *rank = b->options->rank;
    struct ah_arena arena = {0};
    struct share s = {.binder = b, .it = &rank->shares[share]};
    bool any = false;
    s.n = ah_trainer_share_members(rank, s.it);
    s.members = ah_arena_array(&arena, s.n, sizeof *s.members);
    if (!s.members)
        return ah_error_memory(b->err);
    for (uint32_t m = 0; m < s.n; m++) {
        s.members[m] = (struct member){.rank = s.it->ranks[m], .is_ours = s.it->ranks[m] == rank->rank};
        any = any || s.members[m].is_ours;
    }
    int rc = !any ? AH_OK : s.it->tied ? bind_table(&s) : bind_blocks(&s);
    ah_arena_release(&arena);
    return rc;
}

bool ah_bind_shares(const struct ah_binder *b, uint64_t block)
{
    const struct ah_trainer_rank *rank = b->options->rank;
    const bool has_table = ah_job_splits_table(b->job) && !(b->job->part.first_block + block);
    return rank && (rank->pipelines > 1 || has_table || ah_job_shards(b->job) > 1);
}
