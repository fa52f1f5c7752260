/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target without libFuzzer, as CI does. Replays the corpus and a bounded number of mutations of each file,
 * the same each time. AH_TEST_SCALE works as in tests/support/check.h.
 */
#include "base/file.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTATIONS = 2000 };

static int mutations(void)
{
    const char *scale = getenv("AH_TEST_SCALE");
    return (int)(MUTATIONS * (scale ? strtod(scale, NULL) : 0.1));
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D) >> 16;
}

/* Pieces of text that readers may handle wrongly. */
static const char *const pieces[] = {"\"",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "null",
                                     "-",
                                     "1e999",
                                     "9007199254740992",
                                     "0.5",
                                     "\\u0000",
                                     "\\ud800",
                                     "\xff",
                                     "\xef\xbb\xbf",
                                     "\n",
                                     "\"kind\":\"runlog\"",
                                     "\"a\":1,",
                                     "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};

/* Replaces the first digit at or after `at`. Most documents stay valid. */
static void change_digit(char *text, size_t size, size_t at, uint64_t *state)
{
    for (size_t i = at; i < size; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            text[i] = (char)('0' + random_next(state) % 10);
            return;
        }
    }
}

/* Mutates the text and returns its size: cuts it, changes a byte or digit, inserts or writes a piece, or removes or
 * doubles a stretch. */
static size_t mutate(char *text, size_t size, size_t room, uint64_t *state)
{
    size_t at = size ? random_next(state) % size : 0;
    const char *piece = pieces[random_next(state) % (sizeof pieces / sizeof pieces[0])];
    size_t length = strlen(piece);
    switch (random_next(state) % 10) {
    case 0:
        return at;
    case 1:
        if (size)
            text[at] = (char)random_next(state);
        return size;
    case 2:
        if (at + length <= size)
            memcpy(text + at, piece, length);
        return size;
    case 3:
        length = random_next(state) % 40;
        length = length < size - at ? length : size - at;
        memmove(text + at, text + at + length, size - at - length);
        return size - length;
    case 4:
        length = random_next(state) % 200;
        length = length < size - at ? length : size - at;
        if (size + length > room)
            return size;
        memmove(text + at + length, text + at, size - at);
        return size + length;
    case 5:
        if (size + length > room)
            return size;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, piece, length);
        return size + length;
    default:
        change_digit(text, size, at, state);
        return size;
    }
}

static int replay(const char *path, uint64_t *state)
{
    struct ah_buffer file = {0};
    struct ah_error err = {0};
    if (ah_file_read(path, 1 << 20, &file, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    size_t room = file.size + 4096;
    char *text = malloc(room);
    if (!text)
        abort();
    LLVMFuzzerTestOneInput((const uint8_t *)file.data, file.size);
    for (int i = mutations(); i > 0; i--) {
        size_t size = file.size;
        memcpy(text, file.data, size);
        for (uint64_t n = 1 + random_next(state) % 3; n; n--)
            size = mutate(text, size, room, state);
        LLVMFuzzerTestOneInput((const uint8_t *)text, size);
    }
    free(text);
    ah_buffer_release(&file);
    return 0;
}

/* Runs the target on the files of the corpus, which are the arguments. */
int main(int argc, char **argv)
{
    uint64_t state = 88172645463325252u;
    int status = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && !status; i++)
        status = replay(argv[i], &state);
    printf("%d files, %d mutations each\n", argc - 1, mutations());
    return status;
}
