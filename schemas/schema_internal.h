/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: prints tables as JSON Schema 2020-12, in compact text. It refuses every shape that the reader refuses.
 */
#ifndef AH_SCHEMAS_SCHEMA_INTERNAL_H
#define AH_SCHEMAS_SCHEMA_INTERNAL_H

#include "base/buffer.h"
#include "schemas/field.h"

/* Appends the schema of a kind. `alternatives` ends with NULL; a run log has one for each kind of line. */
void ah_schema_put(const char *kind, const struct ah_field_table *const *alternatives, struct ah_buffer *out);

#endif
