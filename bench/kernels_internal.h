/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of bench_kernels share: an op with its operands on a device, and its check in double.
 *
 *     struct kernel_samples *samples = kernel_samples_new(&k);     before the op: copies what it reads
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

/* The most operands that an op of the kind names. */
size_t kernel_operands(enum ah_op_kind kind);

/* Copies bytes of the device arena to the host. Every lane must be idle. */
void kernel_read(struct kernel *k, uint64_t offset_bytes, uint64_t bytes, void *ret_bytes);

/* Copies what the op reads; the caller frees it. Ends the program if the host has no memory for it. */
struct kernel_samples *kernel_samples_new(struct kernel *k);
void kernel_samples_free(struct kernel_samples *samples);

/* Error of the results against those in double: the norm of the difference over the norm of the expected values, for
 * the worst operand. */
double kernel_samples_check(struct kernel_samples *samples, struct kernel *k);

/* The largest error that rounding explains: of the results' type, and of what is kept in between. */
double kernel_tolerance(const struct kernel *k);

#endif
