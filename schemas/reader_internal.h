/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader: reads a JSON tree into a struct, by its table. It is strict: it refuses unknown fields, missing fields, wrong
 * types, values out of range and broken rules of a table, and names their path.
 */
#ifndef AH_SCHEMAS_READER_INTERNAL_H
#define AH_SCHEMAS_READER_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/field.h"

struct cJSON;

struct ah_reader {
    struct ah_arena *arena; /* for the values */
    const char *name;       /* the file's, for messages */
    struct ah_error *err;

    /* (optional) Handles a field that the table lacks; default: the field is refused. */
    int (*unknown)(void *context, const struct cJSON *member);
    void *unknown_context;
};

/* The path of a value: a name or index, and the path above it. */
struct ah_reader_path {
    const struct ah_reader_path *parent;
    const char *name; /* NULL: an element of a list, number `index` */
    size_t index;
};

/* Reads `object` into `ret_group`, a zeroed struct of `table`. AH_E_DOCUMENT if the shape is wrong, AH_E_MEMORY. */
int ah_reader_group(struct ah_reader *reader, const struct ah_reader_path *path,
                    const struct ah_field_table *table, const struct cJSON *object, void *ret_group);

#endif
