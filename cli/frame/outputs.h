/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs: no verb overwrites what it reads, or a file of a kind that it does not write.
 *
 * The tables of options say which words of a command line are read and which are written (options.h). Before any verb
 * runs, the frame checks:
 *   1. No output is also read: as an operand, an option's file, a file of data or its `.mask` or `.docs`, or a file in
 *      a folder that is read. Files are compared, not names, so links do not matter.
 *   2. No two outputs are the same file.
 *   3. An existing output is a document of a kind that the verb writes, such as a plan that is made again, or `--force`
 *      is given. A log or a trace has measurements and always needs `--force`.
 *   4. The file can be made.
 * `-`, devices and pipes do not count as files.
 */
#ifndef AH_CLI_FRAME_OUTPUTS_H
#define AH_CLI_FRAME_OUTPUTS_H

#include "cli/frame/options.h"

/* What an output may replace: the `words` of its row are kinds of documents (`plan`), or the following. */
#define AH_OUTPUT_PAGE    "page"    /* an HTML page of a plan or a run */
#define AH_OUTPUT_TRACE   "trace"   /* a timeline for Perfetto */
#define AH_OUTPUT_CURVES  "curves"  /* a table of a run, as CSV */
#define AH_OUTPUT_EXPORT  "export"  /* a configuration of another system */
#define AH_OUTPUT_ANSWERS "answers" /* what a model says */

/* The row for `--force`; the options struct `type` has a bool `force`. */
#define AH_OUTPUT_FORCE_ROW(type)                                                                            \
    {                                                                                                        \
        "force", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(type, force),                                       \
            "replace an existing file, whatever it holds, except one that this command reads"                \
    }

/* Checks all outputs of a command line. AH_E_USAGE names both files; AH_E_IO: a file cannot be made; AH_E_MEMORY. */
int ah_outputs_check(const struct ah_option_syntax *syntax, const struct ah_arguments *arguments,
                     const void *options, struct ah_error *err);

/* Checks that a file can be made at `path`. Call it before long work. AH_E_IO: the text says why not. */
int ah_outputs_check_writable(const char *path, struct ah_error *err);

#endif
