/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs: no verb overwrites what it reads, nor a file that it would not make itself.
 *
 * The tables of options say which words of a command line are read and which are written (options.h). Before a verb runs,
 * the frame asks here, once for all verbs:
 *   1. No output is a file that is read: an operand, an option's file, a file of data or its `.mask` or `.docs`, a file
 *      in a folder that is read; whatever name it has, links included.
 *   2. No two outputs are one file.
 *   3. An output that is there already is a document of the kind that the verb writes, which is replaced (a plan that is
 *      planned again); or `--force` is given. A log or a trace was measured once: it always needs `--force`.
 *   4. A file can be made there.
 * `-`, devices and pipes are no files.
 */
#ifndef AH_CLI_OUTPUTS_H
#define AH_CLI_OUTPUTS_H

#include "cli/options.h"

/* What an output replaces, as `words` of its row: words of documents (`plan`), or these. */
#define AH_OUTPUT_PAGE   "page"   /* an HTML page of a plan */
#define AH_OUTPUT_TRACE  "trace"  /* a timeline for Perfetto */
#define AH_OUTPUT_EXPORT "export" /* a configuration of another system */

/* A table's row of `--force`, whose field is a bool of the options struct `type`. */
#define AH_OUTPUT_FORCE_ROW(type)                                                                            \
    {                                                                                                        \
        "force", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(type, force),                                       \
            "replace a file that is there, whatever it holds; never one that is read"                        \
    }

/* `options` and `arguments` were read by `syntax`. AH_E_USAGE names both sides; AH_E_IO: a file cannot be made; AH_E_MEMORY. */
int ah_outputs_check(const struct ah_option_syntax *syntax, const struct ah_arguments *arguments,
                     const void *options, struct ah_error *err);

/* Can a file be made at `path`? Asked before long work. AH_E_IO says why not. */
int ah_outputs_check_writable(const char *path, struct ah_error *err);

#endif
