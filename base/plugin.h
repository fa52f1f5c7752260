/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins: shared objects that are found and loaded on demand, so that one binary works with and without the libraries
 * they need. Plugin "<name>" is libautohete_<name>.so and exports one symbol.
 */
#ifndef AH_BASE_PLUGIN_H
#define AH_BASE_PLUGIN_H

#include "base/error.h"

#include <stdbool.h>

struct ah_plugin {
    const char *name;   /* "cuda" */
    const char *folder; /* in a build tree, <folder>/<name>/ has the plugin: "runtime/device" */
    const char *symbol;
    bool is_global; /* makes symbols of its libraries global, because these load further plugins */
};

/* Loads a plugin from $AUTOHETE_PLUGIN_DIR if set, otherwise from ../<folder>/<name> (a build tree) or ../lib/autohete
 * (installed), both relative to the running program's folder. AH_E_MISSING if there is no plugin or it cannot be loaded
 * (with the loader's message), AH_E_MISMATCH for a library without the symbol. A loaded plugin stays for the life of
 * the process. `ret_path` has room for PATH_MAX bytes. */
int ah_plugin_open(const struct ah_plugin *plugin, void **ret_symbol, char *ret_path, struct ah_error *err);

#endif
