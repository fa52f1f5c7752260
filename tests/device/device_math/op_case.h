/* SPDX-License-Identifier: Apache-2.0
 *
 * One op with operands in memory of their own: any type, any row stride, any place.
 *
 *     struct op_case c;
 *     op_case_init(&c, &op, &random);           operands that are there name AH_ARENA_DEVICE
 *     op_case_fill(&c, 1, -2, 2);
 *     op_case_run(&c);                           in every way
 *     double y = op_case_result(&c, 0, row, column);
 *     op_case_release(&c);
 *
 * Who runs the op is linked: host cores (op_ways.c), or a GPU (tests/device/device_cuda/op_ways.c). Each has several
 * WAYS, which must give the same bits: levels and numbers of threads; places in memory. op_case_run() fails the test
 * where two do not, or where anything but the op's outputs changes. Inputs stay what they were, so that a reference can
 * be computed from them in double, as they are stored.
 */
#ifndef AH_TESTS_DEVICE_DEVICE_MATH_OP_CASE_H
#define AH_TESTS_DEVICE_DEVICE_MATH_OP_CASE_H

#include "runtime/device/op.h"
#include "tests/support/check.h"

struct op_case {
    struct ah_op op;
    struct ah_operand operands[AH_OP_ARGS];
    uint64_t width[AH_OP_ARGS]; /* elements of a row as laid out; of dense operands all of them */
    uint64_t bytes;
    unsigned char *memory;  /* what the op finds */
    unsigned char *results; /* what it leaves */
    uint64_t *random;       /* borrowed */
};

/* A number below `limit`; one of 1, small and middling sizes; a type; a row stride for rows of `width`. */
uint64_t op_case_below(uint64_t *random, uint64_t limit);
uint64_t op_case_size(uint64_t *random, uint64_t limit);
struct ah_ref op_case_ref(uint64_t *random, uint64_t width); /* matrices: any type, maybe rows apart */
struct ah_ref op_case_dense(uint64_t *random);               /* any type */
struct ah_ref op_case_fp32(void);                            /* fp32 or words */

/* Gives every operand a place, in every second case one at a multiple of 64 bytes, and anything in it. The op is one
 * that ah_op_operands() accepts. */
void op_case_init(struct op_case *ret_case, const struct ah_op *op, uint64_t *random);
void op_case_release(struct op_case *c);

/* Operand `arg` all uniform in [low, high), rounded to its type; words below `limit`; bytes 0 or 1. */
void op_case_fill(struct op_case *c, size_t arg, double low, double high);
void op_case_fill_words(struct op_case *c, size_t arg, uint64_t limit);
void op_case_fill_bytes(struct op_case *c, size_t arg);

/* Elements before and after the run. Rows of dense operands are `width` long where it is set, else all is one row. */
double op_case_input(const struct op_case *c, size_t arg, uint64_t row, uint64_t column);
double op_case_result(const struct op_case *c, size_t arg, uint64_t row, uint64_t column);
uint32_t op_case_word(const struct op_case *c, size_t arg, uint64_t i);
void op_case_set(struct op_case *c, size_t arg, uint64_t row, uint64_t column, double value);

void op_case_run(struct op_case *c);

/* In one way alone, for ops of which not all ways give the same bits; the results are this one's. */
void op_case_run_one(struct op_case *c, unsigned way);

/* How many ways there are, and the op in one of them on c->memory, which stays what it is; `ret_memory` is all that it
 * leaves. */
unsigned op_case_ways(void);
void op_case_run_way(const struct op_case *c, unsigned way, unsigned char *ret_memory);

/* The result is `expected` within `tolerance`, and half a unit of bf16's last place where it is bf16. */
void op_case_check(const struct op_case *c, size_t arg, uint64_t row, uint64_t column, double expected,
                   double tolerance);

/* d f(x) / d x[i], by central differences. */
double op_case_slope(double (*f)(void *context), void *context, double *x, double step);

#endif
