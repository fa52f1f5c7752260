/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins: device drivers in their own shared objects, so that one binary works with and without a GPU, its driver and
 * its toolkit. A plugin exports one symbol, AH_PLUGIN_SYMBOL, of type ah_plugin_fn.
 */
#ifndef AH_RUNTIME_DEVICE_DEVICE_PLUGIN_H
#define AH_RUNTIME_DEVICE_DEVICE_PLUGIN_H

#include "runtime/device/device.h"

#define AH_PLUGIN_SYMBOL "ah_plugin_driver"

typedef const struct ah_device_driver *ah_plugin_fn(void);

/* Loads `libautohete_<name>.so`: from $AUTOHETE_PLUGIN_DIR if set, otherwise from ../runtime/device/<name> (a build
 * tree) or ../lib/autohete (installed), both relative to the running program's folder. AH_E_MISSING if there is no such
 * file or the loader fails (its message is in the error), AH_E_MISMATCH for another ABI, AH_E_USAGE for a bad name. The
 * driver is *borrowed* until the process ends. */
int ah_plugin_load(const char *name, const struct ah_device_driver **ret_driver, struct ah_error *err);

#endif
