/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer: prints a struct as compact JSON text, by its table and in the table's order. It refuses everything that the
 * reader would refuse: numbers that are not finite or out of range, text of the wrong form, words that do not exist.
 */
#ifndef AH_SCHEMAS_WRITER_INTERNAL_H
#define AH_SCHEMAS_WRITER_INTERNAL_H

#include "base/buffer.h"
#include "base/error.h"
#include "schemas/field.h"

/* Appends the object. AH_E_DOCUMENT names the field that cannot be written; AH_E_MEMORY. The second function leaves out
 * fields with any of the flags `without`. */
int ah_writer_group(const struct ah_field_table *table, const void *group, struct ah_buffer *out,
                    struct ah_error *err);

int ah_writer_group_without(const struct ah_field_table *table, const void *group, unsigned without,
                            struct ah_buffer *out, struct ah_error *err);

/* Appends a field's value, or one item of a list or map (`index` below its count; ignored for other fields). */
int ah_writer_field(const struct ah_field *field, const void *group, struct ah_buffer *out,
                    struct ah_error *err);
int ah_writer_item(const struct ah_field *field, const void *group, size_t index, struct ah_buffer *out,
                   struct ah_error *err);

#endif
