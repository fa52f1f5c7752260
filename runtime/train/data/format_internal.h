/* SPDX-License-Identifier: Apache-2.0
 *
 * Format: what a data file holds, by its first bytes, its size and its name, in this order. What is none of the kinds
 * is refused by saying what it looks like.
 */
#ifndef AH_RUNTIME_TRAIN_DATA_FORMAT_INTERNAL_H
#define AH_RUNTIME_TRAIN_DATA_FORMAT_INTERNAL_H

#include "base/error.h"
#include "runtime/train/data/dataset.h"
#include "runtime/train/data/source_internal.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_format {
    enum ah_dataset_format format; /* not AH_DATASET_AUTO */
    unsigned token_bytes;
    uint64_t offset_bytes; /* of the first token */
    uint64_t tokens;       /* at least 1 */
    bool only_text;        /* bytes by no more than the lack of a better name: none of them may be 0 */
};

/* `wanted` other than AH_DATASET_AUTO is taken as it is, and only checked. AH_E_DOCUMENT; the errors of
 * ah_source_read(). */
int ah_format_find(struct ah_format *ret_format, struct ah_sources *sources, struct ah_source *source,
                   enum ah_dataset_format wanted, struct ah_error *err);

/* `path` ends in `ending`, in upper or lower case. */
bool ah_format_ends(const char *path, const char *ending);

#endif
