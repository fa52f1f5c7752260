/* SPDX-License-Identifier: Apache-2.0
 *
 * Report: the results of the ranks of 'profile --hosts'. Rank 0 writes it to standard output for the process that
 * started mpirun. It consists of lines, with documents between them.
 *
 *     progress 0.25 a: matrix products         whenever there is progress
 *     report                                   once; the report follows
 *     host 0 vm                                first host on the same machine (or its own number), its name for itself
 *     machine 20790                            bytes of that host's document, which follows
 *     link 0 1 1.1e9 35.5 0.02                 ranks, bytes a second, latency, error of the fit
 *     failed 1 -9 there is no CUDA here        rank, code, reason; then only hosts are listed besides
 *     end
 */
#ifndef AH_CLI_PROFILE_PROFILE_REPORT_H
#define AH_CLI_PROFILE_PROFILE_REPORT_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "profiler/profile_links.h"

#include <stdbool.h>

struct ah_report_host {
    const char *name; /* the host's name for itself */
    uint64_t first;   /* index of the first host on the same machine */
    const char *text; /* a machine document; NULL: not measured */
    size_t text_bytes;
};

struct ah_report_link {
    uint64_t a, b;
    struct ah_profile_link link;
};

struct ah_profile_report {
    struct ah_report_host *hosts;
    size_t n_hosts;
    struct ah_report_link *links;
    size_t n_links;
    uint64_t culprit;    /* the rank that reported `why` */
    struct ah_error why; /* code AH_OK: nothing failed */
};

void ah_profile_report_print(const struct ah_profile_report *report, struct ah_buffer *out);

/* Appends a line of progress; `what` has no newline. */
void ah_profile_report_progress(double fraction, const char *what, struct ah_buffer *out);

/* True if the line (without a newline) reports progress. `ret_what` points into it. */
bool ah_profile_report_is_progress(const char *line, double *ret_fraction, const char **ret_what);

/* Parses a report from its line "report" on; `text` ends with a 0. Copies texts to `arena`. AH_E_FAILED: incomplete. */
int ah_profile_report_parse(const char *text, size_t bytes, struct ah_arena *arena,
                            struct ah_profile_report *ret_report, struct ah_error *err);

#endif
