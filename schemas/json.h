/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text: strict reading, and writing that gives the same bytes everywhere.
 *
 * Reading goes in three steps, because cJSON alone is too lenient: scan (json_scan.c) refuses what is not
 * RFC 8259 in UTF-8 with line and column; cJSON builds the tree; the tree is then checked for duplicate keys
 * and numbers beyond a double, with their path. Writing builds compact text with the ah_json_put functions
 * and lays it out once (json_layout.c). Nothing depends on the locale.
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
    AH_JSON_NUMBER_MAX = 60,      /* characters of a number; cJSON cuts longer ones */
    AH_JSON_VALUES_MAX = 4000000, /* bounds the tree to a few hundred megabytes */
    AH_JSON_LINE = 110            /* characters of a line that layout fills */
};

struct ah_json_source {
    const char *name; /* for messages */
    const char *text;
    size_t size;
    size_t first_line; /* number of its first line, usually 1 */
};

/* AH_E_DOCUMENT with "name:line:column: what" unless the text is exactly one JSON value. */
int ah_json_scan(const struct ah_json_source *source, struct ah_error *err);

/* Scan, tree, tree check. The caller frees the tree with cJSON_Delete(). `ret_fault` is always written. */
int ah_json_parse(const struct ah_json_source *source, struct cJSON **ret_tree,
                  enum ah_document_fault *ret_fault, struct ah_error *err);

/* "..." with escapes; false (nothing appended) if `text` is not UTF-8. */
bool ah_json_put_text(struct ah_buffer *out, const char *text);

/* The shortest of %.15g, %.16g, %.17g that reads back as the same double, with a point in every locale. `value`
 * is finite. Returns `out`. */
enum { AH_JSON_NUMBER_TEXT = 40 };
const char *ah_json_number_text(double value, char out[AH_JSON_NUMBER_TEXT]);

/* Appends that text. */
void ah_json_put_number(struct ah_buffer *out, double value);

/* A key or word made safe for a sentence: on one line, UTF-8, cut with "..." after about 50 bytes. */
void ah_json_put_plain(struct ah_buffer *out, const char *text);

/* A value of the tree as short text for messages: at most about 60 bytes, cut with "...". */
void ah_json_put_brief(struct ah_buffer *out, const struct cJSON *value);

/* Appends compact JSON text (one value) to `out` with 2-space indentation; whatever fits stays on one line. */
void ah_json_layout(struct ah_buffer *out, const char *compact);

/* The length in bytes of the UTF-8 sequence at `text`, which ends at `end`; 0 if it is malformed. */
size_t ah_json_utf8(const char *text, const char *end);

#endif
