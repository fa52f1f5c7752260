/* SPDX-License-Identifier: Apache-2.0
 *
 * Untaught: tokens of the data that a base model never learned, though its tables of tokens are frozen.
 *
 * Some base models have rows of nearly zero for tokens that only their instruct variants use: Llama 3 for those of its
 * chat template. Adapters beside such rows can neither tell these tokens apart nor say them.
 */
#ifndef AH_RUN_RUN_UNTAUGHT_H
#define AH_RUN_RUN_UNTAUGHT_H

#include "runtime/run/run.h"

/* Warns if the run's data has a token whose row is nearly zero in a frozen table of the given weights: the embedding's
 * for any token, the head's for a token that bears loss. Reads a long data set in part. Data and signature must be set.
 * Errors are those of reading weights and data. */
int ah_run_warn_of_untaught(struct ah_run *run, struct ah_error *err);

#endif
