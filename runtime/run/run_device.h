/* SPDX-License-Identifier: Apache-2.0
 *
 * Remarks on the device of an open run: matrix products that its library lacks, or more device memory in use outside
 * the arena than the plan expects. They are printed as warnings, and kept in the run log.
 */
#ifndef AH_RUN_RUN_DEVICE_H
#define AH_RUN_RUN_DEVICE_H

#include "runtime/run/run.h"

/* Fills run->remarks, in the host's arena, and prints them. */
int ah_run_device_remark(struct ah_run *run, struct ah_error *err);

#endif
