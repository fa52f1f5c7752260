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

/* First the techniques that restrict configs, then those that restrict orders. */
#define AH_TECHNIQUE_WORDS(X)                                                                                \
    X(KEEP, "keep")                                                                                          \
    X(SELECTIVE, "selective")                                                                                \
    X(RECOMPUTE, "recompute")                                                                                \
    X(DEVICE_WEIGHTS, "device-weights")                                                                      \
    X(HOST_WEIGHTS, "host-weights")                                                                          \
    X(DEVICE_OPTIMIZER, "device-optimizer")                                                                  \
    X(HOST_OPTIMIZER, "host-optimizer")                                                                      \
    X(STREAMED, "streamed")                                                                                  \
    X(BACKWARD_OVERLAP, "backward-overlap")   /* host and streamed updates during backward */                \
    X(ITERATION_OVERLAP, "iteration-overlap") /* work of an iteration during the next */                     \
    X(TILES, "tiles")                         /* without it, whole vectors are sent and updated */

enum ah_technique {
#define AH_TECHNIQUE_NAME(name, word) AH_TECHNIQUE_##name,
    AH_TECHNIQUE_WORDS(AH_TECHNIQUE_NAME)
#undef AH_TECHNIQUE_NAME
        AH_TECHNIQUES
};

extern const char *const ah_words_technique[];

/* Returns the technique named by the first `length` characters of `name`; AH_TECHNIQUES: none. */
enum ah_technique ah_restriction_technique(const char *name, size_t length);

/* Returns a bit for each technique named in a plan's annotation "without". Skips unknown words. */
uint32_t ah_restriction_read(const struct ah_text_pair *annotations, size_t n);

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
