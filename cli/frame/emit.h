/* SPDX-License-Identifier: Apache-2.0
 *
 * Emit: prints JSON field by field, with the text and layout of documents (schemas/json.h). Documents have a canonical
 * writer of their own (schemas/document.h).
 *
 *     struct ah_emit emit = {.out = &cli->out};
 *     ah_emit_open(&emit, NULL, '{');
 *     ah_emit_integer(&emit, "parameters", 124439808);
 *     ah_emit_open(&emit, "groups", '[');
 *     ...
 *     ah_emit_close(&emit);
 *     ah_emit_close(&emit);       // the outermost one ends with a newline
 *
 * In an array, `key` is NULL. If `out` is NULL, nothing is printed, so that a verb need not ask whether to print JSON.
 * If memory runs out, `out->failed` is set.
 */
#ifndef AH_CLI_FRAME_EMIT_H
#define AH_CLI_FRAME_EMIT_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { AH_EMIT_DEPTH_MAX = 16 };

struct ah_emit {
    struct ah_buffer *out; /* (optional) borrowed */
    bool one_line;         /* print one line, without a newline at its end */
    struct ah_buffer text; /* the JSON so far, compact; printed when the outermost bracket is closed */
    unsigned depth;
    bool filled[AH_EMIT_DEPTH_MAX]; /* by depth: the bracket is not empty */
    char ends[AH_EMIT_DEPTH_MAX];   /* by depth: the closing bracket */
};

/* Opens an object ('{') or an array ('['). Each needs a close; the last close prints and frees the text. */
void ah_emit_open(struct ah_emit *emit, const char *key, char bracket);
void ah_emit_close(struct ah_emit *emit);

/* Adds a text, or null if it is NULL. Bytes that are not UTF-8, as in some file names, become '?'. */
void ah_emit_text(struct ah_emit *emit, const char *key, const char *text);
/* Prints the buffer's text and releases it. */
void ah_emit_buffer(struct ah_emit *emit, const char *key, struct ah_buffer *text);

void ah_emit_integer(struct ah_emit *emit, const char *key, uint64_t value);
void ah_emit_number(struct ah_emit *emit, const char *key, double value);
void ah_emit_bool(struct ah_emit *emit, const char *key, bool value);

/* Adds a value whose JSON text is `json`. */
void ah_emit_json(struct ah_emit *emit, const char *key, const char *json);

/* Adds {"code": word, "exit_status": n, "message": sentence}. */
void ah_emit_error(struct ah_emit *emit, const char *key, const struct ah_error *err, int exit_status);

/* Adds the fields of ah_emit_error() to an object opened by the caller. */
void ah_emit_error_fields(struct ah_emit *emit, const struct ah_error *err, int exit_status);

#endif
