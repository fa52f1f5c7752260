/* SPDX-License-Identifier: Apache-2.0
 *
 * Digest: distinguishes weights by names, dtypes, shapes and the beginning of each tensor, without reading all of them.
 * The number of files and everything else in a header do not matter.
 */
#include "runtime/model/safetensors_internal.h"

#include "base/sha256.h"

#include <string.h>

enum { BEGIN_BYTES = 4096 };

static int add_tensor(struct ah_sha256 *hash, const struct ah_safetensors *files,
                      const struct ah_safetensors_tensor *tensor, struct ah_error *err)
{
    char begin[BEGIN_BYTES];
    const char *dtype = ah_safetensors_word(tensor->dtype);
    const uint64_t n = tensor->bytes < BEGIN_BYTES ? tensor->bytes : BEGIN_BYTES;
    ah_sha256_update(hash, tensor->name, strlen(tensor->name) + 1);
    ah_sha256_update(hash, dtype, strlen(dtype) + 1);
    ah_sha256_update(hash, &tensor->n_shape, sizeof tensor->n_shape);
    ah_sha256_update(hash, tensor->shape, tensor->n_shape * sizeof *tensor->shape);
    int rc = ah_safetensors_pread(&files->files[tensor->file], begin, n, tensor->offset_bytes, err);
    if (!rc)
        ah_sha256_update(hash, begin, n);
    return rc;
}

int ah_safetensors_digest(const char *path, char ret_text[AH_SHA256_HEX_MAX], struct ah_error *err)
{
    struct ah_safetensors files;
    struct ah_sha256 hash;
    unsigned char digest[AH_SHA256_BYTES];
    int rc = ah_safetensors_open(&files, path, err);
    ah_sha256_init(&hash);
    for (size_t i = 0; i < files.n_tensors && !rc; i++)
        rc = add_tensor(&hash, &files, &files.tensors[i], err);
    ah_sha256_finish(&hash, digest);
    if (!rc)
        (void)ah_sha256_hex(digest, ret_text);
    ah_safetensors_release(&files);
    return rc;
}
