/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run goes on with, beside its checkpoints (schemas/resume.h): read by --resume for what is not given anew,
 * and written before the first save and after each.
 */
#ifndef AH_CLI_RUN_RESUME_H
#define AH_CLI_RUN_RESUME_H

#include "cli/run.h"

/* Fills what the command line does not say into run->options, from the folder that the run's checkpoint was found
 * in. AH_E_USAGE: nothing says what to train on. AH_E_DOCUMENT, AH_E_IO. */
int ah_run_resume_read(struct ah_run *run, struct ah_error *err);

/* Writes it into the folder that is saved into. A failure costs nothing but this file: it is told. */
void ah_run_resume_write(struct ah_run *run);

#endif
