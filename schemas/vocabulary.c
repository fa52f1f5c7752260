/* SPDX-License-Identifier: Apache-2.0
 *
 * The spellings of the enums in vocabulary.h.
 */
#include "schemas/vocabulary.h"

#define WORD(value, word) [value] = word,
const char *const ah_words_tied[] = {AH_TIED_WORDS(WORD) NULL};
const char *const ah_words_dtype[] = {AH_DTYPE_WORDS(WORD) NULL};
const char *const ah_words_matmul_form[] = {AH_MATMUL_FORM_WORDS(WORD) NULL};
const char *const ah_words_direction[] = {AH_DIRECTION_WORDS(WORD) NULL};
const char *const ah_words_side[] = {AH_SIDE_WORDS(WORD) NULL};
const char *const ah_words_device_kind[] = {AH_DEVICE_KIND_WORDS(WORD) NULL};
const char *const ah_words_memory_pattern[] = {AH_MEMORY_PATTERN_WORDS(WORD) NULL};
const char *const ah_words_part[] = {AH_PART_WORDS(WORD) NULL};
const char *const ah_words_activations[] = {AH_ACTIVATIONS_WORDS(WORD) NULL};
const char *const ah_words_weights[] = {AH_WEIGHTS_WORDS(WORD) NULL};
const char *const ah_words_optimizer[] = {AH_OPTIMIZER_WORDS(WORD) NULL};
