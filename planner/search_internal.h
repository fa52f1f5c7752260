/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the search share: the mover, and what it does.
 */
#ifndef AH_PLANNER_SEARCH_INTERNAL_H
#define AH_PLANNER_SEARCH_INTERNAL_H

#include "planner/search.h"

/* The fields of a config. */
enum { FIELD_ACTIVATIONS, FIELD_WEIGHTS, FIELD_OPTIMIZER, FIELD_ACCUMULATOR, FIELDS };

struct mover {
    const struct ah_search *search;
    struct ah_trial *trial;
    const struct ah_job *job;
    size_t n;
    struct ah_config *base;  /* what moves start from */
    struct ah_config *moved; /* scratch */
    struct ah_config *both;  /* scratch of a second move */
    struct ah_knobs knobs;
    bool spent;
    bool pairs; /* moves that do not fit are tried with a second one */
    struct ah_error *err;
};

/* ---- moves.c ---- */

/* Tries configs with the mover's knobs. */
int ah_mover_try(struct mover *m, const struct ah_config *configs, enum ah_verdict *verdict);
void ah_mover_copy(const struct mover *m, struct ah_config *to, const struct ah_config *from);

/* The best choice's knobs, with a ring of states though it may have none streamed. */
void ah_mover_take_knobs(struct mover *m);

/* The configs that a block may have. Returns how many. */
size_t ah_mover_options(const struct mover *m, size_t block, struct ah_config ret_options[AH_CONFIGS_MAX]);

/* Improves the best by moves until none helps. */
int ah_mover_climb(struct mover *m);

/* ---- starts.c: the first choices ---- */

int ah_mover_start(struct mover *m);

/* ---- shake.c: out of a valley, or all assignments ---- */

int ah_mover_shake(struct mover *m);
bool ah_mover_can_try_all(const struct mover *m);
int ah_mover_try_all(struct mover *m);

#endif
