/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which caps, offsets, scales and kinds of activations ops accept.
 */
#include "runtime/device/op.h"
#include "tests/support/check.h"

#include <math.h>

static const struct ah_ref there = {AH_ARENA_DEVICE, AH_FP32, 0, 0};

static int operands_of(const struct ah_op *op, struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS];
    *err = (struct ah_error){0};
    return ah_op_operands(op, operands, err);
}

TEST(op_settings, an_offset_of_gains_is_finite)
{
    struct ah_error err;
    struct ah_op op = {.kind = AH_OP_NORM,
                       .arg = {there, there, there, {0}, there},
                       .u.norm = {.rows = 3, .width = 5, .kind = AH_NORM_RMS, .gain_offset = 1}};
    CHECK_OK(operands_of(&op, &err), err);
    op.u.norm.gain_offset = -2;
    CHECK_OK(operands_of(&op, &err), err);
    op.u.norm.gain_offset = NAN;
    CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "gain_offset is not finite");
    op.u.norm.gain_offset = INFINITY;
    CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "gain_offset is not finite");
}

TEST(op_settings, a_cap_of_logits_has_a_reciprocal)
{
    static const float good[] = {0, 30, 1e-30f, 1e30f}, bad[] = {-1, NAN, INFINITY, -INFINITY, 1e-40f};
    struct ah_error err;
    struct ah_op op = {.kind = AH_OP_CROSS_ENTROPY,
                       .arg = {there, there, there, {0}, there},
                       .u.cross_entropy = {.rows = 3, .vocabulary = 11}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        op.u.cross_entropy.soft_cap = good[i];
        CHECK_OK(operands_of(&op, &err), err);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        op.u.cross_entropy.soft_cap = bad[i];
        CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "soft_cap is neither 0 nor");
    }
}

TEST(op_settings, embeddings_scale_but_gather_copies)
{
    static const float bad[] = {-1, NAN, INFINITY};
    struct ah_error err;
    struct ah_op op = {.kind = AH_OP_EMBED,
                       .arg = {there, there, {0}, there},
                       .u.embed = {.rows = 3, .width = 5, .vocabulary = 11, .scale = 45.25f}};
    CHECK_OK(operands_of(&op, &err), err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        op.u.embed.scale = bad[i];
        CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "scale is negative or not finite");
    }
    op = (struct ah_op){.kind = AH_OP_GATHER,
                        .arg = {there, there, there},
                        .u.embed = {.rows = 3, .width = 5, .vocabulary = 11}};
    CHECK_OK(operands_of(&op, &err), err);
    op.u.embed.scale = 2;
    CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "gather does not scale");
}

TEST(op_settings, gated_activations_have_a_second_input)
{
    static const bool gated[] = {[AH_ACTIVATION_GELU_TANH] = false,
                                 [AH_ACTIVATION_GELU] = false,
                                 [AH_ACTIVATION_SILU_GATED] = true,
                                 [AH_ACTIVATION_GELU_TANH_GATED] = true};
    struct ah_error err;
    for (uint32_t kind = 0; kind < sizeof gated / sizeof *gated; kind++) {
        struct ah_op op = {.kind = AH_OP_ACTIVATION,
                           .arg = {there, there, gated[kind] ? there : (struct ah_ref){0}},
                           .u.rows = {.rows = 3, .width = 5, .kind = kind}};
        assert_true(ah_op_is_gated(kind) == gated[kind]);
        CHECK_OK(operands_of(&op, &err), err);
        op.arg[2] = gated[kind] ? (struct ah_ref){0} : there;
        CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "'up'");
        op.arg[2] = there;
        op.u.rows.kind = AH_ACTIVATION_GELU_TANH_GATED + 1;
        CHECK_FAILS(operands_of(&op, &err), err, AH_E_USAGE, "activation is unknown");
    }
}
