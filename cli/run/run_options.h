/* SPDX-License-Identifier: Apache-2.0
 *
 * Run options: rows of option tables for verbs that train, and checks that need only the command line.
 *
 *     struct run_options { struct ah_run_options run; ... };                       // run comes first
 *     static const struct ah_option table[] = {AH_RUN_DATA_OPTIONS, ...};
 *     rc = ah_run_options_check(&options->run, plan, err);                         // before ah_run_open()
 */
#ifndef AH_CLI_RUN_RUN_OPTIONS_H
#define AH_CLI_RUN_RUN_OPTIONS_H

#include "cli/frame/options.h"
#include "runtime/run/devices.h"
#include "runtime/run/run.h"

#define AH_RUN_FIELD(name) offsetof(struct ah_run_options, name)

/* The rows for data and device, for an options struct that begins with a struct ah_run_options. */
/* clang-format off */
#define AH_RUN_DATA_OPTIONS                                                                                  \
    {"data", 0, AH_OPTION_FILES, "PATH", NULL, AH_RUN_FIELD(data),                                           \
     "train on this: a token file, a folder of them, or a pattern; can be given several times"},             \
    {"data-format", 0, AH_OPTION_WORD, "FORMAT", ah_run_words_format, AH_RUN_FIELD(data_format),             \
     "format of the files (default auto: detected from content and name)"},                                  \
    {"device", 0, AH_OPTION_TEXT, "DEVICE", ah_devices_words, AH_RUN_FIELD(device),                          \
     "the device to train on, with an index if there are several (cuda:1); default the plan's kind"},     \
    {"emulate", 0, AH_OPTION_FILE, "MACHINE", NULL, AH_RUN_FIELD(emulate),                                   \
     "slow the copy and host lanes to the ratios of this machine document, or to the exact rates of a "      \
     "profile that emulates one"},                                                                           \
    {"seed", 0, AH_OPTION_COUNT, "N", NULL, AH_RUN_FIELD(seed),                                              \
     "seed of everything random: initial weights, data order, rounding (default 0)"}
/* clang-format on */

/* The rows for running a cluster plan, for an options struct with `local`, `pace` and `hosts`. */
/* clang-format off */
#define AH_RUN_RANKS_ROWS(options)                                                                           \
    {"local", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(options, local),                                       \
     "for a cluster plan: run all ranks on this machine, as threads"},                                       \
    {"pace", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(options, pace),                                         \
     "for a cluster plan with all ranks on one machine: make every op and message take its planned time, "   \
     "to check the planned step"},                                                                           \
    {"hosts", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(options, hosts),                                     \
     "for a cluster plan: start a process for each rank with mpirun on these hosts, one a line: name slots=N"}
/* clang-format on */

/* Checks that the options agree with each other and with the plan, and that '--weights' is a folder of weights.
 * AH_E_USAGE, AH_E_IO; AH_E_MISMATCH: the plan's machine does not exist. */
int ah_run_options_check(const struct ah_run_options *options, const struct ah_plan *plan,
                         struct ah_error *err);

#endif
