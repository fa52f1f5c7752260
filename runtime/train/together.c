/* SPDX-License-Identifier: Apache-2.0
 *
 * Together: lets ranks write and read a checkpoint at the same time, each its own blocks, if all see the folder
 * (checkpoint/checkpoint_folder.h). Rank 0 makes files, checks and commits. It sends other ranks an order and a note,
 * which they answer with a report. A failure is reported, and training continues unless the world is lost.
 *
 * Each block is written by the rank of the first pipeline that owns it. All ranks that hold a block read it, and report
 * the hash of the values. Copies of a split table are not read: rank 0 sends them once the table is verified.
 */
#include "runtime/train/checkpoint/shared.h"
#include "runtime/train/trainer_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The message after an order. */
struct note {
    char folder[PATH_MAX];        /* absolute path, since other ranks have other working folders */
    char text[AH_SHA256_HEX_MAX]; /* a token, or the sha256 of a manifest */
    uint64_t file_bytes;
    struct ah_sha256 hash; /* the hash of everything before the block */
};

struct report {
    int rc;
    char text[AH_ERROR_TEXT_MAX]; /* message of the failure */
    bool yes;
    struct ah_sha256 hash;
};

static int move_down(struct ah_trainer *t, uint32_t rank, void *data, uint64_t bytes, struct ah_error *err)
{
    return ah_links_move(t->ranks.links, t->ranks.links->other[rank].down, data, bytes, err);
}

static int move_up(struct ah_trainer *t, uint32_t rank, void *data, uint64_t bytes, struct ah_error *err)
{
    return ah_links_move(t->ranks.links, t->ranks.links->other[rank].up, data, bytes, err);
}

static bool holds(const struct ah_trainer *t, uint32_t rank, uint64_t block)
{
    const struct ah_trainer_stage *stage = &t->options.rank->stages[rank];
    return block >= stage->first_block && block - stage->first_block < stage->blocks;
}

static bool owns_any(const struct ah_trainer *t, uint32_t rank)
{
    uint64_t block = 0;
    while (block < ah_model_blocks(t->options.model) && t->options.rank->owner[block] != rank)
        block++;
    return block < ah_model_blocks(t->options.model);
}

static bool is_any(const struct ah_trainer *t, uint32_t rank)
{
    (void)t, (void)rank;
    return true;
}

static bool owns(const void *context, uint64_t block)
{
    const struct ah_trainer *t = context;
    return t->options.rank->owner[block] == t->options.rank->rank;
}

/* ---- rank 0 asks ---- */

/* A question to some ranks, namely those other than 0 for which `of` is true. */
struct asking {
    struct ah_trainer *t;
    struct ranks_order order;
    struct note note;
    bool (*of)(const struct ah_trainer *t, uint32_t rank);
};

static int ask_ranks(struct asking *asking, struct ah_error *err)
{
    const uint32_t ranks = asking->t->options.rank->ranks;
    int rc = AH_OK;
    for (uint32_t rank = 1; rank < ranks && !rc; rank++) {
        if (!asking->of(asking->t, rank))
            continue;
        rc = move_down(asking->t, rank, &asking->order, sizeof asking->order, err);
        rc = rc ? rc : move_down(asking->t, rank, &asking->note, sizeof asking->note, err);
    }
    return ah_ranks_fail(asking->t, rc, err);
}

static int hear_one(struct asking *asking, uint32_t rank, struct report *ret_report, struct ah_error *err)
{
    struct ah_trainer *t = asking->t;
    int rc = ah_ranks_fail(t, move_up(t, rank, ret_report, sizeof *ret_report, err), err);
    if (!rc && ret_report->rc)
        rc = ah_links_say(t->options.rank, rank, ret_report->rc, ret_report->text, err);
    return rc;
}

/* Reads the answers of all asked ranks, even after a failure, unless the world is lost. Returns the first failure. */
static int hear_answers(struct asking *asking, bool *ret_all, struct ah_error *err)
{
    struct report report;
    int first = AH_OK;
    *ret_all = true;
    for (uint32_t rank = 1; rank < asking->t->options.rank->ranks && !asking->t->ranks.ended; rank++) {
        if (!asking->of(asking->t, rank))
            continue;
        int rc = hear_one(asking, rank, &report, first ? NULL : err);
        first = first ? first : rc;
        *ret_all = *ret_all && !rc && report.yes;
    }
    return first;
}

/* Writes the absolute path of the folder into the note. Returns false if it is too long. */
static bool tell_folder(struct note *note, const char *folder)
{
    char here[PATH_MAX] = "";
    if (folder[0] != '/' && !getcwd(here, sizeof here))
        return false;
    const int length =
        snprintf(note->folder, sizeof note->folder, "%s%s%s", here, here[0] ? "/" : "", folder);
    return length < PATH_MAX;
}

/* True if rank 0 owns all blocks, so that no other rank would write. */
static bool owns_all(const struct ah_trainer *t)
{
    uint32_t rank = 1;
    while (rank < t->options.rank->ranks && !owns_any(t, rank))
        rank++;
    return rank == t->options.rank->ranks;
}

static int find_shared(struct asking *asking, bool *ret_shared, struct ah_error *err)
{
    struct ah_trainer *t = asking->t;
    const uint32_t ranks = t->options.rank->ranks;
    bool *answered = calloc(ranks, sizeof *answered), all = false;
    if (!answered)
        return ah_error_memory(err);
    for (uint32_t rank = 0; rank < ranks; rank++)
        answered[rank] = !rank || owns_any(t, rank);
    const bool offered = ah_shared_offer(asking->note.folder, asking->note.text);
    int rc = offered ? ask_ranks(asking, err) : AH_OK;
    if (!rc && offered)
        rc = hear_answers(asking, &all, err);
    const int removed =
        ah_shared_check(asking->note.folder, asking->note.text, answered, ranks, ret_shared, rc ? NULL : err);
    *ret_shared = *ret_shared && all;
    free(answered);
    return rc ? rc : removed;
}

static int meet_in_folder(void *context, const char *folder, bool *ret_together, struct ah_error *err)
{
    struct ah_trainer *t = context;
    struct asking asking = {.t = t, .order.kind = RANKS_MEET, .of = owns_any};
    int rc = AH_OK;
    bool shared = t->ranks.folder == RANKS_SHARED;
    if (t->ranks.folder == RANKS_UNKNOWN && !owns_all(t) && tell_folder(&asking.note, folder))
        rc = find_shared(&asking, &shared, err);
    if (rc)
        return rc;
    t->ranks.folder = shared ? RANKS_SHARED : RANKS_APART;
    *ret_together = shared;
    return AH_OK;
}

/* Makes all asked ranks and this one work at the same time. Returns when all have finished. */
static int work_together(struct asking *asking, const struct ah_checkpoint_job *job, const char *folder,
                         int (*work)(struct ah_trainer *t, const struct ah_checkpoint_job *job,
                                     const char *folder, struct ah_error *err),
                         struct ah_error *err)
{
    bool all;
    if (!tell_folder(&asking->note, folder))
        return ah_error_set(err, AH_E_IO, "%.300s: the name is too long; choose a shorter one", folder);
    asking->note.file_bytes = job->file_bytes;
    int rc = ask_ranks(asking, err);
    if (rc)
        return rc;
    rc = work(asking->t, job, folder, err);
    const int theirs = hear_answers(asking, &all, rc ? NULL : err);
    return rc ? rc : theirs;
}

static int fill_own(struct ah_trainer *t, const struct ah_checkpoint_job *job, const char *folder,
                    struct ah_error *err)
{
    const struct ah_checkpoint_source source = ah_persist_own_source(t);
    const struct ah_weights_part part = {owns, t};
    return ah_checkpoint_fill(job, &source, &part, folder, err);
}

static int read_own(struct ah_trainer *t, const struct ah_checkpoint_job *job, const char *folder,
                    struct ah_error *err)
{
    const struct ah_checkpoint_sink sink = ah_persist_own_sink(t);
    return ah_checkpoint_read(job, &sink, folder, err);
}

/* Makes all owners write. If one cannot, the next save asks again whether all see the folder. */
static int fill_together(void *context, const struct ah_checkpoint_job *job, const char *folder,
                         struct ah_error *err)
{
    struct ah_trainer *t = context;
    struct asking asking = {.t = t, .order.kind = RANKS_FILL, .of = owns_any};
    int rc = work_together(&asking, job, folder, fill_own, err);
    if (rc)
        t->ranks.folder = RANKS_UNKNOWN;
    return rc;
}

static int same(void *context, const char *folder, const char *sha256, bool *ret_together,
                struct ah_error *err)
{
    struct asking asking = {.t = context, .order.kind = RANKS_SAME, .of = is_any};
    bool all = false;
    snprintf(asking.note.text, sizeof asking.note.text, "%s", sha256);
    int rc = AH_OK;
    if (tell_folder(&asking.note, folder)) {
        rc = ask_ranks(&asking, err);
        rc = rc ? rc : hear_answers(&asking, &all, err);
    }
    *ret_together = all;
    return rc;
}

static int read_all(void *context, const struct ah_checkpoint_job *job, const char *folder,
                    struct ah_error *err)
{
    struct asking asking = {.t = context, .order.kind = RANKS_LOAD, .of = is_any};
    return work_together(&asking, job, folder, read_own, err);
}

/* ---- hashes ---- */

static int hash_own(struct ah_trainer *t, const struct ah_checkpoint_job *job, uint64_t block,
                    struct ah_sha256 *hash, struct ah_error *err)
{
    const struct ah_checkpoint_source source = ah_persist_own_source(t);
    ah_sha256_adopt(hash);
    return ah_checkpoint_hash(job, &source, block, hash, err);
}

static int order_hash(struct ah_trainer *t, uint32_t rank, uint64_t block, const struct ah_sha256 *hash,
                      struct ah_error *err)
{
    struct ranks_order order = {.kind = RANKS_HASH, .piece.block = block};
    struct note note = {.hash = *hash};
    int rc = move_down(t, rank, &order, sizeof order, err);
    return rc ? rc : move_down(t, rank, &note, sizeof note, err);
}

/* Continues the hash at the rank that owns the block. */
static int hash_saved(void *context, const struct ah_checkpoint_job *job, uint64_t block,
                      struct ah_sha256 *hash, struct ah_error *err)
{
    struct ah_trainer *t = context;
    struct asking asking = {.t = t};
    struct report report;
    const uint32_t owner = t->options.rank->owner[block];
    if (!owner)
        return hash_own(t, job, block, hash, err);
    int rc = ah_ranks_fail(t, order_hash(t, owner, block, hash, err), err);
    rc = rc ? rc : hear_one(&asking, owner, &report, err);
    if (!rc)
        *hash = report.hash;
    ah_sha256_adopt(hash);
    return rc;
}

static bool same_hash(const struct ah_sha256 *a, const struct ah_sha256 *b)
{
    return !memcmp(a->state, b->state, sizeof a->state) && a->total_bytes == b->total_bytes &&
           !memcmp(a->block, b->block, a->total_bytes % AH_SHA256_BLOCK_BYTES);
}

/* Continues the hash at all ranks that hold the block, at the same time. */
static int hash_loaded(void *context, const struct ah_checkpoint_job *job, uint64_t block,
                       struct ah_sha256 *hash, struct ah_error *err)
{
    struct ah_trainer *t = context;
    struct asking asking = {.t = t};
    const uint32_t ranks = t->options.rank->ranks;
    struct ah_sha256 found = *hash;
    bool any = holds(t, 0, block);
    int rc = AH_OK;
    for (uint32_t rank = 1; rank < ranks && !rc; rank++)
        rc = holds(t, rank, block) ? order_hash(t, rank, block, hash, err) : AH_OK;
    rc = ah_ranks_fail(t, rc, err);
    if (rc)
        return rc;
    rc = any ? hash_own(t, job, block, &found, err) : AH_OK;
    for (uint32_t rank = 1; rank < ranks && !t->ranks.ended; rank++) {
        struct report report;
        if (!holds(t, rank, block))
            continue;
        const int theirs = hear_one(&asking, rank, &report, rc ? NULL : err);
        rc = rc ? rc : theirs;
        if (!rc && any && !same_hash(&found, &report.hash))
            rc = ah_links_say(t->options.rank, rank, AH_E_DOCUMENT,
                              "it read states from the checkpoint that differ from other ranks'; the "
                              "checkpoint is damaged",
                              err);
        found = any ? found : report.hash;
        any = true;
    }
    *hash = found;
    ah_sha256_adopt(hash);
    return rc;
}

/* ---- copies ---- */

static int spread_vector(struct ah_trainer *t, enum ah_trainer_vector vector, struct ah_error *err)
{
    const struct ah_flat_tensor *table = &ah_state_flat(t, 0)->tensors[0];
    float *values = t->ranks.piece;
    int rc = AH_OK;
    for (uint64_t at = 0, n; at < table->elements && !rc; at += n) {
        n = table->elements - at < AH_WEIGHTS_PIECE_MAX ? table->elements - at : AH_WEIGHTS_PIECE_MAX;
        const struct ah_weights_piece piece = {.first = at, .element = table->first + at, .n = n};
        rc = ah_trainer_read(t, vector, &piece, values, err);
        rc = rc ? rc : ah_trainer_write(t, vector, &piece, values, err);
    }
    return rc;
}

/* Copies the table to heads with a copy of it. */
static int spread_table(void *context, struct ah_error *err)
{
    struct ah_trainer *t = context;
    const struct ah_trainer_rank *place = t->options.rank;
    const bool trained = ah_state_flat(t, 0)->tensors[0].trained;
    bool copied = false;
    for (uint32_t rank = 0; rank < place->ranks && t->options.model->tied; rank++)
        copied |= !holds(t, rank, 0) && holds(t, rank, ah_model_blocks(t->options.model) - 1);
    int rc = copied ? spread_vector(t, AH_TRAINER_WEIGHTS, err) : AH_OK;
    rc = rc || !copied || !trained ? rc : spread_vector(t, AH_TRAINER_M, err);
    return rc || !copied || !trained ? rc : spread_vector(t, AH_TRAINER_V, err);
}

/* ---- another rank answers ---- */

static int answer_order(struct ah_trainer *t, const struct ranks_order *order, struct note *note,
                        struct report *report, struct ah_error *err)
{
    const struct ah_checkpoint_job job = {.model = t->options.model,
                                          .signature = &t->options.plan->numeric_signature,
                                          .file_bytes = note->file_bytes};
    if (order->kind == RANKS_FILL)
        return fill_own(t, &job, note->folder, err);
    if (order->kind == RANKS_LOAD)
        return read_own(t, &job, note->folder, err);
    report->hash = note->hash;
    if (order->kind == RANKS_HASH)
        return hash_own(t, &job, order->piece.block, &report->hash, err);
    report->yes = order->kind == RANKS_SAME ? ah_checkpoint_is(note->folder, note->text)
                                            : ah_shared_answer(note->folder, note->text,
                                                               t->options.rank->rank, AH_SHARED_PATIENCE_MS);
    return AH_OK;
}

/* Obeys an order. A failure of this rank is reported to rank 0 and is not returned. */
int ah_together_obey(struct ah_trainer *t, const struct ranks_order *order, struct ah_error *err)
{
    struct note note;
    struct report report = {0};
    struct ah_error own = {0};
    int rc = move_down(t, 0, &note, sizeof note, err);
    if (rc)
        return rc;
    report.rc = answer_order(t, order, &note, &report, &own);
    snprintf(report.text, sizeof report.text, "%s", own.text);
    return move_up(t, 0, &report, sizeof report, err);
}

static bool may(const struct ah_trainer *t)
{
    return ah_ranks_leads(&t->ranks) && t->options.rank->ranks > 1 && !t->options.rank->saves_alone &&
           !t->options.rank->shards;
}

const struct ah_checkpoint_together *ah_together_saving(const struct ah_trainer *t)
{
    static const struct ah_checkpoint_together saving = {
        .meet = meet_in_folder, .fill = fill_together, .hash = hash_saved};
    return may(t) ? &saving : NULL;
}

const struct ah_checkpoint_together *ah_together_loading(const struct ah_trainer *t)
{
    static const struct ah_checkpoint_together loading = {
        .same = same, .read = read_all, .hash = hash_loaded, .spread = spread_table};
    return may(t) ? &loading : NULL;
}
