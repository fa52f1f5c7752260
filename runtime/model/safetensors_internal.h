/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the parts of the safetensors reader and writer: error messages, whole reads and writes, headers.
 */
#ifndef AH_RUNTIME_MODEL_SAFETENSORS_INTERNAL_H
#define AH_RUNTIME_MODEL_SAFETENSORS_INTERNAL_H

#include "runtime/model/safetensors.h"

#include <stdbool.h>

/* Prints a name from a file so that it fits in a message: on one line, and cut if it is long. Returns `out`. */
enum { AH_SAFETENSORS_NAME_TEXT = 112 };
const char *ah_safetensors_plain(const char *name, char out[AH_SAFETENSORS_NAME_TEXT]);

/* Sets the error "PATH: 'TENSOR': what", or "PATH: what" if `tensor` is NULL. Returns `code`. */
int ah_safetensors_fail(struct ah_error *err, int code, const char *path, const char *tensor,
                        const char *format, ...) AH_PRINTF(5, 6);

/* Reads exactly `size` bytes. AH_E_IO if the file ends earlier. */
int ah_safetensors_pread(const struct ah_safetensors_file *file, void *bytes, uint64_t size, uint64_t offset,
                         struct ah_error *err);

/* A growing table of the tensors of files being read. */
struct ah_safetensors_table {
    struct ah_safetensors_tensor *tensors; /* owned */
    size_t n, capacity;
};

/* Reads the header of files[index], and appends its tensors once they are checked. `arena` gets their names. */
int ah_safetensors_header(const struct ah_safetensors_file *file, size_t index, struct ah_arena *arena,
                          struct ah_safetensors_table *table, struct ah_error *err);

/* An index: the file of each tensor. Everything is in the index's arena. */
struct ah_safetensors_place {
    const char *tensor;
    const char *file; /* name without folder */
};

struct ah_safetensors_index {
    struct ah_arena arena;
    size_t n_places;
    struct ah_safetensors_place *places; /* sorted by tensor; no tensor twice */
    size_t n_files;
    const char **files; /* sorted by name; no file twice */
};

/* Reads an index. The caller zeroes `ret_index` before, and releases its arena afterwards, even after a failure. */
int ah_safetensors_index_read(struct ah_safetensors_index *ret_index, const char *path, struct ah_error *err);

/* Checks that the index names the right file for every tensor of `files`, which are sorted, and no other tensor. */
int ah_safetensors_index_check(const struct ah_safetensors_index *index, const char *path,
                               const struct ah_safetensors *files, struct ah_error *err);

/* Sorts tensors by name. Returns the second of two tensors with the same name; NULL if all names differ. */
const struct ah_safetensors_tensor *ah_safetensors_sort(struct ah_safetensors_tensor *tensors, size_t n);

unsigned ah_safetensors_bits(enum ah_safetensors_dtype dtype);

#endif
