/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: what the CUDA runtime answers, as a code and a sentence for the person who reads it.
 *
 *     cudaError_t rc = cudaStreamCreateWithPriority(&stream, flags, priority);
 *     if (rc != cudaSuccess)
 *         return ah_cuda_error(err, rc, "cudaStreamCreateWithPriority");
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_ERRORS_H
#define AH_RUNTIME_DEVICE_CUDA_ERRORS_H

#include "base/error.h"

#include <cuda_runtime_api.h>

#include <stdbool.h>

/* Returns the code for `code`, which `call` returned, and fills `err`: AH_E_MISSING where driver or GPU cannot be
 * used, else AH_E_FAILED. Takes the error from the thread, so that no later call reports it again. */
int ah_cuda_error(struct ah_error *err, cudaError_t code, const char *call);

/* The same; success is AH_OK. */
int ah_cuda_check(struct ah_error *err, cudaError_t code, const char *call);

/* Whether the process has lost the GPU by it: all that was queued is gone, and every later call fails. */
bool ah_cuda_error_sticks(cudaError_t code);

#endif
