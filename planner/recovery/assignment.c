/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs are the negative weights. After each row, u(i) + v(j) <= cost(i, j), with equality if row i has column j. Also
 * v(j) <= 0, and v(j) = 0 if no row has column j. So the sum of all u and v is a lower bound for every assignment, and
 * equals the cost of ours. Rows and columns are counted from 1. Row 0 means none; column 0 has the row being placed.
 */
#include "planner/recovery/assignment.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct matching {
    const double *weights;
    size_t rows, columns;
    double *u, *v, *slack;
    size_t *row_of, *from;
    bool *seen;
};

/* Marks column `at` as seen and updates the potentials. Returns the unseen column with the least slack. */
static size_t see_column(struct matching *m, size_t at)
{
    size_t row = m->row_of[at], next = 0;
    double least = INFINITY;
    m->seen[at] = true;
    for (size_t j = 1; j <= m->columns; j++) {
        if (m->seen[j])
            continue;
        double slack = -m->weights[(row - 1) * m->columns + j - 1] - m->u[row] - m->v[j];
        if (slack < m->slack[j]) {
            m->slack[j] = slack;
            m->from[j] = at;
        }
        if (m->slack[j] < least) {
            least = m->slack[j];
            next = j;
        }
    }
    for (size_t j = 0; j <= m->columns; j++) {
        if (m->seen[j]) {
            m->u[m->row_of[j]] += least;
            m->v[j] -= least;
        } else {
            m->slack[j] -= least;
        }
    }
    return next;
}

static void match_row(struct matching *m, size_t row)
{
    size_t at = 0;
    m->row_of[0] = row;
    memset(m->seen, 0, (m->columns + 1) * sizeof *m->seen);
    for (size_t j = 0; j <= m->columns; j++)
        m->slack[j] = INFINITY;
    do
        at = see_column(m, at);
    while (m->row_of[at]);
    for (; at; at = m->from[at])
        m->row_of[at] = m->row_of[m->from[at]];
}

int ah_assignment_solve(const double *weights, size_t rows, size_t columns, size_t *ret_column,
                        double *ret_sum, struct ah_error *err)
{
    struct matching m = {.weights = weights, .rows = rows, .columns = columns};
    double sum = 0;
    int rc = AH_OK;
    m.u = calloc(rows + 1, sizeof *m.u);
    m.v = calloc(columns + 1, sizeof *m.v);
    m.slack = calloc(columns + 1, sizeof *m.slack);
    m.row_of = calloc(columns + 1, sizeof *m.row_of);
    m.from = calloc(columns + 1, sizeof *m.from);
    m.seen = calloc(columns + 1, sizeof *m.seen);
    if (!m.u || !m.v || !m.slack || !m.row_of || !m.from || !m.seen) {
        rc = ah_error_memory(err);
        goto out;
    }
    for (size_t row = 1; row <= rows; row++)
        match_row(&m, row);
    for (size_t j = 1; j <= columns; j++)
        if (m.row_of[j]) {
            ret_column[m.row_of[j] - 1] = j - 1;
            sum += weights[(m.row_of[j] - 1) * columns + j - 1];
        }
    *ret_sum = sum;
out:
    free(m.u);
    free(m.v);
    free(m.slack);
    free(m.row_of);
    free(m.from);
    free(m.seen);
    return rc;
}
