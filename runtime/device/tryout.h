/* SPDX-License-Identifier: Apache-2.0
 *
 * Tryout: what a device says of itself only when it is used: which matrix products its library has, and what its memory
 * holds beside an arena.
 *
 *     ah_device_open(&device, driver, &options, err);
 *     ah_device_tryout(device, err);       // small arenas, one product of each kind that a transformer makes
 *     device->info.products, device->info.beside_bytes
 *     ah_device_close(device);
 */
#ifndef AH_RUNTIME_DEVICE_TRYOUT_H
#define AH_RUNTIME_DEVICE_TRYOUT_H

#include "runtime/device/device.h"

/* `device` has no arenas yet; afterwards it has. Errors of ah_device_prepare() and ah_device_reserve(). */
int ah_device_tryout(struct ah_device *device, struct ah_error *err);

/* "all 7 matrix products by cuBLASLt 13.0.0", or which of them are made in steps. Returns `ret_text`. */
enum { AH_TRYOUT_TEXT_MAX = 384 };
char *ah_device_print_products(const struct ah_device_info *info, char ret_text[AH_TRYOUT_TEXT_MAX]);

#endif
