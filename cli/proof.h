/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof: a plan that is executed says nothing but what follows from the rest of it.
 *
 * A plan is trusted with every address and every order of a run: an offset moved by 64 bytes makes two tensors share
 * memory, and training goes on to other numbers. So `check` is not a choice: `run` and `simulate` load plans here, and
 * ask the same function. A plan that was made in this process (`compare --measured`) needs no proof.
 *
 *     rc = ah_proof_load(&document, path, "run", err);   // AH_E_DOCUMENT: "p.json: arena.tensors[0]...: plan again"
 */
#ifndef AH_CLI_PROOF_H
#define AH_CLI_PROOF_H

#include "base/error.h"
#include "schemas/cluster_plan.h"
#include "schemas/document.h"
#include "schemas/plan.h"

/* AH_E_DOCUMENT: the sentence begins with the place in the plan. AH_E_MISMATCH: its model is not the one that its digest
 * names. AH_E_MEMORY. No other error: whatever is wrong with a plan is wrong with a document. */
int ah_proof_plan(const struct ah_plan *plan, struct ah_error *err);

/* The same of a cluster plan: each rank's program as a plan of its own, and all of them together. */
int ah_proof_cluster_plan(const struct ah_cluster_plan *plan, struct ah_error *err);

/* Loads the plan at `path` (`-`: standard input) for `verb`, which executes it, and proves it. The errors of
 * ah_proof_plan() and ah_document_load(), with the file's name; where only plans for one machine are taken, a cluster plan
 * gets a sentence about what takes one. */
int ah_proof_load(struct ah_document *ret_document, const char *path, const char *verb, struct ah_error *err);
/* Also takes a cluster plan. */
int ah_proof_load_any(struct ah_document *ret_document, const char *path, const char *verb,
                      struct ah_error *err);

#endif
