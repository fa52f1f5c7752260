/* SPDX-License-Identifier: Apache-2.0
 *
 * Stall: prints an error and ends the program if a device stops making progress (runtime/device/watch.h).
 */
#ifndef AH_CLI_RUN_STALL_H
#define AH_CLI_RUN_STALL_H

#include "cli/frame/cli.h"
#include "runtime/device/device.h"

/* The row for verbs that use a device; `offset` is that of a struct ah_option_real. */
/* clang-format off */
#define AH_STALL_OPTION(offset)                                                                              \
    {"stall-after", 0, AH_OPTION_REAL, "SECONDS", NULL, offset,                                              \
     "end with exit status 7 when the program waits and the device completes nothing for this long "         \
     "(default 60; 0: wait forever)"}
/* clang-format on */

/* Returns the watch for a device's options. `after` NULL or not given: 60 s. At a stall, the error is printed and the
 * process ends at once with AH_E_STALLED's status, because the waiting thread may never return from a driver. `cli` is
 * borrowed until the device is closed. */
struct ah_device_watch ah_stall_watch(struct ah_cli *cli, const struct ah_option_real *after);

#endif
