/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests messages in the programs of plans for random clusters:
 *
 * 1. They match the ops, found position by position, and are stored in the tensors named for them.
 * 2. Stages can do their steps together exactly if the graph of all positions of three steps has no cycle. Tested for
 *    the planner's programs, and for copies whose places are free later, many of which deadlock.
 * 3. A program with a changed op or tensor is refused, or still says the same.
 */
#include "runtime/schedule/messages.h"
#include "runtime/schedule/turns.h"
#include "tests/property/cluster/planned.h"
#include "tests/property/schedule/messages.h"

#include <stdlib.h>

enum { INSTANCES = 400, STAGES = 16, STEPS = 3, BROKEN = 20 };

struct pipeline {
    struct ah_messages messages[STAGES];
    const struct ah_messages *stages[STAGES];
    size_t n;
};

static void draw(struct planned *c, uint64_t *random)
{
    static const uint64_t batches[] = {1, 2, 3, 8, 12};
    planned_draw(c, random);
    for (size_t i = 0; i < c->cluster.n_nodes; i++)
        c->nodes[i].gpus = 1 + check_random(random) % 4;
    c->request.training.batch = c->request.training.micro_batches =
        batches[check_random(random) % (sizeof batches / sizeof *batches)];
}

/* ---- rule 1 ---- */

static bool trains(const struct ah_plan *plan)
{
    for (size_t i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].op == AH_PLAN_BACKWARD)
            return true;
    return ah_plan_is_head(plan, plan->n_blocks - 1);
}

/* Returns the first position that needs the gradient of a micro-batch, or the message in place of the gradient. */
static size_t first_need(const struct ah_plan *plan, uint64_t m)
{
    const uint64_t ahead = ah_turn_ahead(plan->part->stage, plan->part->stages, plan->training.micro_batches);
    const size_t all[] = {messages_find(plan, AH_PLAN_BACKWARD, plan->n_blocks - 1, m),
                          messages_find(plan, AH_PLAN_SEND_INPUT_GRADIENT, 0, m),
                          trains(plan) ? SIZE_MAX : messages_find(plan, AH_PLAN_FORWARD, 0, m + ahead + 1)};
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < 3; i++)
        first = all[i] < first ? all[i] : first;
    return first;
}

static void expect(const struct ah_messages *m, enum ah_channel channel, uint64_t micro_batch, size_t at,
                   const char *label, uint64_t block)
{
    const struct ah_message *message = &m->of[channel][micro_batch];
    assert_int_equal(message->at, at == SIZE_MAX ? AH_MESSAGES_NEVER : at);
    if (at != SIZE_MAX)
        assert_int_equal(m->number[channel][at], micro_batch);
    if (message->tensor == SIZE_MAX) {
        assert_int_equal(message->bytes, 0);
        return;
    }
    const struct ah_plan_tensor *tensor = &m->program->arena.tensors[message->tensor];
    assert_string_equal(ah_words_tensor[tensor->label], label);
    assert_true(tensor->block == block && tensor->micro_batch == micro_batch);
    assert_int_equal(message->bytes, tensor->bytes);
    assert_true(message->from == tensor->from && message->to == tensor->to);
}

static void check_program(const struct ah_messages *m)
{
    const struct ah_plan *plan = m->program;
    const uint64_t top = plan->n_blocks - 1;
    const bool before = plan->part->stage > 0, behind = plan->part->stage + 1 < plan->part->stages;
    assert_true(!m->of[AH_CHANNEL_OUTPUT_IN] == !before && !m->of[AH_CHANNEL_GRADIENT_OUT] == !before);
    assert_true(!m->of[AH_CHANNEL_OUTPUT_OUT] == !behind && !m->of[AH_CHANNEL_GRADIENT_IN] == !behind);
    for (uint64_t i = 0; i < m->micro_batches; i++) {
        if (before) {
            const size_t sent = messages_find(plan, AH_PLAN_SEND_INPUT_GRADIENT, 0, i);
            expect(m, AH_CHANNEL_OUTPUT_IN, i, messages_find(plan, AH_PLAN_FORWARD, 0, i), "input", 0);
            expect(m, AH_CHANNEL_GRADIENT_OUT, i, sent, "residual_gradient", top);
            assert_int_equal(m->of[AH_CHANNEL_GRADIENT_OUT][i].bytes, messages_op(plan, sent)->bytes);
        }
        if (behind) {
            expect(m, AH_CHANNEL_OUTPUT_OUT, i, messages_find(plan, AH_PLAN_SEND_OUTPUT, top, i), "output",
                   top);
            expect(m, AH_CHANNEL_GRADIENT_IN, i, first_need(plan, i), "residual_gradient", top);
        }
    }
}

/* Checks that the lifetime of an arriving gradient ends at its last use. */
static void check_last_uses(const struct ah_messages *m)
{
    for (uint64_t i = 0; i < m->micro_batches && m->of[AH_CHANNEL_GRADIENT_IN]; i++)
        if (m->of[AH_CHANNEL_GRADIENT_IN][i].bytes)
            assert_int_equal(m->of[AH_CHANNEL_GRADIENT_IN][i].to, messages_gradient_used(m->program, i));
}

/* ---- rule 2: a graph ---- */

struct graph {
    size_t first[STAGES + 1]; /* node of position 0 in a stage's step 0 */
    size_t *from, *to, n_edges, room;
    unsigned *left; /* for each node, how many incoming edges remain */
};

static size_t node(const struct graph *g, const struct pipeline *p, size_t stage, size_t step,
                   size_t position)
{
    return g->first[stage] + step * p->messages[stage].positions + position;
}

static void edge(struct graph *g, size_t from, size_t to)
{
    if (g->n_edges == g->room) {
        g->room = g->room ? 2 * g->room : 4096;
        g->from = realloc(g->from, g->room * sizeof *g->from);
        g->to = realloc(g->to, g->room * sizeof *g->to);
        assert_true(g->from && g->to);
    }
    g->from[g->n_edges] = from;
    g->to[g->n_edges++] = to;
    g->left[to]++;
}

/* Adds the edges of a message sent at `sent->at`, needed at `expected->at`, with a place from `expected->from` on. */
static void message_edges(struct graph *g, const struct pipeline *p, size_t sender,
                          const struct ah_message *sent, size_t receiver, const struct ah_message *expected)
{
    for (size_t step = 0; step < STEPS; step++) {
        const size_t at = node(g, p, sender, step, sent->at), begin = node(g, p, receiver, step, 0);
        if (expected->at != AH_MESSAGES_NEVER)
            edge(g, at, node(g, p, receiver, step, expected->at));
        if (begin + expected->from > g->first[receiver])
            edge(g, begin + expected->from - 1, at); /* the position before, also across steps */
    }
}

static void build(struct graph *g, const struct pipeline *p)
{
    for (size_t i = 0; i < p->n; i++)
        g->first[i + 1] = g->first[i] + STEPS * p->messages[i].positions;
    g->left = calloc(g->first[p->n], sizeof *g->left);
    assert_non_null(g->left);
    for (size_t i = 0; i < p->n; i++)
        for (size_t at = g->first[i]; at + 1 < g->first[i + 1]; at++)
            edge(g, at, at + 1);
    for (size_t i = 0; i + 1 < p->n; i++)
        for (uint64_t m = 0; m < p->messages[i].micro_batches; m++) {
            struct ah_message *const *here = p->messages[i].of, *const *there = p->messages[i + 1].of;
            message_edges(g, p, i, &here[AH_CHANNEL_OUTPUT_OUT][m], i + 1, &there[AH_CHANNEL_OUTPUT_IN][m]);
            message_edges(g, p, i + 1, &there[AH_CHANNEL_GRADIENT_OUT][m], i,
                          &here[AH_CHANNEL_GRADIENT_IN][m]);
        }
}

/* True if there is a cycle, that is, if nodes remain after repeatedly removing nodes without incoming edges. */
static bool has_circle(const struct pipeline *p)
{
    struct graph g = {0};
    build(&g, p);
    const size_t n = g.first[p->n];
    bool *gone = calloc(n, sizeof *gone), moved = true;
    size_t left = n;
    assert_non_null(gone);
    while (moved) {
        moved = false;
        for (size_t i = 0; i < n; i++)
            if (!gone[i] && !g.left[i]) {
                gone[i] = moved = true;
                left--;
                for (size_t e = 0; e < g.n_edges; e++)
                    g.left[g.to[e]] -= g.from[e] == i;
            }
    }
    free(gone);
    free(g.left);
    free(g.from);
    free(g.to);
    return left > 0;
}

static void open_pipeline(struct pipeline *p, const struct planned *c, size_t pipeline,
                          struct ah_arena *arena)
{
    const struct ah_cluster_plan_pipeline *from = &c->plan.pipelines[pipeline];
    struct ah_error err = {0};
    p->n = from->n_stages;
    assert_true(p->n <= STAGES);
    for (size_t i = 0; i < p->n; i++) {
        CHECK_OK(ah_messages_read(&c->plan.programs[from->stages[i].program], arena, &p->messages[i], &err),
                 err);
        p->stages[i] = &p->messages[i];
    }
}

/* Delays when places of one stage become free, each by up to `most` positions. Positions that need them stay. */
static void delay(struct ah_messages *m, uint64_t most, uint64_t *random)
{
    static const enum ah_channel in[] = {AH_CHANNEL_OUTPUT_IN, AH_CHANNEL_GRADIENT_IN};
    for (size_t i = 0; i < 2; i++)
        for (uint64_t k = 0; k < m->micro_batches && m->of[in[i]]; k++) {
            struct ah_message *message = &m->of[in[i]][k];
            const uint64_t later = message->from + check_random(random) % (most + 1);
            if (message->at != AH_MESSAGES_NEVER)
                message->from = later < message->at ? (uint32_t)later : message->at;
        }
}

TEST(messages, are_what_programs_say_and_make_no_circle)
{
    uint64_t random = check_seed(71);
    size_t pipelines = 0, words = 0, delayed = 0, circles = 0;
    for (size_t problem = 0; problem < check_scaled(INSTANCES); problem++) {
        static struct planned c;
        static struct pipeline p;
        draw(&c, &random);
        const bool found = planned_plan(&c);
        for (size_t i = 0; found && i < c.plan.n_pipelines; i++) {
            struct ah_arena arena = {0};
            struct ah_error err = {0};
            open_pipeline(&p, &c, i, &arena);
            for (size_t k = 0; k < p.n; k++) {
                check_program(&p.messages[k]);
                check_last_uses(&p.messages[k]);
                words += p.messages[k].of[AH_CHANNEL_GRADIENT_IN] &&
                         !p.messages[k].of[AH_CHANNEL_GRADIENT_IN][0].bytes;
            }
            CHECK_OK(ah_messages_check(p.stages, p.n, &err), err);
            pipelines += p.n > 1;
            if (p.n > 1 && p.n * p.messages[0].positions < 600) {
                assert_false(has_circle(&p));
                for (size_t k = 0; k < p.n; k++)
                    delay(&p.messages[k], check_random(&random) % 12, &random);
                const int rc = ah_messages_check(p.stages, p.n, &err);
                assert_int_equal(rc != AH_OK, has_circle(&p));
                delayed++;
                circles += rc != AH_OK;
            }
            ah_arena_release(&arena);
        }
        planned_release(&c);
    }
    print_message(
        "%zu pipelines of several stages, %zu stages with words; %zu with later places, %zu of them wait for "
        "each other\n",
        pipelines, words, delayed, circles);
    assert_true(pipelines && delayed && circles && circles < delayed);
}

/* ---- rule 3 ---- */

/* Changes one op or tensor of a program. */
static void break_program(struct ah_plan *plan, uint64_t *random)
{
    uint64_t *compute = plan->lanes.order[AH_PLAN_LANE_COMPUTE];
    const size_t n = plan->lanes.n_order[AH_PLAN_LANE_COMPUTE], a = check_random(random) % n,
                 b = check_random(random) % n;
    struct ah_plan_tensor *tensor = &plan->arena.tensors[check_random(random) % plan->arena.n_tensors];
    const uint64_t kept = compute[a];
    switch (check_random(random) % 4) {
    case 0:
        compute[a] = compute[b];
        compute[b] = kept;
        break;
    case 1:
        compute[a] = compute[b];
        break;
    case 2:
        tensor->from = check_random(random) % n;
        break;
    default:
        plan->ops[compute[a]].bytes += 2;
        break;
    }
}

static void check_broken(const struct planned *c, size_t program, uint64_t *random, size_t *refused)
{
    struct ah_plan *plan = &c->plan.programs[program];
    const size_t n = plan->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    struct ah_arena arena = {0};
    struct ah_messages found;
    struct ah_error err = {0};
    uint64_t *compute = ah_arena_array(&arena, n, sizeof *compute);
    struct ah_plan_op *ops = ah_arena_array(&arena, plan->n_ops, sizeof *ops);
    struct ah_plan_tensor *tensors = ah_arena_array(&arena, plan->arena.n_tensors, sizeof *tensors);
    assert_true(compute && ops && tensors);
    memcpy(compute, plan->lanes.order[AH_PLAN_LANE_COMPUTE], n * sizeof *compute);
    memcpy(ops, plan->ops, plan->n_ops * sizeof *ops);
    memcpy(tensors, plan->arena.tensors, plan->arena.n_tensors * sizeof *tensors);
    break_program(plan, random);
    int rc = ah_messages_read(plan, &arena, &found, &err);
    if (rc) {
        assert_int_equal(rc, AH_E_DOCUMENT);
        ++*refused;
    } else {
        check_program(&found);
    }
    memcpy(plan->lanes.order[AH_PLAN_LANE_COMPUTE], compute, n * sizeof *compute);
    memcpy(plan->ops, ops, plan->n_ops * sizeof *ops);
    memcpy(plan->arena.tensors, tensors, plan->arena.n_tensors * sizeof *tensors);
    ah_arena_release(&arena);
}

TEST(messages, of_changed_programs_are_refused)
{
    uint64_t random = check_seed(72);
    size_t changed = 0, refused = 0;
    for (size_t problem = 0; problem < check_scaled(INSTANCES); problem++) {
        static struct planned c;
        draw(&c, &random);
        const bool found = planned_plan(&c);
        for (size_t i = 0; found && i < c.plan.n_programs; i++)
            for (size_t k = 0; k < BROKEN && c.plan.programs[i].part->stages > 1; k++, changed++)
                check_broken(&c, i, &random, &refused);
        planned_release(&c);
    }
    print_message("%zu programs were changed, %zu of them are refused\n", changed, refused);
    assert_true(refused > changed / 10);
}
