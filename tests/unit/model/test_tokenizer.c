/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the bytes of each token read from tokenizer.json, for the supported kinds of vocabulary.
 */
#include "runtime/model/tokenizer.h"

#include "base/file.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int load(struct ah_tokenizer *ret_tokenizer, const char *text, struct ah_error *err)
{
    char path[] = "/tmp/autohete-tokenizer-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int rc = ah_tokenizer_load(ret_tokenizer, path, err);
    unlink(path);
    return rc;
}

static void expect(const char *text, const char *const pieces[], size_t n)
{
    struct ah_tokenizer tokenizer;
    struct ah_error err = {0};
    CHECK_OK(load(&tokenizer, text, &err), err);
    for (size_t i = 0; i < n; i++)
        if (pieces[i])
            assert_string_equal(ah_tokenizer_text(&tokenizer, i), pieces[i]);
        else
            assert_null(ah_tokenizer_text(&tokenizer, i));
    assert_null(ah_tokenizer_text(&tokenizer, n));
    assert_null(ah_tokenizer_text(&tokenizer, UINT64_MAX));
    ah_tokenizer_release(&tokenizer);
}

/* In the file, U+0120 means a space and U+010A a newline. Two letters may be the two bytes of one character. */
TEST(tokenizer, letters_of_a_byte_level_vocabulary_are_bytes)
{
    static const char *const pieces[] = {"a", " b", "\n", "\xc3", "\xa9", NULL, "<|end|>"};
    expect("{\"added_tokens\":[{\"id\":6,\"content\":\"<|end|>\"}],\"decoder\":{\"type\":\"ByteLevel\"},"
           "\"model\":{\"vocab\":"
           "{\"a\":0,\"\\u0120b\":1,\"\\u010a\":2,\"\\u00c3\":3,\"\\u00a9\":4}}}",
           pieces, 7);
}

TEST(tokenizer, pieces_of_sentences_have_blanks_and_bytes)
{
    static const char *const pieces[] = {"<unk>", " a\xc3\xa9", "\n", "<0x0A", "\xc2\xa9"};
    expect("{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"<unk>\":0,\"\\u2581a\\u00e9\":1,\"<0x0A>"
           "\":2,\"<0x0A\":3,"
           "\"\\u00a9\":4}}}",
           pieces, 5);
}

TEST(tokenizer, unigrams_are_numbered_in_order)
{
    static const char *const pieces[] = {"<pad>", " x", "added"};
    expect("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"<pad>\",0.0],[\"\\u2581x\",-1.5],[\"y\",-2]]},"
           "\"added_tokens\":"
           "[{\"content\":\"added\",\"special\":true,\"id\":2}]}",
           pieces, 3);
}

TEST(tokenizer, what_is_none_is_left_out_or_refused)
{
    static const char *const pieces[] = {"a", NULL, "c"};
    struct ah_tokenizer tokenizer;
    struct ah_error err = {0};
    expect("{\"model\":{\"vocab\":{\"a\":0,\"b\":-1,\"c\":2,\"d\":4194304,\"e\":\"x\",\"f\":1.5}},\"added_"
           "tokens\":[1,{\"id\":1}]}",
           pieces, 3);
    static const char *const refused[] = {"",
                                          "{",
                                          "[]",
                                          "{}",
                                          "{\"model\":[]}",
                                          "{\"model\":{\"vocab\":[]}}",
                                          "{\"model\":{\"vocab\":{\"a\":99999999}}}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int rc = load(&tokenizer, refused[i], &err);
        assert_int_equal(rc, AH_E_DOCUMENT);
    }
    CHECK_FAILS(ah_tokenizer_load(&tokenizer, "/nowhere", &err), err, AH_E_IO, "/nowhere");
}
