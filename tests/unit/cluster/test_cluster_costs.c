/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares costs of Llama-2 7B with hand calculations: bytes per parameter, flops per token, all-reduces of a layer.
 */
#include "planner/cluster/cluster_costs.h"

#include "planner/cluster/offload_costs.h"
#include "tests/support/documents.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEQ = 4096, LAYERS = 32 };

#define DIGEST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

struct costs {
    struct ah_document model, cluster;
    struct ah_arena arena;
    struct ah_cluster_problem problem;
    bool estimated;
    enum ah_dtype dtype;
};

static const char *everything[] = {"*"};

/* Builds the problem from the documents, with `tp` GPUs per unit on every node. */
static void price(struct costs *c, uint64_t tp)
{
    struct ah_error err = {0};
    const uint64_t degrees[3] = {tp, tp, tp};
    const struct ah_cluster_costs_input input = {.model = c->model.body.model,
                                                 .model_sha256 = DIGEST,
                                                 .cluster = c->cluster.body.cluster,
                                                 .training = {.batch = 8,
                                                              .micro_batches = 8,
                                                              .seq = SEQ,
                                                              .dtype = c->dtype,
                                                              .trainable = everything,
                                                              .n_trainable = 1},
                                                 .tp = degrees};
    if (input.training.seq > c->model.body.model->max_positions)
        c->model.body.model->max_positions = SEQ;
    CHECK_OK(ah_cluster_costs_build(&input, &c->arena, &c->problem, &c->estimated, &err), err);
}

static void build(struct costs *c, const char *model, uint64_t tp)
{
    *c = (struct costs){.dtype = AH_BF16};
    load_example(&c->model, AH_DOCUMENT_MODEL, model);
    load_example(&c->cluster, AH_DOCUMENT_CLUSTER, "cluster-a");
    c->cluster.body.cluster->gpus[2].memory_bytes_per_s = 0; /* only products and transfers cost time */
    price(c, tp);
}

static void release(struct costs *c)
{
    ah_arena_release(&c->arena);
    ah_document_release(&c->model);
    ah_document_release(&c->cluster);
}

/* Returns the kind of nodes 2 to 4, whose GPUs are 4090s. */
static const struct ah_problem_kind *rtx4090(const struct costs *c)
{
    return ah_problem_kind_of(&c->problem, 2);
}

TEST(cluster_costs, bytes_a_parameter)
{
    for (uint64_t tp = 1; tp <= 8; tp *= 2) {
        struct costs c;
        build(&c, "llama-2-7b", tp);
        double parameters = (double)ah_model_parameters(c.model.body.model), states = 0, gradients = 0;
        assert_int_equal(c.problem.n_blocks, LAYERS + 2);
        assert_int_equal(c.problem.n_kinds, 3);
        assert_int_equal(c.problem.n_classes, 5);
        assert_int_equal(c.problem.classes[0].units, 8 / tp);
        for (size_t b = 0; b < c.problem.n_blocks; b++) {
            states += (double)rtx4090(&c)->blocks[b].state_bytes;
            gradients += (double)c.problem.gradient_bytes[b];
        }
        check_near(states * (double)tp, 18 * parameters, 1e-4);
        check_near(gradients, 4 * parameters, 1e-4);
        assert_int_equal(c.problem.boundary_bytes, SEQ * 4096 * 2);
        assert_int_equal(c.problem.tied_bytes, 0);
        assert_true(c.estimated);
        release(&c);
    }
}

TEST(cluster_costs, flops_and_all_reduces)
{
    for (uint64_t tp = 1; tp <= 8; tp *= 8) {
        struct costs c;
        build(&c, "llama-2-7b", tp);
        const struct ah_problem_block *layer = &rtx4090(&c)->blocks[1];
        const double width = 4096, mlp = 11008, t = (double)tp;
        double product_flops = 2 * SEQ * (4 * width * width + 3 * width * mlp);
        double attention_flops = 2 * 2 * SEQ * (SEQ + 1) / 2 * width; /* only of visible pairs */
        double rate = 0.5 * 165.2e12 * t;
        double reduce_us = 2 * (t - 1) / t * 1e6 * (SEQ * width * 2) / 2e9 + 2 * (t - 1) * 10;
        double forward_us = 1e6 * (product_flops + attention_flops / 0.5) / rate + 2 * reduce_us;
        double backward_us = 1e6 * (2 * product_flops + 2.5 * attention_flops / 0.4) / rate + 2 * reduce_us;
        check_near(layer->forward_us, forward_us, 1e-3);
        check_near(layer->backward_us[AH_ACTIVATIONS_KEEP], backward_us, 1e-3);
        /* `recompute` repeats the layer's forward except its last product. */
        double again_us = layer->backward_us[AH_ACTIVATIONS_RECOMPUTE] - backward_us;
        assert_true(again_us > 0.5 * forward_us && again_us <= forward_us * (1 + 1e-9));
        assert_true(layer->saved_bytes[AH_ACTIVATIONS_RECOMPUTE] >= SEQ * 4096 * 2 / tp);
        assert_true(layer->saved_bytes[AH_ACTIVATIONS_KEEP] > layer->saved_bytes[AH_ACTIVATIONS_SELECTIVE]);
        release(&c);
    }
}

/* fp32 training is priced with the rate of fp32 products if the cluster has it. In that case no bf16 rate is needed. */
TEST(cluster_costs, rates_are_of_what_is_trained)
{
    struct costs c;
    struct ah_error err = {0};
    build(&c, "llama-2-7b", 1);
    struct ah_cluster *cluster = c.cluster.body.cluster;
    const double bf16_us = rtx4090(&c)->blocks[1].forward_us;
    c.dtype = AH_FP32;
    price(&c, 1);
    check_near(rtx4090(&c)->blocks[1].forward_us, bf16_us, 1e-12);
    for (size_t g = 0; g < cluster->n_gpus; g++) {
        cluster->gpus[g].fp32_flops_per_s = cluster->gpus[g].flops_per_s / 4;
        cluster->gpus[g].flops_per_s = 0;
    }
    price(&c, 1);
    check_near(rtx4090(&c)->blocks[1].forward_us, 4 * bf16_us, 1e-12);
    const struct ah_cluster_costs_input input = {
        .model = c.model.body.model,
        .cluster = cluster,
        .training = {.batch = 1, .micro_batches = 1, .seq = 1, .dtype = AH_BF16}};
    assert_int_equal(ah_cluster_costs_build(&input, &c.arena, &c.problem, &c.estimated, &err), AH_E_USAGE);
    assert_non_null(strstr(err.text, "has no bf16 products; plan with '--dtype fp32'"));
    release(&c);
}

TEST(cluster_costs, tied_table_is_summed_once)
{
    struct costs c;
    build(&c, "gpt2-124m", 1);
    const struct ah_model *model = c.model.body.model;
    uint64_t gradients = c.problem.tied_bytes;
    for (size_t b = 0; b < c.problem.n_blocks; b++)
        gradients += c.problem.gradient_bytes[b];
    assert_int_equal(c.problem.tied_bytes, 4 * model->vocabulary * model->width);
    check_near((double)gradients, 4 * (double)ah_model_parameters(model), 1e-3);
    /* The head keeps a copy of the tied table. */
    assert_true(rtx4090(&c)->blocks[c.problem.n_blocks - 1].state_bytes >
                18 * model->vocabulary * model->width);
    release(&c);
}

/* On a host of 8 GPUs, u units of t GPUs get ah_offload_share() of u t GPUs, less the memory for rings of tiles. */
TEST(cluster_costs, hosts_of_those_that_work)
{
    for (uint64_t tp = 1; tp <= 4; tp *= 2) {
        struct costs c;
        build(&c, "llama-2-7b", tp);
        const struct ah_problem_kind *kind = rtx4090(&c);
        const struct ah_cluster_node *node = &c.cluster.body.cluster->nodes[2];
        assert_int_equal(kind->n_hosts, node->gpus / tp);
        for (size_t u = 1; u <= kind->n_hosts; u++) {
            const struct ah_offload_host share = ah_offload_share(node, u * tp);
            const struct ah_problem_host *host = &kind->hosts[u - 1];
            const struct ah_problem_away *layer = &host->away[1 * AH_PROBLEM_AWAYS + AH_OFFLOAD_WEIGHTS];
            double parameters = (double)layer->host_bytes / 18;
            assert_int_equal(share.memory_bytes - host->bytes,
                             AH_OFFLOAD_HOST_TILES * (uint64_t)AH_OFFLOAD_TILE_ELEMENTS_MAX * (4 + 2));
            check_near(layer->forward_us,
                       1e6 * 2 * parameters / fmin(share.link_bytes_per_s, share.memory_bytes_per_s), 1e-6);
        }
        release(&c);
    }
}

/* Nodes that differ only in their number of GPUs are of one kind, with as many host shares as the largest has GPUs. */
TEST(cluster_costs, a_kind_is_that_of_all_alike_nodes)
{
    struct costs c;
    build(&c, "llama-2-7b", 1);
    c.cluster.body.cluster->nodes[2].gpus = 3;
    c.cluster.body.cluster->nodes[4].gpus = 12;
    price(&c, 1);
    assert_int_equal(c.problem.n_kinds, 3);
    assert_int_equal(rtx4090(&c)->n_hosts, 12);
    assert_int_equal(c.problem.classes[2].units, 3);
    assert_int_equal(c.problem.classes[4].units, 12);
    release(&c);
}

TEST(cluster_costs, divides)
{
    const struct ah_model model = {.heads = 32, .kv_heads = 4, .mlp_width = 11008};
    assert_true(ah_cluster_costs_divides(&model, 1) && ah_cluster_costs_divides(&model, 4));
    assert_false(ah_cluster_costs_divides(&model, 8));
}
