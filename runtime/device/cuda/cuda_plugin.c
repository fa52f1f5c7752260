/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver of device.h, as the plugin libautohete_cuda.so: for NVIDIA GPUs since Ampere.
 */
#include "runtime/device/cuda/cuda_internal.h"

static const struct ah_device_driver driver = {
    .abi = AH_DEVICE_ABI,
    .layout = AH_DEVICE_LAYOUT,
    .name = "cuda",
    .messages = true,
    .probe = ah_cuda_probe,
    .open = ah_cuda_open,
    .close = ah_cuda_close,
    .prepare = ah_cuda_prepare,
    .reserve = ah_cuda_reserve,
    .submit = ah_cuda_submit,
    .wait = ah_cuda_wait,
    .wait_any = ah_cuda_wait_any,
    .done = ah_cuda_done,
    .spans = ah_cuda_spans,
    .algorithms = ah_cuda_algorithms,
    .record = ah_cuda_record,
    .recorded = ah_cuda_recorded,
    .pulse = ah_cuda_pulse,
    .head = ah_cuda_head,
    .drain = ah_cuda_drain,
    .address = ah_cuda_address,
};

const struct ah_device_driver *ah_plugin_driver(void)
{
    return &driver;
}
