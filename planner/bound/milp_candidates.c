/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates: whole counts near the optimum of the relaxation. They prove nothing; the best of them are tried first.
 *
 *   1. A relaxed solution is rounded, and the counts DESCEND. In each step one block gets another config: the one that
 *      most lowers the excess over the limits, then the largest time row. Sums are whole and checked at each step.
 *   2. The counts of the integer program after a few nodes descend, too.
 *   3. Step 1 is repeated without one of the configs in the best counts, first without those that most blocks have.
 */
#include "planner/bound/milp_solve_internal.h"

#include <math.h>
#include <string.h>

enum { NODES = 40, EXCLUSIONS = 3, STEPS_MOST = 200 };

struct finding {
    const struct ah_milp *milp;
    const struct ah_milp_choice *choice; /* the caller's */
    struct ah_milp_best *best;
    struct ah_arena *arena;
    double *values;   /* by active column, and the objective */
    uint32_t *counts; /* by column */
    int64_t *sums;    /* by row */
    size_t *active;
    bool *done; /* by column */
};

/* ---- the list of the best ---- */

int ah_milp_best_init(struct ah_milp_best *ret_best, const struct ah_milp *milp, size_t most,
                      struct ah_arena *arena, struct ah_error *err)
{
    *ret_best = (struct ah_milp_best){.most = most, .limit = INT64_MAX};
    for (size_t i = 0; i < most; i++) {
        ret_best->counts[i] =
            ah_arena_array(arena, milp->n_classes * AH_CONFIGS_MAX, sizeof **ret_best->counts);
        if (!ret_best->counts[i])
            return ah_error_memory(err);
    }
    return AH_OK;
}

/* True if item i has these counts. The counts of a config's two columns are added up. */
static bool same_counts(const struct ah_milp_best *best, size_t i, const struct ah_milp *milp,
                        const uint32_t *counts)
{
    for (size_t j = 0; j < milp->n_columns; j++) {
        const struct ah_milp_column *column = &milp->columns[j];
        bool pair = j + 1 < milp->n_columns && milp->columns[j + 1].kept && !column->kept;
        uint32_t count = counts[j] + (pair ? counts[j + 1] : 0);
        if (!column->kept && best->counts[i][column->of_class * AH_CONFIGS_MAX + column->config] != count)
            return false;
    }
    return true;
}

static void best_remove(struct ah_milp_best *best, size_t i)
{
    uint32_t *counts = best->counts[i];
    best->n--;
    memmove(best->counts + i, best->counts + i + 1, (best->n - i) * sizeof *best->counts);
    memmove(best->objective + i, best->objective + i + 1, (best->n - i) * sizeof *best->objective);
    best->counts[best->n] = counts;
}

static void best_insert(struct ah_milp_best *best, const struct ah_milp *milp, const uint32_t *counts,
                        int64_t objective)
{
    size_t at = best->n;
    uint32_t *free_counts = best->counts[best->n];
    while (at && best->objective[at - 1] > objective) {
        best->objective[at] = best->objective[at - 1];
        best->counts[at] = best->counts[at - 1];
        at--;
    }
    memset(free_counts, 0, milp->n_classes * AH_CONFIGS_MAX * sizeof *free_counts);
    for (size_t j = 0; j < milp->n_columns; j++)
        free_counts[milp->columns[j].of_class * AH_CONFIGS_MAX + milp->columns[j].config] += counts[j];
    best->objective[at] = objective;
    best->counts[at] = free_counts;
    best->n++;
}

void ah_milp_best_offer(struct ah_milp_best *best, const struct ah_milp *milp, const uint32_t *counts,
                        int64_t objective)
{
    for (size_t i = 0; i < best->n; i++) {
        if (!same_counts(best, i, milp, counts))
            continue;
        if (best->objective[i] <= objective)
            return;
        best_remove(best, i);
        break;
    }
    if (best->n == best->most) {
        if (objective >= best->objective[best->n - 1])
            return;
        best->n--;
    }
    best_insert(best, milp, counts, objective);
    best->limit = best->n == best->most ? best->objective[best->n - 1] : INT64_MAX;
}

/* ---- rounding ---- */

/* Returns the active column of the class whose count is the furthest below its relaxed value. */
static size_t lacking(const struct finding *f, const struct ah_milp_choice *choice, size_t class)
{
    size_t most = SIZE_MAX;
    double missing = -INFINITY;
    for (size_t a = 0; a < choice->n_active; a++) {
        double lacks = f->values[a] - f->counts[choice->active[a]];
        if (f->milp->columns[choice->active[a]].of_class == class && lacks > missing) {
            missing = lacks;
            most = choice->active[a];
        }
    }
    return most;
}

/* Rounds values down to counts. The blocks left over in a class go to the columns that lost most by rounding. */
static void round_values(struct finding *f, const struct ah_milp_choice *choice)
{
    const struct ah_milp *milp = f->milp;
    memset(f->counts, 0, milp->n_columns * sizeof *f->counts);
    for (size_t k = 0; k < milp->n_classes; k++) {
        uint32_t left = milp->classes[k].blocks;
        for (size_t a = 0; a < choice->n_active; a++) {
            if (milp->columns[choice->active[a]].of_class != k)
                continue;
            double whole = floor(f->values[a] + 1e-6);
            uint32_t count = whole > 0 ? (uint32_t)whole : 0;
            f->counts[choice->active[a]] = count < left ? count : left;
            left -= f->counts[choice->active[a]];
        }
        for (; left; left--)
            f->counts[lacking(f, choice, k)]++;
    }
}

/* ---- descending ---- */

struct height {
    double passed; /* sum over rows of their excess, relative to their limits */
    int64_t time;  /* the largest time row */
    double all;    /* sum of the time rows; may fall while the largest row stays the same */
};

static bool is_lower(const struct height *a, const struct height *b)
{
    if (a->passed < b->passed || a->passed > b->passed)
        return a->passed < b->passed;
    return a->time != b->time ? a->time < b->time : a->all < b->all;
}

/* Returns the height after one block moves from column `from` to column `to`. Equal columns give the present height. */
static struct height height_after(const struct finding *f, size_t from, size_t to)
{
    struct height height = {0};
    for (size_t i = 0; i < f->milp->n_rows; i++) {
        const int64_t *row = ah_milp_coefficients(f->milp, i);
        int64_t sum = f->sums[i] - row[from] + row[to];
        if (f->milp->rows[i].kind == AH_MILP_TIME) {
            height.time = sum > height.time ? sum : height.time;
            height.all += (double)sum;
        } else if (sum > f->choice->limits[i])
            height.passed += (double)(sum - f->choice->limits[i]) / (1.0 + (double)f->choice->limits[i]);
    }
    return height;
}

static bool descend_once(struct finding *f, const struct ah_milp_choice *choice, struct height *height)
{
    size_t best_from = SIZE_MAX, best_to = 0;
    for (size_t a = 0; a < choice->n_active; a++) {
        size_t from = choice->active[a];
        for (size_t b = 0; f->counts[from] && b < choice->n_active; b++) {
            size_t to = choice->active[b];
            if (to == from || f->milp->columns[to].of_class != f->milp->columns[from].of_class)
                continue;
            struct height next = height_after(f, from, to);
            if (!is_lower(&next, height))
                continue;
            *height = next;
            best_from = from;
            best_to = to;
        }
    }
    if (best_from == SIZE_MAX)
        return false;
    f->counts[best_from]--;
    f->counts[best_to]++;
    for (size_t i = 0; i < f->milp->n_rows; i++) {
        const int64_t *row = ah_milp_coefficients(f->milp, i);
        f->sums[i] += row[best_to] - row[best_from];
    }
    return true;
}

/* Improves the counts step by step, and offers the result if it keeps every limit. */
static void descend_and_offer(struct finding *f, const struct ah_milp_choice *choice)
{
    for (size_t i = 0; i < f->milp->n_rows; i++) {
        f->sums[i] = 0;
        for (size_t j = 0; j < f->milp->n_columns; j++)
            f->sums[i] += f->counts[j] * ah_milp_coefficients(f->milp, i)[j];
    }
    struct height height = height_after(f, choice->active[0], choice->active[0]);
    for (int step = 0; step < STEPS_MOST && descend_once(f, choice, &height); step++)
        ;
    if (height.passed <= 0)
        ah_milp_best_offer(f->best, f->milp, f->counts, height.time);
}

/* ---- other starts ---- */

/* True if both columns belong to the same config of one class. */
static bool same_config(const struct ah_milp *milp, size_t a, size_t b)
{
    return milp->columns[a].of_class == milp->columns[b].of_class &&
           milp->columns[a].config == milp->columns[b].config;
}

/* Copies the choice without one config. Returns false if no config would be left in its class. */
static bool exclude(const struct finding *f, size_t column, struct ah_milp_choice *ret_choice)
{
    size_t of_class = 0;
    *ret_choice = *f->choice;
    ret_choice->active = f->active;
    ret_choice->n_active = 0;
    for (size_t a = 0; a < f->choice->n_active; a++) {
        size_t j = f->choice->active[a];
        if (same_config(f->milp, j, column))
            continue;
        f->active[ret_choice->n_active++] = j;
        of_class += f->milp->columns[j].of_class == f->milp->columns[column].of_class;
    }
    return of_class > 0;
}

/* Returns the active column, not yet done, whose config has the most blocks in `counts`; SIZE_MAX: there is none. */
static size_t next_used(const struct finding *f, const uint32_t *counts)
{
    size_t next = SIZE_MAX;
    uint32_t most = 0;
    for (size_t a = 0; a < f->choice->n_active; a++) {
        size_t j = f->choice->active[a];
        const struct ah_milp_column *column = &f->milp->columns[j];
        uint32_t count = counts[column->of_class * AH_CONFIGS_MAX + column->config];
        if (!f->done[j] && count > most) {
            most = count;
            next = j;
        }
    }
    return next;
}

static int exclude_used(struct finding *f, struct ah_error *err)
{
    size_t cells = f->milp->n_classes * AH_CONFIGS_MAX;
    uint32_t *first = ah_arena_array(f->arena, cells, sizeof *first);
    if (!first)
        return ah_error_memory(err);
    memcpy(first, f->best->counts[0], cells * sizeof *first);
    for (int i = 0; i < EXCLUSIONS; i++) {
        struct ah_milp_choice choice;
        double objective;
        size_t column = next_used(f, first);
        if (column == SIZE_MAX)
            break;
        for (size_t j = 0; j < f->milp->n_columns; j++)
            f->done[j] |= same_config(f->milp, j, column);
        if (!exclude(f, column, &choice))
            continue;
        int rc = ah_milp_relax(f->milp, &choice, f->arena, &objective, f->values, NULL, err);
        if (rc)
            return rc;
        if (isinf(objective))
            continue;
        round_values(f, &choice);
        descend_and_offer(f, &choice);
    }
    return AH_OK;
}

int ah_milp_candidates(const struct ah_milp *milp, const struct ah_milp_choice *choice, const double *values,
                       struct ah_arena *arena, struct ah_milp_best *best, struct ah_error *err)
{
    struct finding f = {.milp = milp, .choice = choice, .best = best, .arena = arena};
    bool found = false;
    f.values = ah_arena_array(arena, milp->n_columns + 1, sizeof *f.values);
    f.counts = ah_arena_array(arena, milp->n_columns, sizeof *f.counts);
    f.sums = ah_arena_array(arena, milp->n_rows, sizeof *f.sums);
    f.active = ah_arena_array(arena, milp->n_columns, sizeof *f.active);
    f.done = ah_arena_array(arena, milp->n_columns, sizeof *f.done);
    if (!f.values || !f.counts || !f.sums || !f.active || !f.done)
        return ah_error_memory(err);
    memcpy(f.values, values, (choice->n_active + 1) * sizeof *values);
    round_values(&f, choice);
    descend_and_offer(&f, choice);
    int rc = ah_milp_round(milp, choice, NODES, arena, &found, f.values, err);
    if (rc)
        return rc;
    if (found) {
        round_values(&f, choice);
        descend_and_offer(&f, choice);
    }
    return best->n ? exclude_used(&f, err) : AH_OK;
}
