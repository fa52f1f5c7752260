/* SPDX-License-Identifier: Apache-2.0
 *
 * The last row is our own plan, as in the comparison for one machine. Other systems' arrangements keep nothing on
 * hosts. If our plan does, the row above it shows our best plan without blocks on hosts.
 */
#include "cli/compare/compare_cluster.h"

#include "base/units.h"
#include "cli/frame/emit.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"
#include "planner/cluster/offload_costs.h"

#include <inttypes.h>

struct comparison {
    const struct ah_request_cluster *request;
    struct ah_cluster_plan *plans[AH_CLUSTER_POLICIES]; /* NULL: the policy found no plan that fits */
    bool on_hosts;                                      /* the optimal plan has blocks on hosts */
    struct ah_cluster_plan *without_hosts; /* the best plan without blocks on hosts; NULL: none was found */
};

static bool uses_hosts(const struct ah_cluster_plan *plan)
{
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            if (plan->pipelines[p].stages[i].host_bytes)
                return true;
    return false;
}

static int compare_policies(struct comparison *comparison, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_cluster_request without = comparison->request->planner;
    struct ah_cluster_shortage shortage;
    int rc = ah_cluster_planner_compare(&without, arena, comparison->plans, err);
    const struct ah_cluster_plan *best = rc ? NULL : comparison->plans[AH_CLUSTER_POLICY_OPTIMAL];
    comparison->on_hosts = best && uses_hosts(best);
    if (!comparison->on_hosts)
        return rc;
    struct ah_cluster_plan *plan = ah_arena_array(arena, 1, sizeof *plan);
    if (!plan)
        return ah_error_memory(err);
    without.without = AH_WITHOUT_HOST_OPTIMIZER | AH_WITHOUT_STREAMED | AH_WITHOUT_HOST_WEIGHTS;
    rc = ah_cluster_planner_plan(&without, arena, plan, &shortage, err);
    comparison->without_hosts = rc ? NULL : plan;
    return rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN ? AH_OK : rc;
}

static enum ah_cluster_policy row_policy(size_t row)
{
    return (enum ah_cluster_policy)((row + 1) % AH_CLUSTER_POLICIES);
}

/* The numbers of an arrangement in the table. */
struct shape {
    uint64_t least_stages, most_stages;
    uint64_t least_tp, most_tp;
};

static struct shape shape_of(const struct ah_cluster_plan *plan)
{
    struct shape shape = {UINT64_MAX, 0, UINT64_MAX, 0};
    for (size_t p = 0; p < plan->n_pipelines; p++) {
        const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
        shape.least_stages =
            pipeline->n_stages < shape.least_stages ? pipeline->n_stages : shape.least_stages;
        shape.most_stages = pipeline->n_stages > shape.most_stages ? pipeline->n_stages : shape.most_stages;
        for (size_t i = 0; i < pipeline->n_stages; i++) {
            uint64_t tp = pipeline->stages[i].tp;
            shape.least_tp = tp < shape.least_tp ? tp : shape.least_tp;
            shape.most_tp = tp > shape.most_tp ? tp : shape.most_tp;
        }
    }
    return shape;
}

/* Returns the plan's step time divided by the optimal plan's; 0 if there is no optimal plan. */
static double to_optimal(const struct comparison *comparison, const struct ah_cluster_plan *plan)
{
    const struct ah_cluster_plan *best = comparison->plans[AH_CLUSTER_POLICY_OPTIMAL];
    return best ? plan->predicted.step_us / best->predicted.step_us : 0;
}

/* ---- text ---- */

static void cell_range(struct ah_table *table, uint64_t least, uint64_t most)
{
    if (least == most)
        ah_table_cell(table, "%" PRIu64, least);
    else
        ah_table_cell(table, "%" PRIu64 "-%" PRIu64, least, most);
}

static void put_cells(struct ah_table *table, const struct comparison *comparison,
                      const struct ah_cluster_plan *plan)
{
    char text[AH_UNITS_TEXT_MAX];
    const struct shape shape = shape_of(plan);
    double ratio = to_optimal(comparison, plan);
    ah_table_cell(table, "%s", ah_units_print_time(text, plan->predicted.step_us));
    ah_table_cell(table, "%.0f", plan->predicted.tokens_per_s);
    if (ratio > 0)
        ah_table_cell(table, "%.2f x", ratio);
    else
        ah_table_cell(table, "%s", "");
    ah_table_cell(table, "%zu", plan->n_pipelines);
    cell_range(table, shape.least_stages, shape.most_stages);
    cell_range(table, shape.least_tp, shape.most_tp);
    ah_table_cell(table, "%" PRIu64, plan->training.micro_batches);
    ah_table_cell(table, "%zu", plan->n_idle_ranks);
    ah_table_cell(table, "%.0f %%", 100 * plan->predicted.bubble);
}

static void put_row(struct ah_table *table, const struct comparison *comparison, const char *name,
                    const struct ah_cluster_plan *plan)
{
    ah_table_cell(table, "%s", name);
    if (plan)
        put_cells(table, comparison, plan);
    else
        for (int i = 0; i < 9; i++)
            ah_table_cell(table, "%s", i ? "" : "does not fit");
}

static bool any_estimated(const struct comparison *comparison)
{
    bool any = false;
    for (size_t i = 0; i < AH_CLUSTER_POLICIES; i++)
        any = any || (comparison->plans[i] && comparison->plans[i]->predicted.estimated);
    return any;
}

static void print_text(struct ah_cli *cli, const struct comparison *comparison)
{
    const struct ah_cluster_request *planner = &comparison->request->planner;
    struct ah_table table = {.arena = &cli->arena,
                             .columns = {"policy", ">step", ">tokens/s", ">to optimal", ">pipes", ">stages",
                                         ">tp", ">micro", ">idle", ">waits"},
                             .indent = 2};
    static const char legend[] =
        "pipes: pipelines x stages of each; tp: GPUs that share a stage's blocks; micro: micro-batches per "
        "step; idle: GPUs without work; waits: share of the pipelines' time in which GPUs wait. Each policy "
        "is shown at its best setting; docs/policies lists its restrictions.";
    static const char hosts_legend[] =
        "Only optimal keeps states or weights on hosts; no hosts: its best plan that does not.";
    struct ah_buffer line = {0};
    ah_buffer_printf(&line, "%s%s on %s: ", cli->out_style.bold, ah_cli_clean(cli, planner->model->name),
                     ah_cli_clean(cli, planner->cluster->name));
    ah_plan_put_batch(&line, planner->training.batch, planner->training.seq);
    ah_buffer_printf(&line, ", %s", ah_words_dtype[planner->training.dtype]);
    ah_plan_put_lora(&line, "; ", planner->model);
    ah_buffer_printf(&line, " (simulated%s)%s", any_estimated(comparison) ? ", from estimated costs" : "",
                     cli->out_style.reset);
    ah_cli_put_wrapped(cli, &line, 0);
    ah_buffer_puts(&cli->out, "\n");
    for (size_t row = 0; row < AH_CLUSTER_POLICIES; row++) {
        if (row_policy(row) == AH_CLUSTER_POLICY_OPTIMAL && comparison->on_hosts)
            put_row(&table, comparison, "no hosts", comparison->without_hosts);
        put_row(&table, comparison, ah_words_cluster_policy[row_policy(row)],
                comparison->plans[row_policy(row)]);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
    ah_buffer_printf(&cli->out, "\n  %s", cli->out_style.dim);
    ah_terminal_wrap(&cli->out, legend, 2, cli->columns);
    if (comparison->on_hosts) {
        ah_buffer_puts(&cli->out, "  ");
        ah_terminal_wrap(&cli->out, hosts_legend, 2, cli->columns);
    }
    ah_buffer_puts(&cli->out, cli->out_style.reset);
}

/* ---- JSON ---- */

static void emit_row(struct ah_emit *emit, const char *key, const struct comparison *comparison,
                     enum ah_cluster_policy policy, const struct ah_cluster_plan *plan)
{
    ah_emit_open(emit, key, '{');
    ah_emit_text(emit, "policy", ah_words_cluster_policy[policy]);
    ah_emit_bool(emit, "feasible", plan != NULL);
    if (plan) {
        const struct shape shape = shape_of(plan);
        ah_emit_number(emit, "step_us", plan->predicted.step_us);
        ah_emit_number(emit, "tokens_per_s", plan->predicted.tokens_per_s);
        ah_emit_number(emit, "exposed_sync_us", plan->predicted.exposed_sync_us);
        ah_emit_number(emit, "bubble", plan->predicted.bubble);
        ah_emit_integer(emit, "micro_batches", plan->training.micro_batches);
        ah_emit_integer(emit, "pipelines", plan->n_pipelines);
        ah_emit_integer(emit, "least_stages", shape.least_stages);
        ah_emit_integer(emit, "most_stages", shape.most_stages);
        ah_emit_integer(emit, "least_tp", shape.least_tp);
        ah_emit_integer(emit, "most_tp", shape.most_tp);
        ah_emit_integer(emit, "idle_gpus", plan->n_idle_ranks);
        if (to_optimal(comparison, plan) > 0)
            ah_emit_number(emit, "to_optimal", to_optimal(comparison, plan));
    }
    ah_emit_close(emit);
}

static void print_json(struct ah_cli *cli, const struct comparison *comparison)
{
    const struct ah_cluster_request *planner = &comparison->request->planner;
    struct ah_emit emit = {.out = &cli->out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "model", planner->model->name);
    ah_emit_text(&emit, "cluster", planner->cluster->name);
    ah_emit_integer(&emit, "batch", planner->training.batch);
    ah_emit_integer(&emit, "seq", planner->training.seq);
    ah_emit_text(&emit, "dtype", ah_words_dtype[planner->training.dtype]);
    ah_emit_text(&emit, "tp_mode", ah_words_tp_mode[planner->tp_mode]);
    ah_emit_bool(&emit, "simulated", true);
    ah_emit_open(&emit, "policies", '[');
    for (size_t row = 0; row < AH_CLUSTER_POLICIES; row++)
        emit_row(&emit, NULL, comparison, row_policy(row), comparison->plans[row_policy(row)]);
    ah_emit_close(&emit);
    ah_emit_bool(&emit, "on_hosts", comparison->on_hosts);
    if (comparison->on_hosts)
        emit_row(&emit, "without_hosts", comparison, AH_CLUSTER_POLICY_OPTIMAL, comparison->without_hosts);
    ah_emit_close(&emit);
}

/* ---- the verb ---- */

int ah_compare_cluster(struct ah_cli *cli, const struct ah_request_cluster_options *options)
{
    struct ah_request_cluster request;
    struct comparison comparison = {.request = &request};
    struct ah_error err = {0};
    int rc = ah_request_cluster_init(&request, cli, options, &err);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    rc = compare_policies(&comparison, &cli->arena, &err);
    ah_terminal_erase(&request.base.progress);
    if (!rc && cli->json)
        print_json(cli, &comparison);
    else if (!rc)
        print_text(cli, &comparison);
    ah_request_cluster_release(&request);
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
}
