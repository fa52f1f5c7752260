/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts file: lists the hosts on which mpirun starts processes, in the format of Open MPI and DeepSpeed. Each line is
 * 'name slots=N' (default: 1), with comments after '#'.
 */
#ifndef AH_RUNTIME_COMM_HOSTS_FILE_H
#define AH_RUNTIME_COMM_HOSTS_FILE_H

#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct ah_hosts_entry {
    const char *name;
    uint64_t slots; /* at least 1 */
};

struct ah_hosts {
    struct ah_hosts_entry *entries; /* in the order of the lines, in arena */
    size_t n;
    uint64_t slots; /* sum of all hosts' slots */
};

/* Reads the file. AH_E_IO; AH_E_USAGE names a line that is no host; AH_E_MEMORY. */
int ah_hosts_read(const char *path, struct ah_arena *arena, struct ah_hosts *ret_hosts, struct ah_error *err);

#endif
