/* SPDX-License-Identifier: Apache-2.0
 *
 * Cluster replay: the programs of all ranks of a cluster plan on one clock, tile by tile, in their frozen orders.
 *
 * The search times whole stages (stage_sim.h). The replay plays the work of each rank, using only the document. It
 * reads items and waits as the simulator and executors do (graph.h), and adds what no program contains: messages
 * between stages, and sums over pipelines. It plays several steps, one after another.
 *
 * INVARIANTS, checked by property.cluster.cluster_replay on the starts and ends reported to the listener:
 * 1. A lane does one item at a time, in its order. An item starts only after the waits of its program, and with a slot
 *    of its ring, its message, room for its output at the receiver, and its gate. At most two gradients wait at a
 *    stage. A stage receives nothing of a step before it has done the previous step.
 * 2. Between nodes a message takes the way out of one NIC and the way into the other. A sum over several nodes takes
 *    all ways of its owners' NICs. A way carries one message or sum at a time.
 * 3. Owners sum their segments in the order of the plan, one at a time. A sum starts when the gradients of all its
 *    owners are final: after the last backward or, if they are added up on the host, when the last tile has arrived.
 * 4. GATE. The norm of all gradients is known only when all passes of all stages, all gradients and all sums of the
 *    step are done. No update, no gradient sent for an update, and no norm starts before. A program that clips has a
 *    norm on its host lane, which costs nothing; its updates wait for it. A plan that does not clip has no gate: an
 *    update waits only for the sums of its block.
 * 5. Anything that can start, starts. At one instant all ends come first, then starts: lower stages before higher
 *    stages, stages before sums, sums from the highest block down.
 * 6. The step ends with its last item; fetches for the next step do not count.
 *
 * With nothing away, the replay agrees with the simulation, except that the latter does not limit waiting gradients.
 */
#ifndef AH_PLANNER_CLUSTER_SIM_CLUSTER_REPLAY_H
#define AH_PLANNER_CLUSTER_SIM_CLUSTER_REPLAY_H

#include "base/error.h"
#include "schemas/cluster_plan.h"

enum { AH_CLUSTER_REPLAY_STEPS = 3 };

/* An item of a stage's program, or a sum. */
struct ah_cluster_replay_span {
    bool sum;
    size_t of;     /* index of the stage over all pipelines, or of the segment */
    uint32_t item; /* item of the program */
    uint32_t step;
    double start_us, end_us;
};

struct ah_cluster_replay_listener {
    void (*tell)(void *context, const struct ah_cluster_replay_span *span); /* called at a span's end */
    void *context;
};

struct ah_cluster_replay_result {
    double step_us;   /* time of the first step, from an idle cluster */
    double period_us; /* from the end of the second step to the end of the third */
    uint64_t held;    /* number of gradients sent later because two others were waiting */
};

/* Plays a plan with programs. `listener` may be NULL. AH_E_DOCUMENT: programs and segments do not fit together; the
 * message says where. AH_E_MEMORY. */
int ah_cluster_replay(const struct ah_cluster_plan *plan, const struct ah_cluster_replay_listener *listener,
                      struct ah_cluster_replay_result *ret_result, struct ah_error *err);

/* Plays a plan and writes the result to `predicted`, if the plan has programs. Errors: as ah_cluster_replay(). */
int ah_cluster_replay_predict(struct ah_cluster_plan *plan, struct ah_error *err);

/* Checks the plan's predictions of a replay (0 without programs). AH_E_DOCUMENT: one is wrong, or cannot be
 * replayed. */
int ah_cluster_replay_check(const struct ah_cluster_plan *plan, struct ah_error *err);

#endif
