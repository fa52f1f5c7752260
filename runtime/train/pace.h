/* SPDX-License-Identifier: Apache-2.0
 *
 * Pace: a rank whose ops and messages take the time that its program says (docs/distributed.md). Everything really runs, with the
 * bits that it always has; then its lane sleeps until its planned time is over. So the ranks of a plan for eight unequal machines
 * show on one how they wait for each other. A machine that needs longer than planned for the work itself cannot show it: such
 * ops are counted (ways.h).
 *
 * INVARIANTS, each as the concert (planner/cluster/concert.h) prices it
 * 1. An item of compute, h2d, d2h or host takes the time of its op, divided by its tiles, at the speed that its lane has beside those
 *    that work meanwhile. What no plan mentions, data and headers of steps, takes what it takes.
 * 2. An item begins when its waits are met, and not before the one before it in its lane should have ended: where a lane
 *    wakes up late, the next item makes up for that, up to SLACK_NS.
 * 3. A message begins when it was sent, its receive is posted, and the ways between two nodes are free; then it takes the time of
 *    its op, on both ends. A word before it says that its receive is posted, a time behind the word when it is there.
 * 4. A sum over pipelines begins when all its owners have come to it and all their ways are free, and takes the time of its
 *    segment, on all of them.
 * 5. The gate takes what it takes.
 *
 * Messages take their time whatever the other lanes do: their speeds are those of links.
 */
#ifndef AH_RUNTIME_TRAIN_PACE_H
#define AH_RUNTIME_TRAIN_PACE_H

#include "runtime/device/device.h"
#include "runtime/schedule/rounds.h"
#include "runtime/train/ways.h"

#include <pthread.h>

enum { PACE_SETS = 1 << AH_ROUNDS_LANES };

struct pace_lane {
    bool works;
    bool is_message; /* always at full speed */
    bool keen;       /* the thread sleeps precisely */
    double left_ns, speed;
    uint64_t since_ns; /* `left_ns` is of then */
    uint64_t ended_ns; /* when the item before should have ended, or did, if that was late */
};

struct pace {
    struct ah_ways *ways; /* borrowed; NULL: not paced */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* speeds */
    struct pace_lane lanes[AH_ROUNDS_LANES];
    double speeds[PACE_SETS][AH_ROUNDS_LANES];
    uint64_t sending;         /* the item of the lane `send` */
    struct ah_ways_use *uses; /* (2 pipelines) of a share that begins */
    size_t share;             /* the next one of this rank; of the lane `sums` alone */
    uint64_t until_ns;        /* of the share under way */
    uint32_t asleep;          /* lanes; used atomically */
};

struct ah_trainer;

/* Nothing where the rank has no ways. Once rounds are read. AH_E_UNSUPPORTED: messages that take turns. */
int ah_pace_init(struct ah_trainer *t, struct ah_error *err);
void ah_pace_release(struct ah_trainer *t);

/* For the device; zeros where nothing is paced. */
struct ah_device_pace ah_pace_hooks(struct ah_trainer *t);

/* A message to or from a neighbour, in its time. Errors of ah_comm_move(). */
int ah_pace_move(struct ah_trainer *t, const struct ah_op_moved *moved, struct ah_error *err);

/* For the watch: changes while a lane sleeps. */
uint64_t ah_pace_pulse(const struct ah_trainer *t);

#endif
