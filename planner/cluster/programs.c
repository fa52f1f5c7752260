/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the program of a stage: configs of its blocks, knobs, and the costs of its GPU.
 *
 * 1. Configs are the stage's. Only layers with a backward may get a treatment other than `keep`.
 * 2. Gradients of several micro-batches are summed on the device, but on the host if weights are away
 *    (offload_costs.h).
 * 3. Rates of links and host are the GPU's share, as in offload_costs.h: copies and host Adam use the host's memory.
 */
#include "planner/cluster/programs.h"

#include "planner/cluster/offload_costs.h"
#include "runtime/schedule/names.h"
#include "runtime/schedule/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Two buffers of weights and two of gradients in transit (offload_costs.h). */
enum { FETCH_AHEAD = 1, SEND_BEHIND = 1 };

struct filling {
    const struct ah_programs_input *in;
    enum ah_tied tied; /* the same in every program */
    struct ah_arena *arena;
    struct ah_cluster_plan *plan;
    struct ah_error *err;
};

/* All of a stage that its program depends on. Stages with equal roles, compared byte by byte, share a program. */
struct role {
    struct ah_plan_part part;
    uint64_t micro_batches;
    uint64_t sums; /* number of groups that the stage sums separately; 0: none */
    uint64_t kind;
    uint64_t sharers; /* units that share its host; 0: the stage has no host */
    uint64_t recompute, selective, states_away, weights_away;
    double send_output_us, send_gradient_us;
};

struct program {
    const struct filling *f;
    const struct ah_stage *stage;
    const struct ah_cluster_node *node;
    struct ah_offload_host host;
    struct role role;
    struct ah_plan_training training;
    struct ah_job job;
    struct ah_costs costs;
    struct ah_config *configs;
    struct ah_knobs knobs;
};

static size_t first_sums(const struct filling *f)
{
    const struct ah_plan_training *training = &f->in->training;
    return ah_cluster_plan_first_sums(training->sums, training->n_sums, f->in->arrangement->n_pipelines);
}

static struct role role_of(const struct filling *f, const struct ah_pipeline *pipeline, size_t i)
{
    const struct ah_cluster_problem *in = f->in->problem;
    const struct ah_stage *stage = &pipeline->stages[i];
    struct role role = {.part = {.first_block = stage->first,
                                 .blocks = stage->end - stage->first,
                                 .tp = ah_problem_kind_of(in, stage->class)->tp,
                                 .stage = i,
                                 .stages = pipeline->n_stages,
                                 .step_micro_batches =
                                     f->in->arrangement->n_pipelines > 1 ? f->in->training.micro_batches : 0},
                        .micro_batches = pipeline->micro_batches,
                        .sums = pipeline == f->in->arrangement->pipelines ? first_sums(f) : 0,
                        .kind = in->classes[stage->class].kind,
                        .sharers = ah_problem_kind_of(in, stage->class)->n_hosts ? stage->sharers : 0,
                        .recompute = stage->recompute,
                        .selective = stage->selective,
                        .states_away = stage->states_away,
                        .weights_away = stage->weights_away};
    if (i > 0)
        role.send_gradient_us = ah_problem_send_us(in, stage->class, stage[-1].class);
    if (i + 1 < pipeline->n_stages)
        role.send_output_us = ah_problem_send_us(in, stage->class, stage[1].class);
    return role;
}

/* ---- choice ---- */

static struct ah_config config_of(const struct program *p, size_t block)
{
    const struct ah_job_group *group = ah_job_block(&p->job, block);
    size_t at = p->stage->first + block;
    const struct ah_problem_away *away = ah_stage_away(p->f->in->problem, p->stage, at);
    bool ways = group->kind == AH_BLOCK_LAYER && group->backward;
    bool joins = group->kind != AH_BLOCK_LAYER && ah_job_joins_table(&p->job);
    struct ah_config config = {.activations =
                                   ways ? (uint8_t)ah_stage_way(p->stage, at) : AH_ACTIVATIONS_KEEP,
                               .weights = away ? (uint8_t)away->weights : AH_WEIGHTS_DEVICE,
                               .optimizer = away ? (uint8_t)away->optimizer : AH_OPTIMIZER_DEVICE,
                               .accumulator = AH_ACCUMULATOR_NONE};
    if (!group->trained_elements)
        config.optimizer = AH_OPTIMIZER_NONE;
    else if (p->job.adds_up)
        config.accumulator =
            config.weights == AH_WEIGHTS_HOST && !joins ? AH_ACCUMULATOR_HOST : AH_ACCUMULATOR_DEVICE;
    return config;
}

static int choose_configs(struct program *p)
{
    p->configs = ah_arena_array(p->f->arena, p->job.n_blocks, sizeof *p->configs);
    if (!p->configs)
        return ah_error_memory(p->f->err);
    for (size_t b = 0; b < p->job.n_blocks; b++)
        p->configs[b] = config_of(p, b);
    p->knobs = (struct ah_knobs){.tile_elements = ah_offload_tile_elements(&p->job, 1),
                                 .micro_order = AH_MICRO_BATCH_MAJOR,
                                 .fetch_ahead = FETCH_AHEAD,
                                 .send_behind = SEND_BEHIND,
                                 .host_gradient_tiles = AH_OFFLOAD_HOST_TILES,
                                 .host_weight_tiles = AH_OFFLOAD_HOST_TILES,
                                 .device_state_tiles = AH_OFFLOAD_STATE_TILES,
                                 .updates_after_backward = true,
                                 .step_ends = true,
                                 .scheduling = AH_SCHEDULING_PRIORITY};
    return AH_OK;
}

/* ---- costs ---- */

/* Returns the number of parameters in a block's update time. A head's includes a tied table, even a shared one. */
static uint64_t updated_parameters(const struct program *p, const struct ah_job_group *group)
{
    const bool shares = group->kind == AH_BLOCK_HEAD && ah_job_shares_table(&p->job) && p->job.table_trained;
    return group->trained_parameters + (shares ? p->job.model->vocabulary * p->job.model->width : 0);
}

/* Returns the device's time to update one parameter, the largest over the groups, which differ only by rounding. */
static double device_adam_us(const struct program *p, const struct ah_problem_block *blocks)
{
    double us = 0;
    for (size_t g = 0; g < p->job.n_groups; g++) {
        const struct ah_job_group *group = &p->job.groups[g];
        if (group->trained_parameters)
            us = fmax(us, blocks[p->stage->first + group->first].update_us /
                              (double)updated_parameters(p, group));
    }
    return us;
}

static int share_host(struct program *p, const struct ah_offload_host *host)
{
    struct ah_plan_resource *dram = ah_arena_array(p->f->arena, 1, sizeof *dram);
    if (!dram)
        return ah_error_memory(p->f->err);
    double copies = host->link_bytes_per_s / host->memory_bytes_per_s;
    *dram = (struct ah_plan_resource){
        .name = "host_dram",
        .demand = {[AH_PLAN_LANE_H2D] = copies, [AH_PLAN_LANE_D2H] = copies, [AH_PLAN_LANE_HOST] = 1}};
    p->costs.sharing.resources = dram;
    p->costs.sharing.n_resources = 1;
    return AH_OK;
}

static int price_host(struct program *p)
{
    const struct ah_offload_host host = p->host;
    const struct ah_job *job = &p->job;
    p->costs.sharing.weights = (struct ah_plan_by_lane){{1, 1, 1, 1}};
    if (!host.memory_bytes)
        return AH_OK;
    double sum = job->adds_up ? sizeof(float) : (double)job->gradient_bytes;
    double weights = (double)job->weight_bytes * (job->training.dtype == AH_FP32 ? 2 : 1);
    double host_us = 1e6 / host.memory_bytes_per_s;
    p->costs.h2d_us_per_byte = p->costs.d2h_us_per_byte = 1e6 / host.link_bytes_per_s;
    p->costs.host_adam_us = host_us * (2 * (double)job->state_bytes + sum + weights);
    p->costs.host_accumulate_us = host_us * ((double)job->gradient_bytes + 2 * sum);
    return share_host(p, &host);
}

static int fill_costs(struct program *p)
{
    const struct ah_problem_block *blocks = p->f->in->problem->kinds[p->role.kind].blocks;
    const struct ah_cluster_gpu *gpu = ah_cluster_gpu_of(p->f->in->cluster, p->node);
    p->costs =
        (struct ah_costs){.groups = ah_arena_array(p->f->arena, p->job.n_groups, sizeof *p->costs.groups),
                          .send_output_us = p->role.send_output_us,
                          .send_gradient_us = p->role.send_gradient_us,
                          .device_adam_us = device_adam_us(p, blocks),
                          .has_threads = gpu->compute_threads > 0,
                          .threads = {gpu->compute_threads, gpu->host_threads},
                          .estimated = p->f->in->estimated};
    if (!p->costs.groups)
        return ah_error_memory(p->f->err);
    for (size_t g = 0; g < p->job.n_groups; g++) {
        const struct ah_problem_block *block = &blocks[p->stage->first + p->job.groups[g].first];
        bool head = p->job.groups[g].kind == AH_BLOCK_HEAD;
        p->costs.groups[g].forward_us = block->forward_us + (head ? block->backward_us[0] : 0);
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            p->costs.groups[g].backward_us[way] = block->backward_us[way];
    }
    return price_host(p);
}

/* ---- the document ---- */

static void fill_plan(const struct program *p, const struct ah_cluster_gpu *gpu, struct ah_plan_part *part,
                      struct ah_plan *plan)
{
    const struct ah_cluster_plan *of = p->f->plan;
    const struct ah_plan_training *training = &p->training;
    plan->generator = of->generator;
    plan->inputs.model = of->inputs.model;
    plan->inputs.machine = of->inputs.cluster;
    plan->model = *p->f->in->model;
    plan->training = *training;
    *part = p->role.part;
    plan->part = part;
    plan->numeric_signature = ah_plan_signature(plan, p->f->in->cluster->device);
    plan->policy = AH_POLICY_OPTIMAL;
    plan->memory.device_capacity_bytes = gpu->memory_bytes;
    plan->memory.reserved_bytes = p->f->in->problem->kinds[p->role.kind].reserved_bytes;
    plan->memory.host_capacity_bytes = p->host.memory_bytes;
    plan->solver = (struct ah_plan_solver){.status = AH_PLAN_NO_BOUND, .objective_us = plan->time.step_us};
    plan->tokens_per_s = (double)(training->batch * training->seq) / plan->time.step_us * 1e6;
}

static int check_room(const struct program *p, const struct ah_plan *plan)
{
    const struct ah_plan_memory *memory = &plan->memory;
    uint64_t room = memory->device_capacity_bytes - memory->reserved_bytes;
    bool device = memory->device_bytes > room;
    if (!device && memory->host_bytes <= memory->host_capacity_bytes)
        return AH_OK;
    struct ah_buffer blocks = {0};
    ah_name_range(ah_names_of_plan(plan), 0, plan->n_blocks, &blocks);
    int rc = blocks.failed ? ah_error_memory(p->f->err)
                           : ah_error_set(p->f->err, AH_E_CAPACITY,
                                          "node '%s', %s: %s %" PRIu64 " bytes of %s %" PRIu64, p->node->id,
                                          blocks.data, device ? "laid out they take" : "they take",
                                          device ? memory->device_bytes : memory->host_bytes,
                                          device ? "a GPU that has" : "the host, of which a GPU's share is",
                                          device ? room : memory->host_capacity_bytes);
    ah_buffer_release(&blocks);
    return rc;
}

static int schedule_and_emit(const struct program *p, struct ah_plan *ret_plan)
{
    const struct ah_choice choice = {.configs = p->configs, .knobs = p->knobs, .costs = &p->costs};
    struct ah_schedule schedule = {0};
    struct ah_score score;
    int rc = ah_schedule_init(&schedule, &p->job, p->f->err);
    if (!rc)
        rc = ah_schedule_evaluate(&schedule, &choice, &score, p->f->err);
    if (!rc)
        rc = ah_schedule_emit(&schedule, &choice, p->f->arena, ret_plan, p->f->err);
    ah_schedule_release(&schedule);
    return rc;
}

static int make_program(struct program *p, struct ah_plan *ret_plan)
{
    const struct filling *f = p->f;
    struct ah_plan_part *part = ah_arena_array(f->arena, 1, sizeof *part);
    if (!part)
        return ah_error_memory(f->err);
    p->training = f->in->training;
    p->training.batch = f->in->training.batch / f->in->training.micro_batches * p->role.micro_batches;
    p->training.micro_batches = p->role.micro_batches;
    p->training.tied = f->tied;
    p->training.n_sums = p->role.sums;
    int rc = ah_job_init_part(&p->job, f->in->model, &p->training, &p->role.part, f->arena, f->err);
    rc = rc ? rc : choose_configs(p);
    rc = rc ? rc : fill_costs(p);
    rc = rc ? rc : schedule_and_emit(p, ret_plan);
    if (rc)
        return rc;
    fill_plan(p, ah_cluster_gpu_of(f->in->cluster, p->node), part, ret_plan);
    return check_room(p, ret_plan);
}

/* ---- all stages ---- */

static int fill_stage(struct filling *f, const struct ah_pipeline *pipeline, size_t i, struct role *roles,
                      uint64_t *ret_program)
{
    const struct ah_stage *stage = &pipeline->stages[i];
    struct ah_cluster_plan *plan = f->plan;
    const struct role role = role_of(f, pipeline, i);
    size_t at = 0;
    while (at < plan->n_programs && memcmp(&roles[at], &role, sizeof role) != 0)
        at++;
    *ret_program = at;
    if (at < plan->n_programs)
        return AH_OK;
    roles[at] = role;
    const struct ah_problem_class *class = &f->in->problem->classes[stage->class];
    struct program program = {
        .f = f, .stage = stage, .node = &f->in->cluster->nodes[class->node], .role = role};
    if (role.sharers)
        program.host = ah_offload_share(program.node, role.sharers * role.part.tp);
    int rc = make_program(&program, &plan->programs[at]);
    plan->n_programs += !rc;
    return rc;
}

/* True if a tied table has two gradients, because some pipeline has several stages or the request says so. */
static bool splits_table(const struct ah_programs_input *in)
{
    bool cut = in->training.tied == AH_TIED_SPLIT;
    for (size_t p = 0; p < in->arrangement->n_pipelines; p++)
        cut = cut || in->arrangement->pipelines[p].n_stages > 1;
    return cut && in->problem->tied_bytes;
}

int ah_programs_fill(const struct ah_programs_input *input, struct ah_arena *arena,
                     struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct filling f = {.in = input, .arena = arena, .plan = plan, .err = err};
    const struct ah_arrangement *arrangement = input->arrangement;
    size_t stages = ah_arrangement_stages(arrangement);
    struct role *roles = ah_arena_array(arena, stages, sizeof *roles);
    plan->programs = ah_arena_array(arena, stages, sizeof *plan->programs);
    plan->n_programs = 0;
    if (!roles || !plan->programs)
        return ah_error_memory(err);
    f.tied = splits_table(input) ? AH_TIED_SPLIT : AH_TIED_JOINT;
    int rc = AH_OK;
    for (size_t p = 0; p < arrangement->n_pipelines && !rc; p++)
        for (size_t i = 0; i < arrangement->pipelines[p].n_stages && !rc; i++)
            rc = fill_stage(&f, &arrangement->pipelines[p], i, roles, &plan->pipelines[p].stages[i].program);
    return rc;
}
