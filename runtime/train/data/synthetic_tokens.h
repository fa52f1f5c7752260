/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic tokens: a data set of random tokens in a temporary file, for measurements whose loss does not matter.
 *
 *     struct ah_synthetic_tokens_options options = {.vocabulary = 256, .tokens = 4096};
 *     struct ah_synthetic_tokens tokens;
 *     rc = ah_synthetic_tokens_init(&tokens, &options, err);    // tokens.paths[0] is a file of tokens.format
 *     ah_synthetic_tokens_release(&tokens);                     // deletes the file
 */
#ifndef AH_RUNTIME_TRAIN_DATA_SYNTHETIC_TOKENS_H
#define AH_RUNTIME_TRAIN_DATA_SYNTHETIC_TOKENS_H

#include "base/error.h"
#include "runtime/train/data/dataset.h"

#include <limits.h>
#include <stdint.h>

struct ah_synthetic_tokens_options {
    uint64_t vocabulary; /* at most 2^32; tokens are below it */
    uint64_t tokens;
    uint64_t seed;
};

struct ah_synthetic_tokens {
    const char *paths[1]; /* `path`, as the array of paths that ah_dataset_open() takes */
    enum ah_dataset_format format;
    char path[PATH_MAX]; /* "": no file */
};

/* Writes the file in $TMPDIR or else /tmp. AH_E_IO names the file. `ret_tokens` must not move until release. */
int ah_synthetic_tokens_init(struct ah_synthetic_tokens *ret_tokens,
                             const struct ah_synthetic_tokens_options *options, struct ah_error *err);

/* Deletes the file. A zeroed struct is fine. */
void ah_synthetic_tokens_release(struct ah_synthetic_tokens *tokens);

#endif
