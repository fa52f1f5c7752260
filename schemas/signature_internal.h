/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a numeric signature, for the documents that hold one.
 */
#ifndef AH_SCHEMAS_SIGNATURE_INTERNAL_H
#define AH_SCHEMAS_SIGNATURE_INTERNAL_H

#include "schemas/field.h"
#include "schemas/signature.h"

extern const struct ah_field_table ah_signature_table; /* of struct ah_signature */

#endif
