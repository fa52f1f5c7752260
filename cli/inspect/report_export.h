/* SPDX-License-Identifier: Apache-2.0
 *
 * Report export: the curves of a run as a CSV file, and as an event file of TensorBoard.
 *
 * Either may be made again while the run goes on. The event file then keeps all bytes that it had, so a TensorBoard
 * that watches the folder goes on reading. Its clock begins when the file was first made, and then counts steps' times.
 */
#ifndef AH_CLI_INSPECT_REPORT_EXPORT_H
#define AH_CLI_INSPECT_REPORT_EXPORT_H

#include "base/error.h"
#include "schemas/runlog.h"

/* Writes a row for each step and each evaluation, under a header (RFC 4180). What a row lacks is empty. */
int ah_report_csv(const struct ah_runlog *runlog, const char *path, struct ah_error *err);

/* Writes DIR/events.out.tfevents.0000000000.autohete; makes DIR. AH_E_USAGE: that file is not one of ours. */
int ah_report_tensorboard(const struct ah_runlog *runlog, const char *folder, struct ah_error *err);

#endif
