/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples during a run: after a save, 'autohete sample' shows what the saved model says, as a process on the CPU, since
 * the run has the device's memory. The run log keeps the answers. Other samples are added to a log that has ended.
 */
#ifndef AH_CLI_RUN_RUN_SAMPLES_H
#define AH_CLI_RUN_RUN_SAMPLES_H

#include "cli/frame/cli.h"
#include "runtime/run/run.h"
#include "runtime/run/run_log.h"

struct ah_run_samples {
    struct ah_cli *cli;
    struct ah_option_integer every; /* steps; not given: each save */
    const char *path;               /* of the file of prompts, one a line; NULL: no samples */
    const char **prompts;           /* in the arena */
    size_t n;
    struct ah_run_log *log; /* gets them */
    bool silent;            /* show nothing */
};

/* Reads the prompts. Without '--save-every', the run will save when samples are due. AH_E_USAGE: options that do not
 * fit each other, or no prompt. Errors of ah_file_read(). */
int ah_run_samples_open(struct ah_run_samples *samples, struct ah_run_options *options, struct ah_error *err);

/* Shows and logs the samples of the newest checkpoint, if they are due after the step of `run`. What fails is told; the
 * run goes on. */
void ah_run_samples_show(const struct ah_run_samples *samples, const struct ah_run *run, uint64_t step,
                         const char *checkpoint);

/* Adds the answers that 'autohete sample -o ANSWERS' wrote to the log at `path`, after the step; UINT64_MAX: the last
 * one. Nothing changes if the log has samples of that step, has no end, or begins later. AH_E_DOCUMENT, AH_E_IO. */
int ah_run_samples_add(struct ah_cli *cli, const char *path, const char *answers, uint64_t step,
                       struct ah_error *err);

#endif
