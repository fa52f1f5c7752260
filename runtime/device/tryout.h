/* SPDX-License-Identifier: Apache-2.0
 *
 * Tryout: finds what a device reports only after use. That is which matrix products its library has, and how much
 * memory it needs outside its arena.
 *
 *     ah_device_open(&device, driver, &options, err);
 *     ah_device_tryout(device, err);       // small arenas, one product of each kind that a transformer makes
 *     device->info.products, device->info.outside_bytes
 *     ah_device_close(device);
 */
#ifndef AH_RUNTIME_DEVICE_TRYOUT_H
#define AH_RUNTIME_DEVICE_TRYOUT_H

#include "runtime/device/device.h"

/* Reserves small arenas; `device` must have none yet. Fails as ah_device_prepare() and ah_device_reserve() do. */
int ah_device_tryout(struct ah_device *device, struct ah_error *err);

/* Prints "cuBLASLt 13.0.0 has all 7 matrix products", or how many it computes in steps. Returns `ret_text`. */
enum { AH_TRYOUT_TEXT_MAX = 384 };
char *ah_device_print_products(const struct ah_device_info *info, char ret_text[AH_TRYOUT_TEXT_MAX]);

#endif
