/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: documents of input files, as parts of text that are learned or not, or as conversations.
 */
#ifndef AH_RUNTIME_TEXT_INPUTS_INTERNAL_H
#define AH_RUNTIME_TEXT_INPUTS_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/text/chat.h"
#include "schemas/cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_record_part {
    const char *text;
    size_t size;
    bool learned;
};

struct ah_record {
    struct ah_record_part parts[2];
    size_t n;
    const struct ah_chat_message *messages; /* (n_messages) a conversation, which has no parts; NULL: none */
    size_t n_messages;
    bool is_text;      /* a whole file of text, which may be cut in two */
    const char *place; /* "file:3" or "file: [2]", for messages */
};

struct ah_records {
    /* Takes a document, borrowed until it returns; `bytes` of the file are read. */
    int (*take)(void *context, const struct ah_record *record, uint64_t bytes, struct ah_error *err);
    void *context;
    uint64_t replaced; /* counts places that were not UTF-8 */
};

/* Reads the documents of a file. AH_E_USAGE: `path` is standard input, "-"; AH_E_IO, AH_E_DOCUMENT, AH_E_UNSUPPORTED,
 * AH_E_MEMORY; errors of `take`. */
int ah_records_read(struct ah_records *records, const char *path, struct ah_error *err);

/* ---- conversation.c ---- */

/* Where a record is. */
struct ah_record_source {
    const char *place;
    struct ah_arena *arena; /* of the record */
    struct ah_error *err;
};

/* Returns `code`, with the place and what is wrong there. */
int ah_records_fail(const struct ah_record_source *source, int code, const char *format, ...) AH_PRINTF(3, 4);

/* Reads the list of messages at the cursor. `system` (optional) comes first. AH_E_DOCUMENT, AH_E_UNSUPPORTED,
 * AH_E_MEMORY. */
int ah_conversation_read(const struct ah_record_source *source, struct ah_cursor cursor, const char *system,
                         struct ah_record *ret_record);

#endif
