/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs: each is defined in its own file, verb_<name>.c; main.c has the table of all.
 */
#ifndef AH_CLI_VERBS_H
#define AH_CLI_VERBS_H

#include "cli/frame/cli.h"

extern const struct ah_verb ah_verb_profile;
extern const struct ah_verb ah_verb_plan;
extern const struct ah_verb ah_verb_inspect;
extern const struct ah_verb ah_verb_cluster;
extern const struct ah_verb ah_verb_recover;
extern const struct ah_verb ah_verb_simulate;
extern const struct ah_verb ah_verb_tokenize;
extern const struct ah_verb ah_verb_finetune;
extern const struct ah_verb ah_verb_run;
extern const struct ah_verb ah_verb_merge;
extern const struct ah_verb ah_verb_sample;
extern const struct ah_verb ah_verb_status;
extern const struct ah_verb ah_verb_report;
extern const struct ah_verb ah_verb_compare;
extern const struct ah_verb ah_verb_check;
extern const struct ah_verb ah_verb_diff;
extern const struct ah_verb ah_verb_export;
extern const struct ah_verb ah_verb_schema;
extern const struct ah_verb ah_verb_doctor;
extern const struct ah_verb ah_verb_completion;
extern const struct ah_verb ah_verb_help;

#endif
