/* SPDX-License-Identifier: Apache-2.0
 *
 * Walk: the common order for loading, saving and initialising weights: block by block, tensor by tensor, part by part,
 * band by band. A band has as many whole rows of a part as its limit allows, or a piece of one row that exceeds the
 * limit. A band is handed out in pieces. The rows of a transposed part are columns in the file. Its bands are larger,
 * and files are read and written AH_WALK_LINES lines at a time. Each line of a band takes one system call, and both
 * sides of the transposition use whole cache lines.
 */
#ifndef AH_RUNTIME_MODEL_WALK_INTERNAL_H
#define AH_RUNTIME_MODEL_WALK_INTERNAL_H

#include "runtime/model/weight_names.h"
#include "runtime/model/weights.h"

enum {
    AH_WALK_LINES = 16,
    /* most rows of a transposed band: AH_WALK_LINES lines fit a piece */
    AH_WALK_ROWS_MAX = AH_WEIGHTS_PIECE_MAX / AH_WALK_LINES,
    AH_WALK_ROWS_MIN = 128,                  /* least rows of a transposed band, if AH_WALK_BAND_MAX allows */
    AH_WALK_BAND = 4 * AH_WEIGHTS_PIECE_MAX, /* most elements of a transposed band, if its rows suffice */
    AH_WALK_BAND_MAX = 64 * AH_WEIGHTS_PIECE_MAX,
};

/* What to visit: tensors of the model (`base`), parts of adapters (`adapters`), or both. If `trained` is given (a mask
 * for each block), only trained ones, with their names in files of adapters. `copies_table`: then a trained table is
 * visited a second time, under the head's name, if a tied head uses it, too. */
struct ah_walk {
    const struct ah_model *model;
    bool base, adapters;
    const uint32_t *trained;
    bool copies_table;
};

/* Returns the walk over the files that a sink or the options of a save name. */
static inline struct ah_walk ah_walk_files(const struct ah_model *model, const uint32_t *adapter_of)
{
    return (struct ah_walk){
        .model = model, .base = true, .adapters = adapter_of != NULL, .trained = adapter_of};
}

struct ah_walk_step {
    const struct ah_names_part *part; /* borrowed until the visit returns */
    size_t ordinal;                   /* number of the part among all that are visited */
    uint64_t row, rows;               /* range of the band within the part: rows, then columns */
    uint64_t col, cols;
    /* rows x cols elements; may exceed AH_WEIGHTS_PIECE_MAX if the part is transposed */
    struct ah_weights_piece band;
};

/* Returns the piece that begins at element `at` of the band. */
struct ah_weights_piece ah_walk_piece(const struct ah_walk_step *step, uint64_t at);

/* Visits every band. Stops at the first visit whose result is not AH_OK, and returns that result. */
int ah_walk_bands(const struct ah_walk *walk, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

/* Visits every part once, with an empty band, like ah_walk_bands(). */
int ah_walk_parts(const struct ah_walk *walk, int (*visit)(void *context, const struct ah_walk_step *step),
                  void *context);

#endif
