/* SPDX-License-Identifier: Apache-2.0
 *
 * Compare, measured: the plans of all policies train on the device in turns, so that drift affects all alike.
 *
 * In each round, every plan in turn is opened, trains its steps and is closed, so memory for one plan is enough. The
 * first steps of a turn, which fill the lanes, and the last one, which empties them, are not counted. A sample is the
 * mean step time of a turn. Ratios compare turns of the same round. Each round begins with a different policy.
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
    struct ah_stats step_us;    /* mean step of each turn; n is 0 if the policy has no plan */
    struct ah_stats to_optimal; /* n 0: optimal has no plan */
    uint64_t device_peak_bytes; /* up to the highest byte that an op touched, plus the device's reserve */
    uint64_t host_peak_bytes;
};

/* Texts are in cli->arena. */
struct ah_compare_measurement {
    struct ah_compare_measured policies[AH_POLICIES];
    uint64_t rounds;
    uint64_t steps; /* counted steps of a turn */
    const char *device;
    bool synthetic_data;
    size_t signatures; /* how many different numeric signatures the plans have */
    const char *
        unlike; /* NULL, or a policy whose losses differ from an earlier round's, or from an equal signature's */
    uint64_t unlike_step; /* the first step with a different loss */
};

/* AH_E_USAGE names the option. Errors of ah_run_open() and ah_run_train(); AH_E_INTERRUPTED. The plans were made for
 * `machine`; if its profile emulates a different machine, lanes are slowed to that one's rates. */
int ah_compare_measured_run(struct ah_cli *cli, const struct ah_comparison rows[AH_POLICIES],
                            const struct ah_machine *machine,
                            const struct ah_compare_measured_options *options,
                            struct ah_compare_measurement *ret_measurement, struct ah_error *err);

#endif
