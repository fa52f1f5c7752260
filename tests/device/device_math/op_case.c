/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of one op (op_case.h): operands with random bytes, runs in every way, comparison of results.
 */
#include "tests/device/device_math/op_case.h"

#include "base/bf16.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { APART = 64 };

uint64_t op_case_below(uint64_t *random, uint64_t limit)
{
    return check_random(random) % limit;
}

uint64_t op_case_size(uint64_t *random, uint64_t limit)
{
    const uint64_t eights = limit / 8;
    switch (op_case_below(random, 6)) {
    case 0:
        return 1;
    case 1:
        return 1 + op_case_below(random, limit < 20 ? limit : 20);
    case 2:
    case 3:
        return eights ? 8 * (1 + op_case_below(random, eights)) : limit;
    default:
        return 1 + op_case_below(random, limit);
    }
}

struct ah_ref op_case_dense(uint64_t *random)
{
    return (struct ah_ref){AH_ARENA_DEVICE, op_case_below(random, 2) ? AH_BF16 : AH_FP32, 0, 0};
}

struct ah_ref op_case_ref(uint64_t *random, uint64_t width)
{
    struct ah_ref ref = op_case_dense(random);
    switch (op_case_below(random, 4)) {
    case 0:
        ref.row_stride = width + op_case_below(random, 40);
        break;
    case 1:
        ref.row_stride = (width + 7) / 8 * 8 + 8 * op_case_below(random, 5);
        break;
    default:
        break;
    }
    return ref;
}

struct ah_ref op_case_fp32(void)
{
    return (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, 0, 0};
}

void op_case_init(struct op_case *ret_case, const struct ah_op *op, uint64_t *random)
{
    struct ah_error err = {0};
    uint64_t arena_bytes[AH_ARENA_KINDS] = {0};
    *ret_case = (struct op_case){.op = *op, .random = random};
    const uint64_t apart = op_case_below(random, 2) ? APART : 0;
    CHECK_OK(ah_op_operands(op, ret_case->operands, &err), err);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        const struct ah_operand *operand = &ret_case->operands[i];
        if (operand->role == AH_ROLE_NONE)
            continue;
        const uint64_t align = apart ? apart : operand->align_bytes;
        ret_case->bytes += align * op_case_below(random, 40);
        ret_case->bytes = (ret_case->bytes + align - 1) / align * align;
        ret_case->op.arg[i].offset_bytes = ret_case->bytes;
        ret_case->bytes += operand->bytes;
    }
    arena_bytes[AH_ARENA_DEVICE] = ret_case->bytes;
    CHECK_OK(ah_op_check(&ret_case->op, arena_bytes, &err), err);
    ret_case->memory = malloc(ret_case->bytes);
    ret_case->results = malloc(ret_case->bytes);
    for (uint64_t i = 0; i < ret_case->bytes; i++)
        ret_case->memory[i] = (unsigned char)check_random(random);
}

void op_case_release(struct op_case *c)
{
    free(c->memory);
    free(c->results);
}

static size_t element_bytes(const struct op_case *c, size_t arg)
{
    return ah_dtype_bytes((enum ah_dtype)c->op.arg[arg].dtype);
}

static uint64_t place(const struct op_case *c, size_t arg, uint64_t row, uint64_t column)
{
    const struct ah_ref *ref = &c->op.arg[arg];
    const uint64_t stride = ref->row_stride ? ref->row_stride : c->width[arg];
    return ref->offset_bytes + (row * stride + column) * element_bytes(c, arg);
}

static double value_at(const struct op_case *c, const unsigned char *memory, size_t arg, uint64_t at)
{
    uint16_t half;
    float whole;
    if (c->op.arg[arg].dtype == AH_BF16) {
        memcpy(&half, memory + at, sizeof half);
        return (double)ah_bf16_to_fp32(half);
    }
    memcpy(&whole, memory + at, sizeof whole);
    return (double)whole;
}

static void store_at(struct op_case *c, size_t arg, uint64_t at, double value)
{
    const float whole = (float)value;
    const uint16_t half = ah_bf16_from_fp32(whole);
    if (c->op.arg[arg].dtype == AH_BF16)
        memcpy(c->memory + at, &half, sizeof half);
    else
        memcpy(c->memory + at, &whole, sizeof whole);
}

/* Fills the operand, including gaps between rows, because contents of gaps must not matter. */
void op_case_fill(struct op_case *c, size_t arg, double low, double high)
{
    const struct ah_operand *operand = &c->operands[arg];
    for (uint64_t row = 0; row < operand->rows; row++)
        for (uint64_t i = 0; i < operand->row_bytes; i += element_bytes(c, arg))
            store_at(c, arg, c->op.arg[arg].offset_bytes + row * operand->stride_bytes + i,
                     low + (high - low) * check_uniform(c->random));
}

void op_case_fill_words(struct op_case *c, size_t arg, uint64_t limit)
{
    for (uint64_t i = 0; i < c->operands[arg].bytes; i += sizeof(uint32_t)) {
        const uint32_t word = (uint32_t)op_case_below(c->random, limit);
        memcpy(c->memory + c->op.arg[arg].offset_bytes + i, &word, sizeof word);
    }
}

void op_case_fill_bytes(struct op_case *c, size_t arg)
{
    for (uint64_t i = 0; i < c->operands[arg].bytes; i++)
        c->memory[c->op.arg[arg].offset_bytes + i] = (unsigned char)op_case_below(c->random, 2);
}

double op_case_input(const struct op_case *c, size_t arg, uint64_t row, uint64_t column)
{
    return value_at(c, c->memory, arg, place(c, arg, row, column));
}

double op_case_result(const struct op_case *c, size_t arg, uint64_t row, uint64_t column)
{
    return value_at(c, c->results, arg, place(c, arg, row, column));
}

uint32_t op_case_word(const struct op_case *c, size_t arg, uint64_t i)
{
    uint32_t word;
    memcpy(&word, c->memory + c->op.arg[arg].offset_bytes + i * sizeof word, sizeof word);
    return word;
}

void op_case_set(struct op_case *c, size_t arg, uint64_t row, uint64_t column, double value)
{
    store_at(c, arg, place(c, arg, row, column), value);
}

/* Checks that everything except the outputs is unchanged in `after`. */
static void check_rest(const struct op_case *c, const unsigned char *after)
{
    unsigned char *expected = malloc(c->bytes);
    memcpy(expected, c->memory, c->bytes);
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        const struct ah_operand *operand = &c->operands[arg];
        if (operand->role != AH_ROLE_OUT && operand->role != AH_ROLE_INOUT)
            continue;
        for (uint64_t row = 0; row < operand->rows; row++) {
            const uint64_t at = c->op.arg[arg].offset_bytes + row * operand->stride_bytes;
            memcpy(expected + at, after + at, operand->row_bytes);
        }
    }
    assert_memory_equal(after, expected, c->bytes);
    free(expected);
}

void op_case_run_one(struct op_case *c, unsigned way)
{
    op_case_run_way(c, way, c->results);
    check_rest(c, c->results);
}

void op_case_run(struct op_case *c)
{
    unsigned char *again = malloc(c->bytes);
    op_case_run_one(c, 0);
    for (unsigned way = 1; way < op_case_ways(); way++) {
        op_case_run_way(c, way, again);
        assert_memory_equal(again, c->results, c->bytes);
    }
    free(again);
}

void op_case_check(const struct op_case *c, size_t arg, uint64_t row, uint64_t column, double expected,
                   double tolerance)
{
    const double result = op_case_result(c, arg, row, column);
    const double rounding = c->op.arg[arg].dtype == AH_BF16 ? fabs(expected) / 256 : 0;
    if (!(fabs(result - expected) <= tolerance + rounding))
        fail_msg("%s, '%s' (%llu, %llu): %.9g, expected %.9g within %.3g", ah_op_name(c->op.kind),
                 c->operands[arg].name, (unsigned long long)row, (unsigned long long)column, result, expected,
                 tolerance + rounding);
}

double op_case_slope(double (*f)(void *context), void *context, double *x, double step)
{
    const double before = *x;
    *x = before + step;
    const double above = f(context);
    *x = before - step;
    const double below = f(context);
    *x = before;
    return (above - below) / (2 * step);
}
