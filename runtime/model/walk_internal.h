/* SPDX-License-Identifier: Apache-2.0
 *
 * Walk: the one order in which weights are loaded, saved and initialised: block by block, tensor by tensor, part by
 * part, band by band. A band is as many whole rows of a part as fit its limit, or a stretch of one row that does not;
 * it is handed out in pieces. Where rows of ours are columns of a file, bands are larger and files are read and
 * written in AH_WALK_LINES lines at a time: the stretch of a line that belongs to a band is one call of the system, and
 * both sides of the transposition go through whole cache lines.
 */
#ifndef AH_RUNTIME_MODEL_WALK_INTERNAL_H
#define AH_RUNTIME_MODEL_WALK_INTERNAL_H

#include "runtime/model/names.h"
#include "runtime/model/weights.h"

enum {
    AH_WALK_LINES = 16,
    AH_WALK_ROWS_MAX = AH_WEIGHTS_PIECE_MAX / AH_WALK_LINES, /* of a transposed band: its lines fit a piece */
    AH_WALK_ROWS_MIN = 128,                  /* of such a band, as far as AH_WALK_BAND_MAX goes */
    AH_WALK_BAND = 4 * AH_WEIGHTS_PIECE_MAX, /* elements of a transposed one, where its rows are enough */
    AH_WALK_BAND_MAX = 64 * AH_WEIGHTS_PIECE_MAX,
};

struct ah_walk_step {
    const struct ah_names_part *part; /* borrowed until the visit returns */
    size_t ordinal;                   /* of the part among all of the model */
    uint64_t row, rows;               /* the band, in the part */
    uint64_t col, cols;
    struct ah_weights_piece band; /* rows x cols elements, of a transposed part more than a piece may have */
};

/* The piece of the band that begins at its element `at`. */
struct ah_weights_piece ah_walk_piece(const struct ah_walk_step *step, uint64_t at);

/* Visits every band; stops at the first visit that does not return AH_OK, and returns that. */
int ah_walk_bands(const struct ah_model *model, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

/* Visits every part once, with the rest of the step as for a band of nothing. */
int ah_walk_parts(const struct ah_model *model, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

#endif
