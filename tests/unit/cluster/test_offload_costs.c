/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares costs of offloading with hand calculations. A layer of two million bf16 parameters is on a node of 4 GPUs.
 * Each GPU has a link of 20 GB/s and a quarter of the host memory's 100 GB/s.
 */
#include "planner/cluster/offload_costs.h"

#include "tests/support/check.h"

enum { PARAMETERS = 2000000 };

#define GIB (UINT64_C(1) << 30)

static const struct ah_cluster_node node = {.gpus = 4,
                                            .host_memory_bytes = 64 * GIB,
                                            .host_memory_bytes_per_s = 100e9,
                                            .host_link_bytes_per_s = 20e9};

/* Returns a job with weights and micro-batch gradients in bf16, and sums, master and two moments in fp32. */
static struct ah_job bf16_job(void)
{
    return (struct ah_job){
        .training = {.dtype = AH_BF16}, .weight_bytes = 2, .gradient_bytes = 2, .state_bytes = 12};
}

struct priced {
    struct ah_problem_away away[AH_PROBLEM_AWAYS];
};

/* Prices a fully trained block on `tp` GPUs. Its update takes 1 us on the device. */
static struct priced price(const struct ah_job *job, unsigned without, uint64_t tp, enum ah_block_kind kind)
{
    const struct ah_offload_terms terms = {.job = job,
                                           .host = ah_offload_share(&node, node.gpus),
                                           .tp = tp,
                                           .sum_bytes = 4,
                                           .held_bytes = 4,
                                           .sums = true,
                                           .without = without};
    const struct ah_job_group group = {
        .kind = kind, .flat_elements = PARAMETERS, .trained_elements = PARAMETERS};
    const struct ah_problem_block block = {.update_us = 1, .state_bytes = 18 * PARAMETERS / tp};
    struct priced priced;
    ah_offload_price(&terms, &group, 0, &block, priced.away);
    return priced;
}

/* Returns the time of this traffic: 1 / 20 ns a byte over the link, 1 / 25 ns through the GPU's part of host memory. */
static double us_of(double link_bytes, double memory_bytes)
{
    double link = link_bytes / 20, memory = memory_bytes / 25;
    return PARAMETERS * 1e-3 * (link > memory ? link : memory);
}

TEST(offload_costs, shares_of_a_gpu)
{
    struct ah_offload_host host = ah_offload_share(&node, node.gpus);
    check_near(host.link_bytes_per_s, 20e9, 1e-12);
    check_near(host.memory_bytes_per_s, 25e9, 1e-12);
    assert_int_equal(host.memory_bytes, 15 * GIB); /* a sixteenth of the share is left free */
    assert_int_equal(ah_offload_share(&node, 2).memory_bytes, 30 * GIB); /* as if the other two GPUs idle */
    struct ah_cluster_node other = node;
    other.host_memory_bytes = 512 * GIB;
    assert_int_equal(ah_offload_share(&other, other.gpus).memory_bytes, 126 * GIB); /* 8 GiB are left free */
    other.host_link_bytes_per_s = 0;
    assert_int_equal(ah_offload_share(&other, other.gpus).memory_bytes, 0);
}

TEST(offload_costs, states)
{
    struct ah_job job = bf16_job();
    struct priced block = price(&job, 0, 1, AH_BLOCK_LAYER);
    const struct ah_problem_away *away = &block.away[AH_OFFLOAD_STATES];
    assert_int_equal(away->optimizer, AH_OPTIMIZER_STREAMED); /* 24 bytes through memory, not 36 */
    assert_int_equal(away->weights, AH_WEIGHTS_DEVICE);
    check_near(away->update_us, us_of(12, 24), 1e-12);
    assert_int_equal(away->state_bytes, 6 * PARAMETERS);
    assert_int_equal(away->host_bytes, 12 * PARAMETERS);
    assert_true(away->forward_us <= 0 && away->backward_us <= 0 && !away->staging_bytes);
    block = price(&job, AH_WITHOUT_STREAMED, 2, AH_BLOCK_LAYER);
    assert_int_equal(away->optimizer, AH_OPTIMIZER_HOST);
    check_near(away->update_us, us_of(4, 30 + 6) / 2, 1e-12);
    assert_int_equal(away->host_bytes, 6 * PARAMETERS);
    assert_int_equal(away->state_bytes, 3 * PARAMETERS);
}

TEST(offload_costs, weights)
{
    struct ah_job job = bf16_job();
    struct priced block = price(&job, 0, 1, AH_BLOCK_LAYER);
    const struct ah_problem_away *away = &block.away[AH_OFFLOAD_WEIGHTS];
    assert_int_equal(away->weights, AH_WEIGHTS_HOST);
    assert_int_equal(away->optimizer, AH_OPTIMIZER_HOST);
    check_near(away->forward_us, us_of(2, 2), 1e-12);
    check_near(away->backward_us, us_of(2, 2 + 4 + 8), 1e-12);
    check_near(away->update_us, us_of(0, 30), 1e-12);
    assert_int_equal(away->state_bytes, 0);
    assert_int_equal(away->host_bytes, 18 * PARAMETERS);
    assert_int_equal(away->staging_bytes, 8 * PARAMETERS);
}

/* In fp32 the weight is also the master, so a block updated on the host has its weights there. */
TEST(offload_costs, fp32)
{
    struct ah_job job = {
        .training = {.dtype = AH_FP32}, .weight_bytes = 4, .gradient_bytes = 4, .state_bytes = 8};
    struct priced block = price(&job, AH_WITHOUT_STREAMED, 1, AH_BLOCK_LAYER);
    const struct ah_problem_away *away = &block.away[AH_OFFLOAD_STATES];
    check_near(away->update_us, us_of(4, 16 + 4 + 8 + 8), 1e-12);
    assert_int_equal(away->host_bytes, 12 * PARAMETERS);
    block = price(&job, 0, 1, AH_BLOCK_LAYER);
    assert_int_equal(away->optimizer, AH_OPTIMIZER_STREAMED);
    assert_int_equal(away->host_bytes, 8 * PARAMETERS);
}

TEST(offload_costs, what_cannot_be)
{
    struct ah_job job = bf16_job();
    struct priced head = price(&job, 0, 1, AH_BLOCK_HEAD);
    assert_int_equal(head.away[AH_OFFLOAD_WEIGHTS].weights, AH_WEIGHTS_DEVICE);
    assert_int_equal(head.away[AH_OFFLOAD_WEIGHTS].state_bytes, 6 * PARAMETERS);
    struct priced kept = price(&job, AH_WITHOUT_HOST_WEIGHTS, 1, AH_BLOCK_LAYER);
    assert_int_equal(kept.away[AH_OFFLOAD_WEIGHTS].weights, AH_WEIGHTS_DEVICE);
    kept = price(&job, AH_WITHOUT_HOST_OPTIMIZER | AH_WITHOUT_STREAMED, 1, AH_BLOCK_LAYER);
    for (int i = 0; i < AH_PROBLEM_AWAYS; i++) {
        assert_int_equal(kept.away[i].optimizer, AH_OPTIMIZER_DEVICE);
        assert_int_equal(kept.away[i].state_bytes, 18 * PARAMETERS);
        check_near(kept.away[i].update_us, 1, 1e-12);
    }
}

TEST(offload_costs, techniques)
{
    const uint32_t keep = UINT32_C(1) << AH_TECHNIQUE_KEEP, streamed = UINT32_C(1) << AH_TECHNIQUE_STREAMED;
    const uint32_t weights = UINT32_C(1) << AH_TECHNIQUE_HOST_WEIGHTS;
    assert_int_equal(ah_offload_without(keep | streamed), AH_WITHOUT_STREAMED);
    assert_int_equal(ah_offload_without(weights | UINT32_C(1) << AH_TECHNIQUE_HOST_OPTIMIZER),
                     AH_WITHOUT_HOST_WEIGHTS | AH_WITHOUT_HOST_OPTIMIZER);
}
