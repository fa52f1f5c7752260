/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserve: device memory that a run needs outside its arena, for ops that need more memory than their operands.
 * Planner, check and tests all use it.
 *
 * The CPU device packs the operands of its products. Each thread of the compute lane has its own memory for packing.
 * Its size follows from the job's ops and the number of threads on any processor (device/tile/blocking.h,
 * device/math/workspace.h). The profile of a GPU has its reserve, since its workspaces have fixed sizes.
 */
#ifndef AH_RUNTIME_SCHEDULE_RESERVE_H
#define AH_RUNTIME_SCHEDULE_RESERVE_H

#include "base/error.h"
#include "runtime/schedule/job.h"

/* Sets `ret_bytes` to an upper bound of the job's reserve under any plan, on a device of this kind whose compute lane
 * has `threads` threads. It is 0 for a GPU. AH_E_DOCUMENT as ah_program_build(), AH_E_MEMORY. */
int ah_reserve_find(const struct ah_job *job, enum ah_device_kind kind, uint64_t threads, uint64_t *ret_bytes,
                    struct ah_error *err);

#endif
