/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of bench_kernels share: an op with its operands on a device, and rows of it computed once more in double.
 *
 *     struct kernel_samples *samples = kernel_samples_new(&k);     before the op: what it reads
 *     ... the op runs ...
 *     double off = kernel_samples_check(samples, &k);
 *     kernel_samples_free(samples);
 */
#ifndef AH_BENCH_KERNELS_INTERNAL_H
#define AH_BENCH_KERNELS_INTERNAL_H

#include "runtime/device/device.h"

struct kernel_case {
    const char *name;
    bool small; /* for the double of CUDA */
    struct ah_op op;
    int types[AH_OP_ARGS]; /* enum ah_dtype, or -1 */
};

struct kernel {
    struct ah_op op;
    struct ah_operand operands[AH_OP_ARGS];
    struct ah_device *device; /* owned */
    struct ah_adamw_scalars scalars;
    uint64_t random;
};

struct kernel_samples;

/* How many operands ops of the kind name at most. */
size_t kernel_operands(enum ah_op_kind kind);

/* Bytes of the device arena, on the host. Every lane is idle. */
void kernel_read(struct kernel *k, uint64_t offset_bytes, uint64_t bytes, void *ret_bytes);

/* Copies of the operands; the program ends where the host has no memory for them. */
struct kernel_samples *kernel_samples_new(struct kernel *k);
void kernel_samples_free(struct kernel_samples *samples);

/* How far the results are from those in double: the norm of the difference over the norm of what is expected, of the operand
 * where it is largest. */
double kernel_samples_check(struct kernel_samples *samples, struct kernel *k);

/* The most that it may be: rounding of the type of the results, and of what is kept between. */
double kernel_tolerance(const struct kernel *k);

#endif
