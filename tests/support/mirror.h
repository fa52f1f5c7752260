/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirror: a device around another device. The host can read and write its device arena as on the CPU device, so tests
 * of ops run on either device. Each op outside the host lane copies the whole arena up before it and down after it, so
 * arenas should have a few MiB. Such an op is done when submit returns. Ops of the host lane are passed on unchanged.
 *
 *     ah_device_open(&device, mirror_driver(inner), &options, err);
 */
#ifndef AH_TESTS_SUPPORT_MIRROR_H
#define AH_TESTS_SUPPORT_MIRROR_H

#include "runtime/device/device.h"

/* Returns the mirror's driver. A program has one inner driver. */
const struct ah_device_driver *mirror_driver(const struct ah_device_driver *inner);

#endif
