/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory: how much this process may use, given the kernel's total and the process's control groups (cgroup.h).
 *
 *     struct ah_host_memory memory;
 *     rc = ah_host_memory_read(&memory, NULL, err);
 */
#ifndef AH_BASE_HOST_MEMORY_H
#define AH_BASE_HOST_MEMORY_H

#include "base/error.h"

#include <stdint.h>

struct ah_host_memory {
    uint64_t total_bytes;     /* MemTotal of the kernel */
    uint64_t available_bytes; /* free now: MemAvailable, or less by control groups; <= usable_bytes */
    uint64_t limit_bytes;     /* the lowest limit of a control group above us; UINT64_MAX: none */
    uint64_t usable_bytes;    /* the lesser of total and limit */
};

/* `root` (optional): a folder to read instead of /, with proc/meminfo, proc/self/cgroup and sys/fs/cgroup in it (a
 * captured machine). AH_E_IO: the kernel's total cannot be read. */
int ah_host_memory_read(struct ah_host_memory *ret_memory, const char *root, struct ah_error *err);

/* Returns the bytes that this process has in memory now, code and libraries included; 0 if the kernel does not say. */
uint64_t ah_host_memory_resident(void);

#endif
