/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups: how much memory and processor time this process's groups allow it. Reads versions 2, 1 and both at
 * once, inside or outside a container.
 *
 *     struct ah_cgroup group;
 *     ah_cgroup_read(&group, NULL);
 */
#ifndef AH_BASE_CGROUP_H
#define AH_BASE_CGROUP_H

#include <stdint.h>

struct ah_cgroup {
    uint64_t memory_limit_bytes; /* the lowest limit of any group; UINT64_MAX: none */
    uint64_t memory_free_bytes;  /* the least memory still free in any group; UINT64_MAX: no limit */
    double processors;           /* the lowest quota of any group, in seconds of work per second; 0: none */
};

/* Reads the limits. `root` (optional): a folder to read instead of /, with proc/self/cgroup and sys/fs/cgroup in it.
 * Files that are missing or damaged limit nothing. */
void ah_cgroup_read(struct ah_cgroup *ret_group, const char *root);

#endif
