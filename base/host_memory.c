/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host_memory.h"

#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 256 };

static int read_meminfo(struct ah_host_memory *memory, const char *root, struct ah_error *err)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = length < PATH_MAX ? fopen(path, "re") : NULL;
    if (!file)
        return ah_error_set(err, AH_E_IO, "%s/proc/meminfo: cannot be read; is /proc mounted?", root);
    char line[LINE_MAX_BYTES];
    uint64_t kib;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1)
            memory->total_bytes = kib * 1024;
        else if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            memory->available_bytes = kib * 1024;
    }
    fclose(file);
    if (!memory->total_bytes)
        return ah_error_set(err, AH_E_IO, "%s/proc/meminfo: has no line 'MemTotal'", root);
    if (!memory->available_bytes)
        memory->available_bytes = memory->total_bytes;
    return AH_OK;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int ah_host_memory_read(struct ah_host_memory *ret_memory, const char *root, struct ah_error *err)
{
    struct ah_host_memory memory = {0};
    struct ah_cgroup group;
    int rc = read_meminfo(&memory, root ? root : "", err);
    if (rc)
        return rc;
    ah_cgroup_read(&group, root);
    memory.limit_bytes = group.memory_limit_bytes;
    memory.usable_bytes = lesser(memory.total_bytes, group.memory_limit_bytes);
    memory.available_bytes =
        lesser(lesser(memory.available_bytes, group.memory_free_bytes), memory.usable_bytes);
    *ret_memory = memory;
    return AH_OK;
}

uint64_t ah_host_memory_resident(void)
{
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %" SCNu64, &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
