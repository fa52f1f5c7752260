/* SPDX-License-Identifier: Apache-2.0
 *
 * Compare, measured: the plans of all policies train on the device in turn, so that drift affects all of them alike.
 *
 * In each round, every plan in turn is opened, trains its steps and is closed, so memory for one plan is enough. A
 * turn's first steps, which fill the lanes, and its last one, which empties them, are not counted. A sample is the mean
 * step time of a turn. Ratios compare turns of the same round. Each round begins with a different policy.
 *
 *     rc = ah_compare_measured_run(cli, rows, machine, &options, &measurement, err);
 */
#ifndef AH_CLI_COMPARE_COMPARE_MEASURED_H
#define AH_CLI_COMPARE_COMPARE_MEASURED_H

#include "base/stats.h"
#include "cli/frame/cli.h"
#include "planner/planner.h"
#include "schemas/machine.h"

struct ah_compare_measured_options {
    struct ah_option_list data; /* empty: synthetic tokens */
    const char *data_format;
    struct ah_option_integer steps;
    struct ah_option_integer rounds;
    struct ah_option_integer seed;
    const char *device;
};

/* The measurements of one policy. */
struct ah_compare_measured {
    struct ah_stats step_us;    /* mean step time of each turn; n 0: the policy has no plan */
    struct ah_stats to_optimal; /* n 0: optimal has no plan */
    uint64_t device_peak_bytes; /* highest byte touched by an op, plus the device's reserve */
    uint64_t host_peak_bytes;
};

/* Texts are in cli->arena. */
struct ah_compare_measurement {
    struct ah_compare_measured policies[AH_POLICIES];
    uint64_t rounds;
    uint64_t steps; /* number of counted steps in a turn */
    const char *device;
    bool synthetic_data;
    size_t signatures; /* number of different numeric signatures */
    const char *
        unlike; /* (optional) a policy with other losses than in its first round, or than an equal signature */
    uint64_t unlike_step; /* its first step with another loss */
};

/* Trains and measures the plans, made for `machine`. If its profile emulates a different machine, lanes are slowed to
 * that machine's rates. AH_E_USAGE names the option. Errors of ah_run_open() and ah_run_train(); AH_E_INTERRUPTED. */
int ah_compare_measured_run(struct ah_cli *cli, const struct ah_comparison rows[AH_POLICIES],
                            const struct ah_machine *machine,
                            const struct ah_compare_measured_options *options,
                            struct ah_compare_measurement *ret_measurement, struct ah_error *err);

#endif
