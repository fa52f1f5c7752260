/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the plugin as built. It is loaded as the program does, on whatever machine runs the test.
 */
#include "runtime/device/device_plugin.h"
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 64 };

static const struct ah_device_driver *load(void)
{
    const struct ah_device_driver *driver = NULL;
    struct ah_error err = {0};
    CHECK_OK(ah_plugin_load("cuda", &driver, &err), err);
    return driver;
}

TEST(plugin, has_this_abi)
{
    const struct ah_device_driver *driver = load();
    assert_int_equal(driver->abi, AH_DEVICE_ABI);
    assert_int_equal(driver->layout, AH_DEVICE_LAYOUT);
    assert_string_equal(driver->name, "cuda");
}

static void check_device(const struct ah_device_info *info)
{
    assert_int_equal(info->kind, AH_DEVICE_CUDA);
    assert_true(info->name[0] && memchr(info->name, 0, sizeof info->name));
    assert_true(info->memory_bytes > 0 && info->free_bytes <= info->memory_bytes);
    for (size_t op = 0; op < sizeof info->supports / sizeof info->supports[0]; op++)
        assert_int_equal(info->supports[op], op < AH_OP_KINDS);
}

/* With a GPU, the plugin describes it. Without one, the error says what is missing and what to do. */
TEST(plugin, lists_gpus_or_says_why_not)
{
    static struct ah_device_info infos[DEVICES];
    struct ah_error err = {0};
    size_t n = 0;
    int rc = load()->probe(infos, DEVICES, &n, &err);
    if (rc) {
        print_message("%s\n", err.text);
        assert_int_equal(rc, AH_E_MISSING);
        assert_int_equal(err.code, rc);
        assert_int_equal(n, 0);
    }
    if (access("/proc/driver/nvidia/version", F_OK))
        check_text_has(err.text, "install");
    for (size_t i = 0; i < n && i < DEVICES; i++) {
        print_message("%s, %llu of %llu bytes free\n", infos[i].name, (unsigned long long)infos[i].free_bytes,
                      (unsigned long long)infos[i].memory_bytes);
        check_device(&infos[i]);
    }
    assert_true(rc || n > 0);
}

/* Opening a device that does not exist gives the error of listing devices, or an error that says how many there are. */
TEST(plugin, does_not_open_what_is_not_there)
{
    const struct ah_device_options options = {.index = DEVICES};
    struct ah_device *device = NULL;
    struct ah_error err = {0};
    assert_int_equal(ah_device_open(&device, load(), &options, &err), AH_E_MISSING);
    print_message("%s\n", err.text);
    assert_true(err.text[0]);
    assert_null(device);
}
