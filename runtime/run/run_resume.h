/* SPDX-License-Identifier: Apache-2.0
 *
 * Run resume: reads and writes the settings beside checkpoints with which a run resumes (schemas/resume.h). They
 * replace options not given with --resume. A run writes them before its first save and after each save.
 */
#ifndef AH_RUN_RUN_RESUME_H
#define AH_RUN_RUN_RESUME_H

#include "runtime/run/run.h"

/* Completes run->options from the settings beside the checkpoint found. AH_E_USAGE: neither the options nor the
 * settings name the data. AH_E_DOCUMENT, AH_E_IO. */
int ah_run_resume_read(struct ah_run *run, struct ah_error *err);

/* Writes the settings into the folder of checkpoints. If that fails, a message says so, and the run continues. */
void ah_run_resume_write(struct ah_run *run);

/* Returns the absolute path, in the host's arena; `path` itself if that fails. */
const char *ah_run_resume_absolute(struct ah_run *run, const char *path);

/* True if both paths lead to one folder that exists. */
bool ah_run_resume_same_folder(const char *a, const char *b);

#endif
