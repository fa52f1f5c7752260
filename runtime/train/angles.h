/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles: the table of rotary positions for rope ops: (cos, sin) for each position and pair, in fp32, rounded once from
 * double. Frequencies are theta^(-2 pair / d), scaled as the model says; d elements of a head turn. The other pairs
 * of a row are zero and not used. If layers with a window have their own rotary positions, theirs are a second table
 * right after the first.
 */
#ifndef AH_RUNTIME_TRAIN_ANGLES_H
#define AH_RUNTIME_TRAIN_ANGLES_H

#include "schemas/model.h"

#include <stdint.h>

/* Returns the number of rows of all tables of a model for sequences of `seq` tokens; 0 without rotary positions. */
uint64_t ah_angles_rows(const struct ah_model *model, uint64_t seq);

/* Fills rows `first` to `first` + `rows` - 1, each with head_dim numbers. */
void ah_angles_fill(const struct ah_model *model, uint64_t seq, uint64_t first, uint64_t rows,
                    float *ret_table);

#endif
