/* SPDX-License-Identifier: Apache-2.0
 *
 * Retime: orders of the lanes from durations that a run has measured, in place of those that its plan was made with. What
 * blocks do, where everything lies and what compute does in which order stay: only the lists of the other lanes change.
 *
 *     struct ah_retimed retimed;
 *     rc = ah_retime(plan, measured_us, &arena, &retimed, err);
 *     if (!rc && retimed.after_us < retimed.before_us)
 *         ... go on by retimed.lanes ...
 *
 * A measured duration is that of an op beside what ran at the same time, and `sharing` on the virtual clock slows ops that
 * run at the same time: what they would take alone is sought, such that the plan's lists, run on the clock, take as long as
 * was measured.
 */
#ifndef AH_RUNTIME_SCHEDULE_RETIME_H
#define AH_RUNTIME_SCHEDULE_RETIME_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/plan.h"

struct ah_retimed {
    struct ah_plan_lanes
        lanes; /* in the arena; compute's are the plan's. The plan's own where rings are too small for others */
    double *op_us;              /* in the arena, by op: all tiles, alone */
    double before_us, after_us; /* periods with these times: by the plan's lists, and by `lanes` */
};

/* `plan` was read from a document, or emitted; `measured_us`: by op, all tiles. AH_E_USAGE: a time that is negative or not
 * finite; errors of ah_replay_run(). */
int ah_retime(const struct ah_plan *plan, const double *measured_us, struct ah_arena *arena,
              struct ah_retimed *ret_retimed, struct ah_error *err);

#endif
