/* SPDX-License-Identifier: Apache-2.0
 *
 * A control group is limited by each group above it, so the path in /proc/self/cgroup is walked up to the mount point.
 * Inside a container the path may not exist, while the mount point is the container's own group, so missing folders are
 * skipped. Formats: the kernel's admin-guide/cgroup-v2.rst, admin-guide/cgroup-v1/memory.rst and
 * scheduler/sched-bwc.rst.
 *
 * A group's free memory is its limit, less the memory in use, plus its inactive file pages: the kernel reclaims those
 * before it refuses memory. It may also reclaim other file pages. That slows their readers, so they do not count.
 */
#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096 + 256, PATH_MAX_BYTES = 2 * LINE_MAX_BYTES };

/* Names of the files in a group's folder. */
struct files {
    const char *memory_limit; /* NULL: this mount has no memory controller */
    const char *memory_used;
    const char *memory_inactive; /* key in memory.stat, for this group and the groups below */
    const char *quota;           /* microseconds, perhaps followed by the period; NULL: no cpu controller */
    const char *period;          /* NULL: the period follows the quota */
};

static const struct files version_2 = {
    .memory_limit = "memory.max",
    .memory_used = "memory.current",
    .memory_inactive = "inactive_file",
    .quota = "cpu.max",
};
static const struct files version_1_memory = {
    .memory_limit = "memory.limit_in_bytes",
    .memory_used = "memory.usage_in_bytes",
    .memory_inactive = "total_inactive_file",
};
static const struct files version_1_cpu = {.quota = "cpu.cfs_quota_us", .period = "cpu.cfs_period_us"};

/* A place where a hierarchy may be mounted. */
static const struct hierarchy {
    const char *controller; /* "": version 2 */
    const char *mount;
    const struct files *files;
} hierarchies[] = {
    {"", "/sys/fs/cgroup", &version_2},
    {"", "/sys/fs/cgroup/unified", &version_2},
    {"memory", "/sys/fs/cgroup/memory", &version_1_memory},
    {"cpu", "/sys/fs/cgroup/cpu", &version_1_cpu},
    {"cpu", "/sys/fs/cgroup/cpu,cpuacct", &version_1_cpu},
};

static FILE *open_in(const char *folder, const char *name)
{
    char path[PATH_MAX_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return NULL;
    return fopen(path, "re");
}

/* Reads up to two numbers and returns how many there are: 0 for "max", a missing file or nonsense. */
static int read_numbers(const char *folder, const char *name, int64_t *ret_first, int64_t *ret_second)
{
    FILE *file = open_in(folder, name);
    if (!file)
        return 0;
    int n = fscanf(file, "%" SCNd64 " %" SCNd64, ret_first, ret_second);
    fclose(file);
    return n < 0 ? 0 : n;
}

/* Returns a number read from a file, or `otherwise` if there is none or it is negative. */
static uint64_t read_number(const char *folder, const char *name, uint64_t otherwise)
{
    int64_t number = 0, unused;
    return read_numbers(folder, name, &number, &unused) > 0 && number >= 0 ? (uint64_t)number : otherwise;
}

/* Returns the number after `key` in memory.stat, or 0. */
static uint64_t read_statistic(const char *folder, const char *key)
{
    char line[LINE_MAX_BYTES];
    size_t length = strlen(key);
    uint64_t number = 0;
    FILE *file = open_in(folder, "memory.stat");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == ' ' &&
            sscanf(line + length, "%" SCNu64, &number) == 1)
            break;
    if (file)
        fclose(file);
    return number;
}

static void read_memory(struct ah_cgroup *group, const struct files *files, const char *folder)
{
    uint64_t limit = read_number(folder, files->memory_limit, UINT64_MAX);
    if (limit == UINT64_MAX)
        return;
    uint64_t used = read_number(folder, files->memory_used, 0);
    uint64_t inactive = used ? read_statistic(folder, files->memory_inactive) : 0;
    used = inactive < used ? used - inactive : 0;
    uint64_t left = used < limit ? limit - used : 0;
    if (limit < group->memory_limit_bytes)
        group->memory_limit_bytes = limit;
    if (left < group->memory_free_bytes)
        group->memory_free_bytes = left;
}

static void read_processors(struct ah_cgroup *group, const struct files *files, const char *folder)
{
    int64_t quota = 0, period = 0, unused;
    int n = read_numbers(folder, files->quota, &quota, &period);
    if (n > 0 && files->period)
        n = 1 + read_numbers(folder, files->period, &period, &unused);
    if (n < 2 || quota <= 0 || period <= 0) /* version 1 writes -1 for no quota */
        return;
    double processors = (double)quota / (double)period;
    if (group->processors <= 0 || processors < group->processors)
        group->processors = processors;
}

/* Reads `path` ("/a/b") below the mount point, and every folder above it up to the mount point. */
static void read_path(struct ah_cgroup *group, const char *root, const struct hierarchy *hierarchy,
                      const char *path)
{
    char folder[PATH_MAX_BYTES];
    size_t mount = strlen(root) + strlen(hierarchy->mount);
    if (snprintf(folder, sizeof folder, "%s%s%s", root, hierarchy->mount, path) >= (int)sizeof folder)
        return;
    for (;;) {
        size_t length = strlen(folder);
        if (length > mount && folder[length - 1] == '/')
            folder[length - 1] = '\0';
        if (hierarchy->files->memory_limit)
            read_memory(group, hierarchy->files, folder);
        if (hierarchy->files->quota)
            read_processors(group, hierarchy->files, folder);
        char *slash = strrchr(folder + mount, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* True if `name` is one of the comma-separated `names`. "" matches only "". */
static bool is_one_of(const char *name, const char *names)
{
    size_t length = strlen(name);
    if (!length || !names[0])
        return !length && !names[0];
    for (const char *at = names; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
            return true;
    }
    return false;
}

/* Reads a line of /proc/self/cgroup: "0::/path" (version 2) or "4:memory:/path" (version 1). */
static void read_line(struct ah_cgroup *group, const char *root, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return;
    controllers++;
    *path++ = '\0';
    for (size_t i = 0; i < sizeof hierarchies / sizeof hierarchies[0]; i++)
        if (is_one_of(hierarchies[i].controller, controllers))
            read_path(group, root, &hierarchies[i], path);
}

void ah_cgroup_read(struct ah_cgroup *ret_group, const char *root)
{
    struct ah_cgroup group = {.memory_limit_bytes = UINT64_MAX, .memory_free_bytes = UINT64_MAX};
    char line[LINE_MAX_BYTES];
    root = root ? root : "";
    FILE *file = open_in(root, "proc/self/cgroup");
    while (file && fgets(line, sizeof line, file))
        read_line(&group, root, line);
    if (file)
        fclose(file);
    *ret_group = group;
}
