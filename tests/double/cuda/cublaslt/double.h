/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests ask the double of cuBLASLt (api.c). It is a library of its own: tests find this function by
 * dlopen("libcublasLt.so.13") and dlsym(). Its calls are counted and told to fail by name, with any code, like those of
 * the runtime (tests/double/cuda/double.h).
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H
#define AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H

/* Returns how many handles, descriptors, layouts and preferences are not destroyed yet. */
int cublaslt_double_alive(void);

#endif
