/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: turns an error of the CUDA runtime into a code and a sentence that says what to do.
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

/* Fills `err` for `code`, which `call` returned. Returns AH_E_MISSING if driver or GPU cannot be used, AH_E_CAPACITY if
 * memory ran out, otherwise AH_E_FAILED. Clears the thread's CUDA error, so that no later call reports it. */
int ah_cuda_error(struct ah_error *err, cudaError_t code, const char *call);

/* Like ah_cuda_error(), but returns AH_OK for cudaSuccess. */
int ah_cuda_check(struct ah_error *err, cudaError_t code, const char *call);

/* True if the process can no longer use its GPU: all queued work is lost, and every later call fails. */
bool ah_cuda_error_sticks(cudaError_t code);

#endif
