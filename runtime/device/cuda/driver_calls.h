/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver calls: functions of libcuda.so.1 that the CUDA runtime lacks. The CUDA runtime finds them, so the plugin
 * does not link with the driver and loads without one.
 *
 *     struct ah_cuda_driver_calls calls;
 *     rc = ah_cuda_driver_calls_find(&calls, err);
 *     rc = calls.stream_wait_value(stream, address, 7, CU_STREAM_WAIT_VALUE_GEQ);
 *
 * A CUresult has the same number as the cudaError_t of the same meaning.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_DRIVER_CALLS_H
#define AH_RUNTIME_DEVICE_CUDA_DRIVER_CALLS_H

#include "base/error.h"

#include <cudaTypedefs.h>

struct ah_cuda_driver_calls {
    PFN_cuDeviceGet_v2000 device_get;
    PFN_cuDeviceGetAttribute_v2000 device_attribute;
    PFN_cuStreamWaitValue64_v11070 stream_wait_value; /* cuStreamWaitValue64 */
};

/* Fills the table. AH_E_MISSING if the driver lacks a function. */
int ah_cuda_driver_calls_find(struct ah_cuda_driver_calls *ret_calls, struct ah_error *err);

#endif
