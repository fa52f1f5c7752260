/* SPDX-License-Identifier: Apache-2.0
 *
 * The page's numbers, texts and lists. The columns of lists are in the order of page/model.js.
 */
#include "cli/page/page_internal.h"

#include "cli/inspect/plan_summary.h"

static void put_sentences(struct ah_emit *emit, const struct ah_plan *plan)
{
    struct ah_buffer text = {0};
    ah_plan_put_cause(&text, plan);
    ah_emit_buffer(emit, "cause", &text);
    ah_plan_put_bottleneck(&text, &plan->time);
    ah_emit_buffer(emit, "bottleneck", &text);
    ah_plan_put_quality(&text, &plan->solver);
    ah_emit_buffer(emit, "quality", &text);
}

static void put_about(struct ah_emit *emit, const struct ah_plan *plan)
{
    const struct ah_plan_training *training = &plan->training;
    struct ah_buffer what_if = {0}, adapters = {0};
    ah_emit_text(emit, "generator", plan->generator);
    ah_emit_text(emit, "model", plan->inputs.model.name);
    ah_emit_text(emit, "model_sha256", plan->inputs.model.sha256);
    ah_emit_text(emit, "machine", plan->inputs.machine.name);
    ah_emit_text(emit, "machine_sha256", plan->inputs.machine.sha256);
    ah_plan_put_what_if(&what_if, plan);
    ah_emit_buffer(emit, "what_if", &what_if);
    ah_plan_put_lora(&adapters, "", &plan->model);
    ah_emit_buffer(emit, "adapters", &adapters);
    ah_emit_text(emit, "policy", ah_words_policy[plan->policy]);
    ah_emit_text(emit, "scheduling", ah_words_scheduling[plan->scheduling]);
    ah_emit_text(emit, "micro_batch_order", ah_words_micro_order[plan->micro_batch_order]);
    ah_emit_integer(emit, "batch", training->batch);
    ah_emit_integer(emit, "micro_batches", training->micro_batches);
    ah_emit_integer(emit, "seq", training->seq);
    ah_emit_text(emit, "dtype", ah_words_dtype[training->dtype]);
    ah_emit_text(emit, "state_dtype", ah_words_dtype[training->state_dtype]);
    ah_emit_number(emit, "clip", training->clip);
    ah_emit_number(emit, "step_us", plan->time.step_us);
    ah_emit_bool(emit, "estimated", plan->time.estimated);
    ah_emit_number(emit, "tokens_per_s", plan->tokens_per_s);
    ah_emit_text(emit, "status", ah_words_plan_status[plan->solver.status]);
    ah_emit_number(emit, "bound_us", plan->solver.bound_us);
    ah_emit_number(emit, "gap", plan->solver.gap);
    put_sentences(emit, plan);
}

static void put_memory(struct ah_emit *emit, const struct ah_plan_memory *memory)
{
    ah_emit_open(emit, "memory", '{');
    ah_emit_integer(emit, "device_bytes", memory->device_bytes);
    ah_emit_integer(emit, "device_capacity_bytes", memory->device_capacity_bytes);
    ah_emit_integer(emit, "reserved_bytes", memory->reserved_bytes);
    ah_emit_integer(emit, "host_bytes", memory->host_bytes);
    ah_emit_integer(emit, "host_capacity_bytes", memory->host_capacity_bytes);
    ah_emit_integer(emit, "process_bytes", memory->process_bytes);
    ah_emit_integer(emit, "pinned_bytes", memory->pinned_bytes);
    ah_emit_integer(emit, "pageable_bytes", memory->pageable_bytes);
    ah_emit_close(emit);
}

/* Adds rows [name, group, parameters, activations, weights, optimizer, accumulator]. */
static void put_blocks(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "blocks", '[');
    for (size_t i = 0; i < plan->n_blocks; i++) {
        const struct ah_plan_block *block = &plan->blocks[i];
        ah_emit_open(emit, NULL, '[');
        ah_emit_text(emit, NULL, block->name);
        ah_emit_text(emit, NULL, block->group);
        ah_emit_integer(emit, NULL, block->parameters);
        ah_emit_text(emit, NULL, ah_words_activations[block->activations]);
        ah_emit_text(emit, NULL, ah_words_weights[block->weights]);
        ah_emit_text(emit, NULL, ah_words_optimizer[block->optimizer]);
        ah_emit_text(emit, NULL, ah_words_accumulator[block->accumulator]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

/* Adds rows [kind, block, micro-batch, tiles, bytes]. */
static void put_ops(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "ops", '[');
    for (size_t i = 0; i < plan->n_ops; i++) {
        const struct ah_plan_op *op = &plan->ops[i];
        ah_emit_open(emit, NULL, '[');
        ah_emit_integer(emit, NULL, op->op);
        ah_emit_integer(emit, NULL, op->block);
        ah_emit_integer(emit, NULL, op->micro_batch);
        ah_emit_integer(emit, NULL, op->tiles);
        ah_emit_integer(emit, NULL, op->bytes);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

/* Adds rows [policy, feasible, step_us]. */
static void put_alternatives(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "alternatives", '[');
    for (size_t i = 0; i < plan->n_alternatives; i++) {
        const struct ah_plan_alternative *alternative = &plan->alternatives[i];
        ah_emit_open(emit, NULL, '[');
        ah_emit_text(emit, NULL, ah_words_policy[alternative->policy]);
        ah_emit_bool(emit, NULL, alternative->feasible);
        ah_emit_number(emit, NULL, alternative->step_us);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

static void put_words(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "op_kinds", '[');
    for (size_t i = 0; ah_words_plan_op[i]; i++)
        ah_emit_text(emit, NULL, ah_words_plan_op[i]);
    ah_emit_close(emit);
    ah_emit_open(emit, "resources", '[');
    for (size_t i = 0; i < plan->sharing.n_resources; i++)
        ah_emit_text(emit, NULL, plan->sharing.resources[i].name);
    ah_emit_close(emit);
}

void page_put_classes(struct ah_emit *emit, const struct ah_plan_memory *memory)
{
    const struct ah_plan_by_class *by_class = &memory->by_class;
    uint64_t classes = by_class->weights + by_class->gradients + by_class->optimizer + by_class->activations +
                       by_class->staging + by_class->workspace;
    ah_emit_open(emit, "classes", '{');
    ah_emit_integer(emit, "weights", by_class->weights);
    ah_emit_integer(emit, "gradients", by_class->gradients);
    ah_emit_integer(emit, "optimizer", by_class->optimizer);
    ah_emit_integer(emit, "activations", by_class->activations);
    ah_emit_integer(emit, "staging", by_class->staging);
    ah_emit_integer(emit, "workspace", by_class->workspace);
    ah_emit_integer(emit, "gaps", memory->device_bytes > classes ? memory->device_bytes - classes : 0);
    ah_emit_integer(emit, "reserve", memory->reserved_bytes);
    ah_emit_close(emit);
}

void page_put_lanes(struct ah_emit *emit, const struct ah_plan *plan)
{
    ah_emit_open(emit, "lanes", '[');
    for (unsigned lane = 0; lane < ah_plan_lane_count(plan); lane++) {
        ah_emit_open(emit, NULL, '[');
        ah_emit_text(emit, NULL, ah_words_plan_lane[lane]);
        ah_emit_number(emit, NULL, plan->time.busy_us[lane]);
        ah_emit_number(emit, NULL, plan->time.exposed_us.of[lane]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

void page_put_plan(struct ah_emit *emit, const struct ah_plan *plan)
{
    put_about(emit, plan);
    put_memory(emit, &plan->memory);
    put_blocks(emit, plan);
}

void page_put_facts(struct page *page)
{
    struct ah_emit *emit = &page->emit;
    page_put_plan(emit, page->plan);
    put_words(emit, page->plan);
    put_ops(emit, page->plan);
    put_alternatives(emit, page->plan);
    if (page->prospects)
        ah_plan_prospects_emit(emit, page->prospects);
}
