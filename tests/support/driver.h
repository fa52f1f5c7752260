/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver: the device for which a test of the interface is compiled. The test's source is built for the CPU device. With
 * CHECK_CUDA it is built for the plugin in AUTOHETE_PLUGIN_DIR, which runs on the tests' double or on the real CUDA.
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

/* Returns the driver of this device, changed so that the host can read and write the device arena. */
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
