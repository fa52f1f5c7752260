/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearest: guesses what a mistyped word was meant to be, for fields of documents and words of the command line.
 */
#ifndef AH_SCHEMAS_NEAREST_H
#define AH_SCHEMAS_NEAREST_H

#include <stddef.h>

/* Returns the candidate with the fewest edits from `word` (insert, delete, change, swap of neighbours), at most a third
 * of the candidate's length, or one edit. NULL: none is near enough. */
const char *ah_nearest(const char *word, const char *const *candidates, size_t n);

#endif
