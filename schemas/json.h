/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text: strict reading, and writing that gives the same bytes everywhere.
 *
 * Reading takes three steps, because cJSON itself is too lenient. The scan (json_scan.c) accepts only RFC 8259 in UTF-8
 * and reports line and column. cJSON builds the tree. The last step refuses duplicate keys and numbers that overflow a
 * double, with their path. The ah_json_put functions write compact text; json_layout.c indents it. No locale matters.
 */
#ifndef AH_SCHEMAS_JSON_H
#define AH_SCHEMAS_JSON_H

#include "base/buffer.h"
#include "base/error.h"
#include "schemas/document.h"

#include <stdbool.h>
#include <stddef.h>

struct cJSON;

enum {
    AH_JSON_DEPTH_MAX = 64,
    AH_JSON_NUMBER_MAX = 60,      /* characters per number; cJSON cuts longer ones */
    AH_JSON_VALUES_MAX = 4000000, /* limits the tree to a few hundred megabytes */
    AH_JSON_LINE = 110            /* characters per line of the layout */
};

struct ah_json_source {
    const char *name; /* for messages */
    const char *text;
    size_t size;
    size_t first_line; /* line number of the start of `text`, usually 1 */
};

/* Checks that the text is exactly one JSON value; otherwise AH_E_DOCUMENT, "name:line:column: problem". */
int ah_json_scan(const struct ah_json_source *source, struct ah_error *err);

/* Scans the text, builds the tree, checks it. Free the tree with cJSON_Delete(). `ret_fault` is always written. */
int ah_json_parse(const struct ah_json_source *source, struct cJSON **ret_tree,
                  enum ah_document_fault *ret_fault, struct ah_error *err);

/* Appends `text` in quotes, with escapes. Returns false and appends nothing if it is not UTF-8. */
bool ah_json_put_text(struct ah_buffer *out, const char *text);

/* Appends any text in quotes, with '?' for bytes that are not UTF-8. */
void ah_json_put_repaired(struct ah_buffer *out, const char *text);

/* Prints the shortest of %.15g, %.16g, %.17g that reads back as the same double, with a point in every locale. `value`
 * must be finite. Returns `out`. */
enum { AH_JSON_NUMBER_TEXT = 40 };
const char *ah_json_number_text(double value, char out[AH_JSON_NUMBER_TEXT]);

/* Appends the text of ah_json_number_text(). */
void ah_json_put_number(struct ah_buffer *out, double value);

/* Appends a key or word for messages, safely: on one line, as UTF-8, cut with "..." after about 50 bytes. */
void ah_json_put_plain(struct ah_buffer *out, const char *text);

/* Appends a value of the tree as short text for messages: at most about 60 bytes, cut with "...". */
void ah_json_put_brief(struct ah_buffer *out, const struct cJSON *value);

/* Appends compact JSON text (one value) to `out` with 2-space indentation; values that fit stay on one line. */
void ah_json_layout(struct ah_buffer *out, const char *compact);

/* Returns the length in bytes of the UTF-8 sequence at `text`; 0 if it is malformed or crosses `end`. */
size_t ah_json_utf8(const char *text, const char *end);

bool ah_json_is_utf8(const char *text);

#endif
