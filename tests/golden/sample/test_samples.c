/* SPDX-License-Identifier: Apache-2.0
 *
 * What a speaker says is what transformers says in float64 (tests/tools/oracle_samples.py): for every golden case of
 * training, with adapters too, and with the same bits where weights stay on the host.
 */
#include "tests/golden/sample/case.h"

#include <dirent.h>

/* The largest difference of a logit. */
#define TOLERANCE 2e-5

static void open_case(struct sample_case *c, const char *file, enum ah_dtype dtype, uint64_t memory_bytes)
{
    sample_open(c, file,
                &(struct ah_speaker_options){
                    .driver = ah_device_cpu(), .dtype = dtype, .memory_bytes = memory_bytes});
}

/* Calls the function for every file of samples. */
static void each_case(void (*check)(const char *file))
{
    DIR *folder = opendir(SAMPLE_TEXTS);
    size_t n = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".txt")) {
            check(entry->d_name);
            n++;
        }
    closedir(folder);
    assert_true(n >= 20);
}

static void check_case(const char *file)
{
    struct sample_case c;
    open_case(&c, file, AH_FP32, 0);
    assert_int_equal(ah_speaker_facts(c.speaker).streamed, 0);
    assert_true(sample_check_texts(&c, TOLERANCE) >= 2);
    sample_close(&c);
}

TEST(samples, are_those_of_transformers)
{
    each_case(check_case);
}

/* Number of cases whose weights do not all fit into the memory of two blocks. */
static size_t cases_streamed;

/* Weights that stay on the host, and a text in pieces, change no bit. */
static void check_bits(const char *file)
{
    static const size_t whole[] = {15, 0}, parts[] = {7, 5, 3, 0};
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct sample_case c;
        float logits[3][SAMPLE_VOCABULARY_MAX];
        open_case(&c, file, dtype, 0);
        const uint64_t bytes = ah_speaker_facts(c.speaker).least_bytes;
        sample_feed(&c, whole, logits[0]);
        sample_feed(&c, parts, logits[1]);
        sample_close(&c);
        open_case(&c, file, dtype, bytes);
        sample_feed(&c, whole, logits[2]);
        const uint64_t n = c.model.body.model->vocabulary * sizeof(float);
        cases_streamed += ah_speaker_facts(c.speaker).streamed > 0;
        assert_memory_equal(logits[0], logits[1], n);
        assert_memory_equal(logits[0], logits[2], n);
        sample_close(&c);
    }
}

TEST(samples, have_the_same_bits_from_the_host_and_in_pieces)
{
    each_case(check_bits);
    assert_true(cases_streamed >= 10);
}
