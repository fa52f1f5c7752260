/* SPDX-License-Identifier: Apache-2.0
 *
 * Library: NVIDIA's shared libraries, opened when needed, so that the plugin loads without them.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_LIBRARY_H
#define AH_RUNTIME_DEVICE_CUDA_LIBRARY_H

#include "base/error.h"

#include <stddef.h>

/* A function of a library, and where to store the pointer to it. */
struct ah_cuda_symbol {
    const char *name;
    void *to; /* address of a pointer to a function */
};

/* Opens the library `soname` and finds `n` of its functions. Searches where the loader does, then in lib64 and
 * extras/CUPTI/lib64, first of $CUDA_HOME and then of /usr/local/cuda. AH_E_MISSING names what is missing and how to
 * get it. The library stays loaded until the process ends, because it has its own threads and handlers. */
int ah_cuda_library_open(const char *soname, const struct ah_cuda_symbol *symbols, size_t n,
                         struct ah_error *err);

#endif
