/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizer: gives the text of tokens, from a Hugging Face tokenizer.json, to show tokens to people. autohete-tokenize
 * turns text into tokens.
 *
 * A token's text is the bytes of its piece. In a byte-level vocabulary, each letter of the piece encodes a byte. In
 * other vocabularies the piece is the text itself, except that "\xe2\x96\x81" (U+2581) means a blank and "<0x0A>" the
 * byte 0x0A. The joined texts are the original text, except for a blank that a tokenizer put before the first word.
 *
 *     struct ah_tokenizer tokenizer;
 *     rc = ah_tokenizer_load(&tokenizer, "llama-2-7b", err);
 *     const char *text = ah_tokenizer_text(&tokenizer, id);
 *     ah_tokenizer_release(&tokenizer);
 */
#ifndef AH_RUNTIME_MODEL_TOKENIZER_H
#define AH_RUNTIME_MODEL_TOKENIZER_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct ah_tokenizer {
    struct ah_arena arena;
    const char **texts; /* (n), in the arena; NULL: no token has this id */
    uint64_t n;
};

/* Loads a tokenizer.json; `path` is the file or its folder. AH_E_IO: it cannot be read; AH_E_DOCUMENT: it has no
 * vocabulary, or ids of 2^22 or more; AH_E_MEMORY. `ret_tokenizer` is released after a failure. */
int ah_tokenizer_load(struct ah_tokenizer *ret_tokenizer, const char *path, struct ah_error *err);

/* Returns the text of a token; NULL if no token has that id. Borrowed until release. */
const char *ah_tokenizer_text(const struct ah_tokenizer *tokenizer, uint64_t id);

void ah_tokenizer_release(struct ah_tokenizer *tokenizer);

#endif
