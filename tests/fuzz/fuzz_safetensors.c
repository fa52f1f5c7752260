/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the safetensors reader and for loading. The first byte says what the rest is:
 *
 *     F   a file as it is
 *     H   a header up to a NUL, then data; the header's length is prepended, so that fuzzing gets past it
 *     I   an index; its files are "one" and "two" with a tensor each
 *
 * In accepted files, tensors are sorted, do not overlap, do not reach beyond their files, and every element can be
 * read. A refusal is one sentence.
 */
#include "runtime/model/safetensors.h"
#include "runtime/model/weights.h"
#include "schemas/document.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEP = 64, PATH_BYTES = 128 };

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_safetensors: %s\n", what);
        abort();
    }
}

static int is_read(enum ah_safetensors_dtype dtype)
{
    return dtype == AH_SAFETENSORS_F32 || dtype == AH_SAFETENSORS_BF16 || dtype == AH_SAFETENSORS_F16;
}

static void check_values(const struct ah_safetensors *files, const struct ah_safetensors_tensor *tensor)
{
    float values[STEP];
    struct ah_error err = {0};
    for (uint64_t first = 0; first < tensor->elements; first += STEP) {
        uint64_t n = tensor->elements - first < STEP ? tensor->elements - first : STEP;
        int rc = ah_safetensors_read(files, tensor, first, n, values, &err);
        require(is_read(tensor->dtype) ? !rc : rc == AH_E_DOCUMENT, "cannot be read as promised");
        if (rc)
            return;
    }
}

static void check_files(const struct ah_safetensors *files)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < files->n_tensors; i++) {
        const struct ah_safetensors_tensor *tensor = &files->tensors[i];
        require(!i || strcmp(tensor[-1].name, tensor->name) < 0, "names are not sorted or not different");
        require(tensor->file < files->n_files, "no such file");
        const struct ah_safetensors_file *file = &files->files[tensor->file];
        require(tensor->offset_bytes >= 10 && tensor->offset_bytes <= file->bytes &&
                    tensor->bytes <= file->bytes - tensor->offset_bytes,
                "a place beyond its file");
        require(ah_safetensors_find(files, tensor->name) == tensor, "is not found");
        bytes += tensor->bytes;
        check_values(files, tensor);
    }
    for (size_t i = 0; i < files->n_files; i++)
        require(bytes < files->files[i].bytes || files->n_files > 1, "more data than file");
}

static int take(void *context, const struct ah_weights_piece *piece, const float *values,
                struct ah_error *err)
{
    (void)err;
    require(piece->block < 3 && piece->n, "a piece of nothing");
    for (uint64_t i = 0; i < piece->n; i++)
        *(float *)context += values[i];
    return AH_OK;
}

static void try_load(const char *path)
{
    static const char text[] = "{\"model_type\":\"llama\",\"hidden_size\":2,\"num_hidden_layers\":1,"
                               "\"num_attention_heads\":1,\"num_key_value_heads\":1,\"head_dim\":2,"
                               "\"intermediate_size\":2,\"vocab_size\":3,\"max_position_embeddings\":4}";
    struct ah_document document;
    struct ah_error err = {0};
    float sum = 0;
    require(!ah_document_parse(&document, "m", text, sizeof text - 1, AH_DOCUMENT_MODEL, &err), err.text);
    int rc = ah_weights_load(document.body.model, path,
                             &(struct ah_weights_sink){.take = take, .context = &sum}, &err);
    require(!rc || (err.text[0] && !strchr(err.text, '\n')), "not one sentence about a load");
    ah_document_release(&document);
}

static void open_path(const char *path)
{
    struct ah_safetensors files;
    struct ah_error err = {0};
    int rc = ah_safetensors_open(&files, path, &err);
    if (rc) {
        require(err.text[0] && !strchr(err.text, '\n'), "not one sentence");
        require(!files.tensors && !files.n_files, "a refused file is open");
        return;
    }
    check_files(&files);
    ah_safetensors_release(&files);
    try_load(path);
}

static void open_bytes(const void *first, size_t first_size, const void *rest, size_t rest_size)
{
    char path[PATH_BYTES];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0, "no memory file");
    require(write(fd, first, first_size) == (ssize_t)first_size, "cannot write");
    require(write(fd, rest, rest_size) == (ssize_t)rest_size, "cannot write");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    open_path(path);
    close(fd);
}

static void open_header(const uint8_t *data, size_t size)
{
    const uint8_t *nul = memchr(data, 0, size);
    uint64_t length = nul ? (uint64_t)(nul - data) : size;
    size_t header = (size_t)length, rest = nul ? size - header - 1 : 0;
    unsigned char *file = malloc(sizeof length + header);
    require(file != NULL, "out of memory");
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, data, header);
    open_bytes(file, sizeof length + header, nul ? nul + 1 : data, rest);
    free(file);
}

static void put(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    require(file && fwrite(bytes, 1, size, file) == size && !fclose(file), "cannot write");
}

static void put_shard(const char *folder, const char *name, const char *tensor)
{
    char header[PATH_BYTES];
    uint64_t length = (uint64_t)snprintf(
        header, sizeof header, "........{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        tensor);
    length -= sizeof length;
    memcpy(header, &length, sizeof length);
    memcpy(header + sizeof length + length, "\0\0\0\0", 4);
    put(folder, name, header, sizeof length + length + 4);
}

static void open_index(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"one", "two", AH_SAFETENSORS_INDEX};
    char folder[] = "/tmp/autohete-fuzz-XXXXXX", path[PATH_BYTES];
    require(mkdtemp(folder) != NULL, "no folder");
    put_shard(folder, "one", "a");
    put_shard(folder, "two", "b");
    put(folder, AH_SAFETENSORS_INDEX, data, size);
    open_path(folder);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 'F')
        open_bytes(data + 1, size - 1, "", 0);
    else if (data[0] == 'H')
        open_header(data + 1, size - 1);
    else if (data[0] == 'I')
        open_index(data + 1, size - 1);
    return 0;
}
