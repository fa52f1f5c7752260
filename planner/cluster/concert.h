/* SPDX-License-Identifier: Apache-2.0
 *
 * Concert: the programs of all ranks of a cluster plan on one clock, tile by tile, in their frozen orders.
 *
 * The rehearsal (rehearsal.h) times stages as wholes: it is what plans are searched by. The concert plays what ranks were
 * given to do, from the document alone: items and waits as the simulator and executors read them (rounds.h), beside them
 * what no program has, messages between stages and sums over pipelines. It plays several steps, each behind the one before.
 *
 * INVARIANTS, which property.cluster.concert holds against the starts and ends that are told:
 * 1. A lane does one item at a time, in its order. Nothing starts before what it waits for: the waits of its program, a
 *    place of its ring, what it is sent, a place for what it sends (at most two gradients wait at a stage; a stage is sent
 *    nothing of a step before the one before it is done there), its gate.
 * 2. Between nodes a message takes the way out of one NIC and the way into the other, a sum all ways of the NICs of its
 *    owners if these are in several nodes; a way is taken by one thing at a time.
 * 3. Owners take their segments in the order of the plan, one at a time. A sum starts when the gradients of all its
 *    owners are final: after the last backward, or, where they are added up on the host, when the last tile arrived.
 * 4. GATE. Nothing that updates, no gradient that leaves for an update, and no norm starts before all passes of all stages,
 *    all gradients and all sums of the step are done: the norm of all gradients is known only then. A program that clips has a
 *    norm on its host lane, which its updates wait for; it costs nothing. A plan that does not clip has no gate: what stands behind
 *    it waits for the sums of its block alone.
 * 5. What could start does. At one instant first everything ends that ends there; then things start, lower stages before
 *    higher ones, stages before sums, sums from the highest block down.
 * 6. The step ends with its last item; what is fetched for the step after it does not count.
 *
 * With nothing away all that is the rehearsal, but for places of gradients, which it leaves out.
 */
#ifndef AH_PLANNER_CLUSTER_CONCERT_H
#define AH_PLANNER_CLUSTER_CONCERT_H

#include "base/error.h"
#include "schemas/cluster_plan.h"

enum { AH_CONCERT_STEPS = 3 };

/* An item of a stage's program, or a sum. */
struct ah_concert_span {
    bool sum;
    size_t of;     /* the stage, counted through all pipelines; the segment */
    uint32_t item; /* of the program's rounds */
    uint32_t step;
    double start_us, end_us;
};

struct ah_concert_listener {
    void (*tell)(void *context, const struct ah_concert_span *span); /* at its end */
    void *context;
};

struct ah_concert_result {
    double step_us;   /* the first, from an idle cluster */
    double period_us; /* from the end of the second to that of the third */
    uint64_t held;    /* gradients that were sent later because two were waiting */
};

/* Plays a plan that has programs. `listener` (optional): NULL. AH_E_DOCUMENT: programs and segments that cannot be played
 * together, and where; AH_E_MEMORY. */
int ah_concert_play(const struct ah_cluster_plan *plan, const struct ah_concert_listener *listener,
                    struct ah_concert_result *ret_result, struct ah_error *err);

/* Plays a plan and says the result in `predicted`. Without programs nothing is said. The same errors. */
int ah_concert_predict(struct ah_cluster_plan *plan, struct ah_error *err);

/* Is what the plan says of it true, nothing where it has no programs? AH_E_DOCUMENT: it is not; the same errors. */
int ah_concert_check(const struct ah_cluster_plan *plan, struct ah_error *err);

#endif
