/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: a table as JSON Schema 2020-12, in compact text. What the reader refuses as shape, the schema does.
 */
#ifndef AH_SCHEMAS_SCHEMA_INTERNAL_H
#define AH_SCHEMAS_SCHEMA_INTERNAL_H

#include "base/buffer.h"
#include "schemas/field.h"

/* One of several objects may stand: a run log's lines. Ends with NULL. */
void ah_schema_put(const char *kind, const struct ah_field_table *const *alternatives, struct ah_buffer *out);

#endif
