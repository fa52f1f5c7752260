/* SPDX-License-Identifier: Apache-2.0
 *
 * Restriction: techniques that a plan must not use. Comparisons use it to show the worth of a technique and to plan as
 * a system without it.
 *
 *     struct ah_restriction restriction;
 *     rc = ah_restriction_init(&restriction, &job, 1u << AH_TECHNIQUE_STREAMED, &arena, err);
 *     limits.restriction = &restriction;      // of an evaluator (evaluator.h): it tries no forbidden choice
 *
 * A block without a choice is never restricted: embedding and head keep their activations, and frozen blocks have no
 * optimizer. Orders are always restricted: ah_restriction_knobs() replaces the knobs requested by a caller.
 */
#ifndef AH_PLANNER_POLICIES_RESTRICTION_H
#define AH_PLANNER_POLICIES_RESTRICTION_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/schedule/schedule.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns the technique named by the first `length` characters of `name`; AH_TECHNIQUES: none. */
enum ah_technique ah_restriction_technique(const char *name, size_t length);

/* Returns a bit for each technique in a list of enum ah_technique. */
uint32_t ah_restriction_bits(const unsigned *techniques, size_t n);

/* Lists the techniques of `bits` in `arena`, ascending; NULL: there are none. AH_E_MEMORY. */
int ah_restriction_list(uint32_t bits, struct ah_arena *arena, unsigned **ret_techniques, size_t *ret_n,
                        struct ah_error *err);

/* What a restriction allows. A zeroed struct restricts nothing. */
struct ah_restriction {
    const uint32_t *allowed; /* by block: bit i allows the i-th of ah_configs(); in the arena; NULL: all */
    bool updates_after_backward, step_ends;
    bool whole_vectors;
};

/* Fills a restriction; bit i of `without` forbids technique i. AH_E_USAGE: a block would have no config left. */
int ah_restriction_init(struct ah_restriction *ret_restriction, const struct ah_job *job, uint32_t without,
                        struct ah_arena *arena, struct ah_error *err);

/* True if every block's config is allowed. `configs`: one entry of ah_configs() for each block. */
bool ah_restriction_allows(const struct ah_restriction *restriction, const struct ah_job *job,
                           const struct ah_config *configs);

/* Returns `knobs`, changed as far as the restriction requires. */
struct ah_knobs ah_restriction_knobs(const struct ah_restriction *restriction, const struct ah_job *job,
                                     const struct ah_knobs *knobs);

#endif
