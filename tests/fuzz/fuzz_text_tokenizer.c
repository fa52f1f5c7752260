/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for tokenizer.json as 'tokenize' reads it: what opens encodes any text into ids of its vocabulary, at
 * most a few for each byte; a refusal has a sentence.
 */
#include "runtime/text/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 1024, IDS_A_BYTE = 64, IDS_BESIDE = 4096 };

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_text_tokenizer: %s\n", what);
        abort();
    }
}

/* Pieces of texts: special tokens, what normal forms change, spaces, control characters, and a word that repeats. */
static const char *const pieces[] = {"<s>",
                                     "</s>",
                                     "<|endoftext|>",
                                     "foo_bar",
                                     " ",
                                     "   ",
                                     "\n",
                                     "\t\r\n",
                                     "the",
                                     "a",
                                     "ab",
                                     "aaaaaa",
                                     "A\xCC\x8A\xCC\xA7",
                                     "\xE2\x84\xAB",
                                     "\xE4\xB8\x96\xE7\x95\x8C",
                                     "\xF0\x9F\x99\x82",
                                     "\xE2\x96\x81",
                                     "\x7F",
                                     "1234",
                                     "'s",
                                     "\xC2\x85",
                                     "\xE3\x80\x80",
                                     "x",
                                     "_"};

/* Writes a text that depends on `seed`, with a NUL at times. Returns its size. */
static size_t write_text(char text[TEXT_MAX], uint64_t seed)
{
    size_t size = 0;
    for (unsigned n = seed % 64; n; n--) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t pick = (seed >> 33) % (sizeof pieces / sizeof *pieces + 1);
        const char *piece = pick ? pieces[pick - 1] : "";
        const size_t length = pick ? strlen(piece) : 1;
        memcpy(text + size, piece, length);
        size += length;
    }
    return size;
}

static void encode(const struct ah_text_tokenizer *tokenizer, uint64_t seed)
{
    char text[TEXT_MAX];
    struct ah_text_ids ids = {0};
    struct ah_error err = {0};
    const size_t size = write_text(text, seed);
    const int rc = ah_text_encode(tokenizer, text, size, &ids, &err);
    require(!rc || err.text[0], "a refusal without a sentence");
    require(ids.n <= IDS_A_BYTE * size + IDS_BESIDE, "more ids than a text can have");
    for (size_t i = 0; i < ids.n; i++)
        require(ids.items[i] < ah_text_tokenizer_vocabulary(tokenizer), "an id beyond the vocabulary");
    ah_text_ids_release(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct ah_text_tokenizer *tokenizer = NULL;
    struct ah_error err = {0};
    uint64_t seed = size;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no memory file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < size; i++)
        seed = seed * 31 + data[i];
    const int rc = ah_text_tokenizer_open(&tokenizer, path, &err);
    require(!rc || err.text[0], "a refusal without a sentence");
    for (uint64_t i = 0; !rc && i < 4; i++)
        encode(tokenizer, seed + i * 977);
    ah_text_tokenizer_close(tokenizer);
    close(fd);
    return 0;
}
