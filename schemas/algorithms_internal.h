/* SPDX-License-Identifier: Apache-2.0
 *
 * Field tables of the groups that machine and plan documents share.
 */
#ifndef AH_SCHEMAS_ALGORITHMS_INTERNAL_H
#define AH_SCHEMAS_ALGORITHMS_INTERNAL_H

#include "schemas/algorithms.h"
#include "schemas/field.h"

extern const struct ah_field_table ah_algorithms_table; /* of struct ah_algorithms */
extern const struct ah_field_table ah_metric_table;     /* of struct ah_metric; machine.c */

#endif
