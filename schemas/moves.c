/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a moves document, and what must hold between them:
 * 1. Blocks and slices exist; a move of the tied table names block 0.
 * 2. No rank gets a shard twice, or has more than RANK_MOVES_MAX moves, since the check compares every pair of moves.
 * 3. The bytes of a tier are the sum of its moves; needed bytes are the sum of all tiers and the kept bytes.
 * 4. Moves are sorted by rank; the bound is not above the time; gap and speed-up follow from the times.
 */
#include "schemas/moves.h"

#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WORD(value, word) [value] = word,
const char *const ah_words_tier[] = {AH_TIER_WORDS(WORD) NULL};
const char *const ah_words_sources[] = {AH_SOURCES_WORDS(WORD) NULL};
const char *const ah_words_destination[] = {AH_DESTINATION_WORDS(WORD) NULL};

static const char *const kind_words[] = {"moves", NULL};

#define US_MAX 1e18
enum { RANKS_MAX = 4194304, MOVES_MAX = 1048576, RANK_MOVES_MAX = 16384 };

static const struct ah_field input_fields[] = {AH_ROW_NAME(ah_plan_input, name, "The document's name."),
                                               AH_ROW_SHA256(ah_plan_input, sha256,
                                                             "Digest of its canonical "
                                                             "text."),
                                               {0}};
AH_TABLE(input, ah_plan_input, "input", "A document that the moves were made from.", NULL);

static const struct ah_field inputs_fields[] = {
    AH_ROW_GROUP(ah_moves_inputs, model, &input_table, "The model."),
    AH_ROW_GROUP(ah_moves_inputs, cluster, &input_table, "The new cluster."),
    AH_ROW_SHA256(ah_moves_inputs, old_plan_sha256, "Digest of the old cluster plan."),
    AH_ROW_SHA256(ah_moves_inputs, inventory_sha256, "Digest of the inventory."),
    AH_ROW_SHA256(ah_moves_inputs, plan_sha256, "Digest of the new cluster plan."),
    {0}};
AH_TABLE(inputs, ah_moves_inputs, "inputs", "The documents that the moves were made from and for.", NULL);

static const struct ah_field bytes_fields[] = {
    AH_ROW_BYTES(ah_moves_bytes, needed, "Needed by all GPUs: the sum of the others."),
    AH_ROW_BYTES(ah_moves_bytes, kept, "Already on the GPUs."),
    AH_ROW_BYTES(ah_moves_bytes, node, "From host memory or a GPU of the same node."),
    AH_ROW_BYTES(ah_moves_bytes, disk, "From the node's own disk."),
    AH_ROW_BYTES(ah_moves_bytes, peer, "From other nodes."),
    AH_ROW_BYTES(ah_moves_bytes, storage, "From storage."),
    {0}};
AH_TABLE(bytes, ah_moves_bytes, "bytes", "Bytes by the way they arrive.", NULL);

static const struct ah_field predicted_fields[] = {
    AH_ROW_NUMBER(ah_moves_predicted, time_us, US_MAX, "Time until everything is in place."),
    AH_ROW_NUMBER(ah_moves_predicted, bound_us, US_MAX, "No choice of sources can take less."),
    AH_ROW_NUMBER(ah_moves_predicted, gap, 1, "(time - bound) / time; 0 where nothing moves."),
    {.name = "limit",
     AH_TEXT_AT(ah_moves_predicted, limit),
     .form = AH_TEXT_LINE,
     .flags = AH_FIELD_OPTIONAL,
     .about = "The resources that limit the time."},
    AH_ROW_NUMBER(ah_moves_predicted, baseline_us, US_MAX,
                  "Time if everything came from storage; 0: there "
                  "is no storage."),
    AH_ROW_NUMBER(ah_moves_predicted, speed_up, 1e18,
                  "baseline / time; 0: there is no storage, or nothing moves."),
    AH_ROW_NUMBER(ah_moves_predicted, step_us, US_MAX, "Time of a step of the new plan."),
    AH_ROW_COUNT(ah_moves_predicted, lost_steps, 0, AH_FIELD_COUNT_MAX, "Steps that must be done again."),
    {0}};

static bool close_to(double value, double expected)
{
    return fabs(value - expected) <= 1e-6 * fmax(fabs(value), fabs(expected)) + 1e-9;
}

static int predicted_check(const void *group, struct ah_error *err)
{
    const struct ah_moves_predicted *predicted = group;
    bool moves = predicted->time_us > 0;
    if (predicted->bound_us > predicted->time_us)
        return ah_meaning_fail_numbers(err, "bound_us", predicted->bound_us, "is above time_us",
                                       predicted->time_us);
    if (!close_to(predicted->gap,
                  moves ? (predicted->time_us - predicted->bound_us) / predicted->time_us : 0))
        return ah_meaning_fail(err, "gap", "does not follow from time_us and bound_us");
    if (!close_to(predicted->speed_up, moves ? predicted->baseline_us / predicted->time_us : 0))
        return ah_meaning_fail(err, "speed_up", "does not follow from time_us and baseline_us");
    return AH_OK;
}

AH_TABLE(predicted, ah_moves_predicted, "predicted", "What the model of links and disks predicts.",
         predicted_check);

static const struct ah_field move_fields[] = {
    AH_ROW_COUNT(ah_move, rank, 0, RANKS_MAX - 1, "The GPU that needs it, as the cluster numbers them."),
    AH_ROW_WORD(ah_move, place, ah_words_destination,
                "Needed in its own memory, or in its node's host memory."),
    AH_ROW_COUNT(ah_move, first_block, 0, AH_SHARD_BLOCKS_MAX - 1, "The lowest block."),
    AH_ROW_COUNT(ah_move, blocks, 1, AH_SHARD_BLOCKS_MAX, "Number of blocks."),
    {.name = "tied",
     AH_BOOL_AT(ah_move, tied),
     .flags = AH_FIELD_OPTIONAL,
     .about = "It is the table that embedding and head share."},
    AH_ROW_COUNT(ah_move, first_slice, 0, AH_SHARD_SLICES_MAX - 1, "The lowest slice."),
    AH_ROW_COUNT(ah_move, slices, 1, AH_SHARD_SLICES_MAX, "Number of blocks."),
    {.name = "kinds",
     .type = AH_FIELD_WORD,
     AH_LIST_OFFSETS(ah_move, kinds, unsigned *),
     .words = ah_words_shard_kind,
     .flags = AH_FIELD_UNIQUE,
     .min_items = 1,
     .max_items = AH_SHARD_KINDS,
     .about = "Weights, master copies, first and second moments."},
    AH_ROW_WORD(ah_move, tier, ah_words_tier, "The same node's memory, its disk, another node, or storage."),
    AH_ROW_WORD(ah_move, medium, ah_words_medium, "Kind of memory it is read from."),
    {.name = "node",
     AH_TEXT_AT(ah_move, node),
     .form = AH_TEXT_NAME,
     .flags = AH_FIELD_OPTIONAL,
     .about = "Node it is read from; storage has none."},
    {.name = "gpu",
     AH_COUNT_AT(ah_move, gpu),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .max = AH_INVENTORY_NO_GPU - 1,
     .fallback = AH_INVENTORY_NO_GPU,
     .about = "If it is read from a GPU's memory: index of the GPU in the node, from 0."},
    {.name = "via",
     AH_TEXT_AT(ah_move, via),
     .form = AH_TEXT_NAME,
     .flags = AH_FIELD_OPTIONAL,
     .about = "For storage: another node that fetches it and passes it on."},
    {.name = "relayed",
     AH_BOOL_AT(ah_move, relayed),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The source receives it in another move first."},
    AH_ROW_COUNT(ah_move, bytes, 1, AH_FIELD_COUNT_MAX, "Size of the shards."),
    {0}};
static const struct ah_rule move_rules[] = {
    {"tier", "storage", AH_RULE_IS, "medium", "storage", "must be storage if the tier is storage"},
    {"medium", "storage", AH_RULE_FORBIDS, "node", NULL, "does not go with storage"},
    {"via", NULL, AH_RULE_IS, "tier", "storage", "must be storage if 'via' names a node"},
    {"medium", "gpu", AH_RULE_REQUIRES, "gpu", NULL, "is missing; a GPU's memory needs it"},
    {0}};
static const struct ah_field_table move_table = {.name = "move",
                                                 .about = "Shards that a GPU gets from one place.",
                                                 .bytes = sizeof(struct ah_move),
                                                 .fields = move_fields,
                                                 .rules = move_rules};

static bool overlap(uint64_t a, uint64_t a_items, uint64_t b, uint64_t b_items)
{
    return a < b + b_items && b < a + a_items;
}

static bool share_a_kind(const struct ah_move *a, const struct ah_move *b)
{
    for (size_t i = 0; i < a->n_kinds; i++)
        for (size_t j = 0; j < b->n_kinds; j++)
            if (a->kinds[i] == b->kinds[j])
                return true;
    return false;
}

static bool same_shard(const struct ah_move *a, const struct ah_move *b)
{
    return a->tied == b->tied && overlap(a->first_block, a->blocks, b->first_block, b->blocks) &&
           overlap(a->first_slice, a->slices, b->first_slice, b->slices) && share_a_kind(a, b);
}

static int check_move(const struct ah_moves *moves, size_t i, struct ah_error *err)
{
    const struct ah_move *move = &moves->moves[i];
    if (move->first_block + move->blocks > moves->blocks)
        return ah_meaning_fail_item(err, "moves", i, "blocks", "goes beyond the model's %" PRIu64,
                                    moves->blocks);
    if (move->tied && (move->first_block || move->blocks > 1))
        return ah_meaning_fail_item(err, "moves", i, "tied", "the table is block 0's");
    if (move->first_slice + move->slices > moves->slices)
        return ah_meaning_fail_item(err, "moves", i, "slices", "goes beyond the %" PRIu64 " of a block",
                                    moves->slices);
    if (i && move->rank < moves->moves[i - 1].rank)
        return ah_meaning_fail_item(err, "moves", i, "rank", "is below that of the previous move");
    if (i >= RANK_MOVES_MAX && moves->moves[i - RANK_MOVES_MAX].rank == move->rank)
        return ah_meaning_fail_item(err, "moves", i, "rank", "has more than %d moves", RANK_MOVES_MAX);
    for (size_t j = i; j > 0 && moves->moves[j - 1].rank == move->rank; j--)
        if (same_shard(move, &moves->moves[j - 1]))
            return ah_meaning_fail_item(err, "moves", i, NULL, "moves the same states as moves[%zu]", j - 1);
    return AH_OK;
}

static int check_bytes(const struct ah_moves *moves, struct ah_error *err)
{
    static const char *const fields[AH_TIERS] = {"bytes.node", "bytes.disk", "bytes.peer", "bytes.storage"};
    const struct ah_moves_bytes *predicted = &moves->bytes;
    const uint64_t tiers[AH_TIERS] = {predicted->node, predicted->disk, predicted->peer, predicted->storage};
    uint64_t sums[AH_TIERS] = {0};
    double needed = (double)predicted->kept;
    for (size_t i = 0; i < moves->n_moves; i++)
        sums[moves->moves[i].tier] += moves->moves[i].bytes;
    for (size_t t = 0; t < AH_TIERS; t++) {
        needed += (double)tiers[t];
        if (sums[t] != tiers[t])
            return ah_meaning_fail(err, fields[t], "%" PRIu64 " is not the sum of its moves, %" PRIu64,
                                   tiers[t], sums[t]);
    }
    if (needed < (double)predicted->needed || needed > (double)predicted->needed)
        return ah_meaning_fail(err, "bytes.needed", "%" PRIu64 " is not the sum of what is kept and moved",
                               predicted->needed);
    return AH_OK;
}

static int moves_check(const void *group, struct ah_error *err)
{
    const struct ah_moves *moves = group;
    int rc = AH_OK;
    for (size_t i = 0; i < moves->n_moves && !rc; i++)
        rc = check_move(moves, i, err);
    return rc ? rc : check_bytes(moves, err);
}

static const struct ah_field moves_fields[] = {
    AH_FIELD_HEAD(ah_moves, kind_words),
    AH_ROW_GROUP(ah_moves, inputs, &inputs_table, "The documents that the moves were made from and for."),
    AH_ROW_COUNT(ah_moves, blocks, 3, AH_SHARD_BLOCKS_MAX, "Blocks of the model: embedding, layers, head."),
    AH_ROW_COUNT(ah_moves, slices, 1, AH_SHARD_SLICES_MAX,
                 "Equal parts into which the states of a block are cut."),
    AH_ROW_COUNT(ah_moves, step, 0, AH_FIELD_COUNT_MAX, "The step of all states."),
    AH_ROW_WORD(ah_moves, sources, ah_words_sources,
                "near: each byte comes from the nearest source; fast: from wherever the time is least."),
    AH_ROW_COUNT(ah_moves, horizon_steps, 0, AH_FIELD_COUNT_MAX,
                 "Steps over which the plan's speed was weighed against the moves."),
    AH_ROW_GROUP(ah_moves, bytes, &bytes_table, "Bytes by the way they arrive."),
    AH_ROW_GROUP(ah_moves, predicted, &predicted_table, "What the model of links and disks predicts."),
    {.name = "moves",
     AH_GROUPS_AT(ah_moves, moves, &move_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = MOVES_MAX,
     .about = "The moves: who gets what from where."},
    AH_FIELD_ANNOTATIONS(ah_moves),
    {0}};
AH_TABLE(moves, ah_moves, "moves", "How training states get to where a new cluster plan needs them.",
         moves_check);

const struct ah_kind ah_kind_moves = {
    .table = &moves_table, .alternatives = (const struct ah_field_table *const[]){&moves_table, NULL}};
