/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests batches worked out by hand: the example of docs/data.md, the cursor, epochs, held-out data, refusals.
 */
#include "runtime/train/data/batches.h"
#include "runtime/train/data/permutation.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 256 };

struct rows {
    uint32_t tokens[ROWS_MOST], targets[ROWS_MOST], positions[ROWS_MOST], docs[ROWS_MOST];
    uint8_t mask[ROWS_MOST];
};

static struct ah_dataset *open_data(const char *root, const char *name)
{
    char path[PATH_MAX];
    const char *paths[] = {path};
    struct ah_dataset *data = NULL;
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK_OK(ah_dataset_open(
                 &data, &(struct ah_dataset_options){.paths = paths, .n_paths = 1, .vocabulary = 256}, &err),
             err);
    return data;
}

static uint64_t fill(struct ah_batches *batches, uint64_t cursor, uint64_t sequences, struct rows *rows,
                     size_t row)
{
    struct ah_error err = {0};
    uint64_t bearing = 0;
    const struct ah_batches_rows into = {rows->tokens + row, rows->targets + row, rows->mask + row,
                                         rows->positions + row, rows->docs + row};
    CHECK_OK(ah_batches_fill(batches, cursor, sequences, &into, &bearing, &err), err);
    return bearing;
}

static void start(struct ah_batches *batches, const struct ah_batches_options *options)
{
    struct ah_error err = {0};
    CHECK_OK(ah_batches_init(batches, options, &err), err);
}

static void check_text_column(const uint32_t *column, const char *expected)
{
    for (size_t i = 0; expected[i]; i++)
        assert_int_equal(column[i], (unsigned char)expected[i]);
}

static void check_digits(const uint32_t *column, const char *expected)
{
    for (size_t i = 0; expected[i]; i++)
        assert_int_equal(column[i], (unsigned char)expected[i] - '0');
}

static void check_mask(const uint8_t *mask, const char *expected)
{
    for (size_t i = 0; expected[i]; i++)
        assert_int_equal(mask[i], expected[i] == '1');
}

/* Writes two documents, "Q:A" and "hello!". The question "Q:" does not count in the loss. */
static void put_example(const char *root)
{
    static const uint64_t docs[] = {0, 3};
    root_put(root, "example.txt", "Q:Ahello!");
    root_put_bytes(root, "example.txt.mask", "\0\0\1\1\1\1\1\1\1", 9);
    root_put_bytes(root, "example.txt.docs", docs, sizeof docs);
}

TEST_IN(batches, the_example_of_the_page, root_make, root_remove)
{
    struct ah_batches batches;
    struct rows rows;
    put_example(*state);
    struct ah_dataset *data = open_data(*state, "example.txt");
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 4, .batch = 2, .held_out = true});
    assert_int_equal(batches.samples, 2);
    assert_int_equal(fill(&batches, 0, 2, &rows, 0), 6);
    check_text_column(rows.tokens, "Q:Ahello");
    check_text_column(rows.targets, ":Ahello!");
    check_mask(rows.mask, "01011111");
    check_digits(rows.docs, "00030000");
    check_digits(rows.positions, "01200123");
    ah_batches_release(&batches);
    ah_dataset_close(data);
}

/* In aligned data, the last sequence is also a sample, followed by padding. No sequence is cut. */
TEST_IN(batches, aligned_sequences, root_make, root_remove)
{
    struct ah_batches batches;
    struct rows rows;
    struct ah_error err = {0};
    char file[64 + 16] = "AHTOKENS";
    const uint32_t words[] = {1, 2, 8, 0, 256, 0, 4, 0};
    memcpy(file + 8, words, sizeof words);
    memcpy(file + 64, "Q\0A\0.\0.\0q\0a\0b\0c", 15);
    root_put_bytes(*state, "a.bin", file, sizeof file);
    root_put_bytes(*state, "a.bin.mask", "\0\1\0\0\0\1\1\1", 8);
    root_put_bytes(*state, "a.bin.docs", (const uint64_t[]){0, 4}, 16);
    struct ah_dataset *data = open_data(*state, "a.bin");
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 4, .batch = 2, .seed = 1});
    assert_int_equal(batches.samples, 2);
    assert_int_equal(fill(&batches, 0, 2, &rows, 0), 4);
    size_t first = rows.tokens[0] == 'Q' ? 0 : 4;
    check_text_column(rows.tokens + first, "QA..");
    check_mask(rows.mask + first, "1000");
    check_text_column(rows.tokens + 4 - first, "qabc");
    check_mask(rows.mask + 4 - first, "1110");
    ah_batches_release(&batches);
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 8, .batch = 1});
    assert_int_equal(batches.samples, 1);
    ah_batches_release(&batches);
    CHECK_FAILS(
        ah_batches_init(&batches, &(struct ah_batches_options){.data = data, .seq = 6, .batch = 1}, &err),
        err, AH_E_USAGE,
        "its examples are aligned to sequences of 4 tokens, but the plan's have 6; plan with");
    ah_dataset_close(data);
}

/* 26 letters are 5 samples of 5 tokens. A batch of 2 samples reaches into the next epoch. z is only a target. */
TEST_IN(batches, every_target_once_an_epoch, root_make, root_remove)
{
    struct ah_batches batches;
    struct rows rows;
    root_put(*state, "a.txt", "abcdefghijklmnopqrstuvwxyz");
    struct ah_dataset *data = open_data(*state, "a.txt");
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 5, .batch = 2, .seed = 9});
    assert_int_equal(batches.samples, 5);
    assert_int_equal(ah_batches_steps(&batches), 3);
    unsigned orders_differ = 0;
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        unsigned seen[256] = {0};
        assert_int_equal(fill(&batches, 5 * epoch, 5, &rows, 0), 25);
        for (size_t i = 0; i < 25; i++) {
            seen[rows.targets[i]]++;
            assert_int_equal(rows.targets[i], rows.tokens[i] + 1);
            assert_int_equal(rows.tokens[i], rows.tokens[i / 5 * 5] + i % 5);
            assert_true(rows.docs[i] == 0 && rows.positions[i] == i % 5);
        }
        for (int c = 'b'; c <= 'z'; c++)
            assert_int_equal(seen[c], 1);
        orders_differ += rows.tokens[0] != 'a' + 5 * ah_permutation_at(9, 0, 5, 0);
    }
    assert_true(orders_differ > 5);
    ah_batches_release(&batches);
    ah_dataset_close(data);
}

/* Rows depend only on the cursor: not on where a fill begins, how it is split into calls, or what was read before. */
TEST_IN(batches, the_cursor_is_all, root_make, root_remove)
{
    struct ah_batches batches;
    struct rows whole, pieces;
    root_put(*state, "a.txt", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    struct ah_dataset *data = open_data(*state, "a.txt");
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 3, .batch = 12, .seed = 4});
    const uint64_t bearing = fill(&batches, 1234567, 24, &whole, 0);
    for (uint64_t size = 1; size <= 12; size *= size < 4 ? 2 : 3) {
        uint64_t sum = 0;
        memset(&pieces, 0xee, sizeof pieces);
        for (uint64_t at = 24; at > 0; at -= size)
            sum += fill(&batches, 1234567 + at - size, size, &pieces, (size_t)(3 * (at - size)));
        assert_int_equal(sum, bearing);
        assert_memory_equal(pieces.tokens, whole.tokens, 72 * sizeof *whole.tokens);
        assert_memory_equal(pieces.targets, whole.targets, 72 * sizeof *whole.tokens);
        assert_memory_equal(pieces.mask, whole.mask, 72);
    }
    struct ah_error err = {0};
    uint64_t count = 0;
    memset(&pieces, 0xee, sizeof pieces);
    const struct ah_batches_rows least = {
        .tokens = pieces.tokens, .targets = pieces.targets, .mask = pieces.mask};
    CHECK_OK(ah_batches_fill(&batches, 1234567, 24, &least, &count, &err), err);
    assert_memory_equal(pieces.targets, whole.targets, 72 * sizeof *whole.tokens);
    assert_int_equal(count, bearing);
    ah_batches_release(&batches);
    ah_dataset_close(data);
}

/* Held-out data comes once, in order, up to its last token. Padding with valid indices fills the last batch. */
TEST_IN(batches, held_out_data, root_make, root_remove)
{
    struct ah_batches batches;
    struct rows rows;
    root_put(*state, "a.txt", "abcdefghijkl");
    struct ah_dataset *data = open_data(*state, "a.txt");
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 4, .batch = 2, .held_out = true});
    assert_int_equal(batches.samples, 3);
    assert_int_equal(ah_batches_steps(&batches), 2);
    assert_int_equal(fill(&batches, 0, 2, &rows, 0), 8);
    check_text_column(rows.tokens, "abcdefgh");
    check_text_column(rows.targets, "bcdefghi");
    memset(&rows, 0xee, sizeof rows);
    assert_int_equal(fill(&batches, 2, 2, &rows, 0), 3);
    check_text_column(rows.tokens, "ijkl");
    check_text_column(rows.targets, "jkl");
    check_mask(rows.mask, "11100000");
    check_digits(rows.positions, "01230123");
    check_digits(rows.docs, "00000000");
    for (size_t i = 3; i < 8; i++)
        assert_true(rows.targets[i] == 0 && (i == 3 || rows.tokens[i] == 0));
    ah_batches_release(&batches);
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 20, .batch = 1, .held_out = true});
    assert_int_equal(fill(&batches, 0, 1, &rows, 0), 11);
    ah_batches_release(&batches);
    ah_dataset_close(data);
}

TEST_IN(batches, nothing_bears_loss, root_make, root_remove)
{
    struct ah_batches batches;
    struct rows rows;
    struct ah_error err = {0};
    root_put(*state, "a.txt", "abcdefghi");
    root_put_bytes(*state, "a.txt.mask", "\0\0\0\0\0\1\0\0\0", 9);
    root_put(*state, "none.txt", "abc");
    root_put_bytes(*state, "none.txt.mask", "\0\0\0", 3);
    struct ah_dataset *data = open_data(*state, "a.txt");
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 4, .batch = 1});
    uint64_t first = fill(&batches, 0, 1, &rows, 0), second = fill(&batches, 1, 1, &rows, 0);
    assert_true(first + second == 1 && first * second == 0);
    ah_batches_release(&batches);
    ah_dataset_close(data);
    assert_true(ah_batches_loss_scale(0) == 0.0f && ah_batches_loss_scale(3) == 1.0f / 3);
    data = open_data(*state, "none.txt");
    CHECK_FAILS(
        ah_batches_init(&batches, &(struct ah_batches_options){.data = data, .seq = 1, .batch = 1}, &err),
        err, AH_E_DOCUMENT, "none.txt.mask: no token bears loss");
    ah_dataset_close(data);
}

TEST_IN(batches, refuses_too_little, root_make, root_remove)
{
    struct ah_batches batches;
    struct ah_error err = {0};
    root_put(*state, "a.txt", "abcdefgh");
    root_put(*state, "one.txt", "a");
    struct ah_dataset *data = open_data(*state, "a.txt"), *one = open_data(*state, "one.txt");
    const struct {
        struct ah_batches_options options;
        const char *text;
    } cases[] = {
        {{.data = data, .seq = 4, .batch = 2},
         "a.txt: the data have 8 tokens in 1 file, but a batch of 2 sequences of 4 needs 9"},
        {{.data = data, .seq = 8, .batch = 1}, "needs 9"},
        {{.data = one, .seq = 8, .batch = 1, .held_out = true}, "one.txt: has one token"},
        {{.data = one, .seq = 1, .batch = 1},
         "have 1 tokens in 1 file, but a batch of 1 sequences of 1 needs 2"},
        {{.data = data, .seq = 0, .batch = 2}, "'seq' is 0"},
        {{.data = data, .seq = 4, .batch = 0}, "'batch' is 0"},
        {{.data = data, .seq = 65536, .batch = 65536}, "has 2^32 tokens or more"},
        {{.data = data, .seq = UINT64_MAX, .batch = 2}, "has 2^32 tokens or more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_FAILS(ah_batches_init(&batches, &cases[i].options, &err), err, AH_E_USAGE, cases[i].text);
    start(&batches, &(struct ah_batches_options){.data = data, .seq = 7, .batch = 1});
    ah_batches_release(&batches);
    ah_batches_release(&batches);
    ah_batches_release(NULL);
    ah_dataset_close(one);
    ah_dataset_close(data);
}
