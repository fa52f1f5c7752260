/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which parts of documents are prompts, on token files that the test writes.
 */
#include "cli/sample/documents.h"

#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS_MAX = 9000, PROMPTS_MAX = 8, LONG = 5000 };

struct stream {
    uint16_t tokens[TOKENS_MAX];
    uint8_t mask[TOKENS_MAX];
    uint64_t docs[PROMPTS_MAX];
    size_t n, n_docs;
    struct ah_documents_prompt prompts[PROMPTS_MAX];
    size_t found;
};

/* Adds a document: a digit for each token, 1 if it is learned. Tokens count up through the stream. */
static void add(struct stream *stream, const char *learned)
{
    stream->docs[stream->n_docs++] = stream->n;
    for (; *learned; learned++, stream->n++) {
        stream->tokens[stream->n] = (uint16_t)stream->n;
        stream->mask[stream->n] = *learned == '1';
    }
}

static int find(struct stream *stream, const char *folder, size_t max)
{
    char path[PATH_MAX];
    const char *const paths[] = {path};
    struct ah_error err = {0};
    root_put_bytes(folder, "x.u16", stream->tokens, stream->n * sizeof *stream->tokens);
    root_put_bytes(folder, "x.u16.mask", stream->mask, stream->n);
    root_put_bytes(folder, "x.u16.docs", stream->docs, stream->n_docs * sizeof *stream->docs);
    snprintf(path, sizeof path, "%s/x.u16", folder);
    const int rc = ah_documents_find(paths, 1, TOKENS_MAX, stream->prompts, max, &stream->found, &err);
    if (rc && rc != AH_E_MISMATCH)
        fail_msg("%s", err.text);
    return rc;
}

/* Checks that a prompt is tokens [first, middle) and what is learned is [middle, end). */
static void expect(const struct stream *stream, size_t i, uint32_t first, uint32_t middle, uint32_t end)
{
    const struct ah_documents_prompt *prompt = &stream->prompts[i];
    assert_true(i < stream->found);
    assert_int_equal(prompt->prompt.n, middle - first);
    assert_int_equal(prompt->learned.n, end - middle);
    for (uint32_t k = first; k < middle; k++)
        assert_int_equal(prompt->prompt.items[k - first], k);
    for (uint32_t k = middle; k < end; k++)
        assert_int_equal(prompt->learned.items[k - middle], k);
}

static void release(struct stream *stream)
{
    for (size_t i = 0; i < stream->found; i++) {
        ah_text_ids_release(&stream->prompts[i].prompt);
        ah_text_ids_release(&stream->prompts[i].learned);
    }
}

TEST_IN(documents, are_prompts_up_to_the_first_learned_token, root_make, root_remove)
{
    static struct stream stream;
    stream = (struct stream){0};
    add(&stream, "00011");            /* 0: a question and an answer */
    add(&stream, "0000");             /* 5: nothing is learned */
    add(&stream, "001100111");        /* 9: two answers, of which the first counts */
    add(&stream, "1");                /* 18: no token before the first */
    add(&stream, "0100000000000000"); /* 19: a short answer after one token */
    add(&stream, "11111");            /* 35: all is learned, so half is the prompt */
    assert_int_equal(find(&stream, *state, PROMPTS_MAX), AH_OK);
    assert_int_equal(stream.found, 4);
    expect(&stream, 0, 0, 3, 5);
    expect(&stream, 1, 9, 11, 13);
    expect(&stream, 2, 19, 20, 21);
    expect(&stream, 3, 35, 37, 40);
    release(&stream);
    assert_int_equal(find(&stream, *state, 2), AH_OK);
    assert_int_equal(stream.found, 2);
    expect(&stream, 1, 9, 11, 13);
    release(&stream);
}

/* Documents go on over the windows in which tokens are read. */
TEST_IN(documents, may_be_long, root_make, root_remove)
{
    static struct stream stream;
    static char asked[LONG + 1], learned[LONG / 2 + 1];
    stream = (struct stream){0};
    memset(asked, '0', LONG);
    memset(asked + LONG - 3, '1', 3);
    memset(learned, '1', LONG / 2);
    add(&stream, asked);
    add(&stream, learned);
    assert_int_equal(find(&stream, *state, PROMPTS_MAX), AH_OK);
    assert_int_equal(stream.found, 2);
    expect(&stream, 0, 0, LONG - 3, LONG);
    expect(&stream, 1, LONG, LONG + AH_DOCUMENTS_TEXT, LONG + LONG / 2);
    release(&stream);
}

TEST_IN(documents, are_refused_if_nothing_is_learned, root_make, root_remove)
{
    static struct stream stream;
    stream = (struct stream){0};
    add(&stream, "000");
    add(&stream, "10"); /* a first token is never learned */
    assert_int_equal(find(&stream, *state, PROMPTS_MAX), AH_E_MISMATCH);
    assert_int_equal(stream.found, 0);
    release(&stream);
}
