/* SPDX-License-Identifier: Apache-2.0
 *
 * A second simulation, written from docs/clusters.md. Each task knows for which tasks it waits and its places. The task
 * that can start first starts. The oracle also finds the best treatment of a stage's activations, by trial.
 */
#ifndef AH_TESTS_PROPERTY_CLUSTER_ORACLE_H
#define AH_TESTS_PROPERTY_CLUSTER_ORACLE_H

#include "tests/property/cluster/problems.h"

#include <math.h>

enum { ORACLE_TASKS = 4 * MOST_UNITS * 64 + 64, ORACLE_WAITS = 2 * MOST_UNITS + 2 };

/* A task of duration `us`. It starts when its places are free and all tasks in `after` are done, or within `lag` of
 * their end. */
struct task {
    double us, lag[ORACLE_WAITS];
    size_t after[ORACLE_WAITS], n_after;
    size_t places[4 * MOST_UNITS], n_places;
    double holds[4 * MOST_UNITS];
    double end;
    bool done;
};

struct oracle {
    const struct ah_cluster_problem *in;
    const struct ah_arrangement *plan;
    struct task tasks[ORACLE_TASKS];
    size_t n;
    double free_us[4 * MOST_UNITS + 2 * MOST_CLASSES];
};

/* Numbers of places. A stage has one for computing and one for summing, a NIC one for each of its two ways. */
static inline size_t oracle_out(const struct oracle *o, size_t class)
{
    return 2 * MOST_UNITS + 2 * o->in->classes[class].node;
}

static inline const struct oracle *oracle_of(const struct ah_cluster_problem *in)
{
    static struct oracle o;
    o.in = in;
    return &o;
}

/* Returns what stage `s` has away for `block`, given that `s->sharers` units share the stage's host. */
static inline const struct ah_problem_away *oracle_away(const struct ah_cluster_problem *in,
                                                        const struct ah_stage *s, size_t block)
{
    const struct ah_problem_host *host = &in->kinds[in->classes[s->class].kind].hosts[s->sharers - 1];
    return &host->away[2 * block + (block - s->first < s->weights_away)];
}

/* Sets the sharers of each stage. All working GPUs of a node share its host, whatever their pipeline. */
static inline void oracle_share(const struct ah_cluster_problem *in, struct ah_arrangement *plan)
{
    uint64_t gpus[MOST_CLASSES] = {0};
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_problem_class *class = &in->classes[plan->pipelines[p].stages[i].class];
            gpus[class->node] += in->kinds[class->kind].tp;
        }
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_problem_class *class = &in->classes[plan->pipelines[p].stages[i].class];
            plan->pipelines[p].stages[i].sharers = gpus[class->node] / in->kinds[class->kind].tp;
        }
}

static inline double oracle_pass(const struct oracle *o, const struct ah_stage *s, size_t from, bool backward)
{
    const struct ah_problem_block *blocks = o->in->kinds[o->in->classes[s->class].kind].blocks;
    double us = 0;
    for (size_t b = s->end; b-- > from;) {
        size_t at = b - s->first;
        int way = at < s->recompute ? 2 : at < s->recompute + s->selective ? 1 : 0;
        double compute = backward ? blocks[b].backward_us[way] : blocks[b].forward_us, paced = 0;
        if (at < s->states_away) {
            const struct ah_problem_away *away = oracle_away(o->in, s, b);
            paced = backward ? away->backward_us : away->forward_us;
        }
        us += fmax(compute, paced);
    }
    return us;
}

static inline struct task *oracle_task(struct oracle *o, double us, size_t place, double hold)
{
    struct task *task = &o->tasks[o->n++];
    *task = (struct task){.us = us, .places = {place}, .holds = {hold}, .n_places = 1};
    return task;
}

static inline void oracle_wait(struct task *task, size_t other, double lag)
{
    task->lag[task->n_after] = lag;
    task->after[task->n_after++] = other;
}

static inline double oracle_send(const struct oracle *o, size_t a, size_t b)
{
    const struct ah_problem_link *link = &o->in->links[a * o->in->n_classes + b];
    double slices = 1;
    if (o->in->classes[a].node == o->in->classes[b].node)
        slices = (double)(o->in->kinds[o->in->classes[a].kind].tp < o->in->kinds[o->in->classes[b].kind].tp
                              ? o->in->kinds[o->in->classes[a].kind].tp
                              : o->in->kinds[o->in->classes[b].kind].tp);
    return link->latency_us + (double)o->in->boundary_bytes / slices * 1e6 / link->bytes_per_s;
}

/* The numbers of each stage's tasks. `last` is the first task of the stage's last backward. */
struct oracle_names {
    size_t forward[MOST_UNITS][64], backward[MOST_UNITS][64]; /* task of the pass, or of its send */
    size_t last[MOST_UNITS];
};

/* Adds all passes of a pipeline's stages as tasks, in each stage's order. */
static inline void oracle_pipeline(struct oracle *o, const struct ah_pipeline *p, size_t base,
                                   struct oracle_names *names)
{
    size_t n = p->n_stages;
    uint64_t m = p->micro_batches;
    size_t at = o->n, per_stage[MOST_UNITS] = {0};
    for (size_t i = 0; i < n; i++) { /* finds where each stage's tasks begin */
        per_stage[i] = at;
        at += 2 * m + (i + 1 < n ? m : 0) + (i > 0 ? m : 0);
    }
    for (int round = 0; round < 2; round++) { /* round 0 gives the tasks numbers, round 1 adds them */
        if (round)
            o->n = per_stage[0];
        for (size_t i = 0; i < n; i++) {
            const struct ah_stage *s = &p->stages[i];
            uint64_t forwards = 0, backwards = 0;
            size_t task = per_stage[i], place = base + i;
            while (backwards < m) {
                bool forward = forwards < m && forwards - backwards < n - i;
                uint64_t k = forward ? forwards++ : backwards++;
                size_t pass = task++;
                int to = forward ? (i + 1 < n ? 1 : 0) : (i > 0 ? -1 : 0);
                if (to)
                    task++;
                (forward ? names->forward : names->backward)[base + i][k] = task - 1;
                if (!forward)
                    names->last[base + i] = pass;
                if (!round)
                    continue;
                struct task *t = oracle_task(o, oracle_pass(o, s, s->first, !forward), place, -1);
                if (pass > per_stage[i])
                    oracle_wait(t, pass - 1, 0);
                if (forward && i > 0)
                    oracle_wait(t, names->forward[base + i - 1][k], 0);
                if (!forward && i + 1 < n)
                    oracle_wait(t, names->backward[base + i + 1][k], 0);
                if (!to)
                    continue;
                size_t a = s->class, b = p->stages[(size_t)((long)i + to)].class;
                t = oracle_task(o, oracle_send(o, a, b), place, -1);
                oracle_wait(t, pass, 0);
                if (o->in->classes[a].node != o->in->classes[b].node) {
                    t->places[1] = oracle_out(o, a);
                    t->places[2] = oracle_out(o, b) + 1;
                    t->holds[1] = 1e6 * (double)o->in->boundary_bytes / o->in->classes[a].nic_bytes_per_s;
                    t->holds[2] = 1e6 * (double)o->in->boundary_bytes / o->in->classes[b].nic_bytes_per_s;
                    t->n_places = 3;
                }
            }
        }
        if (!round)
            o->n = at;
    }
}

/* Sums blocks [first, end) over the stages that hold them. If `tied`, sums the shared table instead. `before` is the
 * task that each stage summed last. */
static inline void oracle_segment(struct oracle *o, const struct oracle_names *names, size_t first,
                                  size_t end, bool tied, size_t before[MOST_UNITS])
{
    size_t owners[2 * MOST_UNITS], classes[2 * MOST_UNITS], n = 0, base = 0;
    const struct ah_stage *stages[2 * MOST_UNITS];
    for (size_t p = 0; p < o->plan->n_pipelines; base += o->plan->pipelines[p++].n_stages)
        for (size_t i = 0; i < o->plan->pipelines[p].n_stages; i++) {
            const struct ah_stage *s = &o->plan->pipelines[p].stages[i];
            bool ends = s->first == 0 || s->end == o->in->n_blocks;
            if (tied ? !ends : !(s->first <= first && end <= s->end))
                continue;
            size_t at = n++;
            for (; at > 0 && classes[at - 1] > s->class; at--) { /* by class, then in this order */
                owners[at] = owners[at - 1];
                classes[at] = classes[at - 1];
                stages[at] = stages[at - 1];
            }
            owners[at] = base + i;
            classes[at] = s->class;
            stages[at] = s;
        }
    if (n < 2)
        return;
    double bytes = tied ? (double)o->in->tied_bytes : 0, slowest = 0, latency = 0;
    for (size_t b = first; b < end && !tied; b++)
        bytes += (double)o->in->gradient_bytes[b];
    double volume = 2 * bytes * (double)(n - 1) / (double)n;
    bool leaves = false;
    for (size_t i = 0; i < n; i++) {
        size_t a = classes[i], b = classes[(i + 1) % n];
        uint64_t s = o->in->kinds[o->in->classes[a].kind].tp, t = o->in->kinds[o->in->classes[b].kind].tp;
        bool inside = o->in->classes[a].node == o->in->classes[b].node;
        slowest = fmax(slowest, volume / (inside ? (double)(s < t ? s : t) : 1) * 1e6 /
                                    o->in->links[a * o->in->n_classes + b].bytes_per_s);
        latency = fmax(latency, o->in->links[a * o->in->n_classes + b].latency_us);
        leaves |= !inside;
    }
    struct task *task = oracle_task(o, slowest + 2 * (double)(n - 1) * latency, MOST_UNITS + owners[0], -1);
    task->n_places = 0;
    for (size_t i = 0; i < n; i++) {
        double rest = oracle_pass(o, stages[i], stages[i]->first, true) -
                      (tied ? oracle_pass(o, stages[i], stages[i]->first, true)
                            : oracle_pass(o, stages[i], first, true));
        oracle_wait(task, names->last[owners[i]], tied ? 0 : rest);
        if (before[owners[i]] != SIZE_MAX)
            oracle_wait(task, before[owners[i]], 0);
        before[owners[i]] = o->n - 1;
        for (size_t w = 0; w < 2 && leaves; w++) {
            task->places[task->n_places] = oracle_out(o, classes[i]) + w;
            task->holds[task->n_places++] = 1e6 * volume / o->in->classes[classes[i]].nic_bytes_per_s;
        }
    }
}

static inline double oracle_run(struct oracle *o)
{
    double last = 0;
    for (size_t left = o->n; left; left--) {
        double best = INFINITY;
        size_t chosen = SIZE_MAX;
        for (size_t i = 0; i < o->n; i++) {
            const struct task *task = &o->tasks[i];
            double start = 0;
            if (task->done)
                continue;
            for (size_t a = 0; a < task->n_after; a++) {
                const struct task *other = &o->tasks[task->after[a]];
                start = other->done ? fmax(start, other->end - task->lag[a]) : (double)INFINITY;
                if (isinf(start))
                    break;
            }
            for (size_t a = 0; a < task->n_places; a++)
                start = fmax(start, o->free_us[task->places[a]]);
            if (start < best) {
                best = start;
                chosen = i;
            }
        }
        assert_true(chosen != SIZE_MAX);
        struct task *task = &o->tasks[chosen];
        task->done = true;
        task->end = best + task->us;
        last = fmax(last, task->end);
        for (size_t a = 0; a < task->n_places; a++)
            o->free_us[task->places[a]] = best + (task->holds[a] < 0 ? task->us : task->holds[a]);
    }
    return last;
}

static inline double oracle_update(const struct ah_cluster_problem *in, const struct ah_stage *s)
{
    const struct ah_problem_block *blocks = in->kinds[in->classes[s->class].kind].blocks;
    double us = 0;
    for (size_t b = s->first; b < s->end; b++) {
        size_t at = b - s->first;
        us += at < s->states_away ? oracle_away(in, s, b)->update_us : blocks[b].update_us;
    }
    return us;
}

static inline double oracle_step_us(const struct ah_cluster_problem *in, const struct ah_arrangement *plan)
{
    static struct oracle o;
    static struct oracle_names names;
    size_t base = 0, end = in->n_blocks, before[MOST_UNITS];
    double update = 0;
    o.in = in;
    o.plan = plan;
    o.n = 0;
    memset(o.free_us, 0, sizeof o.free_us);
    for (size_t p = 0; p < plan->n_pipelines; base += plan->pipelines[p++].n_stages)
        oracle_pipeline(&o, &plan->pipelines[p], base, &names);
    for (size_t i = 0; i < MOST_UNITS; i++)
        before[i] = SIZE_MAX;
    for (size_t at = end; at-- > 0;) {
        bool cut = false;
        for (size_t p = 0; p < plan->n_pipelines; p++)
            for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
                cut |= plan->pipelines[p].stages[i].first == at;
        if (!cut)
            continue;
        oracle_segment(&o, &names, at, end, false, before);
        end = at;
    }
    if (in->tied_bytes)
        oracle_segment(&o, &names, 0, 1, true, before);
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_stage *s = &plan->pipelines[p].stages[i];
            update = fmax(update, oracle_update(in, s));
        }
    return oracle_run(&o) + update;
}

/* True if GPU and host memory suffice for the stage's choices, and the update is within its limit. */
static inline bool oracle_suffices(const struct ah_cluster_problem *in, uint64_t in_flight,
                                   const struct ah_stage *s)
{
    const struct ah_problem_kind *kind = &in->kinds[in->classes[s->class].kind];
    uint64_t bytes = 0, work = 0, staging = 0, host = 0;
    for (size_t b = s->first; b < s->end; b++) {
        size_t at = b - s->first;
        int way = at < s->recompute ? 2 : at < s->recompute + s->selective ? 1 : 0;
        const struct ah_problem_block *block = &kind->blocks[b];
        bytes += in_flight * block->saved_bytes[way];
        work = block->work_bytes[way] > work ? block->work_bytes[way] : work;
        if (at >= s->states_away) {
            bytes += block->state_bytes;
            continue;
        }
        const struct ah_problem_away *away = oracle_away(in, s, b);
        bytes += away->state_bytes;
        host += away->host_bytes;
        staging = away->staging_bytes > staging ? away->staging_bytes : staging;
    }
    if (bytes + work + staging > kind->capacity_bytes)
        return false;
    if (!s->states_away)
        return true;
    uint64_t share = kind->n_hosts ? kind->hosts[s->sharers - 1].bytes : 0;
    return share && host <= share && in->update_limit_us > 0 && oracle_update(in, s) <= in->update_limit_us;
}

/* Sets what a stage recomputes and has away, so that its passes are shortest. Ties go to the fewest weights away, then
 * the fewest recomputed, then the fewest selective, then the fewest states away. Returns false if nothing fits. */
static inline bool oracle_fit(const struct ah_cluster_problem *in, uint64_t in_flight, struct ah_stage *s)
{
    const struct oracle *o = oracle_of(in);
    bool away = in->kinds[in->classes[s->class].kind].n_hosts && in->update_limit_us > 0;
    size_t n = s->end - s->first, most = away ? n : 0;
    double best = INFINITY;
    struct ah_stage next = *s;
    for (next.weights_away = 0; next.weights_away <= most; next.weights_away++)
        for (next.recompute = 0; next.recompute <= n; next.recompute++)
            for (next.selective = 0; next.recompute + next.selective <= n; next.selective++)
                for (next.states_away = next.weights_away; next.states_away <= most; next.states_away++) {
                    if (!oracle_suffices(in, in_flight, &next))
                        continue;
                    double us =
                        oracle_pass(o, &next, s->first, false) + oracle_pass(o, &next, s->first, true);
                    if (us >= best * (1 - 1e-12))
                        continue;
                    best = us;
                    *s = next;
                }
    return !isinf(best);
}

#endif
