/* SPDX-License-Identifier: Apache-2.0
 *
 * Tally: adds up the records of a run's observer, to show how a step spends its time, compared with the plan.
 *
 *     rc = ah_tally_new(&tally, plan, err);
 *     ah_tally_begin(tally, ah_threads_now_ns());               // before each ah_trainer_run()
 *     ... observer's op:   ah_tally_op(tally, record);
 *     ... observer's step: step_us = ah_tally_step(tally, record);
 *     rc = ah_tally_end(tally, &arena, &end, err);      // medians, for the last line of the run log
 *     ah_tally_free(tally);
 *
 * All results are medians over steps. The first step is a warm-up, and is left out if there are others. Steps older
 * than the window are dropped. Only ah_tally_new() allocates; op and step allocate nothing, however long the run is.
 *
 * EXPOSED TIME is divided as in the plan (docs/planning.md). Whenever compute waited, the tally follows the chain of
 * last-finished dependencies backwards. It charges each lane for the time in which the lane's op in the chain could
 * work. If compute is idle but no other lane is to blame, the time is not exposed.
 *
 * A RANK also waits for other ranks: for neighbours that receive and send messages, for sums over pipelines, for the
 * gate. Its tally gets the ops of all lanes of its device. An iteration lasts from one end of compute to the next. The
 * tally divides it into work of compute, waits for other ranks, waits for lanes of the plan, and waits for nobody.
 *
 * One thread.
 */
#ifndef AH_RUNTIME_TRAIN_TALLY_H
#define AH_RUNTIME_TRAIN_TALLY_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/train/trainer.h"
#include "schemas/plan.h"
#include "schemas/runlog.h"

#include <stdint.h>

struct ah_tally;

/* Makes a tally for a plan, which stays borrowed until free. AH_E_DOCUMENT as ah_graph_read(); AH_E_MEMORY. */
int ah_tally_new(struct ah_tally **ret_tally, const struct ah_plan *plan, struct ah_error *err);

/* Call before a run of the drained trainer. Its first step starts at `now_ns`, on the host's monotonic clock. */
void ah_tally_begin(struct ah_tally *tally, uint64_t now_ns);

void ah_tally_op(struct ah_tally *tally, const struct ah_op_record *record);

/* Call after the ops of the step. Returns the time of the step in us. */
double ah_tally_step(struct ah_tally *tally, const struct ah_step_record *record);

/* Sets the measured fields of `end` and no others; none if no step was done. Lists are in `arena`: parts by lane, the
 * longest first. */
int ah_tally_end(struct ah_tally *tally, struct ah_arena *arena, struct ah_runlog_end *end,
                 struct ah_error *err);

/* Means for a rank's plan, over the middle half of the steps by time, so that parts add up to no more than the step.
 * They are sent between ranks as raw memory. */
enum { AH_TALLY_GATE = AH_DEVICE_LANES_ALL, AH_TALLY_WAITS };
struct ah_tally_rank {
    uint64_t steps; /* number of measured steps; if 0, or not a rank's plan, all fields are 0 */
    double step_us, compute_us;
    /* by device lane, then the gate: time for which compute waits for each */
    double waits_us[AH_TALLY_WAITS];
    double busy_us[AH_DEVICE_LANES_ALL];
};
void ah_tally_rank(struct ah_tally *tally, struct ah_tally_rank *ret_rank);

/* Sets the plan's prediction for the first line of the run log: the plan's own numbers, and the parts of a steady
 * iteration on the virtual clock. Lists are in `arena`. Errors of ah_replay_steady(). */
int ah_tally_predict(const struct ah_plan *plan, struct ah_arena *arena,
                     struct ah_runlog_predicted *ret_predicted, struct ah_error *err);

/* NULL is fine. */
void ah_tally_free(struct ah_tally *tally);

#endif
