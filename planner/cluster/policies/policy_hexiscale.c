/* SPDX-License-Identifier: Apache-2.0
 *
 * HexiScale's search (docs/policies/hexiscale.md), on a mixed problem (mixed.h), with its own costs
 * (hexiscale_costs.h):
 *
 * 1. GPUs are cut into d pipelines of equal FLOPS; an edge weighs 1 / bandwidth.
 * 2. Each pipeline is cut into 1 + Binomial(2, 0.2) parts; here an edge weighs the bandwidth.
 * 3. Parts are put in order. The GPUs of a part in one machine become stages, by the cheapest row of a table.
 * 4. Layers are dealt in proportion to the memory of stages. If one does not fit, the pipelines are dropped.
 * 5. Steps 1 to 4 are done 40 times, and d changes by one at random. The cheapest plan by HexiScale's model is kept.
 *
 * Users choose the first d, and whether to use degrees above 1. The plan of each such choice is simulated.
 */
#include "planner/cluster/policies/cluster_policies_internal.h"
#include "planner/cluster/policies/cuts.h"
#include "planner/cluster/policies/hexiscale_costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 40, SEED = 40404, MACHINE = 8, PARTS = 3 };

/* For step 3: the degrees to cut n GPUs of a machine into, by n. */
static const size_t table[MACHINE + 1][PARTS][MACHINE] = {
    [1] = {{1}},
    [2] = {{2}, {1, 1}},
    [3] = {{2, 1}, {1, 1, 1}},
    [4] = {{4}, {2, 2}, {2, 1, 1}},
    [5] = {{4, 1}, {2, 2, 1}},
    [6] = {{4, 2}, {2, 2, 2}},
    [7] = {{4, 2, 1}, {2, 2, 2, 1}},
    [8] = {{8}, {4, 4}, {4, 2, 2}},
};

/* Several pipelines, with their arrays one after another. */
struct set {
    struct ah_hexiscale_pipeline *pipelines; /* (gpus) */
    size_t *numbers;                         /* (3, gpus) */
    size_t n;
};

struct hexiscale {
    struct ah_policy_search *search;
    struct ah_hexiscale_model model;
    double *flops, *bandwidth, *inverse; /* (gpus), (gpus, gpus) */
    size_t *node;                        /* (gpus) */
    size_t *part; /* (gpus, gpus), by d - 1: the cut into d pipelines; SIZE_MAX first: not known yet */
    size_t *mine, *sub, *scratch;    /* (gpus): GPUs of a pipeline, and their parts */
    double *shares, *memory;         /* (gpus): all 1; memory of a pipeline's stages */
    double *sub_weights, *sub_edges; /* of the graph of the GPUs in `mine` */
    struct set now, best;
    double best_s;
    bool use_tp;
    uint64_t random;
    struct ah_error *err;
};

/* ---- random numbers ---- */

static uint64_t draw_random(struct hexiscale *h)
{
    uint64_t z = h->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t draw_parts(struct hexiscale *h)
{
    size_t parts = 1;
    for (int i = 0; i < 2; i++)
        parts += draw_random(h) % 10 < 2;
    return parts;
}

/* ---- GPUs ---- */

/* Returns the class of units of `tp` GPUs of a node; SIZE_MAX: there are none. */
static size_t class_of(const struct ah_cluster_problem *problem, size_t node, size_t tp)
{
    for (size_t c = 0; c < problem->n_classes; c++)
        if (problem->classes[c].node == node && ah_problem_kind_of(problem, c)->tp == tp)
            return c;
    return SIZE_MAX;
}

static size_t count_gpus(const struct ah_cluster_problem *problem, size_t node)
{
    size_t gpus = 0;
    for (size_t c = 0; c < problem->n_classes; c++) {
        size_t n = problem->classes[c].units * ah_problem_kind_of(problem, c)->tp;
        gpus = problem->classes[c].node == node && n > gpus ? n : gpus;
    }
    return gpus;
}

static size_t count_all(const struct ah_cluster_problem *problem)
{
    size_t n = 0;
    for (size_t c = 0; c < problem->n_classes; c++)
        if (!c || problem->classes[c].node != problem->classes[c - 1].node)
            n += count_gpus(problem, problem->classes[c].node);
    return n;
}

static void fill_gpus(struct hexiscale *h)
{
    const struct ah_cluster_problem *problem = h->search->problem;
    size_t n = h->model.n_gpus, at = 0;
    for (size_t c = 0; c < problem->n_classes; c++) {
        size_t node = problem->classes[c].node;
        if (c && problem->classes[c - 1].node == node)
            continue;
        for (size_t g = count_gpus(problem, node); g > 0; g--, at++) {
            h->node[at] = c; /* first the node's first class, to look up links */
            h->flops[at] = h->search->input->flops_per_s[problem->classes[c].kind];
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            h->bandwidth[i * n + j] =
                problem->links[h->node[i] * problem->n_classes + h->node[j]].bytes_per_s;
            h->inverse[i * n + j] = 1 / h->bandwidth[i * n + j];
        }
    for (size_t i = 0; i < n; i++)
        h->node[i] = problem->classes[h->node[i]].node;
}

/* ---- 2 and 3: one pipeline ---- */

/* Cuts the `n` GPUs in `mine` into `k` parts. Writes the part of each to `sub`. */
static int cut_again(struct hexiscale *h, size_t n, size_t k)
{
    size_t all = h->model.n_gpus;
    for (size_t i = 0; i < n; i++) {
        h->sub_weights[i] = h->flops[h->mine[i]];
        for (size_t j = 0; j < n; j++)
            h->sub_edges[i * n + j] = h->bandwidth[h->mine[i] * all + h->mine[j]];
    }
    const struct ah_cut_graph graph = {n, h->sub_weights, h->sub_edges};
    return ah_cuts_find(&graph, k, h->sub, h->err);
}

/* Sets the places of up to three parts. Compares, for each first part, the path that is lexicographically greatest, and
 * takes the lightest of these paths. As in HexiScale's code, part i then gets place path[i]. */
static void order_parts(const struct hexiscale *h, size_t n, size_t k, size_t ret_place[PARTS])
{
    double between[PARTS][PARTS] = {{0}}, least = INFINITY;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            between[h->sub[i]][h->sub[j]] += h->bandwidth[h->mine[i] * h->model.n_gpus + h->mine[j]];
    for (size_t start = 0; start < k; start++) {
        size_t path[PARTS] = {start}, at = 1;
        double weight = 0;
        for (size_t next = k; next-- > 0;)
            if (next != start) {
                weight += between[path[at - 1]][next];
                path[at++] = next;
            }
        if (weight < least) {
            least = weight;
            memcpy(ret_place, path, sizeof path);
        }
    }
}

/* Reads the degrees in a row of the table and returns their number; 0 if the node lacks units of some degree. */
static size_t table_degrees(const struct hexiscale *h, size_t node, size_t n, size_t row, size_t *ret_tp)
{
    size_t stages = 0;
    if (n > MACHINE || !h->use_tp)
        return 0;
    for (; stages < MACHINE && table[n][row][stages]; stages++) {
        ret_tp[stages] = table[n][row][stages];
        if (class_of(h->search->problem, node, ret_tp[stages]) == SIZE_MAX)
            return 0;
    }
    return stages;
}

/* Chooses degrees where no row fits: the node's largest degrees first; without tensor parallelism, only its least. */
static size_t other_degrees(const struct hexiscale *h, size_t node, size_t n, size_t *ret_tp)
{
    size_t stages = 0, least = 1;
    while (least < MACHINE && class_of(h->search->problem, node, least) == SIZE_MAX)
        least *= 2;
    for (size_t t = h->use_tp ? MACHINE : least; t >= least; t /= 2)
        for (; n >= t && class_of(h->search->problem, node, t) != SIZE_MAX; n -= t)
            ret_tp[stages++] = t;
    return stages;
}

/* Deals layers in proportion to the stages' numbers of GPUs. The last stage gets the rest. */
static void deal_provisionally(const struct hexiscale *h, struct ah_hexiscale_pipeline *p)
{
    size_t left = h->model.layers;
    for (size_t i = 0; i < p->n_stages; i++) {
        p->layers[i] = i + 1 < p->n_stages ? h->model.layers * p->tp[i] / p->n_gpus : left;
        left -= p->layers[i];
    }
}

/* Appends stages of `n` GPUs of one machine, which are stored after the pipeline's GPUs. Chooses the stages that would
 * take the least time as a separate pipeline. */
static void add_machine(const struct hexiscale *h, struct ah_hexiscale_pipeline *pipeline, size_t n,
                        uint64_t m, size_t *scratch)
{
    size_t *gpus = pipeline->gpus + pipeline->n_gpus, *tp = pipeline->tp + pipeline->n_stages;
    struct ah_hexiscale_pipeline alone = {gpus, scratch, pipeline->layers + pipeline->n_stages, 0, 0};
    double least_s = INFINITY;
    size_t stages = 0, used = 0, node = h->node[gpus[0]];
    for (size_t row = 0; row <= PARTS; row++) {
        if (row == PARTS && stages)
            break;
        alone.n_stages =
            row < PARTS ? table_degrees(h, node, n, row, scratch) : other_degrees(h, node, n, scratch);
        alone.n_gpus = 0;
        for (size_t i = 0; i < alone.n_stages; i++)
            alone.n_gpus += scratch[i];
        deal_provisionally(h, &alone);
        double s = alone.n_stages ? ah_hexiscale_pipeline_s(&h->model, &alone, m) : (double)INFINITY;
        if (s >= least_s)
            continue;
        least_s = s;
        stages = alone.n_stages;
        used = alone.n_gpus;
        memcpy(tp, scratch, stages * sizeof *tp);
    }
    pipeline->n_stages += stages;
    pipeline->n_gpus += used; /* the machine's other GPUs stay idle */
}

/* Appends stages of the GPUs in part `q`, one machine after another. */
static void add_part(const struct hexiscale *h, struct ah_hexiscale_pipeline *pipeline, size_t n, size_t q,
                     uint64_t m, size_t *scratch)
{
    for (size_t i = 0, in_machine = 0; i < n; i++) {
        size_t j = i + 1;
        if (h->sub[i] == q)
            pipeline->gpus[pipeline->n_gpus + in_machine++] = h->mine[i];
        while (j < n && h->sub[j] != q)
            j++;
        if (in_machine && (j == n || h->node[h->mine[j]] != h->node[pipeline->gpus[pipeline->n_gpus]])) {
            add_machine(h, pipeline, in_machine, m, scratch);
            in_machine = 0;
        }
    }
}

/* ---- 4: layers ---- */

/* Sets the memory of every stage, in bytes, and returns the sum. */
static double fill_memory(struct hexiscale *h, const struct ah_hexiscale_pipeline *p)
{
    const struct ah_cluster_problem *problem = h->search->problem;
    double all = 0;
    for (size_t i = 0, gpu = 0; i < p->n_stages; gpu += p->tp[i++]) {
        size_t class = class_of(problem, h->node[p->gpus[gpu]], p->tp[i]);
        const struct ah_problem_kind *kind = ah_problem_kind_of(problem, class);
        all += h->memory[i] = (double)kind->capacity_bytes * (double)kind->tp;
    }
    return all;
}

/* Returns the stage with the n-th largest memory. Between equals, the later stage is first. */
static size_t nth_memory(const struct hexiscale *h, size_t n_stages, size_t n)
{
    for (size_t i = 0; i < n_stages; i++) {
        size_t larger = 0;
        for (size_t j = 0; j < n_stages; j++)
            larger += h->memory[j] > h->memory[i] || (j > i && !(h->memory[j] < h->memory[i]));
        if (larger == n)
            return i;
    }
    return 0;
}

/* Deals layers in turn to the stages that are below their share of the memory. Any layers left are dealt one to each
 * stage, in order of falling memory. */
static void deal_layers(struct hexiscale *h, struct ah_hexiscale_pipeline *p)
{
    size_t left = h->model.layers, over = 0;
    double all = fill_memory(h, p);
    memset(p->layers, 0, p->n_stages * sizeof *p->layers);
    for (size_t i = 0; left && over < p->n_stages; i = (i + 1) % p->n_stages) {
        bool full = (double)(p->layers[i] + 1) / (double)h->model.layers > h->memory[i] / all;
        over = full ? over + 1 : 0;
        p->layers[i] += !full;
        left -= !full;
    }
    for (size_t rank = 0; left; rank++, left--)
        p->layers[nth_memory(h, p->n_stages, rank % p->n_stages)]++;
}

/* ---- as an arrangement ---- */

/* Appends a pipeline to the trial, without the stages that have no layers. */
static void add_to_trial(const struct hexiscale *h, const struct ah_hexiscale_pipeline *p,
                         uint64_t micro_batches)
{
    struct ah_draft *trial = &h->search->trial;
    size_t gpu = 0, next = 0;
    ah_draft_open(trial);
    for (size_t i = 0; i < p->n_stages; gpu += p->tp[i++]) {
        if (!p->layers[i])
            continue;
        ah_draft_add(trial, class_of(h->search->problem, h->node[p->gpus[gpu]], p->tp[i]));
        struct ah_stage *stage = &trial->stages[trial->n_stages - 1];
        stage->first = next;
        next += p->layers[i] + (next == 0);
        stage->end = next;
    }
    trial->stages[trial->n_stages - 1].end = h->search->problem->n_blocks;
    trial->arrangement.pipelines[trial->arrangement.n_pipelines - 1].micro_batches = micro_batches;
}

static bool fits(const struct hexiscale *h, const struct ah_hexiscale_pipeline *p, uint64_t micro_batches)
{
    struct ah_draft *trial = &h->search->trial;
    ah_draft_begin(trial);
    add_to_trial(h, p, micro_batches);
    return ah_fits_pipeline(&h->search->fits, &trial->arrangement.pipelines[0]);
}

/* ---- 1 and 5: the search ---- */

static uint64_t micro_batches_of(const struct hexiscale *h, size_t d)
{
    return (h->search->problem->micro_batches + d - 1) / d;
}

/* Cuts the GPUs into d pipelines, unless this was done before. */
static int cut_first(struct hexiscale *h, size_t d, const size_t **ret_part)
{
    size_t n = h->model.n_gpus, *part = h->part + (d - 1) * n;
    const struct ah_cut_graph graph = {n, h->flops, h->inverse};
    *ret_part = part;
    return part[0] != SIZE_MAX ? AH_OK : ah_cuts_find(&graph, d, part, h->err);
}

/* Does steps 2 to 4 for pipeline `p` of d. */
static int make_pipeline(struct hexiscale *h, const size_t *part, size_t p, size_t d, size_t *used,
                         bool *ret_fits)
{
    struct ah_hexiscale_pipeline *pipeline = &h->now.pipelines[p];
    size_t n = 0, k = draw_parts(h), all = h->model.n_gpus, place[PARTS] = {0};
    for (size_t g = 0; g < all; g++)
        if (part[g] == p)
            h->mine[n++] = g;
    k = k < n ? k : n;
    int rc = cut_again(h, n, k);
    if (rc)
        return rc;
    order_parts(h, n, k, place);
    *pipeline = (struct ah_hexiscale_pipeline){h->now.numbers + *used, h->now.numbers + all + *used,
                                               h->now.numbers + 2 * all + *used, 0, 0};
    for (size_t at = 0; at < k; at++)
        for (size_t q = 0; q < k; q++)
            if (place[q] == at)
                add_part(h, pipeline, n, q, micro_batches_of(h, d), h->scratch);
    *used += n;
    *ret_fits = false;
    if (!pipeline->n_stages)
        return AH_OK;
    deal_layers(h, pipeline);
    *ret_fits = fits(h, pipeline, micro_batches_of(h, d));
    return AH_OK;
}

/* Copies a set with its arrays. */
static void copy_set(struct set *to, const struct set *from, size_t gpus)
{
    memcpy(to->numbers, from->numbers, 3 * gpus * sizeof *to->numbers);
    to->n = from->n;
    for (size_t p = 0; p < from->n; p++) {
        to->pipelines[p] = from->pipelines[p];
        to->pipelines[p].gpus = to->numbers + (from->pipelines[p].gpus - from->numbers);
        to->pipelines[p].tp = to->numbers + (from->pipelines[p].tp - from->numbers);
        to->pipelines[p].layers = to->numbers + (from->pipelines[p].layers - from->numbers);
    }
}

static int run_iteration(struct hexiscale *h, size_t d)
{
    const size_t *part;
    size_t used = 0;
    bool all_fit = true;
    int rc = cut_first(h, d, &part);
    h->now.n = d;
    for (size_t p = 0; p < d && !rc; p++) {
        bool one_fits = false;
        rc = make_pipeline(h, part, p, d, &used, &one_fits);
        all_fit = all_fit && one_fits;
    }
    if (rc || !all_fit)
        return rc;
    double s = ah_hexiscale_step_s(&h->model, h->now.pipelines, d, micro_batches_of(h, d));
    if (s < h->best_s) {
        h->best_s = s;
        copy_set(&h->best, &h->now, h->model.n_gpus);
    }
    return AH_OK;
}

/* Simulates HexiScale's choice twice: with shares that let pipelines end together, and with even shares. */
static int simulate(struct hexiscale *h)
{
    struct ah_policy_search *search = h->search;
    for (int even = 0; even < 2; even++) {
        ah_draft_begin(&search->trial);
        for (size_t p = 0; p < h->best.n; p++) {
            h->shares[p] = 1;
            add_to_trial(h, &h->best.pipelines[p], 1);
        }
        if (even ? !ah_cluster_policies_share(search, h->shares)
                 : !ah_draft_share(&search->trial, &search->fits))
            continue;
        int rc = ah_cluster_policies_try(search, h->err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

/* Does what one run of HexiScale's script does. */
static int run_script(struct hexiscale *h, size_t first_d, bool use_tp)
{
    size_t n = h->model.n_gpus, most = n / 5 ? n / 5 : 1, least = n / h->model.layers + 1, d = first_d;
    int rc = AH_OK;
    if (most > h->search->problem->micro_batches)
        most = h->search->problem->micro_batches;
    h->random = SEED;
    h->use_tp = use_tp;
    h->best_s = INFINITY;
    d = d < most ? d : most;
    for (int i = 0; i < ITERATIONS && !rc; i++) {
        rc = run_iteration(h, d);
        if (draw_random(h) % 2)
            d = d < most ? d + 1 : most;
        else
            d = d > least ? d - 1 : least < most ? least : most;
    }
    return rc || isinf(h->best_s) ? rc : simulate(h);
}

static bool reserve(struct hexiscale *h)
{
    size_t n = h->model.n_gpus;
    h->flops = calloc(n * (4 + 3 * n), sizeof *h->flops);
    h->node = calloc(n * (10 + n), sizeof *h->node);
    h->now.pipelines = calloc(2 * n, sizeof *h->now.pipelines);
    if (!h->flops || !h->node || !h->now.pipelines)
        return false;
    h->sub_weights = h->flops + n;
    h->shares = h->flops + 2 * n;
    h->memory = h->flops + 3 * n;
    h->bandwidth = h->flops + 4 * n;
    h->inverse = h->bandwidth + n * n;
    h->sub_edges = h->inverse + n * n;
    h->mine = h->node + n;
    h->sub = h->node + 2 * n;
    h->scratch = h->node + 3 * n;
    h->now.numbers = h->node + 4 * n;
    h->best.numbers = h->node + 7 * n;
    h->part = h->node + 10 * n;
    h->best.pipelines = h->now.pipelines + n;
    for (size_t d = 0; d < n; d++)
        h->part[d * n] = SIZE_MAX;
    return true;
}

int ah_policy_hexiscale(struct ah_policy_search *search, struct ah_error *err)
{
    const struct ah_cluster_policy_input *input = search->input;
    struct hexiscale h = {.search = search,
                          .model = {.n_gpus = count_all(search->problem),
                                    .layers = search->problem->n_blocks - 2,
                                    .width = (double)input->width,
                                    .seq = (double)input->seq,
                                    .vocabulary = (double)input->vocabulary,
                                    .sequences = (double)input->sequences},
                          .err = err};
    int rc = reserve(&h) ? AH_OK : ah_error_memory(err);
    if (!rc) {
        fill_gpus(&h);
        h.model.flops_per_s = h.flops;
        h.model.bytes_per_s = h.bandwidth;
    }
    for (size_t first = 1; first <= 4 && !rc; first *= 2)
        for (int use_tp = 0; use_tp < 2 && !rc; use_tp++)
            rc = run_script(&h, first, use_tp);
    free(h.flops);
    free(h.node);
    free(h.now.pipelines);
    return rc;
}
