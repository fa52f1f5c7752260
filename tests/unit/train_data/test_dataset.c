/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests data sets, each in its own folder: every kind of file, refusals, companion files, changing files.
 */
#include "runtime/train/data/dataset.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS_MOST = 4 };

/* A data set and its options. Its paths are below the test's folder. */
struct opened {
    char paths[PATHS_MOST][PATH_MAX];
    const char *list[PATHS_MOST];
    struct ah_dataset_options options;
    struct ah_dataset *data;
    struct ah_error err;
};

static struct opened prepared(const char *root, uint64_t vocabulary, enum ah_dataset_format format)
{
    struct opened opened = {.options = {.vocabulary = vocabulary, .format = format}};
    snprintf(opened.paths[0], PATH_MAX, "%s", root);
    return opened;
}

static int open_paths(struct opened *opened, const char *root, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(opened->paths[i], PATH_MAX, "%s%s%s", root, *paths[i] ? "/" : "", paths[i]);
        opened->list[i] = opened->paths[i];
    }
    opened->options.paths = opened->list;
    opened->options.n_paths = n;
    return ah_dataset_open(&opened->data, &opened->options, &opened->err);
}

static int open_one(struct opened *opened, const char *root, const char *path)
{
    return open_paths(opened, root, &path, 1);
}

/* Checks the tokens of the whole stream, read at once and in pieces. */
static void check_tokens(struct ah_dataset *data, const uint32_t *expected, size_t n)
{
    struct ah_error err = {0};
    uint32_t tokens[64];
    assert_int_equal(ah_dataset_facts(data)->tokens, n);
    CHECK_OK(ah_dataset_read(data, 0, n, &(struct ah_dataset_span){.tokens = tokens}, &err), err);
    assert_memory_equal(tokens, expected, n * sizeof *tokens);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(ah_dataset_read(data, i, 1, &(struct ah_dataset_span){.tokens = tokens}, &err), err);
        assert_int_equal(tokens[0], expected[i]);
    }
}

static void check_flags(struct ah_dataset *data, const char *bears, const char *begins)
{
    struct ah_error err = {0};
    uint8_t both[2][64];
    size_t n = strlen(bears);
    CHECK_OK(ah_dataset_read(data, 0, n, &(struct ah_dataset_span){NULL, both[0], both[1]}, &err), err);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(both[0][i], bears[i] == '1');
        assert_int_equal(both[1][i], begins[i] == '1');
        CHECK_OK(ah_dataset_read(data, i, 1, &(struct ah_dataset_span){.bears = both[0] + i}, &err), err);
        assert_int_equal(both[0][i], bears[i] == '1');
    }
}

static const uint32_t five[] = {1, 300, 0, 50256, 7};
static const uint16_t five_u16[] = {1, 300, 0, 50256, 7}, six_u16[6] = {1};

static void put_shard(const char *root, const char *path, int32_t magic, int32_t version, int32_t count,
                      const void *tokens, size_t bytes)
{
    char file[2048];
    int32_t header[256] = {magic, version, count};
    memcpy(file, header, sizeof header);
    memcpy(file + sizeof header, tokens, bytes);
    root_put_bytes(root, path, file, sizeof header + bytes);
}

/* Fields of our own header, as in docs/data.md. */
struct own {
    uint32_t version, token_bytes;
    uint64_t tokens, vocabulary, align;
};

static void put_own(const char *root, const char *path, const struct own *own, const void *tokens,
                    size_t bytes)
{
    char file[2048] = "AHTOKENS";
    memcpy(file + 8, own, sizeof *own);
    memcpy(file + 64, tokens, bytes);
    root_put_bytes(root, path, file, 64 + bytes);
}

/* ---- kinds ---- */

TEST_IN(dataset, kinds_of_files, root_make, root_remove)
{
    put_shard(*state, "a.bin", 20240520, 1, 5, five_u16, sizeof five_u16);
    put_shard(*state, "b.bin", 20240801, 7, 5, five, sizeof five);
    put_shard(*state, "shard", 20240520, 1, 5, five_u16, sizeof five_u16);
    root_put_bytes(*state, "c.bin", five_u16, sizeof five_u16);
    root_put_bytes(*state, "c.u16", five_u16, sizeof five_u16);
    root_put_bytes(*state, "d.u32", five, sizeof five);
    put_own(*state, "own2.bin", &(struct own){1, 2, 5, 50257, 0}, five_u16, sizeof five_u16);
    put_own(*state, "own4", &(struct own){1, 4, 5, 50257, 5}, five, sizeof five);
    root_put(*state, "e.txt", "AB\nC");
    root_put(*state, "README", "AB\nC");
    root_put_bytes(*state, "zero.TXT", "A\0\377", 3);
    static const uint32_t text[] = {'A', 'B', '\n', 'C'}, zero[] = {'A', 0, 255};
    static const struct {
        const char *path;
        enum ah_dataset_format wanted, found;
        unsigned bytes;
        const uint32_t *tokens;
        size_t n;
    } cases[] = {
        {"a.bin", AH_DATASET_AUTO, AH_DATASET_LLMC, 2, five, 5},
        {"b.bin", AH_DATASET_AUTO, AH_DATASET_LLMC, 4, five, 5},
        {"shard", AH_DATASET_AUTO, AH_DATASET_LLMC, 2, five, 5},
        {"a.bin", AH_DATASET_LLMC, AH_DATASET_LLMC, 2, five, 5},
        {"c.bin", AH_DATASET_AUTO, AH_DATASET_U16, 2, five, 5},
        {"c.bin", AH_DATASET_U16, AH_DATASET_U16, 2, five, 5},
        {"d.u32", AH_DATASET_U32, AH_DATASET_U32, 4, five, 5},
        {"d.u32", AH_DATASET_AUTO, AH_DATASET_U32, 4, five, 5},
        {"c.u16", AH_DATASET_AUTO, AH_DATASET_U16, 2, five, 5},
        {"own2.bin", AH_DATASET_AUTO, AH_DATASET_HEADED, 2, five, 5},
        {"own4", AH_DATASET_AUTO, AH_DATASET_HEADED, 4, five, 5},
        {"own4", AH_DATASET_HEADED, AH_DATASET_HEADED, 4, five, 5},
        {"e.txt", AH_DATASET_BYTES, AH_DATASET_BYTES, 1, text, 4},
        {"README", AH_DATASET_BYTES, AH_DATASET_BYTES, 1, text, 4},
        {"zero.TXT", AH_DATASET_BYTES, AH_DATASET_BYTES, 1, zero, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened opened = prepared(*state, 50257, cases[i].wanted);
        CHECK_OK(open_one(&opened, *state, cases[i].path), opened.err);
        const struct ah_dataset_file *file = ah_dataset_file(opened.data, 0);
        assert_int_equal(file->format, cases[i].found);
        assert_int_equal(file->token_bytes, cases[i].bytes);
        assert_int_equal(ah_dataset_facts(opened.data)->documents, 1);
        assert_false(ah_dataset_facts(opened.data)->has_docs || ah_dataset_facts(opened.data)->has_mask);
        assert_int_equal(ah_dataset_facts(opened.data)->unmasked, cases[i].n);
        check_tokens(opened.data, cases[i].tokens, cases[i].n);
        ah_dataset_close(opened.data);
    }
    ah_dataset_close(NULL);
}

/* Files are refused if they would be read as other tokens than the user means. */
TEST_IN(dataset, text_and_widths_are_not_guessed, root_make, root_remove)
{
    uint64_t wide[32];
    uint16_t same[32];
    for (int i = 0; i < 32; i++)
        wide[i] = same[i] = (uint16_t)(1000 + 7 * i);
    root_put(*state, "book.txt", "text that is no tokens");
    root_put(*state, "book.bin", "text that is no tokens, and long enough to be known as text by its bytes");
    root_put_bytes(*state, "mark.txt", "\377\376a\0", 4);
    root_put_bytes(*state, "no-mark.txt", "t\0e\0x\0t\0 \0o\0", 12);
    root_put_bytes(*state, "int64.bin", wide, sizeof wide);
    root_put_bytes(*state, "int64.u32", wide, sizeof wide);
    root_put_bytes(*state, "both.bin", five, sizeof five);
    root_put_bytes(*state, "narrow.bin", same, sizeof same);
    root_put_bytes(*state, "narrow.u16", same, sizeof same);
    root_put_bytes(*state, "array", "\x93NUMPY\1\0v\0", 10);
    root_put_bytes(*state, "table", "PAR1....", 8);
    root_put_bytes(*state, "packed", "\x1f\x8b\x08\0", 4);
    put_shard(*state, "shard.bin", 20240520, 1, 5, five_u16, sizeof five_u16);
    put_own(*state, "own.bin", &(struct own){1, 2, 5, 50257, 0}, five_u16, sizeof five_u16);
    put_own(*state, "bytes.bin", &(struct own){1, 2, 5, 256, 0}, five_u16, sizeof five_u16);
    root_put_bytes(*state, "mixed/a.u16", five_u16, sizeof five_u16);
    root_put(*state, "mixed/a.txt", "text");
    static const struct {
        const char *path;
        enum ah_dataset_format format;
        uint64_t vocabulary;
        const char *text; /* NULL: accepted */
    } cases[] = {
        {"book.txt", AH_DATASET_AUTO, 50257,
         "is text, but bytes are tokens only for a model with a vocabulary of 256"},
        {"book.txt", AH_DATASET_AUTO, 50257, "book.txt --model FOLDER-OF-THE-MODEL -o FOLDER'"},
        {"book.txt", AH_DATASET_AUTO, 255, "this one's is 255"},
        {"book.txt", AH_DATASET_AUTO, 256, NULL},
        {"book.txt", AH_DATASET_BYTES, 50257, NULL},
        {"book.bin", AH_DATASET_AUTO, 50257, "looks like text but its name like tokens"},
        {"mark.txt", AH_DATASET_AUTO, 256, "is UTF-16 text; convert it with 'iconv"},
        {"no-mark.txt", AH_DATASET_AUTO, 256, "is UTF-16 text"},
        {"int64.bin", AH_DATASET_AUTO, 50257, "holds 64-bit numbers"},
        {"int64.bin", AH_DATASET_U32, 50257, "holds 64-bit numbers"},
        {"int64.bin", AH_DATASET_U16, 50257, "holds 64-bit numbers"},
        {"int64.u32", AH_DATASET_AUTO, 50257, "holds 64-bit numbers"},
        {"both.bin", AH_DATASET_AUTO, 50257, "may hold 16-bit or 32-bit tokens; give '--data-format u16'"},
        {"both.bin", AH_DATASET_U32, 50257, NULL},
        {"both.bin", AH_DATASET_AUTO, 151936, NULL},
        {"narrow.bin", AH_DATASET_AUTO, 50257, NULL},
        {"narrow.bin", AH_DATASET_AUTO, 151936, "16 bits cannot hold its vocabulary of 151936"},
        {"narrow.u16", AH_DATASET_AUTO, 151936, "cannot be those of a vocabulary of 151936 (above 65536)"},
        {"narrow.bin", AH_DATASET_U16, 65537, "cannot be those of a vocabulary of 65537 (above 65536)"},
        {"narrow.bin", AH_DATASET_U16, 65536, NULL},
        {"shard.bin", AH_DATASET_AUTO, 65537, "cannot be those of a vocabulary of 65537"},
        {"shard.bin", AH_DATASET_U16, 65536, "has a header that gives its format"},
        {"own.bin", AH_DATASET_U16, 65536, "has a header that gives its format"},
        {"own.bin", AH_DATASET_AUTO, 50256, "was made with a vocabulary of 50257, but the model's has 50256"},
        {"own.bin", AH_DATASET_AUTO, 151936, NULL},
        {"bytes.bin", AH_DATASET_AUTO, 50257, "its tokens are bytes (vocabulary 256)"},
        {"bytes.bin", AH_DATASET_HEADED, 50257, NULL},
        {"array", AH_DATASET_AUTO, 50257,
         "is a NumPy array by its first bytes; convert it with 'array.astype"},
        {"table", AH_DATASET_AUTO, 50257, "is a Parquet table by its first bytes"},
        {"packed", AH_DATASET_AUTO, 50257, "is compressed (gzip) by its first bytes; unpack it"},
        {"mixed", AH_DATASET_AUTO, 50257, "a.u16', a token file, and '"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened opened = prepared(*state, cases[i].vocabulary, cases[i].format);
        int rc = open_one(&opened, *state, cases[i].path);
        if (cases[i].text)
            check_text_has(opened.err.text, cases[i].text);
        assert_int_equal(rc, !cases[i].text                   ? AH_OK
                             : strcmp(cases[i].path, "mixed") ? AH_E_DOCUMENT
                                                              : AH_E_USAGE);
        if (!rc)
            assert_int_equal(ah_dataset_file(opened.data, 0)->by_values,
                             cases[i].format == AH_DATASET_AUTO && (!strcmp(cases[i].path, "both.bin") ||
                                                                    !strcmp(cases[i].path, "narrow.bin")));
        ah_dataset_close(opened.data);
    }
    struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
    const char *both[] = {"book.txt", "bytes.bin"};
    put_own(*state, "bytes.bin", &(struct own){1, 2, 5, 256, 0}, "a\0b\0c\0d\0e", 10);
    CHECK_FAILS(open_paths(&opened, *state, both, 2), opened.err, AH_E_DOCUMENT,
                "bytes.bin' holds tokens, but '");
}

/* Every field of our header is checked. Bytes between the header and the tokens are not part of the identity. */
TEST_IN(dataset, own_header, root_make, root_remove)
{
    static const struct {
        struct own own;
        size_t bytes;
        const char *text;
    } cases[] = {
        {{2, 2, 5, 50257, 0}, 10, "has an unknown version"},
        {{1, 3, 5, 50257, 0}, 10, "impossible values in its header"},
        {{1, 2, 4, 50257, 0}, 10, "a different number of tokens from its header; it is cut off"},
        {{1, 2, 5, 50257, 0}, 9, "a different number of tokens"},
        {{1, 2, 0, 50257, 0}, 0, "a different number of tokens"},
        {{1, 2, 5, 65537, 0}, 10, "a vocabulary in its header that is too large for its tokens"},
        {{1, 2, 5, 0, 0}, 10, "a vocabulary in its header"},
        {{1, 2, 5, 50257, 2}, 10, "ends in an incomplete sequence"},
    };
    struct opened opened;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opened = prepared(*state, 70000, AH_DATASET_AUTO);
        put_own(*state, "a.bin", &cases[i].own, five_u16, cases[i].bytes);
        CHECK_FAILS(open_one(&opened, *state, "a.bin"), opened.err, AH_E_DOCUMENT, cases[i].text);
    }
    root_put_bytes(*state, "short.bin", "AHTOKENS\1\0\0", 12); /* including the NUL */
    CHECK_FAILS(open_one(&opened, *state, "short.bin"), opened.err, AH_E_DOCUMENT,
                "ends within its 64-byte header");
    char identity[4][AH_SHA256_HEX_MAX];
    static const char *const names[] = {"raw.u16", "shard.bin", "own.bin", "aligned.bin"};
    root_put_bytes(*state, "raw.u16", five_u16, sizeof five_u16);
    put_shard(*state, "shard.bin", 20240520, 1, 5, five_u16, sizeof five_u16);
    put_own(*state, "own.bin", &(struct own){1, 2, 5, 50257, 0}, five_u16, sizeof five_u16);
    put_own(*state, "aligned.bin", &(struct own){1, 2, 5, 50257, 5}, five_u16, sizeof five_u16);
    for (int i = 0; i < 4; i++) {
        opened = prepared(*state, 50257, AH_DATASET_AUTO);
        CHECK_OK(open_one(&opened, *state, names[i]), opened.err);
        memcpy(identity[i], ah_dataset_facts(opened.data)->sha256, sizeof identity[i]);
        assert_int_equal(ah_dataset_facts(opened.data)->align, i == 3 ? 5 : 0);
        ah_dataset_close(opened.data);
        opened.data = NULL;
    }
    assert_string_equal(identity[0], identity[1]);
    assert_string_equal(identity[0], identity[2]);
    assert_string_not_equal(identity[0], identity[3]);
    const char *both[] = {"own.bin", "aligned.bin"};
    CHECK_FAILS(open_paths(&opened, *state, both, 2), opened.err, AH_E_DOCUMENT,
                "aligned to sequences of 0 tokens");
}

TEST_IN(dataset, refuses_by_name, root_make, root_remove)
{
    put_shard(*state, "cut.bin", 20240520, 1, 5, five_u16, sizeof five_u16 - 2);
    put_shard(*state, "long.bin", 20240520, 1, 5, six_u16, sizeof six_u16);
    put_shard(*state, "width.bin", 20240801, 7, 5, five_u16, sizeof five_u16);
    put_shard(*state, "version.bin", 20240520, 2, 5, five_u16, sizeof five_u16);
    put_shard(*state, "seven.bin", 20240801, 1, 5, five, sizeof five);
    put_shard(*state, "none.bin", 20240520, 1, 0, five_u16, 0);
    put_shard(*state, "minus.bin", 20240520, 1, -1, five_u16, sizeof five_u16);
    put_shard(*state, "weights.bin", 20240326, 3, 1024, five_u16, sizeof five_u16);
    root_put_bytes(*state, "short.bin", "\x88\xd8\x34\x01\1\0\0\0", 8);
    root_put_bytes(*state, "odd.bin", "abc", 3);
    root_put(*state, "empty.txt", "");
    root_put_bytes(*state, "image", "\211PNG\0\1", 6);
    root_put(*state, "x.jsonl", "{\"text\": \"a\"}\n");
    root_put(*state, "x.bin.gz", "\037\213");
    root_put_bytes(*state, "tokens.bin", five_u16, sizeof five_u16);
    root_put(*state, "folder/notes.md", "x");
    static const struct {
        const char *path;
        enum ah_dataset_format format;
        int code;
        const char *text;
    } cases[] = {
        {"cut.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "counts 5 tokens of 2 bytes, but 8 bytes follow"},
        {"long.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "counts 5 tokens of 2 bytes, but 12 bytes follow"},
        {"width.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "counts 5 tokens of 4 bytes, but 10 bytes follow"},
        {"version.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "of version 2, and only version 1"},
        {"seven.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "of version 1, and only version 7"},
        {"none.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "counts 0 tokens"},
        {"minus.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "counts -1 tokens"},
        {"weights.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "weights of a model of llm.c (20240326)"},
        {"short.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "ends within its 1024-byte header"},
        {"odd.bin", AH_DATASET_AUTO, AH_E_DOCUMENT, "3 bytes, which is not a whole number of 2-byte tokens"},
        {"odd.bin", AH_DATASET_U32, AH_E_DOCUMENT, "not a whole number of 4-byte tokens"},
        {"tokens.bin", AH_DATASET_LLMC, AH_E_DOCUMENT, "does not begin like an llm.c shard"},
        {"empty.txt", AH_DATASET_AUTO, AH_E_DOCUMENT, "empty.txt: is empty"},
        {"image", AH_DATASET_AUTO, AH_E_DOCUMENT, "byte 4 is 0, so it is not plain text"},
        {"x.jsonl", AH_DATASET_AUTO, AH_E_DOCUMENT,
         "is lines of JSON by its name; convert it to token "
         "files"},
        {"x.bin.gz", AH_DATASET_AUTO, AH_E_DOCUMENT, "is compressed by its name; unpack it"},
        {"absent.bin", AH_DATASET_AUTO, AH_E_IO, "absent.bin: cannot be read: No such file"},
        {"absent*.bin", AH_DATASET_AUTO, AH_E_IO, "no file matches this pattern"},
        {"folder", AH_DATASET_AUTO, AH_E_USAGE, "holds no .bin, .u16, .u32 or .txt file"},
        {"fold*", AH_DATASET_AUTO, AH_E_IO, "is not a regular file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened opened = prepared(*state, 50257, cases[i].format);
        CHECK_FAILS(open_one(&opened, *state, cases[i].path), opened.err, cases[i].code, cases[i].text);
        assert_null(opened.data);
    }
    struct opened opened = prepared(*state, 50257, AH_DATASET_AUTO);
    CHECK_FAILS(ah_dataset_open(&opened.data, &opened.options, &opened.err), opened.err, AH_E_USAGE,
                "no data");
    opened = prepared(*state, 0, AH_DATASET_AUTO);
    CHECK_FAILS(open_one(&opened, *state, "tokens.bin"), opened.err, AH_E_USAGE, "'vocabulary' is 0");
}

/* The vocabulary limits tokens in every kind of file. The message names the first token beyond it, wherever it is. */
TEST_IN(dataset, tokens_beyond_the_vocabulary, root_make, root_remove)
{
    static uint16_t many[1200000];
    root_put_bytes(*state, "a.bin", five_u16, sizeof five_u16);
    put_shard(*state, "b.bin", 20240801, 7, 5, five, sizeof five);
    root_put_bytes(*state, "c.u16", "a\0b\0c\0z", 8);
    many[900000] = 500;
    many[900001] = 600;
    many[1199999] = 600;
    root_put_bytes(*state, "many.u16", many, sizeof many);
    static const struct {
        const char *path;
        uint64_t vocabulary; /* smallest sufficient vocabulary */
        const char *text;
    } cases[] = {{"a.bin", 50257, "a.bin: token 3 is 50256, but the vocabulary of the model is 50256"},
                 {"b.bin", 50257, "b.bin: token 3 is 50256,"},
                 {"c.u16", 'z' + 1, "c.u16: token 3 is 122, but the vocabulary of the model is 122"},
                 {"many.u16", 601, "many.u16: token 900001 is 600,"}};
    struct ah_pool *pool = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3}, &err), err);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct opened opened = prepared(*state, cases[i / 2].vocabulary, AH_DATASET_AUTO);
        opened.options.pool = i % 2 ? pool : NULL;
        CHECK_OK(open_one(&opened, *state, cases[i / 2].path), opened.err);
        ah_dataset_close(opened.data);
        opened.options.vocabulary--;
        CHECK_FAILS(open_one(&opened, *state, cases[i / 2].path), opened.err, AH_E_DOCUMENT,
                    cases[i / 2].text);
    }
    ah_pool_free(pool);
}

/* ---- several files ---- */

TEST_IN(dataset, folders_and_patterns, root_make, root_remove)
{
    root_put(*state, "d/b.txt", "cd");
    root_put(*state, "d/a.txt", "ab");
    root_put(*state, "d/.hidden.txt", "x");
    root_put(*state, "d/notes.md", "x");
    root_put_bytes(*state, "bins/2.bin", "c\0d\0", 4);
    root_put_bytes(*state, "bins/10.bin", "a\0b\0", 4);
    root_put(*state, "bins/info.md", "x");
    root_put_bytes(*state, "bins/10.bin.mask", "\1\1", 2);
    root_put_bytes(*state, "bins/2.bin.mask", "\1\0", 2);
    root_put(*state, "[x]", "abcd");
    static const uint32_t abcd[] = {'a', 'b', 'c', 'd', 'a', 'b', 'c', 'd'};
    static const char *const all[] = {"d", "bins/", "d/*.txt", "d/[ab].t?t", "bins/*.bin*", "[x]"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
        CHECK_OK(open_one(&opened, *state, all[i]), opened.err);
        check_tokens(opened.data, abcd, 4);
        ah_dataset_close(opened.data);
    }
    struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
    const char *twice[] = {"d", "d/a.txt", "d/b.txt"};
    CHECK_OK(open_paths(&opened, *state, twice, 3), opened.err);
    check_tokens(opened.data, abcd, 8);
    assert_int_equal(ah_dataset_facts(opened.data)->files, 4);
    check_text_has(ah_dataset_file(opened.data, 3)->path, "/d/b.txt");
    assert_int_equal(ah_dataset_file(opened.data, 3)->first_token, 6);
    ah_dataset_close(opened.data);
}

TEST_IN(dataset, held_out_data_in_a_folder, root_make, root_remove)
{
    static const char *const names[] = {"val.bin", "fineweb_val_000000.bin", "Test-0.bin", "x.valid.bin"};
    root_put_bytes(*state, "ok/interval.bin", "ab", 2);
    root_put_bytes(*state, "ok/latest.bin", "ab", 2);
    root_put_bytes(*state, "alone/val.bin", "ab", 2);
    struct opened opened = prepared(*state, 65536, AH_DATASET_AUTO);
    CHECK_OK(open_one(&opened, *state, "ok"), opened.err);
    ah_dataset_close(opened.data);
    CHECK_OK(open_one(&opened, *state, "alone"), opened.err);
    ah_dataset_close(opened.data);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64], folder[16];
        snprintf(folder, sizeof folder, "mixed%zu", i);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        root_put_bytes(*state, path, "ab", 2);
        snprintf(path, sizeof path, "%s/train.bin", folder);
        root_put_bytes(*state, path, "ab", 2);
        CHECK_FAILS(open_one(&opened, *state, folder), opened.err, AH_E_USAGE, names[i]);
    }
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

TEST_IN(dataset, more_files_than_descriptors, root_make, root_remove)
{
    enum { FILES = 2 * AH_DATASET_OPEN_FILES + 5 };
    char path[32];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "s/%03d.bin", i);
        root_put_bytes(*state, path, &(uint16_t){(uint16_t)(i + 1)}, 2);
        snprintf(path, sizeof path, "s/%03d.bin.mask", i);
        root_put_bytes(*state, path, i % 3 ? "\1" : "\0", 1);
    }
    struct opened opened = prepared(*state, FILES + 1, AH_DATASET_AUTO);
    unsigned before = descriptors();
    CHECK_OK(open_one(&opened, *state, "s"), opened.err);
    assert_int_equal(ah_dataset_facts(opened.data)->unmasked, FILES - (FILES + 2) / 3);
    for (int round = 0; round < 3; round++) {
        uint32_t tokens[FILES];
        uint8_t bears[FILES];
        CHECK_OK(ah_dataset_read(opened.data, 0, FILES, &(struct ah_dataset_span){tokens, bears, NULL},
                                 &opened.err),
                 opened.err);
        for (int i = 0; i < FILES; i++)
            assert_true(tokens[i] == (uint32_t)i + 1 && bears[i] == (i % 3 && i > 0));
    }
    assert_int_equal(descriptors() - before, AH_DATASET_OPEN_FILES);
    ah_dataset_close(opened.data);
    assert_int_equal(descriptors(), before);
}

/* ---- masks and documents ---- */

TEST_IN(dataset, masks_and_documents, root_make, root_remove)
{
    static const uint64_t docs[] = {2, 3, 4}, none[] = {0};
    root_put(*state, "a.txt", "abcde");
    root_put_bytes(*state, "a.txt.mask", "\1\1\1\0\0", 5);
    root_put_bytes(*state, "a.txt.docs", docs, sizeof docs);
    root_put(*state, "b.txt", "fg");
    root_put_bytes(*state, "b.txt.mask", "\1\1", 2);
    root_put_bytes(*state, "b.txt.docs", none, 0);
    const char *both[] = {"a.txt", "b.txt"};
    struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
    CHECK_OK(open_paths(&opened, *state, both, 2), opened.err);
    const struct ah_dataset_facts *facts = ah_dataset_facts(opened.data);
    assert_int_equal(facts->documents, 5); /* each text begins a document; .docs adds more */
    assert_int_equal(facts->unmasked, 5);
    assert_true(facts->has_docs && facts->has_mask);
    check_flags(opened.data, "0100001", "1011110");
    ah_dataset_close(opened.data);
}

/* A shard's first tokens continue the last document of the previous shard, unless .docs says otherwise. */
TEST_IN(dataset, shards_continue, root_make, root_remove)
{
    static const uint64_t first[] = {0};
    root_put_bytes(*state, "s/1.bin", five_u16, sizeof five_u16);
    root_put_bytes(*state, "s/2.bin", five_u16, sizeof five_u16);
    struct opened opened = prepared(*state, 50257, AH_DATASET_AUTO);
    CHECK_OK(open_one(&opened, *state, "s"), opened.err);
    assert_false(ah_dataset_facts(opened.data)->has_docs);
    check_flags(opened.data, "0111111111", "1000000000");
    ah_dataset_close(opened.data);
    root_put_bytes(*state, "s/1.bin.docs", first, sizeof first);
    root_put_bytes(*state, "s/2.bin.docs", first, sizeof first);
    CHECK_OK(open_one(&opened, *state, "s"), opened.err);
    assert_int_equal(ah_dataset_facts(opened.data)->documents, 2);
    assert_true(ah_dataset_facts(opened.data)->has_docs);
    check_flags(opened.data, "0111101111", "1000010000");
    ah_dataset_close(opened.data);
}

TEST_IN(dataset, refuses_wrong_companions, root_make, root_remove)
{
    static const uint64_t same[] = {1, 3, 3}, back[] = {3, 1}, beyond[] = {0, 5};
    static const struct {
        const char *path;
        const void *bytes;
        size_t size;
        const char *text;
    } cases[] = {
        {"a.txt.mask", "\1\1\1\1", 4, "a.txt.mask: has 4 bytes, but"},
        {"a.txt.mask", "\1\1\1\1\1\1", 6, "a.txt.mask: has 6 bytes, but"},
        {"a.txt.mask", "\1\0\1\2\1", 5, "a.txt.mask: byte 3 is 2, but a mask may hold only 0"},
        {"a.txt.docs", "\0\0\0", 3, "a.txt.docs: has 3 bytes, which is not a whole number of 8-byte"},
        {"a.txt.docs", same, sizeof same, "a.txt.docs: offset 2 is 3, which is not above the previous one"},
        {"a.txt.docs", back, sizeof back, "a.txt.docs: offset 1 is 1, which is not above the previous one"},
        {"a.txt.docs", beyond, sizeof beyond, "a.txt.docs: offset 1 is 5, but '"},
    };
    root_put(*state, "a.txt", "abcde");
    root_put(*state, "b.txt", "f");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[PATH_MAX];
        struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
        root_put_bytes(*state, cases[i].path, cases[i].bytes, cases[i].size);
        CHECK_FAILS(open_one(&opened, *state, "a.txt"), opened.err, AH_E_DOCUMENT, cases[i].text);
        snprintf(path, sizeof path, "%s/%s", (char *)*state, cases[i].path);
        unlink(path);
    }
    root_put_bytes(*state, "b.txt.mask", "\1", 1);
    struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
    CHECK_FAILS(open_one(&opened, *state, ""), opened.err, AH_E_DOCUMENT, "a.txt.mask' is missing, but '");
}

/* The offsets fill several leaves. Their order is also checked across the borders of leaves. */
TEST_IN(dataset, many_documents, root_make, root_remove)
{
    enum { DOCS = 300000, LEAF = (1 << 20) / 8 };
    static uint64_t docs[DOCS];
    static char text[2 * DOCS];
    memset(text, 'x', sizeof text);
    for (uint64_t i = 0; i < DOCS; i++)
        docs[i] = 2 * i + 1;
    root_put_bytes(*state, "a.txt", text, sizeof text);
    root_put_bytes(*state, "a.txt.docs", docs, sizeof docs);
    struct opened opened = prepared(*state, 256, AH_DATASET_AUTO);
    CHECK_OK(open_one(&opened, *state, "a.txt"), opened.err);
    assert_int_equal(ah_dataset_facts(opened.data)->documents, DOCS + 1);
    static uint8_t begins[2 * DOCS];
    CHECK_OK(
        ah_dataset_read(opened.data, 0, 2 * DOCS, &(struct ah_dataset_span){.begins = begins}, &opened.err),
        opened.err);
    for (size_t i = 0; i < 2 * DOCS; i++)
        assert_int_equal(begins[i], i == 0 || i % 2 == 1);
    ah_dataset_close(opened.data);
    docs[LEAF] = docs[LEAF - 1];
    root_put_bytes(*state, "a.txt.docs", docs, sizeof docs);
    CHECK_FAILS(open_one(&opened, *state, "a.txt"), opened.err, AH_E_DOCUMENT,
                "offset 131072 is 262143, which");
}

/* ---- identity ---- */

static void hash_parts(const void *const *parts, const size_t *sizes, size_t n, char text[AH_SHA256_HEX_MAX])
{
    unsigned char digest[AH_SHA256_BYTES];
    struct ah_sha256 hash;
    ah_sha256_init(&hash);
    for (size_t i = 0; i < n; i++)
        ah_sha256_update(&hash, parts[i], sizes[i]);
    ah_sha256_finish(&hash, digest);
    ah_sha256_hex(digest, text);
}

static void digest_of(const void *bytes, size_t size, unsigned char digest[AH_SHA256_BYTES])
{
    struct ah_sha256 hash;
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, bytes, size);
    ah_sha256_finish(&hash, digest);
}

/* The identity is that of docs/data.md, for a shard with a mask and slightly more than two leaves. */
TEST_IN(dataset, identity_is_as_defined, root_make, root_remove)
{
    enum { TOKENS = 1100000, LEAF = 1 << 20 };
    static char file[1024 + 2 * TOKENS], mask[TOKENS];
    const int32_t header[] = {20240520, 1, TOKENS};
    memset(file, 3, sizeof file);
    memset(file, 0, 1024);
    memcpy(file, header, sizeof header);
    memset(mask, 1, sizeof mask);
    root_put_bytes(*state, "a.bin", file, sizeof file);
    root_put_bytes(*state, "a.bin.mask", mask, sizeof mask);
    unsigned char leaves[5][AH_SHA256_BYTES];
    const char *tokens = file + 1024;
    digest_of(tokens, LEAF, leaves[0]);
    digest_of(tokens + LEAF, LEAF, leaves[1]);
    digest_of(tokens + 2 * LEAF, 2 * TOKENS - 2 * LEAF, leaves[2]);
    digest_of(mask, LEAF, leaves[3]);
    digest_of(mask + LEAF, TOKENS - LEAF, leaves[4]);
    const uint64_t words[] = {1, 1, 0, 2, 1, TOKENS, 0};
    char expected[AH_SHA256_HEX_MAX];
    hash_parts((const void *const[]){"autohete data 1\n", words, leaves},
               (size_t[]){16, sizeof words, sizeof leaves}, 3, expected);
    struct ah_pool *pool = NULL;
    struct opened opened = prepared(*state, 65536, AH_DATASET_AUTO);
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3}, &opened.err), opened.err);
    for (int i = 0; i < 4; i++) {
        opened.options.pool = i ? pool : NULL;
        CHECK_OK(open_one(&opened, *state, "a.bin"), opened.err);
        assert_string_equal(ah_dataset_facts(opened.data)->sha256, expected);
        ah_dataset_close(opened.data);
    }
    ah_pool_free(pool);
}

static void identity(const char *root, const char *const *paths, size_t n, char text[AH_SHA256_HEX_MAX])
{
    struct opened opened = prepared(root, 65536, AH_DATASET_AUTO);
    CHECK_OK(open_paths(&opened, root, paths, n), opened.err);
    strcpy(text, ah_dataset_facts(opened.data)->sha256);
    ah_dataset_close(opened.data);
}

/* The identity depends on contents, order, cuts and companions, but not on names and headers. */
TEST_IN(dataset, identity_tells_apart, root_make, root_remove)
{
    static const uint64_t docs[] = {1};
    put_shard(*state, "a.bin", 20240520, 1, 5, five_u16, sizeof five_u16);
    root_put_bytes(*state, "raw.bin", five_u16, sizeof five_u16);
    put_shard(*state, "wide.bin", 20240801, 7, 5, five, sizeof five);
    root_put_bytes(*state, "other.bin", "\1\0\54\1\0\0\120\304\6\0", 10);
    root_put_bytes(*state, "first.bin", five_u16, 4);
    root_put_bytes(*state, "rest.bin", five_u16 + 2, 6);
    root_put_bytes(*state, "masked.bin", five_u16, sizeof five_u16);
    root_put_bytes(*state, "masked.bin.mask", "\1\1\1\1\1", 5);
    root_put_bytes(*state, "parted.bin", five_u16, sizeof five_u16);
    root_put_bytes(*state, "parted.bin.docs", docs, sizeof docs);
    static const char *const sets[][2] = {
        {"a.bin", NULL},      {"wide.bin", NULL},   {"other.bin", NULL},      {"first.bin", "rest.bin"},
        {"masked.bin", NULL}, {"parted.bin", NULL}, {"rest.bin", "first.bin"}};
    enum { SETS = sizeof sets / sizeof *sets };
    char texts[SETS][AH_SHA256_HEX_MAX], raw[AH_SHA256_HEX_MAX];
    for (size_t i = 0; i < SETS; i++) {
        identity(*state, sets[i], sets[i][1] ? 2 : 1, texts[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(texts[i], texts[k]);
    }
    identity(*state, (const char *const[]){"raw.bin"}, 1, raw);
    assert_string_equal(raw, texts[0]);
}

/* ---- files that change ---- */

static void full_path(const char *root, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", root, name);
}

/* Overwrites bytes and restores the modification time, so that only the content tells the change. */
static void overwrite_unseen(const char *path, const void *bytes, size_t size)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    assert_int_equal(futimens(fd, (struct timespec[]){about.st_atim, about.st_mtim}), 0);
    close(fd);
}

static int read_all(struct ah_dataset *data, uint32_t tokens[5], struct ah_error *err)
{
    uint8_t bears[5], begins[5];
    return ah_dataset_read(data, 0, 5, &(struct ah_dataset_span){tokens, bears, begins}, err);
}

TEST_IN(dataset, files_that_change, root_make, root_remove)
{
    static const uint64_t docs[] = {1, 3}, wrong[] = {1, 0}, far[] = {1, UINT64_MAX};
    static const char *const parts[] = {"a.bin", "a.bin.mask", "a.bin.docs"};
    char path[PATH_MAX], saved[PATH_MAX];
    for (int part = 0; part < 3; part++)
        for (int how = 0; how < 3; how++) {
            uint32_t tokens[5];
            root_put_bytes(*state, "a.bin", five_u16, sizeof five_u16);
            root_put_bytes(*state, "a.bin.mask", "\1\1\1\1\1", 5);
            root_put_bytes(*state, "a.bin.docs", docs, sizeof docs);
            struct opened opened = prepared(*state, 50257, AH_DATASET_AUTO);
            CHECK_OK(open_one(&opened, *state, "a.bin"), opened.err);
            CHECK_OK(read_all(opened.data, tokens, &opened.err), opened.err);
            full_path(*state, parts[part], path);
            full_path(*state, "saved", saved);
            if (how == 0) /* the file shrinks */
                assert_int_equal(truncate(path, 2), 0);
            else if (how == 1) /* the file's time changes */
                assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){{1, 0}, {1, 0}}, 0), 0);
            else
                assert_int_equal(truncate(path, 4096), 0);
            CHECK_FAILS(read_all(opened.data, tokens, &opened.err), opened.err, AH_E_MISMATCH,
                        "changed after it was checked");
            check_text_has(opened.err.text, path);
            ah_dataset_close(opened.data);
        }
    /* If only the content changed, reads may succeed, but give no token beyond the vocabulary and no wrong offset. */
    root_put_bytes(*state, "a.bin", five_u16, sizeof five_u16);
    root_put_bytes(*state, "a.bin.mask", "\1\1\1\1\1", 5);
    root_put_bytes(*state, "a.bin.docs", docs, sizeof docs);
    struct opened opened = prepared(*state, 50257, AH_DATASET_AUTO);
    uint32_t tokens[5];
    CHECK_OK(open_one(&opened, *state, "a.bin"), opened.err);
    full_path(*state, "a.bin.docs", path);
    overwrite_unseen(path, far, sizeof far);
    CHECK_OK(read_all(opened.data, tokens, &opened.err), opened.err);
    overwrite_unseen(path, wrong, sizeof wrong);
    uint8_t begins[3];
    int rc = ah_dataset_read(opened.data, 1, 3, &(struct ah_dataset_span){.begins = begins}, &opened.err);
    assert_true(!rc || rc == AH_E_MISMATCH);
    overwrite_unseen(path, docs, sizeof docs);
    full_path(*state, "a.bin", path);
    overwrite_unseen(path, "\377\377\377\377", 4);
    CHECK_FAILS(read_all(opened.data, tokens, &opened.err), opened.err, AH_E_MISMATCH, "changed after");
    for (int i = 0; i < 5; i++)
        assert_true(tokens[i] < 50257);
    ah_dataset_close(opened.data);
}

/* A closed file is opened a second time, but only if it is still the same file. */
TEST_IN(dataset, a_replaced_file, root_make, root_remove)
{
    enum { FILES = AH_DATASET_OPEN_FILES + 1 };
    char name[32], path[PATH_MAX];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "s/%03d.bin", i);
        root_put_bytes(*state, name, &(uint16_t){(uint16_t)i}, 2);
    }
    struct opened opened = prepared(*state, 1000, AH_DATASET_AUTO);
    CHECK_OK(open_one(&opened, *state, "s"), opened.err);
    full_path(*state, "s/000.bin", path);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    uint32_t token;
    const struct ah_dataset_span into = {.tokens = &token};
    for (uint64_t i = 0; i < FILES; i++)
        CHECK_OK(ah_dataset_read(opened.data, i, 1, &into, &opened.err), opened.err);
    assert_int_equal(unlink(path), 0);
    CHECK_FAILS(ah_dataset_read(opened.data, 0, 1, &into, &opened.err), opened.err, AH_E_IO,
                "000.bin: cannot be");
    assert_int_equal(mkfifo(path, 0600), 0);
    CHECK_FAILS(ah_dataset_read(opened.data, 0, 1, &into, &opened.err), opened.err, AH_E_MISMATCH,
                "000.bin: changed");
    CHECK_OK(ah_dataset_read(opened.data, 1, 1, &into, &opened.err), opened.err);
    ah_dataset_close(opened.data);
}

/* ---- progress ---- */

struct progress {
    uint64_t done, total, stop_at;
    unsigned calls;
};

static bool note(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct progress *progress = context;
    assert_true(done_bytes > progress->done && done_bytes <= total_bytes);
    progress->done = done_bytes;
    progress->total = total_bytes;
    progress->calls++;
    return done_bytes < progress->stop_at;
}

TEST_IN(dataset, progress_and_interruption, root_make, root_remove)
{
    enum { TOKENS = 3 << 20 };
    char *bytes = calloc(1, 1024 + 2 * TOKENS);
    const int32_t header[] = {20240520, 1, TOKENS};
    assert_non_null(bytes);
    memcpy(bytes, header, sizeof header);
    root_put_bytes(*state, "s/a.bin", bytes, 1024 + 2 * TOKENS);
    root_put_bytes(*state, "s/b.bin", bytes + 1024, 6);
    free(bytes);
    struct progress progress = {.stop_at = UINT64_MAX};
    struct opened opened = prepared(*state, 50257, AH_DATASET_AUTO);
    opened.options.progress = note;
    opened.options.context = &progress;
    CHECK_OK(open_one(&opened, *state, "s"), opened.err);
    assert_int_equal(progress.total, 2 * TOKENS + 6);
    assert_int_equal(progress.done, progress.total);
    assert_int_equal(progress.calls, 7);
    ah_dataset_close(opened.data);
    progress = (struct progress){.stop_at = 3 << 20};
    CHECK_FAILS(open_one(&opened, *state, "s"), opened.err, AH_E_INTERRUPTED,
                "s/a.bin: checking it was interrupted");
    assert_int_equal(progress.calls, 3);
}

TEST(dataset, words_of_formats)
{
    for (int i = 0; i < AH_DATASET_FORMAT_COUNT; i++) {
        enum ah_dataset_format format = (enum ah_dataset_format)i;
        assert_int_equal(ah_dataset_format_of(ah_dataset_format_word(format)), format);
    }
    assert_int_equal(ah_dataset_format_of("gpt"), AH_DATASET_FORMAT_COUNT);
    assert_string_equal(ah_dataset_format_word(AH_DATASET_LLMC), "llmc");
}
