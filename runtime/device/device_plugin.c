/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads device drivers from shared objects (device_plugin.h).
 */
#include "runtime/device/device_plugin.h"

#include "base/plugin.h"

#include <limits.h>
#include <string.h>

int ah_plugin_load(const char *name, const struct ah_device_driver **ret_driver, struct ah_error *err)
{
    const struct ah_plugin plugin = {.name = name, .folder = "runtime/device", .symbol = AH_PLUGIN_SYMBOL};
    char path[PATH_MAX];
    union {
        void *symbol;
        ah_plugin_fn *function;
    } entry = {.symbol = NULL};
    if (!name[0] || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
        return ah_error_set(err, AH_E_USAGE, "'%.64s' is not a valid name for a device plugin", name);
    int rc = ah_plugin_open(&plugin, &entry.symbol, path, err);
    if (rc)
        return rc;
    const struct ah_device_driver *driver = entry.function();
    if (!driver)
        return ah_error_set(err, AH_E_MISSING, "plugin '%s' provides no driver", path);
    rc = ah_device_check_driver(driver, path, err);
    if (rc)
        return rc;
    *ret_driver = driver;
    return AH_OK;
}
