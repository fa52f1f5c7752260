/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of an inventory, and what must hold between them:
 * 1. A holding names a node of `nodes` and, if it is in a GPU's memory, a GPU of that node; a holding in storage
 *    names neither.
 * 2. A holding's blocks and slices exist.
 * 3. A holding's step is not after the inventory's.
 */
#include "schemas/inventory.h"

#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"

#include <inttypes.h>
#include <string.h>

#define WORD(value, word) [value] = word,
const char *const ah_words_medium[] = {AH_MEDIUM_WORDS(WORD) NULL};
const char *const ah_words_shard_kind[] = {AH_SHARD_KIND_WORDS(WORD) NULL};

static const char *const kind_words[] = {"inventory", NULL};

#define STEP_MAX AH_FIELD_COUNT_MAX

static const struct ah_field model_fields[] = {AH_ROW_NAME(ah_plan_input, name, "Its name."),
                                               AH_ROW_SHA256(ah_plan_input, sha256,
                                                             "Digest of its canonical "
                                                             "text."),
                                               {0}};
AH_TABLE(model, ah_plan_input, "input", "The model that is trained.", NULL);

static const struct ah_field node_fields[] = {
    AH_ROW_NAME(ah_inventory_node, id, "Name of the node."),
    AH_ROW_COUNT(ah_inventory_node, gpus, 1, AH_INVENTORY_NO_GPU, "How many GPUs it has."),
    {0}};
AH_TABLE(node, ah_inventory_node, "node", "A node that the inventory was made on.", NULL);

static const struct ah_field holding_fields[] = {
    AH_ROW_WORD(ah_inventory_holding, medium, ah_words_medium,
                "A GPU's memory, a node's host memory or disk, or storage that outlives the nodes."),
    {.name = "node",
     AH_TEXT_AT(ah_inventory_holding, node),
     .form = AH_TEXT_NAME,
     .flags = AH_FIELD_OPTIONAL,
     .about = "The node; storage has none."},
    {.name = "gpu",
     AH_COUNT_AT(ah_inventory_holding, gpu),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .max = AH_INVENTORY_NO_GPU - 1,
     .fallback = AH_INVENTORY_NO_GPU,
     .about = "For a GPU's memory: index of the GPU in the node, from 0."},
    AH_ROW_COUNT(ah_inventory_holding, step, 0, STEP_MAX, "The step whose states these are."),
    AH_ROW_COUNT(ah_inventory_holding, first_block, 0, AH_SHARD_BLOCKS_MAX - 1, "The lowest block."),
    AH_ROW_COUNT(ah_inventory_holding, blocks, 1, AH_SHARD_BLOCKS_MAX, "Number of blocks."),
    {.name = "first_slice",
     AH_COUNT_AT(ah_inventory_holding, first_slice),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_SHARD_SLICES_MAX - 1,
     .about = "The lowest slice."},
    {.name = "slices",
     AH_COUNT_AT(ah_inventory_holding, slices),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .min = 1,
     .max = AH_SHARD_SLICES_MAX,
     .about = "Number of slices; absent: all from the lowest up."},
    {.name = "kinds",
     .type = AH_FIELD_WORD,
     AH_LIST_OFFSETS(ah_inventory_holding, kinds, unsigned *),
     .words = ah_words_shard_kind,
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_UNIQUE,
     .max_items = AH_SHARD_KINDS,
     .about = "Weights, master copies, first and second moments; absent: all of them."},
    {0}};
static const struct ah_rule holding_rules[] = {
    {"medium", "gpu", AH_RULE_REQUIRES, "gpu", NULL, "is missing; a GPU's memory needs it"},
    {"medium", "host", AH_RULE_FORBIDS, "gpu", NULL, "does not go with host memory"},
    {"medium", "disk", AH_RULE_FORBIDS, "gpu", NULL, "does not go with a disk"},
    {"medium", "storage", AH_RULE_FORBIDS, "gpu", NULL, "does not go with storage"},
    {"medium", "gpu", AH_RULE_REQUIRES, "node", NULL, "is missing; a GPU's memory needs it"},
    {"medium", "host", AH_RULE_REQUIRES, "node", NULL, "is missing; host memory needs it"},
    {"medium", "disk", AH_RULE_REQUIRES, "node", NULL, "is missing; a disk needs it"},
    {"medium", "storage", AH_RULE_FORBIDS, "node", NULL, "does not go with storage"},
    {0}};
static const struct ah_field_table holding_table = {.name = "holding",
                                                    .about = "Shards, and where they are.",
                                                    .bytes = sizeof(struct ah_inventory_holding),
                                                    .fields = holding_fields,
                                                    .rules = holding_rules};

uint64_t ah_inventory_slices_end(const struct ah_inventory *inventory,
                                 const struct ah_inventory_holding *holding)
{
    return holding->slices ? holding->first_slice + holding->slices : inventory->slices;
}

bool ah_inventory_holds_kind(const struct ah_inventory_holding *holding, enum ah_shard_kind kind)
{
    for (size_t i = 0; i < holding->n_kinds; i++)
        if (holding->kinds[i] == (unsigned)kind)
            return true;
    return !holding->n_kinds;
}

static const struct ah_inventory_node *find_node(const struct ah_inventory *inventory, const char *id)
{
    for (size_t i = 0; i < inventory->n_nodes; i++)
        if (strcmp(inventory->nodes[i].id, id) == 0)
            return &inventory->nodes[i];
    return NULL;
}

static int check_place(const struct ah_inventory *inventory, size_t i, struct ah_error *err)
{
    const struct ah_inventory_holding *holding = &inventory->holdings[i];
    if (!holding->node)
        return AH_OK;
    const struct ah_inventory_node *node = find_node(inventory, holding->node);
    if (!node)
        return ah_meaning_fail_item(err, "holdings", i, "node", "'%s' is the id of no entry in nodes",
                                    holding->node);
    if (holding->medium == AH_MEDIUM_GPU && holding->gpu >= node->gpus)
        return ah_meaning_fail_item(err, "holdings", i, "gpu",
                                    "%" PRIu64 " does not exist, '%s' has %" PRIu64 " GPUs", holding->gpu,
                                    node->id, node->gpus);
    return AH_OK;
}

static int check_range(const struct ah_inventory *inventory, size_t i, struct ah_error *err)
{
    const struct ah_inventory_holding *holding = &inventory->holdings[i];
    if (holding->first_block + holding->blocks > inventory->blocks)
        return ah_meaning_fail_item(err, "holdings", i, "blocks", "goes beyond the model's %" PRIu64,
                                    inventory->blocks);
    if (holding->first_slice >= inventory->slices ||
        ah_inventory_slices_end(inventory, holding) > inventory->slices)
        return ah_meaning_fail_item(err, "holdings", i, holding->slices ? "slices" : "first_slice",
                                    "goes beyond the %" PRIu64 " into which blocks are cut",
                                    inventory->slices);
    if (holding->step > inventory->step)
        return ah_meaning_fail_item(err, "holdings", i, "step", "%" PRIu64 " is after the last one, %" PRIu64,
                                    holding->step, inventory->step);
    return AH_OK;
}

static int inventory_check(const void *group, struct ah_error *err)
{
    const struct ah_inventory *inventory = group;
    int rc = AH_OK;
    for (size_t i = 0; i < inventory->n_nodes && !rc; i++)
        if (find_node(inventory, inventory->nodes[i].id) != &inventory->nodes[i])
            rc = ah_meaning_fail_item(err, "nodes", i, "id", "'%s' appears twice", inventory->nodes[i].id);
    for (size_t i = 0; i < inventory->n_holdings && !rc; i++) {
        rc = check_place(inventory, i, err);
        rc = rc ? rc : check_range(inventory, i, err);
    }
    return rc;
}

static const struct ah_field inventory_fields[] = {
    AH_FIELD_HEAD(ah_inventory, kind_words),
    AH_ROW_GROUP(ah_inventory, model, &model_table, "The model that is trained."),
    AH_ROW_COUNT(ah_inventory, blocks, 3, AH_SHARD_BLOCKS_MAX,
                 "Blocks of the model: embedding, layers, "
                 "head."),
    AH_ROW_COUNT(ah_inventory, slices, 1, AH_SHARD_SLICES_MAX,
                 "Equal parts into which the states of a block are cut."),
    AH_ROW_COUNT(ah_inventory, step, 0, STEP_MAX, "The last step that training finished."),
    {.name = "nodes",
     AH_GROUPS_AT(ah_inventory, nodes, &node_table),
     .min_items = 1,
     .max_items = 4096,
     .about = "Nodes on which the inventory was made, including lost ones."},
    {.name = "holdings",
     AH_GROUPS_AT(ah_inventory, holdings, &holding_table),
     .min_items = 1,
     .max_items = 65536,
     .about = "The states that exist, and where."},
    AH_FIELD_ANNOTATIONS(ah_inventory),
    {0}};
AH_TABLE(inventory, ah_inventory, "inventory",
         "Which training states are where, after nodes of a cluster were lost.", inventory_check);

const struct ah_kind ah_kind_inventory = {.table = &inventory_table,
                                          .alternatives =
                                              (const struct ah_field_table *const[]){&inventory_table, NULL}};
