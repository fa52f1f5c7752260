/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints and reads the report. The same build does both, so a text that does not parse was cut off.
 */
#include "cli/profile/profile_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char progress_word[] = "progress ";

void ah_profile_report_progress(double fraction, const char *what, struct ah_buffer *out)
{
    ah_buffer_printf(out, "%s%.4f %s\n", progress_word, fraction, what);
}

bool ah_profile_report_is_progress(const char *line, double *ret_fraction, const char **ret_what)
{
    char *end = NULL;
    if (strncmp(line, progress_word, sizeof progress_word - 1) != 0)
        return false;
    *ret_fraction = strtod(line + sizeof progress_word - 1, &end);
    *ret_what = *end ? end + 1 : end;
    return true;
}

void ah_profile_report_print(const struct ah_profile_report *report, struct ah_buffer *out)
{
    ah_buffer_puts(out, "report\n");
    for (size_t i = 0; i < report->n_hosts; i++) {
        const struct ah_report_host *host = &report->hosts[i];
        ah_buffer_printf(out, "host %" PRIu64 " %s\n", host->first, host->name);
        if (host->text && !report->why.code) {
            ah_buffer_printf(out, "machine %zu\n", host->text_bytes);
            ah_buffer_append(out, host->text, host->text_bytes);
        }
    }
    for (size_t i = 0; i < report->n_links && !report->why.code; i++)
        ah_buffer_printf(out, "link %" PRIu64 " %" PRIu64 " %.17g %.17g %.17g\n", report->links[i].a,
                         report->links[i].b, report->links[i].link.bytes_per_s,
                         report->links[i].link.latency_us, report->links[i].link.fit_error);
    if (report->why.code)
        ah_buffer_printf(out, "failed %" PRIu64 " %d %s\n", report->culprit, report->why.code,
                         report->why.text);
    ah_buffer_puts(out, "end\n");
}

struct reader {
    const char *at, *end;
    struct ah_arena *arena;
    struct ah_profile_report *report;
    bool ended, failed;
};

/* Returns a copy of the line from `line + skip` on, without its newline; NULL: out of memory. */
static char *rest_of(struct reader *reader, const char *line, size_t skip)
{
    const size_t length = strcspn(line, "\n");
    return ah_arena_strndup(reader->arena, line + (skip < length ? skip : length),
                            skip < length ? length - skip : 0);
}

static bool read_host(struct reader *reader, const char *line)
{
    struct ah_profile_report *report = reader->report;
    uint64_t first = 0;
    int used = 0;
    if (sscanf(line, "host %" SCNu64 "%n", &first, &used) != 1 || first > report->n_hosts)
        return false;
    const char *name = rest_of(reader, line, (size_t)used + 1);
    report->hosts[report->n_hosts++] = (struct ah_report_host){.name = name, .first = first};
    return name != NULL;
}

static bool read_machine(struct reader *reader, const char *line, const char *next)
{
    struct ah_profile_report *report = reader->report;
    size_t bytes = 0;
    if (sscanf(line, "machine %zu", &bytes) != 1 || !report->n_hosts || bytes > (size_t)(reader->end - next))
        return false;
    struct ah_report_host *host = &report->hosts[report->n_hosts - 1];
    host->text = ah_arena_strndup(reader->arena, next, bytes);
    host->text_bytes = bytes;
    reader->at = next + bytes;
    return host->text != NULL;
}

static bool read_link(struct reader *reader, const char *line)
{
    struct ah_report_link found = {0};
    struct ah_profile_report *report = reader->report;
    if (sscanf(line, "link %" SCNu64 " %" SCNu64 " %lf %lf %lf", &found.a, &found.b, &found.link.bytes_per_s,
               &found.link.latency_us, &found.link.fit_error) != 5 ||
        found.a >= found.b || found.b >= report->n_hosts)
        return false;
    report->links[report->n_links++] = found;
    return true;
}

static bool read_failed(struct reader *reader, const char *line)
{
    struct ah_profile_report *report = reader->report;
    int code = 0, used = 0;
    if (sscanf(line, "failed %" SCNu64 " %d%n", &report->culprit, &code, &used) != 2 || !code)
        return false;
    const char *text = rest_of(reader, line, (size_t)used + 1);
    (void)ah_error_set(&report->why, code, "%s", text ? text : "");
    return text != NULL;
}

static void read_line(struct reader *reader)
{
    const char *line = reader->at, *newline = memchr(line, '\n', (size_t)(reader->end - line));
    bool fits = newline != NULL;
    reader->at = newline ? newline + 1 : reader->end;
    if (fits && !strncmp(line, "host ", 5))
        fits = read_host(reader, line);
    else if (fits && !strncmp(line, "machine ", 8))
        fits = read_machine(reader, line, newline + 1);
    else if (fits && !strncmp(line, "link ", 5))
        fits = read_link(reader, line);
    else if (fits && !strncmp(line, "failed ", 7))
        fits = read_failed(reader, line);
    else if (fits && !strncmp(line, "end\n", 4))
        reader->ended = true;
    else
        fits = fits && !strncmp(line, "report\n", 7);
    reader->failed = !fits;
}

static size_t lines_with(const char *text, const char *end, const char *word)
{
    size_t n = 0;
    for (const char *at = text; at && at < end;
         at = memchr(at, '\n', (size_t)(end - at)), at = at ? at + 1 : at)
        n += (size_t)(end - at) >= strlen(word) && !strncmp(at, word, strlen(word));
    return n;
}

int ah_profile_report_parse(const char *text, size_t bytes, struct ah_arena *arena,
                            struct ah_profile_report *ret_report, struct ah_error *err)
{
    struct ah_profile_report report = {0};
    struct reader reader = {.at = text, .end = text + bytes, .arena = arena, .report = &report};
    report.hosts = ah_arena_array(arena, lines_with(text, reader.end, "host ") + 1, sizeof *report.hosts);
    report.links = ah_arena_array(arena, lines_with(text, reader.end, "link ") + 1, sizeof *report.links);
    if (!report.hosts || !report.links)
        return ah_error_memory(err);
    while (!reader.ended && !reader.failed && reader.at < reader.end)
        read_line(&reader);
    if (!reader.ended)
        return ah_error_set(err, AH_E_FAILED, "only part of the hosts' measurements arrived");
    *ret_report = report;
    return AH_OK;
}
