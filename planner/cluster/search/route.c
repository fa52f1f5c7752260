/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece [i, j] of the order is reversed (2-opt), or moves between two other units (Or-opt). In both cases, only the
 * three links at its ends and its new place change. If all links are equal, nothing moves: the order stays as given.
 */
#include "planner/cluster/search/route.h"

struct route {
    const struct ah_cluster_problem *problem;
    size_t *classes;
    size_t n;
};

/* Returns the time of two sends between two units, one in each direction. */
static double pair_us(const struct ah_cluster_problem *problem, size_t a, size_t b)
{
    return ah_problem_send_us(problem, a, b) + ah_problem_send_us(problem, b, a);
}

/* Returns the time of the sends between places `i` and `j`; 0 if either is -1 or n, outside the order. */
static double link_us(const struct route *r, size_t i, size_t j)
{
    return i < r->n && j < r->n ? pair_us(r->problem, r->classes[i], r->classes[j]) : 0;
}

double ah_route_us(const struct ah_cluster_problem *problem, const size_t *classes, size_t n)
{
    double us = 0;
    for (size_t i = 0; i + 1 < n; i++)
        us += pair_us(problem, classes[i], classes[i + 1]);
    return us;
}

static void reverse_part(struct route *r, size_t i, size_t j)
{
    for (; i < j; i++, j--) {
        size_t class = r->classes[i];
        r->classes[i] = r->classes[j];
        r->classes[j] = class;
    }
}

/* True if a piece may begin at `i`: two different classes meet there, or the order begins or ends. */
static bool is_seam(const struct route *r, size_t i)
{
    return i == 0 || i == r->n || r->classes[i - 1] != r->classes[i];
}

static bool is_less(double now_us, double before_us)
{
    return now_us < before_us - 1e-9 * (before_us + 1);
}

static bool try_turn(struct route *r, size_t i, size_t j)
{
    double before_us = link_us(r, i - 1, i) + link_us(r, j, j + 1);
    double now_us = link_us(r, i - 1, j) + link_us(r, i, j + 1);
    if (!is_less(now_us, before_us))
        return false;
    reverse_part(r, i, j);
    return true;
}

/* Moves the piece [i, j] behind a later place `k`, reversed if that is better. False: neither saves time. */
static bool try_move(struct route *r, size_t i, size_t j, size_t k)
{
    double before_us = link_us(r, i - 1, i) + link_us(r, j, j + 1) + link_us(r, k, k + 1);
    double between_us = link_us(r, i - 1, j + 1);
    bool straight = is_less(between_us + link_us(r, k, i) + link_us(r, j, k + 1), before_us);
    if (!straight && !is_less(between_us + link_us(r, k, j) + link_us(r, i, k + 1), before_us))
        return false;
    size_t length = j - i + 1;
    reverse_part(r, i, k);
    reverse_part(r, i, k - length);
    if (straight)
        reverse_part(r, k - length + 1, k);
    return true;
}

static bool sweep(struct route *r)
{
    bool changed = false;
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = i; j < r->n && is_seam(r, i); j++) {
            if (!is_seam(r, j + 1))
                continue;
            if (try_turn(r, i, j)) {
                changed = true;
                continue;
            }
            for (size_t k = j + 1; k < r->n; k++)
                if (is_seam(r, k + 1) && try_move(r, i, j, k)) {
                    changed = true;
                    break;
                }
        }
    return changed;
}

bool ah_route_improve(const struct ah_cluster_problem *problem, size_t *classes, size_t n)
{
    struct route route = {problem, classes, n};
    bool changed = false;
    while (sweep(&route))
        changed = true;
    return changed;
}
