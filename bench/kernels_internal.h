/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two files of bench_kernels: an op with its operands on a device, and its check in double.
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
    bool small; /* shapes small enough for the double of CUDA */
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

/* Returns the largest number of operands that an op of the kind names. */
size_t kernel_operands(enum ah_op_kind kind);

/* Copies bytes of the device arena to the host. Every lane must be idle. */
void kernel_read(struct kernel *k, uint64_t offset_bytes, uint64_t bytes, void *ret_bytes);

/* Copies what the op reads. The caller frees the copy. Ends the program if the host lacks the memory. */
struct kernel_samples *kernel_samples_new(struct kernel *k);
void kernel_samples_free(struct kernel_samples *samples);

/* Returns the error of the results against those in double, for the worst operand. The error is the norm of the
 * difference over the norm of the expected values. */
double kernel_samples_check(struct kernel_samples *samples, struct kernel *k);

/* Returns the largest error explained by rounding, both of the results' type and of intermediate values. */
double kernel_tolerance(const struct kernel *k);

#endif
