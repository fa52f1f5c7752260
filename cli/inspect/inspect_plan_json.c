/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a plan's summary for programs. Fields have names and units as in the document.
 */
#include "cli/inspect/inspect.h"

#include "cli/inspect/plan_summary.h"
#include "schemas/plan.h"

static void emit_blocks(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "blocks", '[');
    for (size_t i = 0; i < plan->n_blocks; i++) {
        const struct ah_plan_block *block = &plan->blocks[i];
        ah_emit_open(emit, NULL, '{');
        ah_emit_integer(emit, "index", block->index);
        ah_emit_text(emit, "name", block->name);
        ah_emit_text(emit, "group", block->group);
        ah_emit_text(emit, "activations", ah_words_activations[block->activations]);
        ah_emit_text(emit, "weights", ah_words_weights[block->weights]);
        ah_emit_text(emit, "optimizer", ah_words_optimizer[block->optimizer]);
        ah_emit_text(emit, "accumulator", ah_words_accumulator[block->accumulator]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

static void emit_memory(struct ah_emit *emit, const struct ah_plan_memory *memory)
{
    const struct ah_plan_by_class *by_class = &memory->by_class;
    ah_emit_integer(emit, "device_bytes", memory->device_bytes);
    ah_emit_integer(emit, "device_capacity_bytes", memory->device_capacity_bytes);
    ah_emit_integer(emit, "reserved_bytes", memory->reserved_bytes);
    ah_emit_integer(emit, "host_bytes", memory->host_bytes);
    ah_emit_integer(emit, "host_capacity_bytes", memory->host_capacity_bytes);
    ah_emit_integer(emit, "process_bytes", memory->process_bytes);
    ah_emit_integer(emit, "pinned_bytes", memory->pinned_bytes);
    ah_emit_integer(emit, "pageable_bytes", memory->pageable_bytes);
    ah_emit_open(emit, "by_class", '{');
    ah_emit_integer(emit, "weights", by_class->weights);
    ah_emit_integer(emit, "gradients", by_class->gradients);
    ah_emit_integer(emit, "optimizer", by_class->optimizer);
    ah_emit_integer(emit, "activations", by_class->activations);
    ah_emit_integer(emit, "staging", by_class->staging);
    ah_emit_integer(emit, "workspace", by_class->workspace);
    ah_emit_close(emit);
}

static void emit_lanes(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "lanes", '{');
    for (unsigned lane = 0; lane < ah_plan_lane_count(plan); lane++) {
        ah_emit_open(emit, ah_words_plan_lane[lane], '{');
        ah_emit_number(emit, "busy_us", plan->time.busy_us[lane]);
        ah_emit_number(emit, "busy_share",
                       plan->time.step_us > 0 ? plan->time.busy_us[lane] / plan->time.step_us : 0);
        if (lane != AH_PLAN_LANE_COMPUTE)
            ah_emit_number(emit, "exposed_us", plan->time.exposed_us.of[lane]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
    struct ah_buffer sentence = {0};
    ah_plan_put_bottleneck(&sentence, &plan->time);
    ah_emit_buffer(emit, "bottleneck", &sentence);
}

static void emit_alternatives(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "alternatives", '[');
    for (size_t i = 0; i < plan->n_alternatives; i++) {
        const struct ah_plan_alternative *alternative = &plan->alternatives[i];
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "policy", ah_words_policy[alternative->policy]);
        ah_emit_bool(emit, "feasible", alternative->feasible);
        if (alternative->feasible)
            ah_emit_number(emit, "step_us", alternative->step_us);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

void ah_inspect_plan_what_if_json(struct ah_emit *emit, const struct ah_plan *plan)
{
    if (!plan->n_what_if)
        return;
    ah_emit_open(emit, "what_if", '[');
    for (size_t i = 0; i < plan->n_what_if; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "field", ah_words_what_if[plan->what_if[i].field]);
        ah_emit_integer(emit, "machine_bytes", plan->what_if[i].machine_bytes);
        ah_emit_integer(emit, "planned_bytes", plan->what_if[i].planned_bytes);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

void ah_inspect_plan_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_plan *plan = document->body.plan;
    ah_emit_text(emit, "model", plan->inputs.model.name);
    ah_emit_text(emit, "machine", plan->inputs.machine.name);
    ah_plan_emit_lora(emit, &plan->model);
    ah_inspect_plan_what_if_json(emit, plan);
    ah_emit_text(emit, "policy", ah_words_policy[plan->policy]);
    ah_emit_text(emit, "scheduling", ah_words_scheduling[plan->scheduling]);
    ah_emit_number(emit, "step_us", plan->time.step_us);
    ah_emit_bool(emit, "estimated", plan->time.estimated);
    ah_emit_number(emit, "tokens_per_s", plan->tokens_per_s);
    ah_emit_text(emit, "status", ah_words_plan_status[plan->solver.status]);
    ah_emit_number(emit, "bound_us", plan->solver.bound_us);
    ah_emit_number(emit, "gap", plan->solver.gap);
    emit_memory(emit, &plan->memory);
    emit_lanes(emit, plan);
    emit_blocks(emit, plan);
    emit_alternatives(emit, plan);
    ah_inspect_signature_json(emit, &plan->numeric_signature);
}
