/* SPDX-License-Identifier: Apache-2.0
 *
 * Input: how a word of the command line names a model, a machine or a cluster.
 *
 *     -                 standard input
 *     folder            the config.json in it: a model as Hugging Face saves it
 *     file              a document
 *     rtx4090-64g       a built-in document: a file of examples/models, machines or clusters, embedded in the program
 *                       under its name without `.json`
 *
 * A file or folder takes precedence over a built-in document of that name. A word with a slash is never built in.
 */
#ifndef AH_CLI_FRAME_INPUT_H
#define AH_CLI_FRAME_INPUT_H

#include "cli/frame/cli.h"
#include "schemas/document.h"

#include <stdbool.h>

/* The names of built-in documents, NULL-terminated. */
extern const char *const ah_input_models[];
extern const char *const ah_input_machines[];
extern const char *const ah_input_clusters[];

/* Reads the document named by `word`, as ah_document_load() does. With AH_DOCUMENT_ANY, `word` may also be a
 * checkpoint's folder, whose manifest is then read. AH_E_IO: there is no such file; the text lists built-in names. */
int ah_input_load(struct ah_document *ret_document, const char *word, enum ah_document_kind expected,
                  struct ah_error *err);

/* True for a folder of checkpoints. Then sets an error that names its newest, to be named instead. */
bool ah_input_is_checkpoints(const char *word, struct ah_error *err);

/* Warns if the adapter in `adapter` was trained beside other weights than those in `base`. Errors of reading either. */
int ah_input_check_base(struct ah_cli *cli, const char *adapter, const char *base, struct ah_error *err);

/* If `word` is not a file but looks like a model on the Hugging Face hub (ORGANISATION/MODEL), appends how to fetch the
 * model to the message. */
void ah_input_add_hub(const char *word, struct ah_error *err);

#endif
