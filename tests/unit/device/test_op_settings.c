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
