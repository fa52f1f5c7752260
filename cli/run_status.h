/* SPDX-License-Identifier: Apache-2.0
 *
 * Run status: LOG.status beside a run's log, replaced about once a second with where each rank is (`autohete status`). A log that is
 * no file, such as standard output or /dev/null, has none.
 *
 *     rc = ah_run_status_new(&status, run, &trainer_options, err);  // before the trainer is opened, which tells it
 *     ah_run_status_begin(status);                                  // from now on it is written
 *     ah_run_status_warn(status); ...                               // now and then
 *     ah_run_status_end(status, rc);
 *     ah_run_status_free(status);                                   // behind the trainer: writes how it ended
 *
 * A thread of its own writes, so that a slow disk holds up nobody. A file that cannot be written is one warning.
 */
#ifndef AH_CLI_RUN_STATUS_H
#define AH_CLI_RUN_STATUS_H

#include "cli/run.h"

struct ah_run_status;

/* `options` gets what the trainer needs to tell it; NULL where there is no log, or something else has the status's name, which is a
 * warning. AH_E_MEMORY, AH_E_FAILED: no thread. Functions below take NULL. */
int ah_run_status_new(struct ah_run_status **ret_status, struct ah_run *run,
                      struct ah_trainer_options *options, struct ah_error *err);

/* The run goes: what failed before leaves no status, or that of the run before. */
void ah_run_status_begin(struct ah_run_status *status);

/* On the thread of the run: says that it cannot be written, once. */
void ah_run_status_warn(struct ah_run_status *status);

/* How the run ended, once it began. */
void ah_run_status_end(struct ah_run_status *status, int rc);

void ah_run_status_free(struct ah_run_status *status);

#endif
