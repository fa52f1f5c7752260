/* SPDX-License-Identifier: Apache-2.0
 *
 * Files are written under temporary names, synced, and get their names when all are complete, so a program that reads
 * the folder never sees half a data set. The header is that of docs/data.md.
 */
#include "runtime/text/token_files_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_BYTES = 64, VERSION = 1, NARROW_MOST = 1 << 16 };

static const uint64_t shard_tokens_default = 100000000;
static const char *const endings[AH_SHARD_FILES] = {"", ".mask", ".docs"};

static int name_file(const struct ah_shards *shards, uint64_t number, enum ah_shard_file file,
                     const char *end, char ret_path[PATH_MAX], struct ah_error *err)
{
    const char *folder = shards->options->folder;
    if (snprintf(ret_path, PATH_MAX, "%s/%s-%05" PRIu64 ".bin%s%s", folder, shards->name, number,
                 endings[file], end) >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", folder);
    return AH_OK;
}

static int fail(const char *path, struct ah_error *err)
{
    return ah_error_set(err, AH_E_IO, "%s: cannot be written: %s", path, strerror(errno));
}

/* An error of writing, with the name of the open file. */
static int fail_open(const struct ah_shards *shards, struct ah_error *err)
{
    char path[PATH_MAX];
    const int cause = errno;
    if (shards->bytes.failed)
        return ah_error_memory(err);
    const int rc = name_file(shards, shards->counts.files - 1, AH_SHARD_TOKENS, ".tmp", path, err);
    errno = cause;
    return rc ? rc : fail(path, err);
}

static void put_number(unsigned char *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number >> 8 * i);
}

static uint64_t vocabulary_of(const struct ah_shards *shards)
{
    return ah_text_tokenizer_vocabulary(shards->options->tokenizer);
}

/* Returns the bytes of a token in files. */
static size_t width_of(const struct ah_shards *shards)
{
    return vocabulary_of(shards) > NARROW_MOST ? 4 : 2;
}

static bool write_header(const struct ah_shards *shards)
{
    unsigned char header[HEADER_BYTES] = "AHTOKENS";
    FILE *file = shards->open[AH_SHARD_TOKENS];
    put_number(header + 8, VERSION, 4);
    put_number(header + 12, width_of(shards), 4);
    put_number(header + 16, shards->in_file, 8);
    put_number(header + 24, vocabulary_of(shards), 8);
    put_number(header + 32, shards->options->align, 8);
    return !fseek(file, 0, SEEK_SET) && fwrite(header, sizeof header, 1, file) == 1;
}

/* Keeps the first cause of a failure. */
static void note(bool done, int *cause)
{
    if (!done && !*cause)
        *cause = errno;
}

int ah_shards_close(struct ah_shards *shards, struct ah_error *err)
{
    if (!shards->open[AH_SHARD_TOKENS])
        return AH_OK;
    int cause = 0;
    note(write_header(shards), &cause);
    for (int file = 0; file < AH_SHARD_FILES; file++) {
        note(!fflush(shards->open[file]) && !fsync(fileno(shards->open[file])), &cause);
        note(!fclose(shards->open[file]), &cause);
        shards->open[file] = NULL;
    }
    errno = cause;
    return cause ? fail_open(shards, err) : AH_OK;
}

static int begin_files(struct ah_shards *shards, struct ah_error *err)
{
    static const unsigned char zeros[HEADER_BYTES];
    char path[PATH_MAX];
    int rc = ah_shards_close(shards, err);
    for (int i = 0; i < AH_SHARD_FILES && !rc; i++) {
        const enum ah_shard_file file = (enum ah_shard_file)i;
        rc = name_file(shards, shards->counts.files, file, "", path, err);
        if (!rc && !access(path, F_OK))
            rc = ah_error_set(err, AH_E_IO, "%s: exists already; take another folder, or remove it", path);
        rc = rc ? rc : name_file(shards, shards->counts.files, file, ".tmp", path, err);
        if (!rc && !(shards->open[file] = fopen(path, "we")))
            rc = fail(path, err);
    }
    shards->counts.files += !rc;
    shards->in_file = 0;
    if (!rc && fwrite(zeros, sizeof zeros, 1, shards->open[AH_SHARD_TOKENS]) != 1)
        rc = fail(path, err);
    return rc;
}

/* Begins another file if the open one has no room for `n` tokens. */
static int make_room(struct ah_shards *shards, size_t n, struct ah_error *err)
{
    const uint64_t given = shards->options->shard_tokens, most = given ? given : shard_tokens_default;
    const bool full = shards->in_file && shards->in_file + n > most;
    return shards->open[AH_SHARD_TOKENS] && !full ? AH_OK : begin_files(shards, err);
}

/* Appends `n` tokens. `learned`: a byte for each; NULL: none is. */
static bool put_tokens(struct ah_shards *shards, const uint32_t *ids, const unsigned char *learned, size_t n)
{
    const size_t width = width_of(shards);
    struct ah_buffer *bytes = &shards->bytes;
    ah_buffer_clear(bytes);
    for (size_t i = 0; i < n; i++) {
        unsigned char token[4];
        put_number(token, ids ? ids[i] : shards->options->padding, sizeof token);
        ah_buffer_append(bytes, token, width);
        shards->counts.learned += learned && learned[i];
    }
    if (bytes->failed || fwrite(bytes->data, width, n, shards->open[AH_SHARD_TOKENS]) != n)
        return false;
    ah_buffer_clear(bytes);
    for (size_t i = 0; i < n && !learned; i++)
        ah_buffer_append(bytes, "", 1);
    const bool good = !bytes->failed && fwrite(learned ? (const void *)learned : bytes->data, 1, n,
                                               shards->open[AH_SHARD_MASK]) == n;
    shards->in_file += n;
    shards->counts.tokens += n;
    return good;
}

static bool put_document(struct ah_shards *shards, const struct ah_document_tokens *document)
{
    unsigned char place[8];
    put_number(place, shards->in_file, sizeof place);
    shards->counts.documents++;
    return fwrite(place, sizeof place, 1, shards->open[AH_SHARD_DOCS]) == 1 &&
           put_tokens(shards, document->ids, document->learned, document->n);
}

int ah_shards_add(struct ah_shards *shards, const struct ah_document_tokens *document, struct ah_error *err)
{
    if (!document->n)
        return AH_OK;
    const int rc = make_room(shards, document->n, err);
    return rc || put_document(shards, document) ? rc : fail_open(shards, err);
}

int ah_shards_add_sequence(struct ah_shards *shards, const struct ah_document_tokens *documents, size_t n,
                           size_t padding, struct ah_error *err)
{
    int rc = make_room(shards, shards->options->align, err);
    if (rc)
        return rc;
    bool good = true;
    for (size_t i = 0; i < n && good; i++)
        good = put_document(shards, &documents[i]);
    good = good && (!padding || put_tokens(shards, NULL, NULL, padding));
    return good ? AH_OK : fail_open(shards, err);
}

int ah_shards_publish(const struct ah_shards *shards, bool masks, struct ah_error *err)
{
    static const enum ah_shard_file order[] = {AH_SHARD_DOCS, AH_SHARD_MASK, AH_SHARD_TOKENS};
    char from[PATH_MAX], to[PATH_MAX];
    int rc = AH_OK;
    for (uint64_t number = 0; number < shards->counts.files && !rc; number++)
        for (size_t i = 0; i < AH_SHARD_FILES && !rc; i++) {
            rc = name_file(shards, number, order[i], ".tmp", from, err);
            rc = rc ? rc : name_file(shards, number, order[i], "", to, err);
            if (!rc && (order[i] == AH_SHARD_MASK && !masks ? unlink(from) : rename(from, to)))
                rc = fail(to, err);
        }
    return rc;
}

void ah_shards_release(struct ah_shards *shards)
{
    char path[PATH_MAX];
    for (int file = 0; file < AH_SHARD_FILES; file++) {
        if (shards->open[file])
            fclose(shards->open[file]);
        shards->open[file] = NULL;
        for (uint64_t number = 0; number <= shards->counts.files; number++)
            if (!name_file(shards, number, (enum ah_shard_file)file, ".tmp", path, NULL))
                unlink(path);
    }
    ah_buffer_release(&shards->bytes);
}
