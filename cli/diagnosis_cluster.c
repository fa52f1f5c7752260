/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnosis_cluster.h"

#include "base/units.h"
#include "cli/emit.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { TEXT_MAX = 320 };

static const char *const words[AH_CLUSTER_REMEDIES] = {
    [AH_CLUSTER_REMEDY_WITH] = "with",
    [AH_CLUSTER_REMEDY_POLICY] = "policy",
    [AH_CLUSTER_REMEDY_TP] = "tp",
    [AH_CLUSTER_REMEDY_MICRO_BATCHES] = "micro_batches",
    [AH_CLUSTER_REMEDY_NODES] = "nodes",
    [AH_CLUSTER_REMEDY_SEQ] = "seq",
    [AH_CLUSTER_REMEDY_STATE_DTYPE] = "state_dtype",
};

/* As the command line takes it, or what the cluster would have to have. */
static const char *change_of(char out[TEXT_MAX], const struct ah_cluster_remedy *remedy)
{
    switch (remedy->kind) {
    case AH_CLUSTER_REMEDY_WITH:
        return "no '--without'";
    case AH_CLUSTER_REMEDY_POLICY:
        return "--policy optimal";
    case AH_CLUSTER_REMEDY_TP:
        return "--tp asym";
    case AH_CLUSTER_REMEDY_MICRO_BATCHES:
        snprintf(out, TEXT_MAX, "--micro-batches %" PRIu64, remedy->value);
        return out;
    case AH_CLUSTER_REMEDY_NODES:
        snprintf(out, TEXT_MAX, "%" PRIu64 " more node%s like '%s' (%" PRIu64 " x %s)", remedy->value,
                 remedy->value == 1 ? "" : "s", remedy->node->id, remedy->node->gpus, remedy->node->gpu);
        return out;
    case AH_CLUSTER_REMEDY_SEQ:
        snprintf(out, TEXT_MAX, "--seq %" PRIu64, remedy->value);
        return out;
    case AH_CLUSTER_REMEDY_STATE_DTYPE:
        return "--state-dtype bf16";
    case AH_CLUSTER_REMEDIES:
        break;
    }
    return "";
}

static bool changes_mathematics(const struct ah_cluster_remedy *remedy)
{
    return remedy->kind == AH_CLUSTER_REMEDY_SEQ || remedy->kind == AH_CLUSTER_REMEDY_STATE_DTYPE;
}

static const char *remark(const struct ah_cluster_remedy *remedy)
{
    if (changes_mathematics(remedy))
        return "changes the numerical results";
    if (remedy->kind == AH_CLUSTER_REMEDY_NODES)
        return "more than this cluster has";
    return remedy->kind == AH_CLUSTER_REMEDY_MICRO_BATCHES ? "rounds sums of gradients in other places" : "";
}

static void put_text(const struct ah_cli *cli, const void *context, struct ah_buffer *out)
{
    const struct ah_cluster_remedies *remedies = ((const struct ah_diagnosis_cluster *)context)->remedies;
    struct ah_arena arena = {0};
    struct ah_table table = {.arena = &arena, .columns = {"", ">", ""}, .indent = 2};
    for (size_t i = 0; i < remedies->n; i++) {
        char change[TEXT_MAX], time[AH_UNITS_TEXT_MAX];
        ah_table_cell(&table, "%s", change_of(change, &remedies->items[i]));
        ah_table_cell(&table, "%s a step", ah_units_print_time(time, remedies->items[i].step_us));
        ah_table_cell(&table, "%s", remark(&remedies->items[i]));
    }
    if (!remedies->n)
        ah_buffer_puts(out, "No single change of cluster, batch or sequence that was tried gives a plan.\n");
    else if (remedies->n == 1)
        ah_buffer_puts(out, "This was planned and works:\n");
    else
        ah_buffer_puts(out, "Each of these, alone, was planned and works:\n");
    ah_table_print(&table, out, cli->err_style, ah_terminal_table_columns(STDERR_FILENO));
    ah_arena_release(&arena);
}

static void emit_remedy(struct ah_emit *emit, const struct ah_cluster_remedy *remedy)
{
    char change[TEXT_MAX];
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "kind", words[remedy->kind]);
    if (remedy->value)
        ah_emit_integer(emit, "value", remedy->value);
    if (remedy->node)
        ah_emit_text(emit, "node", remedy->node->id);
    ah_emit_text(emit, "change", change_of(change, remedy));
    ah_emit_bool(emit, "changes_mathematics", changes_mathematics(remedy));
    ah_emit_bool(emit, "beyond_cluster", remedy->kind == AH_CLUSTER_REMEDY_NODES);
    ah_emit_number(emit, "step_us", remedy->step_us);
    ah_emit_close(emit);
}

static void put_json(const void *context, struct ah_emit *emit)
{
    const struct ah_diagnosis_cluster *diagnosis = context;
    ah_emit_bool(emit, "proven", diagnosis->shortage->proven);
    ah_emit_number(emit, "needed_bytes", diagnosis->shortage->needed_bytes);
    ah_emit_number(emit, "available_bytes", diagnosis->shortage->available_bytes);
    ah_emit_open(emit, "remedies", '[');
    for (size_t i = 0; i < diagnosis->remedies->n; i++)
        emit_remedy(emit, &diagnosis->remedies->items[i]);
    ah_emit_close(emit);
}

int ah_diagnosis_cluster_fail(struct ah_cli *cli, const struct ah_diagnosis_cluster *diagnosis,
                              const struct ah_error *err)
{
    const struct ah_cli_details details = {.text = put_text, .json = put_json, .context = diagnosis};
    struct ah_error said = *err;
    ah_cli_nothing_written(&said);
    return ah_cli_fail_with(cli, &said, &details);
}
