/* SPDX-License-Identifier: Apache-2.0
 *
 * Algorithms of matrix products, between documents (schemas/algorithms.h) and devices (struct ah_device_algorithm).
 */
#ifndef AH_RUNTIME_DEVICE_ALGORITHM_H
#define AH_RUNTIME_DEVICE_ALGORITHM_H

#include "base/arena.h"
#include "runtime/device/device.h"
#include "schemas/algorithms.h"

/* The entry for a product, without words. False for an op that tables do not have: no product, one with gelu, one whose
 * bias has another type than c. */
bool ah_device_algorithm_entry(const struct ah_op *op, struct ah_algorithm *ret_entry);

/* What an entry is of: a product whose operands all lie at 0. */
struct ah_op ah_device_algorithm_op(const struct ah_algorithm *entry);

/* A device's words as a document has them. */
void ah_device_algorithm_print(const uint64_t words[AH_ALGORITHM_WORDS],
                               char ret_text[AH_ALGORITHM_DIGITS + 1]);

/* The table for a device's options, in arena; NULL algorithms: none. AH_E_MEMORY. */
int ah_device_algorithm_table(const struct ah_algorithms *algorithms, struct ah_arena *arena,
                              struct ah_device_options *options, struct ah_error *err);

#endif
