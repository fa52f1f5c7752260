/* SPDX-License-Identifier: Apache-2.0
 *
 * Angles: the table of rotary positions for rope ops: (cos, sin) for each position and pair, in fp32, rounded once from
 * double. Frequencies are theta^(-2 pair / head_dim), scaled as the model says.
 */
#ifndef AH_RUNTIME_TRAIN_ANGLES_H
#define AH_RUNTIME_TRAIN_ANGLES_H

#include "schemas/model.h"

#include <stdint.h>

/* Fills rows `first` to `first` + `rows` - 1, each with head_dim numbers. The model's positions must be rotary. */
void ah_angles_fill(const struct ah_model *model, uint64_t first, uint64_t rows, float *ret_table);

#endif
