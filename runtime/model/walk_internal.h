/* SPDX-License-Identifier: Apache-2.0
 *
 * Walk: the one order in which weights are loaded, saved and initialised: block by block, tensor by tensor, part by
 * part, band by band. A band is as many whole rows of a part as fit a piece, or a stretch of one row that does not.
 */
#ifndef AH_RUNTIME_MODEL_WALK_INTERNAL_H
#define AH_RUNTIME_MODEL_WALK_INTERNAL_H

#include "runtime/model/names.h"
#include "runtime/model/weights.h"

struct ah_walk_step {
    const struct ah_names_part *part; /* borrowed until the visit returns */
    size_t ordinal;                   /* of the part among all of the model */
    uint64_t row, rows;               /* the band, in the part */
    uint64_t col, cols;
    struct ah_weights_piece piece; /* rows x cols elements */
};

/* Visits every band; stops at the first visit that does not return AH_OK, and returns that. */
int ah_walk_bands(const struct ah_model *model, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

/* Visits every part once, with the rest of the step as for a band of nothing. */
int ah_walk_parts(const struct ah_model *model, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

#endif
