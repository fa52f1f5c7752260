/* SPDX-License-Identifier: Apache-2.0
 *
 * Run status: writes the file LOG.status beside a run's log, about once a second. It says what each rank is doing
 * (`autohete status`). If the log is no file, such as standard output or /dev/null, there is no status.
 *
 *     rc = ah_run_status_new(&status, run, &trainer_options, err);  // before the trainer is opened
 *     ah_run_status_begin(status);                                  // from now on it is written
 *     ah_run_status_warn(status); ...                               // now and then
 *     ah_run_status_end(status, rc);
 *     ah_run_status_free(status);                                   // after the trainer: writes how the run ended
 *
 * A separate thread writes, so a slow disk does not delay the run. If the file cannot be written, one warning is given.
 */
#ifndef AH_RUN_RUN_STATUS_H
#define AH_RUN_RUN_STATUS_H

#include "runtime/run/run.h"

struct ah_run_status;

/* Makes a status, and sets fields of `options` so that the trainer reports to it. `ret_status` is NULL if there is no
 * log or, with a warning, if a file of another kind has the status's name. AH_E_MEMORY; AH_E_FAILED: no thread. The
 * functions below accept NULL. */
int ah_run_status_new(struct ah_run_status **ret_status, struct ah_run *run,
                      struct ah_trainer_options *options, struct ah_error *err);

/* Makes the status visible. If a run fails before this call, there is no status, or that of an earlier run. */
void ah_run_status_begin(struct ah_run_status *status);

/* Warns once if the file cannot be written. Call it on the run's thread. */
void ah_run_status_warn(struct ah_run_status *status);

/* Notes how the run ended. Does nothing if it never began. */
void ah_run_status_end(struct ah_run_status *status, int rc);

void ah_run_status_free(struct ah_run_status *status);

#endif
