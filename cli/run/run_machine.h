/* SPDX-License-Identifier: Apache-2.0
 *
 * Run machine: finds the document of the machine that a plan was made for. A plan has only its name and digest.
 */
#ifndef AH_CLI_RUN_RUN_MACHINE_H
#define AH_CLI_RUN_RUN_MACHINE_H

#include "base/arena.h"
#include "schemas/document.h"
#include "schemas/plan.h"

/* Looks at this machine's profiles (cache.h), at machine.json and NAME.json beside the plan, and at the built-in
 * machines. Returns the first one with the plan's digest, and its document for the caller to release; NULL if there is
 * none, with a document that needs no release. `path` is the plan's. */
const struct ah_machine *ah_run_machine_find(struct ah_document *ret_document, const struct ah_plan *plan,
                                             const char *path, struct ah_arena *arena);

#endif
