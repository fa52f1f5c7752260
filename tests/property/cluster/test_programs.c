/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the programs of plans for random clusters, models and trainings:
 *
 * 1. The plan check, which compiles each program again, accepts it, and the whole document reads back as written.
 * 2. It has the stage's blocks and configs, and takes no more GPU and host memory than the stage says. A plan whose
 *    stage names another program is refused. It runs on the cluster's kind of device: on a CPU with its cores, with
 *    memory reserved for what its ops pack. It clips as the training does, and has a norm if it trains at all.
 * 3. By itself, with nothing away, a step takes exactly m passes with their sends, and the update. With states or
 *    weights away and vectors of many tiles, it is within 5 % of the stage's estimate (docs/clusters.md).
 */
#include "runtime/schedule/check.h"
#include "runtime/schedule/reserve.h"
#include "tests/property/cluster/planned.h"
#include "tests/support/documents.h"

#include <stdlib.h>
#include <string.h>

enum { INSTANCES = 400 };

struct seen {
    size_t plans, programs, cpu, norms, away[AH_OPTIMIZER_NONE + 1], weights, shared, again, frozen;
    double longest, shortest, sum;
    size_t n;
};

/* ---- rule 1 ---- */

static void check_document(const struct planned *c)
{
    struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER_PLAN}, again;
    struct ah_cluster_plan plan = c->plan;
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    document.body.cluster_plan = &plan;
    CHECK_OK(ah_document_print(&document, &text, &err), err);
    CHECK_OK(ah_document_parse(&again, "plan", text.data, text.size, AH_DOCUMENT_CLUSTER_PLAN, &err), err);
    for (size_t i = 0; i < again.body.cluster_plan->n_programs; i++)
        CHECK_OK(ah_schedule_check(&again.body.cluster_plan->programs[i], &err), err);
    ah_document_release(&again);
    ah_buffer_release(&text);
}

/* ---- rule 2 ---- */

static const struct ah_cluster_plan_config *config_of(const struct ah_cluster_plan_stage *stage,
                                                      uint64_t block)
{
    size_t i = 0;
    while (block >= stage->configs[i].first_block + stage->configs[i].blocks)
        i++;
    return &stage->configs[i];
}

static void check_configs(const struct ah_cluster_plan_stage *stage, const struct ah_plan *program,
                          struct seen *seen)
{
    for (uint64_t b = 0; b < stage->blocks; b++) {
        const struct ah_cluster_plan_config *config = config_of(stage, stage->first_block + b);
        const struct ah_plan_block *block = &program->blocks[b];
        bool layer = !strncmp(block->group, "layer", 5), forward = strstr(block->group, ".forward");
        assert_int_equal(block->weights, config->weights);
        if (layer && !forward)
            assert_int_equal(block->activations, config->activations);
        if (block->optimizer != AH_OPTIMIZER_NONE)
            assert_int_equal(block->optimizer, config->optimizer);
        seen->away[block->optimizer]++;
        seen->weights += block->weights == AH_WEIGHTS_HOST;
        seen->again += block->activations != AH_ACTIVATIONS_KEEP;
        seen->frozen += block->optimizer == AH_OPTIMIZER_NONE;
    }
}

static void check_memory(const struct planned *c, const struct ah_cluster_plan_stage *stage,
                         const struct ah_plan *program)
{
    const struct ah_plan_memory *memory = &program->memory;
    size_t node = 0;
    while (strcmp(c->nodes[node].id, stage->node) != 0)
        node++;
    if (memory->device_bytes + memory->reserved_bytes > stage->memory_bytes)
        fail_msg("the program takes %llu bytes, the stage says %llu",
                 (unsigned long long)(memory->device_bytes + memory->reserved_bytes),
                 (unsigned long long)stage->memory_bytes);
    assert_true(memory->host_bytes * c->nodes[node].gpus <= c->nodes[node].host_memory_bytes);
}

static void check_device(const struct planned *c, const struct ah_plan *program, struct seen *seen)
{
    struct ah_arena arena = {0};
    struct ah_job job;
    struct ah_error err = {0};
    const bool cpu = c->cluster.device == AH_DEVICE_CPU;
    uint64_t packed = 0;
    assert_int_equal(program->numeric_signature.device, c->cluster.device);
    assert_int_equal(cpu, program->threads != NULL);
    CHECK_OK(ah_job_init_part(&job, &program->model, &program->training, program->part, &arena, &err), err);
    CHECK_OK(ah_reserve_find(&job, c->cluster.device, cpu, &packed, &err), err);
    assert_true(program->memory.reserved_bytes >= (cpu ? packed : 1000));
    if (!cpu)
        assert_int_equal(program->memory.reserved_bytes, 1000);
    seen->cpu += cpu;
    ah_arena_release(&arena);
}

static void check_norm(const struct planned *c, const struct ah_plan *program, struct seen *seen)
{
    const double clip = c->request.training.clip;
    size_t norms = 0, trained = 0;
    for (size_t i = 0; i < program->n_ops; i++)
        norms += program->ops[i].op == AH_PLAN_NORM && program->ops[i].lane == AH_PLAN_LANE_HOST;
    for (size_t b = 0; b < program->n_blocks; b++)
        trained += program->blocks[b].optimizer != AH_OPTIMIZER_NONE;
    check_near(c->plan.training.clip, clip, 0);
    check_near(program->training.clip, clip, 0);
    assert_int_equal(norms, clip > 0 && trained);
    seen->norms += norms;
}

/* Exchanges the programs of two stages. */
static void check_mistaken(const struct planned *c)
{
    struct ah_cluster_plan_stage *stages[2] = {NULL};
    for (size_t p = 0; p < c->plan.n_pipelines; p++)
        for (size_t i = 0; i < c->plan.pipelines[p].n_stages; i++) {
            struct ah_cluster_plan_stage *stage = &c->plan.pipelines[p].stages[i];
            stages[stage->program != 0] = stage;
        }
    if (!stages[1])
        return;
    struct ah_cluster_plan plan = c->plan;
    struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = &plan}}, again;
    const struct ah_plan first = plan.programs[0], second = plan.programs[stages[1]->program];
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    bool alike = first.training.micro_batches == second.training.micro_batches &&
                 !memcmp(first.part, second.part, sizeof *first.part);
    plan.programs[0] = second;
    CHECK_OK(ah_document_print(&document, &text, &err), err);
    int rc = ah_document_parse(&again, "plan", text.data, text.size, AH_DOCUMENT_CLUSTER_PLAN, &err);
    plan.programs[0] = first;
    if (!alike)
        assert_int_equal(rc, AH_E_DOCUMENT);
    if (!rc)
        ah_document_release(&again);
    ah_buffer_release(&text);
}

/* ---- rule 3 ---- */

static bool is_away(const struct ah_plan *program)
{
    for (size_t b = 0; b < program->n_blocks; b++)
        if (program->blocks[b].weights == AH_WEIGHTS_HOST ||
            program->blocks[b].optimizer == AH_OPTIMIZER_HOST ||
            program->blocks[b].optimizer == AH_OPTIMIZER_STREAMED)
            return true;
    return false;
}

static void check_time(const struct ah_cluster_plan_stage *stage, const struct ah_plan *program,
                       struct seen *seen)
{
    double passes_us =
        (double)program->training.micro_batches * (stage->forward_us + stage->backward_us + stage->send_us);
    double told_us = passes_us + stage->update_us, us = program->time.step_us;
    if (!is_away(program)) {
        double update_us = 0; /* all blocks have one rate, the slowest */
        for (size_t i = 0; i < program->n_ops; i++)
            update_us += program->ops[i].op == AH_PLAN_DEVICE_ADAM ? program->ops[i].us : 0;
        const bool shares =
            program->model.tied && program->part->stages == 1; /* one table, counted twice there */
        if (fabs(us - passes_us - update_us) > 1e-9 * us ||
            (!shares && update_us < stage->update_us * (1 - 1e-9)))
            fail_msg("a step takes %.9g us; %.9g of passes and %.9g of update", us, passes_us, update_us);
        return;
    }
    seen->longest = fmax(seen->longest, us / told_us);
    seen->shortest = fmin(seen->shortest, us / told_us);
    seen->sum += us / told_us;
    seen->n++;
}

/* ---- all ---- */

static void check_plan(const struct planned *c, struct seen *seen)
{
    check_document(c);
    check_mistaken(c);
    seen->plans++;
    seen->programs += c->plan.n_programs;
    for (size_t p = 0; p < c->plan.n_pipelines; p++)
        for (size_t i = 0; i < c->plan.pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &c->plan.pipelines[p].stages[i];
            const struct ah_plan *program = &c->plan.programs[stage->program];
            seen->shared += stage->tp > 1;
            check_configs(stage, program, seen);
            check_memory(c, stage, program);
            check_device(c, program, seen);
            check_norm(c, program, seen);
            check_time(stage, program, seen);
        }
}

TEST(programs, are_what_stages_do)
{
    size_t problems = check_scaled(INSTANCES);
    struct seen seen = {.shortest = INFINITY};
    uint64_t random = check_seed(2);
    for (size_t i = 0; i < problems; i++) {
        static struct planned c;
        planned_draw(&c, &random);
        if (planned_plan(&c))
            check_plan(&c, &seen);
        planned_release(&c);
    }
    print_message(
        "%zu clusters, %zu plans, %zu programs, %zu stages on CPUs, %zu with a norm; blocks: %zu updated on "
        "the host, %zu "
        "streamed, %zu with "
        "weights "
        "away, %zu recomputed, %zu frozen; %zu stages share blocks; steps of stages with something away "
        "%.3f to %.3f times what stages are taken to, mean %.3f\n",
        problems, seen.plans, seen.programs, seen.cpu, seen.norms, seen.away[AH_OPTIMIZER_HOST],
        seen.away[AH_OPTIMIZER_STREAMED], seen.weights, seen.again, seen.frozen, seen.shared, seen.shortest,
        seen.longest, seen.sum / (double)seen.n);
    assert_true(2 * seen.plans > problems && seen.programs > seen.plans);
    assert_true(seen.away[AH_OPTIMIZER_HOST] && seen.away[AH_OPTIMIZER_STREAMED] && seen.weights &&
                seen.again && seen.frozen && seen.shared && seen.cpu && seen.norms);
}

static void check_example(const char *model, double *longest)
{
    static struct planned c;
    struct ah_document cluster;
    struct ah_cluster_shortage shortage;
    struct ah_error err = {0};
    struct seen seen = {.shortest = INFINITY};
    c = (struct planned){0};
    load_document(&c.model, model, AH_DOCUMENT_MODEL);
    CHECK_OK(ah_document_digest(&c.model, c.sha256, &err), err);
    load_document(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER);
    c.request =
        (struct ah_cluster_request){.model = c.model.body.model,
                                    .model_sha256 = c.sha256,
                                    .cluster = cluster.body.cluster,
                                    .cluster_sha256 = c.sha256,
                                    .training = {.batch = 16,
                                                 .micro_batches = 8,
                                                 .seq = 1024,
                                                 .dtype = AH_BF16,
                                                 .trainable = (const char **)(uintptr_t)planned_everything,
                                                 .n_trainable = 1},
                                    .effort = 1,
                                    .generator = "test"};
    CHECK_OK(ah_cluster_planner_plan(&c.request, &c.arena, &c.plan, &shortage, &err), err);
    for (size_t p = 0; p < c.plan.n_pipelines; p++)
        for (size_t i = 0; i < c.plan.pipelines[p].n_stages; i++)
            check_time(&c.plan.pipelines[p].stages[i],
                       &c.plan.programs[c.plan.pipelines[p].stages[i].program], &seen);
    assert_true(seen.n > 0);
    *longest = fmax(*longest, fmax(seen.longest, 1 / seen.shortest));
    ah_document_release(&cluster);
    planned_release(&c);
}

TEST(programs, take_as_long_as_stages_are_taken_to)
{
    static const char *const examples[] = {"examples/models/gpt-4b.json", "examples/models/llama-2-7b.json",
                                           "examples/models/llama-3-8b.json"};
    double longest = 0;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_example(examples[i], &longest);
    print_message("programs with something away are at most %.2f %% off\n", 100 * (longest - 1));
    assert_true(longest < 1.05);
}
