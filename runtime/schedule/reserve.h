/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserve: device memory that a run needs outside its arena, for ops that need more than their operands. Planner, check
 * and tests all ask this one function.
 *
 * The CPU device packs the operands of its products; each thread of the compute lane has its own memory for that. How
 * much follows from the job's ops and the number of threads (device/tile/blocking.h, device/math/workspace.h), on any
 * processor. A GPU's reserve was measured by its profile: its workspaces have fixed sizes.
 */
#ifndef AH_RUNTIME_SCHEDULE_RESERVE_H
#define AH_RUNTIME_SCHEDULE_RESERVE_H

#include "base/error.h"
#include "runtime/schedule/job.h"

/* Sets the bytes that the job's ops never exceed, under any plan, on a device of this kind with `threads` threads in
 * its compute lane. 0 for a GPU. AH_E_DOCUMENT as ah_program_build(), AH_E_MEMORY. */
int ah_reserve_find(const struct ah_job *job, enum ah_device_kind kind, uint64_t threads, uint64_t *ret_bytes,
                    struct ah_error *err);

#endif
