/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log: reads a log that may have been cut anywhere, by a kill in the middle of a line or by a loss of power.
 *
 * Every line is an object, so a cut line is never valid JSON. A cut line is left out, and the caller reports that. A
 * line that lacks only its newline is whole.
 *
 *     struct ah_run_log_text text;
 *     rc = ah_run_log_read(path, &text, err);
 *     ... text.document.body.runlog, text.cut_bytes ...
 *     ah_document_release(&text.document);
 */
#ifndef AH_SCHEMAS_RUN_LOG_READ_H
#define AH_SCHEMAS_RUN_LOG_READ_H

#include "schemas/document.h"
#include "schemas/runlog.h"

#include <stdbool.h>
#include <stdint.h>

enum { AH_RUN_LOG_BYTES_MAX = 64 << 20 }; /* the limit of document.h for run logs */

struct ah_run_log_text {
    struct ah_document document; /* from the whole lines; released by the caller */
    uint64_t whole_bytes;        /* length of the whole lines */
    uint64_t cut_bytes;          /* length of the cut line after them; 0: none */
    bool lacks_newline;          /* the last whole line has no newline */
    bool begun;                  /* false: not even the first line is whole, and there is no document */
};

/* Reads all of `path` ("-": standard input). AH_E_IO: it cannot be read. AH_E_DOCUMENT: it is no run log, or is
 * damaged before its end. An empty log, or one whose first line is cut, is no error. AH_E_MEMORY: out of memory. */
int ah_run_log_read(const char *path, struct ah_run_log_text *ret_text, struct ah_error *err);

/* Sets and returns AH_E_DOCUMENT, with a message for a log that was not begun. */
int ah_run_log_not_begun(const char *path, struct ah_error *err);

/* Returns the bytes up to the last line of step `step`, with its evaluation and save, where a run resumed after it
 * writes its next line. Requires `text->begun`, and a log that has that step or begins right after it. */
uint64_t ah_run_log_bytes_to(const struct ah_run_log_text *text, uint64_t step);

#endif
