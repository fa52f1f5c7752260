/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspect data: how many tokens and documents there are, and two samples in which what is learned is told from what is not.
 */
#ifndef AH_CLI_INSPECT_DATA_H
#define AH_CLI_INSPECT_DATA_H

#include "cli/cli.h"

#include <stdbool.h>

/* Does the word name data, by its ending, as a pattern, or as a folder that holds no model and no checkpoint? */
bool ah_inspect_data_is(const char *word);

/* `format` as of --data-format; NULL: decided by content and name. `tokenizer` (optional): a tokenizer.json or its folder;
 * without, tokens are shown as ids. The errors of ah_dataset_open() and ah_tokenizer_load(). */
int ah_inspect_data(struct ah_cli *cli, const char *word, const char *format, const char *tokenizer,
                    struct ah_error *err);

#endif
