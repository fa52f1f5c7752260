/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how often documents are taken, what is counted of each input, and the file that keeps it.
 */
#include "runtime/text/mix.h"

#include "runtime/text/token_files.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <stdio.h>
#include <string.h>

static uint32_t copies(double weight, uint64_t seed, size_t input, uint64_t document)
{
    struct ah_mix_input inputs[2] = {{.weight = weight}, {.weight = weight}};
    return ah_mix_copies(&(struct ah_mix){seed, inputs, 2}, input, document);
}

TEST(mix, takes_whole_parts_always)
{
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(copies(1, i, 0, i), 1);
        assert_int_equal(copies(3, i, 1, i), 3);
        assert_in_range(copies(2.5, i, 0, i), 2, 3);
        assert_in_range(copies(0.5, i, 0, i), 0, 1);
    }
}

/* What is taken is the same in every version: Philox by its paper, written a second time in Python, says the same. */
TEST(mix, takes_the_same_documents_every_time)
{
    char taken[3][33] = {{0}};
    for (uint64_t i = 0; i < 32; i++) {
        taken[0][i] = (char)('0' + copies(0.5, 0, 0, i));
        taken[1][i] = (char)('0' + copies(0.5, 0, 1, i));
        taken[2][i] = (char)('0' + copies(0.5, 7, 0, i));
    }
    assert_string_equal(taken[0], "01110000101010011011001110111001");
    assert_string_equal(taken[1], "01110111100101011011100000100111");
    assert_string_equal(taken[2], "01000011111100010001110010101100");
}

/* A document that a small weight takes is also taken by a larger one. */
TEST(mix, grows_with_the_weight)
{
    for (uint64_t i = 0; i < 2000; i++)
        for (int tenth = 1; tenth < 30; tenth++)
            assert_true(copies(tenth / 10.0, 3, 0, i) <= copies((tenth + 1) / 10.0, 3, 0, i));
}

TEST_IN(mix, is_kept_in_a_file, root_make, root_remove)
{
    const char *root = *state;
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_mix_input inputs[] = {{"one \"file\".jsonl", 2.5, 20, {50, 900}, {1, 7}},
                                    {"\xff.txt", 0.1, 1, {1, 100}, {0}}};
    const struct ah_mix mix = {UINT64_C(1) << 63, inputs, 2};
    struct ah_mix found;
    CHECK_OK(ah_mix_load(&found, root, &arena, &err), err);
    assert_int_equal(found.n, 0);
    CHECK_OK(ah_mix_save(&mix, root, &err), err);
    CHECK_OK(ah_mix_load(&found, root, &arena, &err), err);
    assert_int_equal(found.n, 2);
    assert_int_equal(found.seed, mix.seed);
    assert_string_equal(found.inputs[0].path, inputs[0].path);
    assert_string_equal(found.inputs[1].path, "(a name that is not UTF-8)");
    for (size_t i = 0; i < 2; i++) {
        struct ah_mix_input same = inputs[i];
        same.path = found.inputs[i].path;
        assert_memory_equal(&found.inputs[i], &same, sizeof same);
    }
    check_near(ah_mix_share(&found, 0), 0.9, 1e-12);
    ah_arena_release(&arena);
}

/* A folder of somebody else's data may have a file of that name. */
TEST_IN(mix, leaves_other_files_alone, root_make, root_remove)
{
    static const char *const others[] = {
        "",
        "{",
        "[]",
        "{\"inputs\": 3, \"seed\": 1}",
        "{\"inputs\": [{}], \"seed\": 1}",
        "null",
        "{\"a\": [1]}",
        "{\"inputs\": [{\"path\": \"x\", \"weight\": 1, \"read\": -1}], \"seed\": 1}"};
    const char *root = *state;
    struct ah_error err = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct ah_arena arena = {0};
        struct ah_mix found;
        root_put_bytes(root, AH_MIX_FILE, others[i], strlen(others[i]));
        CHECK_OK(ah_mix_load(&found, root, &arena, &err), err);
        assert_int_equal(found.n, 0);
        ah_arena_release(&arena);
    }
}

/* Makes token files of one text with the weight, and counts its tokens. */
static struct ah_mix_input make_text(const char *root, const char *text, double weight, double held_out)
{
    char path[4200], folder[4200];
    struct ah_error err = {0};
    struct ah_text_tokenizer *tokenizer;
    struct ah_token_files_made made;
    struct ah_mix_input input = {.path = path, .weight = weight};
    struct ah_mix mix = {.inputs = &input, .n = 1};
    static int number;
    snprintf(path, sizeof path, "%s/text.txt", root);
    snprintf(folder, sizeof folder, "%s/%d", root, number++);
    root_put_bytes(root, "text.txt", text, strlen(text));
    CHECK_OK(ah_text_tokenizer_open(&tokenizer, "tests/golden/tokenizers/gpt2", &err), err);
    const char *inputs[] = {path};
    const struct ah_token_files_options options = {.tokenizer = tokenizer,
                                                   .inputs = inputs,
                                                   .n_inputs = 1,
                                                   .folder = folder,
                                                   .held_out = held_out,
                                                   .begin = UINT32_MAX,
                                                   .end = UINT32_MAX,
                                                   .mix = &mix};
    CHECK_OK(ah_token_files_make(&options, &made, &err), err);
    assert_int_equal(made.train.tokens, input.train.tokens);
    assert_int_equal(made.train.documents, input.train.documents);
    assert_int_equal(made.held_out.tokens, input.held_out.tokens);
    ah_text_tokenizer_close(tokenizer);
    return input;
}

/* The fraction of a text is its beginning: whole lines, or letters if it has one line only. */
TEST_IN(mix, takes_the_beginning_of_a_text, root_make, root_remove)
{
    static const char lines[] = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"; /* 20 tokens */
    const char *root = *state;
    struct ah_mix_input input = make_text(root, lines, 1, 0);
    assert_int_equal(input.train.tokens, 20);
    input = make_text(root, lines, 0.55, 0);
    assert_int_equal(input.read, 1);
    assert_int_equal(input.train.documents, 1);
    assert_int_equal(input.train.tokens, 10);
    input = make_text(root, lines, 2.3, 0);
    assert_int_equal(input.train.documents, 3);
    assert_int_equal(input.train.tokens, 46);
    input = make_text(root, lines, 3, 0.2);
    assert_int_equal(input.train.tokens, 48);
    assert_int_equal(input.held_out.documents, 1);
    assert_int_equal(input.held_out.tokens, 4);
    input = make_text(root, "0123456789", 0.4, 0);
    assert_true(input.train.tokens && input.train.tokens <= 4);
    input = make_text(root, "0\xC3\xA9\xC3\xA9", 1.5, 0); /* half is within a letter */
    assert_int_equal(input.train.documents, 2);
}
