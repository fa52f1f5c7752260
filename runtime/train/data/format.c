/* SPDX-License-Identifier: Apache-2.0
 *
 * Magics as in llm.c: dev/data/data_common.py and llmc/dataloader.h (shards); train_gpt2.cu and its Python side (what
 * else is written as .bin). A raw file of 16-bit tokens could begin like a shard only with the tokens 55432 or 55713,
 * then 308; its size would have to agree as well.
 */
#include "runtime/train/data/format_internal.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { HEADER_INTS = 256, HEADER_BYTES = 4 * HEADER_INTS };

struct shard_kind {
    int32_t magic;
    int32_t version;
    unsigned token_bytes;
};

static const struct shard_kind shard_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* Files of llm.c that hold no tokens. */
static const struct {
    int32_t magic;
    const char *what;
} other_magics[] = {{20240326, "weights of a model"},
                    {20240327, "states for debugging"},
                    {20240328, "a tokenizer"},
                    {20240522, "a multiple-choice evaluation"},
                    {20240527, "an optimizer's states"}};

#define TOKENIZE "make a data set of it with 'scripts/tokenize'"

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
    {".npy", "a NumPy array", "write it with 'array.astype(\"uint16\").tofile(\"x.bin\")'"},
    {".gz", "compressed", "unpack it"},
    {".xz", "compressed", "unpack it"},
    {".zst", "compressed", "unpack it"},
    {".zip", "compressed", "unpack it"},
    {".safetensors", "weights of a model", "name token files"},
    {".mask", "the mask of a data file", "name that file"},
    {".docs", "the documents of a data file", "name that file"},
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

static const struct shard_kind *shard_kind(const int32_t *header, uint64_t bytes)
{
    for (size_t i = 0; bytes >= sizeof *header && i < sizeof shard_kinds / sizeof *shard_kinds; i++)
        if (header[0] == shard_kinds[i].magic)
            return &shard_kinds[i];
    return NULL;
}

/* The header counts its tokens, and the file ends behind them. */
static int read_shard(struct ah_format *ret_format, const struct ah_source *source, const int32_t *header,
                      struct ah_error *err)
{
    const struct shard_kind *kind = shard_kind(header, source->bytes);
    if (!kind)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: does not begin like an llm.c shard, with 20240520 or 20240801",
                            source->path);
    if (source->bytes < HEADER_BYTES)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: ends within the 1024 bytes of its header; it is cut off, write it again",
                            source->path);
    if (header[1] != kind->version)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: is an llm.c shard (%" PRId32 ") of version %" PRId32
                            ", and only version %" PRId32 " is known",
                            source->path, kind->magic, header[1], kind->version);
    if (header[2] < 1 || source->bytes - HEADER_BYTES != (uint64_t)header[2] * kind->token_bytes)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: its header counts %" PRId32 " tokens of %u bytes, but %" PRIu64
                            " bytes follow; it is cut off or no shard%s",
                            source->path, header[2], kind->token_bytes, source->bytes - HEADER_BYTES,
                            kind->token_bytes == 2 ? " (raw tokens: '--data-format u16')" : "");
    *ret_format =
        (struct ah_format){AH_DATASET_LLMC, kind->token_bytes, HEADER_BYTES, (uint64_t)header[2], false};
    return AH_OK;
}

static int take_raw(struct ah_format *ret_format, const struct ah_source *source,
                    enum ah_dataset_format format, struct ah_error *err)
{
    static const unsigned widths[] = {[AH_DATASET_U16] = 2, [AH_DATASET_U32] = 4, [AH_DATASET_BYTES] = 1};
    unsigned width = widths[format];
    if (source->bytes % width)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: has %" PRIu64
                            " bytes, which is not a whole number of %u-byte tokens; it is cut "
                            "off, or '--data-format' must say what it is",
                            source->path, source->bytes, width);
    *ret_format = (struct ah_format){format, width, 0, source->bytes / width, false};
    return AH_OK;
}

static int refuse_others(const struct ah_source *source, const int32_t *header, struct ah_error *err)
{
    for (size_t i = 0; i < sizeof other_endings / sizeof *other_endings; i++)
        if (ah_format_ends(source->path, other_endings[i].ending))
            return ah_error_set(err, AH_E_DOCUMENT,
                                "%s: is %s by its name; %s, or say '--data-format bytes' to take it as text",
                                source->path, other_endings[i].what, other_endings[i].advice);
    for (size_t i = 0; source->bytes >= HEADER_BYTES && i < sizeof other_magics / sizeof *other_magics; i++)
        if (header[0] == other_magics[i].magic)
            return ah_error_set(err, AH_E_DOCUMENT,
                                "%s: begins like %s of llm.c (%" PRId32
                                "), not like tokens; name token files",
                                source->path, other_magics[i].what, other_magics[i].magic);
    return AH_OK;
}

static int guess(struct ah_format *ret_format, const struct ah_source *source, const int32_t *header,
                 struct ah_error *err)
{
    int rc = AH_OK;
    if (shard_kind(header, source->bytes))
        return read_shard(ret_format, source, header, err);
    rc = refuse_others(source, header, err);
    if (rc)
        return rc;
    if (ah_format_ends(source->path, ".bin"))
        return take_raw(ret_format, source, AH_DATASET_U16, err);
    rc = take_raw(ret_format, source, AH_DATASET_BYTES, err);
    if (!rc)
        ret_format->only_text = !ah_format_ends(source->path, ".txt");
    return rc;
}

int ah_format_find(struct ah_format *ret_format, struct ah_sources *sources, struct ah_source *source,
                   enum ah_dataset_format wanted, struct ah_error *err)
{
    int32_t header[HEADER_INTS] = {0};
    size_t bytes = source->bytes < HEADER_BYTES ? (size_t)source->bytes : HEADER_BYTES;
    if (!bytes)
        return ah_error_set(err, AH_E_DOCUMENT, "%s: is empty; name a file with tokens", source->path);
    int rc = ah_source_read(sources, source, 0, header, bytes, err);
    if (rc)
        return rc;
    if (wanted == AH_DATASET_AUTO)
        return guess(ret_format, source, header, err);
    if (wanted == AH_DATASET_LLMC)
        return read_shard(ret_format, source, header, err);
    return take_raw(ret_format, source, wanted, err);
}
