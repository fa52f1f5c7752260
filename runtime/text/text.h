/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizer: turns text into tokens, as a model's tokenizer.json says.
 *
 *     rc = ah_text_tokenizer_open(&tokenizer, "llama-3-8b", err);              // a folder, or the file
 *     rc = ah_text_encode(tokenizer, text, size, &ids, err);                   // appends; no special tokens are added
 *     ah_text_ids_release(&ids);
 *     ah_text_tokenizer_close(tokenizer);
 *
 * The ids are those of huggingface/tokenizers for encode(text, add_special_tokens = False). Supported is byte-pair
 * encoding as the families of config.h use it: on bytes (GPT-2, Llama 3, Qwen) and on characters with bytes as a last
 * resort (Llama 2, Mistral). Anything else is refused by name, never approximated.
 *
 * Text is UTF-8; the caller has checked that. An open tokenizer may be used by several threads at once.
 */
#ifndef AH_RUNTIME_TEXT_TEXT_H
#define AH_RUNTIME_TEXT_TEXT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_text_tokenizer;

struct ah_text_ids {
    uint32_t *items; /* owned */
    size_t n, room;
};

/* Opens the tokenizer.json at `path`, or in the folder `path`. *Owned* by the caller. AH_E_IO: it cannot be read;
 * AH_E_DOCUMENT: it breaks the format, with the place; AH_E_UNSUPPORTED names a setting that is not supported. */
int ah_text_tokenizer_open(struct ah_text_tokenizer **ret_tokenizer, const char *path, struct ah_error *err);
void ah_text_tokenizer_close(struct ah_text_tokenizer *tokenizer);

/* Returns the largest id + 1, added tokens included. */
uint64_t ah_text_tokenizer_vocabulary(const struct ah_text_tokenizer *tokenizer);

/* Returns the id of the token with this text; UINT32_MAX if there is none. */
uint32_t ah_text_tokenizer_id(const struct ah_text_tokenizer *tokenizer, const char *text);

/* Returns the special token that stands before a text, such as "<s>", which ah_text_encode() leaves out; UINT32_MAX:
 * there is none. */
uint32_t ah_text_tokenizer_first(const struct ah_text_tokenizer *tokenizer);

/* Appends the tokens of the text. AH_E_UNSUPPORTED: a word has 4 GiB or more, or the normal form is far longer than the
 * text; AH_E_FAILED: the tokenizer's pattern takes too long; AH_E_MEMORY. */
int ah_text_encode(const struct ah_text_tokenizer *tokenizer, const char *text, size_t size,
                   struct ah_text_ids *ids, struct ah_error *err);

/* Appends an id. Returns false if there is no memory. */
bool ah_text_ids_add(struct ah_text_ids *ids, uint32_t id);
void ah_text_ids_release(struct ah_text_ids *ids);

#endif
