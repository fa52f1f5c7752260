/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the safetensors reader and writer share: sentences, whole reads and writes, headers.
 */
#ifndef AH_RUNTIME_MODEL_SAFETENSORS_INTERNAL_H
#define AH_RUNTIME_MODEL_SAFETENSORS_INTERNAL_H

#include "runtime/model/safetensors.h"

#include <stdbool.h>

/* A name from a file as it may stand in a sentence: on one line, cut when it is long. Returns `out`. */
enum { AH_SAFETENSORS_NAME_TEXT = 112 };
const char *ah_safetensors_plain(const char *name, char out[AH_SAFETENSORS_NAME_TEXT]);

/* Sets "PATH: 'TENSOR': what" (without the tensor where `tensor` is NULL) and returns `code`. */
int ah_safetensors_fail(struct ah_error *err, int code, const char *path, const char *tensor,
                        const char *format, ...) AH_PRINTF(5, 6);

/* Reads the whole range. AH_E_IO where the file ends before. */
int ah_safetensors_pread(const struct ah_safetensors_file *file, void *bytes, uint64_t size, uint64_t offset,
                         struct ah_error *err);

/* The tensors of a file while it is read; a growing table. */
struct ah_safetensors_table {
    struct ah_safetensors_tensor *tensors; /* owned */
    size_t n, capacity;
};

/* Reads the header of files[index] and appends its tensors, checked against the file and each other; `arena` gets
 * their names. */
int ah_safetensors_header(const struct ah_safetensors_file *file, size_t index, struct ah_arena *arena,
                          struct ah_safetensors_table *table, struct ah_error *err);

/* What an index says: which file every tensor is in. Everything in its arena. */
struct ah_safetensors_place {
    const char *tensor;
    const char *file; /* a name without folder */
};

struct ah_safetensors_index {
    struct ah_arena arena;
    size_t n_places;
    struct ah_safetensors_place *places; /* by tensor, all different */
    size_t n_files;
    const char **files; /* by name, all different */
};

/* `ret_index` is zeroed before; its arena is the caller's to release, after a failure too. */
int ah_safetensors_index_read(struct ah_safetensors_index *ret_index, const char *path, struct ah_error *err);

/* Does it say of every tensor, and only of those, where it is? The tensors are sorted. */
int ah_safetensors_index_check(const struct ah_safetensors_index *index, const char *path,
                               const struct ah_safetensors *files, struct ah_error *err);

/* Sorts by name. The second of two equal names; NULL where all differ. */
const struct ah_safetensors_tensor *ah_safetensors_sort(struct ah_safetensors_tensor *tensors, size_t n);

unsigned ah_safetensors_bits(enum ah_safetensors_dtype dtype);

#endif
