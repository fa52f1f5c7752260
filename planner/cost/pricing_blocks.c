/* SPDX-License-Identifier: Apache-2.0
 *
 * Block times: measured times if the machine document has this program on as many threads. Otherwise, the sum over the
 * steps of a block's program, each at a measured rate:
 *
 *     product     flops x time per flop, between measured shapes
 *     attention   flops x time per flop of the best product / share
 *     the rest    bytes x time per byte of device memory
 *
 * A product or attention takes at least the time in which memory moves its operands once. A pass takes at least the
 * time to launch its ops (costs.h), if that was measured. Cache misses of later passes are not counted.
 *
 * BETWEEN SHAPES, times per flop are averaged; weights are the fourth power of the inverse distance in log m, log n,
 * log k. So a measured shape has its own rate, others have mostly the nearest shape's, and nothing is extrapolated.
 *
 * SHARES of attention on a GPU are 0.5 forward and 0.4 backward, between measured medians and maxima. FlashAttention-2
 * on an A100 (arXiv 2307.08691, section 4.1) reaches up to 73 % of the peak forward and 63 % backward on long
 * sequences. It reaches less on causal sequences of 1 to 2 thousand tokens, as in training. PyTorch's benchmark of it
 * on the same GPU (pytorch/pytorch, pull request 192799) has medians of 136 TFLOP/s forward and 79 for both passes; the
 * best products reach 265. A CPU gets the same shares: the two products of a tile run in cache but are narrow, and the
 * softmax is not hidden.
 */
#include "planner/cost/pricing_internal.h"

#include "runtime/schedule/flat.h"
#include "runtime/schedule/program.h"
#include "runtime/schedule/schedule.h"

#include <math.h>

#define ATTENTION_FORWARD_SHARE  0.5
#define ATTENTION_BACKWARD_SHARE 0.4

/* True if a product of this form was measured. If not, products of other forms are used. */
static bool has_form(const struct ah_pricing_rates *rates, enum ah_matmul_form form)
{
    for (size_t i = 0; i < rates->n_products; i++)
        if (rates->products[i].form == form)
            return true;
    return false;
}

static double product_us_per_flop(const struct ah_pricing_rates *rates, const struct ah_program_step *step)
{
    double m = log((double)step->m), n = log((double)step->n), k = log((double)step->k);
    bool same_form = has_form(rates, step->form);
    double sum = 0, weights = 0;
    for (size_t i = 0; i < rates->n_products; i++) {
        const struct ah_pricing_product *product = &rates->products[i];
        if (same_form && product->form != step->form)
            continue;
        double dm = m - product->log_m, dn = n - product->log_n, dk = k - product->log_k;
        double distance2 = dm * dm + dn * dn + dk * dk;
        if (distance2 < 1e-12)
            return product->us_per_flop;
        double weight = 1 / (distance2 * distance2);
        sum += weight * product->us_per_flop;
        weights += weight;
    }
    return sum / weights;
}

static double step_us(const struct ah_pricing_rates *rates, const struct ah_program_step *step)
{
    double memory_us = (double)step->moved_bytes * rates->device_us_per_byte;
    double us = 0;
    if (step->kind == AH_STEP_MATMUL)
        us = step->flops * product_us_per_flop(rates, step);
    else if (step->kind == AH_STEP_ATTENTION)
        us = step->flops * rates->best_us_per_flop /
             (step->backward ? ATTENTION_BACKWARD_SHARE : ATTENTION_FORWARD_SHARE);
    return us > memory_us ? us : memory_us;
}

/* Returns the number of ops that fill padding: one for each trained tensor of a size not divisible by AH_FLAT_ALIGN. */
static uint64_t padding_ops(const struct ah_job *job, const struct ah_job_group *group)
{
    const struct ah_flat flat = ah_flat_of(job->model, group->kind, group->trained);
    uint64_t ops = 0;
    for (size_t i = 0; i < flat.n; i++)
        ops += flat.tensors[i].trained && flat.tensors[i].elements % AH_FLAT_ALIGN;
    return ops;
}

static uint64_t update_ops(const struct ah_job *job, const struct ah_job_group *group)
{
    const struct ah_flat flat = ah_flat_of(job->model, group->kind, group->trained);
    struct ah_run_of_elements runs[AH_MODEL_TENSORS_MAX];
    return ah_flat_runs(&flat, runs);
}

static double pass_us(const struct ah_pricing_rates *rates, const struct ah_job *job,
                      const struct ah_job_group *group, enum ah_pass pass, enum ah_activations activations)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    size_t n = ah_program_steps(job, group, pass, activations, steps);
    bool makes_gradient = pass == AH_PASS_BACKWARD || group->kind == AH_BLOCK_HEAD;
    uint64_t ops = makes_gradient ? padding_ops(job, group) : 0;
    double us = 0;
    for (size_t i = 0; i < n; i++) {
        us += step_us(rates, &steps[i]);
        ops += steps[i].times;
    }
    return ah_costs_launched(us, ops, rates->launch_us);
}

static void estimate(const struct ah_pricing_rates *rates, const struct ah_job *job,
                     const struct ah_job_group *group, struct ah_cost_group *cost)
{
    struct ah_config configs[AH_CONFIGS_MAX];
    size_t n = ah_configs(job, group, configs);
    bool head = group->kind == AH_BLOCK_HEAD;
    cost->forward_us = pass_us(rates, job, group, AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP);
    for (size_t i = 0; i < n && group->backward && !head; i++) {
        double *us = &cost->backward_us[configs[i].activations];
        if (*us <= 0)
            *us = pass_us(rates, job, group, AH_PASS_BACKWARD, (enum ah_activations)configs[i].activations);
    }
}

static double measured_us(const struct ah_machine_block *block, int activations)
{
    for (size_t i = 0; i < block->n_backward; i++)
        if ((int)block->backward[i].activations == activations)
            return block->backward[i].us.median;
    return 0;
}

/* Copies measured times to `cost`. Returns false, and sets nothing, if a pass open to plans was not measured. */
static bool take_measured(const struct ah_machine_block *block, const struct ah_job *job,
                          const struct ah_job_group *group, struct ah_cost_group *cost)
{
    struct ah_config configs[AH_CONFIGS_MAX];
    struct ah_cost_group measured = {.forward_us = block->forward_us.median};
    size_t n = ah_configs(job, group, configs);
    bool whole = measured.forward_us > 0;
    for (size_t i = 0; i < n && group->backward && group->kind != AH_BLOCK_HEAD; i++) {
        double *us = &measured.backward_us[configs[i].activations];
        *us = measured_us(block, configs[i].activations);
        whole = whole && *us > 0;
    }
    if (whole)
        *cost = measured;
    return whole;
}

int ah_pricing_blocks(const struct ah_pricing_blocks_of *of, struct ah_cost_group *groups,
                      bool *ret_estimated, struct ah_error *err)
{
    *ret_estimated = false;
    for (size_t g = 0; g < of->job->n_groups; g++) {
        const struct ah_job_group *group = &of->job->groups[g];
        const struct ah_machine_block *block = NULL;
        char digest[AH_SHA256_HEX_MAX];
        if (of->machine->n_blocks) {
            int rc = ah_program_digest(of->job, group, digest, err);
            if (rc)
                return rc;
            block = ah_machine_find_block(of->machine, digest, of->threads);
        }
        if (!block || !take_measured(block, of->job, group, &groups[g])) {
            *ret_estimated = true;
            estimate(of->rates, of->job, group, &groups[g]);
        }
        groups[g].update_ops = update_ops(of->job, group);
    }
    return AH_OK;
}
