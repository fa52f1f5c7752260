/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/data/synthetic_tokens.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/philox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make_file(struct ah_synthetic_tokens *tokens, struct ah_error *err)
{
    static const char suffix[] = ".bin";
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    if (!folder || !*folder)
        folder = "/tmp";
    if (snprintf(path, sizeof path, "%s/autohete-tokens-XXXXXX%s", folder, suffix) >= (int)sizeof path)
        return ah_error_set(err, AH_E_IO, "'TMPDIR' is too long a path; name another folder");
    int descriptor = mkstemps(path, (int)strlen(suffix));
    if (descriptor < 0)
        return ah_error_set(err, AH_E_IO,
                            "'%s': cannot create a file for made-up tokens there (%s); set TMPDIR, or give "
                            "'--data'",
                            folder, strerror(errno));
    close(descriptor);
    memcpy(tokens->path, path, sizeof path);
    return AH_OK;
}

/* Appends the tokens. Each call of Philox gives four. */
static void put_tokens(struct ah_buffer *out, const struct ah_synthetic_tokens_options *options,
                       size_t token_bytes)
{
    uint32_t bits[4];
    for (uint64_t i = 0; i < options->tokens; i++) {
        if (i % 4 == 0)
            ah_philox_draw(&(struct ah_philox_name){.seed = options->seed, .element = i / 4}, bits);
        uint32_t token = (uint32_t)(((uint64_t)bits[i % 4] * options->vocabulary) >> 32);
        uint16_t narrow = (uint16_t)token;
        ah_buffer_append(out, token_bytes == sizeof narrow ? (const void *)&narrow : (const void *)&token,
                         token_bytes);
    }
}

int ah_synthetic_tokens_init(struct ah_synthetic_tokens *ret_tokens,
                             const struct ah_synthetic_tokens_options *options, struct ah_error *err)
{
    struct ah_buffer bytes = {0};
    bool narrow = options->vocabulary <= UINT16_MAX + 1u;
    *ret_tokens = (struct ah_synthetic_tokens){.format = narrow ? AH_DATASET_U16 : AH_DATASET_U32};
    ret_tokens->paths[0] = ret_tokens->path;
    put_tokens(&bytes, options, narrow ? sizeof(uint16_t) : sizeof(uint32_t));
    int rc = bytes.failed ? ah_error_memory(err) : make_file(ret_tokens, err);
    if (!rc)
        rc = ah_file_write(ret_tokens->path, bytes.data, bytes.size, err);
    ah_buffer_release(&bytes);
    if (rc)
        ah_synthetic_tokens_release(ret_tokens);
    return rc;
}

void ah_synthetic_tokens_release(struct ah_synthetic_tokens *tokens)
{
    if (tokens->path[0])
        unlink(tokens->path);
    tokens->path[0] = '\0';
}
