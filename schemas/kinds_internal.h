/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds: what document.c needs to know about each kind of document.
 */
#ifndef AH_SCHEMAS_KINDS_INTERNAL_H
#define AH_SCHEMAS_KINDS_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/document.h"
#include "schemas/field.h"
#include "schemas/json.h"
#include "schemas/reader_internal.h"

#include <stddef.h>

struct ah_kind {
    const struct ah_field_table *table; /* the whole body, for lookup and diff */
    const struct ah_field_table *const
        *alternatives;  /* tables for the schema: {table, NULL}, or one per kind of line */
    size_t limit_bytes; /* largest size of the text */

    /* (optional) Changes a tree of format 1.0 to the format of `table`. Default: that is the kind's format. */
    int (*upgrade)(struct cJSON *tree, struct ah_error *err);

    /* (optional) For text of more than one JSON value. Default: one object, read by `table`. */
    int (*parse)(struct ah_reader *reader, const struct ah_json_source *source, void *body,
                 enum ah_document_fault *ret_fault);
    int (*print)(const void *body, struct ah_buffer *out, struct ah_error *err);
};

enum { AH_KIND_LIMIT_BYTES = 16 << 20, AH_KIND_RUNLOG_LIMIT_BYTES = 64 << 20 };

#define AH_KIND_DECLARE(value, name, word) extern const struct ah_kind ah_kind_##name;
AH_DOCUMENTS(AH_KIND_DECLARE)
#undef AH_KIND_DECLARE

/* Returns the kind's description; NULL for AH_DOCUMENT_ANY. */
const struct ah_kind *ah_document_kind(enum ah_document_kind kind);

#endif
