/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a plugin for messages, and checks that it belongs to this build (driver.h).
 */
#include "base/plugin.h"
#include "runtime/comm/driver.h"

#include <limits.h>

int ah_comm_load(const char *name, const struct ah_comm_driver **ret_driver, struct ah_error *err)
{
    /* `true` makes symbols global: message libraries load more libraries, which look for these symbols. */
    const struct ah_plugin plugin = {name, "runtime/comm", AH_COMM_PLUGIN_SYMBOL, true};
    char path[PATH_MAX];
    union {
        void *symbol;
        ah_comm_plugin_fn *function;
    } entry = {.symbol = NULL};
    int rc = ah_plugin_open(&plugin, &entry.symbol, path, err);
    if (rc)
        return rc;
    const struct ah_comm_driver *driver = entry.function();
    rc = ah_comm_check_driver(driver, path, err);
    if (rc)
        return rc;
    *ret_driver = driver;
    return AH_OK;
}
