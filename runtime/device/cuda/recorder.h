/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorder: records through CUPTI what a GPU does for a device's ops. It records kernels, copies and fills, each with
 * its op, on the host's clock.
 *
 *     rc = ah_cuda_recorder_new(&recorder, streams, n, err);       // records from now on
 *     ah_cuda_recorder_begin(recorder, lane, ticket);              // the calling thread enqueues this op
 *     ah_cuda_recorder_end(recorder);
 *     rc = ah_cuda_recorder_stop(recorder, &recording, err);       // the streams are idle
 *     ah_cuda_recorder_free(recorder);                             // also frees the recording
 *
 * CUPTI serves one subscriber in a process. So there is one recorder at a time, for one device, and none if another
 * profiler subscribed first. CUPTI's own threads call back into this file from new to stop, and never after stop. Only
 * one thread may use a recorder.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_RECORDER_H
#define AH_RUNTIME_DEVICE_CUDA_RECORDER_H

#include "base/error.h"
#include "runtime/device/device.h"

#include <cuda_runtime_api.h>

struct ah_cuda_recorder;

/* Loads CUPTI and starts recording. `streams` are those of lanes 0 to n - 1. AH_E_FAILED (for example, another profiler
 * or recorder uses CUPTI), AH_E_MISSING or AH_E_MEMORY: nothing is recorded. *Owned* by the caller. */
int ah_cuda_recorder_new(struct ah_cuda_recorder **ret_recorder, const cudaStream_t *streams, uint32_t n,
                         struct ah_error *err);

/* Call these around the calls that enqueue an op. NULL is fine, and costs nothing. */
void ah_cuda_recorder_begin(struct ah_cuda_recorder *recorder, uint32_t lane, uint64_t ticket);
void ah_cuda_recorder_end(struct ah_cuda_recorder *recorder);

/* Stops recording, even if this call fails, and returns the recording, *borrowed* until free. AH_E_MEMORY; AH_E_FAILED
 * if CUPTI did not return its records. */
int ah_cuda_recorder_stop(struct ah_cuda_recorder *recorder, struct ah_device_recording *ret_recording,
                          struct ah_error *err);

/* Frees the recorder, after stopping it if it still records. NULL is fine. */
void ah_cuda_recorder_free(struct ah_cuda_recorder *recorder);

#endif
