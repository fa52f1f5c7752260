/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof: before a plan is executed, each of its statements must follow from the rest of the plan.
 *
 * A run takes every address and every order from its plan. If one offset is wrong by 64 bytes, two tensors share
 * memory, and training silently gives wrong numbers. So checking is not optional: `run` and `simulate` load plans here,
 * with the same checks as `check`. A plan made in this process (`compare --measured`) needs no proof.
 *
 *     rc = ah_proof_load(&document, path, "run", err);   // AH_E_DOCUMENT: "p.json: arena.tensors[0]...: plan again"
 */
#ifndef AH_CLI_PLAN_PROOF_H
#define AH_CLI_PLAN_PROOF_H

#include "base/error.h"
#include "schemas/cluster_plan.h"
#include "schemas/document.h"
#include "schemas/plan.h"

/* Checks a plan. AH_E_DOCUMENT: the text begins with the wrong field. AH_E_MISMATCH: the plan's model does not have the
 * digest in the plan. AH_E_MEMORY. There are no other errors: any fault of a plan is one of its document. */
int ah_proof_plan(const struct ah_plan *plan, struct ah_error *err);

/* Checks a cluster plan: each rank's program as a plan, and all programs together. Errors: as ah_proof_plan(). */
int ah_proof_cluster_plan(const struct ah_cluster_plan *plan, struct ah_error *err);

/* Loads the plan at `path` (`-`: standard input) for `verb` and proves it. Accepts only plans for one machine; for a
 * cluster plan, the text says which verbs accept it. Errors of ah_proof_plan() and ah_document_load(), with the file's
 * name. */
int ah_proof_load(struct ah_document *ret_document, const char *path, const char *verb, struct ah_error *err);
/* Loads and proves a plan like ah_proof_load(), but accepts a cluster plan, too. */
int ah_proof_load_any(struct ah_document *ret_document, const char *path, const char *verb,
                      struct ah_error *err);

#endif
