/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log, kept: how a resumed run goes on with the log of the run before it.
 *
 * The log stays up to the step that the checkpoint has. What stands behind is removed: half a line, the end line, and steps
 * that are trained again, to the same losses. A log that cannot be continued that way, because steps are missing in it or
 * because it is of another plan or device, is renamed to PATH.1 (or .2, ...), and a new one begins; nothing is lost.
 */
#ifndef AH_CLI_RUN_LOG_KEEP_H
#define AH_CLI_RUN_LOG_KEEP_H

#include "cli/run.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_run_log_kept {
    uint64_t bytes;     /* of the file that stay; 0: none, a new log begins */
    bool lacks_newline; /* the last line that stays does */
    bool complete;      /* all steps of the run are in it, and its end: there is nothing to add */
};

/* `run` is open and resumes. AH_E_MISMATCH: it is the log of another run. AH_E_DOCUMENT, AH_E_IO, AH_E_MEMORY. */
int ah_run_log_keep(const struct ah_run *run, const char *path, struct ah_run_log_kept *ret_kept,
                    struct ah_error *err);

#endif
