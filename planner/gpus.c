/* SPDX-License-Identifier: Apache-2.0
 *
 * Each GPU is a pipeline of one stage. Its numbers come from the program: `busy_us` is the compute lane's, the time of
 * a micro-batch that of its first, and update_us the time of updates on the device.
 */
#include "planner/gpus.h"

#include "schemas/document.h"

struct filling {
    const struct ah_plan *program;
    struct ah_cluster_plan_stage stage; /* of every GPU, but for its rank */
    struct ah_arena *arena;
};

static bool same_config(const struct ah_cluster_plan_config *config, const struct ah_plan_block *block)
{
    return config->activations == block->activations && config->weights == block->weights &&
           config->optimizer == block->optimizer;
}

static bool fill_configs(struct filling *f)
{
    const struct ah_plan *program = f->program;
    struct ah_cluster_plan_config *configs = ah_arena_array(f->arena, program->n_blocks, sizeof *configs);
    for (size_t b = 0; b < program->n_blocks && configs; b++) {
        const struct ah_plan_block *block = &program->blocks[b];
        if (!b || !same_config(&configs[f->stage.n_configs - 1], block))
            configs[f->stage.n_configs++] =
                (struct ah_cluster_plan_config){b, 0, block->activations, block->weights, block->optimizer};
        configs[f->stage.n_configs - 1].blocks++;
    }
    f->stage.configs = configs;
    return configs;
}

static bool has_states_away(const struct ah_plan *program)
{
    size_t b = 0;
    while (b < program->n_blocks && program->blocks[b].weights != AH_WEIGHTS_HOST &&
           program->blocks[b].optimizer != AH_OPTIMIZER_HOST &&
           program->blocks[b].optimizer != AH_OPTIMIZER_STREAMED)
        b++;
    return b < program->n_blocks;
}

static void fill_times(struct filling *f)
{
    for (size_t i = 0; i < f->program->n_ops; i++) {
        const struct ah_plan_op *op = &f->program->ops[i];
        if (op->op == AH_PLAN_DEVICE_ADAM)
            f->stage.update_us += op->us;
        else if (op->op == AH_PLAN_FORWARD && !op->micro_batch)
            f->stage.forward_us += op->us;
        else if (op->op == AH_PLAN_BACKWARD && !op->micro_batch)
            f->stage.backward_us += op->us;
    }
    f->stage.busy_us = f->program->time.busy_us[AH_PLAN_LANE_COMPUTE];
}

/* Fills the stage of every GPU. It holds the activations of one micro-batch at a time; block by block, of all. */
static bool fill_stage(struct filling *f)
{
    const struct ah_plan *program = f->program;
    const struct ah_plan_memory *memory = &program->memory;
    const bool by_block = program->micro_batch_order == AH_BLOCK_MAJOR;
    f->stage =
        (struct ah_cluster_plan_stage){.node = program->inputs.machine.name,
                                       .gpu = program->inputs.machine.name,
                                       .tp = 1,
                                       .n_ranks = 1,
                                       .blocks = program->n_blocks,
                                       .in_flight = by_block ? program->training.micro_batches : 1,
                                       .memory_bytes = memory->device_bytes + memory->reserved_bytes,
                                       .capacity_bytes = memory->device_capacity_bytes,
                                       .host_bytes = has_states_away(program) ? memory->host_bytes : 0};
    fill_times(f);
    return fill_configs(f);
}

static bool fill_pipelines(const struct filling *f, size_t gpus, struct ah_cluster_plan *plan)
{
    struct ah_cluster_plan_pipeline *pipelines = ah_arena_array(f->arena, gpus, sizeof *pipelines);
    struct ah_cluster_plan_stage *stages = ah_arena_array(f->arena, gpus, sizeof *stages);
    uint64_t *ranks = ah_arena_array(f->arena, gpus, sizeof *ranks);
    if (!pipelines || !stages || !ranks)
        return false;
    for (size_t p = 0; p < gpus; p++) {
        ranks[p] = p;
        stages[p] = f->stage;
        stages[p].ranks = &ranks[p];
        pipelines[p] = (struct ah_cluster_plan_pipeline){
            .micro_batches = ah_cluster_plan_dealt(plan->training.micro_batches, gpus, p),
            .time_us = f->program->time.step_us,
            .stages = &stages[p],
            .n_stages = 1};
    }
    plan->pipelines = pipelines;
    plan->n_pipelines = gpus;
    return true;
}

/* Fills what follows from a plan's inputs, training, sharding and program. */
static int fill_plan(struct ah_cluster_plan *plan, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_plan *program = &plan->programs[0];
    const struct ah_plan_training *training = &program->training;
    const double step_us = program->time.step_us;
    struct filling f = {.program = program, .arena = arena};
    plan->model = &program->model;
    plan->blocks = program->n_blocks;
    plan->without = program->without;
    plan->n_without = program->n_without;
    plan->training.seq = training->seq;
    plan->training.dtype = training->dtype;
    plan->training.state_dtype = training->state_dtype;
    plan->training.clip = training->clip;
    plan->training.trainable = training->trainable;
    plan->training.n_trainable = training->n_trainable;
    if (!fill_stage(&f) || !fill_pipelines(&f, program->part->shards, plan))
        return ah_error_memory(err);
    plan->predicted = (struct ah_cluster_plan_predicted){
        .step_us = step_us,
        .pipelines_us = step_us,
        .update_us = f.stage.update_us,
        .bubble = step_us > f.stage.busy_us ? 1 - f.stage.busy_us / step_us : 0,
        .programs_period_us = step_us,
        .tokens_per_s = 1e6 * (double)(plan->training.batch * training->seq) / step_us,
        .estimated = program->time.estimated};
    plan->solver = program->solver;
    return AH_OK;
}

int ah_gpus_document(const struct ah_plan_request *request, struct ah_plan *program, struct ah_arena *arena,
                     struct ah_cluster_plan *ret_plan, struct ah_error *err)
{
    struct ah_cluster_plan_sharding *sharding = ah_arena_alloc(arena, sizeof *sharding);
    if (!sharding)
        return ah_error_memory(err);
    *sharding = (struct ah_cluster_plan_sharding){request->fabric_bytes_per_s};
    struct ah_cluster_plan plan = {
        .generator = program->generator,
        .inputs = {program->inputs.model, program->inputs.machine},
        .training = {.batch = request->training.batch, .micro_batches = request->training.micro_batches},
        .sharding = sharding,
        .programs = program,
        .n_programs = 1};
    int rc = fill_plan(&plan, arena, err);
    if (!rc)
        *ret_plan = plan;
    return rc;
}

/* ---- checks ---- */

struct comparison {
    struct ah_error *err;
    bool differ;
};

static void on_difference(void *context, const char *path, const char *a, const char *b)
{
    struct comparison *comparison = context;
    if (!comparison->differ)
        ah_error_set(comparison->err, AH_E_DOCUMENT, "%s: is %s; from the program it follows that it is %s",
                     path, *a ? a : "absent", *b ? b : "absent");
    comparison->differ = true;
}

static int compare_plans(const struct ah_cluster_plan *plan, struct ah_cluster_plan *again,
                         struct ah_error *err)
{
    struct ah_cluster_plan stated = *plan;
    const struct ah_document a = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body.cluster_plan = &stated};
    const struct ah_document b = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body.cluster_plan = again};
    struct comparison comparison = {.err = err};
    const size_t n = ah_document_diff(&a, &b, on_difference, &comparison);
    if (n == SIZE_MAX)
        return ah_error_memory(err);
    return n ? AH_E_DOCUMENT : AH_OK;
}

int ah_gpus_check(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_cluster_plan again = *plan;
    int rc = fill_plan(&again, &arena, err);
    if (!rc) {
        again.model = plan->model ? again.model : NULL;
        again.training.trainable = plan->training.n_trainable ? again.training.trainable : NULL;
        again.training.n_trainable = plan->training.n_trainable ? again.training.n_trainable : 0;
        rc = compare_plans(plan, &again, err);
    }
    ah_arena_release(&arena);
    return rc;
}

int ah_gpus_verify(const struct ah_cluster_plan *plan, const struct ah_verify_inputs *inputs,
                   struct ah_error *err)
{
    const struct ah_plan *program = &plan->programs[0];
    struct ah_verify_inputs given = *inputs;
    given.gpus = plan->n_pipelines;
    given.fabric_bytes_per_s = plan->sharding->fabric_bytes_per_s;
    given.batch = plan->training.batch;
    given.micro_batches = plan->training.micro_batches;
    int rc = ah_verify_input("machine", &plan->inputs.cluster, inputs->machine_sha256, err);
    rc = rc ? rc : ah_verify_inputs(program, &given, err);
    return rc == AH_E_DOCUMENT ? ah_error_prefix(err, rc, "programs[0]") : rc;
}
