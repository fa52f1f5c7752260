/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a run: a cluster plan whose ranks are threads of this process. The run itself is rank 0: it reads, saves, logs and
 * tells; the others follow it (runtime/train/ranks.h), each with its own device, data and trainer.
 *
 *     rc = ah_run_ranks_new(&ranks, cluster_plan, err);
 *     options.ranks = ranks;
 *     rc = ah_run_open(&run, cli, ah_run_ranks_plan(ranks), &options, err);   // starts the others
 *     ...
 *     ah_run_close(&run);                                                     // and ends them
 *     ah_run_ranks_free(ranks);
 */
#ifndef AH_CLI_RUN_RANKS_H
#define AH_CLI_RUN_RANKS_H

#include "cli/run.h"
#include "schemas/cluster_plan.h"

struct ah_run_ranks;

/* `plan` is proven (proof.h) and stays borrowed. Errors of ah_world_init(). */
int ah_run_ranks_new(struct ah_run_ranks **ret_ranks, const struct ah_cluster_plan *plan,
                     struct ah_error *err);

/* Rank 0's program, whose step is said to take as long as the cluster's. */
const struct ah_plan *ah_run_ranks_plan(const struct ah_run_ranks *ranks);

/* Starts the others with the options of rank 0, and makes these those of a rank. The run's data are open. */
int ah_run_ranks_start(struct ah_run_ranks *ranks, const struct ah_run *run,
                       struct ah_trainer_options *options, struct ah_error *err);

/* Waits until all have ended; behind ah_trainer_close(). NULL is fine. */
void ah_run_ranks_end(struct ah_run_ranks *ranks);

/* A line for people: who has which blocks. */
void ah_run_ranks_print(const struct ah_run_ranks *ranks, struct ah_cli *cli, struct ah_buffer *out);

void ah_run_ranks_free(struct ah_run_ranks *ranks);

#endif
