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

/* Append the object. AH_E_DOCUMENT names the field that cannot be written; AH_E_MEMORY. ah_writer_group_without()
 * leaves out fields with any of the flags `without`. */
int ah_writer_group(const struct ah_field_table *table, const void *group, struct ah_buffer *out,
                    struct ah_error *err);

int ah_writer_group_without(const struct ah_field_table *table, const void *group, unsigned without,
                            struct ah_buffer *out, struct ah_error *err);

/* Append a field's value; one item of a list or map (`index` is below its count, and ignored for other fields). */
int ah_writer_field(const struct ah_field *field, const void *group, struct ah_buffer *out,
                    struct ah_error *err);
int ah_writer_item(const struct ah_field *field, const void *group, size_t index, struct ah_buffer *out,
                   struct ah_error *err);

#endif
