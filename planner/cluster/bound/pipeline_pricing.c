/* SPDX-License-Identifier: Apache-2.0
 *
 * Let s(i) = f + g + q be forward, backward and sends of stage i for one micro-batch. A(i) is the sum of s over the
 * stages before i, R(i) over those behind i, and n = min(m, P - i). Stage i begins when the first micro-batch has come
 * through the stages before it, and its last gradient must still pass their backwards. So a pipeline takes
 *
 *     T  >=  A(i) + m s(i) + what i waits in between                                                           (1)
 *
 * Each micro-batch spends R(i) in the stages behind, between its forward and its backward at stage i. Meanwhile stage i
 * does n - 1 other forwards for the first micro-batch, and n - 1 other backwards for the last one. If f and g include
 * the send that follows, the stage waits at least
 *
 *     max(0, R(i) - (n - 1) f)  and  max(0, R(i) - (n - 1) g)                                                  (2)
 *
 * It waits for the sum of both if m > n, because the last forward then comes after the first backward; otherwise for
 * the longer of the two. If blocks may be away, only a lower bound of f + g is known. This bound may be used in (1) if
 * the waits are the following, because m (f + g) grows faster than they fall:
 *
 *     max(0, 2 R(i) - (n - 1) (f + g))                                                                         (3)
 *
 * SUMS. With several pipelines, no gradient of stage i is added up before its last backward starts, at E(i) >= forwards
 * before i + m s(i) + waits - g. Then its segments come one after another; that of its first block must also wait for
 * the end of that backward:
 *
 *     T  >=  E(i) + sum over its bytes of their time,   T >= E(i) + g + the same of its first block            (4)
 *
 * The owners of a block are all inside one node, or the ring leaves the node of each of them. If it does, all bytes of
 * a pipeline's stages on one kind pass the NICs of its nodes, the first at E of the last of these stages:
 *
 *     T  >=  E(last of kind k) + bytes on kind k x time of a byte through all NICs of kind k                   (5)
 *
 * All this holds even if others use the network.
 *
 * SEARCH. Pipelines are built backwards from the last stage, because a stage's memory depends on the number of stages
 * behind it. A LABEL describes j stages that hold block x and all later blocks. It has their price, R, the ends by (5),
 * and the SLACK: the most that s of all stages before may add up to, by (1) of its stages. Labels are compared by
 * these. If there are too many, two are merged into one that is as good as both (6); this can only make a pipeline look
 * cheaper. The least cost of the blocks before x (time on the fastest kind; price of stages that just keep the pace)
 * drops labels early.
 */
#include "planner/cluster/bound/pipeline_pricing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABELS_MAX = 256,
    ALIKE_MOST = 8,  /* largest number of labels of one place */
    ALIKE_FEW = 4,   /* as ALIKE_MOST, with more than MANY_UNITS units */
    ALIKE_WHOLE = 6, /* as ALIKE_MOST, if all sets of units are wanted */
    MANY_UNITS = 32,
    ARRAYS = 4
};

#define ROUNDED (1 - 1e-12)

static inline double smaller(double a, double b)
{
    return a < b ? a : b;
}

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Special values of `ends_us`: the kind has no stages so far; rule (5) can no longer exclude the label. */
#define NO_STAGE 0.0
#define NO_RISK  (-1.0)

struct ah_pipeline_pricing_label {
    double price, behind_us, slack_us;
    double ends_us[AH_PIPELINE_PRICING_KINDS];
    size_t place; /* index in `found`, or which needed kinds it has; only labels of one place are compared */
    uint8_t units[AH_PIPELINE_PRICING_KINDS];
};

/* ---- kinds and blocks ---- */

static void look_at_links(const struct ah_cluster_problem *problem, size_t a,
                          struct ah_pipeline_pricing_kind *kind)
{
    for (size_t b = 0; b < problem->n_classes; b++) {
        const double us = 1e6 / problem->links[a * problem->n_classes + b].bytes_per_s;
        const double tp =
            fmin((double)ah_problem_kind_of(problem, a)->tp, (double)ah_problem_kind_of(problem, b)->tp);
        if (problem->classes[b].units < (a == b ? 2 : 1))
            continue;
        kind->send_us =
            fmin(kind->send_us, fmin(ah_problem_send_us(problem, a, b), ah_problem_send_us(problem, b, a)));
        if (problem->classes[a].node == problem->classes[b].node)
            kind->inside_us = fmin(kind->inside_us, us / tp);
        else
            kind->between_us = fmin(kind->between_us, us);
    }
}

static void look_at_kind(const struct ah_cluster_problem *problem, size_t k,
                         struct ah_pipeline_pricing_kind *kind)
{
    double nic_bytes_per_s = 0, nodes = 0;
    *kind =
        (struct ah_pipeline_pricing_kind){.send_us = INFINITY, .inside_us = INFINITY, .between_us = INFINITY};
    for (size_t c = 0; c < problem->n_classes; c++) {
        const struct ah_problem_class *class = &problem->classes[c];
        if (class->kind != k || !class->units)
            continue;
        kind->units += class->units;
        kind->class = c;
        kind->units_of_node = class->units > kind->units_of_node ? class->units : kind->units_of_node;
        nic_bytes_per_s = fmax(nic_bytes_per_s, class->nic_bytes_per_s);
        nodes++;
        look_at_links(problem, c, kind);
    }
    kind->may_be_away = ah_problem_has_host(problem, k);
    kind->nics_us = fmin(1e6 / nic_bytes_per_s, kind->between_us) / fmax(nodes, 1);
}

static void add_up_blocks(struct ah_pipeline_pricing *c)
{
    const struct ah_cluster_problem *in = c->problem;
    for (size_t b = 0; b < in->n_blocks; b++) {
        double least = INFINITY, least_forward = INFINITY;
        for (size_t k = 0; k < c->n_kinds; k++) {
            const struct ah_problem_block *block = &in->kinds[k].blocks[b];
            double *forward = c->forward_us + k * (in->n_blocks + 1);
            forward[b + 1] = forward[b] + block->forward_us;
            if (!c->kinds[k].units)
                continue;
            least = fmin(least, block->forward_us + block->backward_us[AH_ACTIVATIONS_KEEP]);
            least_forward = fmin(least_forward, block->forward_us);
        }
        c->path_us[b + 1] = c->path_us[b] + least;
        c->path_forward_us[b + 1] = c->path_forward_us[b] + least_forward;
        c->gradient_bytes[b + 1] = c->gradient_bytes[b] + (double)in->gradient_bytes[b];
    }
}

int ah_pipeline_pricing_init(struct ah_pipeline_pricing *ret_pricing,
                             const struct ah_cluster_problem *problem, struct ah_error *err)
{
    size_t n = problem->n_blocks + 1, units = ah_problem_units(problem);
    struct ah_pipeline_pricing c = {.problem = problem,
                                    .n_kinds = problem->n_kinds,
                                    .alike = units > MANY_UNITS ? ALIKE_FEW : ALIKE_MOST,
                                    .most_stages = units < problem->n_blocks ? units : problem->n_blocks};
    int rc = ah_fits_init(&c.fits, problem, err);
    if (rc)
        return rc;
    c.numbers = calloc((problem->n_kinds + ARRAYS) * n, sizeof *c.numbers);
    c.labels = malloc(2 * n * LABELS_MAX * sizeof *c.labels);
    c.n_labels = calloc(2 * n, sizeof *c.n_labels);
    if (!c.numbers || !c.labels || !c.n_labels) {
        ah_pipeline_pricing_release(&c);
        return ah_error_memory(err);
    }
    c.path_us = c.numbers;
    c.path_forward_us = c.path_us + n;
    c.gradient_bytes = c.path_forward_us + n;
    c.least = c.gradient_bytes + n;
    c.forward_us = c.least + n;
    for (size_t k = 0; k < c.n_kinds; k++)
        look_at_kind(problem, k, &c.kinds[k]);
    add_up_blocks(&c);
    *ret_pricing = c;
    return AH_OK;
}

void ah_pipeline_pricing_release(struct ah_pipeline_pricing *pricing)
{
    if (!pricing)
        return;
    ah_fits_release(&pricing->fits);
    free(pricing->numbers);
    free(pricing->labels);
    free(pricing->n_labels);
    *pricing = (struct ah_pipeline_pricing){0};
}

/* ---- labels ---- */

static bool has_stage(const struct ah_pipeline_pricing_label *label, size_t kind)
{
    return label->ends_us[kind] < NO_STAGE || label->ends_us[kind] > NO_STAGE;
}

static bool dominates(size_t n_kinds, const struct ah_pipeline_pricing_label *a,
                      const struct ah_pipeline_pricing_label *b)
{
    if (a->place != b->place || a->price > b->price || a->behind_us > b->behind_us ||
        a->slack_us < b->slack_us)
        return false;
    for (size_t k = 0; k < n_kinds; k++)
        if (a->ends_us[k] > b->ends_us[k] || (!has_stage(a, k) && has_stage(b, k)))
            return false;
    return true;
}

/* Changes `label` so that it is as good as both labels (6). */
static void merge(size_t n_kinds, struct ah_pipeline_pricing_label *label,
                  const struct ah_pipeline_pricing_label *other)
{
    if (other->price < label->price) {
        label->price = other->price;
        memcpy(label->units, other->units, sizeof label->units);
    }
    label->behind_us = smaller(label->behind_us, other->behind_us);
    label->slack_us = larger(label->slack_us, other->slack_us);
    for (size_t k = 0; k < n_kinds; k++)
        label->ends_us[k] = has_stage(label, k) == has_stage(other, k)
                                ? smaller(label->ends_us[k], other->ends_us[k])
                                : NO_RISK;
}

/* Returns a measure of the difference between two labels, relative to the limits of the query. */
static double distance(const struct ah_pipeline_pricing_query *query,
                       const struct ah_pipeline_pricing_label *a, const struct ah_pipeline_pricing_label *b)
{
    double us = fabs(a->behind_us - b->behind_us) +
                fabs(smaller(a->slack_us, query->within_us) - smaller(b->slack_us, query->within_us));
    return us / query->within_us + fabs(a->price - b->price) / larger(query->below, 1);
}

struct pricing {
    struct ah_pipeline_pricing *c;
    const struct ah_pipeline_pricing_query *query;
    struct ah_pipeline_price *found;
    uint64_t in_flight; /* n of the stage to add */
    size_t j;           /* number of stages with the one to add */
};

static void insert(struct pricing *p, size_t first, const struct ah_pipeline_pricing_label *label)
{
    struct ah_pipeline_pricing *c = p->c;
    const size_t at = (p->j & 1) * (c->problem->n_blocks + 1) + first, count = c->n_labels[at];
    struct ah_pipeline_pricing_label *labels = c->labels + at * LABELS_MAX;
    size_t kept = 0, alike = 0, nearest = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        if (dominates(c->n_kinds, &labels[i], label))
            return;
    for (size_t i = 0; i < count; i++) {
        if (dominates(c->n_kinds, label, &labels[i]))
            continue;
        if (kept < i)
            labels[kept] = labels[i];
        if (labels[kept].place == label->place) {
            alike++;
            if (nearest == SIZE_MAX ||
                distance(p->query, label, &labels[kept]) < distance(p->query, label, &labels[nearest]))
                nearest = kept;
        }
        kept++;
    }
    if (kept < LABELS_MAX && alike < (p->query->found ? ALIKE_WHOLE : c->alike))
        labels[kept++] = *label;
    else if (nearest != SIZE_MAX)
        merge(c->n_kinds, &labels[nearest], label);
    else
        c->overflow = true;
    c->n_labels[at] = kept;
}

/* ---- stages ---- */

/* A stage to add in front of others. */
struct step {
    size_t kind, first, end;
    double forward_us, backward_us; /* each with the send that follows */
};

/* Returns the total wait of the stage by (2) or, if its blocks may be away, by (3). */
static double waits_us(const struct pricing *p, const struct step *s, double behind_us)
{
    const double others = (double)(p->in_flight - 1);
    const bool outlasts = p->query->micro_batches > p->in_flight;
    double first_us = larger(0, behind_us - others * s->forward_us);
    double last_us = larger(0, behind_us - others * s->backward_us);
    if (p->c->kinds[s->kind].may_be_away)
        return outlasts ? larger(0, 2 * behind_us - others * (s->forward_us + s->backward_us)) : 0;
    return outlasts ? first_us + last_us : larger(first_us, last_us);
}

/* True if gradients can be added up in time by (4) and (5). `busy_us`: m s(i) and the waits. */
static bool adds_up(const struct pricing *p, const struct step *s, double busy_us,
                    struct ah_pipeline_pricing_label *label)
{
    const struct ah_pipeline_pricing *c = p->c;
    const struct ah_pipeline_pricing_kind *kind = &c->kinds[s->kind];
    const struct ah_pipeline_pricing_sums *sums = &p->query->sums;
    const bool together = sums->together >> s->kind & 1;
    const double *bytes = c->gradient_bytes;
    double last_us = c->path_forward_us[s->first] + busy_us - s->backward_us; /* E */
    double byte_us =
        sums->volume * (together ? smaller(kind->inside_us, kind->between_us) : kind->between_us);
    double all_us = bytes[s->end] > bytes[s->first] ? (bytes[s->end] - bytes[s->first]) * byte_us : 0;
    double one_us =
        bytes[s->first + 1] > bytes[s->first] ? (bytes[s->first + 1] - bytes[s->first]) * byte_us : 0;
    double *end_us = &label->ends_us[s->kind];
    if (last_us + all_us > p->query->within_us ||
        last_us + (kind->may_be_away ? 0 : s->backward_us) + one_us > p->query->within_us)
        return false;
    if (together || *end_us < 0)
        return true;
    byte_us = sums->volume * kind->nics_us;
    *end_us = (has_stage(label, s->kind) ? *end_us : last_us) + (bytes[s->end] - bytes[s->first]) * byte_us;
    if (*end_us > p->query->within_us)
        return false;
    if (*end_us + bytes[s->first] * byte_us <= p->query->within_us)
        *end_us = NO_RISK;
    return true;
}

static bool is_whole(const struct pricing *p, const struct ah_pipeline_pricing_label *label)
{
    for (size_t k = 0; k < p->c->n_kinds; k++)
        if (p->query->sums.needed >> k & 1 && !label->units[k])
            return false;
    return true;
}

static void offer_label(const struct pricing *p, const struct ah_pipeline_pricing_label *label)
{
    if (!is_whole(p, label))
        return;
    if (p->query->found)
        p->query->found[label->place] = p->query->micro_batches;
    if (label->price < p->found->price) {
        p->found->price = label->price;
        memcpy(p->found->units, label->units, sizeof label->units);
    }
}

static void prepend_stage(struct pricing *p, const struct ah_pipeline_pricing_label *from,
                          const struct step *s)
{
    const struct ah_pipeline_pricing *c = p->c;
    const struct ah_pipeline_pricing_query *query = p->query;
    const double limit = query->found ? query->below : smaller(query->below, p->found->price);
    if (from->price + query->prices[s->kind] + c->least[s->first] >= limit)
        return;
    const double stage_us = s->forward_us + s->backward_us;
    const double busy_us = (double)query->micro_batches * stage_us + waits_us(p, s, from->behind_us);
    const double slack_us = smaller(from->slack_us - stage_us, query->within_us - busy_us); /* (1) */
    if (slack_us < c->path_us[s->first] * ROUNDED)
        return;
    struct ah_pipeline_pricing_label next = *from;
    next.price += query->prices[s->kind];
    next.behind_us += stage_us;
    next.slack_us = slack_us;
    if (query->sums.volume > 0 && !adds_up(p, s, busy_us, &next))
        return;
    if (query->found && next.units[s->kind] == c->kinds[s->kind].units)
        return;
    next.units[s->kind]++;
    next.place = query->found ? next.place + query->radix[s->kind]
                              : next.place | (query->sums.needed & UINT32_C(1) << s->kind);
    if (s->first)
        insert(p, s->first, &next);
    else
        offer_label(p, &next);
}

/* Adds every stage with this `end` in front of the labels there. */
static void prepend_all(struct pricing *p, size_t end, double pace_us)
{
    struct ah_pipeline_pricing *c = p->c;
    const size_t at = ((p->j - 1) & 1) * (c->problem->n_blocks + 1) + end;
    for (size_t k = 0; k < c->n_kinds && c->n_labels[at]; k++) {
        const double *forward = c->forward_us + k * (c->problem->n_blocks + 1);
        const double down_us = p->j > 1 ? c->kinds[k].send_us : 0;
        for (size_t first = end; first-- > 0 && c->kinds[k].units;) {
            const struct ah_fits_unit unit = {c->kinds[k].class, 1, p->in_flight};
            double us = ah_fits_us(&c->fits, &unit, first, end);
            double forward_us = forward[end] - forward[first];
            const struct step s = {k, first, end, forward_us + down_us,
                                   us - forward_us + (first ? c->kinds[k].send_us : 0)};
            c->steps++;
            if (us > pace_us)
                break;
            c->steps += c->n_labels[at];
            for (size_t l = 0; l < c->n_labels[at]; l++)
                prepend_stage(p, &c->labels[at * LABELS_MAX + l], &s);
        }
    }
    c->n_labels[at] = 0;
}

/* For each x, finds the least price of units for the first x blocks if a unit needs only to keep the pace. */
static void find_least(struct ah_pipeline_pricing *c, const struct ah_pipeline_pricing_query *query,
                       double pace_us)
{
    c->least[0] = 0;
    for (size_t x = 1; x <= c->problem->n_blocks; x++) {
        c->least[x] = INFINITY;
        for (size_t k = 0; k < c->n_kinds; k++)
            for (size_t y = x; y-- > 0 && c->kinds[k].units;) {
                c->steps++;
                const struct ah_fits_unit unit = {c->kinds[k].class, 1, 1};
                if (ah_fits_us(&c->fits, &unit, y, x) > pace_us)
                    break;
                c->least[x] = smaller(c->least[x], c->least[y] + query->prices[k]);
            }
    }
}

void ah_pipeline_pricing_cheapest(struct ah_pipeline_pricing *pricing,
                                  const struct ah_pipeline_pricing_query *query,
                                  struct ah_pipeline_price *ret_price)
{
    struct ah_pipeline_pricing *c = pricing;
    const size_t n = c->problem->n_blocks;
    const double pace_us = query->within_us / (double)query->micro_batches;
    struct pricing p = {.c = c, .query = query, .found = ret_price};
    *ret_price = (struct ah_pipeline_price){.price = INFINITY};
    c->overflow = false;
    find_least(c, query, pace_us);
    if (c->least[n] + query->base >= query->below)
        return;
    memset(c->n_labels, 0, 2 * (n + 1) * sizeof *c->n_labels);
    c->labels[n * LABELS_MAX] =
        (struct ah_pipeline_pricing_label){.price = query->base, .slack_us = INFINITY};
    c->n_labels[n] = 1;
    for (p.j = 1; p.j <= c->most_stages; p.j++) {
        p.in_flight = query->micro_batches < p.j ? query->micro_batches : p.j;
        for (size_t end = n; end > 0; end--)
            prepend_all(&p, end, pace_us);
    }
}
