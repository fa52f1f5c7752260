/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the verdict on overlaps of two operands, with gaps between rows, with bytes marked one by one.
 *
 * The verdict is exact if strides are equal or one operand is a single row. If strides are unequal, gaps between rows
 * count as used. So an overlap may be reported where there is none, but none is missed.
 */
#include "runtime/device/op.h"

#include "tests/support/check.h"

#include <string.h>

enum { ROUNDS = 200000, ROOM = 512 };

static uint64_t below(uint64_t *random, uint64_t limit)
{
    return check_random(random) % limit;
}

/* Marks the operand's bytes. Returns true if one of them was marked before. */
static bool mark(unsigned char marks[ROOM], const struct ah_ref *ref, uint64_t rows, uint64_t count)
{
    const uint64_t each = ref->dtype == AH_BF16 ? 2 : 4;
    const uint64_t stride = ref->row_stride ? ref->row_stride : count;
    bool met = false;
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t i = 0; i < count * each; i++) {
            unsigned char *at = &marks[ref->offset_bytes + row * stride * each + i];
            met |= *at;
            *at = 1;
        }
    return met;
}

static struct ah_ref random_ref(uint64_t *random, enum ah_dtype dtype, uint64_t count)
{
    struct ah_ref ref = {AH_ARENA_DEVICE, dtype, 4 * below(random, 40), 0};
    if (below(random, 4))
        ref.row_stride = count + below(random, 7);
    return ref;
}

TEST(op, judges_overlap_by_rows)
{
    static const uint64_t arenas[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ROOM};
    uint64_t random = check_seed(17);
    unsigned exact[2] = {0}, interleaved = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct ah_error err = {0};
        unsigned char marks[ROOM] = {0};
        struct ah_op op = {.kind = AH_OP_ACCUMULATE};
        struct ah_operand operands[AH_OP_ARGS];
        uint64_t rows = op.u.elements.rows = 1 + below(&random, 5);
        uint64_t count = op.u.elements.count = 1 + below(&random, 4);
        op.arg[0] = random_ref(&random, AH_FP32, count);
        op.arg[1] = random_ref(&random, (enum ah_dtype)below(&random, 2), count);
        if (below(&random, 2)) { /* both operands are parts of one matrix */
            op.arg[0].row_stride = op.arg[1].row_stride = count + below(&random, 9);
            op.arg[1].row_stride *= op.arg[1].dtype == AH_BF16 ? 2 : 1;
        }
        CHECK_OK(ah_op_operands(&op, operands, &err), err);
        bool taken = ah_op_check(&op, arenas, &err) == AH_OK;
        mark(marks, &op.arg[0], rows, count);
        bool meet = mark(marks, &op.arg[1], rows, count);
        bool judged = operands[0].stride_bytes == operands[1].stride_bytes || rows == 1;
        if (taken == meet && (meet || judged))
            fail_msg("round %d: %llu rows of %llu at %llu and %llu, strides %llu and %llu: %s", round,
                     (unsigned long long)rows, (unsigned long long)count,
                     (unsigned long long)op.arg[0].offset_bytes, (unsigned long long)op.arg[1].offset_bytes,
                     (unsigned long long)operands[0].stride_bytes,
                     (unsigned long long)operands[1].stride_bytes, taken ? "taken" : "refused");
        exact[meet] += judged;
        interleaved += taken && rows > 1 &&
                       op.arg[0].offset_bytes < op.arg[1].offset_bytes + operands[1].bytes &&
                       op.arg[1].offset_bytes < op.arg[0].offset_bytes + operands[0].bytes;
    }
    assert_true(exact[false] > ROUNDS / 10 && exact[true] > ROUNDS / 10 && interleaved > ROUNDS / 100);
}
