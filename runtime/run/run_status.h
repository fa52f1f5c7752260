/* SPDX-License-Identifier: Apache-2.0
 *
 * Run status: the file LOG.status beside a run's log. About once a second a new version replaces it, which says where
 * each rank is (`autohete status`). A log that is no file, such as standard output or /dev/null, has no status.
 *
 *     rc = ah_run_status_new(&status, run, &trainer_options, err);  // before the trainer is opened, which feeds it
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

/* Sets fields of `options` so that the trainer reports to the status. `ret_status` is NULL if there is
 * no log, or if another kind of file has its name, with a warning. AH_E_MEMORY; AH_E_FAILED: no thread. Functions below
 * accept NULL. */
int ah_run_status_new(struct ah_run_status **ret_status, struct ah_run *run,
                      struct ah_trainer_options *options, struct ah_error *err);

/* The run has begun. A run that fails before this leaves no status, or the status of the run before. */
void ah_run_status_begin(struct ah_run_status *status);

/* On the run's thread: warns once if the file cannot be written. */
void ah_run_status_warn(struct ah_run_status *status);

/* Notes how the run ended, if it had begun. */
void ah_run_status_end(struct ah_run_status *status, int rc);

void ah_run_status_free(struct ah_run_status *status);

#endif
