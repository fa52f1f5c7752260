/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/run/devices.h"

#include "runtime/device/device_plugin.h"

#include <stdlib.h>
#include <string.h>

const char *const ah_devices_words[] = {"cpu", "cuda", NULL};

/* Reads the number after a colon, if `name` has one. */
static int read_index(const char *name, size_t length, uint32_t *ret_index, struct ah_error *err)
{
    const char *digits = name + length + 1;
    if (!name[length])
        return AH_OK;
    if (!*digits || strlen(digits) > 4 || strspn(digits, "0123456789") != strlen(digits))
        return ah_error_set(err, AH_E_USAGE, "'%s' is not a device; write cpu, cuda or cuda:0", name);
    *ret_index = (uint32_t)strtoul(digits, NULL, 10);
    return AH_OK;
}

int ah_devices_find(const char *name, const struct ah_device_driver **ret_driver, uint32_t *ret_index,
                    struct ah_error *err)
{
    name = name ? name : ah_devices_words[0];
    size_t length = strcspn(name, ":");
    for (size_t i = 0; ah_devices_words[i]; i++) {
        const char *word = ah_devices_words[i];
        if (strlen(word) != length || memcmp(word, name, length) != 0)
            continue;
        const struct ah_device_driver *driver = ah_device_cpu();
        uint32_t index = 0;
        int rc = read_index(name, length, &index, err);
        if (!rc && i > 0)
            rc = ah_plugin_load(word, &driver, err);
        if (rc)
            return rc;
        *ret_driver = driver;
        *ret_index = index;
        return AH_OK;
    }
    return ah_error_set(err, AH_E_USAGE, "'%s' is not a device; write cpu, cuda or cuda:0", name);
}
