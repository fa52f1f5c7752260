/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a run: executes a cluster plan with threads of this process, or with processes started by a launcher. The
 * run itself is rank 0: it reads, saves, logs and prints. The other ranks follow it (runtime/train/follower.h).
 *
 *     rc = ah_run_ranks_new(&ranks, cluster_plan, local, err);
 *     if (!rc && !ah_run_ranks_leads(ranks))
 *         rc = ah_run_ranks_follow(ranks, err);                                // to the end of the run
 *     options.ranks = ranks;
 *     rc = ah_run_open(&run, &host, ah_run_ranks_plan(ranks), &options, err);   // also starts the other ranks
 *     ...
 *     ah_run_close(&run);                                                     // and ends the other ranks
 *     ah_run_ranks_free(ranks);                                               // once a failure has been reported
 */
#ifndef AH_RUN_RUN_RANKS_H
#define AH_RUN_RUN_RANKS_H

#include "runtime/run/run.h"
#include "schemas/cluster_plan.h"

struct ah_run_ranks;
struct ah_world;

/* True if a launcher (mpirun, srun) started this process. `ret_variable` is the environment variable that shows it. */
bool ah_run_ranks_launched(const char **ret_variable);

/* Returns the number of processes that the launcher started, this one among them; 1 if it does not say. */
uint64_t ah_run_ranks_started(void);

/* Returns the number of the plan's ranks that have work. */
uint64_t ah_run_ranks_of_plan(const struct ah_cluster_plan *plan);

/* Checks that this version can run the plan. Errors of ah_world_init(). */
int ah_run_ranks_check(const struct ah_cluster_plan *plan, struct ah_error *err);

/* Makes the ranks of `plan`, which is proven (proof.h) and stays borrowed. `local`: all are threads; else this
 * process joins its launcher's world. Errors of ah_world_init(), ah_comm_open(); AH_E_MISMATCH: its size;
 * AH_E_MISSING: no MPI. */
int ah_run_ranks_new(struct ah_run_ranks **ret_ranks, const struct ah_cluster_plan *plan, bool local,
                     struct ah_error *err);

/* Paces the run: ops and messages take as long as planned (runtime/train/pace.h). Call it before the start. */
void ah_run_ranks_pace(struct ah_run_ranks *ranks);
bool ah_run_ranks_paced(const struct ah_run_ranks *ranks);

/* Tells how many ops took longer than planned, if the run is paced. For rank 0, after the last step. NULL is fine. */
void ah_run_ranks_tell_pace(const struct ah_run_ranks *ranks, const struct ah_run_host *host);

/* True if this process is rank 0. */
bool ah_run_ranks_leads(const struct ah_run_ranks *ranks);

/* Returns the program of this process's rank. Rank 0's program has the cluster's step time. */
const struct ah_plan *ah_run_ranks_plan(const struct ah_run_ranks *ranks);

/* Returns the training of a whole step, over all pipelines. */
const struct ah_plan_training *ah_run_ranks_step(const struct ah_run_ranks *ranks);

/* Return the number of ranks, and the host and node of one (below that number), once ranks know each other. */
uint32_t ah_run_ranks_n(const struct ah_run_ranks *ranks);
const char *ah_run_ranks_host(const struct ah_run_ranks *ranks, uint32_t rank);
const char *ah_run_ranks_node(const struct ah_run_ranks *ranks, uint32_t rank);

/* Return the cluster plan, and the world, which has each rank's part. */
const struct ah_cluster_plan *ah_run_ranks_cluster_plan(const struct ah_run_ranks *ranks);
const struct ah_world *ah_run_ranks_world(const struct ah_run_ranks *ranks);

/* Does all work of a rank except 0. `watch`: what happens when its device stalls. Errors of ah_follower_run(). */
int ah_run_ranks_follow(struct ah_run_ranks *ranks, struct ah_device_watch watch, struct ah_error *err);

/* Starts the other ranks, and completes `options` for rank 0's trainer. Rank 0 calls it once its data are open. */
int ah_run_ranks_start(struct ah_run_ranks *ranks, const struct ah_run *run,
                       struct ah_trainer_options *options, struct ah_error *err);

/* Rank 0, after ah_run_ranks_end(): allows another ah_run_ranks_start(). AH_E_UNSUPPORTED, without a text: the ranks
 * are processes, which have ended. AH_E_MEMORY. */
int ah_run_ranks_renew(struct ah_run_ranks *ranks, struct ah_error *err);

/* Releases the other ranks after rank 0 ended or failed without a trainer. Follows ah_trainer_close(). NULL is fine. */
void ah_run_ranks_end(struct ah_run_ranks *ranks);

/* Tells ranks that wait for the start of the run why rank 0 failed; nothing if `rc` is AH_OK. NULL is fine. */
void ah_run_ranks_give_up(struct ah_run_ranks *ranks, int rc, const struct ah_error *why);

/* Tells, for each rank of this process, what it waited for when the world was lost, if it was. Call it after
 * ah_run_ranks_end() or ah_run_ranks_follow(). NULL is fine. */
void ah_run_ranks_tell_waits(const struct ah_run_ranks *ranks, const struct ah_run_host *host);

/* True if another rank's failure ended the run. The process of that rank reports it, so this one need not. */
bool ah_run_ranks_failed_elsewhere(const struct ah_run_ranks *ranks);

/* True if the ranks are threads of this process. */
bool ah_run_ranks_are_threads(const struct ah_run_ranks *ranks);

/* True if the best form of bf16 products differs between ranks. Then `ret_text` says which form is used. */
bool ah_run_ranks_products(const struct ah_run_ranks *ranks, char *ret_text, size_t bytes);

/* Leaves the world. If the world was lost, this may end the process. */
void ah_run_ranks_free(struct ah_run_ranks *ranks);

#endif
