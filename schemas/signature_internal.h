/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a numeric signature, for documents that contain one.
 */
#ifndef AH_SCHEMAS_SIGNATURE_INTERNAL_H
#define AH_SCHEMAS_SIGNATURE_INTERNAL_H

#include "schemas/field.h"
#include "schemas/signature.h"

extern const struct ah_field_table ah_signature_table; /* for struct ah_signature */

#endif
