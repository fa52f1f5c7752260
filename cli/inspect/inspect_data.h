/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspect data: prints the numbers of tokens and documents, and two samples with marks on the learned tokens.
 */
#ifndef AH_CLI_INSPECT_INSPECT_DATA_H
#define AH_CLI_INSPECT_INSPECT_DATA_H

#include "cli/frame/cli.h"

#include <stdbool.h>

/* True if `word` names data: by its ending, as a pattern, or as a folder without a model or a checkpoint. */
bool ah_inspect_data_is(const char *word);

/* Shows data. `format` as in --data-format; NULL: decided by content and name. `tokenizer` (optional): a tokenizer.json
 * or its folder; without it, tokens are shown as ids. Errors of ah_dataset_open() and ah_tokenizer_load(). */
int ah_inspect_data(struct ah_cli *cli, const char *word, const char *format, const char *tokenizer,
                    struct ah_error *err);

#endif
