/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing: the header is written first. It determines the offset of every tensor, so pieces may be written in any
 * order. The bytes equal the reference library's: tensors sorted by name (all of one dtype), header padded to 8 bytes.
 */
#include "base/bf16.h"
#include "base/buffer.h"
#include "runtime/model/safetensors_internal.h"
#include "schemas/json.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_ELEMENTS = 4096, PAD_BYTES = 8 };

/* A tensor of the file being written. */
struct ah_safetensors_slot {
    const char *name; /* in arena */
    uint64_t elements;
    uint64_t offset_bytes;        /* offset in the file */
    atomic_uint_fast64_t written; /* number of elements written */
};

static int fail_write(struct ah_error *err, const char *path)
{
    return ah_safetensors_fail(err, AH_E_IO, path, NULL, "cannot be written: %s", strerror(errno));
}

static uint64_t elements_of(const struct ah_safetensors_spec *spec)
{
    uint64_t elements = 1;
    for (size_t i = 0; i < spec->n_shape; i++)
        elements *= spec->shape[i];
    return elements;
}

static int compare_specs(const void *a, const void *b)
{
    return strcmp((*(const struct ah_safetensors_spec *const *)a)->name,
                  (*(const struct ah_safetensors_spec *const *)b)->name);
}

static void put_tensor(struct ah_buffer *out, const struct ah_safetensors_spec *spec, enum ah_dtype dtype,
                       uint64_t begin, uint64_t end)
{
    bool text = ah_json_put_text(out, spec->name);
    assert(text || out->failed);
    (void)text;
    ah_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", dtype == AH_BF16 ? "BF16" : "F32");
    for (size_t i = 0; i < spec->n_shape; i++)
        ah_buffer_printf(out, "%s%" PRIu64, i ? "," : "", spec->shape[i]);
    ah_buffer_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

/* Prints the header to `out`, without its length. Sets the slots' offsets, counted from the beginning of the data.
 * Returns the bytes of data. */
static uint64_t lay_out(struct ah_safetensors_writer *writer, const struct ah_safetensors_spec *specs,
                        const struct ah_safetensors_spec **order, struct ah_buffer *out)
{
    uint64_t at = 0;
    for (size_t i = 0; i < writer->n; i++)
        order[i] = &specs[i];
    qsort(order, writer->n, sizeof(const struct ah_safetensors_spec *), compare_specs);
    ah_buffer_puts(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < writer->n; i++) {
        struct ah_safetensors_slot *slot = &writer->slots[order[i] - specs];
        assert(i == 0 || strcmp(order[i - 1]->name, order[i]->name) != 0);
        slot->elements = elements_of(order[i]);
        slot->offset_bytes = at;
        at += slot->elements * ah_dtype_bytes(writer->dtype);
        ah_buffer_puts(out, ",");
        put_tensor(out, order[i], writer->dtype, slot->offset_bytes, at);
    }
    ah_buffer_puts(out, "}");
    while (out->size % PAD_BYTES && !out->failed)
        ah_buffer_puts(out, " ");
    return at;
}

static int write_bytes(const struct ah_safetensors_writer *writer, const void *bytes, size_t size,
                       uint64_t offset, struct ah_error *err)
{
    const char *at = bytes;
    while (size) {
        ssize_t done = pwrite(writer->descriptor, at, size, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail_write(err, writer->path);
        at += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
    }
    return AH_OK;
}

static int open_file(struct ah_safetensors_writer *writer, int flags, struct ah_error *err)
{
    writer->descriptor = open(writer->path, O_WRONLY | O_CLOEXEC | flags, 0666);
    return writer->descriptor < 0 ? fail_write(err, writer->path) : AH_OK;
}

/* Creates the file, and reserves its space where the file system supports that, so that a full disk shows now. */
static int create_file(struct ah_safetensors_writer *writer, uint64_t bytes, struct ah_error *err)
{
    int rc = open_file(writer, O_CREAT | O_EXCL, err);
    if (rc)
        return rc;
    do
        rc = fallocate(writer->descriptor, 0, 0, (off_t)bytes);
    while (rc && errno == EINTR);
    return rc && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) ? fail_write(err, writer->path)
                                                                        : AH_OK;
}

/* Prints the header, sets the slots' offsets in the file, and finds the file's size. */
static int place_tensors(struct ah_safetensors_writer *writer, const struct ah_safetensors_spec *specs,
                         struct ah_buffer *header, uint64_t *ret_bytes, struct ah_error *err)
{
    const struct ah_safetensors_spec **order = malloc((writer->n + 1) * sizeof *order);
    if (!order)
        return ah_error_memory(err);
    uint64_t data_bytes = lay_out(writer, specs, order, header);
    free(order);
    if (header->failed)
        return ah_error_memory(err);
    uint64_t length = header->size; /* the host is little-endian, like the format */
    for (size_t i = 0; i < writer->n; i++)
        writer->slots[i].offset_bytes += sizeof length + length;
    *ret_bytes = sizeof length + length + data_bytes;
    return AH_OK;
}

static int create(struct ah_safetensors_writer *writer, const struct ah_safetensors_spec *specs,
                  struct ah_buffer *header, struct ah_error *err)
{
    uint64_t bytes = 0;
    int rc = place_tensors(writer, specs, header, &bytes, err);
    if (rc)
        return rc;
    if (writer->partial)
        return open_file(writer, 0, err);
    const uint64_t length = header->size; /* the host is little-endian, like the format */
    rc = create_file(writer, bytes, err);
    if (!rc)
        rc = write_bytes(writer, &length, sizeof length, 0, err);
    if (!rc)
        rc = write_bytes(writer, header->data, header->size, sizeof length, err);
    return rc;
}

static int open_writer(struct ah_safetensors_writer *ret_writer, const char *path, enum ah_dtype dtype,
                       const struct ah_safetensors_spec *specs, size_t n, bool joins, struct ah_error *err)
{
    struct ah_safetensors_writer writer = {.descriptor = -1, .dtype = dtype, .partial = joins, .n = n};
    struct ah_buffer header = {0};
    bool memory = true;
    writer.path = ah_arena_strdup(&writer.arena, path);
    writer.slots = ah_arena_array(&writer.arena, n, sizeof *writer.slots);
    for (size_t i = 0; i < n && memory && writer.slots; i++)
        memory = (writer.slots[i].name = ah_arena_strdup(&writer.arena, specs[i].name)) != NULL;
    int rc =
        memory && writer.path && writer.slots ? create(&writer, specs, &header, err) : ah_error_memory(err);
    ah_buffer_release(&header);
    if (rc)
        ah_safetensors_abandon(&writer);
    *ret_writer = writer;
    return rc;
}

int ah_safetensors_create(struct ah_safetensors_writer *ret_writer, const char *path, enum ah_dtype dtype,
                          const struct ah_safetensors_spec *specs, size_t n, struct ah_error *err)
{
    return open_writer(ret_writer, path, dtype, specs, n, false, err);
}

int ah_safetensors_join(struct ah_safetensors_writer *ret_writer, const char *path, enum ah_dtype dtype,
                        const struct ah_safetensors_spec *specs, size_t n, struct ah_error *err)
{
    return open_writer(ret_writer, path, dtype, specs, n, true, err);
}

int ah_safetensors_write(struct ah_safetensors_writer *writer, size_t index, uint64_t first,
                         const float *values, uint64_t n, struct ah_error *err)
{
    struct ah_safetensors_slot *slot = &writer->slots[index];
    uint16_t rounded[STEP_ELEMENTS];
    int rc = AH_OK;
    assert(index < writer->n && first <= slot->elements && n <= slot->elements - first);
    if (writer->dtype == AH_FP32)
        rc =
            write_bytes(writer, values, n * sizeof *values, slot->offset_bytes + first * sizeof *values, err);
    for (uint64_t at = 0; at < n && !rc && writer->dtype == AH_BF16; at += STEP_ELEMENTS) {
        size_t step = n - at < STEP_ELEMENTS ? n - at : STEP_ELEMENTS;
        for (size_t i = 0; i < step; i++)
            rounded[i] = ah_bf16_from_fp32(values[at + i]);
        rc = write_bytes(writer, rounded, step * sizeof *rounded,
                         slot->offset_bytes + (first + at) * sizeof *rounded, err);
    }
    if (!rc)
        atomic_fetch_add(&slot->written, n);
    return rc;
}

/* Closes the file, so that abandoning leaves it, and reports errors that show only on closing. */
int ah_safetensors_finish(struct ah_safetensors_writer *writer, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < writer->n; i++) {
        const uint64_t written = atomic_load(&writer->slots[i].written);
        if (written != writer->slots[i].elements && (written || !writer->partial))
            return ah_safetensors_fail(err, AH_E_FAILED, writer->path, writer->slots[i].name,
                                       "was not written completely");
    }
    do
        rc = fsync(writer->descriptor);
    while (rc && errno == EINTR);
    if (rc && errno != EINVAL && errno != EROFS) /* EINVAL, EROFS: this kind of file cannot be synced */
        return fail_write(err, writer->path);
    rc = close(writer->descriptor) && errno != EINTR ? fail_write(err, writer->path) : AH_OK;
    writer->descriptor = -1;
    if (rc && !writer->partial)
        unlink(writer->path);
    return rc;
}

void ah_safetensors_abandon(struct ah_safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->path && writer->descriptor >= 0) {
        close(writer->descriptor);
        if (!writer->partial)
            unlink(writer->path);
    }
    ah_arena_release(&writer->arena);
    *writer = (struct ah_safetensors_writer){.descriptor = -1};
}
