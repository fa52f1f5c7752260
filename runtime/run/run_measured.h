/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks in a run log: the first line has each rank's prediction, the last line its measurements.
 */
#ifndef AH_RUN_RUN_MEASURED_H
#define AH_RUN_RUN_MEASURED_H

#include "runtime/run/run.h"
#include "schemas/cluster_plan.h"

/* Predicts a steady step of each rank, as the replay simulates it (planner/cluster/sim/cluster_replay.h), tallied like
 * a measured one. In `arena`. Errors of the replay; AH_E_MEMORY. */
int ah_run_measured_predict(const struct ah_cluster_plan *plan, struct ah_arena *arena,
                            struct ah_runlog_rank **ret_ranks, size_t *ret_n, struct ah_error *err);

/* Rank 0, while nothing runs: asks all ranks for their measurements and stores them in `run`. Does nothing if there is
 * only one rank or no step was done. */
int ah_run_measured_collect(struct ah_run *run, struct ah_error *err);

#endif
