/* SPDX-License-Identifier: Apache-2.0
 *
 * Remarks on the device of a run that is open: products that its library lacks, and memory that holds more beside the
 * arena than the plan reckons with. They are warnings, and stand in the run log.
 */
#ifndef AH_CLI_RUN_DEVICE_H
#define AH_CLI_RUN_DEVICE_H

#include "cli/run.h"

/* Fills run->remarks, in cli->arena, and says them. */
int ah_run_device_remark(struct ah_run *run, struct ah_error *err);

#endif
