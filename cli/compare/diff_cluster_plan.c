/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares GPUs by rank: the blocks of a GPU, the number of GPUs that share them, their configs, and the GPU's number
 * of micro-batches. Consecutive ranks with the same change are one line. Numbers of pipelines and stages are only
 * names, so they are not compared. In plans for different clusters a rank may be another GPU, so its node is
 * compared, too.
 */
#include "cli/compare/diff_cluster_plan.h"

#include "cli/compare/diff_numbers.h"
#include "cli/frame/table.h"
#include "runtime/schedule/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 9 };

static uint64_t gpus(const struct ah_cluster_plan *plan)
{
    uint64_t n = 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            n += plan->pipelines[p].stages[i].n_ranks;
    return n;
}

static void collect_numbers(const struct ah_cluster_plan *a, const struct ah_cluster_plan *b,
                            struct ah_diff_number numbers[NUMBERS])
{
    const struct ah_cluster_plan_predicted *p = &a->predicted, *q = &b->predicted;
    const struct ah_diff_number all[NUMBERS] = {
        {"step", "step_us", AH_DIFF_TIME, p->step_us, q->step_us, 0, 0},
        {"tokens/s", "tokens_per_s", AH_DIFF_RATE, p->tokens_per_s, q->tokens_per_s, 0, 0},
        {"bound", "bound_us", AH_DIFF_TIME, a->solver.bound_us, b->solver.bound_us, 0, 0},
        {"GPUs wait", "bubble", AH_DIFF_SHARE, p->bubble, q->bubble, 0, 0},
        {"sums after the pipelines", "exposed_sync_us", AH_DIFF_TIME, p->exposed_sync_us, q->exposed_sync_us,
         0, 0},
        {"update", "update_us", AH_DIFF_TIME, p->update_us, q->update_us, 0, 0},
        {"GPUs that work", "gpus", AH_DIFF_COUNT, (double)gpus(a), (double)gpus(b), 0, 0},
        {"pipelines", "pipelines", AH_DIFF_COUNT, (double)a->n_pipelines, (double)b->n_pipelines, 0, 0},
        {"micro-batches", "micro_batches", AH_DIFF_COUNT, (double)a->training.micro_batches,
         (double)b->training.micro_batches, 0, 0},
    };
    memcpy(numbers, all, sizeof all);
}

/* ---- roles of ranks ---- */

/* Returns the highest rank in the plan plus one. */
static size_t count_ranks(const struct ah_cluster_plan *plan)
{
    uint64_t n = 0;
    for (size_t i = 0; i < plan->n_idle_ranks; i++)
        n = plan->idle_ranks[i] >= n ? plan->idle_ranks[i] + 1 : n;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            for (size_t r = 0; r < plan->pipelines[p].stages[i].n_ranks; r++)
                if (plan->pipelines[p].stages[i].ranks[r] >= n)
                    n = plan->pipelines[p].stages[i].ranks[r] + 1;
    return n;
}

/* Appends "embedding, layer.0-8 (3 recompute) on 2 GPUs, 32 micro-batches"; with `nodes`, "a100-0: " goes before it. */
static void put_role(struct ah_buffer *out, const struct ah_cluster_plan *plan,
                     const struct ah_cluster_plan_pipeline *pipeline,
                     const struct ah_cluster_plan_stage *stage, bool nodes)
{
    const char *comma = " (";
    if (nodes)
        ah_buffer_printf(out, "%s: ", stage->node);
    ah_name_range((struct ah_name_blocks){.of_model = plan->blocks}, stage->first_block,
                  stage->first_block + stage->blocks, out);
    for (size_t i = 0; i < stage->n_configs; i++) {
        const struct ah_cluster_plan_config *config = &stage->configs[i];
        if (config->activations == AH_ACTIVATIONS_KEEP && config->weights == AH_WEIGHTS_DEVICE &&
            config->optimizer == AH_OPTIMIZER_DEVICE)
            continue;
        ah_buffer_printf(out, "%s%" PRIu64 " %s", comma, config->blocks,
                         ah_words_activations[config->activations]);
        if (config->weights != AH_WEIGHTS_DEVICE)
            ah_buffer_printf(out, " weights %s", ah_words_weights[config->weights]);
        if (config->optimizer != AH_OPTIMIZER_DEVICE)
            ah_buffer_printf(out, " optimizer %s", ah_words_optimizer[config->optimizer]);
        comma = ", ";
    }
    ah_buffer_puts(out, comma[0] == ',' ? ")" : "");
    if (stage->tp > 1)
        ah_buffer_printf(out, " on %" PRIu64 " GPUs", stage->tp);
    ah_buffer_printf(out, ", %" PRIu64 " micro-batch%s", pipeline->micro_batches,
                     pipeline->micro_batches == 1 ? "" : "es");
}

/* Describes each rank's work, in `arena`. Ranks that the plan does not name have no work. False: out of memory. */
static bool take_roles(const struct ah_cluster_plan *plan, bool nodes, struct ah_arena *arena,
                       const char **roles, size_t n)
{
    for (size_t rank = 0; rank < n; rank++)
        roles[rank] = "no work";
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &plan->pipelines[p].stages[i];
            struct ah_buffer text = {0};
            put_role(&text, plan, &plan->pipelines[p], stage, nodes);
            const char *role = text.failed ? NULL : ah_arena_strdup(arena, text.data);
            ah_buffer_release(&text);
            for (size_t r = 0; r < stage->n_ranks && role; r++)
                roles[stage->ranks[r]] = role;
            if (!role)
                return false;
        }
    return true;
}

struct roles {
    const char **a, **b; /* role of each rank; in the arena. NULL: out of memory */
    size_t n;
};

static struct roles roles_of(const struct ah_cluster_plan *a, const struct ah_cluster_plan *b,
                             struct ah_arena *arena)
{
    size_t n = count_ranks(a), other = count_ranks(b);
    bool nodes = strcmp(a->inputs.cluster.sha256, b->inputs.cluster.sha256) != 0;
    struct roles roles = {.n = n > other ? n : other};
    roles.a = ah_arena_array(arena, roles.n, sizeof *roles.a);
    roles.b = ah_arena_array(arena, roles.n, sizeof *roles.b);
    if (!roles.a || !roles.b || !take_roles(a, nodes, arena, roles.a, roles.n) ||
        !take_roles(b, nodes, arena, roles.b, roles.n))
        return (struct roles){0};
    return roles;
}

/* Finds the next run of ranks, from *first on, with the same change; false: there is none. */
static bool next_change(const struct roles *roles, size_t *first, size_t *ret_end)
{
    while (*first < roles->n && !strcmp(roles->a[*first], roles->b[*first]))
        ++*first;
    size_t end = *first + 1;
    while (end < roles->n && !strcmp(roles->a[end], roles->a[*first]) &&
           !strcmp(roles->b[end], roles->b[*first]))
        end++;
    *ret_end = end;
    return *first < roles->n;
}

static size_t count_changed(const struct roles *roles)
{
    size_t changed = 0;
    for (size_t rank = 0; rank < roles->n; rank++)
        changed += strcmp(roles->a[rank], roles->b[rank]) != 0;
    return changed;
}

static void put_ranks(struct ah_cli *cli, const struct roles *roles)
{
    struct ah_table table = {.arena = &cli->arena, .columns = {"", "", "", ""}, .indent = 2};
    ah_buffer_printf(&cli->out, "GPUs: %zu of %zu changed\n", count_changed(roles), roles->n);
    for (size_t first = 0, end; next_change(roles, &first, &end); first = end) {
        if (end > first + 1)
            ah_table_cell(&table, "ranks %zu-%zu", first, end - 1);
        else
            ah_table_cell(&table, "rank %zu", first);
        ah_table_cell(&table, "%s", roles->a[first]);
        ah_table_cell(&table, "->");
        ah_table_cell(&table, "%s", roles->b[first]);
    }
    ah_table_print(&table, &cli->out, cli->out_style, cli->table_columns);
}

/* Returns the path of the first field that changes the training, stored in `path`; NULL: the trainings are equal. */
static const char *find_other(const struct ah_cluster_plan *a, const struct ah_cluster_plan *b,
                              char path[AH_SIGNATURE_PATH_MAX], struct ah_buffer *out)
{
    struct ah_error err = {0};
    bool differs = false;
    out->failed |= ah_cluster_plan_differs(a, b, &differs, path, &err) != AH_OK;
    return differs ? path : NULL;
}

static void put_training(struct ah_cli *cli, const struct ah_cluster_plan *a, const struct ah_cluster_plan *b)
{
    char path[AH_SIGNATURE_PATH_MAX];
    const char *other = find_other(a, b, path, &cli->out);
    if (other)
        ah_buffer_printf(&cli->out,
                         "%snot the same training: the numeric signatures differ, first in '%s'%s\n",
                         cli->out_style.yellow, other, cli->out_style.reset);
    else
        ah_buffer_puts(&cli->out,
                       "the same training: a run of either plan can resume with the other, with the same "
                       "bits\n");
}

void ah_diff_cluster_plan_text(struct ah_cli *cli, const struct ah_cluster_plan *a,
                               const struct ah_cluster_plan *b)
{
    struct ah_diff_number numbers[NUMBERS];
    struct roles roles = roles_of(a, b, &cli->arena);
    cli->out.failed |= !roles.n;
    collect_numbers(a, b, numbers);
    ah_diff_numbers_put(cli, numbers, NUMBERS);
    if (a->policy != b->policy)
        ah_buffer_printf(&cli->out, "policy: %s -> %s\n", ah_words_cluster_policy[a->policy],
                         ah_words_cluster_policy[b->policy]);
    put_training(cli, a, b);
    put_ranks(cli, &roles);
    ah_buffer_puts(&cli->out, "\n");
}

void ah_diff_cluster_plan_json(struct ah_emit *emit, struct ah_arena *arena, const struct ah_cluster_plan *a,
                               const struct ah_cluster_plan *b)
{
    struct ah_diff_number numbers[NUMBERS];
    struct roles roles = roles_of(a, b, arena);
    emit->out->failed |= !roles.n;
    collect_numbers(a, b, numbers);
    ah_diff_numbers_emit(emit, numbers, NUMBERS);
    char path[AH_SIGNATURE_PATH_MAX];
    ah_emit_bool(emit, "same_signature", !find_other(a, b, path, emit->out));
    ah_emit_integer(emit, "gpus_changed", count_changed(&roles));
    ah_emit_open(emit, "ranks", '[');
    for (size_t first = 0, end; next_change(&roles, &first, &end); first = end) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "first", first);
        ah_emit_integer(emit, "last", end - 1);
        ah_emit_text(emit, "a", roles.a[first]);
        ah_emit_text(emit, "b", roles.b[first]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

const char *ah_diff_cluster_plan_bulk(const char *path)
{
    return strstr(path, ".starts_us") ? "starts of passes" : NULL;
}
