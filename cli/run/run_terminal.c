/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_terminal.h"

#include "cli/frame/input.h"

#include <unistd.h>

static void tell(void *context, enum ah_run_tone tone, const char *text)
{
    const struct ah_run_terminal *terminal = context;
    ah_cli_tell(terminal->cli, tone == AH_RUN_WARNING ? AH_CLI_WARNING : AH_CLI_NOTE, "%s", text);
}

static void show_check(void *context, double share)
{
    struct ah_run_terminal *terminal = context;
    if (share < 0)
        ah_terminal_erase(&terminal->progress);
    else
        ah_terminal_draw(&terminal->progress, share, "checking data");
}

void ah_run_terminal_init(struct ah_run_terminal *ret_terminal, struct ah_cli *cli)
{
    *ret_terminal = (struct ah_run_terminal){.cli = cli,
                                             .progress = ah_terminal_progress(),
                                             .host = {.arena = &cli->arena,
                                                      .tell = tell,
                                                      .checking = show_check,
                                                      .load = ah_input_load,
                                                      .output_closed = &cli->out_closed,
                                                      .attended = isatty(STDERR_FILENO),
                                                      .context = ret_terminal}};
}
