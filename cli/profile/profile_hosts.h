/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a profile: 'profile --hosts FILE' starts mpirun, which starts 'profile --node' on each host
 * (profile_node.h). Rank 0 of these prints a report (profile_report.h). The process that started mpirun reads the
 * report, and makes and writes a cluster document from it (cluster_measured.h). If anything fails, nothing is written.
 */
#ifndef AH_CLI_PROFILE_PROFILE_HOSTS_H
#define AH_CLI_PROFILE_PROFILE_HOSTS_H

#include "cli/frame/cli.h"
#include "profiler/profiler.h"

struct ah_profile_hosts_options {
    const char *hosts;
    const char *output; /* NULL or "-": standard output */
    const char *device, *emulate;
    bool quick;
    struct ah_option_real stall_after;
};

/* Measures all hosts, then writes and shows the document. AH_E_USAGE: the file names no hosts, or hosts that cannot be
 * measured; AH_E_MISSING: there is no mpirun or no MPI; AH_E_INTERRUPTED; or the error of a host, with its name. */
int ah_profile_hosts_run(struct ah_cli *cli, const struct ah_profile_hosts_options *options,
                         struct ah_error *err);

/* How a process measures its own machine: `measure` appends the machine document to `out`. */
struct ah_profile_hosts_measure {
    int (*measure)(void *context, ah_profiler_progress *progress, void *progress_context,
                   struct ah_buffer *out, struct ah_error *err);
    void *context;
    bool quick;
};

/* Does the work of one process that mpirun started. Reports failures to measure, and returns AH_OK for them. Errors of
 * ah_comm_open() and ah_comm_move(). */
int ah_profile_hosts_join(const struct ah_profile_hosts_measure *measure, struct ah_error *err);

#endif
