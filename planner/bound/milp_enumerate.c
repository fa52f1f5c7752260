/* SPDX-License-Identifier: Apache-2.0
 *
 * Enumeration: tries every vector of counts, if there are few. Sums are whole numbers and grow with every count. So a
 * branch ends when it exceeds a limit, or can no longer be among the best.
 */
#include "planner/bound/milp_solve_internal.h"

#include <string.h>

struct walk {
    const struct ah_milp *milp;
    const struct ah_milp_choice *choice;
    struct ah_milp_best *best;
    size_t n_rows;
    int64_t *sums;    /* (n_active + 1, n_rows): sums of the rows over the columns before each column */
    uint32_t *counts; /* by column of the milp */
};

uint64_t ah_milp_vectors(const struct ah_milp *milp, uint64_t most)
{
    double vectors = 1;
    for (size_t k = 0; k < milp->n_classes && vectors <= (double)most; k++) {
        double blocks = milp->classes[k].blocks;
        for (size_t j = 1; j < milp->classes[k].n_columns; j++)
            vectors *= (blocks + (double)j) / (double)j;
    }
    return vectors < (double)most ? (uint64_t)(vectors + 0.5) : most;
}

/* Gives a column `count` blocks. False: a limit is exceeded, or the objective is no better than the list's limit. */
static bool add_column(const struct walk *w, size_t active, uint32_t count)
{
    size_t column = w->choice->active[active];
    const int64_t *from = w->sums + active * w->n_rows;
    int64_t *to = w->sums + (active + 1) * w->n_rows;
    for (size_t i = 0; i < w->n_rows; i++) {
        to[i] = from[i] + count * ah_milp_coefficients(w->milp, i)[column];
        bool objective = w->milp->rows[i].kind == w->choice->objective;
        if (to[i] > (objective ? w->best->limit - 1 : w->choice->limits[i]))
            return false;
    }
    w->counts[column] = count;
    return true;
}

static int64_t objective(const struct walk *w, size_t active)
{
    int64_t most = 0;
    for (size_t i = 0; i < w->n_rows; i++)
        if (w->milp->rows[i].kind == w->choice->objective && w->sums[active * w->n_rows + i] > most)
            most = w->sums[active * w->n_rows + i];
    return most;
}

static void enumerate_counts(const struct walk *w, size_t active, uint32_t left)
{
    const struct ah_milp_choice *choice = w->choice;
    if (active == choice->n_active) {
        ah_milp_best_offer(w->best, w->milp, w->counts, objective(w, active));
        return;
    }
    uint32_t class = w->milp->columns[choice->active[active]].of_class;
    bool last =
        active + 1 == choice->n_active || w->milp->columns[choice->active[active + 1]].of_class != class;
    uint32_t next = last && active + 1 < choice->n_active
                        ? w->milp->classes[w->milp->columns[choice->active[active + 1]].of_class].blocks
                        : 0;
    for (uint32_t count = last ? left : 0; count <= left; count++) {
        if (!add_column(w, active, count))
            break;
        enumerate_counts(w, active + 1, last ? next : left - count);
    }
    w->counts[choice->active[active]] = 0;
}

int ah_milp_enumerate(const struct ah_milp *milp, const struct ah_milp_choice *choice, struct ah_arena *arena,
                      struct ah_milp_best *best, struct ah_error *err)
{
    struct walk w = {.milp = milp, .choice = choice, .best = best, .n_rows = milp->n_rows};
    w.sums = ah_arena_array(arena, (choice->n_active + 1) * milp->n_rows, sizeof *w.sums);
    w.counts = ah_arena_array(arena, milp->n_columns, sizeof *w.counts);
    if (!w.sums || !w.counts)
        return ah_error_memory(err);
    enumerate_counts(&w, 0, milp->classes[milp->columns[choice->active[0]].of_class].blocks);
    return AH_OK;
}
