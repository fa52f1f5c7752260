/* SPDX-License-Identifier: Apache-2.0
 *
 * Run resume: the settings, stored beside checkpoints, that a run needs to resume (schemas/resume.h). --resume reads
 * them for options that are not given; a run writes them before its first save and after each save.
 */
#ifndef AH_RUN_RUN_RESUME_H
#define AH_RUN_RUN_RESUME_H

#include "runtime/run/run.h"

/* Completes run->options from the folder in which the run's checkpoint was found. AH_E_USAGE: neither the options nor
 * the settings name the data. AH_E_DOCUMENT, AH_E_IO. */
int ah_run_resume_read(struct ah_run *run, struct ah_error *err);

/* Writes the settings into the folder of checkpoints. If that fails, only this file is lost, and a message says so. */
void ah_run_resume_write(struct ah_run *run);

/* True if both paths lead to one folder that exists. */
bool ah_run_resume_same_folder(const char *a, const char *b);

#endif
