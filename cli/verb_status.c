/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete status LOG: shows the progress of a run, and which rank delays it.
 */
#include "cli/inspect/status_text.h"
#include "cli/verbs.h"
#include "schemas/document.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Returns the path of a log's status file. Returns `given` if it is a status file or '-'. */
static const char *find_path(const char *given, char out[PATH_MAX])
{
    const size_t length = strlen(given), suffix = strlen(AH_STATUS_SUFFIX);
    if (!strcmp(given, "-") || (length > suffix && !strcmp(given + length - suffix, AH_STATUS_SUFFIX)))
        return given;
    snprintf(out, PATH_MAX, "%s" AH_STATUS_SUFFIX, given);
    return out;
}

static int load_status(struct ah_document *ret_document, const char *given, struct ah_error *err)
{
    char room[PATH_MAX], shown[AH_DOCUMENT_NAME_MAX];
    const char *path = find_path(given, room);
    if (strcmp(path, "-") != 0 && access(path, F_OK) && errno == ENOENT)
        return ah_error_set(
            err, AH_E_IO,
            "%s: does not exist; 'autohete run' with '--log FILE' writes FILE" AH_STATUS_SUFFIX
            " while it runs",
            ah_document_short_name(path, shown));
    return ah_document_load(ret_document, path, AH_DOCUMENT_STATUS, err);
}

static int status_run(struct ah_cli *cli, const void *options)
{
    struct ah_document document = {0};
    struct ah_error err = {0};
    (void)options;
    int rc = load_status(&document, cli->arguments.operands[0], &err);
    if (!rc && cli->json)
        rc = ah_document_print(&document, &cli->out, &err);
    else if (!rc)
        ah_status_put(cli, document.body.status, now_us());
    ah_document_release(&document);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_status = {
    .name = "status",
    .summary = "show the progress of a run, and which ranks are slow",
    .description = "A run with '--log LOG' rewrites the file LOG.status about once a second: the last "
                   "finished step, and for each rank what its device is doing and what it waits for. This "
                   "verb shows it with its age, and names the ranks that others wait for, directly or "
                   "indirectly. It works on any machine that sees the file.\n\nWaits of a few seconds are "
                   "normal in pipelines. A status older than 10 seconds means that the run has died, or that "
                   "the file system lags; a run that has ended says how.",
    .syntax = {.operands = {AH_OPERAND_FILE, "LOG", 1, 1, NULL}},
    .examples = {{"status run.ndjson", "who is slow"},
                 {"status run.ndjson --json | jq '.ranks[] | select(.waits_for) | .rank'",
                  "the ranks that wait"}},
    .run = status_run,
};
