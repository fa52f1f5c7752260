/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares rope with rotations in double. Elements half of what turns apart rotate together, by the angle of the row's
 * position. The inverse rotates them back. The other elements of a head stay.
 */
#include "tests/device/device_math/op_case.h"

#include <math.h>

enum { ROUNDS = 300, POSITIONS = 50 };

static struct ah_op random_rope(uint64_t *random)
{
    struct ah_op op = {.kind = AH_OP_ROPE};
    struct ah_op_rope *rope = &op.u.rope;
    rope->rows = op_case_size(random, 100);
    rope->heads = 1 + (uint32_t)op_case_below(random, 5);
    rope->head_dim = 2 * (uint32_t)op_case_size(random, op_case_below(random, 20) ? 80 : 700);
    if (op_case_below(random, 2))
        rope->rotated = 2 + 2 * (uint32_t)op_case_below(random, rope->head_dim / 2);
    rope->table_rows = 1 + (uint32_t)op_case_below(random, POSITIONS);
    rope->inverse = op_case_below(random, 2);
    op.arg[0] = op_case_ref(random, (uint64_t)rope->heads * rope->head_dim);
    op.arg[1] = op_case_fp32();
    if (op_case_below(random, 2))
        op.arg[2] = op_case_fp32();
    else
        rope->seq = 1 + (uint32_t)op_case_below(random, rope->table_rows);
    return op;
}

static void check_row(const struct op_case *c, uint64_t row)
{
    const struct ah_op_rope *rope = &c->op.u.rope;
    const uint64_t half = (rope->rotated ? rope->rotated : rope->head_dim) / 2;
    const uint64_t position = rope->seq ? row % rope->seq : op_case_word(c, 2, row);
    for (uint64_t head = 0; head < rope->heads; head++) {
        for (uint64_t p = 0; p < half; p++) {
            const uint64_t at = head * rope->head_dim + p;
            const double cosine = op_case_input(c, 1, position, 2 * p);
            const double sine = (rope->inverse ? -1 : 1) * op_case_input(c, 1, position, 2 * p + 1);
            const double x = op_case_input(c, 0, row, at), y = op_case_input(c, 0, row, at + half);
            op_case_check(c, 0, row, at, x * cosine - y * sine, 5e-7);
            op_case_check(c, 0, row, at + half, y * cosine + x * sine, 5e-7);
        }
        for (uint64_t i = head * rope->head_dim + 2 * half; i < (head + 1) * rope->head_dim; i++)
            op_case_check(c, 0, row, i, op_case_input(c, 0, row, i), 0);
    }
}

TEST(rope, turns_every_head)
{
    uint64_t random = check_seed(31);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        const struct ah_op op = random_rope(&random);
        op_case_init(&c, &op, &random);
        c.width[0] = (uint64_t)op.u.rope.heads * op.u.rope.head_dim;
        c.width[1] = op.u.rope.head_dim;
        op_case_fill(&c, 0, -2, 2);
        op_case_fill(&c, 1, -1, 1);
        op_case_fill_words(&c, 2, op.u.rope.table_rows);
        op_case_run(&c);
        for (uint64_t row = 0; row < op.u.rope.rows; row++)
            check_row(&c, row);
        op_case_release(&c);
    }
}

/* If cosine and sine are those of real angles, the inverse of forward gives x, and lengths do not change. */
TEST(rope, inverse_turns_back)
{
    enum { ROWS = 7, HEADS = 2, DIM = 36 };
    uint64_t random = check_seed(32);
    struct op_case c, back;
    struct ah_op op = {
        .kind = AH_OP_ROPE,
        .u.rope = {.rows = ROWS, .heads = HEADS, .head_dim = DIM, .table_rows = ROWS, .seq = ROWS}};
    op.arg[0] = op.arg[1] = op_case_fp32();
    op_case_init(&c, &op, &random);
    c.width[0] = HEADS * DIM;
    c.width[1] = DIM;
    op_case_fill(&c, 0, -2, 2);
    for (uint64_t row = 0; row < ROWS; row++)
        for (uint64_t p = 0; p < DIM / 2; p++) {
            const double angle = (double)row * pow(10000, -2.0 * (double)p / DIM);
            op_case_set(&c, 1, row, 2 * p, cos(angle));
            op_case_set(&c, 1, row, 2 * p + 1, sin(angle));
        }
    op_case_run(&c);
    op.u.rope.inverse = true;
    op_case_init(&back, &op, &random);
    back.width[0] = HEADS * DIM;
    back.width[1] = DIM;
    for (uint64_t row = 0; row < ROWS; row++) {
        for (uint64_t i = 0; i < HEADS * DIM; i++)
            op_case_set(&back, 0, row, i, op_case_result(&c, 0, row, i));
        for (uint64_t i = 0; i < DIM; i++)
            op_case_set(&back, 1, row, i, op_case_input(&c, 1, row, i));
    }
    op_case_run(&back);
    for (uint64_t row = 0; row < ROWS; row++)
        for (uint64_t i = 0; i < HEADS * DIM; i++)
            op_case_check(&back, 0, row, i, op_case_input(&c, 0, row, i), 1e-6);
    op_case_release(&c);
    op_case_release(&back);
}
