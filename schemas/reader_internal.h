/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader: reads a JSON tree into a struct, by its table. It refuses, with their path, unknown fields, missing fields,
 * wrong types, values out of range, and relations against a table's rules.
 */
#ifndef AH_SCHEMAS_READER_INTERNAL_H
#define AH_SCHEMAS_READER_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/field.h"

struct cJSON;

struct ah_reader {
    struct ah_arena *arena; /* values live here */
    const char *name;       /* of the file, for messages */
    struct ah_error *err;

    /* (optional) Handles a field that the table does not have; default: refuse it. */
    int (*unknown)(void *context, const struct cJSON *member);
    void *unknown_context;
};

/* Place of a value: `root` before the first dot, the names and indices below it. */
struct ah_reader_path {
    const struct ah_reader_path *parent;
    const char *name; /* NULL: an element */
    size_t index;
};

/* Reads `object` into `ret_group`, a zeroed struct of `table`. AH_E_DOCUMENT: the shape is wrong. */
int ah_reader_group(struct ah_reader *reader, const struct ah_reader_path *path,
                    const struct ah_field_table *table, const struct cJSON *object, void *ret_group);

#endif
