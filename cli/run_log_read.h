/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log, read: one that may have been cut anywhere, by a kill while a line was written or by a disk that lost power.
 *
 * Every line is an object, so a cut one is never valid JSON: it is left out, and the caller says so. A line that lacks
 * only its newline is whole.
 *
 *     struct ah_run_log_text text;
 *     rc = ah_run_log_read(path, &text, err);
 *     ... text.document.body.runlog, text.cut_bytes ...
 *     ah_document_release(&text.document);
 */
#ifndef AH_CLI_RUN_LOG_READ_H
#define AH_CLI_RUN_LOG_READ_H

#include "schemas/document.h"
#include "schemas/runlog.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_run_log_text {
    struct ah_document document; /* of the whole lines; released by the caller */
    uint64_t whole_bytes;        /* of the whole lines */
    uint64_t cut_bytes;          /* behind them, of a line that is left out; 0: none */
    bool lacks_newline;          /* the last whole line does */
    bool begun;                  /* false: not even the first line is whole, there is no document */
};

/* `path` ("-": standard input) is read whole. AH_E_IO: it cannot be read. AH_E_DOCUMENT: it is no run log, or is wrong
 * elsewhere than at its end. A log whose first line is cut, or that is empty, is no error here. AH_E_MEMORY. */
int ah_run_log_read(const char *path, struct ah_run_log_text *ret_text, struct ah_error *err);

/* AH_E_DOCUMENT with the sentence for a log that was not begun. */
int ah_run_log_not_begun(const char *path, struct ah_error *err);

/* Bytes of `text` up to the last line of step `step`, with its evaluation and save: where a run that goes on after it
 * writes its next line. `text->begun`, and the log has that step, or begins right behind it. */
uint64_t ah_run_log_bytes_to(const struct ah_run_log_text *text, uint64_t step);

#endif
