/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads plugins by dlopen(3). With RTLD_NOW, a missing library fails here and not in the middle of a run. With
 * RTLD_LOCAL (unless `is_global`), other code does not see its libraries' symbols. RTLD_NODELETE is needed because
 * threads and handlers of a vendor's runtime would outlive its code.
 */
#include "base/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the folder of the running program, without a slash at its end; "." if the system does not say. */
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

/* Finds the plugin's file: in $AUTOHETE_PLUGIN_DIR, in the build tree, or installed beside the program. On failure
 * `path` is the last place tried, for the error message. */
static bool find_plugin(char path[PATH_MAX], const struct ah_plugin *plugin)
{
    const char *chosen = getenv("AUTOHETE_PLUGIN_DIR");
    const char *name = plugin->name;
    char folder[PATH_MAX];
    if (chosen && chosen[0]) {
        int length = snprintf(path, PATH_MAX, "%s/libautohete_%s.so", chosen, name);
        return length < PATH_MAX && access(path, F_OK) == 0;
    }
    program_folder(folder);
    int length =
        snprintf(path, PATH_MAX, "%s/../%s/%s/libautohete_%s.so", folder, plugin->folder, name, name);
    if (length < PATH_MAX && access(path, F_OK) == 0)
        return true;
    length = snprintf(path, PATH_MAX, "%s/../lib/autohete/libautohete_%s.so", folder, name);
    return length < PATH_MAX && access(path, F_OK) == 0;
}

int ah_plugin_open(const struct ah_plugin *plugin, void **ret_symbol, char *ret_path, struct ah_error *err)
{
    const int scope = plugin->is_global ? RTLD_GLOBAL : RTLD_LOCAL;
    if (!find_plugin(ret_path, plugin))
        return ah_error_set(
            err, AH_E_MISSING,
            "there is no plugin '%s'; build or install it, or name its folder in AUTOHETE_PLUGIN_DIR",
            ret_path);
    void *library = dlopen(ret_path, RTLD_NOW | scope | RTLD_NODELETE);
    if (!library)
        return ah_error_set(err, AH_E_MISSING, "plugin '%s' cannot be loaded: %s", ret_path, dlerror());
    void *symbol = dlsym(library, plugin->symbol);
    if (!symbol) {
        dlclose(library);
        return ah_error_set(err, AH_E_MISMATCH,
                            "plugin '%s' is not an autohete plugin: it has no symbol "
                            "'%s'",
                            ret_path, plugin->symbol);
    }
    *ret_symbol = symbol;
    return AH_OK;
}
