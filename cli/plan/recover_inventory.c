/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/recover_inventory.h"

#include "runtime/train/checkpoint/checkpoints.h"
#include "schemas/checkpoint.h"
#include "schemas/inventory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SLICES_LEAST = 8 }; /* enough for every degree in plans */

static uint64_t slices_of(const struct ah_cluster_plan *plan)
{
    uint64_t slices = SLICES_LEAST;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            slices = plan->pipelines[p].stages[i].tp > slices ? plan->pipelines[p].stages[i].tp : slices;
    return slices;
}

/* Fills an inventory with all blocks in storage, as after `step`. Borrows texts from the plan and the cluster. */
static int fill_inventory(struct ah_document *inventory, uint64_t step, const struct ah_cluster_plan *plan,
                          const struct ah_cluster *cluster, struct ah_error *err)
{
    struct ah_inventory *body = ah_arena_alloc(&inventory->arena, sizeof *body);
    struct ah_inventory_node *nodes = ah_arena_array(&inventory->arena, cluster->n_nodes, sizeof *nodes);
    struct ah_inventory_holding *holding = ah_arena_alloc(&inventory->arena, sizeof *holding);
    if (!body || !nodes || !holding)
        return ah_error_memory(err);
    for (size_t i = 0; i < cluster->n_nodes; i++)
        nodes[i] = (struct ah_inventory_node){cluster->nodes[i].id, cluster->nodes[i].gpus};
    *holding = (struct ah_inventory_holding){
        .medium = AH_MEDIUM_STORAGE, .gpu = AH_INVENTORY_NO_GPU, .step = step, .blocks = plan->blocks};
    *body = (struct ah_inventory){.generator = "autohete " AUTOHETE_VERSION,
                                  .model = plan->inputs.model,
                                  .blocks = plan->blocks,
                                  .slices = slices_of(plan),
                                  .step = step,
                                  .nodes = nodes,
                                  .n_nodes = cluster->n_nodes,
                                  .holdings = holding,
                                  .n_holdings = 1};
    inventory->kind = AH_DOCUMENT_INVENTORY;
    inventory->body.inventory = body;
    return AH_OK;
}

static int check_model(const struct ah_checkpoint *checkpoint, const char *path,
                       const struct ah_cluster_plan *plan, struct ah_error *err)
{
    char shown[AH_DOCUMENT_NAME_MAX];
    if (!strcmp(checkpoint->numeric_signature.model_sha256, plan->inputs.model.sha256))
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH, "%s: is a checkpoint of a different model from the plan's, '%s'",
                        ah_document_short_name(path, shown), plan->inputs.model.name);
}

static int take_checkpoint(struct ah_document *ret_inventory, const char *path,
                           const struct ah_cluster_plan *plan, const struct ah_cluster *cluster,
                           struct ah_error *err)
{
    char name[PATH_MAX + sizeof "/" AH_CHECKPOINT_MANIFEST];
    struct ah_checkpoints_found found;
    struct ah_document manifest = {0};
    int rc = ah_checkpoints_find(path, &found, err);
    if (!rc && !found.path[0])
        rc = ah_error_set(err, AH_E_IO,
                          "'%s' has no checkpoint; name an inventory, or a folder of checkpoints", path);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s/" AH_CHECKPOINT_MANIFEST, found.path);
    rc = ah_document_load(&manifest, name, AH_DOCUMENT_CHECKPOINT, err);
    rc = rc ? rc : check_model(manifest.body.checkpoint, found.path, plan, err);
    *ret_inventory = (struct ah_document){0};
    rc = rc ? rc : fill_inventory(ret_inventory, manifest.body.checkpoint->step, plan, cluster, err);
    ah_document_release(&manifest);
    if (rc)
        ah_document_release(ret_inventory);
    return rc;
}

int ah_recover_inventory_load(struct ah_document *ret_inventory, const char *path,
                              const struct ah_cluster_plan *plan, const struct ah_cluster *cluster,
                              struct ah_error *err)
{
    struct stat about;
    if (strcmp(path, "-") != 0 && !stat(path, &about) && S_ISDIR(about.st_mode))
        return take_checkpoint(ret_inventory, path, plan, cluster, err);
    return ah_document_load(ret_inventory, path, AH_DOCUMENT_INVENTORY, err);
}
