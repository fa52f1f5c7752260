/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: timelines as Chrome trace events, which Perfetto and chrome://tracing show: a simulated one, or the measured one of
 * a run beside it.
 *
 * One track a lane, one complete event an item (a tile of an op) with what it is; a track of iterations. Of a simulation also
 * why items waited, with arrows along what compute waited for, back to where nothing was late, and memory by class as
 * counters. Times are rounded to nanoseconds, events are in the order of time, events of a lane do not overlap. What is
 * simulated says so.
 */
#ifndef AH_CLI_TRACE_H
#define AH_CLI_TRACE_H

#include "cli/cli.h"
#include "runtime/device/device.h"
#include "runtime/schedule/replay.h"

/* What a lane did, in ns since the measured timeline's zero. */
struct ah_trace_slice {
    size_t op; /* of the plan; SIZE_MAX: none, data */
    uint64_t tile;
    uint64_t step; /* whose iteration it is of */
    enum ah_plan_lane lane;
    uint64_t first_ticket, last_ticket; /* of its ops */
    int64_t start_ns, end_ns;
};

/* A kernel, a copy or a fill, as the device recorded it. Those of a lane are in the order of time and do not overlap. */
struct ah_trace_activity {
    const struct ah_device_activity *activity;
    const struct ah_trace_slice *slice; /* that it is of; NULL: not known */
    int64_t start_ns, end_ns;           /* as slices */
};

struct ah_trace_step {
    uint64_t step;
    int64_t start_ns, end_ns; /* of its compute */
};

struct ah_trace_measured {
    const struct ah_trace_slice *slices;
    size_t n_slices;
    const struct ah_trace_activity *activities; /* (optional) */
    size_t n_activities;
    const struct ah_trace_step *steps;
    size_t n_steps;
};

/* Writes every iteration of `replay`, which is of this plan, to `path` (`-`: standard output, through cli->out).
 * AH_E_IO names the path, where nothing was changed. Four iterations or more have two steady ones. */
int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err);

/* The same of two processes, "predicted (simulated)" and "measured". Of the replay it has as many steps as were measured (1
 * where none was), the last complete ones, from 0 on. */
int ah_trace_write_beside(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                          const struct ah_replay *replay, const struct ah_trace_measured *measured,
                          struct ah_error *err);

#endif
