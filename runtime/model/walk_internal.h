/* SPDX-License-Identifier: Apache-2.0
 *
 * Walk: the one order in which weights are loaded, saved and initialised: block by block, tensor by tensor, part by
 * part, band by band. A band is as many whole rows of a part as its limit allows, or part of one row that exceeds it. A
 * band is handed out in pieces. For a transposed part, whose rows are columns in the file, bands are larger, and files
 * are read and written AH_WALK_LINES lines at a time. The part of a line in a band takes one system call, and both
 * sides of the transposition use whole cache lines.
 */
#ifndef AH_RUNTIME_MODEL_WALK_INTERNAL_H
#define AH_RUNTIME_MODEL_WALK_INTERNAL_H

#include "runtime/model/weight_names.h"
#include "runtime/model/weights.h"

enum {
    AH_WALK_LINES = 16,
    AH_WALK_ROWS_MAX = AH_WEIGHTS_PIECE_MAX / AH_WALK_LINES, /* of a transposed band: its lines fit a piece */
    AH_WALK_ROWS_MIN = 128,                  /* of a transposed band, if AH_WALK_BAND_MAX allows */
    AH_WALK_BAND = 4 * AH_WEIGHTS_PIECE_MAX, /* elements of a transposed band, if that gives enough rows */
    AH_WALK_BAND_MAX = 64 * AH_WEIGHTS_PIECE_MAX,
};

struct ah_walk_step {
    const struct ah_names_part *part; /* borrowed until the visit returns */
    size_t ordinal;                   /* the part's number among all parts of the model */
    uint64_t row, rows;               /* the band, in the part */
    uint64_t col, cols;
    struct ah_weights_piece
        band; /* rows x cols elements; a transposed part's may exceed AH_WEIGHTS_PIECE_MAX */
};

/* Returns the piece of the band that begins at the band's element `at`. */
struct ah_weights_piece ah_walk_piece(const struct ah_walk_step *step, uint64_t at);

/* Visits every band; stops at the first visit that does not return AH_OK, and returns that. */
int ah_walk_bands(const struct ah_model *model, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

/* Visits every part once, with an empty band. */
int ah_walk_parts(const struct ah_model *model, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

#endif
