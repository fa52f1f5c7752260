/* SPDX-License-Identifier: Apache-2.0
 *
 * The double of cuBLASLt (api.c), as tests see it. It is a separate library, so tests find this function with
 * dlopen("libcublasLt.so.13") and dlsym(). As with the runtime, calls are counted by name, and a test can make any call
 * fail with any code (tests/double/cuda/double.h).
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H
#define AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H

/* Returns the number of handles, descriptors, layouts and preferences that are not yet destroyed. */
int cublaslt_double_alive(void);

#endif
