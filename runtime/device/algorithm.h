/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts matrix product algorithms between documents (schemas/algorithms.h) and devices (struct ah_device_algorithm).
 */
#ifndef AH_RUNTIME_DEVICE_ALGORITHM_H
#define AH_RUNTIME_DEVICE_ALGORITHM_H

#include "base/arena.h"
#include "runtime/device/device.h"
#include "schemas/algorithms.h"

/* Sets `ret_entry` to the table entry of `op`, except for its `words`, which stay zero. Returns false if tables have no
 * entry for such an op: it is not a matrix product, has gelu fused, or its bias and c differ in type. */
bool ah_device_algorithm_entry(const struct ah_op *op, struct ah_algorithm *ret_entry);

/* Returns the matrix product that an entry describes, with all operands at offset 0. */
struct ah_op ah_device_algorithm_op(const struct ah_algorithm *entry);

/* Prints the words of a device's algorithm as hex digits, the form in which documents store them. */
void ah_device_algorithm_print(const uint64_t words[AH_ALGORITHM_WORDS],
                               char ret_text[AH_ALGORITHM_DIGITS + 1]);

/* Sets the library and the table of algorithms in `options`, the table in `arena`. NULL: no change. AH_E_MEMORY. */
int ah_device_algorithm_table(const struct ah_algorithms *algorithms, struct ah_arena *arena,
                              struct ah_device_options *options, struct ah_error *err);

#endif
