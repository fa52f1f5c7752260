/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete: the table of verbs, in the order in which help shows them.
 */
#include "cli/frame/cli.h"
#include "cli/verbs.h"

/* clang-format off */
static const struct ah_verb *const verbs[] = {
    &ah_verb_profile,
    &ah_verb_plan,
    &ah_verb_inspect,
    &ah_verb_simulate,
    &ah_verb_compare,
    &ah_verb_cluster,
    &ah_verb_recover,
    &ah_verb_tokenize,
    &ah_verb_finetune,
    &ah_verb_run,
    &ah_verb_merge,
    &ah_verb_sample,
    &ah_verb_status,
    &ah_verb_report,
    &ah_verb_check,
    &ah_verb_diff,
    &ah_verb_export,
    &ah_verb_schema,
    &ah_verb_doctor,
    &ah_verb_completion,
    &ah_verb_help,
    NULL,
};
/* clang-format on */

int main(int argc, char **argv)
{
    return ah_cli_main(verbs, argc, argv);
}
