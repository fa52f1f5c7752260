/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/cache.h"

#include "base/buffer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ah_cache_path(const char *device, struct ah_arena *arena, const char **ret_path, struct ah_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    bool given = cache && *cache == '/';
    if (!given && (!home || *home != '/'))
        return ah_error_set(
            err, AH_E_FAILED,
            "neither XDG_CACHE_HOME nor HOME is set, so there is no folder for the profile; use '-o FILE'");
    struct ah_buffer path = {0};
    ah_buffer_printf(&path, "%s%s/autohete/machine-%s.json", given ? cache : home, given ? "" : "/.cache",
                     device ? device : "cpu");
    char *copy = path.failed ? NULL : ah_arena_strdup(arena, path.data);
    ah_buffer_release(&path);
    if (!copy)
        return ah_error_memory(err);
    for (char *at = strrchr(copy, '/'); *at; at++)
        if (*at == ':')
            *at = '-';
    *ret_path = copy;
    return AH_OK;
}

int ah_cache_find(struct ah_arena *arena, const char **ret_path, struct ah_error *err)
{
    static const char *const devices[] = {"cuda", "cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        const char *path = NULL;
        if (!ah_cache_path(devices[i], arena, &path, NULL) && access(path, F_OK) == 0) {
            *ret_path = path;
            return AH_OK;
        }
    }
    return ah_error_set(err, AH_E_USAGE,
                        "no profile found for this machine; run 'autohete profile' once (3 minutes, with "
                        "'--quick' 20 seconds), or plan another machine from estimates: '--machine "
                        "rtx4090-64g'");
}

int ah_cache_make_folder(const char *path, struct ah_error *err)
{
    char folder[PATH_MAX];
    if (strlen(path) >= sizeof folder)
        return ah_error_set(err, AH_E_IO, "the path of the cache is too long; use '-o FILE'");
    memcpy(folder, path, strlen(path) + 1);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) && errno != EEXIST && errno != EISDIR)
            return ah_error_set(err, AH_E_IO, "the folder '%s' cannot be created: %s; use '-o FILE'", folder,
                                strerror(errno));
        *slash = '/';
    }
    return AH_OK;
}
