/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the tokenizer.json reader: an accepted file is readable to its last id, a refusal is one sentence.
 */
#include "runtime/model/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_tokenizer: %s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct ah_tokenizer tokenizer;
    struct ah_error err = {0};
    size_t letters = 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no memory file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = ah_tokenizer_load(&tokenizer, path, &err);
    require(!rc || (err.text[0] && !strchr(err.text, '\n')), "not one sentence");
    for (uint64_t id = 0; !rc && id < tokenizer.n; id++)
        letters += ah_tokenizer_text(&tokenizer, id) ? strlen(ah_tokenizer_text(&tokenizer, id)) : 0;
    require(rc || letters <= size, "more text than file");
    if (!rc)
        ah_tokenizer_release(&tokenizer);
    close(fd);
    return 0;
}
