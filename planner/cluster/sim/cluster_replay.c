/* SPDX-License-Identifier: Apache-2.0
 *
 * One event tree has everything that may happen next. Ends have lower numbers than starts, so they come first at any
 * instant. A start is checked again whenever something it waits for has ended.
 */
#include "planner/cluster/sim/cluster_replay_internal.h"

#include "planner/cluster/segments.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static size_t start_of_stage(const struct cluster_replay *c, size_t state)
{
    return c->n_stages + c->n_sums + state;
}

static size_t start_of_sum(const struct cluster_replay *c, size_t sum)
{
    return 2 * c->n_stages + c->n_sums + sum;
}

void ah_cluster_replay_wake(struct cluster_replay *c, size_t state)
{
    ah_event_tree_set(&c->events, start_of_stage(c, state), c->now_us);
}

/* ---- the gate ---- */

void ah_cluster_replay_is_before_gate(struct cluster_replay *c, uint32_t step)
{
    if (--c->gate[step] == 0)
        for (size_t i = 0; i < c->n_stages; i++)
            ah_cluster_replay_wake(c, i);
}

/* ---- sums ---- */

static void is_final(struct cluster_replay *c, uint32_t sum, uint32_t step)
{
    if (sum != REPLAY_NONE && --c->sums[sum].left[step] == 0)
        ah_event_tree_set(&c->events, start_of_sum(c, sum), c->now_us);
}

void ah_cluster_replay_gradient_is_final(struct cluster_replay *c, size_t state, uint32_t block,
                                         uint32_t step)
{
    uint64_t of_model = c->stages[state].stage->first_block + block;
    is_final(c, c->sum_of[of_model], step);
    if (!of_model || of_model + 1 == c->plan->blocks)
        is_final(c, c->tied, step);
}

/* Returns the earliest start of a sum, unless something ends before; INFINITY: something must. */
static double sum_start_us(const struct cluster_replay *c, size_t sum)
{
    const struct sum *s = &c->sums[sum];
    double us = c->now_us;
    if (s->works || s->step == AH_CLUSTER_REPLAY_STEPS || s->left[s->step])
        return INFINITY;
    for (size_t i = 0; i < s->n_owners; i++) {
        const struct stage_state *p = &c->stages[s->owners[i]];
        if (p->segments[p->front] != sum)
            return INFINITY;
        if (s->volume_bytes > 0)
            us = fmax(us, ah_nics_free_us(&c->nics, p->node, p->node));
    }
    return us;
}

static void start_sum(struct cluster_replay *c, size_t sum)
{
    struct sum *s = &c->sums[sum];
    double us = sum_start_us(c, sum);
    if (us > c->now_us) {
        ah_event_tree_set(&c->events, start_of_sum(c, sum), us);
        return;
    }
    ah_event_tree_set(&c->events, start_of_sum(c, sum), INFINITY);
    s->works = true;
    s->start_us = c->now_us;
    s->end_us = c->now_us + s->segment->time_us;
    ah_event_tree_set(&c->events, c->n_stages + sum, s->end_us);
    for (size_t i = 0; i < s->n_owners && s->volume_bytes > 0; i++) {
        const struct stage_state *p = &c->stages[s->owners[i]];
        double until_us = c->now_us + ah_nics_pass_us(s->volume_bytes, p->stage->nic_bytes_per_s);
        ah_nics_take(&c->nics, p->node, until_us, p->node, until_us);
    }
}

static void end_sum(struct cluster_replay *c, size_t sum)
{
    struct sum *s = &c->sums[sum];
    const struct ah_cluster_replay_span span = {
        .sum = true, .of = sum, .step = s->step, .start_us = s->start_us, .end_us = c->now_us};
    if (c->listener)
        c->listener->tell(c->listener->context, &span);
    ah_event_tree_set(&c->events, c->n_stages + sum, INFINITY);
    c->ends_us[s->step] = c->now_us;
    c->left--;
    s->works = false;
    for (size_t i = 0; i < s->n_owners; i++) {
        struct stage_state *p = &c->stages[s->owners[i]];
        p->front = (p->front + 1) % p->n_segments;
        ah_cluster_replay_wake(c, s->owners[i]);
        ah_event_tree_set(&c->events, start_of_sum(c, p->segments[p->front]), c->now_us);
    }
    ah_cluster_replay_is_before_gate(c, s->step++);
}

/* ---- set up ---- */

static int read_programs(struct cluster_replay *c, struct ah_error *err)
{
    c->programs = ah_arena_array(c->arena, c->plan->n_programs, sizeof *c->programs);
    if (!c->programs)
        return ah_error_memory(err);
    for (size_t i = 0; i < c->plan->n_programs; i++) {
        int rc = ah_cluster_replay_read(&c->plan->programs[i], c->arena, &c->programs[i], err);
        if (rc)
            return ah_error_prefix(err, rc, "programs[%zu]", i);
    }
    return AH_OK;
}

/* Returns the number of the stage's node. A node has the number of its first stage. */
static size_t node_of(const struct cluster_replay *c, size_t state)
{
    size_t node = 0;
    while (node < state && strcmp(c->stages[node].stage->node, c->stages[state].stage->node) != 0)
        node++;
    return node;
}

static int set_up_stages(struct cluster_replay *c, struct ah_error *err)
{
    for (size_t p = 0; p < c->plan->n_pipelines; p++)
        c->n_stages += c->plan->pipelines[p].n_stages;
    c->stages = ah_arena_array(c->arena, c->n_stages, sizeof *c->stages);
    if (!c->stages)
        return ah_error_memory(err);
    size_t at = 0;
    for (size_t p = 0; p < c->plan->n_pipelines; p++)
        for (size_t i = 0; i < c->plan->pipelines[p].n_stages; i++, at++) {
            struct stage_state *state = &c->stages[at];
            state->stage = &c->plan->pipelines[p].stages[i];
            state->rank = &c->programs[state->stage->program];
            state->node = node_of(c, at);
            if (state->stage->nic_bytes_per_s <= 0)
                return ah_error_set(err, AH_E_DOCUMENT,
                                    "pipelines[%zu].stages[%zu].nic_bytes_per_s: is missing", p, i);
            int rc = ah_cluster_replay_begin(c, at, err);
            if (rc)
                return rc;
            c->left += AH_CLUSTER_REPLAY_STEPS * state->rank->counted;
            for (size_t step = 0; step < AH_CLUSTER_REPLAY_STEPS; step++)
                c->gate[step] += state->rank->before_gate;
        }
    return AH_OK;
}

/* Checks that the stages of a pipeline send what their neighbours' programs expect. */
static int check_messages(const struct cluster_replay *c, struct ah_error *err)
{
    const struct ah_messages **stages = ah_arena_array(c->arena, c->n_stages, sizeof *stages);
    if (!stages)
        return ah_error_memory(err);
    for (size_t i = 0; i < c->n_stages; i++)
        stages[i] = &c->stages[i].rank->messages;
    size_t at = 0;
    for (size_t p = 0; p < c->plan->n_pipelines; at += c->plan->pipelines[p++].n_stages) {
        int rc = ah_messages_check(stages + at, c->plan->pipelines[p].n_stages, err);
        if (rc)
            return ah_error_prefix(err, rc, "pipelines[%zu]", p);
    }
    return AH_OK;
}

static uint32_t stage_of(const struct cluster_replay *c, uint64_t rank)
{
    for (uint32_t i = 0; i < c->n_stages; i++)
        for (size_t r = 0; r < c->stages[i].stage->n_ranks; r++)
            if (c->stages[i].stage->ranks[r] == rank)
                return i;
    return REPLAY_NONE;
}

/* Finds the owners of a segment, from the ranks of its first slice. */
static int place_sum(struct cluster_replay *c, size_t at, struct ah_error *err)
{
    const struct ah_cluster_plan_segment *segment = &c->plan->segments[at];
    struct sum *s = &c->sums[at];
    *s = (struct sum){.segment = segment,
                      .n_owners = segment->groups[0].n_ranks,
                      .owners = ah_arena_array(c->arena, segment->groups[0].n_ranks, sizeof *s->owners)};
    if (!s->owners)
        return ah_error_memory(err);
    for (size_t i = 0; i < s->n_owners; i++) {
        s->owners[i] = stage_of(c, segment->groups[0].ranks[i]);
        if (s->owners[i] == REPLAY_NONE)
            return ah_error_set(err, AH_E_DOCUMENT, "segments[%zu].groups[0].ranks: %" PRIu64 " has no stage",
                                at, segment->groups[0].ranks[i]);
        if (c->stages[s->owners[i]].node != c->stages[s->owners[0]].node)
            s->volume_bytes = ah_segment_volume(s->n_owners, segment->bytes);
        c->stages[s->owners[i]].n_segments++;
    }
    if (segment->tied)
        c->tied = (uint32_t)at;
    for (uint64_t b = 0; b < segment->blocks && !segment->tied; b++)
        c->sum_of[segment->first_block + b] = (uint32_t)at;
    for (size_t step = 0; step < AH_CLUSTER_REPLAY_STEPS; step++)
        s->left[step] = c->plan->n_pipelines * (segment->tied ? 2 : segment->blocks);
    return AH_OK;
}

static int list_segments(struct cluster_replay *c, struct ah_error *err)
{
    for (size_t i = 0; i < c->n_stages; i++) {
        struct stage_state *p = &c->stages[i];
        p->segments = ah_arena_array(c->arena, p->n_segments + 1, sizeof *p->segments);
        if (!p->segments)
            return ah_error_memory(err);
    }
    for (size_t s = 0; s < c->n_sums; s++)
        for (size_t i = 0; i < c->sums[s].n_owners; i++) {
            struct stage_state *p = &c->stages[c->sums[s].owners[i]];
            p->segments[p->front++] = (uint32_t)s;
        }
    for (size_t i = 0; i < c->n_stages; i++)
        c->stages[i].front = 0;
    return AH_OK;
}

static int place_sums(struct cluster_replay *c, struct ah_error *err)
{
    c->n_sums = c->plan->n_segments;
    c->tied = REPLAY_NONE;
    c->sums = ah_arena_array(c->arena, c->n_sums + 1, sizeof *c->sums);
    c->sum_of = ah_arena_array(c->arena, c->plan->blocks, sizeof *c->sum_of);
    if (!c->sums || !c->sum_of)
        return ah_error_memory(err);
    memset(c->sum_of, 0xff, c->plan->blocks * sizeof *c->sum_of);
    c->left += AH_CLUSTER_REPLAY_STEPS * c->n_sums;
    for (size_t step = 0; step < AH_CLUSTER_REPLAY_STEPS; step++)
        c->gate[step] += c->n_sums;
    for (size_t s = 0; s < c->n_sums; s++) {
        int rc = place_sum(c, s, err);
        if (rc)
            return rc;
    }
    return list_segments(c, err);
}

/* Returns the bytes of one micro-batch between two stages, in all slices. */
static double boundary_bytes(const struct ah_cluster_plan *plan)
{
    const struct ah_cluster_plan_training *training = &plan->training;
    double tokens = (double)(training->batch / training->micro_batches * training->seq);
    return tokens * (double)plan->programs[0].model.width * (training->dtype == AH_BF16 ? 2 : 4);
}

static int prepare_replay(struct cluster_replay *c, struct ah_error *err)
{
    if (!c->plan->n_programs)
        return ah_error_set(err, AH_E_DOCUMENT, "programs: there are none to simulate");
    c->boundary_bytes = boundary_bytes(c->plan);
    int rc = read_programs(c, err);
    rc = rc ? rc : set_up_stages(c, err);
    rc = rc ? rc : check_messages(c, err);
    rc = rc ? rc : place_sums(c, err);
    rc = rc ? rc : ah_nics_init(&c->nics, c->n_stages, err);
    return rc ? rc : ah_event_tree_init(&c->events, 2 * (c->n_stages + c->n_sums), err);
}

/* ---- the loop ---- */

static void run_event(struct cluster_replay *c, size_t thing)
{
    const size_t things[] = {c->n_stages, c->n_sums, c->n_stages, c->n_sums};
    static void (*const does[])(struct cluster_replay *, size_t) = {ah_cluster_replay_end_items, end_sum,
                                                                    ah_cluster_replay_start_items, start_sum};
    size_t i = 0;
    while (thing >= things[i])
        thing -= things[i++];
    does[i](c, thing);
}

static int play_events(struct cluster_replay *c, struct ah_error *err)
{
    for (size_t i = 0; i < c->n_stages; i++)
        ah_cluster_replay_wake(c, i);
    while (c->left) {
        size_t first = ah_event_tree_first(&c->events);
        if (isinf(c->events.us[first]))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "programs: they wait for each other and cannot run together; plan again");
        c->now_us = c->events.us[first];
        run_event(c, first);
    }
    return AH_OK;
}

int ah_cluster_replay(const struct ah_cluster_plan *plan, const struct ah_cluster_replay_listener *listener,
                      struct ah_cluster_replay_result *ret_result, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct cluster_replay c = {.plan = plan, .listener = listener, .arena = &arena};
    int rc = prepare_replay(&c, err);
    rc = rc ? rc : play_events(&c, err);
    if (!rc)
        *ret_result = (struct ah_cluster_replay_result){.step_us = c.ends_us[0],
                                                        .period_us = c.ends_us[AH_CLUSTER_REPLAY_STEPS - 1] -
                                                                     c.ends_us[AH_CLUSTER_REPLAY_STEPS - 2],
                                                        .held = c.held};
    ah_event_tree_release(&c.events);
    ah_nics_release(&c.nics);
    ah_arena_release(&arena);
    return rc;
}
