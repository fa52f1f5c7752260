/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans for random clusters, models and trainings.
 *
 *     static struct planned c;
 *     planned_draw(&c, &random);          // fills c.request, which may be changed
 *     if (planned_plan(&c))
 *         ... c.plan ...
 *     planned_release(&c);
 */
#ifndef AH_TESTS_PROPERTY_CLUSTER_PLANNED_H
#define AH_TESTS_PROPERTY_CLUSTER_PLANNED_H

#include "planner/cluster/cluster_planner.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>

enum { PLANNED_NODES = 4, PLANNED_PACKED = 1 << 20 };

static const char *const planned_models[] = {
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
static const char *const planned_everything[] = {"*"}, *const planned_upper[] = {"*", "!embedding.*",
                                                                                 "!layer.0.*", "!layer.1.*"};
static const char *const planned_ids[PLANNED_NODES] = {"n0", "n1", "n2", "n3"};

struct planned {
    struct ah_document model;
    char sha256[AH_DOCUMENT_DIGEST_MAX];
    struct ah_cluster_gpu gpus[2];
    struct ah_cluster_node nodes[PLANNED_NODES];
    struct ah_cluster cluster;
    struct ah_cluster_request request;
    struct ah_arena arena;
    struct ah_cluster_plan plan;
};

static inline void planned_draw_model(struct planned *c, uint64_t *random)
{
    char text[1024];
    struct ah_error err = {0};
    int n = snprintf(text, sizeof text,
                     "{\"kind\": \"model\", \"format_version\": \"1.0\", \"generator\": \"test\", \"name\": "
                     "\"small\", %s}",
                     planned_models[check_random(random) % (sizeof planned_models / sizeof *planned_models)]);
    CHECK_OK(ah_document_parse(&c->model, "model", text, (size_t)n, AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(ah_document_digest(&c->model, c->sha256, &err), err);
}

static inline double planned_some(uint64_t *random, double least, double most)
{
    return least * pow(most / least, check_uniform(random));
}

/* Turns the devices into CPUs. Their memory has room for what their ops pack. */
static inline void planned_of_cpus(struct planned *c)
{
    c->cluster.device = AH_DEVICE_CPU;
    for (size_t g = 0; g < 2; g++) {
        c->gpus[g].compute_threads = c->gpus[g].host_threads = 1;
        c->gpus[g].memory_bytes += PLANNED_PACKED;
    }
}

static inline void planned_draw_cluster(struct planned *c, uint64_t *random)
{
    size_t n = 1 + check_random(random) % PLANNED_NODES;
    bool hosts = check_random(random) % 3 > 0;
    for (size_t g = 0; g < 2; g++)
        c->gpus[g] = (struct ah_cluster_gpu){.name = g ? "b" : "a",
                                             .memory_bytes = (uint64_t)planned_some(random, 3e5, 3e6),
                                             .reserved_bytes = 1000,
                                             .memory_bytes_per_s = planned_some(random, 1e9, 1e10),
                                             .flops_per_s = planned_some(random, 1e10, 1e11)};
    for (size_t i = 0; i < n; i++)
        c->nodes[i] =
            (struct ah_cluster_node){.id = planned_ids[i],
                                     .gpu = check_random(random) % 2 ? "a" : "b",
                                     .gpus = 1 + check_random(random) % 4,
                                     .intra_bytes_per_s = 1e9,
                                     .nic_bytes_per_s = planned_some(random, 1e7, 1e9),
                                     .host_memory_bytes = (uint64_t)planned_some(random, 1e7, 1e8),
                                     .host_memory_bytes_per_s = hosts ? planned_some(random, 1e8, 1e10) : 0,
                                     .host_link_bytes_per_s = hosts ? planned_some(random, 1e8, 1e9) : 0};
    c->cluster = (struct ah_cluster){.generator = "test",
                                     .name = "random",
                                     .device = AH_DEVICE_CUDA,
                                     .gpus = c->gpus,
                                     .n_gpus = 2,
                                     .nodes = c->nodes,
                                     .n_nodes = n};
    if (c->gpus[0].memory_bytes % 3 == 0)
        planned_of_cpus(c);
}

static inline void planned_draw(struct planned *c, uint64_t *random)
{
    *c = (struct planned){0};
    planned_draw_model(c, random);
    planned_draw_cluster(c, random);
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
                     .clip = c->gpus[1].memory_bytes % 2 ? 1 : 0,
                     .trainable = (const char **)(uintptr_t)(frozen ? planned_upper : planned_everything),
                     .n_trainable = frozen ? 4 : 1},
        .tp_mode = check_random(random) % 2 ? AH_TP_SYMMETRIC : AH_TP_ASYMMETRIC,
        .effort = 1,
        .generator = "test"};
}

/* Plans the drawn request. Returns false if no plan fits. */
static inline bool planned_plan(struct planned *c)
{
    struct ah_error err = {0};
    struct ah_cluster_shortage shortage;
    int rc = ah_cluster_planner_plan(&c->request, &c->arena, &c->plan, &shortage, &err);
    if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN)
        return false;
    CHECK_OK(rc, err);
    return true;
}

static inline void planned_release(struct planned *c)
{
    ah_document_release(&c->model);
    ah_arena_release(&c->arena);
}

#endif
