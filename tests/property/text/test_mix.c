/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights over many documents: shares are what weights say, and files do not depend on threads.
 */
#include "runtime/text/mix.h"

#include "base/buffer.h"
#include "base/file.h"
#include "runtime/text/token_files.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DOCUMENTS = 10000, INPUTS = 2 };

/* Within 3 deviations of a binomial distribution, as are 997 of 1000; the seeds are fixed. */
static void check_share(double taken, double fraction, double n)
{
    const double deviation = sqrt(n * fraction * (1 - fraction));
    if (fabs(taken - n * fraction) > 3 * deviation)
        fail_msg("%g of %g documents were taken for a fraction of %g", taken, n, fraction);
}

TEST(mix, takes_the_share_that_a_weight_says)
{
    static const double weights[] = {0.001, 0.1, 0.3, 0.5, 0.77, 0.999};
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct ah_mix_input inputs[INPUTS] = {{.weight = weights[w]}, {.weight = 4 + weights[w]}};
            const struct ah_mix mix = {seed, inputs, INPUTS};
            uint64_t taken[INPUTS] = {0}, both = 0;
            for (uint64_t i = 0; i < DOCUMENTS; i++) {
                const uint32_t first = ah_mix_copies(&mix, 0, i), second = ah_mix_copies(&mix, 1, i) - 4;
                taken[0] += first;
                taken[1] += second;
                both += first && second;
            }
            check_share((double)taken[0], weights[w], DOCUMENTS);
            check_share((double)taken[1], weights[w], DOCUMENTS);
            check_share((double)both, weights[w] * weights[w], DOCUMENTS); /* inputs choose independently */
        }
}

static void read_made(const char *folder, struct ah_buffer *ret)
{
    static const char *const names[] = {"train-00000.bin", "train-00000.bin.docs", "val-00000.bin",
                                        "val-00000.bin.docs", AH_MIX_FILE};
    struct ah_error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4400];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK_OK(ah_file_read(path, 1 << 28, ret, &err), err);
    }
}

static void make(const char *root, unsigned threads, uint64_t align, struct ah_mix *mix,
                 struct ah_buffer *ret)
{
    char paths[INPUTS][4200], folder[4200];
    const char *inputs[INPUTS];
    struct ah_error err = {0};
    struct ah_text_tokenizer *tokenizer;
    struct ah_token_files_made made;
    CHECK_OK(ah_text_tokenizer_open(&tokenizer, "tests/golden/tokenizers/gpt2", &err), err);
    for (size_t i = 0; i < INPUTS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%zu.jsonl", root, i);
        inputs[i] = mix->inputs[i].path = paths[i];
    }
    snprintf(folder, sizeof folder, "%s/%u-%u", root, threads, (unsigned)align);
    const struct ah_token_files_options options = {.tokenizer = tokenizer,
                                                   .inputs = inputs,
                                                   .n_inputs = INPUTS,
                                                   .folder = folder,
                                                   .held_out = 0.01,
                                                   .begin = UINT32_MAX,
                                                   .end = 0,
                                                   .align = align,
                                                   .mix = mix,
                                                   .threads = threads};
    CHECK_OK(ah_token_files_make(&options, &made, &err), err);
    assert_int_equal(made.train.documents, mix->inputs[0].train.documents + mix->inputs[1].train.documents);
    assert_int_equal(made.train.tokens - made.train.padding,
                     mix->inputs[0].train.tokens + mix->inputs[1].train.tokens);
    read_made(folder, ret);
    ah_text_tokenizer_close(tokenizer);
}

TEST_IN(mix, does_not_depend_on_threads, root_make, root_remove)
{
    const char *root = *state;
    struct ah_buffer lines = {0};
    for (int i = 0; i < DOCUMENTS; i++)
        ah_buffer_printf(&lines, "{\"text\": \"document %d %.*s\"}\n", i, i % 7, "abcdefg");
    root_put_bytes(root, "0.jsonl", lines.data, lines.size);
    root_put_bytes(root, "1.jsonl", lines.data, lines.size);
    ah_buffer_release(&lines);
    for (uint64_t align = 0; align <= 64; align += 64) {
        struct ah_buffer first = {0};
        for (unsigned threads = 1; threads <= 4; threads++) {
            struct ah_mix_input inputs[INPUTS] = {{.weight = 1.3}, {.weight = 0.2}};
            struct ah_mix mix = {.inputs = inputs, .n = INPUTS};
            struct ah_buffer files = {0};
            make(root, threads, align, &mix, threads == 1 ? &first : &files);
            assert_int_equal(inputs[0].read, DOCUMENTS);
            assert_int_equal(inputs[0].held_out.documents, DOCUMENTS / 100);
            check_share((double)(inputs[1].train.documents + inputs[1].held_out.documents), 0.2, DOCUMENTS);
            if (threads > 1) {
                assert_int_equal(files.size, first.size);
                assert_memory_equal(files.data, first.data, first.size);
            }
            ah_buffer_release(&files);
        }
        ah_buffer_release(&first);
    }
}
