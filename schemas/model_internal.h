/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a model document, for documents that contain a model.
 */
#ifndef AH_SCHEMAS_MODEL_INTERNAL_H
#define AH_SCHEMAS_MODEL_INTERNAL_H

#include "schemas/field.h"
#include "schemas/model.h"

extern const struct ah_field_table ah_model_table; /* for struct ah_model */

#endif
