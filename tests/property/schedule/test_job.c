/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares trained sets with fnmatch(3), and groups with pairwise comparison. Tests ten thousand different blocks.
 */
#include "tests/property/schedule/jobs.h"

#include <fnmatch.h>
#include <stdlib.h>

enum { PATTERNS = 9, ROUNDS = 400 };

/* Returns a name with some of its characters replaced by wildcards. */
static const char *random_pattern(const struct ah_model *model, uint64_t *random, char text[128])
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    struct ah_job job = {.model = model};
    uint64_t block = check_random(random) % ah_model_blocks(model);
    size_t n = ah_model_tensors(model, ah_model_block_kind(model, block), tensors), at = 0;
    char name[96];
    ah_job_tensor_name(&job, block, tensors[check_random(random) % n].name, name, sizeof name);
    if (check_random(random) % 3 == 0)
        text[at++] = '!';
    for (size_t i = 0; name[i]; i++) {
        uint64_t roll = check_random(random) % 24;
        text[at++] = roll == 0 ? '*' : roll == 1 ? '?' : name[i];
        if (roll == 0)
            i += check_random(random) % 12 < strlen(name) - i ? check_random(random) % (strlen(name) - i) : 0;
    }
    text[at] = '\0';
    return text;
}

/* Returns the trained tensors of a block by definition: the last pattern matching a name decides. */
static uint32_t expected_trained(const struct ah_job *job, size_t block, const char **patterns, size_t n)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    uint32_t trained = 0;
    size_t count = ah_model_tensors(job->model, ah_model_block_kind(job->model, block), tensors);
    for (size_t t = 0; t < count; t++) {
        char name[96];
        ah_job_tensor_name(job, block, tensors[t].name, name, sizeof name);
        for (size_t i = n; i-- > 0;) {
            bool excludes = patterns[i][0] == '!';
            if (fnmatch(patterns[i] + excludes, name, FNM_NOESCAPE) != 0)
                continue;
            trained |= (uint32_t)!excludes << t;
            break;
        }
    }
    return trained;
}

static void check_groups(const struct ah_job *job, const char **patterns, size_t n)
{
    size_t lowest = 0;
    while (!expected_trained(job, lowest, patterns, n))
        lowest++;
    assert_int_equal(job->lowest, lowest);
    uint64_t blocks = 0;
    for (size_t block = 0; block < job->n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(job, block);
        assert_int_equal(group->trained, expected_trained(job, block, patterns, n));
        assert_int_equal(group->kind, ah_model_block_kind(job->model, block));
        assert_int_equal(group->backward, block >= lowest);
        assert_int_equal(group->input_gradient, block > lowest);
        assert_int_equal(group->parameters, ah_model_block_parameters(job->model, group->kind));
        assert_true(group->trained_parameters <= group->parameters &&
                    group->trained_elements <= group->flat_elements);
    }
    for (size_t g = 0; g < job->n_groups; g++) {
        blocks += job->groups[g].blocks;
        assert_int_equal(job->group_of[job->groups[g].first], g);
        for (size_t h = 0; h < g; h++) {
            assert_true(job->groups[h].first < job->groups[g].first);
            assert_string_not_equal(job->groups[g].name, job->groups[h].name);
            assert_false(job->groups[g].kind == job->groups[h].kind &&
                         job->groups[g].trained == job->groups[h].trained &&
                         job->groups[g].ways.windowed == job->groups[h].ways.windowed &&
                         job->groups[g].ways.unrotated == job->groups[h].ways.unrotated &&
                         job->groups[g].backward == job->groups[h].backward &&
                         job->groups[g].input_gradient == job->groups[h].input_gradient);
        }
    }
    assert_int_equal(blocks, job->n_blocks);
}

/* True if every pattern matches something and something is trained. */
static bool is_usable(const struct ah_model *model, const char **patterns, size_t n)
{
    struct ah_job job = {.model = model};
    bool trains = false, matches[PATTERNS] = {false};
    for (size_t block = 0; block < ah_model_blocks(model); block++) {
        struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
        size_t count = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
        trains |= expected_trained(&job, block, patterns, n) != 0;
        for (size_t t = 0; t < count; t++) {
            char name[96];
            ah_job_tensor_name(&job, block, tensors[t].name, name, sizeof name);
            for (size_t i = 0; i < n; i++)
                matches[i] |= fnmatch(patterns[i] + (patterns[i][0] == '!'), name, FNM_NOESCAPE) == 0;
        }
    }
    for (size_t i = 0; i < n; i++)
        trains &= matches[i];
    return trains;
}

TEST(job, trains_what_patterns_choose)
{
    uint64_t random = check_seed(99), accepted = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        char texts[PATTERNS][128];
        const char *patterns[PATTERNS];
        size_t n = 1 + check_random(&random) % PATTERNS;
        uint64_t windows[] = {1, 3, 4};
        struct test_job j;
        struct ah_error err = {0};
        test_job_model(&j, round % 2 ? "tiny" : "gpt2-124m");
        struct ah_model *model = j.document.body.model;
        model->window = round % 3 ? 8 : 0;
        model->window_layers = windows;
        model->n_window_layers = 3;
        for (size_t i = 0; i < n; i++)
            patterns[i] = i == 0 && round % 5 ? "*" : random_pattern(model, &random, texts[i]);
        struct ah_plan_training training = {
            .batch = 1, .micro_batches = 1, .seq = 16, .trainable = patterns, .n_trainable = n};
        int rc = ah_job_init(&j.job, model, &training, &j.arena, &err);
        accepted += !rc;
        assert_int_equal(rc, is_usable(model, patterns, n) ? AH_OK : AH_E_USAGE);
        if (!rc)
            check_groups(&j.job, patterns, n);
        test_job_close(&j);
    }
    assert_true(accepted > ROUNDS / 2);
}

/* A thousand patterns each name one layer. */
TEST(job, takes_ten_thousand_blocks)
{
    enum { LAYERS = 10000, MANY = 1000 };
    static char texts[MANY][64];
    static const char *patterns[MANY + 1];
    static const char *const tensors[] = {"mlp.up.weight", "mlp.down.weight", "mlp_norm.weight",
                                          "attention.qkv.weight"};
    struct test_job j;
    test_job_model(&j, "tiny");
    j.document.body.model->layers = LAYERS;
    patterns[0] = "*";
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "!layer.%zu.%s", i * 7 % 9973, tensors[i % 4]);
        patterns[i + 1] = texts[i];
    }
    test_job_start(
        &j, (struct ah_plan_training){
                .batch = 1, .micro_batches = 1, .seq = 16, .trainable = patterns, .n_trainable = MANY + 1});
    assert_int_equal(j.job.n_blocks, LAYERS + 2);
    assert_int_equal(j.job.n_groups, 7);
    uint64_t partial = 0;
    for (size_t g = 0; g < j.job.n_groups; g++)
        partial += !strncmp(j.job.groups[g].name, "layer.partial", 13) ? j.job.groups[g].blocks : 0;
    assert_int_equal(partial, MANY);
    test_job_close(&j);
}
