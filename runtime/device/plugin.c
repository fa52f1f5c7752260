/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading of driver plugins: dlopen(3) with RTLD_NOW, so that a plugin that lacks a library fails here and
 * not in the middle of a run; RTLD_LOCAL, so that its libraries' symbols stay its own; RTLD_NODELETE, since a
 * vendor's runtime that came with it has threads and handlers that would outlive its code.
 */
#include "runtime/device/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folder of the running program, without a slash at its end; "." where the system does not say. */
static void program_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        memcpy(folder, ".", 2);
}

/* Finds the plugin's file: $AUTOHETE_PLUGIN_DIR, or installed beside the program, or in the build tree. On
 * failure `path` is the first place that was looked at, for the person who reads the error. */
static bool find_plugin(char path[PATH_MAX], const char *name)
{
    const char *chosen = getenv("AUTOHETE_PLUGIN_DIR");
    char folder[PATH_MAX];
    if (chosen && chosen[0]) {
        int length = snprintf(path, PATH_MAX, "%s/libautohete_%s.so", chosen, name);
        return length < PATH_MAX && access(path, F_OK) == 0;
    }
    program_folder(folder);
    int length = snprintf(path, PATH_MAX, "%s/../runtime/device/%s/libautohete_%s.so", folder, name, name);
    if (length < PATH_MAX && access(path, F_OK) == 0)
        return true;
    length = snprintf(path, PATH_MAX, "%s/../lib/autohete/libautohete_%s.so", folder, name);
    return length < PATH_MAX && access(path, F_OK) == 0;
}

int ah_plugin_load(const char *name, const struct ah_device_driver **ret_driver, struct ah_error *err)
{
    char path[PATH_MAX];
    if (!name[0] || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
        return ah_error_set(err, AH_E_USAGE, "'%.64s' is no name of a device plugin", name);
    if (!find_plugin(path, name))
        return ah_error_set(
            err, AH_E_MISSING,
            "there is no plugin '%s'; build or install it, or name its folder in AUTOHETE_PLUGIN_DIR", path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return ah_error_set(err, AH_E_MISSING, "plugin '%s' cannot be loaded: %s", path, dlerror());
    union {
        void *symbol;
        ah_plugin_fn *function;
    } entry = {.symbol = dlsym(library, AH_PLUGIN_SYMBOL)};
    int rc = AH_OK;
    if (!entry.symbol)
        rc = ah_error_set(err, AH_E_MISMATCH, "plugin '%s' is no plugin of autohete: it has no symbol '%s'",
                          path, AH_PLUGIN_SYMBOL);
    const struct ah_device_driver *driver = rc ? NULL : entry.function();
    if (!rc && !driver)
        rc = ah_error_set(err, AH_E_MISSING, "plugin '%s' has no driver to offer", path);
    if (!rc)
        rc = ah_device_check_driver(driver, path, err);
    if (rc) {
        dlclose(library);
        return rc;
    }
    *ret_driver = driver;
    return AH_OK;
}
