/* SPDX-License-Identifier: Apache-2.0
 *
 * Mpirun: starts this program on hosts with mpirun, and waits until it ends.
 *
 *     rc = ah_mpirun_words(&hosts, false, words, &arena, &command, err);
 *     rc = rc ? rc : ah_mpirun_launch(command, NULL, &status, err);
 *
 * Each host is a separate context on mpirun's command line, so ranks are numbered in the order of the hosts, even if
 * several hosts are one machine. No process is bound to cores, because mpirun would give each of two ranks one core;
 * the plan says how many cores a rank has. mpirun gets an array of words, never a shell's line. mpirun runs in a
 * process group of its own, so a terminal's interrupt reaches only this process; it asks mpirun to pass on SIGUSR1.
 */
#ifndef AH_CLI_PROFILE_MPIRUN_H
#define AH_CLI_PROFILE_MPIRUN_H

#include "runtime/comm/hosts_file.h"

#include <stdbool.h>

/* A function that receives the standard output of all ranks as it arrives. */
struct ah_mpirun_reader {
    void (*hear)(void *context, const char *bytes, size_t n);
    void *context;
};

/* Makes the command that starts this program with `words` (NULL-terminated) on all hosts: a process for each slot or,
 * with `one_each`, for each host. In arena, NULL-terminated. */
int ah_mpirun_words(const struct ah_hosts *hosts, bool one_each, const char *const *words,
                    struct ah_arena *arena, const char *const **ret_command, struct ah_error *err);

/* Runs a command. `reader` (optional) receives its output instead of standard output. AH_E_MISSING: no mpirun. */
int ah_mpirun_launch(const char *const *command, const struct ah_mpirun_reader *reader, int *ret_status,
                     struct ah_error *err);

#endif
