/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer: writes a struct as compact JSON text, by its table and in its order. Refuses what the reader would: numbers
 * that are not finite or out of range, text of the wrong form, words that do not exist.
 */
#ifndef AH_SCHEMAS_WRITER_INTERNAL_H
#define AH_SCHEMAS_WRITER_INTERNAL_H

#include "base/buffer.h"
#include "base/error.h"
#include "schemas/field.h"

/* Appends the object. AH_E_DOCUMENT names the field that cannot be written; AH_E_MEMORY. The second leaves out
 * fields that have one of the flags `without`. */
int ah_writer_group(const struct ah_field_table *table, const void *group, struct ah_buffer *out,
                    struct ah_error *err);

int ah_writer_group_without(const struct ah_field_table *table, const void *group, unsigned without,
                            struct ah_buffer *out, struct ah_error *err);

/* Appends one field's value, or one item of a list or map (`index` below its count; else ignored). */
int ah_writer_field(const struct ah_field *field, const void *group, struct ah_buffer *out,
                    struct ah_error *err);
int ah_writer_item(const struct ah_field *field, const void *group, size_t index, struct ah_buffer *out,
                   struct ah_error *err);

#endif
