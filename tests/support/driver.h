/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver: the device for which a test of the interface is compiled. The same source is built for the CPU device and,
 * with CHECK_CUDA, for the plugin in AUTOHETE_PLUGIN_DIR, which runs on the tests' double or on the real CUDA.
 */
#ifndef AH_TESTS_SUPPORT_DRIVER_H
#define AH_TESTS_SUPPORT_DRIVER_H

#include "runtime/device/device_plugin.h"
#include "tests/support/check.h"
#include "tests/support/mirror.h"

#ifdef CHECK_CUDA

static inline const struct ah_device_driver *check_driver(void)
{
    const struct ah_device_driver *driver = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_plugin_load("cuda", &driver, &err), err);
    return driver;
}

/* Returns a driver of the same device whose device arena the host can read and write. */
static inline const struct ah_device_driver *check_readable_driver(void)
{
    return mirror_driver(check_driver());
}

#else

static inline const struct ah_device_driver *check_driver(void)
{
    return ah_device_cpu();
}

static inline const struct ah_device_driver *check_readable_driver(void)
{
    return ah_device_cpu();
}

#endif
#endif
