/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what a speaker refuses, that it then goes on, and that a text may have every position.
 */
#include "tests/golden/sample/case.h"

static void open_small(struct sample_case *c, const char *name, uint32_t positions)
{
    sample_open(
        c, name,
        &(struct ah_speaker_options){.driver = ah_device_cpu(), .dtype = AH_FP32, .positions = positions});
}

TEST(speaker, refuses_wrong_tokens_and_goes_on)
{
    struct sample_case c;
    struct ah_error err = {0};
    const uint32_t tokens[] = {3, 5, 66, 1}, beyond[] = {3, 67}, last = UINT32_MAX;
    const float *logits = NULL;
    float expected[SAMPLE_VOCABULARY_MAX];
    open_small(&c, "llama", 4);
    const size_t bytes = c.model.body.model->vocabulary * sizeof(float);
    CHECK_FAILS(ah_speaker_feed(c.speaker, tokens, 0, &logits, &err), err, AH_E_USAGE, "no token");
    CHECK_FAILS(ah_speaker_feed(c.speaker, beyond, 2, &logits, &err), err, AH_E_USAGE,
                "token 67 is not below 67, the vocabulary of model");
    CHECK_FAILS(ah_speaker_feed(c.speaker, &last, 1, &logits, &err), err, AH_E_USAGE, "token 4294967295");
    CHECK_FAILS(ah_speaker_feed(c.speaker, tokens, 5, &logits, &err), err, AH_E_USAGE,
                "a text may have at most 4 tokens");
    assert_null(logits);
    CHECK_OK(ah_speaker_feed(c.speaker, tokens, 4, &logits, &err), err);
    memcpy(expected, logits, bytes);
    CHECK_FAILS(ah_speaker_feed(c.speaker, tokens, 1, &logits, &err), err, AH_E_USAGE, "at most 4 tokens");
    ah_speaker_restart(c.speaker);
    CHECK_OK(ah_speaker_feed(c.speaker, tokens, 2, &logits, &err), err);
    CHECK_FAILS(ah_speaker_feed(c.speaker, beyond, 2, &logits, &err), err, AH_E_USAGE, "token 67");
    CHECK_FAILS(ah_speaker_feed(c.speaker, tokens, SIZE_MAX, &logits, &err), err, AH_E_USAGE, "at most 4");
    CHECK_OK(ah_speaker_feed(c.speaker, tokens + 2, 1, &logits, &err), err);
    CHECK_OK(ah_speaker_feed(c.speaker, tokens + 3, 1, &logits, &err), err);
    assert_memory_equal(logits, expected, bytes);
    sample_close(&c);
}

/* The last row of a text with every position is the same whether it comes in one piece or alone. */
static void check_full(const char *name)
{
    struct sample_case c;
    float logits[2][SAMPLE_VOCABULARY_MAX];
    open_small(&c, name, 0);
    const size_t n = c.options.positions, whole[] = {n, 0}, parts[] = {n - 1, 1, 0}, odd[] = {1, n - 2, 1, 0};
    sample_feed(&c, whole, logits[0]);
    sample_feed(&c, parts, logits[1]);
    assert_memory_equal(logits[0], logits[1], c.model.body.model->vocabulary * sizeof(float));
    sample_feed(&c, odd, logits[1]);
    assert_memory_equal(logits[0], logits[1], c.model.body.model->vocabulary * sizeof(float));
    sample_close(&c);
}

TEST(speaker, takes_every_position)
{
    check_full("llama");
    check_full("gpt2");
    check_full("mistral-window");
}

/* Fewer positions change nothing, nor does a text before this one. */
TEST(speaker, is_the_same_with_fewer_positions_and_after_another_text)
{
    static const char *const names[] = {"llama", "gpt2"};
    static const size_t text[] = {9, 0}, other[] = {16, 0}, rest[] = {4, 5, 0};
    float logits[2][SAMPLE_VOCABULARY_MAX];
    struct sample_case c;
    for (size_t i = 0; i < 2; i++) {
        open_small(&c, names[i], 9);
        const size_t bytes = c.model.body.model->vocabulary * sizeof(float);
        sample_feed(&c, text, logits[0]);
        sample_close(&c);
        open_small(&c, names[i], 16);
        sample_feed(&c, other, logits[1]);
        sample_feed(&c, rest, logits[1]);
        assert_memory_equal(logits[0], logits[1], bytes);
        sample_close(&c);
    }
}

TEST(speaker, refuses_more_positions_than_are_learned_and_too_little_memory)
{
    struct sample_case c;
    struct ah_error err = {0};
    sample_load(&c, "gpt2",
                &(struct ah_speaker_options){.driver = ah_device_cpu(), .dtype = AH_FP32, .positions = 49});
    CHECK_FAILS(ah_speaker_open(&c.speaker, &c.options, &err), err, AH_E_USAGE,
                "49 tokens are more than the 48 positions of model");
    c.options.positions = 48;
    CHECK_OK(ah_speaker_open(&c.speaker, &c.options, &err), err);
    const uint64_t least = ah_speaker_facts(c.speaker).least_bytes;
    ah_speaker_close(c.speaker);
    c.speaker = NULL;
    c.options.memory_bytes = least - 1;
    CHECK_FAILS(ah_speaker_open(&c.speaker, &c.options, &err), err, AH_E_CAPACITY,
                "sampling needs at least ");
    c.options.memory_bytes = least;
    CHECK_OK(ah_speaker_open(&c.speaker, &c.options, &err), err);
    assert_true(ah_speaker_facts(c.speaker).device_bytes <= least);
    sample_close(&c);
}

/* ---- what is prepared ---- */

enum { PREPARED_MAX = 256 };

static struct {
    struct ah_device_driver driver; /* the CPU device's, which notes ops */
    struct ah_op ops[PREPARED_MAX];
    size_t n, submitted;
} watched;

/* True if the device has the same code for both: they differ in places and in attention's `past` only. */
static bool same_code(const struct ah_op *a, const struct ah_op *b)
{
    struct ah_op other = *b;
    if (a->kind == AH_OP_ATTENTION && b->kind == AH_OP_ATTENTION)
        other.u.attention.past = a->u.attention.past;
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        if (a->arg[i].arena != b->arg[i].arena || a->arg[i].dtype != b->arg[i].dtype ||
            a->arg[i].row_stride != b->arg[i].row_stride)
            return false;
    return a->kind == b->kind && !memcmp(&a->u, &other.u, sizeof a->u);
}

static int note_prepared(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(watched.n < PREPARED_MAX);
        watched.ops[watched.n++] = ops[i];
    }
    return ah_device_cpu()->prepare(device, ops, n, err);
}

static int expect_prepared(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                           struct ah_error *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        if (submissions[i].lane != AH_LANE_COMPUTE)
            continue;
        while (k < watched.n && !same_code(&watched.ops[k], submissions[i].op))
            k++;
        if (k == watched.n)
            fail_msg("op '%s' was not prepared", ah_op_name(submissions[i].op->kind));
        watched.submitted++;
    }
    return ah_device_cpu()->submit(device, submissions, n, err);
}

static int open_watched(struct ah_device **ret_device, const struct ah_device_options *options,
                        struct ah_error *err)
{
    const int rc = ah_device_cpu()->open(ret_device, options, err);
    if (!rc)
        (*ret_device)->driver = &watched.driver;
    return rc;
}

/* A GPU loads the code of an op that was not prepared while other ops may wait for the host. */
TEST(speaker, prepares_every_op_that_computes)
{
    static const char *const names[] = {"llama", "gpt2", "gpt2-lora", "qwen3-lora"};
    static const size_t parts[] = {7, 1, 0};
    float logits[SAMPLE_VOCABULARY_MAX];
    watched.driver = *ah_device_cpu();
    watched.driver.open = open_watched;
    watched.driver.prepare = note_prepared;
    watched.driver.submit = expect_prepared;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sample_case c;
        watched.n = watched.submitted = 0;
        sample_open(
            &c, names[i],
            &(struct ah_speaker_options){.driver = &watched.driver, .dtype = AH_BF16, .positions = 16});
        sample_feed(&c, parts, logits);
        assert_true(watched.submitted > 40);
        sample_close(&c);
    }
}
