/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a set, and sequences of whole documents.
 */
#ifndef AH_RUNTIME_TEXT_TOKEN_FILES_INTERNAL_H
#define AH_RUNTIME_TEXT_TOKEN_FILES_INTERNAL_H

#include "base/buffer.h"
#include "runtime/text/token_files.h"

#include <stdio.h>

/* A document: tokens, and a byte for each, 1 if it is learned. Borrowed. */
struct ah_document_tokens {
    const uint32_t *ids;
    const unsigned char *learned;
    size_t n;
};

/* ---- chat_tokens.c ---- */

/* Tokens that are made of one record: some documents, one after another. All owned. */
struct ah_made_tokens {
    struct ah_text_ids ids;
    struct ah_buffer learned; /* a byte for each id */
    struct ah_text_ids ends;  /* of its documents */
};

/* Appends the text's tokens. The errors of ah_text_encode(). */
int ah_made_tokens_add(const struct ah_text_tokenizer *tokenizer, const char *text, size_t size, bool learned,
                       struct ah_made_tokens *made, struct ah_error *err);

/* Ends a document. AH_E_UNSUPPORTED: the record has 2^32 tokens or more; AH_E_MEMORY. */
int ah_made_tokens_end(struct ah_made_tokens *made, struct ah_error *err);

/* Appends the documents of a conversation, and counts what was unusual. AH_E_UNSUPPORTED: the template refuses it, or
 * its answers cannot be told from the rest. AH_E_MEMORY. */
int ah_chat_tokens(const struct ah_token_files_options *options, const struct ah_chat_message *messages,
                   size_t n, struct ah_made_tokens *made, struct ah_chat_counts *counts,
                   struct ah_error *err);

/* ---- token_shards.c ---- */

enum ah_shard_file { AH_SHARD_TOKENS, AH_SHARD_MASK, AH_SHARD_DOCS, AH_SHARD_FILES };

/* Files of one name: train-00000.bin, train-00001.bin and so on, with their companions. */
struct ah_shards {
    const struct ah_token_files_options *options;
    const char *name;
    FILE *open[AH_SHARD_FILES];
    uint64_t in_file; /* tokens of the open file */
    struct ah_buffer bytes;
    struct ah_token_files_set counts;
};

/* Appends a document; an empty one is left out. AH_E_IO. */
int ah_shards_add(struct ah_shards *shards, const struct ah_document_tokens *document, struct ah_error *err);

/* Appends documents that fill a sequence together with `padding` tokens that are not learned. AH_E_IO. */
int ah_shards_add_sequence(struct ah_shards *shards, const struct ah_document_tokens *documents, size_t n,
                           size_t padding, struct ah_error *err);

/* Closes the open files; their contents are on the disk. AH_E_IO. */
int ah_shards_close(struct ah_shards *shards, struct ah_error *err);

/* Gives the files their names. Without `masks` there are no masks. AH_E_IO. */
int ah_shards_publish(const struct ah_shards *shards, bool masks, struct ah_error *err);

/* Removes what was not published, and frees memory. */
void ah_shards_release(struct ah_shards *shards);

/* ---- align.c ---- */

struct ah_sequence;

/* Sequences that are being filled. */
struct ah_align {
    struct ah_shards *shards;
    size_t seq;
    struct ah_sequence **open; /* owned; the fullest first */
    size_t n, most;
    struct ah_mix_part added; /* to sequences, open or written */
};

/* Makes room for open sequences of options->align tokens. AH_E_MEMORY. */
int ah_align_init(struct ah_align *align, struct ah_shards *shards, struct ah_error *err);

/* Puts a document into the fullest sequence that has room for it. A longer one that is learned as a whole goes on in
 * further sequences, with its last token; any other is cut, or dropped if nothing learned is left. AH_E_IO,
 * AH_E_MEMORY. */
int ah_align_add(struct ah_align *align, const struct ah_document_tokens *document, struct ah_error *err);

/* Writes what is still open. AH_E_IO. */
int ah_align_finish(struct ah_align *align, struct ah_error *err);
void ah_align_release(struct ah_align *align);

#endif
