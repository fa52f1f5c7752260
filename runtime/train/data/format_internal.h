/* SPDX-License-Identifier: Apache-2.0
 *
 * Format: finds out what a data file holds, from its first bytes, its size and its name, in this order. A file that is
 * none of the kinds, or could be two, is refused with a message that says what it looks like and what to do.
 */
#ifndef AH_RUNTIME_TRAIN_DATA_FORMAT_INTERNAL_H
#define AH_RUNTIME_TRAIN_DATA_FORMAT_INTERNAL_H

#include "base/error.h"
#include "runtime/train/data/dataset.h"
#include "runtime/train/data/source_internal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_format {
    enum ah_dataset_format format; /* not AH_DATASET_AUTO */
    unsigned token_bytes;
    uint64_t offset_bytes; /* of the first token */
    uint64_t tokens;       /* at least 1 */
    uint64_t align;        /* examples are aligned to sequences of this many tokens; 0: they are not */
    bool only_text;        /* the bytes are tokens by guess, so none of them may be 0 */
    bool by_values;        /* the width is the only one that fits the vocabulary */
};

/* Finds the format. If options->format is not AH_DATASET_AUTO, only checks that the file has it. AH_E_DOCUMENT; errors
 * of ah_source_read(). */
int ah_format_find(struct ah_format *ret_format, struct ah_file_sources *sources, struct ah_source *source,
                   const struct ah_dataset_options *options, struct ah_error *err);

/* True if the first bytes of a file look like UTF-16, text, or int64 tokens. */
bool ah_format_is_utf16(const void *bytes, size_t size);
bool ah_format_is_text(const void *bytes, size_t size);
bool ah_format_is_int64(const void *bytes, size_t size);

/* True if `path` ends in `ending`, in upper or lower case. */
bool ah_format_ends(const char *path, const char *ending);

#endif
