/* SPDX-License-Identifier: Apache-2.0
 *
 * Every two ranks have a channel in each direction. First, each rank sends its hello to rank 0. Then rank 0 sends
 * commands (`word`). A reply is an answer followed by its document, the points of a link, or the messages of a ping.
 */
#include "cli/profile/profile_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PURPOSE = 1 };

enum word_kind { WORD_END, WORD_MEASURE, WORD_PING, WORD_ECHO };

struct word {
    uint32_t kind, peer;
};

struct answer {
    int64_t code;   /* AH_OK: a text of `bytes` follows the answer */
    uint64_t bytes; /* including its terminating 0 */
    char why[AH_ERROR_TEXT_MAX];
};

/* ---- ranks on the same machine ---- */

/* Reads the first line of a file; "" if there is no file. */
static void read_first_line(const char *path, char *ret_text, int bytes)
{
    FILE *file = fopen(path, "re");
    ret_text[0] = '\0';
    if (!file)
        return;
    if (!fgets(ret_text, bytes, file))
        ret_text[0] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
    (void)fclose(file);
}

void ah_profile_hello_fill(struct ah_profile_hello *ret_hello)
{
    struct ah_profile_hello hello = {{0}, {0}, {0}};
    if (gethostname(hello.host, sizeof hello.host - 1) || !hello.host[0])
        snprintf(hello.host, sizeof hello.host, "unknown");
    read_first_line("/proc/sys/kernel/random/boot_id", hello.boot, sizeof hello.boot);
    ah_build_id_read(hello.build);
    *ret_hello = hello;
}

static bool is_same_machine(const struct ah_profile_hello *a, const struct ah_profile_hello *b)
{
    return a->boot[0] && b->boot[0] ? !strcmp(a->boot, b->boot) : !strcmp(a->host, b->host);
}

void ah_profile_node_turns(const struct ah_profile_hello *hellos, uint32_t n,
                           struct ah_profile_turn *ret_turns)
{
    for (uint32_t i = 0; i < n; i++) {
        ret_turns[i] = (struct ah_profile_turn){0, i};
        for (uint32_t j = i; j-- > 0;) {
            if (!is_same_machine(&hellos[i], &hellos[j]))
                continue;
            ret_turns[i].turn++;
            if (!strcmp(hellos[i].host, hellos[j].host))
                ret_turns[i].first = j;
        }
    }
}

/* ---- channels ---- */

static struct ah_profile_way way_to(const struct ah_profile_node *node, uint32_t peer)
{
    const uint32_t slot = peer - (peer > ah_comm_rank(node->comm));
    return (struct ah_profile_way){node->comm, 2 * slot, 2 * slot + 1};
}

static int send_bytes(const struct ah_profile_node *node, uint32_t peer, const void *data, uint64_t bytes,
                      struct ah_error *err)
{
    union {
        const void *read;
        void *data; /* not const, because receives write to it */
    } of = {data};
    return ah_comm_move(node->comm, way_to(node, peer).out, of.data, bytes, err);
}

static int receive_bytes(const struct ah_profile_node *node, uint32_t peer, void *data, uint64_t bytes,
                         struct ah_error *err)
{
    return ah_comm_move(node->comm, way_to(node, peer).in, data, bytes, err);
}

int ah_profile_node_open(struct ah_profile_node *node, const struct ah_profile_node_options *options,
                         struct ah_error *err)
{
    *node = (struct ah_profile_node){.options = *options};
    int rc = ah_comm_open(&node->comm, &options->comm, err);
    if (rc)
        return rc;
    const uint32_t ranks = ah_comm_ranks(node->comm), rank = ah_comm_rank(node->comm);
    struct ah_comm_channel *channels = calloc((size_t)ranks * 2, sizeof *channels);
    if (!channels)
        return ah_error_memory(err);
    for (uint32_t peer = 0; peer < ranks; peer++) {
        if (peer == rank)
            continue;
        const struct ah_profile_way way = way_to(node, peer);
        channels[way.out] = (struct ah_comm_channel){peer, PURPOSE, true, AH_PROFILE_LINK_BYTES};
        channels[way.in] = (struct ah_comm_channel){peer, PURPOSE, false, AH_PROFILE_LINK_BYTES};
    }
    rc = ah_comm_channels(node->comm, channels, (size_t)(ranks - 1) * 2, err);
    free(channels);
    return rc;
}

void ah_profile_node_close(struct ah_profile_node *node, int rc, const struct ah_error *why)
{
    if (rc && node->comm)
        ah_comm_revoke(node->comm, why);
    ah_comm_close(node->comm);
    node->comm = NULL;
}

/* ---- measuring ---- */

/* Measures this machine. The answer says whether that succeeded. */
static struct answer measure_node(const struct ah_profile_node *node, struct ah_buffer *text)
{
    struct ah_error err = {0};
    struct answer answer = {.code = node->options.measure(node->options.context, text, &err)};
    if (!answer.code && text->failed)
        answer.code = ah_error_memory(&err);
    else if (!answer.code && text->size >= AH_PROFILE_LINK_BYTES)
        answer.code = ah_error_set(&err, AH_E_CAPACITY,
                                   "the profile has %zu bytes, more than a message can hold", text->size);
    answer.bytes = text->size + 1;
    snprintf(answer.why, sizeof answer.why, "%s", err.text);
    return answer;
}

static int answer_measure(const struct ah_profile_node *node, struct ah_error *err)
{
    struct ah_buffer text = {0};
    const struct answer answer = measure_node(node, &text);
    int rc = send_bytes(node, 0, &answer, sizeof answer, err);
    if (!rc && !answer.code)
        rc = send_bytes(node, 0, text.data, answer.bytes, err);
    ah_buffer_release(&text);
    return rc;
}

static int answer_ping(const struct ah_profile_node *node, uint32_t peer, struct ah_error *err)
{
    const struct ah_profile_way way = way_to(node, peer);
    struct ah_profile_points points = {0};
    int rc = ah_profile_links_ping(&way, node->options.quick, &points, err);
    return rc ? rc : send_bytes(node, 0, &points, sizeof points, err);
}

int ah_profile_node_follow(struct ah_profile_node *node, struct ah_error *err)
{
    struct word word = {.kind = WORD_MEASURE};
    int rc = send_bytes(node, 0, node->options.hello, sizeof *node->options.hello, err);
    while (!rc && word.kind != WORD_END) {
        rc = receive_bytes(node, 0, &word, sizeof word, err);
        if (rc)
            return rc;
        const struct ah_profile_way way = way_to(node, word.peer);
        if (word.kind == WORD_MEASURE)
            rc = answer_measure(node, err);
        else if (word.kind == WORD_PING)
            rc = answer_ping(node, word.peer, err);
        else if (word.kind == WORD_ECHO)
            rc = ah_profile_links_echo(&way, err);
    }
    return rc;
}

/* ---- rank 0 ---- */

struct leading {
    struct ah_profile_node *node;
    struct ah_arena *arena;
    struct ah_profile_report *report;
    struct ah_profile_hello *hellos;
    struct ah_profile_turn *turns;
    uint32_t ranks, n_turns;
};

static void blame(struct leading *l, uint32_t culprit, int code, const char *why)
{
    if (l->report->why.code)
        return;
    l->report->culprit = culprit;
    (void)ah_error_set(&l->report->why, code, "%s", why);
}

static void report_progress(const struct leading *l, double begin, double end, const char *what)
{
    if (l->node->options.tell)
        l->node->options.tell(l->node->options.context, begin, end, what);
}

static int collect_hellos(struct leading *l, struct ah_error *err)
{
    int rc = AH_OK;
    l->hellos[0] = *l->node->options.hello;
    for (uint32_t i = 1; i < l->ranks && !rc; i++)
        rc = receive_bytes(l->node, i, &l->hellos[i], sizeof l->hellos[i], err);
    if (rc)
        return rc;
    ah_profile_node_turns(l->hellos, l->ranks, l->turns);
    for (uint32_t i = 0; i < l->ranks; i++) {
        l->n_turns = l->turns[i].turn + 1 > l->n_turns ? l->turns[i].turn + 1 : l->n_turns;
        l->report->hosts[i].first = l->turns[i].first;
        l->report->hosts[i].name = l->hellos[i].host;
        if (strcmp(l->hellos[i].build, l->hellos[0].build) != 0)
            blame(l, i, AH_E_MISMATCH,
                  "has a different build of autohete from the first host; install the same build on all");
    }
    return AH_OK;
}

static int keep_text(struct leading *l, uint32_t rank, const char *text, size_t bytes, struct ah_error *err)
{
    struct ah_report_host *host = &l->report->hosts[rank];
    host->text = ah_arena_strndup(l->arena, text ? text : "", bytes);
    host->text_bytes = bytes;
    return host->text ? AH_OK : ah_error_memory(err);
}

static int measure_own(struct leading *l, struct ah_error *err)
{
    struct ah_buffer text = {0};
    const struct answer answer = measure_node(l->node, &text);
    int rc = AH_OK;
    if (answer.code)
        blame(l, 0, (int)answer.code, answer.why);
    else
        rc = keep_text(l, 0, text.data, text.size, err);
    ah_buffer_release(&text);
    return rc;
}

static int hear_answer(struct leading *l, uint32_t rank, struct ah_error *err)
{
    struct answer answer = {0};
    int rc = receive_bytes(l->node, rank, &answer, sizeof answer, err);
    answer.why[sizeof answer.why - 1] = '\0';
    if (!rc && answer.code)
        blame(l, rank, (int)answer.code, answer.why);
    if (rc || answer.code)
        return rc;
    char *text = ah_arena_alloc(l->arena, answer.bytes);
    if (!text)
        return ah_error_memory(err);
    rc = receive_bytes(l->node, rank, text, answer.bytes, err);
    l->report->hosts[rank].text = text;
    l->report->hosts[rank].text_bytes = answer.bytes - 1;
    return rc;
}

/* Lets all ranks of one turn measure at the same time, and receives their answers. */
static int take_turn(struct leading *l, uint32_t turn, struct ah_error *err)
{
    const double part = 1.0 / (l->n_turns + 1.0), begin = turn * part;
    const struct word word = {.kind = WORD_MEASURE};
    int rc = AH_OK;
    for (uint32_t i = 1; i < l->ranks && !rc; i++)
        if (l->turns[i].turn == turn)
            rc = send_bytes(l->node, i, &word, sizeof word, err);
    if (!rc)
        report_progress(l, begin, begin + part,
                        l->n_turns > 1 && turn ? "hosts that share a machine" : "machines");
    if (!rc && l->turns[0].turn == turn)
        rc = measure_own(l, err);
    for (uint32_t i = 1; i < l->ranks && !rc; i++)
        if (l->turns[i].turn == turn)
            rc = hear_answer(l, i, err);
    return rc;
}

static int ping_pair(struct leading *l, uint32_t a, uint32_t b, struct ah_profile_points *points,
                     struct ah_error *err)
{
    const struct word ping = {WORD_PING, b}, echo = {WORD_ECHO, a};
    const struct ah_profile_way way = way_to(l->node, b);
    int rc = send_bytes(l->node, b, &echo, sizeof echo, err);
    if (!a)
        return rc ? rc : ah_profile_links_ping(&way, l->node->options.quick, points, err);
    rc = rc ? rc : send_bytes(l->node, a, &ping, sizeof ping, err);
    return rc ? rc : receive_bytes(l->node, a, points, sizeof *points, err);
}

static int measure_link(struct leading *l, uint32_t a, uint32_t b, struct ah_error *err)
{
    struct ah_profile_points points = {0};
    struct ah_error why = {0};
    struct ah_report_link found = {.a = a, .b = b};
    int rc = ping_pair(l, a, b, &points, err);
    if (rc)
        return rc;
    if (ah_profile_links_fit(&points, &found.link, &why))
        blame(l, b, why.code, why.text);
    else
        l->report->links[l->report->n_links++] = found;
    return AH_OK;
}

static int measure_links(struct leading *l, struct ah_error *err)
{
    const atomic_int *cancel = l->node->options.cancel;
    const double pairs = l->ranks * (l->ranks - 1.0) / 2, base = l->n_turns / (l->n_turns + 1.0);
    int rc = AH_OK;
    for (uint32_t b = 1; b < l->ranks; b++)
        for (uint32_t a = 0; a < b && !rc && !l->report->why.code; a++) {
            const double done = base + (1 - base) * (double)l->report->n_links / pairs;
            report_progress(l, done, done, "links");
            if (cancel && atomic_load(cancel))
                blame(l, 0, AH_E_INTERRUPTED, "interrupted");
            else
                rc = measure_link(l, a, b, err);
        }
    return rc;
}

static int dismiss(struct leading *l, struct ah_error *err)
{
    const struct word word = {.kind = WORD_END};
    int rc = AH_OK;
    for (uint32_t i = 1; i < l->ranks && !rc; i++)
        rc = send_bytes(l->node, i, &word, sizeof word, err);
    return rc;
}

int ah_profile_node_lead(struct ah_profile_node *node, struct ah_arena *arena,
                         struct ah_profile_report *ret_report, struct ah_error *err)
{
    const uint32_t n = ah_comm_ranks(node->comm);
    struct ah_profile_report report = {.n_hosts = n};
    struct leading l = {.node = node, .arena = arena, .report = &report, .ranks = n};
    report.hosts = ah_arena_array(arena, n, sizeof *report.hosts);
    report.links = ah_arena_array(arena, (size_t)n * n, sizeof *report.links);
    l.hellos = ah_arena_array(arena, n, sizeof *l.hellos);
    l.turns = ah_arena_array(arena, n, sizeof *l.turns);
    if (!report.hosts || !report.links || !l.hellos || !l.turns)
        return ah_error_memory(err);
    int rc = collect_hellos(&l, err);
    for (uint32_t turn = 0; turn < l.n_turns && !rc && !report.why.code; turn++)
        rc = take_turn(&l, turn, err);
    if (!rc && !report.why.code)
        rc = measure_links(&l, err);
    rc = rc ? rc : dismiss(&l, err);
    if (!rc)
        *ret_report = report;
    return rc;
}
