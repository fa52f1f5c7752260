/* SPDX-License-Identifier: Apache-2.0
 *
 * Run resume: the settings beside checkpoints that a run needs to resume (schemas/resume.h). --resume reads them for
 * options that are not given; a run writes them before its first save and after each.
 */
#ifndef AH_CLI_RUN_RUN_RESUME_H
#define AH_CLI_RUN_RUN_RESUME_H

#include "cli/run/run.h"

/* Completes run->options from the folder in which the run's checkpoint was found. AH_E_USAGE: the data is neither given
 * nor stored there. AH_E_DOCUMENT, AH_E_IO. */
int ah_run_resume_read(struct ah_run *run, struct ah_error *err);

/* Writes the settings into the folder of checkpoints. A failure loses only this file, and a message says so. */
void ah_run_resume_write(struct ah_run *run);

#endif
