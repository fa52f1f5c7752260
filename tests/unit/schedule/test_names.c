/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the names of blocks and tensors.
 */
#include "runtime/schedule/schedule_internal.h"
#include "tests/support/check.h"

enum { BLOCKS = 5 };

/* The names are those in part of a model. Its block 0 is the model's block 2. */
TEST(names, are_those_of_the_model)
{
    const struct ah_name_blocks blocks = {.of_model = BLOCKS, .first = 2};
    char text[AH_NAME_MAX];
    ah_name_block(blocks, 0, text);
    assert_string_equal(text, "layer.1");
    ah_name_block(blocks, 2, text);
    assert_string_equal(text, "head");
}

TEST(names, tensors_are_named_after_their_blocks)
{
    struct ah_plan_tensor tensors[] = {{.label = AH_TENSOR_WEIGHTS, .block = 2},
                                       {.label = AH_TENSOR_SAVED, .block = 0, .micro_batch = 3},
                                       {.label = AH_TENSOR_TOKENS, .block = AH_PLAN_NOWHERE}};
    struct ah_plan_part part = {.first_block = 2, .blocks = 3};
    const struct ah_plan plan = {.model = {.layers = BLOCKS - 2},
                                 .part = &part,
                                 .n_blocks = 3,
                                 .arena = {.tensors = tensors, .n_tensors = 3}};
    static const char *const names[] = {"head.weights", "layer.1.saved.3", "tokens"};
    for (size_t i = 0; i < 3; i++) {
        char text[AH_NAME_MAX];
        ah_name_tensor(&plan, i, text);
        assert_string_equal(text, names[i]);
    }
}

/* A range is written with the numbers of layers; embedding and head are named separately. */
TEST(names, ranges_count_layers)
{
    static const struct {
        struct ah_name_blocks blocks;
        size_t first, end;
        const char *text;
    } ranges[] = {
        {{BLOCKS, 0}, 0, BLOCKS, "embedding, layer.0-2, head"},
        {{BLOCKS, 0}, 0, 1, "embedding"},
        {{BLOCKS, 0}, 0, 2, "embedding, layer.0"},
        {{BLOCKS, 0}, 1, 3, "layer.0-1"},
        {{BLOCKS, 0}, 3, 4, "layer.2"},
        {{BLOCKS, 0}, 2, BLOCKS, "layer.1-2, head"},
        {{BLOCKS, 0}, 4, BLOCKS, "head"},
        {{BLOCKS, 2}, 0, 3, "layer.1-2, head"},
        {{BLOCKS, 2}, 1, 2, "layer.2"},
        {{2, 0}, 0, 2, "embedding, head"},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct ah_buffer text = {0};
        ah_name_range(ranges[i].blocks, ranges[i].first, ranges[i].end, &text);
        assert_string_equal(text.data, ranges[i].text);
        ah_buffer_release(&text);
    }
}
