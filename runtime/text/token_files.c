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
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH_DOCUMENTS = 1024, BATCH_BYTES = 1 << 22 };

/* A record of the batch, and its tokens. */
struct pending {
    struct ah_record record; /* borrows from the batch's arena */
    bool held_out;
    uint32_t copies; /* at least 1 */
    struct ah_made_tokens made;
    struct ah_chat_counts counts;
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
    struct ah_arena arena;  /* texts of the batch */
    size_t input;           /* the file in hand */
    uint64_t read, records; /* its records: all, and those that are taken */
    uint64_t silent;        /* documents without anything learned */
    uint64_t done_bytes, all_bytes;
    struct ah_chat_counts chats;
    struct ah_token_lengths *lengths; /* NULL: documents are written */
    struct ah_records *reader;
};

/* ---- encoding ---- */

/* Adds a token of its own, if there is one. */
static int add_token(struct ah_made_tokens *made, uint32_t token, bool learned, struct ah_error *err)
{
    if (token == UINT32_MAX)
        return AH_OK;
    ah_buffer_append(&made->learned, &(char){learned}, 1);
    return ah_text_ids_add(&made->ids, token) && !made->learned.failed ? AH_OK : ah_error_memory(err);
}

/* Encodes the parts of a document, with tokens before and after them. Nothing predicts the first token. */
static int encode_document(const struct ah_token_files_options *options, struct pending *pending)
{
    struct ah_made_tokens *made = &pending->made;
    struct ah_error *err = &pending->err;
    const bool learns_all = pending->record.n && pending->record.parts[0].learned;
    int rc = add_token(made, options->begin, learns_all, err);
    for (size_t i = 0; i < pending->record.n && !rc; i++) {
        const struct ah_record_part *part = &pending->record.parts[i];
        rc = ah_made_tokens_add(options->tokenizer, part->text, part->size, part->learned, made, err);
    }
    rc = rc ? rc : add_token(made, options->end, true, err);
    rc = rc ? rc : ah_made_tokens_end(made, err);
    return rc && pending->record.place ? ah_error_prefix(err, rc, "%s", pending->record.place) : rc;
}

static int encode_conversation(const struct ah_token_files_options *options, struct pending *pending)
{
    const struct ah_record *record = &pending->record;
    struct ah_error *err = &pending->err;
    if (!options->chat)
        return ah_error_set(err, AH_E_UNSUPPORTED, "%s: is a conversation, but %s", record->place,
                            options->no_chat);
    const int rc =
        ah_chat_tokens(options, record->messages, record->n_messages, &pending->made, &pending->counts, err);
    return rc ? ah_error_prefix(err, rc, "%s", record->place) : AH_OK;
}

static void encode(void *context, size_t i, unsigned worker)
{
    const struct making *making = context;
    struct pending *pending = &making->batch[i];
    (void)worker;
    pending->made.ids.n = pending->made.ends.n = 0;
    ah_buffer_clear(&pending->made.learned);
    pending->counts = (struct ah_chat_counts){0};
    pending->rc = pending->record.messages ? encode_conversation(making->options, pending)
                                           : encode_document(making->options, pending);
}

/* ---- batches ---- */

static void count_length(struct ah_token_lengths *lengths, const struct ah_document_tokens *document)
{
    if (!document->n || !memchr(document->learned, 0, document->n))
        return;
    const size_t step = (document->n - 1) / AH_LENGTH_STEP;
    lengths->documents++;
    lengths->by_length[step < AH_LENGTHS ? step : AH_LENGTHS - 1]++;
}

static int put_document(struct making *making, struct set *set, const struct ah_document_tokens *document,
                        struct ah_error *err)
{
    if (making->lengths) {
        count_length(making->lengths, document);
        return AH_OK;
    }
    return making->options->align ? ah_align_add(&set->align, document, err)
                                  : ah_shards_add(&set->shards, document, err);
}

/* Counts what was unusual of a record, once however often it is taken. */
static void count_record(struct making *making, const struct pending *pending)
{
    const struct ah_made_tokens *made = &pending->made;
    for (size_t i = 0, at = 0; i < made->ends.n; at = made->ends.items[i++]) {
        const size_t n = made->ends.items[i] - at;
        making->silent += n && !memchr(made->learned.data + at, 1, n);
    }
    making->chats.conversations += pending->counts.conversations;
    making->chats.split += pending->counts.split;
    making->chats.apart += pending->counts.apart;
    making->chats.special += pending->counts.special;
}

static int put_record(struct making *making, const struct pending *pending, struct ah_error *err)
{
    struct set *set = pending->held_out ? &making->held_out : &making->train;
    const struct ah_made_tokens *made = &pending->made;
    if (pending->rc)
        return *err = pending->err, pending->rc;
    int rc = AH_OK;
    for (size_t i = 0, at = 0; i < made->ends.n && !rc; at = made->ends.items[i++]) {
        const struct ah_document_tokens document = {
            made->ids.items + at, (const unsigned char *)made->learned.data + at, made->ends.items[i] - at};
        rc = put_document(making, set, &document, err);
    }
    return rc;
}

/* Writes the batch, then those of its records that are taken again, and so on: copies lie apart. */
static int put_batch(struct making *making, struct ah_error *err)
{
    int rc = AH_OK;
    uint32_t most = 1;
    for (uint32_t copy = 0; copy < most; copy++)
        for (size_t i = 0; i < making->n_batch && !rc; i++) {
            const struct pending *pending = &making->batch[i];
            if (!copy)
                count_record(making, pending);
            if (copy < pending->copies)
                rc = put_record(making, pending, err);
            most = pending->copies > most ? pending->copies : most;
        }
    return rc;
}

/* Reports that `bytes` of the file are read. */
static int go_on(const struct making *making, uint64_t bytes, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    if (!options->progress ||
        options->progress(options->context, making->done_bytes + bytes, making->all_bytes))
        return AH_OK;
    return ah_error_set(err, AH_E_INTERRUPTED, "interrupted; nothing was written");
}

/* Encodes and writes the batch. `bytes` of the file are read. */
static int finish_batch(struct making *making, uint64_t bytes, struct ah_error *err)
{
    ah_pool_run(making->pool, encode, making, making->n_batch);
    const int rc = put_batch(making, err);
    making->n_batch = making->batch_bytes = 0;
    ah_arena_release(&making->arena);
    return rc ? rc : go_on(making, bytes, err);
}

/* Adds a record to the batch. Held-out ones are taken once. */
static struct pending *add_pending(struct making *making, const struct ah_record *record, bool held_out,
                                   uint32_t copies)
{
    struct pending *pending = &making->batch[making->n_batch++];
    pending->record = *record;
    pending->held_out = held_out;
    pending->copies = held_out ? 1 : copies;
    return pending;
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

/* Returns the size of the beginning that has about this share of the text: whole lines; of one line, letters. */
static size_t beginning_of(const char *text, size_t size, double share)
{
    const size_t wanted = (size_t)((double)size * share + 0.5);
    size_t at = wanted < size ? wanted : size;
    while (at && text[at - 1] != '\n')
        at--;
    for (at = at ? at : wanted; at && at < size && ((unsigned char)text[at] & 0xC0) == 0x80;)
        at--;
    return at;
}

static void add_text(struct making *making, const char *text, size_t size, bool held_out, uint32_t copies,
                     const char *place)
{
    const struct ah_record record = {.parts = {{text, size, true}}, .n = 1, .place = place};
    if (size && copies)
        add_pending(making, &record, held_out, copies);
}

/* Takes a whole file of text, which is borrowed only until this returns. A weight's fraction is a part of the text. */
static int take_text(struct making *making, const struct ah_record *record, uint64_t bytes,
                     struct ah_error *err)
{
    const struct ah_mix *mix = making->options->mix;
    const double weight = mix ? mix->inputs[making->input].weight : 1, whole = floor(weight);
    struct ah_record_part text = record->parts[0];
    int rc = finish_batch(making, 0, err);
    if (rc)
        return rc;
    if (weight < 1)
        text.size = beginning_of(text.text, text.size, weight);
    const size_t cut = cut_of(&text, making->options->held_out);
    add_text(making, text.text, cut, false, weight < 1 ? 1 : (uint32_t)whole, record->place);
    if (weight > whole && whole > 0)
        add_text(making, text.text, beginning_of(text.text, cut, weight - whole), false, 1, record->place);
    add_text(making, text.text + cut, text.size - cut, true, 1, record->place);
    return finish_batch(making, bytes, err);
}

/* Copies a borrowed text to the batch. Returns NULL if there is no memory. */
static const char *copy_text(struct making *making, const char *text, size_t size)
{
    char *copy = ah_arena_alloc(&making->arena, size + 1);
    if (copy && size)
        memcpy(copy, text, size);
    making->batch_bytes += size;
    return copy;
}

/* Copies a borrowed record to the batch. */
static int copy_record(struct making *making, const struct ah_record *record, bool held_out, uint32_t copies,
                       struct ah_error *err)
{
    struct ah_record *copy = &add_pending(making, record, held_out, copies)->record;
    struct ah_chat_message *messages =
        ah_arena_array(&making->arena, record->n_messages + 1, sizeof *messages);
    bool copied = messages && (copy->place = copy_text(making, record->place, strlen(record->place)));
    for (size_t i = 0; i < record->n && copied; i++)
        copied = (copy->parts[i].text = copy_text(making, record->parts[i].text, record->parts[i].size));
    for (size_t i = 0; i < record->n_messages && copied; i++) {
        messages[i] = record->messages[i];
        copied = (messages[i].text = copy_text(making, messages[i].text, messages[i].size));
    }
    if (record->messages)
        copy->messages = messages;
    return copied ? AH_OK : ah_error_memory(err);
}

static int take_record(void *context, const struct ah_record *record, uint64_t bytes, struct ah_error *err)
{
    struct making *making = context;
    const struct ah_mix *mix = making->options->mix;
    const double share = making->options->held_out;
    const uint64_t number = making->read++;
    if (record->is_text)
        return take_text(making, record, bytes, err);
    const uint32_t copies = mix ? ah_mix_copies(mix, making->input, number) : 1;
    if (!copies)
        return number % BATCH_DOCUMENTS ? AH_OK : go_on(making, bytes, err);
    const uint64_t i = making->records++;
    const bool held_out = (uint64_t)((double)(i + 1) * share) > (uint64_t)((double)i * share);
    const int rc = copy_record(making, record, held_out, copies, err);
    const bool full = making->n_batch == BATCH_DOCUMENTS || making->batch_bytes >= BATCH_BYTES;
    return rc || !full ? rc : finish_batch(making, bytes, err);
}

/* ---- the whole ---- */

static uint64_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) ? 0 : (uint64_t)about.st_size;
}

/* Returns what the set has of all inputs so far. */
static struct ah_mix_part amount_of(const struct making *making, const struct set *set)
{
    const struct ah_token_files_set *counts = &set->shards.counts;
    return making->options->align ? set->align.added
                                  : (struct ah_mix_part){counts->documents, counts->tokens};
}

/* Counts what became of the file in hand, which is finished: what the sets have, without what others before gave. */
static void count_input(struct making *making)
{
    struct ah_mix *mix = making->options->mix;
    struct ah_mix_part train = amount_of(making, &making->train),
                       held_out = amount_of(making, &making->held_out);
    if (!mix || making->lengths)
        return;
    for (size_t i = 0; i < making->input; i++) {
        train.documents -= mix->inputs[i].train.documents;
        train.tokens -= mix->inputs[i].train.tokens;
        held_out.documents -= mix->inputs[i].held_out.documents;
        held_out.tokens -= mix->inputs[i].held_out.tokens;
    }
    mix->inputs[making->input].read = making->read;
    mix->inputs[making->input].train = train;
    mix->inputs[making->input].held_out = held_out;
}

static int read_inputs(struct making *making, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    int rc = AH_OK;
    for (size_t i = 0; i < options->n_inputs; i++)
        making->all_bytes += size_of(options->inputs[i]);
    for (size_t i = 0; i < options->n_inputs && !rc; i++) {
        making->input = i;
        making->read = making->records = 0;
        rc = ah_records_read(making->reader, options->inputs[i], err);
        rc = rc ? rc : finish_batch(making, size_of(options->inputs[i]), err);
        making->done_bytes += size_of(options->inputs[i]);
        count_input(making);
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

/* Names the file with the inputs. False: its name is too long for a file that exists. */
static bool name_inputs(const char *folder, char ret_path[PATH_MAX])
{
    return snprintf(ret_path, PATH_MAX, "%s/%s", folder, AH_MIX_FILE) < PATH_MAX;
}

/* Refuses a folder with the inputs of other token files. */
static int check_folder(const char *folder, struct ah_error *err)
{
    char path[PATH_MAX];
    if (name_inputs(folder, path) && !access(path, F_OK))
        return ah_error_set(err, AH_E_IO, "%s: exists already; take another folder, or remove it", path);
    return AH_OK;
}

/* Gives the files their names, the one with the inputs first. */
static int publish(const struct making *making, struct ah_error *err)
{
    const struct ah_shards *train = &making->train.shards, *held_out = &making->held_out.shards;
    const bool masks = masks_of(train) || masks_of(held_out);
    const struct ah_mix *mix = making->options->mix;
    const char *folder = making->options->folder;
    char path[PATH_MAX];
    int rc = mix ? ah_mix_save(mix, folder, err) : AH_OK;
    if (rc)
        return rc;
    rc = ah_shards_publish(train, masks, err);
    rc = rc ? rc : ah_shards_publish(held_out, masks, err);
    if (rc && mix && name_inputs(folder, path))
        unlink(path);
    return rc;
}

static int make_all(struct making *making, struct ah_error *err)
{
    struct ah_shards *train = &making->train.shards, *held_out = &making->held_out.shards;
    int rc = read_inputs(making, err);
    rc = rc ? rc : check_made(making, err);
    rc = rc ? rc : ah_shards_close(train, err);
    rc = rc ? rc : ah_shards_close(held_out, err);
    return rc ? rc : publish(making, err);
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
        ah_text_ids_release(&making->batch[i].made.ids);
        ah_text_ids_release(&making->batch[i].made.ends);
        ah_buffer_release(&making->batch[i].made.learned);
    }
    free(making->batch);
    ah_arena_release(&making->arena);
    ah_align_release(&making->train.align);
    ah_align_release(&making->held_out.align);
    if (making->lengths)
        return;
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
    rc = rc ? rc : check_folder(options->folder, err);
    rc = rc ? rc : prepare(&making, err);
    rc = rc ? rc : make_all(&making, err);
    *ret_made = (struct ah_token_files_made){making.train.shards.counts, making.held_out.shards.counts,
                                             making.chats, making.silent, reader.replaced};
    release(&making);
    if (rc && made)
        rmdir(options->folder);
    return rc;
}

int ah_token_files_measure(const struct ah_token_files_options *options, struct ah_token_lengths *ret_lengths,
                           struct ah_error *err)
{
    struct ah_token_files_options changed = *options;
    struct making making = {.options = &changed, .lengths = ret_lengths};
    struct ah_records reader = {.take = take_record, .context = &making};
    *ret_lengths = (struct ah_token_lengths){0};
    changed.align = 0;
    making.reader = &reader;
    int rc = prepare(&making, err);
    rc = rc ? rc : read_inputs(&making, err);
    release(&making);
    return rc;
}
