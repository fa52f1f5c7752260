/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a plugin for messages, and checks that it belongs to this build (driver.h). NCCL is part of the CUDA plugin.
 */
#include "base/plugin.h"
#include "runtime/comm/driver.h"

#include <limits.h>
#include <string.h>

int ah_comm_load(const char *name, const struct ah_comm_driver **ret_driver, struct ah_error *err)
{
    /* Symbols are global in general: message libraries load more libraries, which look for these symbols. */
    const bool is_nccl = !strcmp(name, "nccl");
    const struct ah_plugin plugin = {is_nccl ? "cuda" : name, is_nccl ? "runtime/device" : "runtime/comm",
                                     AH_COMM_PLUGIN_SYMBOL, !is_nccl};
    char path[PATH_MAX];
    union {
        void *symbol;
        ah_comm_plugin_fn *function;
    } entry = {.symbol = NULL};
    int rc = ah_plugin_open(&plugin, &entry.symbol, path, err);
    if (rc == AH_E_MISMATCH && is_nccl)
        return ah_error_set(
            err, AH_E_MISSING,
            "this build's CUDA plugin has no NCCL, which moves messages between GPUs; build it where NCCL's "
            "header nccl.h is installed");
    if (rc)
        return rc;
    const struct ah_comm_driver *driver = entry.function();
    rc = ah_comm_check_driver(driver, path, err);
    if (rc)
        return rc;
    *ret_driver = driver;
    return AH_OK;
}
