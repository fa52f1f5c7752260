/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests ask the double of cuBLASLt (api.c). It is a library of its own: tests find this function by
 * dlopen("libcublasLt.so.13") and dlsym(). As for the runtime, its calls are counted by name, and a test can make any
 * of them fail with any code (tests/double/cuda/double.h).
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H
#define AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H

/* Returns how many handles, descriptors, layouts and preferences are not destroyed yet. */
int cublaslt_double_alive(void);

#endif
