/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests, from the spans of all lanes on one clock, that ranks do only what their documents allow. By the documents:
 *
 * 1. A rank runs its positions in order, step after step, and begins none before the previous position is done, sends
 *    included. An update by gradients of the step before runs in every step but the first, and once after the last.
 * 2. A send is not done before its receive begins, nor a receive before its send does.
 * 3. A position that needs a message begins when it has arrived.
 * 4. A receive begins when every position before its tensor's life is done, and every copy that is due by then, so no
 *    earlier tensor in its place is still in use.
 * 5. Channels carry each step's messages, as long as the documents say, and nothing else.
 *
 * With several pipelines, whose ranks add up the gradients of their shares:
 *
 * 6. Every rank does its shares in the plan's order, step after step, each block piece by piece, with the ranks that
 *    have the block in other pipelines, and with nobody else.
 * 7. A share begins when the last gradient of each of its blocks has been added up on that rank.
 * 8. An update, or the copy of a sum to the host, begins after the block's share; the norm begins after all shares.
 *
 * Some lanes are slow, so that an op that fails to wait is early.
 */
#include "runtime/schedule/graph.h"
#include "runtime/train/bind.h"
#include "tests/property/train/counted.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/hooked.h"

#include <inttypes.h>
#include <stdatomic.h>

enum {
    NOTES = 1 << 16,
    SMALL_PIECE = 640,
    STEPS = 4,
    PLANS_EACH = 20,
    SPANS = 1 << 13,
    ITEMS = 1 << 12,
    DELAY_US = 200
};

static struct golden golden;
static struct pipeline pipeline;
static uint64_t plans;

struct when {
    uint64_t start_ns, end_ns;
};

struct trace {
    const struct ah_plan *plan;
    struct ah_arena arena;
    struct ah_graph graph;
    struct ah_span spans[AH_DEVICE_LANES_ALL][SPANS];
    size_t n[AH_DEVICE_LANES_ALL];
    struct when positions[STEPS + 1][ITEMS]; /* by round; the last round has only updates */
    struct when copies[ITEMS][STEPS + 1];    /* by item and occurrence: first start and last end */
    uint32_t n_copies[ITEMS];
    const struct ah_trainer *trainer;               /* of the latest run; compared, never read */
    struct when shares[STEPS][TEST_BLOCKS_MAX + 1]; /* shares of this rank */
    size_t next_note, next_sum;                     /* the first not checked yet */
};

static struct trace traces[PIPELINE_STAGES];

#define FAIL(trace, ...)                                                                                     \
    do {                                                                                                     \
        print_error("%s, plan %" PRIu64 ", stage %" PRIu64 " of %" PRIu64 ":\n", golden.folder, plans,       \
                    (trace)->plan->part->stage, (trace)->plan->part->stages);                                \
        fail_msg(__VA_ARGS__);                                                                               \
    } while (0)

/* ---- reading ---- */

static void read_lane(struct trace *t, struct ah_device *device, uint32_t lane)
{
    struct ah_span_reader reader = {.lane = lane};
    t->n[lane] = 0;
    while (ah_device_spans(device, &reader, &t->spans[lane][t->n[lane]], 1))
        assert_true(++t->n[lane] < SPANS);
    assert_int_equal(reader.lost, 0);
    assert_int_equal(reader.seen, ah_device_submitted(device, lane));
}

/* Runs on the rank's own thread. */
static void read_trace(void *context, const struct pipeline_stage *s, struct ah_trainer *trainer)
{
    struct trace *t = &((struct trace *)context)[s->rank.rank];
    t->trainer = trainer;
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        read_lane(t, ah_trainer_device(trainer), lane);
}

static const struct ah_plan_op *op_at(const struct trace *t, uint64_t position)
{
    return ah_plan_compute_op(t->plan, position);
}

/* ---- rule 1 ---- */

/* Returns the next span of compute or of the lane of sends, whichever begins first. NULL: there is none. */
static const struct ah_span *next_span(const struct trace *t, size_t at[2])
{
    const struct ah_span *compute = at[0] < t->n[AH_LANE_COMPUTE] ? &t->spans[AH_LANE_COMPUTE][at[0]] : NULL,
                         *send = at[1] < t->n[AH_LANE_SEND] ? &t->spans[AH_LANE_SEND][at[1]] : NULL;
    const bool is_send = !compute || (send && send->start_ns < compute->start_ns);
    if (is_send && !send)
        return NULL;
    at[is_send]++;
    return is_send ? send : compute;
}

/* Matches spans, in order, with the document's positions, round by round. */
static void place_positions(struct trace *t)
{
    const uint64_t n = t->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    size_t at[2] = {0, 0};
    uint64_t next = 0, end_ns = 0;
    struct when *last = NULL;
    const struct ah_span *span;
    assert_true(n <= ITEMS);
    memset(t->positions, 0, sizeof t->positions);
    while ((span = next_span(t, at))) {
        if (span->start_ns < end_ns)
            FAIL(t, "position %" PRIu64 " begins %" PRIu64 " ns before the one ahead of it ends", span->tag,
                 end_ns - span->start_ns);
        end_ns = span->end_ns;
        if (last && next && span->tag == (next - 1) % n && op_at(t, span->tag)->op != AH_PLAN_SEND_OUTPUT &&
            op_at(t, span->tag)->op != AH_PLAN_SEND_INPUT_GRADIENT && n > 1) {
            last->end_ns = span->end_ns; /* several spans of one item */
            continue;
        }
        while (next < (STEPS + 1) * n && next % n != span->tag) {
            const bool may_miss = op_at(t, next % n)->op == AH_PLAN_DEVICE_ADAM && next < n;
            if (!may_miss && next < STEPS * n)
                FAIL(t, "position %" PRIu64 " of step %" PRIu64 " is not done before position %" PRIu64,
                     next % n, next / n + 1, span->tag);
            next++;
        }
        if (next >= (STEPS + 1) * n || (next >= STEPS * n && op_at(t, span->tag)->op != AH_PLAN_DEVICE_ADAM))
            FAIL(t, "position %" PRIu64 " is done once more behind the last step", span->tag);
        last = &t->positions[next / n][next % n];
        *last = (struct when){span->start_ns, span->end_ns};
        next++;
    }
    if (next < STEPS * n)
        FAIL(t, "the last step ends before position %" PRIu64, next % n);
}

/* ---- rules 2 to 4 ---- */

static const struct ah_plan_tensor *find_tensor(const struct ah_plan *plan, uint64_t block, const char *label,
                                                uint64_t micro_batch)
{
    for (size_t i = 0; i < plan->arena.n_tensors; i++) {
        const struct ah_plan_tensor *tensor = &plan->arena.tensors[i];
        if (!strcmp(ah_words_tensor[tensor->label], label) && tensor->block == block &&
            tensor->micro_batch == micro_batch)
            return tensor;
    }
    return NULL;
}

static uint64_t find_position(const struct trace *t, enum ah_plan_op_kind kind, uint64_t block,
                              uint64_t micro_batch)
{
    for (uint64_t p = 0; p < t->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]; p++) {
        const struct ah_plan_op *op = op_at(t, p);
        if (op->op == kind && op->block == block && op->micro_batch == micro_batch)
            return p;
    }
    return UINT64_MAX;
}

/* Finds the occurrences of each item of a lane. The ops of an occurrence are consecutive. */
static void place_items(struct trace *t, uint32_t lane, enum ah_plan_lane of)
{
    uint64_t last = UINT64_MAX;
    for (size_t i = 0; i < t->n[lane]; i++) {
        const struct ah_span *span = &t->spans[lane][i];
        const bool goes_on = span->tag == last;
        last = span->tag;
        if (span->tag >= t->graph.n_items || t->graph.items[span->tag].lane != of)
            continue;
        assert_true(span->tag < ITEMS);
        uint32_t *n = &t->n_copies[span->tag];
        if (goes_on && *n) {
            t->copies[span->tag][*n - 1].end_ns = span->end_ns;
            continue;
        }
        assert_true(*n <= STEPS);
        t->copies[span->tag][(*n)++] = (struct when){span->start_ns, span->end_ns};
    }
}

/* Checks rule 4. `from` is the first position at which the tensor is alive. */
static void check_place(const struct trace *t, uint64_t step, uint64_t from, uint64_t start_ns,
                        const char *name)
{
    for (uint64_t p = 0; p < from; p++)
        if (t->positions[step][p].end_ns > start_ns)
            FAIL(t, "'%s' of step %" PRIu64 " arrives from %" PRIu64 " ns before position %" PRIu64 " ends",
                 name, step + 1, t->positions[step][p].end_ns - start_ns, p);
    for (uint64_t p = 0; p < t->plan->lanes.n_order[AH_PLAN_LANE_COMPUTE] && step; p++)
        if (t->positions[step - 1][p].end_ns > start_ns)
            FAIL(t, "'%s' of step %" PRIu64 " arrives before the step ahead of it is done", name, step + 1);
    for (size_t item = t->graph.positions; item < t->graph.n_items; item++) {
        const struct ah_plan_op *op = &t->plan->ops[t->graph.items[item].op];
        const bool due = op->lane == AH_PLAN_LANE_D2H && op->due_before > op->issue_after &&
                         op->due_before <= from && t->n_copies[item] == STEPS;
        if (due && t->copies[item][step].end_ns > start_ns)
            FAIL(t,
                 "'%s' of step %" PRIu64 " arrives before a copy of block %" PRIu64
                 " ends, due before %" PRIu64,
                 name, step + 1, op->block, op->due_before);
    }
}

struct hop {
    const struct trace *from, *to;
    enum ah_plan_op_kind sends;
    uint64_t sent_block;
    uint32_t lane; /* lane on which it arrives */
};

static void check_message(const struct hop *hop, uint64_t step, uint64_t m,
                          const struct ah_plan_tensor *place, uint64_t user)
{
    const uint64_t n = hop->to->plan->training.micro_batches;
    const uint64_t sender = find_position(hop->from, hop->sends, hop->sent_block, m);
    assert_true(sender != UINT64_MAX);
    const struct when send = hop->from->positions[step][sender];
    const struct ah_span *receive = &hop->to->spans[hop->lane][step * n + m];
    if (send.end_ns < receive->start_ns || receive->end_ns < send.start_ns)
        FAIL(hop->to, "a message of micro-batch %" PRIu64 " is sent without being received", m);
    if (user != UINT64_MAX && hop->to->positions[step][user].start_ns < receive->end_ns)
        FAIL(hop->to, "position %" PRIu64 " of step %" PRIu64 " begins before its message is there", user,
             step + 1);
    if (place)
        check_place(hop->to, step, place->from, receive->start_ns, ah_words_tensor[place->label]);
}

static void check_hop(const struct hop *hop)
{
    const struct ah_plan *plan = hop->to->plan;
    const bool is_output = hop->sends == AH_PLAN_SEND_OUTPUT;
    const uint64_t n = plan->training.micro_batches, top = plan->n_blocks - 1;
    assert_int_equal(hop->to->n[hop->lane], STEPS * n);
    for (uint64_t step = 0; step < STEPS; step++)
        for (uint64_t m = 0; m < n; m++) {
            const struct ah_plan_tensor *place =
                is_output ? find_tensor(plan, 0, "input", m) : find_tensor(plan, top, "residual_gradient", m);
            const uint64_t user = is_output ? find_position(hop->to, AH_PLAN_FORWARD, 0, m)
                                            : find_position(hop->to, AH_PLAN_BACKWARD, top, m);
            const bool word = !is_output && user == UINT64_MAX;
            assert_true(word || place);
            check_message(hop, step, m, word ? NULL : place, user);
        }
}

/* ---- rule 5 ---- */

static void check_bytes(size_t rank, bool is_output, bool sends)
{
    const struct ah_plan *plan = traces[rank].plan;
    const struct ah_trainer_rank *place = &pipeline.stages[rank].rank;
    const bool there =
        is_output == sends ? plan->part->stage + 1 < plan->part->stages : plan->part->stage > 0;
    uint64_t bytes = 0, messages = 0;
    /* What is sent is in the ops. What arrives is in the neighbour's ops, and in the tensors here. */
    const struct ah_plan *of =
        sends || !there ? plan : traces[is_output ? place->before : place->behind].plan;
    for (size_t p = 0; p < of->lanes.n_order[AH_PLAN_LANE_COMPUTE] && there; p++) {
        const struct ah_plan_op *op = ah_plan_compute_op(of, p);
        if (op->op != (is_output ? AH_PLAN_SEND_OUTPUT : AH_PLAN_SEND_INPUT_GRADIENT))
            continue;
        messages += STEPS;
        bytes += STEPS * op->bytes;
    }
    assert_int_equal(counted[rank].messages[!is_output][sends], messages);
    assert_int_equal(counted[rank].bytes[!is_output][sends], bytes);
}

/* ---- rule 6 ---- */

/* The messages submitted to the lanes of sums of all ranks. */
static struct note {
    const void *trainer;
    uint32_t channel;
    uint64_t bytes;
} notes[NOTES];
static atomic_size_t n_notes;

static void note(void *context, const struct hooked_op *op)
{
    (void)context;
    if (op->lane != AH_LANE_SUMS || (op->op->kind != AH_OP_SEND && op->op->kind != AH_OP_RECEIVE))
        return;
    const size_t at = atomic_fetch_add(&n_notes, 1);
    const struct ah_op_message *message = &op->op->u.message;
    if (at < NOTES)
        notes[at] = (struct note){message->context, message->channel, message->bytes};
}

/* Numbers of messages and bytes, by the other rank and the kind of message. */
struct tally {
    uint64_t messages[PIPELINE_STAGES][AH_SUM_CHANNELS], bytes[PIPELINE_STAGES][AH_SUM_CHANNELS];
    size_t ops, of_them; /* number of all ops, and of those that are messages */
};

static void expect_message(struct tally *tally, uint32_t rank, enum ah_bind_sum sum, uint64_t elements)
{
    tally->messages[rank][sum]++;
    tally->bytes[rank][sum] += elements * sizeof(float);
    tally->ops++;
    tally->of_them++;
}

/* Returns the expected messages. Piece q is summed by member q modulo the number of members. Members are one rank of
 * each pipeline, or two for a table. */
static struct tally expected_of(const struct ah_trainer_rank *place, const struct ah_trainer_share *share,
                                uint64_t elements, bool squares)
{
    struct tally tally = {.ops = squares};
    const uint32_t n = share->tied ? 2 * place->pipelines : place->pipelines, own = place->rank;
    const uint64_t each = ((elements + n - 1) / n + AH_FLAT_ALIGN - 1) / AH_FLAT_ALIGN * AH_FLAT_ALIGN,
                   piece = each < place->share_piece || !place->share_piece ? each : place->share_piece;
    for (uint64_t q = 0; q * piece < elements; q++) {
        const uint64_t left = elements - q * piece, of = left < piece ? left : piece;
        const uint32_t to = share->ranks[q % n];
        for (uint32_t m = 0; m < n; m++) {
            const uint32_t from = share->ranks[m];
            if (m == q % n)
                continue;
            tally.ops += to == own;                /* added */
            tally.ops += to == own && from == own; /* copied back */
            if ((to == own) == (from == own))
                continue;
            expect_message(&tally, to == own ? from : to, to == own ? AH_SUM_PARTIAL_IN : AH_SUM_PARTIAL_OUT,
                           of);
            expect_message(&tally, to == own ? from : to, to == own ? AH_SUM_TOTAL_OUT : AH_SUM_TOTAL_IN, of);
        }
    }
    return tally;
}

/* Returns the next message submitted to this rank's lane. NULL: there is none. */
static const struct note *next_note(struct trace *t)
{
    for (; t->next_note < atomic_load(&n_notes); t->next_note++)
        if (notes[t->next_note].trainer == t->trainer)
            return &notes[t->next_note++];
    return NULL;
}

static bool has_block(const struct ah_job *job, uint64_t block)
{
    return block >= job->part.first_block && block - job->part.first_block < job->n_blocks;
}

static uint64_t table_elements(const struct ah_job *job)
{
    const uint64_t elements = job->model->vocabulary * job->model->width;
    return (elements + AH_FLAT_ALIGN - 1) / AH_FLAT_ALIGN * AH_FLAT_ALIGN;
}

/* Returns the trained elements of a block that are not in the share of the table. */
static uint64_t trained_elements(size_t rank, uint64_t block)
{
    const struct ah_job *job = &pipeline.stages[rank].c.job;
    const bool has_table = block == 0 || block + 1 == ah_model_blocks(job->model);
    const uint64_t all = ah_job_block(job, block - job->part.first_block)->trained_elements;
    return ah_job_splits_table(job) && has_table ? all - table_elements(job) : all;
}

static void check_block_sum(struct trace *t, const struct tally *expected, uint64_t step, uint64_t block)
{
    struct tally had = {.ops = expected->ops, .of_them = expected->of_them};
    for (size_t i = 0; i < expected->of_them; i++) {
        const struct note *it = next_note(t);
        if (!it) {
            FAIL(t, "the sum of block %" PRIu64 " in step %" PRIu64 " lacks messages", block, step + 1);
            return;
        }
        const uint32_t channel = it->channel - AH_CHANNELS;
        assert_true(channel / AH_SUM_CHANNELS < PIPELINE_STAGES);
        had.messages[channel / AH_SUM_CHANNELS][channel % AH_SUM_CHANNELS]++;
        had.bytes[channel / AH_SUM_CHANNELS][channel % AH_SUM_CHANNELS] += it->bytes;
    }
    if (memcmp(&had, expected, sizeof had) != 0)
        FAIL(t, "the sum of block %" PRIu64 " in step %" PRIu64 " has other messages", block, step + 1);
}

/* Finds the begin and the end of each share of this rank, in the plan's order. */
static void place_shares(struct trace *t, const struct ah_trainer_rank *place)
{
    t->next_note = t->next_sum = 0;
    memset(t->shares, 0, sizeof t->shares);
    for (uint64_t step = 0; step < STEPS; step++)
        for (size_t s = 0; s < place->n_shares; s++) {
            const struct ah_trainer_share *share = &place->shares[s];
            const struct ah_job *job = &pipeline.stages[place->rank].c.job;
            const bool clips = t->plan->training.clip > 0;
            const size_t begin = t->next_sum;
            if (!ah_trainer_shares(place, share, place->rank))
                continue;
            for (uint64_t n = 0; n < share->blocks; n++) {
                const uint64_t block = share->first_block + n,
                               elements =
                                   share->tied ? table_elements(job) : trained_elements(place->rank, block);
                const bool embedding = !block && ah_job_splits_table(job);
                if (!elements)
                    continue;
                const struct tally expected = expected_of(
                    place, share, elements, clips && (share->tied ? has_block(job, 0) : !embedding));
                check_block_sum(t, &expected, step, block);
                t->next_sum += expected.ops;
            }
            if (t->next_sum > t->n[AH_LANE_SUMS])
                FAIL(t, "share %zu of step %" PRIu64 " lacks ops", s, step + 1);
            if (t->next_sum > begin)
                t->shares[step][s] = (struct when){t->spans[AH_LANE_SUMS][begin].start_ns,
                                                   t->spans[AH_LANE_SUMS][t->next_sum - 1].end_ns};
        }
    if (t->next_sum != t->n[AH_LANE_SUMS] || next_note(t))
        FAIL(t, "%zu ops of sums, not %zu", t->n[AH_LANE_SUMS], t->next_sum);
}

/* ---- rules 7 and 8 ---- */

static struct {
    uint64_t makers, updates, sent, host_updates, norms;
} seen;

static bool sums_on_host(const struct trace *t, uint64_t block)
{
    return t->plan->blocks[block].accumulator == AH_ACCUMULATOR_HOST;
}

static bool is_maker(const struct trace *t, const struct ah_plan_op *op)
{
    const bool is_head =
        t->plan->part->stage + 1 == t->plan->part->stages && op->block + 1 == t->plan->n_blocks;
    if (op->micro_batch + 1 != t->plan->training.micro_batches)
        return false;
    return sums_on_host(t, op->block) ? op->op == AH_PLAN_ACCUMULATE
                                      : op->op == (is_head ? AH_PLAN_FORWARD : AH_PLAN_BACKWARD);
}

static bool is_of_share(const struct trace *t, const struct ah_trainer_rank *place, size_t s, uint64_t block)
{
    const struct ah_trainer_share *share = &place->shares[s];
    const uint64_t of_model = t->plan->part->first_block + block;
    if (share->tied)
        return !of_model || of_model + 1 == ah_model_blocks(&t->plan->model);
    return of_model >= share->first_block && of_model - share->first_block < share->blocks;
}

static void check_maker(const struct trace *t, size_t share, uint64_t step, const struct when *maker)
{
    seen.makers++;
    if (t->shares[step][share].start_ns < maker->end_ns)
        FAIL(t, "share %zu of step %" PRIu64 " begins %" PRIu64 " ns before a gradient of it is complete",
             share, step + 1, maker->end_ns - t->shares[step][share].start_ns);
}

static void check_reader(const struct trace *t, size_t share, uint64_t step, const struct when *reader,
                         const char *what)
{
    if (t->shares[step][share].end_ns > reader->start_ns)
        FAIL(t, "'%s' of step %" PRIu64 " begins %" PRIu64 " ns before share %zu ends", what, step + 1,
             t->shares[step][share].end_ns - reader->start_ns, share);
}

static void check_position(const struct trace *t, uint64_t p, size_t share, uint64_t step)
{
    const struct ah_plan_op *op = op_at(t, p);
    if (is_maker(t, op))
        check_maker(t, share, step, &t->positions[step][p]);
    if (op->op != AH_PLAN_DEVICE_ADAM)
        return;
    check_reader(t, share, step, &t->positions[step + t->graph.items[p].of_before][p], "device_adam");
    seen.updates++;
}

static void check_item(const struct trace *t, size_t item, size_t share, uint64_t step)
{
    const struct ah_plan_op *op = &t->plan->ops[t->graph.items[item].op];
    const struct when *when = &t->copies[item][step];
    if (is_maker(t, op))
        check_maker(t, share, step, when);
    if (op->op == AH_PLAN_HOST_ADAM) {
        check_reader(t, share, step, when, "host_adam");
        seen.host_updates++;
    }
    if (op->op == AH_PLAN_SEND_GRADIENTS && !sums_on_host(t, op->block)) {
        check_reader(t, share, step, when, "send_gradients");
        seen.sent++;
    }
}

static void check_norm(const struct trace *t, const struct ah_trainer_rank *place, size_t item)
{
    for (uint64_t step = 0; step < STEPS; step++)
        for (size_t s = 0; s < place->n_shares; s++)
            check_reader(t, s, step, &t->copies[item][step], "norm");
    seen.norms++;
}

static void check_sums(struct trace *t, const struct ah_trainer_rank *place)
{
    if (!place->n_shares)
        return;
    place_shares(t, place);
    for (size_t item = 0; item < t->graph.n_items; item++) {
        const struct ah_plan_op *op = &t->plan->ops[t->graph.items[item].op];
        const bool at_position = item < t->graph.positions;
        if (!at_position && t->n_copies[item] != STEPS)
            continue;
        if (op->op == AH_PLAN_NORM)
            check_norm(t, place, item);
        for (size_t share = 0; share < place->n_shares; share++) {
            if (op->op == AH_PLAN_NORM || !is_of_share(t, place, share, op->block))
                continue;
            for (uint64_t step = 0; step < STEPS; step++) {
                if (!t->shares[step][share].end_ns) /* nothing is trained */
                    continue;
                if (at_position)
                    check_position(t, item, share, step);
                else
                    check_item(t, item, share, step);
            }
        }
    }
}

/* ---- runs ---- */

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    (void)context;
    (void)held_out;
    return ah_trainer_run(trainer, STEPS, NULL, err);
}

/* Makes some copies to the host slow, at random. */
static void slow_down(uint64_t *seed)
{
    for (size_t i = 0; i < pipeline.n; i++)
        pipeline.stages[i].options.device.throttle =
            (struct ah_device_throttle){.d2h_bytes_per_s = check_random(seed) % 3 ? 5e7 : 0,
                                        .copy_latency_us = check_random(seed) % 2 ? 100 : 0};
}

static void check_plan(uint64_t *seed)
{
    struct ah_error err = {0};
    counted_reset();
    atomic_store(&n_notes, 0);
    slow_down(seed);
    pipeline_run(
        &pipeline,
        &(struct ah_comm_hub_options){.poisons = true, .most_delay_us = DELAY_US, .seed = check_random(seed)},
        train, NULL);
    pipeline_expect_ok(&pipeline);
    assert_true(atomic_load(&n_notes) < NOTES);
    for (size_t i = 0; i < pipeline.n; i++)
        traces[i].plan = pipeline.stages[i].options.plan;
    for (size_t i = 0; i < pipeline.n; i++) {
        CHECK_OK(ah_graph_read(traces[i].plan, &traces[i].arena, &traces[i].graph, &err), err);
        place_positions(&traces[i]);
        memset(traces[i].n_copies, 0, sizeof traces[i].n_copies);
        place_items(&traces[i], AH_LANE_D2H, AH_PLAN_LANE_D2H);
        place_items(&traces[i], AH_LANE_HOST, AH_PLAN_LANE_HOST);
        for (int k = 0; k < 4; k++)
            check_bytes(i, k & 1, k >> 1);
    }
    for (size_t i = 0; i < pipeline.n; i++) {
        const struct trace *behind = &traces[pipeline.stages[i].rank.behind];
        check_sums(&traces[i], &pipeline.stages[i].rank);
        if (traces[i].plan->part->stage + 1 == traces[i].plan->part->stages)
            continue;
        check_hop(&(struct hop){&traces[i], behind, AH_PLAN_SEND_OUTPUT, traces[i].plan->n_blocks - 1,
                                AH_LANE_RECEIVE_BEFORE});
        check_hop(&(struct hop){behind, &traces[i], AH_PLAN_SEND_INPUT_GRADIENT, 0, AH_LANE_RECEIVE_BEHIND});
    }
    for (size_t i = 0; i < pipeline.n; i++)
        ah_arena_release(&traces[i].arena);
}

static void watch_sums(void)
{
    hooked_set(&(struct hooked_hooks){.before = note});
    for (size_t i = 0; i < pipeline.n; i++)
        pipeline.stages[i].options.driver = hooked_driver();
}

TEST(rank_traces, are_what_the_documents_allow)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype;
    } cases[] = {{"gpt2-untied-odd", AH_FP32},    {"llama-masked", AH_BF16},
                 {"llama-frozen-below", AH_FP32}, {"qwen3-layer-types", AH_BF16},
                 {"mistral-documents", AH_FP32},  {"gpt2", AH_BF16}};
    uint64_t seed = check_seed(67);
    pipeline.driver = counted_driver();
    pipeline.done = read_trace;
    pipeline.context = traces;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
        golden_open_as(&golden, cases[i].name, cases[i].dtype, AH_FP32);
        golden_split(&golden);
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH); k++, plans++) {
            pipeline_open(&pipeline, &golden, 0, turn, &seed);
            watch_sums();
            check_plan(&seed);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
}

TEST(rank_traces, of_several_pipelines_are_what_the_documents_allow)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype;
        uint64_t sums[3];
        size_t n;
    } cases[] = {{"gpt2-untied-odd", AH_FP32, {1, 3, 2}, 3}, {"llama", AH_BF16, {2, 2}, 2},
                 {"llama-frozen-below", AH_FP32, {1, 3}, 2}, {"qwen2-frozen-tensors", AH_FP32, {2, 1, 1}, 3},
                 {"mistral-documents", AH_BF16, {1, 1}, 2},  {"gpt2", AH_FP32, {2, 1, 1}, 3}};
    uint64_t seed = check_seed(101);
    pipeline.driver = counted_driver();
    pipeline.done = read_trace;
    pipeline.context = traces;
    pipeline.share_piece = SMALL_PIECE;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0}, sums[3], micro_batches = 0;
        memcpy(sums, cases[i].sums, sizeof sums);
        for (size_t k = 0; k < cases[i].n; k++)
            micro_batches += sums[k];
        golden_open_as(&golden, cases[i].name, cases[i].dtype, AH_FP32);
        golden_regroup(&golden, micro_batches, NULL, 0);
        golden_split(&golden);
        for (uint64_t k = 0; k < check_scaled(PLANS_EACH); k++, plans++) {
            pipeline_open_groups(&pipeline, &golden, sums, cases[i].n, 6, turn, &seed);
            watch_sums();
            check_plan(&seed);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
    pipeline.share_piece = 0;
    print_message("%" PRIu64 " gradients, %" PRIu64 " updates, %" PRIu64 " ways to the host, %" PRIu64
                  " updates there, %" PRIu64 " norms beside shares\n",
                  seen.makers, seen.updates, seen.sent, seen.host_updates, seen.norms);
    assert_true(seen.makers && seen.updates && seen.sent && seen.host_updates && seen.norms);
}
