/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors: reads and writes tensors in the ecosystem's file format, piece by piece.
 *
 * A file begins with eight bytes that state the length of its header, little-endian. The header is JSON with dtype,
 * shape and offsets of each tensor. The data follow: row-major, little-endian, packed in the order of their offsets. A
 * model is one file, or several files with an index of their tensors (`model.safetensors.index.json`).
 *
 * The reader trusts no file. It reads a header only if it fits in the file and in AH_SAFETENSORS_HEADER_MAX bytes. The
 * header must be strict JSON, and its tensors must cover all of the data without overlap or gap. An accepted file needs
 * no further checks; if the file shrinks later, reading returns an error. Error messages begin with the file's path and
 * name the tensor.
 *
 *     struct ah_safetensors files = {0};
 *     rc = ah_safetensors_open(&files, "llama-2-7b", err);
 *     const struct ah_safetensors_tensor *tensor = ah_safetensors_find(&files, "lm_head.weight");
 *     rc = ah_safetensors_read(&files, tensor, first, n, values, err);      // fp32, whatever the file's dtype
 *     ah_safetensors_release(&files);
 *
 * An open reader may be used by several threads at once.
 */
#ifndef AH_RUNTIME_MODEL_SAFETENSORS_H
#define AH_RUNTIME_MODEL_SAFETENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/sha256.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AH_SAFETENSORS_HEADER_MAX = 100000000, /* the largest header, in bytes, that the format allows */
    AH_SAFETENSORS_FILES_MAX = 512,        /* all files are open at once */
    AH_SAFETENSORS_DIMENSIONS_MAX = 8,
};

#define AH_SAFETENSORS_FILE  "model.safetensors"
#define AH_SAFETENSORS_INDEX "model.safetensors.index.json"

/* Every dtype of the format: its word and the bits of an element. Only F32, F16 and BF16 can be read. */
#define AH_SAFETENSORS_DTYPES(X)                                                                             \
    X(BOOL, 8)                                                                                               \
    X(F4, 4)                                                                                                 \
    X(F6_E2M3, 6)                                                                                            \
    X(F6_E3M2, 6)                                                                                            \
    X(U8, 8)                                                                                                 \
    X(I8, 8)                                                                                                 \
    X(F8_E5M2, 8)                                                                                            \
    X(F8_E4M3, 8)                                                                                            \
    X(F8_E8M0, 8)                                                                                            \
    X(F8_E4M3FNUZ, 8)                                                                                        \
    X(F8_E5M2FNUZ, 8)                                                                                        \
    X(I16, 16)                                                                                               \
    X(U16, 16)                                                                                               \
    X(F16, 16)                                                                                               \
    X(BF16, 16)                                                                                              \
    X(I32, 32)                                                                                               \
    X(U32, 32)                                                                                               \
    X(F32, 32)                                                                                               \
    X(C64, 64)                                                                                               \
    X(F64, 64)                                                                                               \
    X(I64, 64)                                                                                               \
    X(U64, 64)

enum ah_safetensors_dtype {
#define AH_SAFETENSORS_DTYPE(word, bits) AH_SAFETENSORS_##word,
    AH_SAFETENSORS_DTYPES(AH_SAFETENSORS_DTYPE)
#undef AH_SAFETENSORS_DTYPE
        AH_SAFETENSORS_DTYPES_MAX
};

/* ---- reading ---- */

struct ah_safetensors_file {
    const char *path; /* in the reader's arena */
    int descriptor;
    uint64_t bytes;
};

struct ah_safetensors_tensor {
    const char *name; /* in the reader's arena; any UTF-8 text without a NUL */
    enum ah_safetensors_dtype dtype;
    size_t n_shape; /* 0: the tensor has one element */
    uint64_t shape[AH_SAFETENSORS_DIMENSIONS_MAX];
    uint64_t elements; /* may be 0 */
    uint64_t bytes;
    uint64_t offset_bytes; /* of the tensor, from the beginning of the file */
    size_t file;           /* index into `files` */
};

struct ah_safetensors {
    struct ah_arena arena; /* owns names and tables */
    size_t n_files;
    struct ah_safetensors_file *files;
    size_t n_tensors;
    struct ah_safetensors_tensor *tensors; /* owned; sorted by name, in the order of strcmp() */
};

/* Opens a file, or a folder that contains AH_SAFETENSORS_FILE or else AH_SAFETENSORS_INDEX, and reads every header.
 * AH_E_IO: a file is missing, cannot be read or is not a regular file. AH_E_DOCUMENT: a file breaks the format, or an
 * index disagrees with its files. `ret_files` is released and empty after a failure. */
int ah_safetensors_open(struct ah_safetensors *ret_files, const char *path, struct ah_error *err);

/* Returns, for a folder without the two files above, the rest of a sentence: what the folder seems to be (an adapter,
 * pickled weights), and what to do. NULL: unknown. */
const char *ah_safetensors_other_folder(const char *folder);

/* Returns the tensor with that name; NULL if there is none. */
const struct ah_safetensors_tensor *ah_safetensors_find(const struct ah_safetensors *files, const char *name);

/* Reads elements [first, first + n) of the tensor, in row-major order, as fp32. This is exact for every readable dtype.
 * The range must be in the tensor. AH_E_DOCUMENT names the tensor if its dtype cannot be read. Allocates nothing. */
int ah_safetensors_read(const struct ah_safetensors *files, const struct ah_safetensors_tensor *tensor,
                        uint64_t first, uint64_t n, float *ret_values, struct ah_error *err);

/* Computes a digest of names, dtypes, shapes and the first 4 KiB of each tensor, as a cheap way to compare weights in
 * two places. Errors of ah_safetensors_open(). */
int ah_safetensors_digest(const char *path, char ret_text[AH_SHA256_HEX_MAX], struct ah_error *err);

/* Returns the format's word for a dtype, such as "BF16". */
const char *ah_safetensors_word(enum ah_safetensors_dtype dtype);

/* Prints the tensor's shape into `out`, such as "[4096, 1024]". Returns `out`. */
enum { AH_SAFETENSORS_SHAPE_TEXT = 24 * AH_SAFETENSORS_DIMENSIONS_MAX };
const char *ah_safetensors_shape_text(const uint64_t *shape, size_t n_shape,
                                      char out[AH_SAFETENSORS_SHAPE_TEXT]);

/* Closes the files and frees the tables. NULL and zeroed readers are fine. */
void ah_safetensors_release(struct ah_safetensors *files);

/* ---- writing ---- */

/* A tensor to write. */
struct ah_safetensors_spec {
    const char *name; /* borrowed until the writer is open */
    size_t n_shape;
    uint64_t shape[AH_SAFETENSORS_DIMENSIONS_MAX];
};

/* A file being written. Its tensors may be written in any order and in pieces, each element once. Equal tensors and
 * values give equal bytes, namely those of the format's own library: tensors sorted by name, metadata {"format":"pt"},
 * header padded with spaces to eight bytes.
 *
 *     rc = ah_safetensors_create(&writer, "out/model.safetensors", AH_BF16, specs, n, err);
 *     rc = ah_safetensors_write(&writer, i, first, values, n, err);          // specs[i]
 *     rc = ah_safetensors_finish(&writer, err);
 *     ah_safetensors_abandon(&writer);                                       // in every case
 */
struct ah_safetensors_writer {
    struct ah_arena arena; /* owns path, names and table */
    const char *path;
    int descriptor;
    enum ah_dtype dtype;
    bool partial; /* other writers write some of the tensors */
    size_t n;
    struct ah_safetensors_slot *slots; /* by index of the spec */
};

/* Creates the file and writes its header. Reserves the file's space if the file system can. AH_E_IO: the file exists or
 * cannot be written. Names must be UTF-8 and all different (asserted). */
int ah_safetensors_create(struct ah_safetensors_writer *ret_writer, const char *path, enum ah_dtype dtype,
                          const struct ah_safetensors_spec *specs, size_t n, struct ah_error *err);

/* Opens a file that a writer with the same specs created and finished as `partial`, possibly on another machine.
 * Several writers may each write whole tensors of their own. Abandoning leaves the file. AH_E_IO. */
int ah_safetensors_join(struct ah_safetensors_writer *ret_writer, const char *path, enum ah_dtype dtype,
                        const struct ah_safetensors_spec *specs, size_t n, struct ah_error *err);

/* Writes elements [first, first + n) of spec `index`, rounded to the file's dtype (base/bf16.h). Allocates nothing.
 * Several threads may write different elements at once. */
int ah_safetensors_write(struct ah_safetensors_writer *writer, size_t index, uint64_t first,
                         const float *values, uint64_t n, struct ah_error *err);

/* Syncs and closes the file. AH_E_FAILED: a tensor is incomplete; if `partial`, one that was begun is incomplete. */
int ah_safetensors_finish(struct ah_safetensors_writer *writer, struct ah_error *err);

/* Frees the writer, and removes a file that it created and did not finish. NULL and zeroed writers are fine. */
void ah_safetensors_abandon(struct ah_safetensors_writer *writer);

#endif
