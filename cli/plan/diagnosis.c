/* SPDX-License-Identifier: Apache-2.0
 *
 * Says why a request has no plan. The rows of a diagnosis, for a machine or a cluster, are filled once and then printed
 * as text or as JSON.
 */
#include "cli/plan/diagnosis.h"

#include "base/units.h"
#include "cli/frame/emit.h"
#include "cli/frame/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A remedy as texts. Its value in JSON is `word` or, if that is NULL, `value`; 0 is left out. */
struct row {
    const char *kind, *word, *node;
    char change[AH_REMEDY_TEXT_MAX], lacking[AH_REMEDY_TEXT_MAX];
    uint64_t value, host_bytes;
    bool changes_mathematics, beyond, moves_rounding;
    double step_us;
};

struct diagnosis {
    struct row rows[AH_REMEDIES];
    size_t n;
    const char *tried;       /* what was changed without success, for a diagnosis without rows */
    const char *beyond_name; /* name of `beyond` in JSON */
    void (*emit_shortage)(const void *shortage, struct ah_emit *emit);
    const void *shortage;
};

_Static_assert((int)AH_CLUSTER_REMEDIES <= (int)AH_REMEDIES, "rows are enough for a cluster");

/* ---- remedies of one machine ---- */

/* Prints bytes exactly, in the largest possible unit, as on a command line. */
static const char *exact_bytes(char out[AH_UNITS_TEXT_MAX], uint64_t bytes)
{
    const uint64_t mib = UINT64_C(1) << 20;
    const uint64_t gib = UINT64_C(1) << 30;
    if (bytes % gib == 0)
        snprintf(out, AH_UNITS_TEXT_MAX, "%" PRIu64 "GiB", bytes / gib);
    else if (bytes % mib == 0)
        snprintf(out, AH_UNITS_TEXT_MAX, "%" PRIu64 "MiB", bytes / mib);
    else
        snprintf(out, AH_UNITS_TEXT_MAX, "%" PRIu64, bytes);
    return out;
}

/* Prints "--micro-batches 4" or "--policy stream"; without a value, only `what`. */
static void put_change(char out[AH_REMEDY_TEXT_MAX], const char *what, const char *word, uint64_t value)
{
    if (word)
        snprintf(out, AH_REMEDY_TEXT_MAX, "%s %s", what, word);
    else if (value)
        snprintf(out, AH_REMEDY_TEXT_MAX, "%s %" PRIu64, what, value);
    else
        snprintf(out, AH_REMEDY_TEXT_MAX, "%s", what);
}

static const struct {
    const char *word, *change;
} kinds[AH_REMEDIES] = {
    [AH_REMEDY_POLICY] = {"policy", "--policy"},
    [AH_REMEDY_DEVICE_MEMORY] = {"device_memory", NULL},
    [AH_REMEDY_HOST_MEMORY] = {"host_memory", NULL},
    [AH_REMEDY_BOTH_MEMORIES] = {"both_memories", NULL},
    [AH_REMEDY_MICRO_BATCHES] = {"micro_batches", "--micro-batches"},
    [AH_REMEDY_BATCH] = {"batch", "--batch"},
    [AH_REMEDY_SEQ] = {"seq", "--seq"},
    [AH_REMEDY_STATE_DTYPE] = {"state_dtype", "--state-dtype"},
};

static const char *word_of(const struct ah_remedy *remedy)
{
    if (remedy->kind == AH_REMEDY_POLICY)
        return ah_words_policy[remedy->value];
    return remedy->kind == AH_REMEDY_STATE_DTYPE ? ah_words_dtype[AH_BF16] : NULL;
}

const char *ah_diagnosis_remedy(char out[AH_REMEDY_TEXT_MAX], const struct ah_remedy *remedy)
{
    char device[AH_UNITS_TEXT_MAX], host[AH_UNITS_TEXT_MAX];
    exact_bytes(device, remedy->value);
    exact_bytes(host, remedy->kind == AH_REMEDY_BOTH_MEMORIES ? remedy->host_bytes : remedy->value);
    if (kinds[remedy->kind].change)
        put_change(out, kinds[remedy->kind].change, word_of(remedy), remedy->value);
    else if (remedy->kind == AH_REMEDY_DEVICE_MEMORY)
        snprintf(out, AH_REMEDY_TEXT_MAX, "--device-memory %s", device);
    else if (remedy->kind == AH_REMEDY_HOST_MEMORY)
        snprintf(out, AH_REMEDY_TEXT_MAX, "--host-memory %s", host);
    else
        snprintf(out, AH_REMEDY_TEXT_MAX, "--device-memory %s --host-memory %s", device, host);
    return out;
}

/* Prints "a machine with more host memory (this one: 62.1 GiB)". */
static void put_lacking(char out[AH_REMEDY_TEXT_MAX], const struct ah_remedy *remedy,
                        const struct ah_machine *machine)
{
    const bool both = remedy->kind == AH_REMEDY_BOTH_MEMORIES;
    const uint64_t device = remedy->kind == AH_REMEDY_HOST_MEMORY ? 0 : remedy->value;
    const uint64_t host = both                                    ? remedy->host_bytes
                          : remedy->kind == AH_REMEDY_HOST_MEMORY ? remedy->value
                                                                  : 0;
    const bool more_device = device > machine->device.memory_bytes,
               more_host = host > machine->host.memory_bytes;
    char there[AH_UNITS_TEXT_MAX], other[AH_UNITS_TEXT_MAX];
    ah_units_print_bytes(there, more_device ? machine->device.memory_bytes : machine->host.memory_bytes);
    ah_units_print_bytes(other, machine->host.memory_bytes);
    if (more_device && more_host)
        snprintf(out, AH_REMEDY_TEXT_MAX, "a machine with more of both (this one: %s and %s)", there, other);
    else
        snprintf(out, AH_REMEDY_TEXT_MAX, "a machine with more %s memory (this one: %s)",
                 more_device ? "device" : "host", there);
}

static void add_remedy(struct diagnosis *said, const struct ah_remedy *remedy,
                       const struct ah_machine *machine)
{
    struct row *row = &said->rows[said->n++];
    *row = (struct row){.kind = kinds[remedy->kind].word,
                        .word = word_of(remedy),
                        .value = remedy->value,
                        .host_bytes = remedy->kind == AH_REMEDY_BOTH_MEMORIES ? remedy->host_bytes : 0,
                        .changes_mathematics = remedy->changes_mathematics,
                        .beyond = remedy->beyond_machine,
                        .moves_rounding = remedy->kind == AH_REMEDY_MICRO_BATCHES,
                        .step_us = remedy->step_us};
    ah_diagnosis_remedy(row->change, remedy);
    if (remedy->beyond_machine)
        put_lacking(row->lacking, remedy, machine);
}

/* ---- remedies of a cluster ---- */

static const struct {
    const char *word, *change;
    bool changes_mathematics;
} cluster_kinds[AH_CLUSTER_REMEDIES] = {
    [AH_CLUSTER_REMEDY_WITH] = {"with", "no '--without'", false},
    [AH_CLUSTER_REMEDY_POLICY] = {"policy", "--policy optimal", false},
    [AH_CLUSTER_REMEDY_TP] = {"tp", "--tp asym", false},
    [AH_CLUSTER_REMEDY_MICRO_BATCHES] = {"micro_batches", "--micro-batches", false},
    [AH_CLUSTER_REMEDY_NODES] = {"nodes", NULL, false},
    [AH_CLUSTER_REMEDY_SEQ] = {"seq", "--seq", true},
    [AH_CLUSTER_REMEDY_STATE_DTYPE] = {"state_dtype", "--state-dtype bf16", true},
};

static void add_cluster_remedy(struct diagnosis *said, const struct ah_cluster_remedy *remedy)
{
    struct row *row = &said->rows[said->n++];
    *row = (struct row){.kind = cluster_kinds[remedy->kind].word,
                        .value = remedy->value,
                        .node = remedy->node ? remedy->node->id : NULL,
                        .changes_mathematics = cluster_kinds[remedy->kind].changes_mathematics,
                        .beyond = remedy->kind == AH_CLUSTER_REMEDY_NODES,
                        .lacking = "more than this cluster has",
                        .moves_rounding = remedy->kind == AH_CLUSTER_REMEDY_MICRO_BATCHES,
                        .step_us = remedy->step_us};
    if (cluster_kinds[remedy->kind].change)
        put_change(row->change, cluster_kinds[remedy->kind].change, NULL, remedy->value);
    else
        snprintf(row->change, AH_REMEDY_TEXT_MAX, "%" PRIu64 " more node%s like '%s' (%" PRIu64 " x %s)",
                 remedy->value, remedy->value == 1 ? "" : "s", remedy->node->id, remedy->node->gpus,
                 remedy->node->gpu);
}

/* ---- for people ---- */

/* Adds a cell with the remedy's effects on other things than time and memory. */
static void put_remark(struct ah_table *table, const struct row *row)
{
    if (row->changes_mathematics)
        ah_table_cell(table, "changes the numerical results");
    else if (row->beyond)
        ah_table_cell(table, "%s", row->lacking);
    else
        ah_table_cell(table, "%s", row->moves_rounding ? "rounds gradient sums differently" : "");
}

/* Appends a word of the command line, quoted for a shell if necessary. */
static void put_word(struct ah_buffer *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
    if (*word && !word[strspn(word, plain)]) {
        ah_buffer_puts(out, word);
        return;
    }
    ah_buffer_puts(out, "'");
    for (; *word; word++)
        ah_buffer_printf(out, *word == '\'' ? "'\\''" : "%c", *word);
    ah_buffer_puts(out, "'");
}

/* True if `change` sets the option in `word`, whose old value must then be left out. */
static bool is_replaced(const char *change, const char *word)
{
    char option[AH_REMEDY_TEXT_MAX + 2];
    const int length = snprintf(option, sizeof option, "%.*s ", (int)strcspn(word, "="), word);
    const char *found = strncmp(word, "--", 2) == 0 ? strstr(change, option) : NULL;
    return found && length < (int)sizeof option && (found == change || found[-1] == ' ');
}

static bool is_printable(const char *word)
{
    while (*word && (unsigned char)*word >= ' ' && *word != 0x7f)
        word++;
    return !*word;
}

/* Appends the command line with the first change, ready to copy, unless a word is unsafe on a terminal. */
static void put_command(const struct ah_cli *cli, const char *change, bool first_of_many,
                        struct ah_buffer *out)
{
    bool printable = strncmp(change, "--", 2) == 0;
    for (const char *const *word = cli->words; *word; word++)
        printable = printable && is_printable(*word);
    if (!printable)
        return;
    ah_buffer_printf(out, "%s:\n  autohete", first_of_many ? "The first as a command" : "As a command");
    for (const char *const *word = cli->words; *word; word++) {
        if (is_replaced(change, *word)) {
            word += !strchr(*word, '=') && word[1];
            continue;
        }
        ah_buffer_puts(out, " ");
        put_word(out, *word);
    }
    ah_buffer_printf(out, " %s\n", change);
}

static void put_text(const struct ah_cli *cli, const void *context, struct ah_buffer *out)
{
    const struct diagnosis *said = context;
    struct ah_arena arena = {0};
    struct ah_table table = {.arena = &arena, .columns = {"", ">", ""}, .indent = 2};
    for (size_t i = 0; i < said->n; i++) {
        char time[AH_UNITS_TEXT_MAX];
        ah_table_cell(&table, "%s", said->rows[i].change);
        ah_table_cell(&table, "%s a step", ah_units_print_time(time, said->rows[i].step_us));
        put_remark(&table, &said->rows[i]);
    }
    if (!said->n)
        ah_buffer_printf(out, "No single change to %s, batch or sequence that was tried gives a plan.\n",
                         said->tried);
    else if (said->n == 1)
        ah_buffer_puts(out, "This change was planned and works:\n");
    else
        ah_buffer_puts(out, "Each of these changes was planned and works on its own:\n");
    ah_table_print(&table, out, cli->err_style, ah_terminal_table_columns(STDERR_FILENO));
    if (said->n)
        put_command(cli, said->rows[0].change, said->n > 1, out);
    ah_arena_release(&arena);
}

/* ---- for programs ---- */

static void emit_row(struct ah_emit *emit, const struct diagnosis *said, const struct row *row)
{
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "kind", row->kind);
    if (row->word)
        ah_emit_text(emit, "value", row->word);
    else if (row->value)
        ah_emit_integer(emit, "value", row->value);
    if (row->host_bytes)
        ah_emit_integer(emit, "host_bytes", row->host_bytes);
    if (row->node)
        ah_emit_text(emit, "node", row->node);
    ah_emit_text(emit, "change", row->change);
    ah_emit_bool(emit, "changes_mathematics", row->changes_mathematics);
    ah_emit_bool(emit, said->beyond_name, row->beyond);
    ah_emit_number(emit, "step_us", row->step_us);
    ah_emit_close(emit);
}

static void emit_resource(struct ah_emit *emit, const char *resource, uint64_t needed_bytes,
                          uint64_t available_bytes)
{
    ah_emit_text(emit, "resource", resource);
    ah_emit_integer(emit, "needed_bytes", needed_bytes);
    ah_emit_integer(emit, "available_bytes", available_bytes);
    ah_emit_integer(emit, "short_bytes", needed_bytes > available_bytes ? needed_bytes - available_bytes : 0);
}

static void emit_machine(const void *shortage, struct ah_emit *emit)
{
    const struct ah_diagnosis *diagnosis = shortage;
    ah_emit_bool(emit, "proven", diagnosis->proven);
    ah_emit_bool(emit, "at_least", diagnosis->at_least);
    emit_resource(emit, diagnosis->resource, diagnosis->needed_bytes, diagnosis->available_bytes);
    if (diagnosis->other_resource) {
        ah_emit_open(emit, diagnosis->both ? "and" : "or", '{');
        emit_resource(emit, diagnosis->other_resource, diagnosis->other_needed_bytes,
                      diagnosis->other_available_bytes);
        ah_emit_close(emit);
    }
}

static void emit_cluster(const void *shortage, struct ah_emit *emit)
{
    const struct ah_cluster_shortage *of = shortage;
    ah_emit_bool(emit, "proven", of->proven);
    ah_emit_number(emit, "needed_bytes", of->needed_bytes);
    ah_emit_number(emit, "available_bytes", of->available_bytes);
}

static void put_json(const void *context, struct ah_emit *emit)
{
    const struct diagnosis *said = context;
    said->emit_shortage(said->shortage, emit);
    ah_emit_open(emit, "remedies", '[');
    for (size_t i = 0; i < said->n; i++)
        emit_row(emit, said, &said->rows[i]);
    ah_emit_close(emit);
}

/* ---- the public functions ---- */

static int fail_with_diagnosis(struct ah_cli *cli, const struct diagnosis *said, const struct ah_error *err)
{
    const struct ah_cli_details details = {.text = put_text, .json = put_json, .context = said};
    struct ah_error why = *err;
    ah_cli_nothing_written(&why);
    return ah_cli_fail_with(cli, &why, &details);
}

int ah_diagnosis_fail(struct ah_cli *cli, const struct ah_diagnosis *diagnosis,
                      const struct ah_machine *machine, const struct ah_error *err)
{
    struct diagnosis said = {.tried = "memory",
                             .beyond_name = "beyond_machine",
                             .emit_shortage = emit_machine,
                             .shortage = diagnosis};
    for (size_t i = 0; i < diagnosis->n_remedies; i++)
        add_remedy(&said, &diagnosis->remedies[i], machine);
    return fail_with_diagnosis(cli, &said, err);
}

int ah_diagnosis_fail_cluster(struct ah_cli *cli, const struct ah_cluster_shortage *shortage,
                              const struct ah_cluster_remedies *remedies, const struct ah_error *err)
{
    struct diagnosis said = {.tried = "cluster",
                             .beyond_name = "beyond_cluster",
                             .emit_shortage = emit_cluster,
                             .shortage = shortage};
    for (size_t i = 0; i < remedies->n; i++)
        add_cluster_remedy(&said, &remedies->items[i]);
    return fail_with_diagnosis(cli, &said, err);
}
