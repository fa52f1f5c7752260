/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that starts mpirun, and how it reads the output of rank 0.
 */
#include "cli/profile/profile_hosts.h"

#include "base/file.h"
#include "base/threads.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/profile/mpirun.h"
#include "cli/profile/profile_node.h"
#include "profiler/cluster_measured.h"
#include "profiler/processor_load.h"
#include "runtime/comm/driver.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TELL_NS = 200 * 1000 * 1000, HOSTS_LEAST = 2, HOSTS_MOST = 1024 };

/* a link is reported if its times deviate more from their fitted line */
static const double poor_fit = 0.3;

/* ---- a process started by mpirun ---- */

struct joining {
    const struct ah_profile_hosts_measure *measure;
    double begin, end; /* the part of all work that is being measured */
    uint64_t reported_ns;
};

static void write_progress(double fraction, const char *what)
{
    struct ah_buffer line = {0};
    ah_profile_report_progress(fraction, what, &line);
    if (!line.failed)
        (void)ah_file_write_all(STDOUT_FILENO, line.data, line.size);
    ah_buffer_release(&line);
}

static void tell_part(void *context, double fraction, const char *what)
{
    struct joining *joining = context;
    const uint64_t now_ns = ah_threads_now_ns();
    if (joining->end > joining->begin && now_ns - joining->reported_ns > TELL_NS) {
        joining->reported_ns = now_ns;
        write_progress(joining->begin + fraction * (joining->end - joining->begin), what);
    }
}

static void on_progress(void *context, double begin, double end, const char *what)
{
    struct joining *joining = context;
    joining->begin = begin;
    joining->end = end;
    write_progress(begin, what);
}

static int measure_here(void *context, struct ah_buffer *out, struct ah_error *err)
{
    struct joining *joining = context;
    return joining->measure->measure(joining->measure->context, tell_part, joining, out, err);
}

static int lead(struct ah_profile_node *node, struct ah_error *err)
{
    struct ah_profile_report report;
    struct ah_arena arena = {0};
    struct ah_buffer text = {0};
    int rc = ah_profile_node_lead(node, &arena, &report, err);
    if (!rc)
        ah_profile_report_print(&report, &text);
    if (!rc && text.failed)
        rc = ah_error_memory(err);
    if (!rc && ah_file_write_all(STDOUT_FILENO, text.data, text.size))
        rc = ah_error_set(err, AH_E_IO, "the report could not be written");
    ah_buffer_release(&text);
    ah_arena_release(&arena);
    return rc;
}

int ah_profile_hosts_join(const struct ah_profile_hosts_measure *measure, struct ah_error *err)
{
    struct joining joining = {.measure = measure};
    struct ah_profile_hello hello;
    struct ah_profile_node node = {.comm = NULL};
    struct ah_profile_node_options options = {.hello = &hello,
                                              .quick = measure->quick,
                                              .measure = measure_here,
                                              .tell = on_progress,
                                              .context = &joining,
                                              .cancel = ah_interrupt_catch()};
    ah_profile_hello_fill(&hello);
    int rc = ah_comm_load("mpi", &options.comm.driver, err);
    rc = rc ? rc : ah_profile_node_open(&node, &options, err);
    if (!rc)
        rc = ah_comm_rank(node.comm) ? ah_profile_node_follow(&node, err) : lead(&node, err);
    ah_profile_node_close(&node, rc, err);
    return rc;
}

/* ---- the output of rank 0 ---- */

struct hearing {
    struct ah_progress progress;
    struct ah_buffer text;
    bool reports; /* `text` begins with the report, which may be incomplete */
};

/* Removes complete lines of progress from the text, up to the beginning of the report. */
static void take_lines(struct hearing *hearing)
{
    size_t at = 0;
    double fraction = 0;
    const char *what = NULL;
    struct ah_buffer *text = &hearing->text;
    while (!hearing->reports && at < text->size) {
        char *line = text->data + at, *newline = memchr(line, '\n', text->size - at);
        if (!newline)
            break;
        hearing->reports = !strncmp(line, "report\n", 7);
        if (hearing->reports)
            break;
        *newline = '\0';
        if (ah_profile_report_is_progress(line, &fraction, &what))
            ah_terminal_draw(&hearing->progress, fraction, what);
        at = (size_t)(newline + 1 - text->data);
    }
    if (!at)
        return;
    memmove(text->data, text->data + at, text->size - at + 1);
    text->size -= at;
}

static void on_output(void *context, const char *bytes, size_t n)
{
    struct hearing *hearing = context;
    ah_buffer_append(&hearing->text, bytes, n);
    if (!hearing->text.failed && !hearing->reports)
        take_lines(hearing);
}

/* ---- before and after mpirun ---- */

struct profiling {
    struct ah_cli *cli;
    const struct ah_profile_hosts_options *options;
    struct ah_hosts hosts;
    struct ah_profile_report report;
    struct ah_document *machines; /* by host: its machine document */
};

static int check_hosts(const struct profiling *p, struct ah_error *err)
{
    const char *device = p->options->device;
    if (p->hosts.n < HOSTS_LEAST || p->hosts.n > HOSTS_MOST)
        return ah_error_set(
            err, AH_E_USAGE,
            "%s: has %zu host%s, but a link needs two; give %d to %d, or profile a single host and use "
            "'autohete cluster'",
            p->options->hosts, p->hosts.n, p->hosts.n == 1 ? "" : "s", HOSTS_LEAST, HOSTS_MOST);
    for (size_t i = 0; i < p->hosts.n; i++)
        if (p->hosts.entries[i].slots > 1 && device && strncmp(device, "cpu", 3) != 0)
            return ah_error_set(
                err, AH_E_USAGE,
                "%s: host '%s' has %" PRIu64 " slots, but only one '%s' of it is measured; write 'slots=1'",
                p->options->hosts, p->hosts.entries[i].name, p->hosts.entries[i].slots, device);
    return AH_OK;
}

/* Returns the words of the command that mpirun starts on each host; NULL: out of memory. */
static const char *const *words_of(const struct profiling *p)
{
    enum { WORDS = 12, NUMBER = 32 };
    const struct ah_profile_hosts_options *options = p->options;
    const char **words = ah_arena_array(&p->cli->arena, WORDS, sizeof *words);
    char *seconds = ah_arena_alloc(&p->cli->arena, NUMBER);
    size_t n = 0;
    if (!words || !seconds)
        return NULL;
    words[n++] = "profile";
    words[n++] = "--node";
    if (options->quick)
        words[n++] = "--quick";
    if (options->device) {
        words[n++] = "--device";
        words[n++] = options->device;
    }
    if (options->emulate) {
        words[n++] = "--emulate";
        words[n++] = options->emulate;
    }
    if (options->stall_after.given) {
        snprintf(seconds, NUMBER, "%.9g", options->stall_after.value);
        words[n++] = "--stall-after";
        words[n++] = seconds;
    }
    words[n] = NULL;
    return words;
}

/* Sets the error for a failed mpirun, whose output may not say where it failed: the message names a lost host. */
static int fail_launch(const struct profiling *p, int status, struct ah_error *err)
{
    if (ah_interrupt_seen())
        return ah_error_set(err, AH_E_INTERRUPTED, "interrupted");
    for (size_t i = 0; i < p->hosts.n; i++) {
        struct addrinfo *found = NULL;
        const int unknown = getaddrinfo(p->hosts.entries[i].name, NULL, NULL, &found);
        if (found)
            freeaddrinfo(found);
        if (unknown)
            return ah_error_set(err, AH_E_MISSING, "host '%s' of %s cannot be found: %s; nothing was written",
                                p->hosts.entries[i].name, p->options->hosts, gai_strerror(unknown));
    }
    return ah_error_set(
        err, AH_E_FAILED,
        "mpirun ended with status %d before all hosts of %s were measured; see the messages above; nothing "
        "was written",
        status, p->options->hosts);
}

static int read_report(struct profiling *p, struct hearing *hearing, int status, struct ah_error *err)
{
    if (hearing->text.failed)
        return ah_error_memory(err);
    if (!hearing->reports ||
        ah_profile_report_parse(hearing->text.data, hearing->text.size, &p->cli->arena, &p->report, err))
        return fail_launch(p, status, err);
    const struct ah_profile_report *report = &p->report;
    if (report->why.code == AH_E_INTERRUPTED)
        return ah_error_set(err, AH_E_INTERRUPTED, "interrupted");
    if (report->n_hosts != p->hosts.n || report->culprit >= p->hosts.n)
        return ah_error_set(err, AH_E_MISMATCH, "%s: has %zu hosts, and mpirun started %zu processes",
                            p->options->hosts, p->hosts.n, report->n_hosts);
    if (!report->why.code)
        return AH_OK;
    return ah_error_set(err, report->why.code, "host '%s': %s; nothing was written",
                        p->hosts.entries[report->culprit].name, report->why.text);
}

static int measure_hosts(struct profiling *p, struct ah_error *err)
{
    struct hearing hearing = {.progress = ah_terminal_progress()};
    const struct ah_mpirun_reader reader = {on_output, &hearing};
    const struct ah_comm_driver *driver = NULL;
    const char *const *command = NULL;
    int status = 0;
    int rc = ah_comm_load("mpi", &driver, err); /* to fail once here instead of on every host */
    const char *const *words = rc ? NULL : words_of(p);
    if (!rc && !words)
        rc = ah_error_memory(err);
    rc = rc ? rc : ah_mpirun_words(&p->hosts, true, words, &p->cli->arena, &command, err);
    rc = rc ? rc : ah_mpirun_launch(command, &reader, &status, err);
    ah_terminal_erase(&hearing.progress);
    rc = rc ? rc : read_report(p, &hearing, status, err);
    ah_buffer_release(&hearing.text);
    return rc;
}

/* ---- the document ---- */

static int make_cluster(struct profiling *p, struct ah_cluster *ret_cluster, struct ah_error *err)
{
    struct ah_arena *arena = &p->cli->arena;
    const struct ah_profile_report *report = &p->report;
    struct ah_measured_host *hosts = ah_arena_array(arena, p->hosts.n, sizeof *hosts);
    struct ah_measured_link *links = ah_arena_array(arena, report->n_links + 1, sizeof *links);
    const struct ah_cluster_measured measured = {hosts, p->hosts.n, links, report->n_links};
    int rc = hosts && links ? AH_OK : ah_error_memory(err);
    for (size_t i = 0; i < p->hosts.n && !rc; i++) {
        const struct ah_hosts_entry *entry = &p->hosts.entries[i];
        hosts[i] =
            (struct ah_measured_host){entry->name, entry->slots, report->hosts[i].first, &p->machines[i]};
        rc = ah_document_parse(&p->machines[i], entry->name,
                               report->hosts[i].text ? report->hosts[i].text : "",
                               report->hosts[i].text_bytes, AH_DOCUMENT_MACHINE, err);
    }
    for (size_t i = 0; i < report->n_links && !rc; i++)
        links[i] = (struct ah_measured_link){report->links[i].a, report->links[i].b, report->links[i].link};
    return rc ? rc : ah_cluster_measured(&measured, arena, ret_cluster, err);
}

static void tell_doubts(const struct profiling *p)
{
    const struct ah_profile_report *report = &p->report;
    for (size_t i = 0; i < p->hosts.n; i++) {
        const struct ah_machine *machine = p->machines[i].body.machine;
        double taken;
        unsigned processors;
        if (ah_load_disturbed(machine->noise, machine->n_noise, &taken, &processors))
            ah_cli_tell(p->cli, AH_CLI_WARNING,
                        "host '%s': other programs or the hypervisor took up to %.1f of %u processors during "
                        "the measurement, so plans made from it will predict slower steps than real ones",
                        ah_cli_clean(p->cli, p->hosts.entries[i].name), taken, processors);
    }
    for (size_t i = 0; i < report->n_links; i++)
        if (report->links[i].link.fit_error > poor_fit)
            ah_cli_tell(
                p->cli, AH_CLI_NOTE,
                "link of '%s' and '%s': some messages differ by up to %.0f %% from the fitted latency and "
                "rate",
                ah_cli_clean(p->cli, p->hosts.entries[report->links[i].a].name),
                ah_cli_clean(p->cli, p->hosts.entries[report->links[i].b].name),
                report->links[i].link.fit_error * 100);
}

/* Writes the document, after parsing it as every reader does. */
static int write_cluster(const struct profiling *p, struct ah_cluster *cluster, struct ah_error *err)
{
    const char *output = p->options->output;
    const struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER, .body = {.cluster = cluster}};
    const bool to_file = output && strcmp(output, "-") != 0;
    struct ah_document read = {0};
    struct ah_buffer text = {0};
    int rc = ah_document_print(&document, &text, err);
    rc = rc ? rc : ah_document_parse(&read, "the cluster", text.data, text.size, AH_DOCUMENT_CLUSTER, err);
    if (!rc && to_file)
        rc = ah_document_save(&document, output, err);
    if (!rc && (!to_file || p->cli->json))
        ah_buffer_append(&p->cli->out, text.data, text.size);
    else if (!rc && !p->cli->arguments.quiet)
        ah_inspect_cluster_text(p->cli, &document);
    if (!rc && to_file)
        ah_cli_tell(p->cli, AH_CLI_WROTE, "%s", output);
    ah_document_release(&read);
    ah_buffer_release(&text);
    return rc;
}

int ah_profile_hosts_run(struct ah_cli *cli, const struct ah_profile_hosts_options *options,
                         struct ah_error *err)
{
    struct profiling p = {.cli = cli, .options = options};
    struct ah_cluster cluster;
    int rc = ah_hosts_read(options->hosts, &cli->arena, &p.hosts, err);
    rc = rc ? rc : check_hosts(&p, err);
    if (!rc && options->output && strcmp(options->output, "-") != 0)
        rc = ah_outputs_check_writable(options->output, err);
    if (rc)
        return rc;
    p.machines = calloc(p.hosts.n, sizeof *p.machines);
    rc = p.machines ? measure_hosts(&p, err) : ah_error_memory(err);
    rc = rc ? rc : make_cluster(&p, &cluster, err);
    if (!rc)
        tell_doubts(&p);
    rc = rc ? rc : write_cluster(&p, &cluster, err);
    for (size_t i = 0; i < p.hosts.n && p.machines; i++)
        ah_document_release(&p.machines[i]);
    free(p.machines);
    return rc;
}
