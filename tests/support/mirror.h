/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirror: a device around another device. The host can read and write its device arena as on the CPU device, so the
 * same tests of ops run on both. Each op outside the host lane copies the whole arena up before and down after. So
 * arenas should be a few MiB, and such an op is done when submit returns. Ops of the host lane just pass through.
 *
 *     ah_device_open(&device, mirror_driver(inner), &options, err);
 */
#ifndef AH_TESTS_SUPPORT_MIRROR_H
#define AH_TESTS_SUPPORT_MIRROR_H

#include "runtime/device/device.h"

/* Returns the mirror's driver. All mirrors of a program have the same inner driver. */
const struct ah_device_driver *mirror_driver(const struct ah_device_driver *inner);

#endif
