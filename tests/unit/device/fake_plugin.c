/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin whose driver does nothing; compiling with a FAKE_* definition gives the plugin one fault.
 */
#include "runtime/device/device_plugin.h"

#if defined(FAKE_OTHER_ABI)
#define ABI (AH_DEVICE_ABI + 1)
#else
#define ABI AH_DEVICE_ABI
#endif

#if defined(FAKE_OTHER_LAYOUT)
#define LAYOUT (AH_DEVICE_LAYOUT + 1)
#else
#define LAYOUT AH_DEVICE_LAYOUT
#endif

#if defined(FAKE_NO_SYMBOL)
#define ENTRY ah_plugin_other
#else
#define ENTRY ah_plugin_driver
#endif

__attribute__((visibility("default"))) const struct ah_device_driver *ENTRY(void);

const struct ah_device_driver *ENTRY(void)
{
    static const struct ah_device_driver driver = {.abi = ABI, .layout = LAYOUT, .name = "fake"};
#if defined(FAKE_NO_DRIVER)
    (void)driver;
    return NULL;
#else
    return &driver;
#endif
}
