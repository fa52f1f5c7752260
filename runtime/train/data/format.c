/* SPDX-License-Identifier: Apache-2.0
 *
 * The magics of shards are in llm.c's dev/data/data_common.py and llmc/dataloader.h. Those of other files called .bin
 * are in its train_gpt2.cu and the Python side. A raw file of 16-bit tokens begins like a shard only if its first token
 * is 55432 or 55713 and its second 308. Its size would have to agree as well.
 *
 * scripts/tokenize writes our own header of 64 bytes, little-endian:
 *
 *      0  8 bytes  "AHTOKENS"
 *      8  u32      version, 1
 *     12  u32      bytes of a token, 2 or 4
 *     16  u64      tokens
 *     24  u64      vocabulary of the tokenizer; at most 65536 with 2 bytes
 *     32  u64      length of the sequences to which examples are aligned; 0: not aligned
 *     40           zeros
 */
#include "runtime/train/data/format_internal.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { HEADER_INTS = 256, HEADER_BYTES = 4 * HEADER_INTS, OWN_VERSION = 1 };

#define OWN_MAGIC      "AHTOKENS"
#define U16_VOCABULARY (UINT64_C(1) << 16)

struct own_header {
    char magic[8];
    uint32_t version;
    uint32_t token_bytes;
    uint64_t tokens;
    uint64_t vocabulary;
    uint64_t align;
    unsigned char zeros[24];
};
_Static_assert(sizeof(struct own_header) == 64, "as docs/data.md says");

/* The beginning of a file, and the options for it. */
struct candidate {
    const struct ah_source *source;
    const struct ah_dataset_options *options;
    const int32_t *head; /* (HEADER_INTS); zeros after the end of the file */
    size_t size;         /* number of bytes read, at most HEADER_BYTES */
};

struct shard_kind {
    int32_t magic;
    int32_t version;
    unsigned token_bytes;
};

static const struct shard_kind shard_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* Files of llm.c without tokens. */
static const struct {
    int32_t magic;
    const char *what;
} other_magics[] = {{20240326, "weights of a model"},
                    {20240327, "states for debugging"},
                    {20240328, "a tokenizer"},
                    {20240522, "a multiple-choice evaluation"},
                    {20240527, "an optimizer's states"}};

#define TOKENIZE   "convert it to token files with 'autohete tokenize'"
#define COMMAND    "'autohete tokenize %s --model FOLDER-OF-THE-MODEL -o FOLDER'"
#define FROM_NUMPY "convert it with 'array.astype(\"uint32\").tofile(\"x.u32\")'"

static const struct {
    const char *ending;
    const char *what;
    const char *advice;
} other_endings[] = {
    {".json", "JSON", TOKENIZE},
    {".jsonl", "lines of JSON", TOKENIZE},
    {".ndjson", "lines of JSON", TOKENIZE},
    {".parquet", "a table", TOKENIZE " after exporting it as lines of JSON"},
    {".arrow", "a table", TOKENIZE " after exporting it as lines of JSON"},
    {".csv", "a table", TOKENIZE " after exporting it as lines of JSON"},
    {".npy", "a NumPy array", FROM_NUMPY},
    {".npz", "NumPy arrays", FROM_NUMPY},
    {".gz", "compressed", "unpack it"},
    {".xz", "compressed", "unpack it"},
    {".zst", "compressed", "unpack it"},
    {".zip", "compressed", "unpack it"},
    {".safetensors", "weights of a model", "name token files"},
    {"/states.bin", "the optimizer's states of a checkpoint", "name token files"},
    {".mask", "the mask of a data file", "name that file"},
    {".docs", "the documents of a data file", "name that file"},
};

/* First bytes of files in other formats. */
static const struct {
    const char *magic;
    size_t size;
    const char *what;
    const char *advice;
} other_beginnings[] = {
    {"\x93NUMPY", 6, "a NumPy array", FROM_NUMPY},
    {"PAR1", 4, "a Parquet table", TOKENIZE " after exporting it as lines of JSON"},
    {"\x1f\x8b\x08", 3, "compressed (gzip)", "unpack it"},
    {"\x28\xb5\x2f\xfd", 4, "compressed (zstd)", "unpack it"},
    {"\xfd"
     "7zXZ",
     5, "compressed (xz)", "unpack it"},
    {"PK\3\4", 4, "an archive (zip)", "unpack it"},
};

static const char *const words[] = {
#define WORD(value, word, text) word,
    AH_DATASET_FORMATS(WORD)
#undef WORD
};

const char *ah_dataset_format_word(enum ah_dataset_format format)
{
    return words[format];
}

enum ah_dataset_format ah_dataset_format_of(const char *word)
{
    int format = 0;
    while (format < AH_DATASET_FORMAT_COUNT && strcmp(word, words[format]))
        format++;
    return (enum ah_dataset_format)format;
}

bool ah_format_ends(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && !strcasecmp(path + length - tail, ending);
}

static bool begins(const struct candidate *file, const void *magic, size_t size)
{
    return file->size >= size && !memcmp(file->head, magic, size);
}

/* ---- files with a header ---- */

static const struct shard_kind *shard_kind(const struct candidate *file)
{
    for (size_t i = 0; i < sizeof shard_kinds / sizeof *shard_kinds; i++)
        if (begins(file, &shard_kinds[i].magic, sizeof shard_kinds[i].magic))
            return &shard_kinds[i];
    return NULL;
}

static bool is_whole_shard(const struct candidate *file)
{
    const struct shard_kind *kind = shard_kind(file);
    return kind && file->size == HEADER_BYTES && file->head[1] == kind->version && file->head[2] > 0 &&
           file->source->bytes - HEADER_BYTES == (uint64_t)file->head[2] * kind->token_bytes;
}

/* Reads a shard's header. The file must end after the number of tokens that the header states. */
static int read_shard(struct ah_format *ret_format, const struct candidate *file, struct ah_error *err)
{
    const struct shard_kind *kind = shard_kind(file);
    const char *path = file->source->path;
    const int32_t *header = file->head;
    if (!kind)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: does not begin like an llm.c shard, with 20240520 or 20240801", path);
    if (file->size < HEADER_BYTES)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: ends within its 1024-byte header; it is cut off: write it again", path);
    if (header[1] != kind->version)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: is an llm.c shard (%" PRId32 ") of version %" PRId32
                            ", and only version %" PRId32 " is known",
                            path, kind->magic, header[1], kind->version);
    if (!is_whole_shard(file))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: its header counts %" PRId32 " tokens of %u bytes, but %" PRIu64 " bytes "
                            "follow; it is cut off or not a shard%s",
                            path, header[2], kind->token_bytes, file->source->bytes - HEADER_BYTES,
                            kind->token_bytes == 2 ? " (raw tokens: '--data-format u16')" : "");
    *ret_format = (struct ah_format){.format = AH_DATASET_LLMC,
                                     .token_bytes = kind->token_bytes,
                                     .offset_bytes = HEADER_BYTES,
                                     .tokens = (uint64_t)header[2]};
    return AH_OK;
}

/* Returns what is wrong with the fields of our header; NULL if nothing is. */
static const char *own_fault(const struct own_header *own, uint64_t bytes)
{
    static const unsigned char zeros[sizeof own->zeros];
    if (own->version != OWN_VERSION)
        return "has an unknown version; it was made by a newer autohete-tokenize";
    if ((own->token_bytes != 2 && own->token_bytes != 4) || memcmp(own->zeros, zeros, sizeof zeros) != 0)
        return "has impossible values in its header; it is damaged: make it again";
    if (!own->tokens || bytes % own->token_bytes || own->tokens != bytes / own->token_bytes)
        return "has a different number of tokens from its header; it is cut off: make it again";
    if (!own->vocabulary || own->vocabulary > (own->token_bytes == 2 ? U16_VOCABULARY : UINT64_C(1) << 32))
        return "has a vocabulary in its header that is too large for its tokens; it is damaged: make it "
               "again";
    if (own->align && own->tokens % own->align)
        return "ends in an incomplete sequence; it is damaged: make it again";
    return NULL;
}

/* Fails if the file's tokenizer has more words than the model has rows, unless an option gives the format. */
static int check_vocabulary(const struct candidate *file, uint64_t theirs, struct ah_error *err)
{
    uint64_t ours = file->options->vocabulary;
    if (file->options->format != AH_DATASET_AUTO)
        return AH_OK;
    if (theirs > ours)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: was made with a vocabulary of %" PRIu64 ", but the model's has %" PRIu64
                            "; make it again with the model's tokenizer",
                            file->source->path, theirs, ours);
    if (theirs == AH_DATASET_BYTE_VOCABULARY && ours != AH_DATASET_BYTE_VOCABULARY)
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "%s: its tokens are bytes (vocabulary 256), but the model's vocabulary is %" PRIu64 "; make it "
            "again with the model's tokenizer, or give '--data-format autohete' to use them anyway",
            file->source->path, ours);
    return AH_OK;
}

static int read_own(struct ah_format *ret_format, const struct candidate *file, struct ah_error *err)
{
    struct own_header own;
    memcpy(&own, file->head, sizeof own);
    if (!begins(file, OWN_MAGIC, strlen(OWN_MAGIC)))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: does not begin like a token file of autohete, with "
                            "'" OWN_MAGIC "'",
                            file->source->path);
    if (file->size < sizeof own)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: ends within its 64-byte header; it is cut off: make it again",
                            file->source->path);
    const char *fault = own_fault(&own, file->source->bytes - sizeof own);
    if (fault)
        return ah_error_set(err, AH_E_DOCUMENT, "%s: %s", file->source->path, fault);
    int rc = check_vocabulary(file, own.vocabulary, err);
    if (!rc)
        *ret_format = (struct ah_format){.format = AH_DATASET_HEADED,
                                         .token_bytes = own.token_bytes,
                                         .offset_bytes = sizeof own,
                                         .tokens = own.tokens,
                                         .align = own.align};
    return rc;
}

/* ---- files without a header ---- */

static int refuse_int64(const struct candidate *file, struct ah_error *err)
{
    return ah_error_set(err, AH_E_DOCUMENT,
                        "%s: holds 64-bit numbers, because every second 32-bit word is 0; " FROM_NUMPY,
                        file->source->path);
}

static int take_raw(struct ah_format *ret_format, const struct candidate *file, enum ah_dataset_format format,
                    struct ah_error *err)
{
    static const unsigned widths[AH_DATASET_FORMAT_COUNT] = {
        [AH_DATASET_U16] = 2, [AH_DATASET_U32] = 4, [AH_DATASET_BYTES] = 1};
    unsigned width = widths[format];
    const struct ah_source *source = file->source;
    if (width > 1 && (begins(file, OWN_MAGIC, strlen(OWN_MAGIC)) || is_whole_shard(file)))
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "%s: has a header that gives its format and is not part of its tokens; leave out '--data-format'",
            source->path);
    if (width > 1 && ah_format_is_int64(file->head, file->size))
        return refuse_int64(file, err);
    if (source->bytes % width)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: has %" PRIu64 " bytes, which is not a whole number of %u-byte tokens; it is "
                            "cut off, or needs another '--data-format'",
                            source->path, source->bytes, width);
    *ret_format = (struct ah_format){.format = format, .token_bytes = width, .tokens = source->bytes / width};
    return AH_OK;
}

static int refuse_others(const struct candidate *file, struct ah_error *err)
{
    const char *path = file->source->path;
    for (size_t i = 0; i < sizeof other_endings / sizeof *other_endings; i++)
        if (ah_format_ends(path, other_endings[i].ending))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "%s: is %s by its name; %s, or give '--data-format bytes' to read it as text",
                                path, other_endings[i].what, other_endings[i].advice);
    for (size_t i = 0; i < sizeof other_beginnings / sizeof *other_beginnings; i++)
        if (begins(file, other_beginnings[i].magic, other_beginnings[i].size))
            return ah_error_set(err, AH_E_DOCUMENT, "%s: is %s by its first bytes; %s", path,
                                other_beginnings[i].what, other_beginnings[i].advice);
    for (size_t i = 0; file->size == HEADER_BYTES && i < sizeof other_magics / sizeof *other_magics; i++)
        if (begins(file, &other_magics[i].magic, sizeof other_magics[i].magic))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "%s: begins like %s of llm.c (%" PRId32
                                "), not like tokens; name token files",
                                path, other_magics[i].what, other_magics[i].magic);
    return AH_OK;
}

/* True if all bytes read so far could be tokens of this width. */
static bool fits(const struct candidate *file, unsigned width)
{
    uint64_t vocabulary = file->options->vocabulary;
    if (file->source->bytes % width || (width == 2 && vocabulary > U16_VOCABULARY))
        return false;
    for (size_t at = 0; at + width <= file->size; at += width) {
        uint32_t token = 0;
        memcpy(&token, (const char *)file->head + at, width);
        if (token >= vocabulary)
            return false;
    }
    return true;
}

/* Finds the only width whose tokens are in the vocabulary, for a file whose name means tokens of unknown width. */
static int take_width_that_fits(struct ah_format *ret_format, const struct candidate *file,
                                struct ah_error *err)
{
    const char *path = file->source->path;
    const bool narrow = fits(file, 2), wide = fits(file, 4);
    if (ah_format_is_text(file->head, file->size))
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "%s: its content looks like text but its name like tokens; give '--data-format u16', 'u32' or "
            "'bytes', or make token files with " COMMAND,
            path, path);
    if (ah_format_is_int64(file->head, file->size))
        return refuse_int64(file, err);
    if (narrow && wide)
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "%s: may hold 16-bit or 32-bit tokens; give '--data-format u16' or 'u32', or name it .u16 or "
            ".u32",
            path);
    if (!narrow && file->options->vocabulary > U16_VOCABULARY && !wide && !(file->source->bytes % 2))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: does not hold 32-bit tokens of this model, and 16 bits cannot hold its "
                            "vocabulary of %" PRIu64 "; make it again with the model's tokenizer",
                            path, file->options->vocabulary);
    int rc = take_raw(ret_format, file, wide ? AH_DATASET_U32 : AH_DATASET_U16, err);
    if (!rc)
        ret_format->by_values = true;
    return rc;
}

static int take_text(struct ah_format *ret_format, const struct candidate *file, struct ah_error *err)
{
    const char *path = file->source->path;
    if (ah_format_is_utf16(file->head, file->size))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: is UTF-16 text; convert it with 'iconv -f UTF-16 -t UTF-8'", path);
    if (memchr(file->head, 0, file->size))
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "%s: byte %zu is 0, so it is not plain text, and its name does not tell its format; give "
            "'--data-format u16', 'u32' or 'bytes'",
            path, (size_t)((const char *)memchr(file->head, 0, file->size) - (const char *)file->head));
    if (file->options->vocabulary != AH_DATASET_BYTE_VOCABULARY)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: is text, but bytes are tokens only for a model with a vocabulary of 256; "
                            "this one's is %" PRIu64 ": make token files with " COMMAND
                            " ('--data-format bytes' uses each byte as a token anyway)",
                            path, file->options->vocabulary, path);
    int rc = take_raw(ret_format, file, AH_DATASET_BYTES, err);
    ret_format->only_text = true;
    return rc;
}

static int guess_format(struct ah_format *ret_format, const struct candidate *file, struct ah_error *err)
{
    const char *path = file->source->path;
    if (begins(file, OWN_MAGIC, strlen(OWN_MAGIC)))
        return read_own(ret_format, file, err);
    if (shard_kind(file))
        return read_shard(ret_format, file, err);
    int rc = refuse_others(file, err);
    if (rc)
        return rc;
    if (ah_format_ends(path, ".u16"))
        return take_raw(ret_format, file, AH_DATASET_U16, err);
    if (ah_format_ends(path, ".u32"))
        return take_raw(ret_format, file, AH_DATASET_U32, err);
    return ah_format_ends(path, ".bin") ? take_width_that_fits(ret_format, file, err)
                                        : take_text(ret_format, file, err);
}

/* Fails for 16-bit tokens if the model's vocabulary exceeds 65536. They are another model's, or were truncated. */
static int check_width(const struct ah_format *format, const struct candidate *file, struct ah_error *err)
{
    if (format->token_bytes != 2 || format->format == AH_DATASET_HEADED ||
        file->options->vocabulary <= U16_VOCABULARY)
        return AH_OK;
    return ah_error_set(err, AH_E_DOCUMENT,
                        "%s: holds 16-bit tokens, which cannot be those of a vocabulary of %" PRIu64
                        " (above 65536); make it again with the model's tokenizer",
                        file->source->path, file->options->vocabulary);
}

int ah_format_find(struct ah_format *ret_format, struct ah_file_sources *sources, struct ah_source *source,
                   const struct ah_dataset_options *options, struct ah_error *err)
{
    int32_t head[HEADER_INTS] = {0};
    const enum ah_dataset_format wanted = options->format;
    const struct candidate file = {source, options, head,
                                   source->bytes < HEADER_BYTES ? (size_t)source->bytes : HEADER_BYTES};
    struct ah_format format = {0};
    if (!file.size)
        return ah_error_set(err, AH_E_DOCUMENT, "%s: is empty; name a file with tokens", source->path);
    int rc = ah_source_read(sources, source, 0, head, file.size, err);
    if (rc)
        return rc;
    rc = wanted == AH_DATASET_AUTO     ? guess_format(&format, &file, err)
         : wanted == AH_DATASET_HEADED ? read_own(&format, &file, err)
         : wanted == AH_DATASET_LLMC   ? read_shard(&format, &file, err)
                                       : take_raw(&format, &file, wanted, err);
    if (!rc)
        rc = check_width(&format, &file, err);
    if (!rc)
        *ret_format = format;
    return rc;
}
