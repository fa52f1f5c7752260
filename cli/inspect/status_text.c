/* SPDX-License-Identifier: Apache-2.0
 *
 * Status text: a table of ranks, and sentences about the run: its step, its age, who is behind.
 */
#include "cli/inspect/status_text.h"

#include "cli/frame/table.h"
#include "runtime/train/behind.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BEHIND_SHOWN = 4, PLACE_MAX = 160 };

const char *ah_status_print_age(char out[AH_STATUS_AGE_MAX], double us)
{
    static const struct {
        double us, below; /* length of the unit; limit of the ages in this unit */
        const char *unit;
    } units[] = {
        {1e6, 120e6, "s"}, {60e6, 7200e6, "min"}, {3600e6, 48 * 3600e6, "h"}, {86400e6, 1e300, "days"}};
    size_t i = 0;
    while (us >= units[i].below && i + 1 < sizeof units / sizeof *units)
        i++;
    if (us < 1e6)
        snprintf(out, AH_STATUS_AGE_MAX, "under 1 s");
    else
        snprintf(out, AH_STATUS_AGE_MAX, "%.0f %s", floor(us / units[i].us), units[i].unit);
    return out;
}

/* ---- ranks that are behind ---- */

static int compare_behind(const void *left, const void *right)
{
    const struct ah_status_behind *a = left, *b = right;
    if ((a->silent_us > 0) != (b->silent_us > 0))
        return a->silent_us > 0 ? -1 : 1;
    if (a->others != b->others)
        return a->others > b->others ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* True if a circle of waits is so new that it may be only messages in transit between two ranks. */
static bool is_passing(const struct ah_status_behind *one)
{
    return one->in_circle && one->us < 1e6;
}

int ah_status_find_behind(const struct ah_status *status, struct ah_arena *arena,
                          struct ah_status_behind **ret_behind, size_t *ret_n, struct ah_error *err)
{
    const uint32_t n = (uint32_t)status->n_ranks;
    uint32_t *waits_for = ah_arena_array(arena, n, sizeof *waits_for);
    uint32_t *root = ah_arena_array(arena, n, sizeof *root);
    struct ah_status_behind *behind = ah_arena_array(arena, n, sizeof *behind);
    size_t used = 0;
    if (!waits_for || !root || !behind)
        return ah_error_memory(err);
    for (uint32_t rank = 0; rank < n; rank++) {
        const struct ah_status_wait *wait = status->ranks[rank].waits_for;
        const double silent_us = status->ranks[rank].silent_us; /* since the rank's last answer */
        const bool waits = wait && !(silent_us > 0);
        waits_for[rank] = waits ? (uint32_t)wait->rank : AH_BEHIND_NOBODY;
        behind[rank] = (struct ah_status_behind){.rank = rank, .in_circle = waits, .silent_us = silent_us};
    }
    ah_behind_find(waits_for, n, root);
    for (uint32_t rank = 0; rank < n; rank++) {
        struct ah_status_behind *one = &behind[root[rank]];
        if (root[rank] == rank)
            continue;
        one->others++;
        one->us = status->ranks[rank].waits_for->us > one->us ? status->ranks[rank].waits_for->us : one->us;
    }
    for (uint32_t rank = 0; rank < n; rank++)
        if ((behind[rank].others && !is_passing(&behind[rank])) || behind[rank].silent_us > 0)
            behind[used++] = behind[rank];
    qsort(behind, used, sizeof *behind, compare_behind);
    *ret_behind = used ? behind : NULL;
    *ret_n = used;
    return AH_OK;
}

/* Prints " on host 'b', node 'n1'". Returns `out`. */
static const char *print_place(struct ah_cli *cli, const struct ah_status_rank *rank, char out[PLACE_MAX])
{
    snprintf(out, PLACE_MAX, " on host '%.60s'%s%.60s%s", ah_cli_clean(cli, rank->host),
             rank->node ? ", node '" : "", rank->node ? ah_cli_clean(cli, rank->node) : "",
             rank->node ? "'" : "");
    return out;
}

static void put_behind(struct ah_cli *cli, const struct ah_status *status, const struct ah_status_behind *one)
{
    char place[PLACE_MAX], age[AH_STATUS_AGE_MAX];
    struct ah_buffer *out = &cli->out;
    ah_buffer_printf(out, "rank %" PRIu32 "%s ", one->rank,
                     print_place(cli, &status->ranks[one->rank], place));
    if (one->silent_us > 0)
        ah_buffer_printf(out, "has not answered for %s; this is its last report",
                         ah_status_print_age(age, one->silent_us));
    else if (one->in_circle)
        ah_buffer_puts(out, "seems to be in a circle of ranks that wait for each other");
    else
        ah_buffer_puts(out, "is behind");
    ah_status_print_age(age, one->us);
    if (one->others > 1)
        ah_buffer_printf(out, ": %" PRIu32 " others wait for it, the longest %s so far", one->others, age);
    else if (one->others)
        ah_buffer_printf(out, ": 1 other waits for it, %s so far", age);
    ah_buffer_puts(out, "\n");
}

static void put_all_behind(struct ah_cli *cli, const struct ah_status *status)
{
    struct ah_status_behind *behind;
    size_t n;
    const size_t mark = cli->out.size;
    if (status->n_ranks < 2)
        return;
    if (ah_status_find_behind(status, &cli->arena, &behind, &n, NULL)) {
        cli->out.failed = true;
        return;
    }
    for (size_t i = 0; i < n && i < BEHIND_SHOWN; i++)
        put_behind(cli, status, &behind[i]);
    if (n > BEHIND_SHOWN)
        ah_buffer_printf(&cli->out, "and %zu more\n", n - BEHIND_SHOWN);
    if (!n)
        ah_buffer_puts(&cli->out, "no rank is behind the others\n");
    ah_cli_fit(cli, mark, 2);
}

/* ---- the run ---- */

static void put_headline(struct ah_cli *cli, const struct ah_status *status, uint64_t now_us)
{
    char age[AH_STATUS_AGE_MAX];
    const uint64_t old_us = now_us > status->updated_us ? now_us - status->updated_us : 0;
    const size_t mark = cli->out.size;
    ah_status_print_age(age, (double)old_us);
    ah_buffer_printf(&cli->out, "%s%s%s: %s%safter step %" PRIu64 " of %" PRIu64, cli->out_style.bold,
                     ah_cli_clean(cli, status->model), cli->out_style.reset,
                     status->ended ? ah_words_status_ended[status->ended] : "", status->ended ? " " : "",
                     status->step, status->steps);
    if (now_us && !status->ended && old_us > AH_STATUS_STALE_US)
        ah_buffer_printf(&cli->out, "; no update for %s: the run may have died", age);
    else if (now_us)
        ah_buffer_printf(&cli->out, ", %s ago", age);
    ah_buffer_puts(&cli->out, "\n");
    ah_cli_fit(cli, mark, 2);
}

/* ---- a line for each rank ---- */

static void cell_work(struct ah_table *table, const struct ah_status *status,
                      const struct ah_status_rank *rank)
{
    char micro_batch[32] = "";
    if (rank->micro_batch != AH_STATUS_NO_MICRO_BATCH)
        snprintf(micro_batch, sizeof micro_batch, ", micro-batch %" PRIu64, rank->micro_batch);
    if (rank->op != AH_STATUS_NO_OP)
        ah_table_cell(table, "%s%s%s%s", ah_words_plan_op[rank->op], rank->block ? " of " : "",
                      rank->block ? rank->block : "", micro_batch);
    else
        ah_table_cell(table, "%s", rank->waits_for || status->ended ? "-" : "works beside its device");
}

static void cell_wait(struct ah_table *table, const struct ah_status_wait *wait)
{
    static const char *const what[] = {[AH_STATUS_OUTPUT] = "the output",
                                       [AH_STATUS_GRADIENT] = "the gradient",
                                       [AH_STATUS_PARTIAL] = "gradients to add up",
                                       [AH_STATUS_TOTAL] = "summed gradients or gathered weights",
                                       [AH_STATUS_NORM] = "sums for the norm",
                                       [AH_STATUS_REPORT] = "a report",
                                       [AH_STATUS_ORDER] = "an order"};
    char age[AH_STATUS_AGE_MAX], micro_batch[40] = "";
    if (!wait) {
        ah_table_cell(table, "%s", "");
        ah_table_cell(table, "%s", "");
        return;
    }
    if (wait->micro_batch != AH_STATUS_NO_MICRO_BATCH)
        snprintf(micro_batch, sizeof micro_batch, " of micro-batch %" PRIu64, wait->micro_batch);
    ah_table_cell(table, "rank %" PRIu64 "%s %s%s", wait->rank, wait->sends ? " to take" : ":",
                  what[wait->message], micro_batch);
    ah_table_cell(table, "%s", ah_status_print_age(age, wait->us));
}

static void put_ranks(struct ah_cli *cli, const struct ah_status *status)
{
    const bool nodes = status->ranks[0].node;
    struct ah_table table = {.arena = &cli->arena, .columns = {">rank", ">step", "host"}};
    size_t n = 3;
    if (nodes)
        table.columns[n++] = "node";
    table.columns[n++] = "at";
    if (status->n_ranks > 1) {
        table.columns[n++] = "waits for";
        table.columns[n++] = ">for";
    }
    for (size_t i = 0; i < status->n_ranks; i++) {
        const struct ah_status_rank *rank = &status->ranks[i];
        ah_table_cell(&table, "%" PRIu64, rank->rank);
        ah_table_cell(&table, "%" PRIu64, rank->step);
        ah_table_cell(&table, "%s", rank->host);
        if (nodes)
            ah_table_cell(&table, "%s", rank->node ? rank->node : "");
        cell_work(&table, status, rank);
        if (status->n_ranks > 1)
            cell_wait(&table, rank->waits_for);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
}

void ah_status_put(struct ah_cli *cli, const struct ah_status *status, uint64_t now_us)
{
    put_headline(cli, status, now_us);
    if (!status->ended)
        put_all_behind(cli, status);
    ah_buffer_puts(&cli->out, "\n");
    put_ranks(cli, status);
}
