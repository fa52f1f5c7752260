/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target of the document readers. Any bytes may come in; what is accepted must print, and what was printed
 * must read back as the same document and print as the same bytes.
 *
 * With libFuzzer (AUTOHETE_FUZZ=ON, clang) LLVMFuzzerTestOneInput is driven by it. Without, main() replays the
 * corpus and a bounded, deterministic number of mutations of each file: that is what CI runs.
 */
#include "schemas/document.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_document: %s\n", what);
        abort();
    }
}

static void look_around(const struct ah_document *document)
{
    static const char *const paths[] = {"kind",
                                        "blocks[0].optimizer",
                                        "links[1].points[0].us.median",
                                        "annotations.a",
                                        "steps[0].loss",
                                        "numeric_signature.run.seed",
                                        "rope.theta",
                                        "nodes[0]"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct ah_value value;
        struct ah_error err = {0};
        int rc = ah_document_lookup(document, paths[i], &value, &err);
        require(!rc || err.text[0], "a failed lookup without a sentence");
    }
}

static void check_round_trip(const struct ah_document *document)
{
    struct ah_document again = {0};
    struct ah_buffer first = {0}, second = {0};
    struct ah_error err = {0};
    require(ah_document_print(document, &first, &err) == AH_OK, err.text);
    require(ah_document_parse(&again, "printed", first.data, first.size, document->kind, &err) == AH_OK,
            err.text);
    require(ah_document_print(&again, &second, &err) == AH_OK, err.text);
    require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0,
            "not a fixed point");
    require(ah_document_diff(document, &again, NULL, NULL) == 0, "differs from itself");
    ah_buffer_release(&first);
    ah_buffer_release(&second);
    ah_document_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ah_document document = {0};
    struct ah_error err = {0};
    char *text = malloc(size ? size : 1); /* of exactly this size, so that a read beyond it is seen */
    require(text != NULL, "out of memory");
    memcpy(text, data, size);
    int rc = ah_document_parse(&document, "fuzz", text, size, AH_DOCUMENT_ANY, &err);
    if (rc == AH_OK) {
        look_around(&document);
        check_round_trip(&document);
    } else {
        require(err.text[0] && !strchr(err.text, '\n'), "not one sentence");
        require(document.body.any == NULL, "a refused document has a body");
    }
    ah_document_release(&document);
    free(text);
    return 0;
}

#ifndef AUTOHETE_LIBFUZZER

#include "base/file.h"

enum { MUTATIONS = 2000 };

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545F4914F6CDD1D) >> 16;
}

/* Pieces that readers trip over. */
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

/* One of: cut, byte changed, piece put in or over, stretch removed, stretch doubled. */
static size_t mutate(char *text, size_t size, size_t room, uint64_t *state)
{
    size_t at = size ? random_next(state) % size : 0;
    const char *piece = pieces[random_next(state) % (sizeof pieces / sizeof pieces[0])];
    size_t length = strlen(piece);
    switch (random_next(state) % 6) {
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
    default:
        if (size + length > room)
            return size;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, piece, length);
        return size + length;
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
    require(text != NULL, "out of memory");
    LLVMFuzzerTestOneInput((const uint8_t *)file.data, file.size);
    for (int i = 0; i < MUTATIONS; i++) {
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

/* fuzz_document FILE... */
int main(int argc, char **argv)
{
    uint64_t state = 88172645463325252u;
    int status = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && !status; i++)
        status = replay(argv[i], &state);
    printf("%d files, %d mutations each\n", argc - 1, MUTATIONS);
    return status;
}

#endif
