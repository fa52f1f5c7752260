/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks in a run log: fills in each rank's prediction for the first line, and its measurements for the last line.
 */
#ifndef AH_RUN_RUN_MEASURED_H
#define AH_RUN_RUN_MEASURED_H

#include "runtime/run/run.h"
#include "schemas/cluster_plan.h"

/* Predicts a steady step of each rank, as simulated by the replay (planner/cluster/sim/cluster_replay.h) and tallied
 * like a measured step. The result is in `arena`. Errors of the replay; AH_E_MEMORY. */
int ah_run_measured_predict(const struct ah_cluster_plan *plan, struct ah_arena *arena,
                            struct ah_runlog_rank **ret_ranks, size_t *ret_n, struct ah_error *err);

/* Asks all ranks for their measurements, and stores them in `run`. Rank 0 calls it while nothing runs. Does nothing if
 * there is only one rank, or no step was done. */
int ah_run_measured_collect(struct ah_run *run, struct ah_error *err);

#endif
