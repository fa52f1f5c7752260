/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples during a run: after a save, 'autohete sample' shows what the saved model says, as a process on the CPU, since
 * the run has the device's memory.
 */
#ifndef AH_CLI_RUN_RUN_SAMPLES_H
#define AH_CLI_RUN_RUN_SAMPLES_H

#include "cli/frame/cli.h"
#include "runtime/run/run.h"

struct ah_run_samples {
    struct ah_cli *cli;
    struct ah_option_integer every; /* steps; not given: each save */
    const char *path;               /* of the file of prompts, one a line; NULL: no samples */
    const char **prompts;           /* in the arena */
    size_t n;
};

/* Reads the prompts. Without '--save-every', the run will save when samples are due. AH_E_USAGE: options that do not
 * fit each other, or no prompt. Errors of ah_file_read(). */
int ah_run_samples_open(struct ah_run_samples *samples, struct ah_run_options *options, struct ah_error *err);

/* Shows the samples of the checkpoint, if they are due after this step. `base` is an adapter's base model, or NULL.
 * What fails is told; the run goes on. */
void ah_run_samples_show(const struct ah_run_samples *samples, uint64_t step, uint64_t last_step,
                         const char *base, const char *checkpoint);

#endif
