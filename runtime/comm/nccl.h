/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL: the driver for messages between GPUs. It is part of the CUDA plugin, and ah_comm_load("nccl") finds it.
 *
 * It stands on another driver, its CONTROL, such as `loop` or `mpi`. Control connects the same ranks, opens the same
 * channels, and moves the messages of all channels whose purpose is not below `purposes`; these are in host memory.
 * Messages of the other channels are in the memory of this rank's GPU, and NCCL moves them. If either fails, control
 * loses the world, so all ranks learn the reason.
 *
 *     struct ah_comm_nccl nccl = {.control = ah_comm_loop(), .control_boot = hub, .purposes = 4, .gpu = 1};
 *     const struct ah_comm_options options = {.driver = driver, .rank = 1, .ranks = 4, .boot = &nccl};
 *     ah_comm_open(&comm, &options, err);
 */
#ifndef AH_RUNTIME_COMM_NCCL_H
#define AH_RUNTIME_COMM_NCCL_H

#include "runtime/comm/driver.h"

/* The `boot` of driver "nccl"; must outlive the end. */
struct ah_comm_nccl {
    const struct ah_comm_driver *control;
    void *control_boot;
    uint32_t purposes;
    uint32_t gpu;         /* as `index` in a device's options */
    uint64_t taken_bytes; /* set by ah_comm_channels(): GPU memory that messages take */
};

#endif
