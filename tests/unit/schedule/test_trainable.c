/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which tensors are selected by the patterns of a training. The last matching pattern decides.
 */
#include "runtime/schedule/trainable.h"
#include "tests/property/schedule/jobs.h"

TEST(trainable, glob_matches_whole_names)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"*", "head.norm.weight", true},
        {"*", "", true},
        {"", "", true},
        {"", "a", false},
        {"head.norm.weight", "head.norm.weight", true},
        {"head.norm", "head.norm.weight", false},
        {"head.*", "head.norm.weight", true},
        {"*.weight", "head.norm.weight", true},
        {"*norm*", "layer.1.mlp_norm.bias", true},
        {"layer.?.mlp.*", "layer.7.mlp.up.weight", true},
        {"layer.?.mlp.*", "layer.17.mlp.up.weight", false},
        {"*a*b", "aXaXb", true},
        {"*ab*ab", "abab", true},
        {"*aab", "aaab", true},
        {"a**b", "ab", true},
        {"*?", "", false},
        {"[a]", "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (ah_trainable_glob(cases[i].pattern, cases[i].name) != cases[i].matches)
            fail_msg("'%s' against '%s'", cases[i].pattern, cases[i].name);
}

static int match(struct test_job *j, const char *const *patterns, size_t n, uint32_t *trained,
                 struct ah_error *err)
{
    return ah_trainable_match(j->document.body.model, patterns, n, trained, err);
}

/* The tensors of llama are 0 attention_norm, 1 qkv, 2 output, 3 mlp_norm, 4 gate, 5 up, 6 down. */
TEST(trainable, last_match_counts)
{
    static const char *const patterns[] = {"*", "!layer.*", "layer.3.*", "!layer.*.mlp.up.weight",
                                           "layer.11.mlp*.weight"};
    struct test_job j;
    struct ah_error err = {0};
    uint32_t trained[34];
    test_job_model(&j, "llama-2-7b");
    CHECK_OK(match(&j, patterns, 5, trained, &err), err);
    for (size_t block = 0; block < 34; block++) {
        uint32_t expected = block == 0    ? 1
                            : block == 33 ? 3
                            : block == 4  ? 0x7f & ~(1u << 5)
                            : block == 12 ? 0x78
                                          : 0;
        assert_int_equal(trained[block], expected);
    }
    test_job_close(&j);
}

TEST(trainable, names_patterns_that_match_nothing)
{
    static const char *const wrong[] = {"layer.32.*",         "!layer.99999999999999999999.mlp*",
                                        "blocks.0.*",         "!nothing",
                                        "layer.007.*",        "layer.1.mlp.up.bias",
                                        "layer.4294967297.*", ""};
    struct test_job j;
    uint32_t trained[34];
    test_job_model(&j, "llama-2-7b");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *patterns[] = {"*", wrong[i]};
        struct ah_error err = {0};
        char quoted[64];
        snprintf(quoted, sizeof quoted, "pattern '%s'", wrong[i]);
        CHECK_FAILS(match(&j, patterns, 2, trained, &err), err, AH_E_USAGE, quoted);
    }
    test_job_close(&j);
}

TEST(trainable, refuses_to_train_nothing)
{
    static const char *const excludes[] = {"*", "!*"};
    struct test_job j;
    struct ah_error err = {0};
    uint32_t trained[34];
    test_job_model(&j, "llama-2-7b");
    CHECK_FAILS(match(&j, excludes, 2, trained, &err), err, AH_E_USAGE, "no tensor is trained");
    CHECK_FAILS(match(&j, NULL, 0, trained, &err), err, AH_E_USAGE, "no tensor is trained");
    test_job_close(&j);
}
