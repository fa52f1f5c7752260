/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a replay against its rules (replay.h), using only the document and the starts and ends that the replay
 * reports. Everything must start at the earliest time allowed by what ended before and by the users of its NICs. Waits
 * inside a program are those of its rounds.
 *
 *     struct played played;
 *     played_open(&played, &plan);        // plays it
 *     played_check(&played);
 *     played_close(&played);
 */
#ifndef AH_TESTS_PROPERTY_CLUSTER_PLAYED_H
#define AH_TESTS_PROPERTY_CLUSTER_PLAYED_H

#include "planner/cluster/sim/cluster_replay.h"
#include "runtime/schedule/graph.h"
#include "tests/property/schedule/messages.h"

#include <math.h>
#include <stdlib.h>

enum { PLAYED_STEPS = AH_CLUSTER_REPLAY_STEPS, PLAYED_STAGES = 64 };

struct played_stage {
    const struct ah_cluster_plan_stage *stage;
    const struct ah_plan *program;
    struct ah_graph graph;
    size_t n;                  /* stages of its pipeline */
    double *start_us, *end_us; /* (steps, items); INFINITY: not reported */
};

/* One use of one way of a NIC. */
struct played_way {
    const char *node;
    bool out;
    double from_us, to_us;
    size_t by;
};

struct played {
    const struct ah_cluster_plan *plan;
    struct ah_arena arena;
    struct ah_cluster_replay_result result;
    struct played_stage stages[PLAYED_STAGES];
    size_t n;
    double *sum_start_us, *sum_end_us; /* (steps, segments) */
    double gate_us[PLAYED_STEPS];
    struct played_way *ways;
    size_t n_ways, waited; /* how many uses waited for a NIC */
};

/* ---- reported spans ---- */

static inline void played_tell(void *context, const struct ah_cluster_replay_span *span)
{
    struct played *p = context;
    struct played_stage *stage = &p->stages[span->of];
    size_t at = span->step * (span->sum ? p->plan->n_segments : stage->graph.n_items) +
                (span->sum ? span->of : span->item);
    double *start = span->sum ? &p->sum_start_us[at] : &stage->start_us[at];
    double *end = span->sum ? &p->sum_end_us[at] : &stage->end_us[at];
    assert_true(isinf(*start) && span->end_us >= span->start_us && span->start_us >= 0);
    *start = span->start_us;
    *end = span->end_us;
}

static inline double *played_numbers(struct played *p, size_t n)
{
    double *numbers = ah_arena_array(&p->arena, n + 1, sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < n; i++)
        numbers[i] = INFINITY;
    return numbers;
}

static inline void played_open(struct played *p, const struct ah_cluster_plan *plan)
{
    struct ah_error err = {0};
    const struct ah_cluster_replay_listener listener = {played_tell, p};
    *p = (struct played){.plan = plan};
    for (size_t k = 0; k < plan->n_pipelines; k++)
        for (size_t i = 0; i < plan->pipelines[k].n_stages; i++) {
            struct played_stage *s = &p->stages[p->n++];
            assert_true(p->n <= PLAYED_STAGES);
            s->stage = &plan->pipelines[k].stages[i];
            s->program = &plan->programs[s->stage->program];
            s->n = plan->pipelines[k].n_stages;
            CHECK_OK(ah_graph_read(s->program, &p->arena, &s->graph, &err), err);
            s->start_us = played_numbers(p, PLAYED_STEPS * s->graph.n_items);
            s->end_us = played_numbers(p, PLAYED_STEPS * s->graph.n_items);
        }
    p->sum_start_us = played_numbers(p, PLAYED_STEPS * plan->n_segments);
    p->sum_end_us = played_numbers(p, PLAYED_STEPS * plan->n_segments);
    CHECK_OK(ah_cluster_replay(plan, &listener, &p->result, &err), err);
}

static inline void played_close(struct played *p)
{
    free(p->ways);
    ah_arena_release(&p->arena);
}

/* ---- ops ---- */

static inline const struct ah_plan_op *played_op(const struct played_stage *s, uint32_t item)
{
    return &s->program->ops[s->graph.items[item].op];
}

static inline size_t played_at(const struct played_stage *s, size_t step, uint32_t item)
{
    return step * s->graph.n_items + item;
}

/* Returns the end of all tiles of this op, or a negative time if there is no such op. */
static inline double played_end(const struct played_stage *s, size_t step, enum ah_plan_op_kind kind,
                                uint64_t block, uint64_t micro_batch)
{
    double us = -1;
    for (uint32_t i = 0; i < s->graph.n_items; i++) {
        const struct ah_plan_op *op = played_op(s, i);
        if (op->op == kind && op->block == block && op->micro_batch == micro_batch)
            us = fmax(us, s->end_us[played_at(s, step, i)]);
    }
    return us;
}

static inline bool played_before_gate(const struct played_stage *s, const struct ah_plan_op *op)
{
    bool on_host = s->program->blocks[op->block].weights == AH_WEIGHTS_HOST;
    return (op->lane == AH_PLAN_LANE_COMPUTE && op->op != AH_PLAN_DEVICE_ADAM) ||
           op->op == AH_PLAN_ACCUMULATE || (op->op == AH_PLAN_SEND_GRADIENTS && on_host);
}

static inline bool played_behind_gate(const struct played_stage *s, const struct ah_plan_op *op)
{
    return op->op == AH_PLAN_DEVICE_ADAM || op->op == AH_PLAN_HOST_ADAM || op->op == AH_PLAN_NORM ||
           (op->op == AH_PLAN_SEND_GRADIENTS && !played_before_gate(s, op));
}

static inline void played_find_gates(struct played *p)
{
    for (size_t step = 0; step < PLAYED_STEPS; step++) {
        p->gate_us[step] = 0;
        for (size_t i = 0; i < p->n; i++)
            for (uint32_t item = 0; item < p->stages[i].graph.n_items; item++)
                if (played_before_gate(&p->stages[i], played_op(&p->stages[i], item)))
                    p->gate_us[step] =
                        fmax(p->gate_us[step], p->stages[i].end_us[played_at(&p->stages[i], step, item)]);
        for (size_t k = 0; k < p->plan->n_segments; k++)
            p->gate_us[step] = fmax(p->gate_us[step], p->sum_end_us[step * p->plan->n_segments + k]);
    }
}

/* ---- messages ---- */

/* Returns the time from which messages let the op begin: its own message has arrived, and the place of the message that
 * it sends is free. Returns 0 if neither is needed. */
static inline double played_message_us(const struct played_stage *s, size_t step, const struct ah_plan_op *op)
{
    const struct ah_plan_part *part = s->program->part;
    const bool first = op->op == AH_PLAN_FORWARD && !op->block, behind = part->stage + 1 < part->stages;
    const uint64_t m = op->micro_batch, many = s->program->training.micro_batches;
    const uint64_t left = part->stages - 1 - part->stage, ahead = left < many ? left : many;
    const bool idle = messages_find(s->program, AH_PLAN_BACKWARD, s->program->n_blocks - 1, 0) == SIZE_MAX;
    double us = 0;
    if (first && part->stage)
        us = played_end(s - 1, step, AH_PLAN_SEND_OUTPUT, s[-1].program->n_blocks - 1, m);
    if (behind && ((op->op == AH_PLAN_BACKWARD && op->block + 1 == s->program->n_blocks) ||
                   op->op == AH_PLAN_SEND_INPUT_GRADIENT))
        us = played_end(s + 1, step, AH_PLAN_SEND_INPUT_GRADIENT, 0, m);
    if (first && behind && idle && m > ahead)
        us = fmax(us, played_end(s + 1, step, AH_PLAN_SEND_INPUT_GRADIENT, 0, m - ahead - 1));
    if (op->op == AH_PLAN_SEND_INPUT_GRADIENT && op->bytes && m >= 2) {
        size_t used = messages_gradient_used(s[-1].program, m - 2);
        if (used != SIZE_MAX)
            us = fmax(us, s[-1].end_us[played_at(s - 1, step, (uint32_t)used)]);
    }
    if (op->op == AH_PLAN_SEND_OUTPUT && step)
        us = fmax(us, s[1].end_us[played_at(s + 1, step - 1, s[1].graph.positions - 1)]);
    assert_true(us >= 0);
    return us;
}

/* Returns the stage to which an op sends, if that stage is on another node. NULL: nothing leaves the node. */
static inline const struct played_stage *played_target(const struct played_stage *s,
                                                       const struct ah_plan_op *op)
{
    const struct played_stage *to = op->op == AH_PLAN_SEND_OUTPUT ? s + 1 : s - 1;
    if (op->op != AH_PLAN_SEND_OUTPUT && op->op != AH_PLAN_SEND_INPUT_GRADIENT)
        return NULL;
    return strcmp(s->stage->node, to->stage->node) != 0 ? to : NULL;
}

/* ---- NICs ---- */

static inline void played_take_way(struct played *p, const struct ah_cluster_plan_stage *stage, bool out,
                                   double from_us, double bytes, size_t by)
{
    const struct played_way way = {stage->node, out, from_us, from_us + 1e6 * bytes / stage->nic_bytes_per_s,
                                   by};
    for (size_t i = 0; i < p->n_ways; i++) /* a node with two stages in the sum counts only once */
        if (p->ways[i].by == by && p->ways[i].out == out && !strcmp(p->ways[i].node, way.node))
            return;
    p->ways = realloc(p->ways, (p->n_ways + 1) * sizeof *p->ways);
    assert_non_null(p->ways);
    p->ways[p->n_ways++] = way;
}

static inline const struct played_stage *played_owner(const struct played *p, uint64_t rank)
{
    size_t owner = p->n;
    for (size_t i = 0; i < p->n; i++)
        for (size_t r = 0; r < p->stages[i].stage->n_ranks; r++)
            if (p->stages[i].stage->ranks[r] == rank)
                owner = i;
    assert_true(owner < p->n);
    return &p->stages[owner];
}

static inline bool played_leaves(const struct played *p, const struct ah_cluster_plan_group *group)
{
    for (size_t i = 1; i < group->n_ranks; i++)
        if (strcmp(played_owner(p, group->ranks[i])->stage->node,
                   played_owner(p, group->ranks[0])->stage->node) != 0)
            return true;
    return false;
}

/* Users of NICs have numbers (`by`). Items come first, by their place in the arrays of all stages, and sums follow. */
static inline void played_take_ways(struct played *p)
{
    const struct ah_cluster_plan_training *t = &p->plan->training;
    const double bytes = (double)(t->batch / t->micro_batches * t->seq * p->plan->model->width) *
                         (t->dtype == AH_BF16 ? 2 : 4);
    for (size_t i = 0; i < p->n; i++)
        for (size_t at = 0; at < PLAYED_STEPS * p->stages[i].graph.n_items; at++) {
            const struct played_stage *s = &p->stages[i];
            const struct played_stage *to = played_target(s, played_op(s, (uint32_t)(at % s->graph.n_items)));
            if (!to || isinf(s->start_us[at]))
                continue;
            played_take_way(p, s->stage, true, s->start_us[at], bytes, PLAYED_STAGES * at + i);
            played_take_way(p, to->stage, false, s->start_us[at], bytes, PLAYED_STAGES * at + i);
        }
    for (size_t at = 0; at < PLAYED_STEPS * p->plan->n_segments; at++) {
        const struct ah_cluster_plan_segment *segment = &p->plan->segments[at % p->plan->n_segments];
        const struct ah_cluster_plan_group *group = &segment->groups[0];
        const double n = (double)group->n_ranks, volume = 2 * (n - 1) / n * (double)segment->bytes;
        for (size_t i = 0; i < group->n_ranks && played_leaves(p, group); i++) {
            played_take_way(p, played_owner(p, group->ranks[i])->stage, true, p->sum_start_us[at], volume,
                            SIZE_MAX - at);
            played_take_way(p, played_owner(p, group->ranks[i])->stage, false, p->sum_start_us[at], volume,
                            SIZE_MAX - at);
        }
    }
}

/* Returns the first time, not before `us`, at which no other user has the ways of user `by`. */
static inline double played_free_us(struct played *p, size_t by, double us)
{
    const double ready_us = us;
    for (bool found = true; found;) {
        found = false;
        for (size_t i = 0; i < p->n_ways; i++)
            for (size_t j = 0; j < p->n_ways && p->ways[i].by == by; j++)
                if (p->ways[j].by != by && p->ways[j].out == p->ways[i].out &&
                    !strcmp(p->ways[j].node, p->ways[i].node) && p->ways[j].from_us <= us &&
                    us < p->ways[j].to_us) {
                    us = p->ways[j].to_us;
                    found = true;
                }
    }
    p->waited += us > ready_us;
    return us;
}

static inline void played_check_ways(const struct played *p)
{
    for (size_t i = 0; i < p->n_ways; i++)
        for (size_t j = 0; j < i; j++) {
            const struct played_way *a = &p->ways[i], *b = &p->ways[j];
            if (a->out == b->out && !strcmp(a->node, b->node) && a->from_us < b->to_us &&
                b->from_us < a->to_us)
                fail_msg("two things pass a NIC of '%s', from %.9g and from %.9g us", a->node, a->from_us,
                         b->from_us);
        }
}

/* ---- items ---- */

/* Times at which the slots of each ring were given back, in order. */
struct played_rings {
    double *given_us[AH_GRAPH_RINGS];
    size_t given[AH_GRAPH_RINGS], taken[AH_GRAPH_RINGS];
};

static inline int played_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline struct played_rings played_find_rings(struct played *p, const struct played_stage *s)
{
    struct played_rings rings = {0};
    for (size_t ring = 0; ring < AH_GRAPH_RINGS; ring++) {
        rings.given_us[ring] = played_numbers(p, PLAYED_STEPS * s->graph.n_items);
        for (size_t at = 0; at < PLAYED_STEPS * s->graph.n_items; at++)
            if (s->graph.items[at % s->graph.n_items].gives[ring])
                rings.given_us[ring][rings.given[ring]++] = s->end_us[at];
        qsort(rings.given_us[ring], rings.given[ring], sizeof(double), played_compare);
    }
    return rings;
}

/* Returns the time at which the gradients of a block are summed over all pipelines. */
static inline double played_summed_us(const struct played *p, const struct played_stage *s, size_t step,
                                      uint64_t block)
{
    const uint64_t of_model = s->stage->first_block + block;
    double us = 0;
    for (size_t k = 0; k < p->plan->n_segments; k++) {
        const struct ah_cluster_plan_segment *segment = &p->plan->segments[k];
        const bool has = segment->tied ? !of_model || of_model + 1 == p->plan->blocks
                                       : of_model >= segment->first_block &&
                                             of_model - segment->first_block < segment->blocks;
        if (has)
            us = fmax(us, p->sum_end_us[step * p->plan->n_segments + k]);
    }
    return us;
}

/* Returns the time at which an item could start if its lane and its NICs were free. */
static inline double played_ready_us(const struct played *p, const struct played_stage *s, size_t step,
                                     uint32_t item, struct played_rings *rings)
{
    const struct ah_plan_op *op = played_op(s, item);
    double us = played_message_us(s, step, op);
    if (played_behind_gate(s, op))
        us =
            fmax(us, p->plan->training.clip > 0 ? p->gate_us[step] : played_summed_us(p, s, step, op->block));
    for (uint32_t w = s->graph.items[item].first_wait; w < s->graph.items[item + 1].first_wait; w++)
        if (s->graph.waits[w].back <= step)
            us = fmax(us, s->end_us[played_at(s, step - s->graph.waits[w].back, s->graph.waits[w].item)]);
    for (size_t ring = 0; ring < AH_GRAPH_RINGS; ring++)
        if (s->graph.items[item].takes[ring]) {
            size_t k = rings->taken[ring]++;
            if (k >= s->graph.slots[ring])
                us = fmax(us, rings->given_us[ring][k - s->graph.slots[ring]]);
        }
    return us;
}

static inline void played_check_item(struct played *p, const struct played_stage *s, size_t step,
                                     uint32_t item, double ready_us)
{
    const struct ah_plan_op *op = played_op(s, item);
    const size_t at = played_at(s, step, item);
    const double alone_us = op->us / (double)op->tiles, took_us = s->end_us[at] - s->start_us[at];
    if (played_target(s, op))
        ready_us = played_free_us(p, PLAYED_STAGES * at + (size_t)(s - p->stages), ready_us);
    if (s->start_us[at] < ready_us || s->start_us[at] > ready_us)
        fail_msg("stage %zu, step %zu: '%s' of block %llu starts at %.17g; it could at %.17g",
                 (size_t)(s - p->stages), step, ah_words_plan_op[op->op], (unsigned long long)op->block,
                 s->start_us[at], ready_us);
    assert_true(took_us >= alone_us * (1 - 1e-9) - 1e-9 * s->end_us[at]);
    if (!s->program->sharing.n_resources || op->lane == AH_PLAN_LANE_COMPUTE)
        assert_true(fabs(took_us - alone_us) <= 1e-12 * s->end_us[at]);
}

/* Checks the items of a lane in order, round by round. An early item belongs to the next step. */
static inline void played_check_lane(struct played *p, const struct played_stage *s, size_t lane,
                                     struct played_rings *rings)
{
    double free_us = 0;
    for (size_t round = 0; round <= PLAYED_STEPS; round++)
        for (size_t k = 0; k < s->graph.n_order[lane]; k++) {
            uint32_t item = s->graph.order[lane][k];
            size_t step = round - !s->graph.items[item].early;
            if (step >= PLAYED_STEPS)
                continue;
            double ready_us = fmax(free_us, played_ready_us(p, s, step, item, rings));
            free_us = s->end_us[played_at(s, step, item)];
            if (s->graph.items[item].wraps && isinf(free_us)) /* the last step ended earlier */
                return;
            played_check_item(p, s, step, item, ready_us);
        }
}

/* ---- sums ---- */

/* Returns the time at which a stage has all gradients of a block: when the last micro-batch has passed the block. */
static inline double played_final_us(const struct played_stage *s, size_t step, uint64_t block)
{
    const uint64_t last = s->program->training.micro_batches - 1;
    double us = fmax(played_end(s, step, AH_PLAN_ACCUMULATE, block, last), -1);
    if (s->program->blocks[block].weights == AH_WEIGHTS_HOST)
        us = fmax(us, played_end(s, step, AH_PLAN_SEND_GRADIENTS, block, last));
    for (uint64_t above = block; above < s->program->n_blocks && us < 0; above++) {
        bool head = ah_plan_is_head(s->program, above);
        us = fmax(us, played_end(s, step, head ? AH_PLAN_FORWARD : AH_PLAN_BACKWARD, above, last));
    }
    for (uint32_t p = 0; p < s->graph.positions && us < 0; p++)
        if (p + 1 == s->graph.positions || played_op(s, p + 1)->op == AH_PLAN_DEVICE_ADAM)
            us = s->end_us[played_at(s, step, p)];
    return us;
}

static inline double played_owner_us(const struct played_stage *s, size_t step,
                                     const struct ah_cluster_plan_segment *segment, uint64_t blocks)
{
    double us = 0;
    for (uint64_t b = 0; b < s->stage->blocks; b++) {
        uint64_t block = s->stage->first_block + b;
        bool inside = block >= segment->first_block && block < segment->first_block + segment->blocks;
        if (segment->tied ? !block || block + 1 == blocks : inside)
            us = fmax(us, played_final_us(s, step, b));
    }
    return us;
}

static inline void played_check_sums(struct played *p)
{
    double *free_us = played_numbers(p, p->n);
    for (size_t i = 0; i < p->n; i++)
        free_us[i] = 0;
    for (size_t at = 0; at < PLAYED_STEPS * p->plan->n_segments; at++) {
        const struct ah_cluster_plan_segment *segment = &p->plan->segments[at % p->plan->n_segments];
        const struct ah_cluster_plan_group *group = &segment->groups[0];
        double us = 0;
        for (size_t i = 0; i < group->n_ranks; i++) {
            const struct played_stage *owner = played_owner(p, group->ranks[i]);
            us = fmax(us, fmax(free_us[owner - p->stages],
                               played_owner_us(owner, at / p->plan->n_segments, segment, p->plan->blocks)));
            free_us[owner - p->stages] = p->sum_end_us[at];
        }
        if (played_leaves(p, group))
            us = played_free_us(p, SIZE_MAX - at, us);
        if (us < p->sum_start_us[at] || us > p->sum_start_us[at])
            fail_msg("sum %zu starts at %.17g; it could at %.17g", at, p->sum_start_us[at], us);
        assert_true(fabs(p->sum_end_us[at] - us - segment->time_us) <= 1e-12 * p->sum_end_us[at]);
    }
}

/* ---- all ---- */

static inline void played_check_ends(const struct played *p)
{
    double ends_us[PLAYED_STEPS];
    for (size_t step = 0; step < PLAYED_STEPS; step++) {
        ends_us[step] = p->gate_us[step];
        for (size_t i = 0; i < p->n; i++)
            for (uint32_t item = 0; item < p->stages[i].graph.n_items; item++)
                if (!p->stages[i].graph.items[item].wraps)
                    ends_us[step] =
                        fmax(ends_us[step], p->stages[i].end_us[played_at(&p->stages[i], step, item)]);
    }
    assert_true(fabs(ends_us[0] - p->result.step_us) <= 1e-12 * ends_us[0]);
    assert_true(fabs(ends_us[2] - ends_us[1] - p->result.period_us) <= 1e-12 * ends_us[2]);
}

/* Checks the messages of each pipeline with messages.h, at the compute positions of all steps. */
static inline void played_check_messages(struct played *p)
{
    struct messages_stage sent[PLAYED_STAGES];
    for (size_t i = 0; i < p->n; i++) {
        const struct played_stage *s = &p->stages[i];
        size_t n = s->graph.positions;
        double *start_us = played_numbers(p, PLAYED_STEPS * n), *end_us = played_numbers(p, PLAYED_STEPS * n);
        for (size_t at = 0; at < PLAYED_STEPS * n; at++) {
            start_us[at] = s->start_us[played_at(s, at / n, (uint32_t)(at % n))];
            end_us[at] = s->end_us[played_at(s, at / n, (uint32_t)(at % n))];
        }
        sent[i] = (struct messages_stage){s->program, PLAYED_STEPS, start_us, end_us};
    }
    for (size_t i = 0; i < p->n; i += p->stages[i].n)
        messages_check(sent + i, p->stages[i].n);
}

static inline void played_check(struct played *p)
{
    played_find_gates(p);
    played_take_ways(p);
    played_check_ways(p);
    for (size_t i = 0; i < p->n; i++) {
        struct played_rings rings = played_find_rings(p, &p->stages[i]);
        for (size_t lane = 0; lane < AH_PLAN_LANES; lane++)
            played_check_lane(p, &p->stages[i], lane, &rings);
    }
    played_check_sums(p);
    played_check_ends(p);
    played_check_messages(p);
}

#endif
