/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation once while a speaker is opened, fed and closed. Feeding allocates nothing.
 */
#include "tests/golden/sample/case.h"
#include "tests/support/fault.h"

static int speak(void *context, struct ah_error *err)
{
    const struct sample_case *c = context;
    static const uint32_t tokens[] = {1, 2, 3};
    struct ah_speaker *speaker = NULL;
    const float *logits;
    int rc = ah_speaker_open(&speaker, &c->options, err);
    rc = rc ? rc : ah_speaker_feed(speaker, tokens, 3, &logits, err);
    ah_speaker_close(speaker);
    return rc;
}

static void check_sweep(const char *name, enum ah_dtype dtype, bool streamed)
{
    struct sample_case c;
    struct ah_error err = {0};
    sample_load(&c, name,
                &(struct ah_speaker_options){.driver = ah_device_cpu(), .dtype = dtype, .positions = 8});
    CHECK_OK(ah_speaker_open(&c.speaker, &c.options, &err), err);
    if (streamed)
        c.options.memory_bytes = ah_speaker_facts(c.speaker).least_bytes;
    ah_speaker_close(c.speaker);
    c.speaker = NULL;
    assert_true(fault_sweep(speak, &c, 0) > 20);
    sample_close(&c);
}

TEST(speaker, survives_every_failing_allocation)
{
    check_sweep("gpt2", AH_FP32, true);
    check_sweep("llama-lora", AH_BF16, false);
}

TEST(speaker, allocates_nothing_while_it_is_fed)
{
    static const uint32_t tokens[] = {1, 2, 3};
    struct sample_case c;
    struct ah_error err = {0};
    const float *logits;
    sample_open(&c, "llama-lora", &(struct ah_speaker_options){.driver = ah_device_cpu(), .dtype = AH_BF16});
    (void)fault_count();
    CHECK_OK(ah_speaker_feed(c.speaker, tokens, 3, &logits, &err), err);
    CHECK_OK(ah_speaker_feed(c.speaker, tokens, 1, &logits, &err), err);
    assert_int_equal(fault_count(), 0);
    sample_close(&c);
}
