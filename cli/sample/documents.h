/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: beginnings of documents of token files, as prompts.
 *
 * A prompt is a document's tokens up to the first that is learned, such as a conversation up to the assistant's first
 * answer. Where all is learned, it is the first AH_DOCUMENTS_TEXT tokens, or half of a shorter document.
 */
#ifndef AH_CLI_SAMPLE_DOCUMENTS_H
#define AH_CLI_SAMPLE_DOCUMENTS_H

#include "base/error.h"
#include "runtime/text/text.h"

#include <stddef.h>
#include <stdint.h>

enum { AH_DOCUMENTS_TEXT = 16, AH_DOCUMENTS_MOST = 1 << 16 };

struct ah_documents_prompt {
    struct ah_text_ids prompt;
    struct ah_text_ids learned; /* what follows in the document, as far as it is learned */
};

/* Finds the prompts of the first documents with learned tokens, at most `max`, of at most AH_DOCUMENTS_MOST tokens.
 * Their number goes to `ret_n`, after a failure too. Release their ids. AH_E_MISMATCH: no document has any. Errors of
 * ah_dataset_open(). */
int ah_documents_find(const char *const *paths, size_t n_paths, uint64_t vocabulary,
                      struct ah_documents_prompt *ret_prompts, size_t max, size_t *ret_n,
                      struct ah_error *err);

#endif
