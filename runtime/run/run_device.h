/* SPDX-License-Identifier: Apache-2.0
 *
 * Remarks on the device of an open run. They warn of matrix products that the device's library lacks, and of more
 * device memory in use outside the arena than planned. They are printed as warnings, and are written to the run log.
 */
#ifndef AH_RUN_RUN_DEVICE_H
#define AH_RUN_RUN_DEVICE_H

#include "runtime/run/run.h"

/* Adds remarks to run->remarks, in the host's arena, and prints them. */
int ah_run_device_remark(struct ah_run *run, struct ah_error *err);

#endif
