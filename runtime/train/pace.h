/* SPDX-License-Identifier: Apache-2.0
 *
 * Pace: makes a rank's ops and messages take as long as its program says (docs/distributed.md). Everything really runs,
 * with the same bits; then the lane sleeps until the planned time is over. So one machine can show how ranks on eight
 * unequal machines would wait for each other. paced_nics.h counts the ops that take longer than planned.
 *
 * INVARIANTS. The replay (planner/cluster/sim/cluster_replay.h) has the same rules.
 * 1. An item of compute, h2d, d2h or host takes its op's time, divided by the op's tiles, at the speed that its lane
 *    has beside the other busy lanes. Data and headers of steps are not slowed down, since no plan mentions them.
 * 2. An item begins when all its waits are over, but not before the planned end of the previous item in its lane. If a
 *    lane wakes up late, the next item makes up for the delay, up to SLACK_NS.
 * 3. A message begins when it was sent, its receive is posted, and the NICs of the two nodes are free. It takes its
 *    op's time at both ends. First a word says that the receive is posted, then a time says when the message will end.
 * 4. A sum over pipelines begins when all owners have reached it and their NICs are free; it takes its segment's time.
 * 5. The gate is not slowed down.
 *
 * Other lanes do not slow messages down, because only links determine the speed of messages.
 */
#ifndef AH_RUNTIME_TRAIN_PACE_H
#define AH_RUNTIME_TRAIN_PACE_H

#include "runtime/device/device.h"
#include "runtime/schedule/graph.h"
#include "runtime/train/paced_nics.h"

#include <pthread.h>

enum { PACE_SETS = 1 << AH_PLAN_LANES };

struct pace_lane {
    bool works;
    bool is_message; /* runs a message, which is always at full speed */
    bool keen;       /* the thread has asked for precise timers */
    double left_ns, speed;
    uint64_t since_ns; /* when `left_ns` was the remaining time */
    uint64_t ended_ns; /* planned end of the previous item, or its real end if the item was late */
};

struct pace {
    struct ah_paced_nics *nics; /* borrowed; NULL: not paced */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when speeds change, so that sleepers compute their ends again */
    struct pace_lane lanes[AH_PLAN_LANES];
    double speeds[PACE_SETS][AH_PLAN_LANES];
    uint64_t sending;               /* item of the send in progress */
    struct ah_paced_nics_use *uses; /* uses of NICs by a share, while it begins; room for 2 x pipelines */
    size_t share;                   /* next share of this rank; used by the lane `sums` only */
    uint64_t until_ns;              /* end of the share in progress */
    uint32_t asleep;                /* number of sleeping lanes; used atomically */
};

struct ah_trainer;

/* Prepares pacing, once rounds are read. Does nothing without NICs. AH_E_UNSUPPORTED: messages take turns. */
int ah_pace_init(struct ah_trainer *t, struct ah_error *err);
void ah_pace_release(struct ah_trainer *t);

/* Returns hooks for the device; zeros if the rank is not paced. */
struct ah_device_pace ah_pace_hooks(struct ah_trainer *t);

/* Moves a message to or from a neighbour in its planned time. Errors of ah_comm_move(). */
int ah_pace_move(struct ah_trainer *t, const struct ah_op_moved *moved, struct ah_error *err);

/* Returns a number for the watch. It changes while a lane sleeps. */
uint64_t ah_pace_pulse(const struct ah_trainer *t);

#endif
