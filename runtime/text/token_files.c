/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents are collected in batches. Threads encode the documents of a batch; then they are written in their order, so
 * the files do not depend on the threads.
 */
#include "runtime/text/token_files.h"

#include "base/arena.h"
#include "base/pool.h"
#include "runtime/text/inputs_internal.h"
#include "runtime/text/token_files_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_DOCUMENTS = 1024, BATCH_BYTES = 1 << 22 };

/* A document of the batch, before and after it is encoded. */
struct pending {
    const struct ah_record_part *parts;
    size_t n;
    bool held_out;
    struct ah_text_ids ids;   /* owned, and used again */
    struct ah_buffer learned; /* a byte for each id; owned */
    int rc;
    struct ah_error err;
};

/* What becomes of documents of one kind. */
struct set {
    struct ah_shards shards;
    struct ah_align align;
};

struct making {
    const struct ah_token_files_options *options;
    struct ah_pool *pool;
    struct set train, held_out;
    struct pending *batch; /* owned */
    size_t n_batch, batch_bytes;
    struct ah_arena arena;    /* texts of the batch */
    uint64_t records, silent; /* records of the file in hand; documents without anything learned */
    uint64_t done_bytes, all_bytes;
    struct ah_records *reader;
};

/* ---- encoding ---- */

static bool add_learned(struct pending *pending, bool learned)
{
    const size_t had = pending->learned.size, n = pending->ids.n - had;
    if (!ah_buffer_reserve(&pending->learned, n))
        return false;
    memset(pending->learned.data + had, learned, n);
    pending->learned.size += n;
    return true;
}

/* Encodes a document's parts, and ends it. */
static void encode(void *context, size_t i, unsigned worker)
{
    const struct making *making = context;
    const struct ah_token_files_options *options = making->options;
    struct pending *pending = &making->batch[i];
    (void)worker;
    pending->ids.n = 0;
    ah_buffer_clear(&pending->learned);
    int rc = AH_OK;
    for (size_t k = 0; k < pending->n && !rc; k++) {
        const struct ah_record_part *part = &pending->parts[k];
        rc = ah_text_encode(options->tokenizer, part->text, part->size, &pending->ids, &pending->err);
        if (!rc && !add_learned(pending, part->learned))
            rc = ah_error_memory(&pending->err);
    }
    const bool ends = options->end != UINT32_MAX;
    if (!rc && ends && (!ah_text_ids_add(&pending->ids, options->end) || !add_learned(pending, true)))
        rc = ah_error_memory(&pending->err);
    pending->rc = rc;
}

/* ---- batches ---- */

static int put_document(struct making *making, const struct pending *pending, struct ah_error *err)
{
    struct set *set = pending->held_out ? &making->held_out : &making->train;
    const struct ah_document_tokens document = {pending->ids.items,
                                                (const unsigned char *)pending->learned.data, pending->ids.n};
    if (pending->rc)
        return *err = pending->err, pending->rc;
    making->silent += document.n && !memchr(document.learned, 1, document.n);
    return making->options->align ? ah_align_add(&set->align, &document, err)
                                  : ah_shards_add(&set->shards, &document, err);
}

/* Encodes and writes the batch. `bytes` of the file are read. */
static int finish_batch(struct making *making, uint64_t bytes, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    int rc = AH_OK;
    ah_pool_run(making->pool, encode, making, making->n_batch);
    for (size_t i = 0; i < making->n_batch && !rc; i++)
        rc = put_document(making, &making->batch[i], err);
    making->n_batch = making->batch_bytes = 0;
    ah_arena_release(&making->arena);
    if (!rc && options->progress &&
        !options->progress(options->context, making->done_bytes + bytes, making->all_bytes))
        rc = ah_error_set(err, AH_E_INTERRUPTED, "interrupted; nothing was written");
    return rc;
}

static void add_pending(struct making *making, const struct ah_record_part *parts, size_t n, bool held_out)
{
    struct pending *pending = &making->batch[making->n_batch++];
    pending->parts = parts;
    pending->n = n;
    pending->held_out = held_out;
    for (size_t i = 0; i < n; i++)
        making->batch_bytes += parts[i].size;
}

/* Cuts a text in two, at the end of a line; the second part has about the share that is held out. */
static size_t cut_of(const struct ah_record_part *text, double share)
{
    size_t at = (size_t)((double)text->size * (1 - share)) + 1;
    at = at < text->size ? at : text->size;
    while (share > 0 && at && text->text[at - 1] != '\n')
        at--;
    return share > 0 && at ? at : text->size;
}

/* Takes a whole file of text, which is borrowed only until this returns. */
static int take_text(struct making *making, const struct ah_record_part *text, uint64_t bytes,
                     struct ah_error *err)
{
    const size_t cut = cut_of(text, making->options->held_out);
    const struct ah_record_part parts[] = {{text->text, cut, true},
                                           {text->text + cut, text->size - cut, true}};
    int rc = finish_batch(making, 0, err);
    if (rc)
        return rc;
    add_pending(making, &parts[0], 1, false);
    if (parts[1].size)
        add_pending(making, &parts[1], 1, true);
    return finish_batch(making, bytes, err);
}

/* Copies a record's texts, which are borrowed, to the batch. */
static int copy_record(struct making *making, const struct ah_record *record, bool held_out,
                       struct ah_error *err)
{
    struct ah_record_part *parts = ah_arena_array(&making->arena, record->n, sizeof *parts);
    for (size_t i = 0; i < record->n && parts; i++) {
        const struct ah_record_part *part = &record->parts[i];
        char *text = ah_arena_alloc(&making->arena, part->size + 1);
        if (!text)
            return ah_error_memory(err);
        memcpy(text, part->text, part->size);
        parts[i] = (struct ah_record_part){text, part->size, part->learned};
    }
    if (!parts)
        return ah_error_memory(err);
    add_pending(making, parts, record->n, held_out);
    return AH_OK;
}

static int take_record(void *context, const struct ah_record *record, uint64_t bytes, struct ah_error *err)
{
    struct making *making = context;
    const double share = making->options->held_out;
    const uint64_t i = making->records++;
    const bool held_out = (uint64_t)((double)(i + 1) * share) > (uint64_t)((double)i * share);
    if (record->is_text)
        return take_text(making, &record->parts[0], bytes, err);
    const int rc = copy_record(making, record, held_out, err);
    const bool full = making->n_batch == BATCH_DOCUMENTS || making->batch_bytes >= BATCH_BYTES;
    return rc || !full ? rc : finish_batch(making, bytes, err);
}

/* ---- the whole ---- */

static uint64_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) ? 0 : (uint64_t)about.st_size;
}

static int read_inputs(struct making *making, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    int rc = AH_OK;
    for (size_t i = 0; i < options->n_inputs; i++)
        making->all_bytes += size_of(options->inputs[i]);
    for (size_t i = 0; i < options->n_inputs && !rc; i++) {
        making->records = 0;
        rc = ah_records_read(making->reader, options->inputs[i], err);
        rc = rc ? rc : finish_batch(making, size_of(options->inputs[i]), err);
        making->done_bytes += size_of(options->inputs[i]);
    }
    if (!rc && options->align) {
        rc = ah_align_finish(&making->train.align, err);
        rc = rc ? rc : ah_align_finish(&making->held_out.align, err);
    }
    return rc;
}

static int check_made(const struct making *making, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    if (!making->train.shards.counts.tokens && making->train.shards.counts.dropped)
        return ah_error_set(
            err, AH_E_USAGE,
            "every document is longer than '--align' %llu, and nothing learned is left of it; take "
            "a longer sequence",
            (unsigned long long)options->align);
    if (!making->train.shards.counts.tokens)
        return ah_error_set(err, AH_E_USAGE, "the inputs hold no text to train on");
    if (options->held_out > 0 && !making->held_out.shards.counts.tokens)
        return ah_error_set(
            err, AH_E_USAGE,
            "nothing is left to hold out: give more documents, or text of more lines, or a larger "
            "'--val'");
    return AH_OK;
}

static bool masks_of(const struct ah_shards *shards)
{
    return shards->counts.learned < shards->counts.tokens;
}

static int make_all(struct making *making, struct ah_error *err)
{
    struct ah_shards *train = &making->train.shards, *held_out = &making->held_out.shards;
    int rc = read_inputs(making, err);
    rc = rc ? rc : check_made(making, err);
    rc = rc ? rc : ah_shards_close(train, err);
    rc = rc ? rc : ah_shards_close(held_out, err);
    const bool masks = masks_of(train) || masks_of(held_out);
    rc = rc ? rc : ah_shards_publish(train, masks, err);
    return rc ? rc : ah_shards_publish(held_out, masks, err);
}

static int prepare(struct making *making, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    const struct ah_pool_options threads = {.threads = options->threads};
    making->batch = calloc(BATCH_DOCUMENTS, sizeof *making->batch);
    int rc = making->batch ? ah_pool_new(&making->pool, &threads, err) : ah_error_memory(err);
    if (!rc && options->align) {
        rc = ah_align_init(&making->train.align, &making->train.shards, err);
        rc = rc ? rc : ah_align_init(&making->held_out.align, &making->held_out.shards, err);
    }
    return rc;
}

static void release(struct making *making)
{
    ah_pool_free(making->pool);
    for (size_t i = 0; i < BATCH_DOCUMENTS && making->batch; i++) {
        ah_text_ids_release(&making->batch[i].ids);
        ah_buffer_release(&making->batch[i].learned);
    }
    free(making->batch);
    ah_arena_release(&making->arena);
    ah_align_release(&making->train.align);
    ah_align_release(&making->held_out.align);
    ah_shards_release(&making->train.shards);
    ah_shards_release(&making->held_out.shards);
}

int ah_token_files_make(const struct ah_token_files_options *options, struct ah_token_files_made *ret_made,
                        struct ah_error *err)
{
    struct making making = {.options = options,
                            .train.shards = {.options = options, .name = "train"},
                            .held_out.shards = {.options = options, .name = "val"}};
    struct ah_records reader = {.take = take_record, .context = &making};
    making.reader = &reader;
    const bool made = !mkdir(options->folder, 0777);
    int rc = AH_OK;
    if (!made && errno != EEXIST)
        rc = ah_error_set(err, AH_E_IO, "%s: cannot be made: %s", options->folder, strerror(errno));
    rc = rc ? rc : prepare(&making, err);
    rc = rc ? rc : make_all(&making, err);
    *ret_made = (struct ah_token_files_made){making.train.shards.counts, making.held_out.shards.counts,
                                             making.silent, reader.replaced};
    release(&making);
    if (rc && made)
        rmdir(options->folder);
    return rc;
}
