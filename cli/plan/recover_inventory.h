/* SPDX-License-Identifier: Apache-2.0
 *
 * The inventory of a recovery: a document, or a folder of checkpoints. A folder counts as storage with the folder's
 * newest complete checkpoint.
 */
#ifndef AH_CLI_PLAN_RECOVER_INVENTORY_H
#define AH_CLI_PLAN_RECOVER_INVENTORY_H

#include "schemas/cluster.h"
#include "schemas/cluster_plan.h"
#include "schemas/document.h"

/* Loads the inventory at `path`. Release `ret_inventory` only after success. AH_E_MISMATCH: the checkpoint and the plan
 * have different models. AH_E_IO, AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_recover_inventory_load(struct ah_document *ret_inventory, const char *path,
                              const struct ah_cluster_plan *plan, const struct ah_cluster *cluster,
                              struct ah_error *err);

#endif
