/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/stall.h"

#include <stdio.h>
#include <unistd.h>

enum { PATIENCE_S = 60 };

/* Ends the process. Runs on the watching thread while another thread waits inside the device. No file must be flushed
 * or closed: logs are written line by line, and checkpoints are complete or absent. */
static void end_process(void *context, const struct ah_error *why)
{
    struct ah_cli *cli = context;
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr); /* erases the line of progress */
    int status = ah_cli_fail(cli, why);
    ah_cli_tell(
        cli, AH_CLI_NOTE,
        "this process ends, because work on a device that does not answer cannot be cancelled; saved "
        "checkpoints are intact. See 'dmesg' and 'nvidia-smi'; '--stall-after' sets how long to wait");
    fflush(stderr);
    _exit(status);
}

struct ah_device_watch ah_stall_watch(struct ah_cli *cli, const struct ah_option_real *after)
{
    return (struct ah_device_watch){.patience_s = after && after->given ? after->value : PATIENCE_S,
                                    .stalled = end_process,
                                    .context = cli};
}
