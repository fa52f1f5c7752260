/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearest: what a mistyped word was meant to be, for fields of documents and words of the command line.
 */
#ifndef AH_SCHEMAS_NEAREST_H
#define AH_SCHEMAS_NEAREST_H

#include <stddef.h>

/* The candidate that a mistyped word most likely meant: the one with the fewest edits (insert, delete,
 * change, swap of neighbours), at most a third of its length and at least one; NULL when none is near. */
const char *ah_nearest(const char *word, const char *const *candidates, size_t n);

#endif
