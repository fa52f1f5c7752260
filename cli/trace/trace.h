/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: timelines as Chrome trace events, for Perfetto and chrome://tracing: a simulated timeline, by itself or beside
 * the measured one of a run.
 *
 * Each lane is a track, and each item (a tile of an op) a complete event; another track shows iterations. A simulation
 * also shows memory by class as counters, and why compute waited: arrows lead back from item to item, up to an item
 * that was not late. Times are rounded to nanoseconds, events are in order of time, and events of a lane do not
 * overlap. Simulated timelines are labelled so.
 */
#ifndef AH_CLI_TRACE_TRACE_H
#define AH_CLI_TRACE_TRACE_H

#include "cli/frame/cli.h"
#include "runtime/device/device.h"
#include "runtime/schedule/replay.h"

/* What a lane did, in ns since the measured timeline's zero. */
struct ah_trace_slice {
    size_t op; /* index in the plan; SIZE_MAX: work of no op, such as a batch's data */
    uint64_t tile;
    uint64_t step; /* the step in whose iteration the slice is */
    enum ah_plan_lane lane;
    uint64_t first_ticket, last_ticket; /* tickets of its ops */
    int64_t start_ns, end_ns;
};

/* A kernel, a copy or a fill, as the device recorded it. Activities of a lane are in order of time, without overlap. */
struct ah_trace_activity {
    const struct ah_device_activity *activity;
    const struct ah_trace_slice *slice; /* the slice in which it ran; NULL: not known */
    int64_t start_ns, end_ns;           /* as in slices */
};

struct ah_trace_step {
    uint64_t step;
    int64_t start_ns, end_ns; /* when the step's compute began and ended */
};

struct ah_trace_measured {
    const struct ah_trace_slice *slices;
    size_t n_slices;
    const struct ah_trace_activity *activities; /* (optional) */
    size_t n_activities;
    const struct ah_trace_step *steps;
    size_t n_steps;
};

/* Writes every iteration of `replay`, a replay of `plan`, to `path` (`-`: standard output, through cli->out). AH_E_IO
 * names the path, and the file is unchanged. Four iterations or more include two steady ones. */
int ah_trace_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                   const struct ah_replay *replay, struct ah_error *err);

/* The same with two processes, "predicted (simulated)" and "measured". It shows as many steps of the replay as were
 * measured (1 if none was): the last complete ones, starting at time 0. */
int ah_trace_write_both(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                        const struct ah_replay *replay, const struct ah_trace_measured *measured,
                        struct ah_error *err);

#endif
