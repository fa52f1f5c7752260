/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts mpirun as a child process. With a reader, the child's standard output is a pipe.
 */
#include "cli/profile/mpirun.h"

#include "cli/frame/interrupt.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_FOUND = 127, NAP_MS = 50, NAP_NS = NAP_MS * 1000 * 1000, READ_BYTES = 1 << 16 };

static const char *program_of(struct ah_arena *arena, struct ah_error *err)
{
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    if (length < 0 || (size_t)length == sizeof program) {
        ah_error_set(err, AH_E_FAILED, "/proc/self/exe: cannot be read: %s", strerror(errno));
        return NULL;
    }
    const char *kept = ah_arena_strndup(arena, program, (size_t)length);
    if (!kept)
        ah_error_memory(err);
    return kept;
}

/* Appends a context of mpirun: "-n N --host NAME:N PROGRAM WORD ...", after ":" unless it is the first. */
static size_t put_context(const char **out, const struct ah_hosts_entry *entry, bool one_each, bool first,
                          const char *program, const char *const *words, struct ah_arena *arena)
{
    const uint64_t n = one_each ? 1 : entry->slots;
    const size_t bytes = strlen(entry->name) + 24;
    char *count = ah_arena_alloc(arena, 24), *host = ah_arena_alloc(arena, bytes);
    size_t at = 0;
    if (!count || !host)
        return 0;
    snprintf(count, 24, "%" PRIu64, n);
    snprintf(host, bytes, "%s:%s", entry->name, count);
    const char *const begin[] = {":", "-n", count, "--host", host, program};
    for (size_t i = first; i < sizeof begin / sizeof *begin; i++)
        out[at++] = begin[i];
    for (size_t i = 0; words[i]; i++)
        out[at++] = words[i];
    return at;
}

int ah_mpirun_words(const struct ah_hosts *hosts, bool one_each, const char *const *words,
                    struct ah_arena *arena, const char *const **ret_command, struct ah_error *err)
{
    static const char *const all[] = {"mpirun", "--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"};
    enum { ALL = sizeof all / sizeof *all, BEGIN = 6 };
    const char *program = program_of(arena, err);
    size_t n = 0, at = ALL;
    while (words[n])
        n++;
    if (!program)
        return err ? err->code : AH_E_FAILED;
    const char **command = ah_arena_array(arena, ALL + hosts->n * (BEGIN + n) + 1, sizeof *command);
    if (!command)
        return ah_error_memory(err);
    memcpy(command, all, sizeof all);
    for (size_t i = 0; i < hosts->n; i++) {
        const size_t added =
            put_context(command + at, &hosts->entries[i], one_each, !i, program, words, arena);
        if (!added)
            return ah_error_memory(err);
        at += added;
    }
    command[at] = NULL;
    *ret_command = command;
    return AH_OK;
}

static void become(const char *const *command, const int *pipe_ends)
{
    union {
        const char *const *words;
        char *const *argv; /* execvp does not change the words */
    } of = {command};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* if this process is killed, the ranks end, too */
    if (pipe_ends) {
        (void)dup2(pipe_ends[1], STDOUT_FILENO);
        (void)close(pipe_ends[0]);
        (void)close(pipe_ends[1]);
    }
    execvp(of.argv[0], of.argv);
    _exit(NOT_FOUND);
}

/* Reads available output, waiting at most `nap_ms` for it. Sets `ret_open` to false at its end. */
static void listen_to(int fd, const struct ah_mpirun_reader *reader, int nap_ms, bool *ret_open)
{
    static char bytes[READ_BYTES];
    struct pollfd there = {.fd = fd, .events = POLLIN};
    if (poll(&there, 1, nap_ms) <= 0)
        return;
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0)
        reader->hear(reader->context, bytes, (size_t)n);
    else
        *ret_open = n < 0 && errno == EINTR;
}

static int wait_for(pid_t child, int fd, const struct ah_mpirun_reader *reader, int *ret_status)
{
    const struct timespec nap = {0, NAP_NS};
    bool asked = false, open = reader != NULL;
    pid_t ended;
    while ((ended = waitpid(child, ret_status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (ah_interrupt_seen() && !asked)
            asked = !kill(child, SIGUSR1);
        if (open)
            listen_to(fd, reader, NAP_MS, &open);
        else
            (void)nanosleep(&nap, NULL);
    }
    const int reason = ended < 0 ? errno : 0;
    for (bool more = open; more;) { /* the rest; does not wait for processes that keep the pipe open */
        struct pollfd there = {.fd = fd, .events = POLLIN};
        more = poll(&there, 1, 0) > 0;
        if (more)
            listen_to(fd, reader, 0, &more);
    }
    return reason;
}

static int run_command(const char *const *command, const int *pipe_ends,
                       const struct ah_mpirun_reader *reader, int *ret_status, struct ah_error *err)
{
    int status = 0;
    (void)ah_interrupt_catch();
    const pid_t child = fork();
    if (!child)
        become(command, pipe_ends);
    if (pipe_ends)
        (void)close(pipe_ends[1]);
    const int reason = child < 0 ? errno : wait_for(child, pipe_ends ? pipe_ends[0] : -1, reader, &status);
    if (pipe_ends)
        (void)close(pipe_ends[0]);
    if (reason)
        return ah_error_set(err, AH_E_FAILED, "mpirun could not be started: %s", strerror(reason));
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        return ah_error_set(
            err, AH_E_MISSING,
            "'--hosts' needs mpirun, which is not installed; install Open MPI (Debian: openmpi-bin)");
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    return AH_OK;
}

int ah_mpirun_launch(const char *const *command, const struct ah_mpirun_reader *reader, int *ret_status,
                     struct ah_error *err)
{
    int pipe_ends[2];
    if (!reader)
        return run_command(command, NULL, NULL, ret_status, err);
    if (pipe(pipe_ends))
        return ah_error_set(err, AH_E_FAILED, "a pipe could not be created: %s", strerror(errno));
    return run_command(command, pipe_ends, reader, ret_status, err);
}
