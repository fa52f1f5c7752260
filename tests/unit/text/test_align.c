/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests sequences of whole documents: each document is there once, none crosses a boundary, no learned token that fits
 * is lost, and sequences are as full as a bound allows.
 */
#include "runtime/text/token_files_internal.h"

#include "base/file.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCABULARY = 700, LENGTH_MOST = 4096, HEADER_BYTES = 64 };

struct files {
    char folder[32];
    struct ah_text_tokenizer *tokenizer;
    struct ah_token_files_options options;
    struct ah_shards shards;
    struct ah_align align;
};

static void begin(struct files *files, uint64_t seq)
{
    struct ah_error err = {0};
    *files = (struct files){.folder = "/tmp/ah-align-XXXXXX"};
    CHECK_OK(ah_text_tokenizer_open(&files->tokenizer, "tests/golden/tokenizers/gpt2", &err), err);
    assert_non_null(mkdtemp(files->folder));
    files->options = (struct ah_token_files_options){.tokenizer = files->tokenizer,
                                                     .folder = files->folder,
                                                     .begin = UINT32_MAX,
                                                     .align = seq,
                                                     .padding = VOCABULARY - 1};
    files->shards = (struct ah_shards){.options = &files->options, .name = "train"};
    CHECK_OK(ah_align_init(&files->align, &files->shards, &err), err);
}

/* Adds a document of tokens 0, 1, 2 and so on, which tell where a token was in it. */
static void add(struct files *files, size_t n, size_t learned_from)
{
    static uint32_t ids[LENGTH_MOST];
    static unsigned char learned[LENGTH_MOST];
    struct ah_error err = {0};
    for (size_t i = 0; i < n; i++) {
        ids[i] = (uint32_t)(i % (VOCABULARY - 1));
        learned[i] = i >= learned_from;
    }
    CHECK_OK(ah_align_add(&files->align, &(struct ah_document_tokens){ids, learned, n}, &err), err);
}

static void finish(struct files *files)
{
    struct ah_error err = {0};
    CHECK_OK(ah_align_finish(&files->align, &err), err);
    CHECK_OK(ah_shards_close(&files->shards, &err), err);
    CHECK_OK(ah_shards_publish(&files->shards, true, &err), err);
}

static void read_file(const struct files *files, const char *ending, struct ah_buffer *ret)
{
    char path[64];
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s/train-00000.bin%s", files->folder, ending);
    CHECK_OK(ah_file_read(path, 1 << 28, ret, &err), err);
    remove(path);
}

static void end(struct files *files)
{
    ah_align_release(&files->align);
    ah_shards_release(&files->shards);
    rmdir(files->folder);
    ah_text_tokenizer_close(files->tokenizer);
}

static uint64_t number_at(const struct ah_buffer *bytes, size_t at, size_t width)
{
    uint64_t number = 0;
    for (size_t i = 0; i < width; i++)
        number |= (uint64_t)(unsigned char)bytes->data[at + i] << 8 * i;
    return number;
}

/* Checks the documents in the files, and counts them by their length. */
static void check_files(const struct files *files, uint64_t *ret_counts, uint64_t *ret_learned)
{
    struct ah_buffer tokens = {0}, mask = {0}, docs = {0};
    const uint64_t seq = files->options.align;
    read_file(files, "", &tokens);
    read_file(files, ".mask", &mask);
    read_file(files, ".docs", &docs);
    assert_int_equal(number_at(&tokens, 16, 8), mask.size);
    assert_int_equal(number_at(&tokens, 32, 8), seq);
    assert_int_equal(mask.size % seq, 0);
    *ret_learned = 0;
    for (size_t i = 0; i < docs.size; i += 8) {
        const uint64_t from = number_at(&docs, i, 8),
                       next = i + 8 < docs.size ? number_at(&docs, i + 8, 8) : mask.size;
        uint64_t to = from + 1;
        while (to < next && number_at(&tokens, HEADER_BYTES + 2 * to, 2) != VOCABULARY - 1)
            to++;
        assert_int_equal(from / seq, (to - 1) / seq);
        for (uint64_t at = from; at < to; at++)
            *ret_learned += at > from && mask.data[at] == 1;
        for (uint64_t at = to; at < next; at++)
            assert_int_equal(mask.data[at], 0);
        if (i + 8 < docs.size && next % seq)
            assert_int_equal(to, next); /* padding is only at the end of a sequence */
        ret_counts[to - from]++;
    }
    ah_buffer_release(&tokens);
    ah_buffer_release(&mask);
    ah_buffer_release(&docs);
}

static double draw_unit(uint64_t *state)
{
    return (double)(check_random(state) >> 11) / (double)(UINT64_C(1) << 53);
}

/* Lengths of conversations: most are short, a few are as long as a sequence (log-normal, mean 330, deviation 1.1). */
static size_t draw_length(uint64_t *state, size_t most)
{
    const double a = draw_unit(state), b = draw_unit(state);
    const double normal = sqrt(-2 * log(1 - a)) * cos(2 * 3.141592653589793 * b);
    const double length = exp(5.2 + 1.1 * normal);
    return length < 4 ? 4 : length > (double)most ? most : (size_t)length;
}

TEST(align, fills_sequences_within_a_hundredth_of_a_bound)
{
    static const uint64_t seqs[] = {512, 1024, 4096};
    for (size_t s = 0; s < sizeof seqs / sizeof *seqs; s++) {
        static uint64_t expected[LENGTH_MOST + 1], counts[LENGTH_MOST + 1];
        struct files files;
        uint64_t seed = check_seed(7), tokens = 0, learned = 0, has;
        memset(expected, 0, sizeof expected);
        memset(counts, 0, sizeof counts);
        begin(&files, seqs[s]);
        for (int i = 0; i < 20000; i++) {
            const size_t n = draw_length(&seed, seqs[s]);
            add(&files, n, n / 3);
            expected[n]++;
            tokens += n;
            learned += n - (n / 3 ? n / 3 : 1);
        }
        finish(&files);
        check_files(&files, counts, &has);
        assert_memory_equal(counts, expected, sizeof counts);
        assert_int_equal(has, learned);
        const uint64_t bound = (tokens + seqs[s] - 1) / seqs[s], made = files.shards.counts.tokens / seqs[s];
        print_message("%llu tokens a sequence: %llu sequences, at least %llu are needed\n",
                      (unsigned long long)seqs[s], (unsigned long long)made, (unsigned long long)bound);
        assert_true((double)made <= 1.01 * (double)bound);
        end(&files);
    }
}

/* A text that is longer goes on with its last token; a longer answer is cut; a longer prompt leaves nothing. */
TEST(align, cuts_only_what_is_longer)
{
    static uint64_t counts[LENGTH_MOST + 1];
    struct files files;
    uint64_t learned;
    begin(&files, 32);
    add(&files, 94, 0); /* 32 + 31 + 31 */
    add(&files, 100, 10);
    add(&files, 100, 40);
    add(&files, 33, 32); /* nothing learned is within a sequence */
    add(&files, 5, 5);
    add(&files, 0, 0);
    finish(&files);
    check_files(&files, counts, &learned);
    assert_int_equal(counts[32], 4);
    assert_int_equal(counts[5], 1);
    assert_int_equal(learned, 93 + 22);
    assert_int_equal(files.shards.counts.cut, 1);
    assert_int_equal(files.shards.counts.dropped, 2);
    assert_int_equal(files.shards.counts.lost, 68 + 60 + 1);
    assert_int_equal(files.shards.counts.padding, 27);
    end(&files);
}
