/* SPDX-License-Identifier: Apache-2.0
 *
 * Outdated plans: format 1.0 does not state everything that a check needs. `inspect`, `diff` and `recover` still read
 * it.
 */
#ifndef AH_CLI_PLAN_OUTDATED_H
#define AH_CLI_PLAN_OUTDATED_H

#include "base/error.h"
#include "schemas/document.h"

/* Refuses a plan or cluster plan of format 1.0 with the command that makes it again: AH_E_MISMATCH. AH_OK for other
 * documents. */
int ah_outdated_refuse(const struct ah_document *document, const char *verb, struct ah_error *err);

#endif
