/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocation hook: makes the n-th allocation of a piece of code fail, for every n.
 *
 *     static int parse(void *context, struct ah_error *err) { ... return rc; }
 *     fault_sweep(parse, &input);   // fails each allocation once; the code must return an error, or succeed
 *                                   // despite the failure, and leak nothing (AddressSanitizer checks)
 */
#ifndef AH_TESTS_SUPPORT_FAULT_H
#define AH_TESTS_SUPPORT_FAULT_H

#include "base/error.h"

#include <stddef.h>

/* Calls `run` while allocation 1, 2, 3, ... fails, until a call makes fewer allocations. If an allocation failed, `run`
 * must not return AH_OK unless `may_succeed`. Returns the number of allocations. */
size_t fault_sweep(int (*run)(void *context, struct ah_error *err), void *context, int may_succeed);

/* Returns the number of allocations since the previous fault_count(), to check that a loop allocates nothing. */
size_t fault_count(void);

#endif
