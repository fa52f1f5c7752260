/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests a speaker on the CUDA device: golden texts, and the same bits where weights stay on the host. With a GPU's
 * plugin in AUTOHETE_PLUGIN_DIR, this tests a GPU.
 */
#define CHECK_CUDA 1
#include "tests/golden/sample/case.h"
#include "tests/support/driver.h"

#define FP32_TOLERANCE 2e-5
#define BF16_TOLERANCE 5e-2

static void open_case(struct sample_case *c, const char *name, enum ah_dtype dtype, uint64_t memory_bytes)
{
    sample_open(
        c, name,
        &(struct ah_speaker_options){.driver = check_driver(), .dtype = dtype, .memory_bytes = memory_bytes});
}

/* Measures with a device of its own, since code that earlier devices loaded is part of the process's context. */
static uint64_t least_bytes(const char *name, enum ah_dtype dtype)
{
    struct sample_case c;
    open_case(&c, name, dtype, 0);
    const uint64_t bytes = ah_speaker_facts(c.speaker).least_bytes;
    sample_close(&c);
    return bytes;
}

/* Checks the texts with resident weights. Streamed ones must give the same bits, for a text in several passes too. */
static void check_case(const char *name, enum ah_dtype dtype)
{
    static const size_t parts[] = {7, 1, 6, 1, 0};
    struct sample_case c;
    float logits[2][SAMPLE_VOCABULARY_MAX];
    open_case(&c, name, dtype, 0);
    assert_int_equal(ah_speaker_facts(c.speaker).streamed, 0);
    assert_true(sample_check_texts(&c, dtype == AH_FP32 ? FP32_TOLERANCE : BF16_TOLERANCE) >= 2);
    sample_feed(&c, parts, logits[0]);
    sample_close(&c);
    open_case(&c, name, dtype, least_bytes(name, dtype));
    assert_true(ah_speaker_facts(c.speaker).streamed > 2);
    sample_feed(&c, parts, logits[1]);
    assert_memory_equal(logits[0], logits[1], c.model.body.model->vocabulary * sizeof(float));
    sample_close(&c);
}

TEST(speaker, says_what_transformers_says_in_fp32)
{
    check_case("llama", AH_FP32);
    check_case("gpt2", AH_FP32);
}

TEST(speaker, says_what_transformers_says_in_bf16)
{
    check_case("llama", AH_BF16);
    check_case("gpt2", AH_BF16);
    check_case("gpt2-lora", AH_BF16);
}
