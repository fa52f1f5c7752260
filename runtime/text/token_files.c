/* SPDX-License-Identifier: Apache-2.0
 *
 * Files are written under temporary names, synced, and get their names when all are complete, so a program that reads
 * the folder never sees half a data set. The header is that of docs/data.md.
 */
#include "runtime/text/token_files.h"

#include "base/buffer.h"
#include "runtime/text/records_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 64, VERSION = 1, NARROW_MOST = 1 << 16 };
enum file { TOKENS, MASK, DOCS, FILES };

static const uint64_t shard_tokens_default = 100000000;
static const char *const endings[FILES] = {"", ".mask", ".docs"};

/* Files of one name: train-00000.bin, train-00001.bin and so on. */
struct set {
    const struct ah_token_files_options *options;
    const char *name;
    FILE *open[FILES];
    uint64_t in_file; /* tokens of the open file */
    bool wide;        /* 32 bits a token */
    struct ah_token_files_set counts;
};

struct making {
    const struct ah_token_files_options *options;
    struct set train, held_out;
    struct ah_text_ids ids;
    uint64_t records, silent; /* records of the file in hand; documents without anything learned */
    uint64_t done_bytes, all_bytes;
    struct ah_records *reader;
};

/* ---- files ---- */

static int name_file(const struct set *set, uint64_t number, enum file file, const char *end,
                     char ret_path[PATH_MAX], struct ah_error *err)
{
    if (snprintf(ret_path, PATH_MAX, "%s/%s-%05" PRIu64 ".bin%s%s", set->options->folder, set->name, number,
                 endings[file], end) >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", set->options->folder);
    return AH_OK;
}

static int fail(const char *path, struct ah_error *err)
{
    return ah_error_set(err, AH_E_IO, "%s: cannot be written: %s", path, strerror(errno));
}

static void put_number(unsigned char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number >> 8 * i);
}

static bool write_header(const struct set *set)
{
    unsigned char header[HEADER_BYTES] = "AHTOKENS";
    put_number(header + 8, VERSION, 4);
    put_number(header + 12, set->wide ? 4 : 2, 4);
    put_number(header + 16, set->in_file, 8);
    put_number(header + 24, ah_text_tokenizer_vocabulary(set->options->tokenizer), 8);
    return !fseek(set->open[TOKENS], 0, SEEK_SET) && fwrite(header, sizeof header, 1, set->open[TOKENS]) == 1;
}

/* Closes the open files, with their contents on the disk. */
static int close_files(struct set *set, struct ah_error *err)
{
    char path[PATH_MAX];
    if (!set->open[TOKENS])
        return AH_OK;
    bool good = write_header(set);
    for (int file = 0; file < FILES; file++) {
        good = !fflush(set->open[file]) && !fsync(fileno(set->open[file])) && good;
        good = !fclose(set->open[file]) && good;
        set->open[file] = NULL;
    }
    int rc = name_file(set, set->counts.files - 1, TOKENS, ".tmp", path, err);
    return rc || good ? rc : fail(path, err);
}

static int begin_files(struct set *set, struct ah_error *err)
{
    static const unsigned char zeros[HEADER_BYTES];
    char path[PATH_MAX];
    int rc = close_files(set, err);
    for (int file = 0; file < FILES && !rc; file++) {
        rc = name_file(set, set->counts.files, (enum file)file, "", path, err);
        if (!rc && !access(path, F_OK))
            rc = ah_error_set(err, AH_E_IO, "%s: exists already; take another folder, or remove it", path);
        rc = rc ? rc : name_file(set, set->counts.files, (enum file)file, ".tmp", path, err);
        if (!rc && !(set->open[file] = fopen(path, "we")))
            rc = fail(path, err);
    }
    set->counts.files += !rc;
    set->in_file = 0;
    if (!rc && fwrite(zeros, sizeof zeros, 1, set->open[TOKENS]) != 1)
        rc = fail(path, err);
    return rc;
}

static bool write_ids(const struct set *set, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char token[4];
        put_number(token, ids[i], 4);
        if (fwrite(token, set->wide ? 4 : 2, 1, set->open[TOKENS]) != 1)
            return false;
    }
    return true;
}

/* Writes one document: `n` tokens, of which those from `learned_from` on are learned. */
static int write_document(struct set *set, const uint32_t *ids, size_t n, size_t learned_from,
                          struct ah_error *err)
{
    const uint64_t most = set->options->shard_tokens ? set->options->shard_tokens : shard_tokens_default;
    unsigned char place[8];
    char path[PATH_MAX];
    int rc = AH_OK;
    if (!n)
        return AH_OK;
    if (!set->open[TOKENS] || (set->in_file && set->in_file + n > most))
        rc = begin_files(set, err);
    if (rc)
        return rc;
    put_number(place, set->in_file, sizeof place);
    bool good = fwrite(place, sizeof place, 1, set->open[DOCS]) == 1 && write_ids(set, ids, n);
    for (size_t i = 0; i < n && good; i++)
        good = fputc(i >= learned_from, set->open[MASK]) != EOF;
    set->in_file += n;
    set->counts.tokens += n;
    set->counts.learned += n - learned_from;
    set->counts.documents++;
    rc = name_file(set, set->counts.files - 1, TOKENS, ".tmp", path, err);
    return rc || good ? rc : fail(path, err);
}

/* Gives the files their names. Without masked tokens there is no mask. */
static int publish(const struct set *set, bool masks, struct ah_error *err)
{
    static const enum file order[] = {DOCS, MASK, TOKENS};
    char from[PATH_MAX], to[PATH_MAX];
    int rc = AH_OK;
    for (uint64_t number = 0; number < set->counts.files && !rc; number++)
        for (size_t i = 0; i < FILES && !rc; i++) {
            rc = name_file(set, number, order[i], ".tmp", from, err);
            rc = rc ? rc : name_file(set, number, order[i], "", to, err);
            if (!rc && (order[i] == MASK && !masks ? unlink(from) : rename(from, to)))
                rc = fail(to, err);
        }
    return rc;
}

/* Removes what was not published. */
static void discard(struct set *set)
{
    char path[PATH_MAX];
    for (int file = 0; file < FILES; file++) {
        if (set->open[file])
            fclose(set->open[file]);
        set->open[file] = NULL;
        for (uint64_t number = 0; number <= set->counts.files; number++)
            if (!name_file(set, number, (enum file)file, ".tmp", path, NULL))
                unlink(path);
    }
}

/* ---- documents ---- */

/* Encodes a document's parts and writes it. */
static int make_document(struct making *making, struct set *set, const struct ah_record *record,
                         struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    size_t learned_from = 0;
    int rc = AH_OK;
    making->ids.n = 0;
    for (size_t i = 0; i < record->n && !rc; i++) {
        rc = ah_text_encode(options->tokenizer, record->parts[i].text, record->parts[i].size, &making->ids,
                            err);
        learned_from = record->parts[i].learned ? learned_from : making->ids.n;
    }
    if (!rc && options->end != UINT32_MAX) {
        uint32_t *grown = realloc(making->ids.items, (making->ids.n + 1) * sizeof *grown);
        if (!grown)
            return ah_error_memory(err);
        making->ids.items = grown;
        making->ids.room = making->ids.n + 1;
        grown[making->ids.n++] = options->end;
    }
    making->silent += !rc && making->ids.n && learned_from == making->ids.n;
    return rc ? rc : write_document(set, making->ids.items, making->ids.n, learned_from, err);
}

/* Cuts a text in two, at the end of a line; the second part has about the share that is held out. */
static size_t cut_of(const struct ah_record_part *text, double share)
{
    size_t at = (size_t)((double)text->size * (1 - share));
    while (share > 0 && at && text->text[at - 1] != '\n')
        at--;
    return share > 0 && at ? at : text->size;
}

static int make_text(struct making *making, const struct ah_record *record, struct ah_error *err)
{
    const struct ah_record_part *text = &record->parts[0];
    const size_t cut = cut_of(text, making->options->held_out);
    const struct ah_record first = {.parts = {{text->text, cut, true}}, .n = 1};
    const struct ah_record second = {.parts = {{text->text + cut, text->size - cut, true}}, .n = 1};
    int rc = make_document(making, &making->train, &first, err);
    return rc || !second.parts[0].size ? rc : make_document(making, &making->held_out, &second, err);
}

static int take_record(void *context, const struct ah_record *record, uint64_t bytes, struct ah_error *err)
{
    struct making *making = context;
    const double share = making->options->held_out;
    const uint64_t i = making->records++;
    const bool held_out = (uint64_t)((double)(i + 1) * share) > (uint64_t)((double)i * share);
    int rc = record->is_text
                 ? make_text(making, record, err)
                 : make_document(making, held_out ? &making->held_out : &making->train, record, err);
    if (!rc && making->options->progress &&
        !making->options->progress(making->options->context, making->done_bytes + bytes, making->all_bytes))
        rc = ah_error_set(err, AH_E_INTERRUPTED, "interrupted; nothing was written");
    return rc;
}

/* ---- the whole ---- */

static uint64_t size_of(const char *path)
{
    struct stat about;
    return stat(path, &about) ? 0 : (uint64_t)about.st_size;
}

static int make_all(struct making *making, struct ah_error *err)
{
    const struct ah_token_files_options *options = making->options;
    int rc = AH_OK;
    for (size_t i = 0; i < options->n_inputs; i++)
        making->all_bytes += size_of(options->inputs[i]);
    for (size_t i = 0; i < options->n_inputs && !rc; i++) {
        making->records = 0;
        rc = ah_records_read(making->reader, options->inputs[i], err);
        making->done_bytes += size_of(options->inputs[i]);
    }
    if (!rc && !making->train.counts.tokens)
        rc = ah_error_set(err, AH_E_USAGE, "the inputs hold no text to train on");
    if (!rc && options->held_out > 0 && !making->held_out.counts.tokens)
        rc = ah_error_set(
            err, AH_E_USAGE,
            "nothing is left to hold out: give more documents, or text of more lines, or a larger "
            "'--val'");
    rc = rc ? rc : close_files(&making->train, err);
    rc = rc ? rc : close_files(&making->held_out, err);
    const bool masks = making->train.counts.learned < making->train.counts.tokens ||
                       making->held_out.counts.learned < making->held_out.counts.tokens;
    rc = rc ? rc : publish(&making->train, masks, err);
    return rc ? rc : publish(&making->held_out, masks, err);
}

int ah_token_files_make(const struct ah_token_files_options *options, struct ah_token_files_made *ret_made,
                        struct ah_error *err)
{
    const bool wide = ah_text_tokenizer_vocabulary(options->tokenizer) > NARROW_MOST;
    struct making making = {.options = options,
                            .train = {.options = options, .name = "train", .wide = wide},
                            .held_out = {.options = options, .name = "val", .wide = wide}};
    struct ah_records reader = {.take = take_record, .context = &making};
    making.reader = &reader;
    const bool made = !mkdir(options->folder, 0777);
    int rc = made || errno == EEXIST ? AH_OK : fail(options->folder, err);
    rc = rc ? rc : make_all(&making, err);
    if (rc) {
        discard(&making.train);
        discard(&making.held_out);
        if (made)
            rmdir(options->folder);
    } else {
        *ret_made = (struct ah_token_files_made){making.train.counts, making.held_out.counts, making.silent,
                                                 reader.replaced};
    }
    ah_text_ids_release(&making.ids);
    return rc;
}
