/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of plans for random clusters, models and trainings:
 *
 * 1. Each is a plan that the check of plans accepts, compiled again, and the whole document reads as it was written.
 * 2. It has the stage's blocks with the stage's configs, and takes no more memory of GPU and host than the stage says.
 *    A plan whose stage names another program is refused.
 * 3. Alone, with nothing away, a step takes m passes with their sends, and the update: exactly. With states or weights away,
 *    where vectors are many tiles, within 5 % of what the stage is taken to (docs/clusters.md).
 *
 * AH_TEST_INSTANCES: how many clusters; 40.
 */
#include "planner/cluster/cluster_planner.h"
#include "runtime/schedule/check.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTANCES = 40, NODES = 4, MODELS = 3 };

static const char *const models[MODELS] = {
    "\"family\": \"llama\", \"layers\": 6, \"width\": 64, \"heads\": 4, \"kv_heads\": 4, \"head_dim\": 16, "
    "\"mlp_width\": 160, \"vocabulary\": 200, \"max_positions\": 64, \"position\": \"rope\", \"rope\": "
    "{\"theta\": 10000}, "
    "\"norm\": \"rms\", \"norm_epsilon\": 1e-05, \"activation\": \"silu_gated\", \"tied\": true",
    "\"family\": \"llama\", \"layers\": 9, \"width\": 32, \"heads\": 2, \"kv_heads\": 2, \"head_dim\": 16, "
    "\"mlp_width\": 96, \"vocabulary\": 90, \"max_positions\": 64, \"position\": \"rope\", \"rope\": "
    "{\"theta\": 10000}, "
    "\"norm\": \"rms\", \"norm_epsilon\": 1e-05, \"activation\": \"silu_gated\", \"tied\": false",
    "\"family\": \"gpt2\", \"layers\": 4, \"width\": 48, \"heads\": 4, \"kv_heads\": 4, \"head_dim\": 12, "
    "\"mlp_width\": 192, \"vocabulary\": 128, \"max_positions\": 64, \"position\": \"learned\", \"norm\": "
    "\"layer\", "
    "\"norm_epsilon\": 1e-05, \"activation\": \"gelu_tanh\", \"tied\": true, \"qkv_bias\": true, "
    "\"attention_output_bias\": true, "
    "\"mlp_bias\": true",
};
static const char *const everything[] = {"*"}, *const upper[] = {"*", "!embedding.*", "!layer.0.*",
                                                                 "!layer.1.*"};
static const char *const ids[NODES] = {"n0", "n1", "n2", "n3"};

struct instance {
    struct ah_document model;
    char sha256[AH_DOCUMENT_DIGEST_MAX];
    struct ah_cluster_gpu gpus[2];
    struct ah_cluster_node nodes[NODES];
    struct ah_cluster cluster;
    struct ah_cluster_request request;
    struct ah_arena arena;
    struct ah_cluster_plan plan;
};

struct seen {
    size_t plans, programs, away[AH_OPTIMIZER_NONE + 1], weights, shared, again, frozen;
    double longest, shortest, sum;
    size_t n;
};

/* ---- instances ---- */

static void draw_model(struct instance *c, uint64_t *random)
{
    char text[1024];
    struct ah_error err = {0};
    int n = snprintf(text, sizeof text,
                     "{\"kind\": \"model\", \"format_version\": \"1.0\", \"generator\": \"test\", \"name\": "
                     "\"small\", %s}",
                     models[check_random(random) % MODELS]);
    CHECK_OK(ah_document_parse(&c->model, "model", text, (size_t)n, AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(ah_document_digest(&c->model, c->sha256, &err), err);
}

static double some(uint64_t *random, double least, double most)
{
    return least * pow(most / least, check_uniform(random));
}

static void draw_cluster(struct instance *c, uint64_t *random)
{
    size_t n = 1 + check_random(random) % NODES;
    bool hosts = check_random(random) % 3 > 0;
    for (size_t g = 0; g < 2; g++)
        c->gpus[g] = (struct ah_cluster_gpu){.name = g ? "b" : "a",
                                             .memory_bytes = (uint64_t)some(random, 3e5, 3e6),
                                             .reserved_bytes = 1000,
                                             .memory_bytes_per_s = some(random, 1e9, 1e10),
                                             .flops_per_s = some(random, 1e10, 1e11)};
    for (size_t i = 0; i < n; i++)
        c->nodes[i] = (struct ah_cluster_node){.id = ids[i],
                                               .gpu = check_random(random) % 2 ? "a" : "b",
                                               .gpus = 1 + check_random(random) % 4,
                                               .intra_bytes_per_s = 1e9,
                                               .nic_bytes_per_s = some(random, 1e7, 1e9),
                                               .host_memory_bytes = (uint64_t)some(random, 1e7, 1e8),
                                               .host_memory_bytes_per_s = hosts ? some(random, 1e8, 1e10) : 0,
                                               .host_link_bytes_per_s = hosts ? some(random, 1e8, 1e9) : 0};
    c->cluster = (struct ah_cluster){
        .generator = "test", .name = "random", .gpus = c->gpus, .n_gpus = 2, .nodes = c->nodes, .n_nodes = n};
}

/* False: nothing was found that fits. */
static bool begin(struct instance *c, uint64_t *random)
{
    struct ah_error err = {0};
    struct ah_cluster_shortage shortage;
    *c = (struct instance){0};
    draw_model(c, random);
    draw_cluster(c, random);
    bool frozen = check_random(random) % 4 == 0;
    uint64_t m = UINT64_C(1) << check_random(random) % 4;
    c->request = (struct ah_cluster_request){
        .model = c->model.body.model,
        .model_sha256 = c->sha256,
        .cluster = &c->cluster,
        .cluster_sha256 = c->sha256,
        .training = {.batch = 8,
                     .micro_batches = m,
                     .seq = 16,
                     .dtype = check_random(random) % 3 ? AH_BF16 : AH_FP32,
                     .trainable = (const char **)(uintptr_t)(frozen ? upper : everything),
                     .n_trainable = frozen ? 4 : 1},
        .tp_mode = check_random(random) % 2 ? AH_TP_SYMMETRIC : AH_TP_ASYMMETRIC,
        .effort = 1,
        .generator = "test"};
    int rc = ah_cluster_planner_plan(&c->request, &c->arena, &c->plan, &shortage, &err);
    if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN)
        return false;
    CHECK_OK(rc, err);
    return true;
}

static void end(struct instance *c)
{
    ah_document_release(&c->model);
    ah_arena_release(&c->arena);
}

/* ---- rule 1 ---- */

static void check_document(const struct instance *c)
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

static void check_memory(const struct instance *c, const struct ah_cluster_plan_stage *stage,
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

/* The programs of two stages, exchanged. */
static void check_mistaken(const struct instance *c)
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
        double update_us = 0; /* at one rate for all blocks, the slowest */
        for (size_t i = 0; i < program->n_ops; i++)
            update_us += program->ops[i].op == AH_PLAN_DEVICE_ADAM ? program->ops[i].us : 0;
        if (fabs(us - passes_us - update_us) > 1e-9 * us || update_us < stage->update_us * (1 - 1e-9))
            fail_msg("a step takes %.9g us; %.9g of passes and %.9g of update", us, passes_us, update_us);
        return;
    }
    seen->longest = fmax(seen->longest, us / told_us);
    seen->shortest = fmin(seen->shortest, us / told_us);
    seen->sum += us / told_us;
    seen->n++;
}

/* ---- all ---- */

static void check_plan(const struct instance *c, struct seen *seen)
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
            check_time(stage, program, seen);
        }
}

static void test_programs__are_what_stages_do(void **state)
{
    const char *wanted = getenv("AH_TEST_INSTANCES");
    size_t instances = wanted ? strtoul(wanted, NULL, 10) : INSTANCES;
    struct seen seen = {.shortest = INFINITY};
    uint64_t random = check_seed(2);
    (void)state;
    for (size_t i = 0; i < instances; i++) {
        static struct instance c;
        if (begin(&c, &random))
            check_plan(&c, &seen);
        end(&c);
    }
    print_message(
        "%zu clusters, %zu plans, %zu programs; blocks: %zu updated on the host, %zu streamed, %zu with "
        "weights "
        "away, %zu recomputed, %zu frozen; %zu stages share blocks; steps of stages with something away "
        "%.3f to %.3f times what stages are taken to, mean %.3f\n",
        instances, seen.plans, seen.programs, seen.away[AH_OPTIMIZER_HOST], seen.away[AH_OPTIMIZER_STREAMED],
        seen.weights, seen.again, seen.frozen, seen.shared, seen.shortest, seen.longest,
        seen.sum / (double)seen.n);
    if (wanted)
        return;
    assert_true(2 * seen.plans > instances && seen.programs > seen.plans);
    assert_true(seen.away[AH_OPTIMIZER_HOST] && seen.away[AH_OPTIMIZER_STREAMED] && seen.weights &&
                seen.again && seen.frozen && seen.shared);
}

/* Rule 3 for real sizes. */
static void check_example(const char *model, double *longest)
{
    static struct instance c;
    struct ah_document cluster;
    struct ah_cluster_shortage shortage;
    struct ah_error err = {0};
    struct seen seen = {.shortest = INFINITY};
    c = (struct instance){0};
    CHECK_OK(ah_document_load(&c.model, model, AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(ah_document_digest(&c.model, c.sha256, &err), err);
    CHECK_OK(
        ah_document_load(&cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER, &err),
        err);
    c.request = (struct ah_cluster_request){.model = c.model.body.model,
                                            .model_sha256 = c.sha256,
                                            .cluster = cluster.body.cluster,
                                            .cluster_sha256 = c.sha256,
                                            .training = {.batch = 16,
                                                         .micro_batches = 8,
                                                         .seq = 1024,
                                                         .dtype = AH_BF16,
                                                         .trainable = (const char **)(uintptr_t)everything,
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
    end(&c);
}

static void test_programs__take_as_long_as_stages_are_taken_to(void **state)
{
    static const char *const examples[] = {"examples/models/gpt-4b.json", "examples/models/llama-2-7b.json",
                                           "examples/models/llama-3-8b.json"};
    double longest = 0;
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_example(examples[i], &longest);
    print_message("programs with something away are at most %.2f %% off\n", 100 * (longest - 1));
    assert_true(longest < 1.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs__are_what_stages_do),
                                       cmocka_unit_test(test_programs__take_as_long_as_stages_are_taken_to)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
