/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/plan_prospects.h"

#include "base/units.h"
#include "cli/frame/table.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const ah_plan_prospects_words[] = {"device-memory", "batch", "seq", NULL};

static const enum ah_prospect_kind swept_kinds[] = {AH_PROSPECT_DEVICE_MEMORY, AH_PROSPECT_BATCH,
                                                    AH_PROSPECT_SEQ};

/* the smallest gain that is printed as a number */
static const double noticed = 0.005;

/* ---- the command line ---- */

static int parse_values(struct ah_plan_prospects *prospects, const char *text, struct ah_error *err)
{
    bool memory = prospects->swept == AH_PROSPECT_DEVICE_MEMORY;
    int rc = AH_OK;
    for (const char *at = text; at && !rc;) {
        char one[48];
        uint64_t value = 0;
        size_t length = strcspn(at, ",");
        if (prospects->n_values == AH_PROSPECTS_LADDER_MAX)
            return ah_error_set(err, AH_E_USAGE, "'--sweep': give at most %d values",
                                AH_PROSPECTS_LADDER_MAX);
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one), at);
        rc = memory ? ah_units_parse_bytes(one, &value, err) : ah_units_parse_count(one, &value, err);
        if (rc)
            rc = ah_error_prefix(err, rc, "'--sweep'");
        else if (!value)
            rc = ah_error_set(err, AH_E_USAGE, "'--sweep': '%s' is not a value to plan for", one);
        prospects->values[prospects->n_values++] = value;
        at = at[length] ? at + length + 1 : NULL;
    }
    return rc;
}

int ah_plan_prospects_parse(struct ah_plan_prospects *ret_prospects, bool explain, const char *sweep,
                            struct ah_error *err)
{
    struct ah_plan_prospects prospects = {.explain = explain, .sweep = sweep != NULL};
    size_t length = sweep ? strcspn(sweep, "=") : 0, i = 0;
    while (sweep && ah_plan_prospects_words[i] &&
           (strlen(ah_plan_prospects_words[i]) != length ||
            memcmp(ah_plan_prospects_words[i], sweep, length) != 0))
        i++;
    if (sweep && !ah_plan_prospects_words[i])
        return ah_error_set(err, AH_E_USAGE,
                            "'--sweep' %s: give device-memory, batch or seq, and values if you like: "
                            "'--sweep batch=1,2,4,8'",
                            sweep);
    prospects.swept = swept_kinds[sweep ? i : 0];
    int rc = sweep && sweep[length] ? parse_values(&prospects, sweep + length + 1, err) : AH_OK;
    if (!rc)
        *ret_prospects = prospects;
    return rc;
}

/* ---- planning ---- */

static int find_point(const struct ah_plan_request *request, struct ah_prospect_change change,
                      struct ah_prospect *ret_row, struct ah_error *err)
{
    int rc = ah_prospects_plan(request, change, ret_row, err);
    if (rc == AH_E_USAGE && change.kind == AH_PROSPECT_DEVICE_MEMORY) {
        char text[AH_UNITS_TEXT_MAX];
        return ah_error_set(err, AH_E_USAGE,
                            "'--sweep': %s is no more than the device '%s' reserves for itself; give more",
                            ah_units_print_bytes(text, change.value), request->machine->device.name);
    }
    return rc;
}

static int find_sweep(struct ah_plan_prospects *prospects, const struct ah_plan_request *request,
                      struct ah_error *err)
{
    int rc = prospects->n_values ? AH_OK
                                 : ah_prospects_ladder(request, prospects->swept, prospects->values,
                                                       &prospects->n_values, err);
    for (size_t i = 0; i < prospects->n_values && !rc; i++) {
        struct ah_prospect_change change = {prospects->swept, prospects->values[i]};
        rc = find_point(request, change, &prospects->points[i], err);
        prospects->n_points += !rc;
    }
    return rc;
}

static int find_explanation(struct ah_plan_prospects *prospects, const struct ah_plan_request *request,
                            const struct ah_plan *plan, struct ah_error *err)
{
    ah_plan_put_cause(&prospects->limits, plan);
    ah_buffer_puts(&prospects->limits, " ");
    ah_plan_put_bottleneck(&prospects->limits, &plan->time);
    int rc = prospects->limits.failed ? ah_error_memory(err) : AH_OK;
    rc = rc ? rc : ah_prospects_explain(request, prospects->explained, err);
    prospects->n_explained = rc ? 0 : AH_PROSPECTS_EXPLAINED;
    return rc;
}

int ah_plan_prospects_find(struct ah_plan_prospects *prospects, const struct ah_plan_request *request,
                           const struct ah_plan *plan, struct ah_error *err)
{
    int rc = prospects->explain && plan ? find_explanation(prospects, request, plan, err) : AH_OK;
    return rc || !prospects->sweep ? rc : find_sweep(prospects, request, err);
}

void ah_plan_prospects_release(struct ah_plan_prospects *prospects)
{
    ah_buffer_release(&prospects->limits);
}

/* ---- words ---- */

enum { WORDS_MAX = 120 };

/* Prints the change that makes a row: "1 GiB more device memory (24.6 GiB)", "batch 16". */
static const char *change_words(char out[WORDS_MAX], const struct ah_prospect_change *change)
{
    char bytes[AH_UNITS_TEXT_MAX];
    ah_units_print_bytes(bytes, change->value);
    switch (change->kind) {
    case AH_PROSPECT_UNCHANGED:
        snprintf(out, WORDS_MAX, "as it is");
        break;
    case AH_PROSPECT_MORE_DEVICE_MEMORY:
        snprintf(out, WORDS_MAX, "1 GiB more device memory (%s)", bytes);
        break;
    case AH_PROSPECT_H2D:
        snprintf(out, WORDS_MAX, "link to the device twice as fast");
        break;
    case AH_PROSPECT_D2H:
        snprintf(out, WORDS_MAX, "link to the host twice as fast");
        break;
    case AH_PROSPECT_LINKS:
        snprintf(out, WORDS_MAX, "both links twice as fast");
        break;
    case AH_PROSPECT_MORE_HOST_MEMORY:
        snprintf(out, WORDS_MAX, "twice the host memory (%s)", bytes);
        break;
    case AH_PROSPECT_DEVICE_MEMORY:
        snprintf(out, WORDS_MAX, "%s", bytes);
        break;
    case AH_PROSPECT_BATCH:
    case AH_PROSPECT_SEQ:
        snprintf(out, WORDS_MAX, "%" PRIu64, change->value);
        break;
    }
    return out;
}

/* Prints "recompute 15+5, host 9+9, streamed 10", or nothing if everything stays on the device. */
static const char *blocks_words(char out[WORDS_MAX], const struct ah_prospect_blocks *blocks)
{
    int used = 0;
    out[0] = '\0';
    if (blocks->recompute || blocks->selective)
        used = snprintf(out, WORDS_MAX, "recompute %zu+%zu", blocks->recompute, blocks->selective);
    if (blocks->weights_host || blocks->optimizer_host)
        used += snprintf(out + used, WORDS_MAX - (size_t)used, "%shost %zu+%zu", used ? ", " : "",
                         blocks->weights_host, blocks->optimizer_host);
    if (blocks->streamed)
        used += snprintf(out + used, WORDS_MAX - (size_t)used, "%sstreamed %zu", used ? ", " : "",
                         blocks->streamed);
    if (!used)
        snprintf(out, WORDS_MAX, "everything stays on the device");
    return out;
}

/* Prints "device memory is short by at least 3.2 GiB". */
static const char *shortage_words(char out[WORDS_MAX], const struct ah_prospect *row)
{
    char bytes[AH_UNITS_TEXT_MAX];
    if (row->short_bytes)
        snprintf(out, WORDS_MAX, "%s is short by %s%s", row->resource, row->at_least ? "at least " : "",
                 ah_units_print_bytes(bytes, row->short_bytes));
    else
        snprintf(out, WORDS_MAX, "%s is short", row->resource);
    return out;
}

/* ---- tables ---- */

static void put_times(struct ah_table *table, const struct ah_prospect *row)
{
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s", row->feasible ? ah_units_print_time(text, row->step_us) : "does not fit");
    if (row->feasible)
        ah_table_cell(table, "%.0f", row->tokens_per_s);
    else
        ah_table_cell(table, "%s", "");
}

static void put_note(struct ah_cli *cli, const char *text)
{
    ah_buffer_printf(&cli->out, "  %s", cli->out_style.dim);
    ah_terminal_wrap(&cli->out, text, 2, cli->columns);
    ah_buffer_puts(&cli->out, cli->out_style.reset);
}

static void put_explanation(struct ah_cli *cli, const struct ah_plan_prospects *prospects)
{
    struct ah_buffer limits = {0};
    struct ah_table table = {
        .arena = &cli->arena, .columns = {"change", ">step", ">tokens/s", ">gain"}, .indent = 2};
    ah_buffer_printf(&cli->out, "\n%swhat limits this plan%s\n", cli->out_style.bold, cli->out_style.reset);
    ah_buffer_append(&limits, prospects->limits.data, prospects->limits.size);
    ah_cli_put_wrapped(cli, &limits, 2);
    for (size_t i = 0; i < prospects->n_explained; i++) {
        char words[WORDS_MAX];
        const struct ah_prospect *row = &prospects->explained[i];
        double gain = row->feasible ? prospects->explained[0].step_us / row->step_us : 0;
        ah_table_cell(&table, "%s", change_words(words, &row->change));
        put_times(&table, row);
        if (i && gain > 1 + noticed)
            ah_table_cell(&table, "%.2f x", gain);
        else
            ah_table_cell(&table, "%s", i ? "none" : "");
    }
    ah_inspect_table(cli, "what would change it", &table);
    put_note(cli,
             "Each row is a plan for the machine with that one change; gain: how many times faster. none: "
             "less than 0.5 %.");
}

static void put_point(struct ah_table *table, const struct ah_prospect *row)
{
    char words[WORDS_MAX], text[AH_UNITS_TEXT_MAX];
    ah_table_cell(table, "%s%s", change_words(words, &row->change), row->as_asked ? " *" : "");
    put_times(table, row);
    if (row->feasible) {
        ah_table_cell(table, "%s", ah_units_print_bytes(text, row->device_bytes));
        ah_table_cell(table, "%s", ah_units_print_bytes(text, row->host_bytes));
        ah_table_cell(table, "%s", blocks_words(words, &row->blocks));
    } else {
        ah_table_cell(table, "%s", "");
        ah_table_cell(table, "%s", "");
        ah_table_cell(table, "%s", shortage_words(words, row));
    }
}

static void put_sweep(struct ah_cli *cli, const struct ah_plan_prospects *prospects)
{
    static const char *const heads[] = {"device memory", "batch", "seq"};
    const char *head = heads[prospects->swept - AH_PROSPECT_DEVICE_MEMORY];
    char heading[WORDS_MAX];
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {head, ">step", ">tokens/s", ">device", ">host", "blocks"},
                             .indent = 2};
    for (size_t i = 0; i < prospects->n_points; i++)
        put_point(&table, &prospects->points[i]);
    snprintf(heading, sizeof heading, "plans by %s", head);
    ah_inspect_table(cli, heading, &table);
    put_note(
        cli,
        "*: as requested. blocks: number that recompute their activations, fully + selectively; that keep "
        "their weights + optimizers on the host; that stream their states to the device. Each row is a "
        "plan.");
}

void ah_plan_prospects_put(struct ah_cli *cli, const struct ah_plan_prospects *prospects)
{
    if (prospects->n_explained)
        put_explanation(cli, prospects);
    if (prospects->n_points)
        put_sweep(cli, prospects);
}

/* ---- JSON ---- */

static const char *const kind_words[] = {
    [AH_PROSPECT_UNCHANGED] = "unchanged",
    [AH_PROSPECT_MORE_DEVICE_MEMORY] = "device_memory",
    [AH_PROSPECT_H2D] = "h2d_bandwidth",
    [AH_PROSPECT_D2H] = "d2h_bandwidth",
    [AH_PROSPECT_LINKS] = "link_bandwidths",
    [AH_PROSPECT_MORE_HOST_MEMORY] = "host_memory",
    [AH_PROSPECT_DEVICE_MEMORY] = "device_memory",
    [AH_PROSPECT_BATCH] = "batch",
    [AH_PROSPECT_SEQ] = "seq",
};

static void emit_blocks(struct ah_emit *emit, const struct ah_prospect_blocks *blocks)
{
    ah_emit_open(emit, "blocks", '{');
    ah_emit_integer(emit, "all", blocks->all);
    ah_emit_integer(emit, "recompute", blocks->recompute);
    ah_emit_integer(emit, "selective", blocks->selective);
    ah_emit_integer(emit, "weights_host", blocks->weights_host);
    ah_emit_integer(emit, "optimizer_host", blocks->optimizer_host);
    ah_emit_integer(emit, "streamed", blocks->streamed);
    ah_emit_close(emit);
}

static void emit_row(struct ah_emit *emit, const struct ah_prospect *row, double base_us)
{
    char words[WORDS_MAX];
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "change", kind_words[row->change.kind]);
    if (row->change.value)
        ah_emit_integer(emit, "value", row->change.value);
    ah_emit_text(emit, "words", change_words(words, &row->change));
    ah_emit_bool(emit, "as_asked", row->as_asked);
    ah_emit_bool(emit, "beyond_machine", row->beyond_machine);
    ah_emit_bool(emit, "feasible", row->feasible);
    if (row->feasible) {
        ah_emit_number(emit, "step_us", row->step_us);
        ah_emit_number(emit, "tokens_per_s", row->tokens_per_s);
        if (base_us > 0)
            ah_emit_number(emit, "gain", base_us / row->step_us);
        ah_emit_integer(emit, "micro_batches", row->micro_batches);
        ah_emit_integer(emit, "device_bytes", row->device_bytes);
        ah_emit_integer(emit, "host_bytes", row->host_bytes);
        emit_blocks(emit, &row->blocks);
        ah_emit_text(emit, "blocks_words", blocks_words(words, &row->blocks));
    } else {
        ah_emit_bool(emit, "proven", row->proven);
        ah_emit_text(emit, "resource", row->resource);
        ah_emit_integer(emit, "short_bytes", row->short_bytes);
        ah_emit_bool(emit, "at_least", row->at_least);
        ah_emit_text(emit, "shortage_words", shortage_words(words, row));
    }
    ah_emit_close(emit);
}

static void emit_rows(struct ah_emit *emit, const char *key, const struct ah_prospect *rows, size_t n,
                      double base_us)
{
    ah_emit_open(emit, key, '[');
    for (size_t i = 0; i < n; i++)
        emit_row(emit, &rows[i], base_us);
    ah_emit_close(emit);
}

void ah_plan_prospects_emit(struct ah_emit *emit, const struct ah_plan_prospects *prospects)
{
    if (prospects->n_explained) {
        ah_emit_open(emit, "explain", '{');
        ah_emit_text(emit, "limits", prospects->limits.data);
        emit_rows(emit, "changes", prospects->explained, prospects->n_explained,
                  prospects->explained[0].step_us);
        ah_emit_close(emit);
    }
    if (prospects->n_points) {
        ah_emit_open(emit, "sweep", '{');
        ah_emit_text(emit, "by", kind_words[prospects->swept]);
        emit_rows(emit, "points", prospects->points, prospects->n_points, 0);
        ah_emit_close(emit);
    }
}
