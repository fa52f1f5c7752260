/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of bandwidth.c, compiled for each instruction set. Each is a pass over `words` words of 8 bytes in arrays
 * `a` and `b`, for one enum ah_memory_pattern.
 */
#ifndef AH_PROFILER_BANDWIDTH_INTERNAL_H
#define AH_PROFILER_BANDWIDTH_INTERNAL_H

#include "base/isa.h"

#include <stddef.h>

typedef void ah_bandwidth_kernel(void *a, void *b, size_t words);

struct ah_bandwidth_kernels {
    ah_bandwidth_kernel *run[3]; /* read, write, copy */
};

const struct ah_bandwidth_kernels *ah_bandwidth_kernels(enum ah_isa isa);

#endif
