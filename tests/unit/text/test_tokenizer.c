/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests ids against those of the tokenizers library, for the structure of each family (tests/tools/oracle_tokenizers.py
 * makes the cases), and that other tokenizers are refused by name.
 */
#include "runtime/text/text_internal.h"
#include "runtime/text/token_files_internal.h"

#include "base/file.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 16 };

static unsigned nibble(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

/* Checks one line: the text as hexadecimal digits, and the ids. */
static void check_line(const struct ah_text_tokenizer *tokenizer, const char *name, char *line)
{
    static char text[TEXT_MAX];
    struct ah_text_ids ids = {0};
    struct ah_error err = {0};
    char *expected = strchr(line, ' ');
    size_t size = 0, n = 0;
    assert_non_null(expected);
    for (const char *at = line; *at != ' ' && *at != '-'; at += 2)
        text[size++] = (char)(nibble(at[0]) << 4 | nibble(at[1]));
    CHECK_OK(ah_text_encode(tokenizer, text, size, &ids, &err), err);
    for (char *at = expected + 1; *at >= '0' && *at <= '9'; n++) {
        const unsigned long id = strtoul(at, &at, 10);
        if (n >= ids.n || ids.items[n] != id)
            fail_msg("%s: token %zu of '%.*s' is %ld, not %lu", name, n, (int)size, text,
                     n < ids.n ? (long)ids.items[n] : -1, id);
        at += *at == ',';
    }
    assert_int_equal(n, ids.n);
    ah_text_ids_release(&ids);
}

static void check_family(const char *name, uint64_t vocabulary)
{
    struct ah_text_tokenizer *tokenizer;
    struct ah_buffer cases = {0};
    struct ah_error err = {0};
    char path[128];
    size_t lines = 0;
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s", name);
    CHECK_OK(ah_text_tokenizer_open(&tokenizer, path, &err), err);
    assert_int_equal(ah_text_tokenizer_vocabulary(tokenizer), vocabulary);
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s/cases.txt", name);
    CHECK_OK(ah_file_read(path, 1 << 24, &cases, &err), err);
    for (char *line = strtok(cases.data, "\n"); line; line = strtok(NULL, "\n"), lines++)
        check_line(tokenizer, name, line);
    assert_int_equal(lines, 151);
    ah_buffer_release(&cases);
    ah_text_tokenizer_close(tokenizer);
}

TEST(tokenizer, has_the_ids_of_the_library_on_bytes)
{
    check_family("gpt2", 700);
    check_family("gpt2-space", 700);
    check_family("llama3", 700);
    check_family("qwen2", 703);
    check_family("olmo2", 718);
    check_family("phi4mini", 707);
}

TEST(tokenizer, has_the_ids_of_the_library_on_letters)
{
    check_family("llama2", 959);
    check_family("mistral", 959);
    check_family("metaspace", 959);
    check_family("gemma", 981);
    check_family("phi3", 970);
    check_family("merged", 959);
}

#define MODEL                                                                                                \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"

#define SPLIT(pattern)                                                                                       \
    "{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern               \
    "\"}, \"behavior\": \"Isolated\"}}"

static int open_text(struct ah_text_tokenizer **ret_tokenizer, const char *text, struct ah_error *err)
{
    char path[] = "/tmp/ah-tokenizer-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    CHECK_OK(ah_file_write(path, text, strlen(text), err), *err);
    const int rc = ah_text_tokenizer_open(ret_tokenizer, path, err);
    remove(path);
    return rc;
}

static void expect(const char *text, int code, const char *says)
{
    struct ah_text_tokenizer *tokenizer = NULL;
    struct ah_error err = {0};
    const int rc = open_text(&tokenizer, text, &err);
    if (rc != code || (code && !strstr(err.text, says)))
        fail_msg("%s: %d, '%s'", text, rc, err.text);
    if (!rc)
        ah_text_tokenizer_close(tokenizer);
}

/* Encodes `piece` repeated up to `size` bytes, and then a 'c'. Returns the number of tokens. */
static size_t encode_long(const char *json, const char *piece, size_t size, int code, const char *says)
{
    struct ah_text_tokenizer *tokenizer = NULL;
    struct ah_text_ids ids = {0};
    struct ah_error err = {0};
    char *text = malloc(size + 1);
    const size_t step = strlen(piece);
    assert_non_null(text);
    CHECK_OK(open_text(&tokenizer, json, &err), err);
    for (size_t i = 0; i < size; i++)
        text[i] = piece[i % step];
    text[size] = 'c';
    const int rc = ah_text_encode(tokenizer, text, size + 1, &ids, &err);
    if (rc != code || (code && !strstr(err.text, says)))
        fail_msg("%s: %d, '%s'", json, rc, err.text);
    const size_t n = ids.n;
    free(text);
    ah_text_ids_release(&ids);
    ah_text_tokenizer_close(tokenizer);
    return n;
}

TEST(tokenizer, refuses_what_it_lacks_by_name)
{
    expect("{" MODEL "}", AH_OK, "");
    expect("{" MODEL ", \"normalizer\": null, \"pre_tokenizer\": null, \"added_tokens\": []}", AH_OK, "");
    expect("{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", AH_E_UNSUPPORTED,
           "a model of type 'Unigram'");
    expect("{" MODEL ", \"normalizer\": {\"type\": \"BertNormalizer\"}}", AH_E_UNSUPPORTED,
           "the normalizer 'BertNormalizer' is not supported; make the token files with 'autohete-tokenize'");
    expect("{" MODEL ", \"pre_tokenizer\": {\"type\": \"Digits\"}}", AH_E_UNSUPPORTED,
           "the pre-tokenizer 'Digits'");
    expect("{" MODEL
           ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": "
           "\"Isolated\"}}",
           AH_E_UNSUPPORTED, "the pattern '(' is not supported");
    expect("{" MODEL
           ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": "
           "\"Contiguous\"}}",
           AH_E_UNSUPPORTED, "the pre-tokenizer 'Split' with the behavior 'Contiguous'");
    expect("{" MODEL
           ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": "
           "\"Isolated\"}}",
           AH_E_UNSUPPORTED, "the pre-tokenizer 'Split' without a pattern");
    expect("{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": [], \"dropout\": 0.1}}",
           AH_E_UNSUPPORTED, "the model's setting 'dropout'");
}

TEST(tokenizer, refuses_broken_files)
{
    expect("", AH_E_DOCUMENT, "");
    expect("[]", AH_E_DOCUMENT, "has no model");
    expect("{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}", AH_E_DOCUMENT, "no whole number");
    expect("{\"model\": {\"vocab\": {\"a\": 99999999999}, \"merges\": []}}", AH_E_DOCUMENT, "beyond 2^24");
    expect("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", AH_E_DOCUMENT,
           "no piece of model.vocab");
    expect("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"ab\"]}}", AH_E_DOCUMENT, "is no pair");
    expect("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\", \"a\", \"a\"]]}}", AH_E_DOCUMENT,
           "is no pair");
    expect("{\"model\": {\"vocab\": [], \"merges\": []}}", AH_E_DOCUMENT, "model.vocab is missing");
    expect("{" MODEL ", \"added_tokens\": [{\"id\": 3}]}", AH_E_DOCUMENT, "no content or no id");
    expect("{" MODEL ", \"added_tokens\": 3}", AH_E_DOCUMENT, "added_tokens is not a list");
    expect("{" MODEL ", \"normalizer\": {\"type\": \"Sequence\"}}", AH_E_DOCUMENT, "a Sequence has no steps");
}

TEST(tokenizer, refuses_normalizers_without_bounds)
{
#define SIXTY       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define REPLACE(to) "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"" to "\"}"
    expect("{" MODEL ", \"normalizer\": {\"type\": \"Prepend\"}}", AH_E_DOCUMENT, "'Prepend' has no text");
    expect("{" MODEL
           ", \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": 3}}",
           AH_E_DOCUMENT, "'Replace' has no content");
    expect("{" MODEL ", \"normalizer\": " REPLACE(SIXTY "aaaaa") "}", AH_E_UNSUPPORTED, "more than 64 bytes");
    expect("{" MODEL ", \"normalizer\": " REPLACE("") ", \"added_tokens\": [{\"id\": 3, \"content\": \"aa\", "
                                                      "\"normalized\": true}]}",
           AH_E_UNSUPPORTED, "an added token whose normal form is empty");
    assert_int_equal(encode_long("{" MODEL ", \"normalizer\": " REPLACE(SIXTY) "}", "a", 10, AH_OK, ""), 600);
    encode_long("{" MODEL ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" REPLACE(
                    SIXTY) "," REPLACE(SIXTY) "," REPLACE(SIXTY) "," REPLACE(SIXTY) "," REPLACE(SIXTY) "]}}",
                "a", 1000, AH_E_UNSUPPORTED, "more than 64 times as long");
}

TEST(tokenizer, takes_long_words_and_says_what_fails)
{
    assert_int_equal(encode_long("{" MODEL "}", "ab", 1 << 20, AH_OK, ""), 1 << 19);
    assert_int_equal(encode_long(SPLIT("(?:a|b)+"), "ab", 1 << 20, AH_OK, ""), 1 << 19);
    encode_long(SPLIT("(?:a+)+[xy]"), "a", 100, AH_E_FAILED, "the tokenizer's pattern fails on this text (");
}

/* Marks of classes 230 and 220 in turn, which composed form sorts. It hangs where that takes quadratic time. */
TEST(tokenizer, sorts_many_marks)
{
    assert_int_equal(
        encode_long("{\"model\": {\"vocab\": {\"\xCC\x81\": 0, \"\xCC\xA3\": 1, \"\xCC\xA3\xCC\xA3\": 2}, "
                    "\"merges\": [\"\xCC\xA3 \xCC\xA3\"]}, \"normalizer\": {\"type\": \"NFC\"}}",
                    "\xCC\x81\xCC\xA3", 1 << 22, AH_OK, ""),
        (1 << 20) + (1 << 19));
}

TEST(tokenizer, has_32_bits_for_places)
{
    const struct ah_text_tokenizer tokenizer = {.on_bytes = true};
    const struct ah_text_piece word = {"", UINT32_MAX};
    struct ah_made_tokens made = {.ids.n = (size_t)UINT32_MAX + 1};
    struct ah_text_ids ids = {0};
    struct ah_text_bpe *bpe;
    struct ah_error err = {0};
    CHECK_OK(ah_text_bpe_new(&bpe, &err), err);
    assert_int_equal(ah_text_bpe_word(bpe, &tokenizer, word, &ids, &err), AH_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "less than 4 GiB"));
    ah_text_bpe_free(bpe);
    assert_int_equal(ah_made_tokens_end(&made, &err), AH_E_UNSUPPORTED);
    assert_int_equal(made.ends.n, 0);
    made.ids.n = UINT32_MAX;
    CHECK_OK(ah_made_tokens_end(&made, &err), err);
    ah_text_ids_release(&made.ends);
}

TEST(tokenizer, isolates_matches)
{
    assert_int_equal(encode_long("{" MODEL "}", "aba", 3, AH_OK, ""), 2);
    assert_int_equal(encode_long(SPLIT("b"), "aba", 3, AH_OK, ""), 3);
}

TEST(tokenizer, finds_the_longest_added_token)
{
    const size_t n =
        encode_long("{" MODEL ", \"added_tokens\": [{\"id\": 3, \"content\": \"a\"}, {\"id\": 4, "
                    "\"content\": \"ab\"}]}",
                    "ab", 2, AH_OK, "");
    assert_int_equal(n, 1);
}

/* No merge makes this word. */
TEST(tokenizer, takes_whole_words)
{
    const size_t n =
        encode_long("{\"model\": {\"ignore_merges\": true, \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, "
                    "\"merges\": []}, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                    "{\"Regex\": \"ab\"}, \"behavior\": \"Isolated\"}}",
                    "ab", 2, AH_OK, "");
    assert_int_equal(n, 1);
}
