/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a status, and what must hold between them:
 * 1. Ranks are numbered from 0, in order.
 * 2. A rank that waits, waits for another rank of the list.
 */
#include "schemas/status.h"

#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"

#include <inttypes.h>

#define WORD(value, word) word,
const char *const ah_words_status_ended[] = {AH_STATUS_ENDED_WORDS(WORD) NULL};
const char *const ah_words_status_message[] = {AH_STATUS_MESSAGE_WORDS(WORD) NULL};
static const char *const op_words[] = {AH_PLAN_OP_WORDS(WORD) "none", NULL};
#undef WORD
_Static_assert(sizeof op_words / sizeof *op_words == AH_STATUS_NO_OP + 2, "a word each");

static const char *const kind_words[] = {"status", NULL};

enum { RANKS_MAX = 65536 };

#define MICRO_BATCH(tag, sentence)                                                                           \
    {                                                                                                        \
        .name = "micro_batch", AH_COUNT_AT(tag, micro_batch),                                                \
        .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT, .max = AH_STATUS_NO_MICRO_BATCH - 1,               \
        .fallback = AH_STATUS_NO_MICRO_BATCH, .about = (sentence)                                            \
    }

static const struct ah_field wait_fields[] = {
    AH_ROW_COUNT(ah_status_wait, rank, 0, RANKS_MAX - 1, "The rank that it waits for."),
    AH_ROW_WORD(ah_status_wait, message, ah_words_status_message, "The message that it waits for."),
    {.name = "sends",
     AH_BOOL_AT(ah_status_wait, sends),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Must the other rank take the message? Otherwise it must send it."},
    MICRO_BATCH(ah_status_wait, "For an output or gradient: its micro-batch in the pipeline."),
    AH_ROW_NUMBER(ah_status_wait, us, 1e18, "Length of the wait so far, checked about once a second."),
    {0}};
AH_TABLE(wait, ah_status_wait, "wait", "What a rank waits for.", NULL);

static const struct ah_field rank_fields[] = {
    AH_ROW_COUNT(ah_status_rank, rank, 0, RANKS_MAX - 1, "Its number."),
    {.name = "host", AH_TEXT_AT(ah_status_rank, host), .about = "Name of its host."},
    {.name = "node",
     AH_TEXT_AT(ah_status_rank, node),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Its node in the cluster plan."},
    AH_ROW_COUNT(ah_status_rank, step, 0, AH_FIELD_COUNT_MAX, "The last step known to be done."),
    {.name = "op",
     AH_WORD_AT(ah_status_rank, op, op_words),
     .flags = AH_FIELD_OPTIONAL,
     .fallback = AH_STATUS_NO_OP,
     .about = "Kind of its plan's op that is running, or next, on the compute lane."},
    {.name = "block",
     AH_TEXT_AT(ah_status_rank, block),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The op's block."},
    MICRO_BATCH(ah_status_rank, "The op's micro-batch in the pipeline."),
    {.name = "waits_for",
     AH_GROUP_AT(ah_status_rank, waits_for, &wait_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "What it waits for; absent: it works."},
    {.name = "silent_us",
     AH_NUMBER_AT(ah_status_rank, silent_us),
     .flags = AH_FIELD_OPTIONAL,
     .max = 1e18,
     .about = "Time since its last report; absent: up to date."},
    {0}};
AH_TABLE(rank, ah_status_rank, "rank", "Where a rank is.", NULL);

static const struct ah_field status_fields[] = {
    AH_FIELD_HEAD(ah_status, kind_words),
    {.name = "model", AH_TEXT_AT(ah_status, model), .about = "Name of the model."},
    AH_ROW_COUNT(ah_status, step, 0, AH_FIELD_COUNT_MAX, "Steps done, those before a resume included."),
    AH_ROW_COUNT(ah_status, steps, 0, AH_FIELD_COUNT_MAX, "Steps of the whole run."),
    AH_ROW_COUNT(ah_status, updated_us, 0, AH_FIELD_COUNT_MAX,
                 "Time of this status: microseconds since 1970, UTC."),
    {.name = "ended",
     AH_WORD_AT(ah_status, ended, ah_words_status_ended),
     .flags = AH_FIELD_OPTIONAL,
     .fallback = AH_STATUS_RUNS,
     .about = "How the run ended."},
    {.name = "ranks",
     AH_GROUPS_AT(ah_status, ranks, &rank_table),
     .min_items = 1,
     .max_items = RANKS_MAX,
     .about = "All ranks, in order."},
    AH_FIELD_ANNOTATIONS(ah_status),
    {0}};

static int status_check(const void *group, struct ah_error *err)
{
    const struct ah_status *status = group;
    for (size_t i = 0; i < status->n_ranks; i++) {
        const struct ah_status_rank *rank = &status->ranks[i];
        if (rank->rank != i)
            return ah_meaning_fail_item(err, "ranks", i, "rank",
                                        "%" PRIu64 " is not %zu, its place in the list", rank->rank, i);
        if (rank->waits_for && (rank->waits_for->rank >= status->n_ranks || rank->waits_for->rank == i))
            return ah_meaning_fail_item(err, "ranks", i, "waits_for.rank", "%" PRIu64 " is not another rank",
                                        rank->waits_for->rank);
    }
    return AH_OK;
}
AH_TABLE(status, ah_status, "status", "Where each rank of a run is, according to its last report.",
         status_check);

const struct ah_kind ah_kind_status = {
    .table = &status_table, .alternatives = (const struct ah_field_table *const[]){&status_table, NULL}};
