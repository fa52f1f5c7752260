/* SPDX-License-Identifier: Apache-2.0
 *
 * HexiScale's formulas. b sequences of S tokens, width H, vocabulary V, L layers, 2 bytes a number, t GPUs in a stage:
 *
 *     compute     96 b S H^2 (1 + S / 6H + V / 16LH) / (rate of the stage's first GPU x t), a layer; recomputes (1)
 *     t > 1       12 max over ranks of the sum over others of 2 b S H / (t bw), a layer                        (2)
 *     send        2 min over pairs of 2 b S H / bw + the sum over the receiver's others of 2 b S H / (t bw)     (3)
 *     pipeline    sum over the columns of the fill-and-drain chart of the slowest stage in it                  (4)
 *     gradients   a layer and slice: 2 max over members of the sum over others of 24 H^2 / (least t, members, bw);
 *                 one after another                                                                            (5)
 *     step        1.8 x slowest pipeline + 1.1 x gradients                                                     (6)
 */
#include "planner/cluster/policies/hexiscale_costs.h"

#include <math.h>

static double bandwidth(const struct ah_hexiscale_model *m, size_t from, size_t to)
{
    return m->bytes_per_s[from * m->n_gpus + to];
}

static double residual_bytes(const struct ah_hexiscale_model *m)
{
    return 2 * m->sequences * m->seq * m->width;
}

/* (1), (2) */
static double layer_s(const struct ah_hexiscale_model *m, const size_t *gpus, size_t t)
{
    double h = m->width, most_s = 0;
    double work = 96 * m->sequences * m->seq * h * h *
                  (1 + m->seq / (6 * h) + m->vocabulary / (16 * (double)m->layers * h));
    for (size_t i = 0; i < t; i++) {
        double s = 0;
        for (size_t j = 0; j < t; j++)
            s += j == i ? 0 : residual_bytes(m) / ((double)t * bandwidth(m, gpus[i], gpus[j]));
        most_s = fmax(most_s, s);
    }
    return work / (m->flops_per_s[gpus[0]] * (double)t) + 12 * most_s;
}

/* (3) */
static double send_s(const struct ah_hexiscale_model *m, const size_t *from, size_t t, const size_t *to,
                     size_t u)
{
    double least_s = INFINITY;
    for (size_t j = 0; j < u; j++) {
        double spread_s = 0;
        for (size_t k = 0; k < u; k++)
            spread_s += k == j ? 0 : residual_bytes(m) / ((double)u * bandwidth(m, to[j], to[k]));
        for (size_t i = 0; i < t; i++)
            least_s = fmin(least_s, residual_bytes(m) / bandwidth(m, from[i], to[j]) + spread_s);
    }
    return 2 * least_s;
}

static double stage_s(const struct ah_hexiscale_model *m, const struct ah_hexiscale_pipeline *p, size_t stage)
{
    const size_t *gpus = p->gpus;
    for (size_t i = 0; i < stage; i++)
        gpus += p->tp[i];
    double s = (double)p->layers[stage] * layer_s(m, gpus, p->tp[stage]);
    if (stage + 1 < p->n_stages)
        s += send_s(m, gpus, p->tp[stage], gpus + p->tp[stage], p->tp[stage + 1]);
    return s;
}

/* Computes (4). In column c, stages c - m + 1 to c work, and the slowest of these m stages sets the time. */
double ah_hexiscale_pipeline_s(const struct ah_hexiscale_model *model,
                               const struct ah_hexiscale_pipeline *pipeline, uint64_t micro_batches)
{
    size_t n = pipeline->n_stages;
    double sum_s = 0;
    if (micro_batches >= n) {
        double running_s = 0, most_s = 0; /* longest of the first (fill) or last (drain) c stages; of all */
        for (size_t i = 0; i < n; i++)
            most_s = fmax(most_s, stage_s(model, pipeline, i));
        for (size_t i = 0; i + 1 < n; i++)
            sum_s += running_s = fmax(running_s, stage_s(model, pipeline, i));
        running_s = 0;
        for (size_t i = n; i-- > 1;)
            sum_s += running_s = fmax(running_s, stage_s(model, pipeline, i));
        return sum_s + (double)(micro_batches - n + 1) * most_s;
    }
    for (size_t column = 0; column < micro_batches + n - 1; column++) {
        double most_s = 0;
        for (size_t i = column < micro_batches ? 0 : column - micro_batches + 1; i <= column && i < n; i++)
            most_s = fmax(most_s, stage_s(model, pipeline, i));
        sum_s += most_s;
    }
    return sum_s;
}

/* Returns the index of the stage with a layer; `ret_gpus`: its GPUs. */
static size_t holder(const struct ah_hexiscale_pipeline *p, size_t layer, const size_t **ret_gpus)
{
    size_t i = 0;
    *ret_gpus = p->gpus;
    for (size_t end = p->layers[0]; end <= layer; end += p->layers[i])
        *ret_gpus += p->tp[i++];
    return i;
}

/* Returns (5) for one of the `most` slices of a layer. */
static double slice_s(const struct ah_hexiscale_model *m, const struct ah_hexiscale_pipeline *pipelines,
                      size_t n, size_t layer, size_t slice, size_t most, size_t least)
{
    double bytes = 24 * m->width * m->width / (double)(least * n), most_s = 0;
    for (size_t p = 0; p < n; p++) {
        const size_t *a, *b;
        size_t t = pipelines[p].tp[holder(&pipelines[p], layer, &a)];
        double s = 0;
        for (size_t q = 0; q < n; q++) {
            size_t u = pipelines[q].tp[holder(&pipelines[q], layer, &b)];
            if (q != p)
                s += bytes / bandwidth(m, a[slice * t / most], b[slice * u / most]);
        }
        most_s = fmax(most_s, s);
    }
    return 2 * most_s;
}

/* True if no stage begins at this layer. The layer then has the same owners as the previous layer. */
static int same_owners(const struct ah_hexiscale_pipeline *pipelines, size_t n, size_t layer)
{
    const size_t *now, *before;
    for (size_t p = 0; p < n; p++)
        if (holder(&pipelines[p], layer, &now) != holder(&pipelines[p], layer - 1, &before))
            return 0;
    return 1;
}

static double gradients_s(const struct ah_hexiscale_model *m, const struct ah_hexiscale_pipeline *pipelines,
                          size_t n)
{
    double sum_s = 0, layer_sum_s = 0;
    for (size_t layer = 0; layer < m->layers; layer++, sum_s += layer_sum_s) {
        size_t most = 0, least = SIZE_MAX;
        if (layer && same_owners(pipelines, n, layer))
            continue;
        for (size_t p = 0; p < n; p++) {
            const size_t *gpus;
            size_t t = pipelines[p].tp[holder(&pipelines[p], layer, &gpus)];
            most = t > most ? t : most;
            least = t < least ? t : least;
        }
        layer_sum_s = 0;
        for (size_t slice = 0; slice < most / least; slice++) /* as in HexiScale, which may miss slices */
            layer_sum_s += slice_s(m, pipelines, n, layer, slice, most, least);
    }
    return sum_s;
}

/* (6) */
double ah_hexiscale_step_s(const struct ah_hexiscale_model *model,
                           const struct ah_hexiscale_pipeline *pipelines, size_t n, uint64_t micro_batches)
{
    double slowest_s = 0;
    for (size_t p = 0; p < n; p++)
        slowest_s = fmax(slowest_s, ah_hexiscale_pipeline_s(model, &pipelines[p], micro_batches));
    return 1.8 * slowest_s + 1.1 * gradients_s(model, pipelines, n);
}
