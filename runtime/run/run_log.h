/* SPDX-License-Identifier: Apache-2.0
 *
 * Run log: writes the lines of a run, during the run, to a file, to standard output, or to both. After each line the
 * file is valid, whatever happens next. If one of two outlets fails, the other continues.
 *
 *     rc = ah_run_log_check(path, err);                 // for a resumed run, before it is opened
 *     rc = ah_run_log_open(&log, &run, path, shown, err);   // the header is written at once
 *     ah_run_log_step(&log, &record, step_us); ...
 *     rc = ah_run_log_close(&log, &end, err);           // also reports that an earlier line could not be written
 */
#ifndef AH_RUN_RUN_LOG_H
#define AH_RUN_RUN_LOG_H

#include "runtime/run/run.h"
#include "runtime/train/trainer.h"
#include "schemas/runlog.h"

#include <sys/types.h>

struct ah_run_log_outlet {
    const char *path;        /* borrowed; "-": standard output */
    int descriptor;          /* -1: it is closed */
    off_t whole_bytes;       /* size of the file before the current line */
    bool continues;          /* the file is an earlier run's log, which already has a header */
    struct ah_error failure; /* the first error of this outlet */
};

struct ah_run_log {
    struct ah_run *run;
    struct ah_run_log_outlet outlets[2];
    size_t n_outlets;      /* 0: no log */
    bool begun;            /* the header has been written */
    struct ah_buffer line; /* the current line */
    struct ah_trainer_facts facts;
};

/* Checks that a resumed run can continue the file, even if it is cut off. AH_E_USAGE: it is no run log. AH_E_IO. */
int ah_run_log_check(const char *path, struct ah_error *err);

/* Opens a log at `path` (optional; "-": standard output), borrowed until the log is closed. `shown`: lines also go to
 * standard output. A resumed run continues an existing log (run_log_keep.h). AH_E_MISMATCH: another run's. AH_E_IO. */
int ah_run_log_open(struct ah_run_log *ret_log, struct ah_run *run, const char *path, bool shown,
                    struct ah_error *err);

void ah_run_log_step(struct ah_run_log *log, const struct ah_step_record *record, double step_us);
void ah_run_log_evaluation(struct ah_run_log *log, uint64_t step, double loss, uint64_t tokens);
void ah_run_log_sample(struct ah_run_log *log, const struct ah_runlog_sample *sample);
void ah_run_log_save(struct ah_run_log *log, uint64_t step, double us, const char *path);

/* Writes `end` (optional) and closes the log. Returns the first error of any line. A zeroed or closed log is fine. */
int ah_run_log_close(struct ah_run_log *log, const struct ah_runlog_end *end, struct ah_error *err);

#endif
