/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: finds the device named by `--device NAME`, such as `cpu`, `cuda` or `cuda:1`.
 */
#ifndef AH_RUN_DEVICES_H
#define AH_RUN_DEVICES_H

#include "base/error.h"
#include "runtime/device/device.h"

#include <stdint.h>

/* The names of devices, without an index, the default first; NULL-terminated. */
extern const char *const ah_devices_words[];

/* Finds the driver and index of device `name` (NULL: the default), and loads the device's plugin if it has one.
 * AH_E_USAGE: `name` is no device; AH_E_MISSING and AH_E_MISMATCH from ah_plugin_load(). */
int ah_devices_find(const char *name, const struct ah_device_driver **ret_driver, uint32_t *ret_index,
                    struct ah_error *err);

#endif
