/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that makes a plan of format 1.0 again, from what the plan says of its inputs, training and budgets.
 */
#include "cli/plan/outdated.h"

#include "schemas/cluster_plan.h"
#include "schemas/json.h"
#include "schemas/plan.h"

#include <inttypes.h>
#include <string.h>

/* Appends '--freeze' for the patterns of trained tensors. The first pattern trains everything. */
static void put_freeze(struct ah_buffer *out, const char *const *trainable, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const bool frozen = trainable[i][0] == '!';
        ah_buffer_printf(out, "%s%s%s", i == 1 ? " --freeze '" : ",", frozen ? "" : "!",
                         trainable[i] + frozen);
    }
    ah_buffer_puts(out, n > 1 ? "'" : "");
}

static void put_training(struct ah_buffer *out, const struct ah_plan_training *training)
{
    ah_buffer_printf(out, " --batch %" PRIu64 " --micro-batches %" PRIu64 " --seq %" PRIu64, training->batch,
                     training->micro_batches, training->seq);
    ah_buffer_printf(out, " --dtype %s --state-dtype %s", ah_words_dtype[training->dtype],
                     ah_words_dtype[training->state_dtype]);
    ah_buffer_puts(out, training->clip > 0 ? " --clip " : " --clip none");
    if (training->clip > 0)
        ah_json_put_number(out, training->clip);
    put_freeze(out, training->trainable, training->n_trainable);
}

static void put_without(struct ah_buffer *out, const struct ah_text_pair *annotations, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(annotations[i].key, "without"))
            ah_buffer_printf(out, " --without %s", annotations[i].value);
}

static void put_plan(struct ah_buffer *out, const struct ah_plan *plan)
{
    ah_buffer_printf(out, "autohete plan %s --machine %s", plan->inputs.model.name,
                     plan->inputs.machine.name);
    put_training(out, &plan->training);
    ah_buffer_printf(out, " --device-memory %" PRIu64, plan->memory.device_capacity_bytes);
    if (plan->memory.host_capacity_bytes)
        ah_buffer_printf(out, " --host-memory %" PRIu64, plan->memory.host_capacity_bytes);
    ah_buffer_printf(out, " --policy %s", ah_words_policy[plan->policy]);
    if (plan->policy == AH_POLICY_OPTIMAL || plan->policy == AH_POLICY_AUTOHETE_PAPER)
        ah_buffer_printf(out, " --scheduling %s", ah_words_scheduling[plan->scheduling]);
    put_without(out, plan->annotations, plan->n_annotations);
}

static int put_cluster_plan(struct ah_buffer *out, const struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_plan_training training;
    int rc = ah_cluster_plan_step(plan, &arena, &training, err);
    if (rc) {
        ah_arena_release(&arena);
        return rc;
    }
    ah_buffer_printf(out, "autohete plan %s --cluster %s", plan->inputs.model.name,
                     plan->inputs.cluster.name);
    put_training(out, &training);
    ah_buffer_printf(out, " --policy %s", ah_words_cluster_policy[plan->policy]);
    for (size_t i = 0; i < plan->n_annotations; i++)
        if (!strcmp(plan->annotations[i].key, "tp"))
            ah_buffer_printf(out, " --tp %.*s", (int)strcspn(plan->annotations[i].value, ","),
                             plan->annotations[i].value);
    put_without(out, plan->annotations, plan->n_annotations);
    ah_arena_release(&arena);
    return AH_OK;
}

int ah_outdated_refuse(const struct ah_document *document, const char *verb, struct ah_error *err)
{
    if (!document->outdated)
        return AH_OK;
    struct ah_buffer command = {0};
    const bool one = document->kind == AH_DOCUMENT_PLAN;
    int rc = AH_OK;
    if (one)
        put_plan(&command, document->body.plan);
    else
        rc = put_cluster_plan(&command, document->body.cluster_plan, err);
    if (!rc && command.failed)
        rc = ah_error_memory(err);
    if (!rc)
        rc = ah_error_set(err, AH_E_MISMATCH,
                          "format_version: is 1.0; '%s' takes 2.0, which states more. Plan again, with the "
                          "files of its model and %s: %s",
                          verb, one ? "machine" : "cluster", command.data);
    ah_buffer_release(&command);
    return rc;
}
