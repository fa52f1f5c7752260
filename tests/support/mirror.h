/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirror: a device around another one, whose device arena the host can read and write, as it can the CPU device's: so
 * the same tests of ops run on both. Behind each op that reaches the device arena the whole of it is copied down, and
 * before it up, so it is for arenas of a few MiB, and such ops are done when submit returns. The host lane's go their
 * way.
 *
 *     ah_device_open(&device, mirror_driver(inner), &options, err);
 */
#ifndef AH_TESTS_SUPPORT_MIRROR_H
#define AH_TESTS_SUPPORT_MIRROR_H

#include "runtime/device/device.h"

/* One inner driver a program. */
const struct ah_device_driver *mirror_driver(const struct ah_device_driver *inner);

#endif
