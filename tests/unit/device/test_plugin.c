/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests loading correct plugins, and plugins with one fault each. extra.cmake builds them and sets
 * AUTOHETE_PLUGIN_DIR.
 */
#include "runtime/device/device_plugin.h"

#include "tests/support/check.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(plugin, loads_its_driver)
{
    struct ah_error err = {0};
    const struct ah_device_driver *driver = NULL;
    CHECK_OK(ah_plugin_load("good", &driver, &err), err);
    assert_string_equal(driver->name, "fake");
}

TEST(plugin, says_what_is_wrong)
{
    char interfaces[64];
    snprintf(interfaces, sizeof interfaces, "device interface %d, but this program has %d", AH_DEVICE_ABI + 1,
             AH_DEVICE_ABI);
    const struct {
        const char *name;
        int code;
        const char *text;
    } rows[] = {
        {"other_abi", AH_E_MISMATCH, interfaces},
        {"other_layout", AH_E_MISMATCH, "has struct layout"},
        {"no_symbol", AH_E_MISMATCH, "no symbol 'ah_plugin_driver'"},
        {"no_driver", AH_E_MISSING, "provides no driver"},
        {"garbage", AH_E_MISSING, "cannot be loaded: "},
        {"absent", AH_E_MISSING, "libautohete_absent.so'; build or install it"},
        {"../good", AH_E_USAGE, "'../good' is not a valid name"},
        {"", AH_E_USAGE, "is not a valid name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_error err = {0};
        const struct ah_device_driver *driver = NULL;
        CHECK_FAILS(ah_plugin_load(rows[i].name, &driver, &err), err, rows[i].code, rows[i].text);
        assert_null(driver);
    }
}

/* A refused plugin stays in memory, because libraries loaded with it may have started threads. */
TEST(plugin, is_never_unmapped)
{
    struct ah_error err = {0};
    const struct ah_device_driver *driver = NULL;
    char path[PATH_MAX];
    CHECK_FAILS(ah_plugin_load("other_abi", &driver, &err), err, AH_E_MISMATCH, "device interface");
    snprintf(path, sizeof path, "%s/libautohete_other_abi.so", getenv("AUTOHETE_PLUGIN_DIR"));
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    dlclose(library);
}

TEST(plugin, is_looked_for_beside_the_program)
{
    struct ah_error err = {0};
    const struct ah_device_driver *driver = NULL;
    char *before = strdup(getenv("AUTOHETE_PLUGIN_DIR"));
    unsetenv("AUTOHETE_PLUGIN_DIR");
    CHECK_FAILS(ah_plugin_load("good", &driver, &err), err, AH_E_MISSING,
                "/../lib/autohete/libautohete_good.so");
    setenv("AUTOHETE_PLUGIN_DIR", before, 1);
    free(before);
}
