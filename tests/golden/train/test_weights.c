/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests weights that pass through a trainer. A file of each family is loaded to wherever a plan keeps weights and
 * masters. Saving gives the same bytes, even for bf16 trained from fp32, since masters are saved.
 */
#include "tests/golden/train/case.h"

#include <unistd.h>

static struct golden golden;

static void read_model(const char *folder, struct ah_buffer *ret_bytes)
{
    struct ah_error err = {0};
    char path[2 * GOLDEN_PATH_MAX];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    CHECK_OK(ah_file_read(path, 1 << 24, ret_bytes, &err), err);
}

static void expect_same_file(struct golden *g, struct ah_trainer *trainer, enum ah_dtype dtype)
{
    char folder[] = "/tmp/autohete-weights-XXXXXX", path[2 * GOLDEN_PATH_MAX];
    const struct ah_weights_source source = {ah_trainer_give, trainer};
    struct ah_buffer saved = {0}, expected = {0};
    struct ah_error err = {0};
    assert_non_null(mkdtemp(folder));
    CHECK_OK(ah_weights_save(g->options.model, &source, &(struct ah_weights_options){.dtype = dtype}, folder,
                             &err),
             err);
    read_model(folder, &saved);
    read_model(g->folder, &expected);
    assert_int_equal(saved.size, expected.size);
    assert_memory_equal(saved.data, expected.data, expected.size);
    ah_buffer_release(&saved);
    ah_buffer_release(&expected);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

TEST(weights, come_back_through_any_plan)
{
    static const struct {
        const char *name;
        enum ah_dtype file, dtype;
    } cases[] = {{"gpt2", AH_FP32, AH_FP32},  {"gpt2-untied-odd", AH_FP32, AH_BF16},
                 {"llama", AH_FP32, AH_BF16}, {"mistral-window", AH_FP32, AH_FP32},
                 {"qwen2", AH_BF16, AH_BF16}, {"qwen2-frozen-tensors", AH_FP32, AH_FP32},
                 {"qwen3", AH_FP32, AH_FP32}, {"qwen3-layer-types", AH_BF16, AH_FP32}};
    uint64_t seed = check_seed(31);
    struct ah_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden_open(&golden, cases[i].name, cases[i].dtype);
        for (int plan = 0; plan < 6; plan++) {
            struct ah_trainer *trainer;
            golden_plan_random(&golden, &seed);
            CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
            expect_same_file(&golden, trainer, cases[i].file);
            ah_trainer_close(trainer);
        }
        golden_close(&golden);
    }
}
