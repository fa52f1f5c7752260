/* SPDX-License-Identifier: Apache-2.0
 *
 * mpirun gets its words as an array, never through a shell, and a group of its own, so that a terminal's interrupt reaches this
 * process alone, which asks mpirun to pass on SIGUSR1.
 */
#include "cli/run_hosts.h"

#include "base/file.h"
#include "cli/interrupt.h"
#include "runtime/train/world.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS_BYTES_MAX = 1 << 20, SLOTS_MAX = 1 << 16, NOT_FOUND = 127, NAP_NS = 50 * 1000 * 1000 };

struct slots {
    const char **host; /* by rank */
    uint64_t n, ranks;
};

/* ---- the file ---- */

/* "name" or "name slots=N"; an empty line is none. */
static int read_line(struct slots *slots, char *line, const char *path, unsigned number, struct ah_error *err)
{
    char *state = NULL, *end = NULL;
    line[strcspn(line, "#")] = '\0';
    const char *name = strtok_r(line, " \t\r", &state),
               *count = name ? strtok_r(NULL, " \t\r", &state) : NULL;
    unsigned long n = 1;
    if (!name)
        return AH_OK;
    if (count) {
        n = strncmp(count, "slots=", 6) == 0 ? strtoul(count + 6, &end, 10) : 0;
        if (!n || *end || strtok_r(NULL, " \t\r", &state))
            return ah_error_set(err, AH_E_USAGE, "%s: line %u: '%s' is not 'slots=N'; write 'name slots=N'",
                                path, number, count);
    }
    if (n > SLOTS_MAX)
        return ah_error_set(err, AH_E_USAGE, "%s: line %u: '%s' is more than %d", path, number, count,
                            SLOTS_MAX);
    for (unsigned long i = 0; i < n; i++, slots->n++)
        if (slots->n < slots->ranks)
            slots->host[slots->n] = name;
    return AH_OK;
}

static int read_hosts(struct ah_cli *cli, const char *path, struct slots *slots, struct ah_error *err)
{
    struct ah_buffer text = {0};
    unsigned number = 0;
    slots->host = ah_arena_array(&cli->arena, slots->ranks, sizeof *slots->host);
    int rc = slots->host ? ah_file_read(path, HOSTS_BYTES_MAX, &text, err) : ah_error_memory(err);
    char *kept = rc ? NULL : ah_arena_strndup(&cli->arena, text.data, text.size);
    ah_buffer_release(&text);
    if (!rc && !kept)
        return ah_error_memory(err);
    for (char *line = kept, *next; line && !rc; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        rc = read_line(slots, line, path, ++number, err);
    }
    return rc;
}

/* ---- against the plan ---- */

/* One of the plan's ranks that is of this node, the first that was looked at. */
struct first {
    const char *node;
    uint64_t rank;
};

/* Ranks of one node share its memory and its links. */
static int check_node(const struct slots *slots, const struct ah_cluster_plan_stage *stage, uint64_t rank,
                      struct first *firsts, size_t *n, const char *path, struct ah_error *err)
{
    size_t i = 0;
    while (i < *n && strcmp(firsts[i].node, stage->node) != 0)
        i++;
    if (i == *n)
        firsts[(*n)++] = (struct first){stage->node, rank};
    if (!strcmp(slots->host[firsts[i].rank], slots->host[rank]))
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "%s: ranks %" PRIu64 " and %" PRIu64 " are of node '%s' of the plan, and would run "
                        "on hosts '%s' and '%s'; order hosts as the plan orders its nodes",
                        path, firsts[i].rank, rank, stage->node, slots->host[firsts[i].rank],
                        slots->host[rank]);
}

static int check_nodes(const struct slots *slots, const struct ah_cluster_plan *plan, const char *path,
                       struct ah_error *err)
{
    struct first *firsts = calloc(slots->ranks + 1, sizeof *firsts);
    size_t n = 0;
    int rc = firsts ? AH_OK : ah_error_memory(err);
    for (size_t p = 0; p < plan->n_pipelines && !rc; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages && !rc; i++)
            rc =
                check_node(slots, &plan->pipelines[p].stages[i],
                           ah_world_rank(plan, plan->pipelines[p].stages[i].ranks[0]), firsts, &n, path, err);
    free(firsts);
    return rc;
}

static int check_hosts(const struct slots *slots, const struct ah_cluster_plan *plan, const char *path,
                       struct ah_error *err)
{
    if (slots->n != slots->ranks)
        return ah_error_set(err, AH_E_MISMATCH,
                            "%s: has %" PRIu64 " slot%s, and the plan %" PRIu64
                            " ranks; give each host as many slots "
                            "as its node has ranks",
                            path, slots->n, slots->n == 1 ? "" : "s", slots->ranks);
    return check_nodes(slots, plan, path, err);
}

/* ---- mpirun ---- */

/* The program itself, and the words of its command line but for '--hosts'. */
static const char **words_of(struct ah_cli *cli, const char *path, uint64_t ranks, const char *program,
                             struct ah_error *err)
{
    size_t n = 0, at = 0;
    while (cli->words[n])
        n++;
    const char **words = ah_arena_array(&cli->arena, n + 10, sizeof *words);
    char *count = ah_arena_alloc(&cli->arena, 24);
    if (!words || !count) {
        ah_error_memory(err);
        return NULL;
    }
    snprintf(count, 24, "%" PRIu64, ranks);
    const char *const first[] = {"mpirun", "--hostfile", path, "--map-by", "slot", "-n", count, program};
    for (; at < sizeof first / sizeof *first; at++)
        words[at] = first[at];
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(cli->words[i], "--hosts"))
            i++;
        else if (strncmp(cli->words[i], "--hosts=", 8) != 0)
            words[at++] = cli->words[i];
    }
    return words;
}

static void become(const char *const *words)
{
    union {
        const char *const *words;
        char *const *argv; /* execvp only reads */
    } of = {words};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* whoever ends this process hard ends the ranks, too */
    execvp(of.argv[0], of.argv);
    _exit(NOT_FOUND);
}

static int wait_for(pid_t child, int *ret_status)
{
    const struct timespec nap = {0, NAP_NS};
    bool asked = false;
    pid_t ended;
    while ((ended = waitpid(child, ret_status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (ah_interrupt_seen() && !asked)
            asked = !kill(child, SIGUSR1);
        (void)nanosleep(&nap, NULL);
    }
    return ended < 0 ? errno : 0;
}

static int launch(const char *const *words, int *ret_status, struct ah_error *err)
{
    int status = 0;
    (void)ah_interrupt_catch();
    pid_t child = fork();
    if (!child)
        become(words);
    int reason = child < 0 ? errno : wait_for(child, &status);
    if (reason)
        return ah_error_set(err, AH_E_FAILED, "mpirun could not be started: %s", strerror(reason));
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        return ah_error_set(
            err, AH_E_MISSING,
            "'--hosts' needs mpirun, and there is none; install Open MPI (Debian: openmpi-bin)");
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    return AH_OK;
}

int ah_run_hosts_launch(struct ah_cli *cli, const char *path, const struct ah_cluster_plan *plan,
                        int *ret_status, struct ah_error *err)
{
    struct slots slots = {0}; /* a rank for each stage (world.h) */
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    for (size_t p = 0; p < plan->n_pipelines; p++)
        slots.ranks += plan->pipelines[p].n_stages;
    int rc = read_hosts(cli, path, &slots, err);
    rc = rc ? rc : check_hosts(&slots, plan, path, err);
    if (rc)
        return rc;
    if (length < 0)
        return ah_error_set(err, AH_E_FAILED, "/proc/self/exe: cannot be read: %s", strerror(errno));
    program[length] = '\0';
    const char **words = words_of(cli, path, slots.ranks, program, err);
    return words ? launch(words, ret_status, err) : AH_E_MEMORY;
}
