/* SPDX-License-Identifier: Apache-2.0
 *
 * A control group is limited by each group above it, so the path of /proc/self/cgroup is walked up to the
 * mount point. Inside a container the path may not exist below the mount point, which then is the container's
 * own group: folders that are not there are passed over. Formats: the kernel's
 * admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
 */
#include "base/host_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096 + 256 };

/* Where a hierarchy with a memory controller may be mounted, and the name of its limit. */
struct hierarchy {
    bool unified;
    const char *mount;
    const char *limit;
};

static const struct hierarchy hierarchies[] = {
    {true, "/sys/fs/cgroup", "memory.max"},
    {true, "/sys/fs/cgroup/unified", "memory.max"},
    {false, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
};

static FILE *open_below(const char *root, const char *path)
{
    char full[PATH_MAX];
    if (snprintf(full, sizeof full, "%s%s", root, path) >= PATH_MAX)
        return NULL;
    return fopen(full, "re");
}

static int read_meminfo(struct ah_host_memory *memory, const char *root, struct ah_error *err)
{
    FILE *file = open_below(root, "/proc/meminfo");
    if (!file)
        return ah_error_set(err, AH_E_IO, "cannot read '%s/proc/meminfo'; is /proc mounted?", root);
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
        return ah_error_set(err, AH_E_IO, "'%s/proc/meminfo' has no line 'MemTotal'", root);
    if (!memory->available_bytes)
        memory->available_bytes = memory->total_bytes;
    return AH_OK;
}

/* The number in a limit file; UINT64_MAX for "max", no file or nonsense. */
static uint64_t read_limit(const char *root, const char *path)
{
    FILE *file = open_below(root, path);
    uint64_t limit = UINT64_MAX;
    if (!file)
        return limit;
    if (fscanf(file, "%" SCNu64, &limit) != 1)
        limit = UINT64_MAX;
    fclose(file);
    return limit;
}

/* The least limit from `group` ("/a/b") up to the mount point itself. */
static uint64_t least_limit(const char *root, const struct hierarchy *hierarchy, const char *group)
{
    char folder[LINE_MAX_BYTES], path[2 * LINE_MAX_BYTES];
    uint64_t least = UINT64_MAX;
    snprintf(folder, sizeof folder, "%s", group);
    for (;;) {
        size_t length = strlen(folder);
        if (length && folder[length - 1] == '/')
            folder[length - 1] = '\0';
        snprintf(path, sizeof path, "%s%s/%s", hierarchy->mount, folder, hierarchy->limit);
        uint64_t limit = read_limit(root, path);
        if (limit < least)
            least = limit;
        char *slash = strrchr(folder, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Is "memory" one of the comma-separated `controllers`? */
static bool has_memory(const char *controllers)
{
    const char *found = strstr(controllers, "memory");
    return found && (found == controllers || found[-1] == ',') && strchr(",", found[strlen("memory")]);
}

/* One line of /proc/self/cgroup: "0::/path" (version 2) or "4:memory:/path" (version 1). */
static uint64_t limit_of_line(const char *root, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return UINT64_MAX;
    controllers++;
    *group++ = '\0';
    bool unified = !controllers[0];
    if (!unified && !has_memory(controllers))
        return UINT64_MAX;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++) {
        if (hierarchies[i].unified != unified)
            continue;
        uint64_t limit = least_limit(root, &hierarchies[i], group);
        if (limit < least)
            least = limit;
    }
    return least;
}

int ah_host_memory_read(struct ah_host_memory *ret_memory, const char *root, struct ah_error *err)
{
    struct ah_host_memory memory = {.limit_bytes = UINT64_MAX};
    root = root ? root : "";
    int rc = read_meminfo(&memory, root, err);
    if (rc)
        return rc;
    FILE *file = open_below(root, "/proc/self/cgroup");
    char line[LINE_MAX_BYTES];
    while (file && fgets(line, sizeof line, file)) {
        uint64_t limit = limit_of_line(root, line);
        if (limit < memory.limit_bytes)
            memory.limit_bytes = limit;
    }
    if (file)
        fclose(file);
    memory.usable_bytes = memory.limit_bytes < memory.total_bytes ? memory.limit_bytes : memory.total_bytes;
    *ret_memory = memory;
    return AH_OK;
}
