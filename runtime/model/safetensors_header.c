/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a safetensors file. Source: the format's description and reference implementation
 * (github.com/huggingface/safetensors). The checks here are stricter: unknown and repeated keys are refused.
 *
 * After ah_safetensors_header(), the following holds for every tensor:
 *   (1) the number of its elements, which is the product of its shape, and its bytes do not overflow
 *   (2) its data range is exactly as long as its bytes, and is inside the file
 *   (3) the sorted ranges of a file's tensors cover it from the end of the header to the end of the file, without a gap
 */
#include "runtime/model/safetensors_internal.h"
#include "schemas/cursor.h"
#include "schemas/document.h"
#include "schemas/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, TABLE_FIRST = 64 };

struct header {
    const struct ah_safetensors_file *file;
    size_t index;
    uint64_t data_bytes; /* number of bytes after the header */
    uint64_t data_offset_bytes;
    struct ah_arena *arena;
    struct ah_safetensors_table *table;
    struct ah_cursor cursor;
    struct ah_error *err;
};

#define REFUSE(header, tensor, ...)                                                                          \
    ah_safetensors_fail((header)->err, AH_E_DOCUMENT, (header)->file->path, tensor, __VA_ARGS__)

static int read_dtype(struct header *header, struct ah_safetensors_tensor *tensor)
{
    char shown[AH_SAFETENSORS_NAME_TEXT];
    if (ah_cursor_peek(&header->cursor) != '"')
        return REFUSE(header, tensor->name, "its dtype is not text");
    const char *word = ah_cursor_text(&header->cursor, header->arena);
    if (!word)
        return ah_error_memory(header->err);
    for (int i = 0; i < AH_SAFETENSORS_DTYPES_MAX; i++)
        if (strcmp(word, ah_safetensors_word((enum ah_safetensors_dtype)i)) == 0) {
            tensor->dtype = (enum ah_safetensors_dtype)i;
            return AH_OK;
        }
    return REFUSE(header, tensor->name, "the dtype '%s' is unknown", ah_safetensors_plain(word, shown));
}

/* Reads a list of at most `max` whole numbers. */
static int read_counts(struct header *header, const char *tensor, const char *what, uint64_t *ret_counts,
                       size_t max, size_t *ret_n)
{
    size_t n = 0;
    if (!ah_cursor_enter(&header->cursor, '['))
        return REFUSE(header, tensor, "its %s is not a list", what);
    while (ah_cursor_next(&header->cursor, ']')) {
        if (n == max)
            return REFUSE(header, tensor, "its %s has more than %zu numbers", what, max);
        if (!ah_cursor_count(&header->cursor, &ret_counts[n++]))
            return REFUSE(header, tensor, "its %s holds something that is not a whole number below 2^64",
                          what);
    }
    *ret_n = n;
    return AH_OK;
}

static int count_bytes(struct header *header, struct ah_safetensors_tensor *tensor)
{
    uint64_t bits;
    tensor->elements = 1;
    for (size_t i = 0; i < tensor->n_shape; i++)
        if (__builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements))
            return REFUSE(header, tensor->name, "its shape has more than 2^64 elements");
    if (__builtin_mul_overflow(tensor->elements, (uint64_t)ah_safetensors_bits(tensor->dtype), &bits))
        return REFUSE(header, tensor->name, "its shape has more than 2^64 bits");
    if (bits % 8)
        return REFUSE(header, tensor->name, "its elements do not fill whole bytes");
    tensor->bytes = bits / 8;
    return AH_OK;
}

/* Checks (1) and (2) for one tensor. */
static int place_tensor(struct header *header, struct ah_safetensors_tensor *tensor,
                        const uint64_t offsets[2])
{
    char shape[AH_SAFETENSORS_SHAPE_TEXT];
    int rc = count_bytes(header, tensor);
    if (rc)
        return rc;
    if (offsets[0] > offsets[1])
        return REFUSE(header, tensor->name,
                      "its data_offsets [%" PRIu64 ", %" PRIu64 "] end before they begin", offsets[0],
                      offsets[1]);
    if (offsets[1] > header->data_bytes)
        return REFUSE(header, tensor->name,
                      "its data end at byte %" PRIu64 " of %" PRIu64 "; is the file cut?", offsets[1],
                      header->data_bytes);
    if (offsets[1] - offsets[0] != tensor->bytes)
        return REFUSE(
            header, tensor->name, "its data have %" PRIu64 " bytes, but its shape %s in %s needs %" PRIu64,
            offsets[1] - offsets[0], ah_safetensors_shape_text(tensor->shape, tensor->n_shape, shape),
            ah_safetensors_word(tensor->dtype), tensor->bytes);
    tensor->offset_bytes = header->data_offset_bytes + offsets[0];
    return AH_OK;
}

/* Reads the object of one tensor, which must have each of the three keys once, and no other key. */
static int read_tensor(struct header *header, struct ah_safetensors_tensor *tensor)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    enum { DTYPE, SHAPE, OFFSETS, KEYS };
    uint64_t offsets[2];
    bool seen[KEYS] = {false};
    size_t n_offsets = 0;
    char shown[AH_SAFETENSORS_NAME_TEXT];
    if (!ah_cursor_enter(&header->cursor, '{'))
        return REFUSE(header, tensor->name, "is not an object with dtype, shape and data_offsets");
    while (ah_cursor_next(&header->cursor, '}')) {
        const char *key = ah_cursor_key(&header->cursor, header->arena);
        if (!key)
            return ah_error_memory(header->err);
        size_t i = 0;
        while (i < KEYS && strcmp(key, keys[i]) != 0)
            i++;
        if (i == KEYS)
            return REFUSE(header, tensor->name, "has the unknown key '%s'", ah_safetensors_plain(key, shown));
        if (seen[i])
            return REFUSE(header, tensor->name, "has the key '%s' twice", key);
        seen[i] = true;
        int rc = i == DTYPE   ? read_dtype(header, tensor)
                 : i == SHAPE ? read_counts(header, tensor->name, keys[i], tensor->shape,
                                            AH_SAFETENSORS_DIMENSIONS_MAX, &tensor->n_shape)
                              : read_counts(header, tensor->name, keys[i], offsets, 2, &n_offsets);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < KEYS; i++)
        if (!seen[i])
            return REFUSE(header, tensor->name, "has no %s", keys[i]);
    if (n_offsets != 2)
        return REFUSE(header, tensor->name, "its data_offsets are not two numbers");
    return place_tensor(header, tensor, offsets);
}

/* Checks that every value is text; the texts themselves do not matter. */
static int read_metadata(struct header *header)
{
    struct ah_cursor *cursor = &header->cursor;
    if (!ah_cursor_enter(cursor, '{'))
        return REFUSE(header, NULL, "its '__metadata__' is not an object");
    while (ah_cursor_next(cursor, '}')) {
        if (!ah_cursor_key(cursor, header->arena))
            return ah_error_memory(header->err);
        if (ah_cursor_peek(cursor) != '"')
            return REFUSE(header, NULL, "its '__metadata__' holds something other than text");
        ah_cursor_skip(cursor);
    }
    return AH_OK;
}

static int append_tensor(struct header *header, const struct ah_safetensors_tensor *tensor)
{
    struct ah_safetensors_table *table = header->table;
    if (table->n == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : TABLE_FIRST;
        struct ah_safetensors_tensor *larger = realloc(table->tensors, capacity * sizeof *larger);
        if (!larger)
            return ah_error_memory(header->err);
        table->tensors = larger;
        table->capacity = capacity;
    }
    table->tensors[table->n++] = *tensor;
    return AH_OK;
}

static int read_members(struct header *header)
{
    bool metadata = false;
    int rc = AH_OK;
    ah_cursor_enter(&header->cursor, '{');
    while (!rc && ah_cursor_next(&header->cursor, '}')) {
        struct ah_safetensors_tensor tensor = {.file = header->index};
        tensor.name = ah_cursor_key(&header->cursor, header->arena);
        if (!tensor.name)
            return ah_error_memory(header->err);
        if (strcmp(tensor.name, "__metadata__") == 0) {
            rc = metadata ? REFUSE(header, NULL, "has '__metadata__' twice") : read_metadata(header);
            metadata = true;
            continue;
        }
        rc = read_tensor(header, &tensor);
        if (!rc)
            rc = append_tensor(header, &tensor);
    }
    return rc;
}

static int compare_places(const void *a, const void *b)
{
    const struct ah_safetensors_tensor *one = a, *other = b;
    if (one->offset_bytes != other->offset_bytes)
        return one->offset_bytes < other->offset_bytes ? -1 : 1;
    if (one->bytes != other->bytes)
        return one->bytes < other->bytes ? -1 : 1;
    return strcmp(one->name, other->name);
}

/* Checks (3) for one file. */
static int check_places(const struct header *header, struct ah_safetensors_tensor *tensors, size_t n)
{
    uint64_t at = header->data_offset_bytes;
    char shown[AH_SAFETENSORS_NAME_TEXT];
    if (n)
        qsort(tensors, n, sizeof *tensors, compare_places);
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].offset_bytes < at)
            return REFUSE(header, tensors[i].name, "its data overlap those of '%s'",
                          ah_safetensors_plain(tensors[i - 1].name, shown));
        if (tensors[i].offset_bytes > at)
            return REFUSE(header, tensors[i].name, "%" PRIu64 " bytes before its data belong to no tensor",
                          tensors[i].offset_bytes - at);
        at += tensors[i].bytes;
    }
    if (at != header->file->bytes)
        return REFUSE(header, NULL, "its last %" PRIu64 " bytes belong to no tensor",
                      header->file->bytes - at);
    return AH_OK;
}

/* Parses the header's text into tensors. */
static int parse_tensors(struct header *header, const char *text, size_t size)
{
    char name[AH_DOCUMENT_NAME_MAX + 16], shown[AH_DOCUMENT_NAME_MAX];
    snprintf(name, sizeof name, "%s: header", ah_document_short_name(header->file->path, shown));
    size_t first = header->table->n;
    int rc = ah_json_scan(&(struct ah_json_source){name, text, size, 1}, header->err);
    if (rc)
        return rc;
    header->cursor = (struct ah_cursor){text, text + size};
    rc = read_members(header);
    if (rc)
        return rc;
    struct ah_safetensors_tensor *tensors = header->table->tensors;
    size_t n = header->table->n - first;
    const struct ah_safetensors_tensor *again = ah_safetensors_sort(n ? tensors + first : NULL, n);
    return again ? REFUSE(header, again->name, "appears twice")
                 : check_places(header, n ? tensors + first : NULL, n);
}

/* Reads the length of the header, and checks that it fits the file. */
static int read_length(const struct header *header, uint64_t *ret_bytes)
{
    unsigned char raw[LENGTH_BYTES];
    uint64_t length = 0;
    if (header->file->bytes < LENGTH_BYTES + 2)
        return REFUSE(header, NULL, "has %" PRIu64 " bytes, too few for a safetensors file",
                      header->file->bytes);
    int rc = ah_safetensors_pread(header->file, raw, sizeof raw, 0, header->err);
    if (rc)
        return rc;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | raw[i];
    if (length > AH_SAFETENSORS_HEADER_MAX)
        return REFUSE(header, NULL, "begins with a header of %" PRIu64 " bytes; is it a safetensors file?",
                      length);
    if (length > header->file->bytes - LENGTH_BYTES)
        return REFUSE(header, NULL,
                      "has %" PRIu64 " bytes, but its header alone needs %" PRIu64 "; is the file cut off?",
                      header->file->bytes, length);
    *ret_bytes = length;
    return AH_OK;
}

int ah_safetensors_header(const struct ah_safetensors_file *file, size_t index, struct ah_arena *arena,
                          struct ah_safetensors_table *table, struct ah_error *err)
{
    struct header header = {.file = file, .index = index, .arena = arena, .table = table, .err = err};
    uint64_t length = 0;
    int rc = read_length(&header, &length);
    if (rc)
        return rc;
    header.data_offset_bytes = LENGTH_BYTES + length;
    header.data_bytes = file->bytes - header.data_offset_bytes;
    char *text = malloc(length + 1);
    if (!text)
        return ah_error_memory(err);
    rc = ah_safetensors_pread(file, text, length, LENGTH_BYTES, err);
    if (!rc && (length == 0 || text[0] != '{'))
        rc = REFUSE(&header, NULL, "its header does not begin with '{'; is it a safetensors file?");
    if (!rc)
        rc = parse_tensors(&header, text, length);
    free(text);
    return rc;
}
