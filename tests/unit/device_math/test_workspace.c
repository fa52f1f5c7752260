/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a workspace is exactly as large as all threads together need for the prepared ops.
 */
#include "runtime/device/math/workspace.h"

#include "tests/support/check.h"

static struct ah_op attention(enum ah_op_kind kind, uint32_t seq, uint32_t head_dim)
{
    struct ah_op op = {.kind = kind};
    op.u.attention = (struct ah_op_attention){
        .batch = 1, .seq = seq, .heads = 2, .kv_heads = 1, .head_dim = head_dim, .scale = 1};
    return op;
}

TEST(workspace, is_for_attention_only)
{
    const struct ah_workspace workspace = {.threads = 4};
    for (enum ah_op_kind kind = 0; kind < AH_OP_KINDS; kind++) {
        const struct ah_op op = attention(kind, 40, 8);
        const bool needs = kind == AH_OP_ATTENTION || kind == AH_OP_ATTENTION_BACKWARD;
        assert_int_equal(ah_workspace_bytes(&op) > 0, needs);
        assert_int_equal(ah_workspace_holds(&workspace, &op), !needs);
    }
}

/* Scores are never stored. So forward needs equal room for any sequence, and backward needs room for dk and dv. */
TEST(workspace, grows_with_the_sequence_no_faster_than_a_head)
{
    const struct ah_op shorter = attention(AH_OP_ATTENTION, 1000, 64),
                       longer = attention(AH_OP_ATTENTION, 32000, 64);
    const struct ah_op some = attention(AH_OP_ATTENTION_BACKWARD, 1024, 64);
    const struct ah_op twice = attention(AH_OP_ATTENTION_BACKWARD, 2048, 64);
    assert_int_equal(ah_workspace_bytes(&shorter), ah_workspace_bytes(&longer));
    assert_int_equal(ah_workspace_bytes(&twice) - ah_workspace_bytes(&some), 2 * 1024 * 64 * sizeof(float));
}

TEST(workspace, holds_all_that_was_prepared)
{
    struct ah_error err = {0};
    struct ah_workspace workspace = {.threads = 3};
    const struct ah_op ops[] = {attention(AH_OP_ATTENTION, 100, 16),
                                attention(AH_OP_ATTENTION_BACKWARD, 900, 16),
                                attention(AH_OP_ATTENTION_BACKWARD, 100, 16)};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ah_workspace_holds(&workspace, &ops[i]), i == 2);
        CHECK_OK(ah_workspace_prepare(&workspace, &ops[i], &err), err);
        assert_int_equal(workspace.region.bytes, 3 * ah_workspace_bytes(&ops[i < 2 ? i : 1]));
        for (size_t before = 0; before <= i; before++)
            assert_true(ah_workspace_holds(&workspace, &ops[before]));
    }
    /* Room for three threads is too small for four. */
    workspace.threads = 4;
    assert_false(ah_workspace_holds(&workspace, &ops[1]));
    ah_workspace_release(&workspace);
    ah_workspace_release(&workspace);
}

TEST(workspace, refuses_what_no_memory_holds)
{
    struct ah_error err = {0};
    struct ah_workspace workspace = {.threads = 1};
    const struct ah_op op = attention(AH_OP_ATTENTION_BACKWARD, UINT32_MAX, UINT32_MAX);
    assert_false(ah_workspace_holds(&workspace, &op));
    CHECK_FAILS(ah_workspace_prepare(&workspace, &op, &err), err, AH_E_CAPACITY, "'attention_backward'");
    assert_null(workspace.region.data);
}
