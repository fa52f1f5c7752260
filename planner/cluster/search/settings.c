/* SPDX-License-Identifier: Apache-2.0
 *
 * A combination of degrees is bounded before its problem is made, from the costs of the problems with one degree for
 * all types. The bound is the relaxation of docs/clusters.md, with weights in proportion to speed:
 *
 *     step >= M sum over b of min over k of w(k) (f + g)(k, b) / sum over k of N(k) w(k)                         (1)
 */
#include "planner/cluster/search/settings.h"

#include "planner/cluster/cluster_costs.h"
#include "planner/cluster/groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEGREES = 4, SIZES = 4, SYMMETRIC_MOST = DEGREES * SIZES, ASYM_MOST = 96, TYPES_MOST = 8 };

struct making {
    const struct ah_cluster_request *request;
    struct ah_arena *arena;
    struct ah_settings settings;
    size_t symmetric[DEGREES][SIZES]; /* 1 + index of the setting; 0: none */
    struct ah_error *err;
};

/* A degree for each type, as two bits each, and a size of micro-batch. */
struct combination {
    uint32_t degrees, size;
    double bound_us;
};

static uint32_t degree_of(uint32_t degrees, size_t type)
{
    return degrees >> 2 * (type < TYPES_MOST ? type : TYPES_MOST - 1) & 3;
}

static bool usable(const struct ah_cluster_request *request, uint32_t degrees)
{
    const struct ah_cluster *cluster = request->cluster;
    bool any = false;
    if (request->tp && UINT64_C(1) << degree_of(degrees, 0) != request->tp)
        return false;
    for (size_t i = 0; i < cluster->n_gpus; i++)
        if (!ah_cluster_costs_divides(request->model, UINT64_C(1) << degree_of(degrees, i)))
            return false;
    for (size_t n = 0; n < cluster->n_nodes; n++) {
        const struct ah_cluster_node *node = &cluster->nodes[n];
        size_t type = (size_t)(ah_cluster_gpu_of(cluster, node) - cluster->gpus);
        any |= node->gpus >= UINT64_C(1) << degree_of(degrees, type);
    }
    return any;
}

/* Returns the number of micro-batches of 2^size sequences, or the request's number (size 0). 0: skip this size. */
static uint64_t micro_batches_of(const struct ah_cluster_request *request, uint32_t size)
{
    uint64_t batch = request->training.batch, sequences = UINT64_C(1) << size;
    if (!request->any_micro_batches)
        return size ? 0 : request->training.micro_batches;
    return batch % sequences ? 0 : batch / sequences;
}

/* Adds a setting. `separate_sums`: the first pipeline sums groups separately, with more memory. */
static int add_one(struct making *m, uint32_t degrees, uint32_t size, bool separate_sums)
{
    struct ah_setting *setting = &m->settings.items[m->settings.n];
    size_t n = m->request->cluster->n_gpus;
    *setting = (struct ah_setting){.training = m->request->training, .index = m->settings.n};
    setting->training.micro_batches = micro_batches_of(m->request, size);
    setting->tp = ah_arena_array(m->arena, n, sizeof *setting->tp);
    if (!setting->tp)
        return ah_error_memory(m->err);
    for (size_t i = 0; i < n; i++)
        setting->tp[i] = UINT64_C(1) << degree_of(degrees, i);
    const struct ah_cluster_costs_input input = {.model = m->request->model,
                                                 .model_sha256 = m->request->model_sha256,
                                                 .cluster = m->request->cluster,
                                                 .training = setting->training,
                                                 .tp = setting->tp,
                                                 .without = m->request->without,
                                                 .separate_sums = separate_sums};
    bool any = true;
    int rc = ah_cluster_costs_build(&input, m->arena, &setting->problem, &setting->estimated, m->err);
    if (!rc && m->request->sums_stay)
        rc = ah_groups_read(&setting->problem, &setting->training, separate_sums, m->arena, &any, m->err);
    m->settings.n += !rc && any;
    return rc;
}

static int add_setting(struct making *m, uint32_t degrees, uint32_t size)
{
    int rc = m->request->sums_stay ? add_one(m, degrees, size, true) : AH_OK;
    return rc ? rc : add_one(m, degrees, size, false);
}

static uint32_t all_of(uint32_t degree)
{
    uint32_t degrees = 0;
    for (size_t i = 0; i < TYPES_MOST; i++)
        degrees |= degree << 2 * i;
    return degrees;
}

static int add_symmetric(struct making *m)
{
    int rc = AH_OK;
    for (uint32_t degree = 0; degree < DEGREES && !rc; degree++)
        for (uint32_t size = 0; size < SIZES && usable(m->request, all_of(degree)) && !rc; size++) {
            if (!micro_batches_of(m->request, size))
                continue;
            rc = add_setting(m, all_of(degree), size);
            m->symmetric[degree][size] = m->settings.n;
        }
    return rc;
}

/* ---- a degree for each type ---- */

static double block_us(const struct ah_cluster_problem *problem, size_t kind, size_t block)
{
    const struct ah_problem_block *b = &problem->kinds[kind].blocks[block];
    return b->forward_us + b->backward_us[AH_ACTIVATIONS_KEEP];
}

static double weight_of(const struct ah_cluster_problem *problem, size_t kind)
{
    double us = 0;
    for (size_t b = 0; b < problem->n_blocks; b++)
        us += block_us(problem, kind, b);
    return 1 / fmax(us, 1e-9);
}

/* Computes one type's part in (1): lowers `least_us` (by block), and returns the type's part of the denominator. */
static double weigh_type(const struct ah_cluster_problem *problem, const char *gpu, double *least_us)
{
    double below = 0;
    for (size_t c = 0; c < problem->n_classes; c++) {
        size_t kind = problem->classes[c].kind;
        if (strcmp(problem->kinds[kind].gpu, gpu) != 0)
            continue;
        double weight = weight_of(problem, kind);
        below += (double)problem->classes[c].units * weight;
        for (size_t b = 0; b < problem->n_blocks; b++)
            least_us[b] = fmin(least_us[b], weight * block_us(problem, kind, b));
    }
    return below;
}

/* Results of weigh_type() for all types, degrees and sizes. */
struct weights {
    double *least_us; /* (types, degrees, sizes, blocks) */
    double *below;    /* (types, degrees, sizes) */
    size_t n_blocks;
};

static size_t weights_at(size_t type, uint32_t degree, uint32_t size)
{
    return (type * DEGREES + degree) * SIZES + size;
}

static int fill_weights(struct making *m, struct weights *ret_weights)
{
    const struct ah_cluster *cluster = m->request->cluster;
    size_t n_blocks = m->settings.items[0].problem.n_blocks, cells = cluster->n_gpus * DEGREES * SIZES;
    struct weights w = {.n_blocks = n_blocks};
    w.least_us = ah_arena_array(m->arena, cells * n_blocks, sizeof *w.least_us);
    w.below = ah_arena_array(m->arena, cells, sizeof *w.below);
    if (!w.least_us || !w.below)
        return ah_error_memory(m->err);
    for (size_t i = 0; i < cells * n_blocks; i++)
        w.least_us[i] = INFINITY;
    for (size_t i = 0; i < cells; i++) {
        size_t at = m->symmetric[i / SIZES % DEGREES][i % SIZES];
        w.below[i] = 0;
        if (at)
            w.below[i] = weigh_type(&m->settings.items[at - 1].problem,
                                    cluster->gpus[i / (DEGREES * SIZES)].name, w.least_us + i * n_blocks);
    }
    *ret_weights = w;
    return AH_OK;
}

/* (1). */
static double bound_us(const struct making *m, const struct weights *w, const struct combination *c)
{
    double below = 0, above = 0;
    for (size_t i = 0; i < m->request->cluster->n_gpus; i++)
        below += w->below[weights_at(i, degree_of(c->degrees, i), c->size)];
    for (size_t b = 0; b < w->n_blocks; b++) {
        double least = INFINITY;
        for (size_t i = 0; i < m->request->cluster->n_gpus; i++)
            least =
                fmin(least, w->least_us[weights_at(i, degree_of(c->degrees, i), c->size) * w->n_blocks + b]);
        above += least;
    }
    return (double)micro_batches_of(m->request, c->size) * above / below * (1 - 1e-12);
}

static int by_bound(const void *a, const void *b)
{
    const struct combination *p = a, *q = b;
    if (p->bound_us < q->bound_us || p->bound_us > q->bound_us)
        return p->bound_us < q->bound_us ? -1 : 1;
    if (p->degrees != q->degrees)
        return p->degrees < q->degrees ? -1 : 1;
    return (p->size > q->size) - (p->size < q->size);
}

static bool is_symmetric(uint32_t degrees, size_t types)
{
    for (size_t i = 1; i < types; i++)
        if (degree_of(degrees, i) != degree_of(degrees, 0))
            return false;
    return true;
}

/* Lists all combinations with their bounds. Returns their number. */
static size_t combine(const struct making *m, const struct weights *w, struct combination *items)
{
    size_t types = m->request->cluster->n_gpus, bits = types < TYPES_MOST ? types : TYPES_MOST, n = 0;
    for (uint32_t degrees = 0; degrees < UINT32_C(1) << 2 * bits; degrees++)
        for (uint32_t size = 0; size < SIZES; size++) {
            struct combination c = {degrees, size, 0};
            if (is_symmetric(degrees, types) || !micro_batches_of(m->request, size) ||
                !usable(m->request, degrees))
                continue;
            c.bound_us = bound_us(m, w, &c);
            items[n++] = c;
        }
    return n;
}

static int add_asymmetric(struct making *m)
{
    size_t types = m->request->cluster->n_gpus, bits = types < TYPES_MOST ? types : TYPES_MOST;
    struct weights weights = {0};
    struct combination *items = malloc((SIZES * sizeof *items) << 2 * bits);
    int rc = items ? fill_weights(m, &weights) : ah_error_memory(m->err);
    size_t n = rc ? 0 : combine(m, &weights, items);
    if (n)
        qsort(items, n, sizeof *items, by_bound);
    for (size_t i = 0; i < n && i < ASYM_MOST && !rc; i++)
        rc = add_setting(m, items[i].degrees, items[i].size);
    if (n > ASYM_MOST) {
        m->settings.left_out = n - ASYM_MOST;
        m->settings.left_out_bound_us = items[ASYM_MOST].bound_us;
    }
    free(items);
    return rc;
}

bool ah_setting_is_symmetric(const struct ah_cluster_request *request, const struct ah_setting *setting)
{
    for (size_t i = 1; i < request->cluster->n_gpus; i++)
        if (setting->tp[i] != setting->tp[0])
            return false;
    return true;
}

bool ah_setting_has_hosts(const struct ah_setting *setting)
{
    for (size_t k = 0; k < setting->problem.n_kinds; k++)
        if (setting->problem.kinds[k].n_hosts)
            return true;
    return false;
}

/* Adds each setting with hosts a second time, now using hosts. Only for `optimal`: other systems use none. */
static void add_away(struct making *m)
{
    for (size_t i = 0, n = m->settings.n; i < n; i++) {
        struct ah_setting *setting = &m->settings.items[i], *away = &m->settings.items[m->settings.n];
        if (!ah_setting_has_hosts(setting) || m->request->policy != AH_CLUSTER_POLICY_OPTIMAL)
            continue;
        *away = *setting;
        away->away = setting->away_as_well = true;
        away->index = m->settings.n++;
        away->problem.update_limit_us = INFINITY;
    }
}

int ah_settings_make(const struct ah_cluster_request *request, struct ah_arena *arena,
                     struct ah_settings *ret_settings, struct ah_error *err)
{
    struct making m = {.request = request, .arena = arena, .err = err};
    m.settings.items = ah_arena_array(arena, 4 * (SYMMETRIC_MOST + ASYM_MOST), sizeof *m.settings.items);
    m.settings.left_out_bound_us = INFINITY;
    int rc = m.settings.items ? add_symmetric(&m) : ah_error_memory(err);
    bool each = request->tp_mode == AH_TP_ASYMMETRIC && request->policy == AH_CLUSTER_POLICY_OPTIMAL;
    if (!rc && !m.settings.n && request->tp)
        return ah_error_set(err, AH_E_USAGE,
                            "'--tp' %" PRIu64 ": no node of cluster '%s' has that many GPUs, or '%s' cannot "
                            "be split over that many",
                            request->tp, request->cluster->name, request->model->name);
    if (!rc && !m.settings.n)
        return ah_error_set(err, AH_E_USAGE,
                            "no node of cluster '%s' has a number of GPUs over which '%s' can be split",
                            request->cluster->name, request->model->name);
    if (!rc && each)
        rc = add_asymmetric(&m);
    if (!rc)
        add_away(&m);
    *ret_settings = m.settings;
    return rc;
}
