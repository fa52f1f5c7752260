/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that written names of blocks and tensors can be read, and that other names are refused.
 */
#include "runtime/schedule/schedule_internal.h"
#include "tests/support/check.h"

enum { BLOCKS = 5 };
static const struct ah_name_blocks of_all = {.of_model = BLOCKS};

TEST(names, are_read_as_they_are_written)
{
    for (uint8_t label = 0; label < AH_TENSOR_LABELS; label++) {
        for (uint32_t block = 0; block < BLOCKS; block++) {
            bool whole = label == AH_TENSOR_STATE_RING || label == AH_TENSOR_TOKENS;
            const struct ah_layout_tensor tensor = {.to = 7};
            const struct ah_tensor_name name = {label, whole ? 0 : block, 7};
            struct ah_tensor_name read;
            uint64_t number;
            char text[AH_NAME_MAX];
            ah_name_tensor(of_all, &tensor, name, text);
            assert_true(ah_name_read(of_all, text, &read, &number));
            assert_int_equal(read.label, label);
            assert_int_equal(read.block, name.block);
            assert_int_equal(number, whole ? 0 : 7);
        }
    }
}

/* The names are those in part of a model. Its block 0 is the model's block 2. */
TEST(names, are_those_of_the_model)
{
    const struct ah_name_blocks blocks = {.of_model = BLOCKS, .first = 2};
    struct ah_tensor_name read;
    uint64_t number;
    char text[AH_NAME_MAX];
    ah_name_block(blocks, 0, text);
    assert_string_equal(text, "layer.1");
    ah_name_block(blocks, 2, text);
    assert_string_equal(text, "head");
    assert_true(ah_name_read(blocks, "head.saved.3", &read, &number));
    assert_int_equal(read.block, 2);
    assert_int_equal(number, 3);
    assert_true(ah_name_read(blocks, "tokens", &read, &number));
    assert_int_equal(read.block, 0);
    assert_false(ah_name_read(blocks, "layer.0.weights", &read, &number));
    assert_false(ah_name_read(blocks, "embedding.weights", &read, &number));
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

TEST(names, others_are_not_read)
{
    static const char *const texts[] = {
        "",        ".",           "layer",           "layer.",
        "layer.3", "layer.3.",    "layer.3.weights", "layer.9999999999999999999.saved.0",
        "weights", "head.tokens", "head.weight",     "layer.x.weights",
        "head",    "embedding.",  "state_rings",     "layer.0weights"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ah_tensor_name name;
        uint64_t number;
        assert_false(ah_name_read(of_all, texts[i], &name, &number));
    }
}
