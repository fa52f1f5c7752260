/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/companions.h"

#include "base/file.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES_MAX = 256 << 20 };

/* The first TOKENIZERS of these names are those of tokenizers. */
static const char *const names[] = {"tokenizer.json",     "tokenizer.model",       "vocab.json",
                                    "vocab.txt",          "tokenizer_config.json", "special_tokens_map.json",
                                    "merges.txt",         "added_tokens.json",     "chat_template.jinja",
                                    "chat_template.json", "generation_config.json"};

enum { NAMES = sizeof names / sizeof names[0], TOKENIZERS = 4 };
_Static_assert((int)NAMES <= (int)AH_COMPANIONS_MAX, "each name has a place");

bool ah_companions_has_name(const char *name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool ah_companions_has_tokenizer(const struct ah_companions *companions)
{
    for (size_t i = 0; i < companions->n; i++)
        for (size_t k = 0; k < TOKENIZERS; k++)
            if (strcmp(companions->items[i].name, names[k]) == 0)
                return true;
    return false;
}

static int read_one(struct ah_companions *companions, const char *folder, const char *name,
                    struct ah_error *err)
{
    char path[PATH_MAX];
    struct stat about;
    struct ah_companion *item = &companions->items[companions->n];
    int rc = ah_stream_path(folder, name, path, err);
    if (rc)
        return rc;
    if (lstat(path, &about))
        return errno == ENOENT || errno == ENOTDIR ? AH_OK : ah_stream_fail(err, path, "read");
    rc = ah_file_check_regular(path, err);
    rc = rc ? rc : ah_file_read(path, BYTES_MAX, &item->bytes, err);
    if (rc)
        return rc;
    item->name = name;
    companions->n++;
    return AH_OK;
}

int ah_companions_read(struct ah_companions *ret_companions, const char *folder, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < NAMES && !rc; i++)
        rc = read_one(ret_companions, folder, names[i], err);
    return rc;
}

void ah_companions_release(struct ah_companions *companions)
{
    for (size_t i = 0; i < companions->n; i++)
        ah_buffer_release(&companions->items[i].bytes);
    companions->n = 0;
}
