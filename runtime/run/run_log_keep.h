/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log, kept: decides how a resumed run continues the log of the run before it.
 *
 * The log is kept up to the checkpoint's step. The rest is removed: a cut line, the end line, and steps to be trained
 * again, with the same losses. If the log lacks steps, or was written with another plan or device, it cannot be
 * continued. It is then renamed to PATH.1 (or .2, ...), and a new log begins.
 */
#ifndef AH_RUN_RUN_LOG_KEEP_H
#define AH_RUN_RUN_LOG_KEEP_H

#include "runtime/run/run.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_run_log_kept {
    uint64_t bytes;     /* bytes of the file to be kept; 0: a new log begins */
    bool lacks_newline; /* the last kept line has no newline */
    /* nothing is added: the log has all steps and its end line, or is another plan's and no step is left */
    bool complete;
};

/* Decides what a resumed, open run keeps of a log. AH_E_MISMATCH: another run's; AH_E_DOCUMENT, AH_E_IO,
 * AH_E_MEMORY. */
int ah_run_log_keep(const struct ah_run *run, const char *path, struct ah_run_log_kept *ret_kept,
                    struct ah_error *err);

#endif
