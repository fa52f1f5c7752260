/* SPDX-License-Identifier: Apache-2.0
 *
 *   pipeline p ends at     max( alone, what its nodes' NICs carry for all pipelines )                           (1)
 *   stage i of it is done  (1), less the last backwards of the stages before i and the sends to them            (2)
 *   segments               summed in order, each when its owners are done and their NICs are free               (3)
 *   even                   when all would end if micro-batches could be shared in fractions, by the formula     (4)
 *
 * The estimate is a weighted mean of (1) with (3), and of the same with (4) as the end of the pipelines. If one of many
 * equal pipelines gets faster, only (4) shows it; (1) falls only once all of them are faster.
 *
 * (2) is too late if earlier stages have a backlog. (3) ignores that transfers of passes and sums wait for each other.
 */
#include "planner/cluster/sim/stage_estimate.h"

#include "planner/cluster/search/split.h"
#include "planner/cluster/segments.h"
#include "planner/cluster/sim/stage_sim.h"

#include <math.h>
#include <stdlib.h>

static const double smoothness = 0.8; /* weight of (4) in the estimate */

struct estimate {
    const struct ah_cluster_problem *problem;
    const struct ah_arrangement *arrangement;
    double *numbers; /* owned: memory of the arrays below */
    double *nic_us;  /* (nodes): busy time of the way out; later, the time at which sums leave it free */
    double *in_us;   /* (nodes): busy time of the way in */
    double *done_us; /* (stages): (2); later, the end of the stage's last sum */
    const struct ah_stage **stages;
    double pipelines_us, sums_us, update_us;
};

static size_t node_of(const struct estimate *e, const struct ah_stage *stage)
{
    return e->problem->classes[stage->class].node;
}

static int init_estimate(struct estimate *e, struct ah_error *err)
{
    size_t nodes = 1, stages = 0;
    for (size_t c = 0; c < e->problem->n_classes; c++)
        nodes = e->problem->classes[c].node >= nodes ? e->problem->classes[c].node + 1 : nodes;
    for (size_t p = 0; p < e->arrangement->n_pipelines; p++)
        stages += e->arrangement->pipelines[p].n_stages;
    e->numbers = calloc(2 * nodes + stages + 1, sizeof *e->numbers);
    e->stages = calloc(stages + 1, sizeof *e->stages);
    if (!e->numbers || !e->stages)
        return ah_error_memory(err);
    e->nic_us = e->numbers;
    e->in_us = e->nic_us + nodes;
    e->done_us = e->in_us + nodes;
    return AH_OK;
}

/* Adds the time of all messages in a step between one pair of neighbours. */
static void add_nic_load(struct estimate *e, const struct ah_pipeline *pipeline, size_t i)
{
    size_t a = node_of(e, &pipeline->stages[i]), b = node_of(e, &pipeline->stages[i + 1]);
    double bytes = 1e6 * (double)pipeline->micro_batches * (double)e->problem->boundary_bytes;
    double a_us = bytes / e->problem->classes[pipeline->stages[i].class].nic_bytes_per_s;
    double b_us = bytes / e->problem->classes[pipeline->stages[i + 1].class].nic_bytes_per_s;
    if (a == b)
        return;
    e->nic_us[a] += a_us;
    e->in_us[a] += a_us;
    e->nic_us[b] += b_us;
    e->in_us[b] += b_us;
}

static bool alike(const struct ah_pipeline *p, const struct ah_pipeline *q)
{
    bool same = p->n_stages == q->n_stages && p->micro_batches == q->micro_batches;
    for (size_t i = 0; i < p->n_stages && same; i++)
        same = p->stages[i].class == q->stages[i].class && p->stages[i].end == q->stages[i].end;
    return same;
}

/* Computes (1) and (2) for one pipeline. */
static void place_pipeline(struct estimate *e, const struct ah_pipeline *pipeline, double alone_us,
                           size_t stage)
{
    double end_us = alone_us;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        size_t node = node_of(e, &pipeline->stages[i]);
        if (pipeline->n_stages > 1)
            end_us = fmax(end_us, fmax(e->nic_us[node], e->in_us[node]));
    }
    e->pipelines_us = fmax(e->pipelines_us, end_us);
    for (size_t i = 0; i < pipeline->n_stages; i++, stage++) {
        const struct ah_stage *s = &pipeline->stages[i];
        if (i > 0)
            end_us -= ah_problem_send_us(e->problem, s->class, s[-1].class);
        e->stages[stage] = s;
        e->done_us[stage] = end_us;
        e->update_us = fmax(e->update_us, s->update_us);
        end_us -= s->backward_us;
    }
}

/* Computes the end of one segment's sum by (3). */
static void sum(struct estimate *e, const struct ah_segment *segment)
{
    double start_us = 0;
    for (size_t i = 0; i < segment->n_owners; i++) {
        const struct ah_stage *stage = e->stages[segment->owners[i]];
        double done_us = e->done_us[segment->owners[i]];
        start_us = fmax(start_us, done_us);
        if (segment->volume_bytes > 0)
            start_us = fmax(start_us, e->nic_us[node_of(e, stage)]);
    }
    for (size_t i = 0; i < segment->n_owners; i++) {
        const struct ah_stage *stage = e->stages[segment->owners[i]];
        e->done_us[segment->owners[i]] = start_us + segment->ring_us;
        if (segment->volume_bytes > 0)
            e->nic_us[node_of(e, stage)] =
                start_us + 1e6 * segment->volume_bytes / e->problem->classes[stage->class].nic_bytes_per_s;
    }
    e->sums_us = fmax(e->sums_us, start_us + segment->ring_us);
}

/* Computes the ends of all segments' sums, in order. At first, no NIC is busy with sums. */
static void begin_sums(struct estimate *e, const struct ah_segments *segments)
{
    for (size_t c = 0; c < e->problem->n_classes; c++)
        e->nic_us[e->problem->classes[c].node] = 0;
    for (size_t s = 0; s < segments->n; s++)
        sum(e, &segments->items[s]);
}

static int time_pipelines(struct estimate *e, uint64_t *ret_passes, struct ah_error *err)
{
    const struct ah_arrangement *arrangement = e->arrangement;
    size_t stage = 0;
    double alone_us = 0;
    for (size_t p = 0; p < arrangement->n_pipelines; p++)
        for (size_t i = 0; i + 1 < arrangement->pipelines[p].n_stages; i++)
            add_nic_load(e, &arrangement->pipelines[p], i);
    for (size_t p = 0; p < arrangement->n_pipelines; p++) {
        const struct ah_pipeline *pipeline = &arrangement->pipelines[p];
        int rc = AH_OK;
        if (p == 0 || !alike(pipeline, pipeline - 1)) {
            rc = ah_pipeline_time(e->problem, pipeline, &alone_us, err);
            *ret_passes += 2 * pipeline->n_stages * pipeline->micro_batches;
        }
        if (rc)
            return rc;
        place_pipeline(e, pipeline, alone_us, stage);
        stage += pipeline->n_stages;
    }
    return AH_OK;
}

/* (4). */
static double even_us(const struct estimate *e)
{
    double above = (double)e->problem->micro_batches, below = 0;
    for (size_t p = 0; p < e->arrangement->n_pipelines; p++) {
        struct ah_pipeline pipeline = e->arrangement->pipelines[p];
        pipeline.micro_batches = 1;
        double sum_us = ah_split_formula_us(e->problem, &pipeline);
        pipeline.micro_batches = 2;
        double most_us = fmax(ah_split_formula_us(e->problem, &pipeline) - sum_us, 1e-9);
        above += sum_us / most_us - 1;
        below += 1 / most_us;
    }
    return above / below;
}

int ah_estimate_time(const struct ah_cluster_problem *problem, const struct ah_arrangement *arrangement,
                     double *ret_us, uint64_t *ret_passes, struct ah_error *err)
{
    struct estimate e = {.problem = problem, .arrangement = arrangement};
    struct ah_segments segments = {0};
    *ret_passes = 0;
    int rc = init_estimate(&e, err);
    rc = rc ? rc : time_pipelines(&e, ret_passes, err);
    if (!rc) {
        rc = ah_segments_init(&segments, problem, arrangement, err);
        if (!rc)
            begin_sums(&e, &segments);
        ah_segments_release(&segments);
    }
    if (!rc)
        *ret_us = fmax(e.pipelines_us, e.sums_us) + e.update_us - smoothness * (e.pipelines_us - even_us(&e));
    free(e.numbers);
    free(e.stages);
    return rc;
}
