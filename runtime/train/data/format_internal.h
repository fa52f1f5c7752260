/* SPDX-License-Identifier: Apache-2.0
 *
 * Format: finds the format of a data file from its first bytes, its size and its name, in this order. A file that fits
 * no format, or fits two, is refused. The message says what it looks like and what to do.
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
    uint64_t align;        /* length of the sequences to which examples are aligned; 0: they are not */
    bool only_text;        /* text is only assumed, so no byte may be 0 */
    bool by_values;        /* the width is the only one whose values fit the vocabulary */
};

/* Finds the format of a file or, unless options->format is AH_DATASET_AUTO, checks that the file has that format.
 * AH_E_DOCUMENT; errors of ah_source_read(). */
int ah_format_find(struct ah_format *ret_format, struct ah_file_sources *sources, struct ah_source *source,
                   const struct ah_dataset_options *options, struct ah_error *err);

/* True if the first bytes of a file look like UTF-16, like text, or like int64 tokens. */
bool ah_format_is_utf16(const void *bytes, size_t size);
bool ah_format_is_text(const void *bytes, size_t size);
bool ah_format_is_int64(const void *bytes, size_t size);

/* True if `path` ends in `ending`. Upper and lower case count as equal. */
bool ah_format_ends(const char *path, const char *ending);

#endif
