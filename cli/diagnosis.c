/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnosis.h"

#include "base/units.h"
#include "cli/emit.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- remedies as words ---- */

/* In a unit that loses nothing, as the command line takes it. */
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

static void put_memory(char out[AH_REMEDY_TEXT_MAX], const char *side, uint64_t bytes, uint64_t there_bytes)
{
    char size[AH_UNITS_TEXT_MAX];
    exact_bytes(size, bytes);
    if (bytes > there_bytes)
        snprintf(out, AH_REMEDY_TEXT_MAX, "a machine with %s of %s memory", size, side);
    else
        snprintf(out, AH_REMEDY_TEXT_MAX, "--%s-memory %s", side, size);
}

/* "--device-memory 20GiB and a machine with 64GiB of host memory" */
static void put_both(char out[AH_REMEDY_TEXT_MAX], const struct ah_remedy *remedy,
                     const struct ah_machine *machine)
{
    char host[AH_REMEDY_TEXT_MAX];
    put_memory(out, "device", remedy->value, machine->device.memory_bytes);
    put_memory(host, "host", remedy->host_bytes, machine->host.memory_bytes);
    size_t used = strlen(out);
    snprintf(out + used, AH_REMEDY_TEXT_MAX - used, " and %s", host);
}

const char *ah_diagnosis_remedy(char out[AH_REMEDY_TEXT_MAX], const struct ah_remedy *remedy,
                                const struct ah_machine *machine)
{
    switch (remedy->kind) {
    case AH_REMEDY_DEVICE_MEMORY:
        put_memory(out, "device", remedy->value, machine->device.memory_bytes);
        break;
    case AH_REMEDY_HOST_MEMORY:
        put_memory(out, "host", remedy->value, machine->host.memory_bytes);
        break;
    case AH_REMEDY_BOTH_MEMORIES:
        put_both(out, remedy, machine);
        break;
    case AH_REMEDY_MICRO_BATCHES:
        snprintf(out, AH_REMEDY_TEXT_MAX, "--micro-batches %" PRIu64, remedy->value);
        break;
    case AH_REMEDY_BATCH:
        snprintf(out, AH_REMEDY_TEXT_MAX, "--batch %" PRIu64, remedy->value);
        break;
    case AH_REMEDY_SEQ:
        snprintf(out, AH_REMEDY_TEXT_MAX, "--seq %" PRIu64, remedy->value);
        break;
    case AH_REMEDY_STATE_DTYPE:
        snprintf(out, AH_REMEDY_TEXT_MAX, "--state-dtype bf16");
        break;
    case AH_REMEDY_POLICY:
        snprintf(out, AH_REMEDY_TEXT_MAX, "--policy %s", ah_words_policy[remedy->value]);
        break;
    case AH_REMEDIES:
        out[0] = '\0';
        break;
    }
    return out;
}

static const char *const remedy_words[AH_REMEDIES] = {
    [AH_REMEDY_DEVICE_MEMORY] = "device_memory",
    [AH_REMEDY_HOST_MEMORY] = "host_memory",
    [AH_REMEDY_BOTH_MEMORIES] = "both_memories",
    [AH_REMEDY_MICRO_BATCHES] = "micro_batches",
    [AH_REMEDY_BATCH] = "batch",
    [AH_REMEDY_SEQ] = "seq",
    [AH_REMEDY_STATE_DTYPE] = "state_dtype",
    [AH_REMEDY_POLICY] = "policy",
};

/* What else it changes, beside time and memory. */
static const char *remark(const struct ah_remedy *remedy)
{
    if (remedy->changes_mathematics)
        return "changes the numerical results";
    if (remedy->beyond_machine)
        return "more than this machine has";
    return remedy->kind == AH_REMEDY_MICRO_BATCHES ? "rounds sums of gradients in other places" : "";
}

/* ---- for people ---- */

static void put_text(const struct ah_cli *cli, const void *context, struct ah_buffer *out)
{
    const struct ah_diagnosis_view *view = context;
    const struct ah_diagnosis *diagnosis = view->diagnosis;
    struct ah_arena arena = {0};
    struct ah_table table = {.arena = &arena, .columns = {"", ">", ""}, .indent = 2};
    for (size_t i = 0; i < diagnosis->n_remedies; i++) {
        char words[AH_REMEDY_TEXT_MAX];
        char time[AH_UNITS_TEXT_MAX];
        const struct ah_remedy *remedy = &diagnosis->remedies[i];
        ah_table_cell(&table, "%s", ah_diagnosis_remedy(words, remedy, view->request->machine));
        ah_table_cell(&table, "%s a step", ah_units_print_time(time, remedy->step_us));
        ah_table_cell(&table, "%s", remark(remedy));
    }
    if (!diagnosis->n_remedies)
        ah_buffer_puts(out, "No single change of memory, batch or sequence that was tried gives a plan.\n");
    else if (diagnosis->n_remedies == 1)
        ah_buffer_puts(out, "This was planned and works:\n");
    else
        ah_buffer_puts(out, "Each of these, alone, was planned and works:\n");
    ah_table_print(&table, out, cli->err_style, ah_terminal_table_columns(STDERR_FILENO));
    ah_arena_release(&arena);
}

/* ---- for programs ---- */

static void emit_remedy(struct ah_emit *emit, const struct ah_remedy *remedy,
                        const struct ah_machine *machine)
{
    char words[AH_REMEDY_TEXT_MAX];
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "kind", remedy_words[remedy->kind]);
    if (remedy->kind == AH_REMEDY_POLICY)
        ah_emit_text(emit, "value", ah_words_policy[remedy->value]);
    else if (remedy->kind == AH_REMEDY_STATE_DTYPE)
        ah_emit_text(emit, "value", ah_words_dtype[AH_BF16]);
    else
        ah_emit_integer(emit, "value", remedy->value);
    if (remedy->kind == AH_REMEDY_BOTH_MEMORIES)
        ah_emit_integer(emit, "host_bytes", remedy->host_bytes);
    ah_emit_text(emit, "change", ah_diagnosis_remedy(words, remedy, machine));
    ah_emit_bool(emit, "changes_mathematics", remedy->changes_mathematics);
    ah_emit_bool(emit, "beyond_machine", remedy->beyond_machine);
    ah_emit_number(emit, "step_us", remedy->step_us);
    ah_emit_close(emit);
}

static void emit_shortage(struct ah_emit *emit, const char *resource, uint64_t needed_bytes,
                          uint64_t available_bytes)
{
    ah_emit_text(emit, "resource", resource);
    ah_emit_integer(emit, "needed_bytes", needed_bytes);
    ah_emit_integer(emit, "available_bytes", available_bytes);
    ah_emit_integer(emit, "short_bytes", needed_bytes > available_bytes ? needed_bytes - available_bytes : 0);
}

static void put_json(const void *context, struct ah_emit *emit)
{
    const struct ah_diagnosis_view *view = context;
    const struct ah_diagnosis *diagnosis = view->diagnosis;
    ah_emit_bool(emit, "proven", diagnosis->proven);
    ah_emit_bool(emit, "at_least", diagnosis->at_least);
    emit_shortage(emit, diagnosis->resource, diagnosis->needed_bytes, diagnosis->available_bytes);
    if (diagnosis->other_resource) {
        ah_emit_open(emit, diagnosis->both ? "and" : "or", '{');
        emit_shortage(emit, diagnosis->other_resource, diagnosis->other_needed_bytes,
                      diagnosis->other_available_bytes);
        ah_emit_close(emit);
    }
    ah_emit_open(emit, "remedies", '[');
    for (size_t i = 0; i < diagnosis->n_remedies; i++)
        emit_remedy(emit, &diagnosis->remedies[i], view->request->machine);
    ah_emit_close(emit);
}

int ah_diagnosis_fail(struct ah_cli *cli, const struct ah_diagnosis_view *view, const struct ah_error *err)
{
    const struct ah_cli_details details = {.text = put_text, .json = put_json, .context = view};
    struct ah_error said = *err;
    ah_cli_nothing_written(&said);
    return ah_cli_fail_with(cli, &said, &details);
}
