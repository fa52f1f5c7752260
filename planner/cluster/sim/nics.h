/* SPDX-License-Identifier: Apache-2.0
 *
 * NICs: the times until which each node's ways out and in are busy. A transfer between nodes occupies a way at each
 * end, for its bytes at that end's rate. A way carries one transfer at a time.
 */
#ifndef AH_PLANNER_CLUSTER_SIM_NICS_H
#define AH_PLANNER_CLUSTER_SIM_NICS_H

#include "base/error.h"

#include <stddef.h>
#include <stdlib.h>

struct ah_nics {
    double *out_us, *in_us; /* owned: (nodes) */
};

/* AH_E_MEMORY. */
static inline int ah_nics_init(struct ah_nics *ret_nics, size_t nodes, struct ah_error *err)
{
    double *us = calloc(2 * nodes + 1, sizeof *us);
    if (!us)
        return ah_error_memory(err);
    *ret_nics = (struct ah_nics){us, us + nodes};
    return AH_OK;
}

static inline void ah_nics_release(struct ah_nics *nics)
{
    free(nics->out_us);
    *nics = (struct ah_nics){0};
}

/* Returns the time at which the way out of `from` and the way into `to` are both free. */
static inline double ah_nics_free_us(const struct ah_nics *nics, size_t from, size_t to)
{
    return nics->out_us[from] > nics->in_us[to] ? nics->out_us[from] : nics->in_us[to];
}

static inline double ah_nics_pass_us(double bytes, double bytes_per_s)
{
    return 1e6 * bytes / bytes_per_s;
}

/* Occupies the way out of `from` until `left_us`, and the way into `to` until `entered_us`. */
static inline void ah_nics_take(struct ah_nics *nics, size_t from, double left_us, size_t to,
                                double entered_us)
{
    nics->out_us[from] = left_us;
    nics->in_us[to] = entered_us;
}

#endif
