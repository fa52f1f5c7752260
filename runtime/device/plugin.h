/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins: device drivers in shared objects of their own, so that one binary works with and without a GPU, a
 * driver and a toolkit. A plugin exports one symbol, AH_PLUGIN_SYMBOL, of type ah_plugin_fn.
 */
#ifndef AH_RUNTIME_DEVICE_PLUGIN_H
#define AH_RUNTIME_DEVICE_PLUGIN_H

#include "runtime/device/device.h"

#define AH_PLUGIN_SYMBOL "ah_plugin_driver"

typedef const struct ah_device_driver *ah_plugin_fn(void);

/* Loads `libautohete_<name>.so`: from $AUTOHETE_PLUGIN_DIR when set, else from ../runtime/device/<name> (a
 * build tree), else from ../lib/autohete (installed), both from the running program's folder. AH_E_MISSING
 * where there is none or it cannot be loaded (the loader's own words included), AH_E_MISMATCH for another
 * ABI. The driver is *borrowed*, for as long as the process lives. */
int ah_plugin_load(const char *name, const struct ah_device_driver **ret_driver, struct ah_error *err);

#endif
