/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests ask of the double of cuBLASLt (api.c). It is a library of its own: tests find this function in it by
 * dlopen("libcublasLt.so.13") and dlsym(). Its calls are counted and told to fail by their names, as those of the
 * runtime (tests/double/cuda/double.h), with any code.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H
#define AH_TESTS_DOUBLE_CUDA_CUBLASLT_DOUBLE_H

/* Handles, descriptors, layouts and preferences that were made and not destroyed. */
int cublaslt_double_alive(void);

#endif
