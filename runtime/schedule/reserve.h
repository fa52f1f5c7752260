/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserve: the memory of a device that a run takes beside its arena: what ops need beyond their operands, and what the
 * device keeps for itself. Planner, check and tests ask the same function.
 *
 * The CPU device packs what it multiplies, each thread of its compute lane in memory of its own. How much follows from
 * the job's ops and the threads (device/tile/blocking.h, device/math/workspace.h), on any processor. A GPU's is what its
 * profile measured: its workspaces have fixed sizes.
 */
#ifndef AH_RUNTIME_SCHEDULE_RESERVE_H
#define AH_RUNTIME_SCHEDULE_RESERVE_H

#include "base/error.h"
#include "runtime/schedule/job.h"

/* What the ops of the job's programs, whatever a plan decides, need on a device of this kind with so many threads of
 * the compute lane: never less than the device takes. 0 for a GPU. AH_E_DOCUMENT as ah_program_build(), AH_E_MEMORY. */
int ah_reserve_find(const struct ah_job *job, enum ah_device_kind kind, uint64_t threads, uint64_t *ret_bytes,
                    struct ah_error *err);

#endif
