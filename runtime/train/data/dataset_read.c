/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading. Even if a file has changed since the check, all results are in bounds. Tokens are compared with the
 * vocabulary again, mask and begins are 0 or 1, and offsets outside the range are an error.
 */
#include "runtime/train/data/dataset_internal.h"

#include <assert.h>
#include <string.h>

/* A range of one file, and its place in the caller's arrays. */
struct stretch {
    struct ah_dataset_entry *entry;
    uint64_t first; /* first token, counted in the file */
    size_t count;
    struct ah_dataset_span into;
};

/* Widens `count` tokens to 32 bits. Returns the largest. */
static uint32_t widen(const void *raw, unsigned token_bytes, size_t count, uint32_t *ret_tokens)
{
    const uint8_t *u8 = raw;
    const uint16_t *u16 = raw;
    uint32_t most = 0;
    if (token_bytes == 1)
        for (size_t i = 0; i < count; i++)
            ret_tokens[i] = u8[i];
    else if (token_bytes == 2)
        for (size_t i = 0; i < count; i++)
            ret_tokens[i] = u16[i];
    else
        memcpy(ret_tokens, raw, count * sizeof *ret_tokens);
    for (size_t i = 0; i < count; i++)
        most = ret_tokens[i] > most ? ret_tokens[i] : most;
    return most;
}

static int read_tokens(struct ah_dataset *data, const struct stretch *stretch, struct ah_error *err)
{
    struct ah_dataset_entry *entry = stretch->entry;
    struct ah_source *source = &entry->parts[AH_DATASET_TOKENS];
    const size_t most = sizeof data->raw / entry->file.token_bytes;
    for (size_t done = 0; done < stretch->count;) {
        size_t count = stretch->count - done < most ? stretch->count - done : most;
        uint64_t offset = entry->offset_bytes + (stretch->first + done) * entry->file.token_bytes;
        int rc =
            ah_source_read(&data->sources, source, offset, data->raw, count * entry->file.token_bytes, err);
        if (rc)
            return rc;
        uint32_t largest = widen(data->raw, entry->file.token_bytes, count, stretch->into.tokens + done);
        if (largest >= data->vocabulary) {
            memset(stretch->into.tokens + done, 0, count * sizeof *stretch->into.tokens);
            return ah_source_changed(source, err);
        }
        done += count;
    }
    return AH_OK;
}

static int read_mask(struct ah_dataset *data, const struct stretch *stretch, struct ah_error *err)
{
    struct ah_source *source = &stretch->entry->parts[AH_DATASET_MASK];
    uint8_t *bears = stretch->into.bears;
    memset(bears, 1, stretch->count);
    if (!source->path)
        return AH_OK;
    int rc = ah_source_read(&data->sources, source, stretch->first, bears, stretch->count, err);
    for (size_t i = 0; i < stretch->count; i++)
        bears[i] = bears[i] != 0;
    return rc;
}

static void mark_begin(const struct stretch *stretch, uint64_t token)
{
    size_t at = (size_t)(token - stretch->first);
    if (stretch->into.begins)
        stretch->into.begins[at] = 1;
    if (stretch->into.bears)
        stretch->into.bears[at] = 0;
}

/* Finds the index of the first offset that is not below the stretch, by some 30 reads of pages in memory. */
static int find_offset(const struct stretch *stretch, int fd, uint64_t *ret_index, struct ah_error *err)
{
    uint64_t low = 0, high = stretch->entry->n_docs;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, offset;
        int reason = ah_source_pread(fd, middle * sizeof offset, &offset, sizeof offset);
        if (reason)
            return ah_source_fail(&stretch->entry->parts[AH_DATASET_DOCS], reason, err);
        if (offset < stretch->first)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_index = low;
    return AH_OK;
}

static int read_docs(struct ah_dataset *data, const struct stretch *stretch, struct ah_error *err)
{
    struct ah_dataset_entry *entry = stretch->entry;
    struct ah_source *source = &entry->parts[AH_DATASET_DOCS];
    const uint64_t end = stretch->first + stretch->count;
    uint64_t index = 0;
    int fd = -1;
    if (entry->begins && !stretch->first)
        mark_begin(stretch, 0);
    if (!entry->n_docs)
        return AH_OK;
    int rc = ah_source_use(&data->sources, source, &fd, err);
    if (!rc)
        rc = find_offset(stretch, fd, &index, err);
    while (!rc && index < entry->n_docs) {
        uint64_t rest = entry->n_docs - index;
        size_t count = rest < AH_DATASET_RAW_WORDS ? (size_t)rest : AH_DATASET_RAW_WORDS;
        count = count < stretch->count + 1 ? count : stretch->count + 1;
        int reason = ah_source_pread(fd, index * sizeof *data->raw, data->raw, count * sizeof *data->raw);
        if (reason)
            return ah_source_fail(source, reason, err);
        for (size_t i = 0; i < count; i++) {
            if (data->raw[i] >= end)
                return AH_OK;
            if (data->raw[i] < stretch->first)
                return ah_source_changed(source, err);
            mark_begin(stretch, data->raw[i]);
        }
        index += count;
    }
    return rc;
}

static size_t entry_of(const struct ah_dataset *data, uint64_t token)
{
    size_t low = 0, high = data->facts.files;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(data->entries[middle].file.first_token <= token ? &low : &high) = middle;
    }
    return low;
}

static int read_stretch(struct ah_dataset *data, const struct stretch *stretch, struct ah_error *err)
{
    int rc = AH_OK;
    if (stretch->into.begins)
        memset(stretch->into.begins, 0, stretch->count);
    if (stretch->into.tokens)
        rc = read_tokens(data, stretch, err);
    if (!rc && stretch->into.bears)
        rc = read_mask(data, stretch, err);
    if (!rc && (stretch->into.bears || stretch->into.begins))
        rc = read_docs(data, stretch, err);
    return rc;
}

int ah_dataset_read(struct ah_dataset *data, uint64_t first, size_t count, const struct ah_dataset_span *into,
                    struct ah_error *err)
{
    assert(first <= data->facts.tokens && count <= data->facts.tokens - first);
    size_t done = 0;
    for (size_t i = count ? entry_of(data, first) : 0; done < count; i++) {
        struct ah_dataset_entry *entry = &data->entries[i];
        uint64_t begin = first + done - entry->file.first_token;
        uint64_t rest = entry->file.tokens - begin;
        struct stretch stretch = {entry,
                                  begin,
                                  rest < count - done ? (size_t)rest : count - done,
                                  {into->tokens ? into->tokens + done : NULL,
                                   into->bears ? into->bears + done : NULL,
                                   into->begins ? into->begins + done : NULL}};
        int rc = read_stretch(data, &stretch, err);
        if (rc)
            return rc;
        done += stretch.count;
    }
    return AH_OK;
}
