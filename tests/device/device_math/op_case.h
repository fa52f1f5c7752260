/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one op on operands in their own memory, with any type, any row stride and any place.
 *
 *     struct op_case c;
 *     op_case_init(&c, &op, &random);           operands that are there name AH_ARENA_DEVICE
 *     op_case_fill(&c, 1, -2, 2);
 *     op_case_run(&c);                           in every way
 *     double y = op_case_result(&c, 0, row, column);
 *     op_case_release(&c);
 *
 * The program links the file that runs the op, on host cores (op_ways.c) or on a GPU
 * (tests/device/device_cuda/op_ways.c). Each of these files has several WAYS, which must give equal bits: levels and
 * numbers of threads, or places in memory. op_case_run() fails the test if two ways differ, or if anything except the
 * op's outputs changes. Inputs stay unchanged, so that a reference in double can be computed from them as stored.
 */
#ifndef AH_TESTS_DEVICE_DEVICE_MATH_OP_CASE_H
#define AH_TESTS_DEVICE_DEVICE_MATH_OP_CASE_H

#include "runtime/device/op.h"
#include "tests/support/check.h"

struct op_case {
    struct ah_op op;
    struct ah_operand operands[AH_OP_ARGS];
    uint64_t width[AH_OP_ARGS]; /* elements of a row as laid out, or all elements of a dense operand */
    uint64_t bytes;
    unsigned char *memory;  /* memory before the op, with its inputs */
    unsigned char *results; /* memory after the op */
    uint64_t *random;       /* borrowed */
};

/* op_case_below() returns a number below `limit`, op_case_size() one in 1 to `limit`, often small or a multiple of
 * 8. */
uint64_t op_case_below(uint64_t *random, uint64_t limit);
uint64_t op_case_size(uint64_t *random, uint64_t limit);
struct ah_ref op_case_ref(uint64_t *random, uint64_t width); /* a matrix: any type, maybe with gaps between
                                                              * rows */
struct ah_ref op_case_dense(uint64_t *random);               /* any type */
struct ah_ref op_case_fp32(void);                            /* fp32 or words */

/* Gives every operand a place, in half of the cases at a multiple of 64 bytes, and fills all memory with random bytes.
 * ah_op_operands() must accept the op. */
void op_case_init(struct op_case *ret_case, const struct ah_op *op, uint64_t *random);
void op_case_release(struct op_case *c);

/* Fill operand `arg` with uniform numbers in [low, high), rounded to its type; words below `limit`; or bytes 0 or 1. */
void op_case_fill(struct op_case *c, size_t arg, double low, double high);
void op_case_fill_words(struct op_case *c, size_t arg, uint64_t limit);
void op_case_fill_bytes(struct op_case *c, size_t arg);

/* Return elements from before and after the run. Set `width` for operands with dense rows, or they are one row. */
double op_case_input(const struct op_case *c, size_t arg, uint64_t row, uint64_t column);
double op_case_result(const struct op_case *c, size_t arg, uint64_t row, uint64_t column);
uint32_t op_case_word(const struct op_case *c, size_t arg, uint64_t i);
void op_case_set(struct op_case *c, size_t arg, uint64_t row, uint64_t column, double value);

void op_case_run(struct op_case *c);

/* Runs the op in one way only, because ways of some ops may differ in bits. The results are those of this way. */
void op_case_run_one(struct op_case *c, unsigned way);

/* Return the number of ways; run the op in one way on a copy of c->memory, which `ret_memory` receives. */
unsigned op_case_ways(void);
void op_case_run_way(const struct op_case *c, unsigned way, unsigned char *ret_memory);

/* Checks that the result is within `tolerance` of `expected`, plus half a unit of the last place for bf16. */
void op_case_check(const struct op_case *c, size_t arg, uint64_t row, uint64_t column, double expected,
                   double tolerance);

/* Returns the derivative of f with respect to *x, by central differences. */
double op_case_slope(double (*f)(void *context), void *context, double *x, double step);

#endif
