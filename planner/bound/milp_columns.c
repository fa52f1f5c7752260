/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns: the configs that the blocks of each class may have, and the time and memory needed by one such block.
 *
 * The pieces follow the rules of docs/planning.md and equal those of the schedule of the same config (tests compare
 * them). A piece that depends on a knob (tiles, how far ahead weights are fetched) is the least over all knobs.
 *
 * KEPT. If the fetch for a block's next use would begin no later than its last use, the weights stay on the device, and
 * one fetch serves both uses. `fetch_ahead` decides how near to each other the uses must be. Compute positions are at
 * least as far apart as if there were only forward and backward ops. So a class keeps at most the blocks near enough by
 * that count. They have separate columns, with fewer fetches and, if that is certain, with memory at the head.
 */
#include "planner/bound/milp_internal.h"
#include "runtime/schedule/fold.h"

#include <string.h>

enum { BYTES_MOST_BITS = 50 };

static int64_t bytes(uint64_t n)
{
    uint64_t most = UINT64_C(1) << BYTES_MOST_BITS;
    return (int64_t)(n < most ? n : most);
}

/* ---- fetches ---- */

/* Returns the index of a forward or backward among all forward and backward ops of an iteration. */
static uint64_t use_place(const struct ah_milp *milp, size_t block, bool backward, uint64_t micro_batch)
{
    uint64_t n = milp->job->n_blocks, m = milp->micro_batches;
    uint64_t backwards = n - 1 - milp->job->lowest;
    uint64_t place = backward ? n + (n - 2 - block) : block;
    return milp->by_block ? place * m + micro_batch : micro_batch * (n + backwards) + place;
}

/* Returns the number of fetches of a block's weights if uses at most `near` ops apart share a fetch. */
static uint64_t fetches(const struct ah_milp *milp, size_t block, uint64_t near)
{
    /* if ranks share states, the embedding's table is fetched like a layer, but its backward does not read it */
    bool backward = block && ah_job_block(milp->job, block)->backward && block + 1 < milp->job->n_blocks;
    uint64_t count = 1, last = use_place(milp, block, false, 0);
    uint64_t f = 1, b = backward ? 0 : milp->micro_batches;
    while (f < milp->micro_batches || b < milp->micro_batches) {
        uint64_t forward_at = f < milp->micro_batches ? use_place(milp, block, false, f) : UINT64_MAX;
        uint64_t backward_at = b < milp->micro_batches ? use_place(milp, block, true, b) : UINT64_MAX;
        uint64_t use = forward_at < backward_at ? forward_at : backward_at;
        count += use - last > near;
        last = use;
        if (forward_at < backward_at)
            f++;
        else
            b++;
    }
    return count;
}

static uint64_t nearest(const struct ah_milp *milp)
{
    return milp->input->most_fetch_ahead ? (uint64_t)milp->input->most_fetch_ahead + 1 : UINT64_MAX;
}

/* Returns the fewest fetches of any block in the class. `ret_keepable`: number of its blocks that can save fetches. */
static uint64_t class_fetches(const struct ah_milp *milp, size_t class, bool kept, uint64_t *ret_keepable)
{
    uint64_t least = UINT64_MAX, keepable = 0;
    for (size_t block = 0; block < milp->job->n_blocks; block++) {
        if (milp->class_of[block] != class)
            continue;
        uint64_t usual = fetches(milp, block, 1), near = fetches(milp, block, nearest(milp));
        uint64_t count = kept ? near : usual;
        least = count < least ? count : least;
        keepable += near < usual;
    }
    *ret_keepable = keepable;
    return least;
}

/* ---- time ---- */

static double copy_us(const struct ah_milp *milp, bool up, uint64_t elements, uint64_t element_bytes)
{
    const struct ah_costs *costs = milp->costs;
    uint64_t tile = milp->input->most_tile_elements;
    uint64_t tiles = tile && elements ? (elements + tile - 1) / tile : 1;
    double latency_us = up ? costs->h2d_latency_us : costs->d2h_latency_us;
    double us_per_byte = up ? costs->h2d_us_per_byte : costs->d2h_us_per_byte;
    return (double)tiles * latency_us + (double)(elements * element_bytes) * us_per_byte;
}

static bool sums_on(const struct ah_milp *milp, const struct ah_config *config, enum ah_accumulator where)
{
    return (milp->micro_batches > 1 || ah_milp_shares(milp)) && config->accumulator == where;
}

/* Returns the time of gathering a vector of which each rank has `elements`. */
static double gather_us(const struct ah_milp *milp, uint64_t elements)
{
    const struct ah_costs *costs = milp->costs;
    const uint64_t tile = milp->input->most_tile_elements, others = ah_job_shards(milp->job) - 1;
    const uint64_t tiles = tile && elements ? (elements + tile - 1) / tile : 1;
    return (double)tiles * costs->net_latency_us +
           (double)(others * elements * milp->job->weight_bytes) * costs->net_us_per_byte;
}

/* Returns the time of scattering one micro-batch's gradient and adding what arrives. */
static double scatter_us(const struct ah_milp *milp, const struct ah_job_group *group, bool squares)
{
    const struct ah_costs *costs = milp->costs;
    const uint64_t shards = ah_job_shards(milp->job);
    return costs->net_latency_us +
           (double)((shards - 1) * group->own_trained_elements * milp->job->gradient_bytes) *
               costs->net_us_per_byte +
           (double)group->own_trained_parameters *
               ((double)shards * costs->device_accumulate_us + (squares ? costs->device_squares_us : 0));
}

/* Returns the cost of adding group sums to the total, without launches. Unit: the cost of adding one gradient. */
static double folds(const struct ah_milp *milp)
{
    return (double)ah_folds_separate(&milp->job->training) * ah_fold_cost(milp->job->gradient_bytes);
}

/* Returns the launch time of sums and squares in all micro-batches; the squares follow the last sum. */
static double gradient_launches_us(const struct ah_milp *milp, double trained)
{
    const struct ah_costs *costs = milp->costs;
    bool adds = milp->micro_batches > 1;
    double sum_us = adds ? costs->device_accumulate_us * trained : 0;
    double last_us = milp->clip ? sum_us + costs->device_squares_us * trained : sum_us;
    return (double)(milp->micro_batches - 1) * (ah_costs_launched(sum_us, adds, costs->launch_us) - sum_us) +
           ah_costs_launched(last_us, (uint64_t)adds + milp->clip, costs->launch_us) - last_us;
}

static void compute_pieces(const struct ah_milp *milp, const struct ah_job_group *group,
                           struct ah_milp_column *column)
{
    struct ah_milp_pieces *p = &column->pieces;
    const struct ah_config *config = &column->choice;
    const struct ah_cost_group *cost = &milp->costs->groups[milp->classes[column->of_class].group];
    double trained = (double)group->trained_parameters, m = (double)milp->micro_batches;
    bool on_device = config->optimizer == AH_OPTIMIZER_DEVICE || config->optimizer == AH_OPTIMIZER_STREAMED;
    p->forward_us = cost->forward_us;
    if (group->backward && group->kind != AH_BLOCK_HEAD)
        p->backward_us = cost->backward_us[config->activations];
    if (!sums_on(milp, config, AH_ACCUMULATOR_HOST) && !ah_milp_shares(milp)) {
        if (milp->micro_batches > 1)
            p->gradient_us += (m + folds(milp)) * milp->costs->device_accumulate_us * trained;
        if (milp->clip)
            p->gradient_us += milp->costs->device_squares_us * trained;
        if (group->trained_elements)
            p->gradient_us += gradient_launches_us(milp, trained);
    }
    if (on_device)
        p->update_us = ah_costs_update_us(milp->costs, milp->job, milp->classes[column->of_class].group);
    p->lane_us[AH_PLAN_LANE_COMPUTE] = m * (p->forward_us + p->backward_us) + p->gradient_us + p->update_us;
}

/* Adds the fetches of weights on the host: one for every use. The first fetch gets the updated weights. */
static void fetch_pieces(const struct ah_milp *milp, const struct ah_job_group *group,
                         struct ah_milp_column *column)
{
    struct ah_milp_pieces *p = &column->pieces;
    double m = (double)milp->micro_batches, once_us = 0, rows_us = 0;
    bool trained = group->trained_elements != 0;
    if (column->choice.weights != AH_WEIGHTS_HOST || ah_milp_shares(milp))
        return;
    if (group->kind == AH_BLOCK_EMBEDDING) {
        once_us = copy_us(milp, true, 1, group->gathered_bytes);
        rows_us = (double)group->gathered_bytes * milp->costs->host_us_per_byte;
        p->lane_us[AH_PLAN_LANE_H2D] += m * once_us;
        if (milp->job->model->tied)
            p->lane_us[AH_PLAN_LANE_H2D] +=
                copy_us(milp, true, group->flat_elements, milp->job->weight_bytes);
        p->lane_us[AH_PLAN_LANE_HOST] += m * rows_us;
    } else {
        uint64_t keepable;
        uint64_t count = class_fetches(milp, column->of_class, column->kept, &keepable);
        once_us = copy_us(milp, true, group->flat_elements, milp->job->weight_bytes);
        p->lane_us[AH_PLAN_LANE_H2D] += (double)count * once_us;
    }
    p->late_us[AH_PLAN_LANE_H2D] += trained ? once_us : 0;
    p->late_us[AH_PLAN_LANE_HOST] += trained ? rows_us : 0;
}

/* Adds what ranks that share states send each other, and the fetches of a rank's own part. */
static void shared_pieces(const struct ah_milp *milp, const struct ah_job_group *group,
                          struct ah_milp_column *column)
{
    struct ah_milp_pieces *p = &column->pieces;
    const bool trained = group->trained_elements != 0, device = column->choice.weights == AH_WEIGHTS_DEVICE;
    const bool table =
        group->kind == AH_BLOCK_EMBEDDING && milp->job->model->tied; /* the head reads it, too */
    const double last_us = scatter_us(milp, group, milp->clip);
    uint64_t keepable,
        count = device ? trained : class_fetches(milp, column->of_class, column->kept, &keepable);
    const double once_us = gather_us(milp, device ? group->own_trained_elements : group->own_flat_elements);
    if (!ah_milp_shares(milp))
        return;
    count += table && !device;
    p->lane_us[AH_PLAN_LANE_NET] += (double)count * once_us;
    p->late_gather_us = trained ? once_us : 0;
    p->late_us[AH_PLAN_LANE_NET] += p->late_gather_us;
    if (trained) {
        p->lane_us[AH_PLAN_LANE_NET] +=
            (double)(milp->micro_batches - 1) * scatter_us(milp, group, false) + last_us;
        p->late_us[AH_PLAN_LANE_NET] += last_us;
    }
    if (column->choice.weights != AH_WEIGHTS_HOST)
        return;
    const double fetch_us = copy_us(milp, true, group->own_flat_elements, milp->job->weight_bytes);
    p->lane_us[AH_PLAN_LANE_H2D] += (double)count * fetch_us;
    p->late_us[AH_PLAN_LANE_H2D] += trained ? fetch_us : 0;
}

static void host_update_pieces(const struct ah_milp *milp, const struct ah_job_group *group,
                               struct ah_milp_column *column)
{
    struct ah_milp_pieces *p = &column->pieces;
    double trained = (double)group->own_trained_parameters, m = (double)milp->micro_batches;
    bool host_sums = sums_on(milp, &column->choice, AH_ACCUMULATOR_HOST);
    bool device_sums = sums_on(milp, &column->choice, AH_ACCUMULATOR_DEVICE);
    double send_us = copy_us(milp, false, group->own_trained_elements,
                             device_sums ? sizeof(float) : milp->job->gradient_bytes);
    double adam_us = milp->costs->host_adam_us * trained;
    p->late_us[AH_PLAN_LANE_HOST] += adam_us;
    p->late_us[AH_PLAN_LANE_D2H] += send_us;
    p->lane_us[AH_PLAN_LANE_HOST] += adam_us;
    p->lane_us[AH_PLAN_LANE_D2H] += host_sums ? m * send_us : send_us;
    if (host_sums) {
        double squares_us = milp->clip ? milp->costs->host_squares_us : 0;
        p->lane_us[AH_PLAN_LANE_HOST] +=
            ((m + folds(milp)) * milp->costs->host_accumulate_us + squares_us) * trained;
    }
    if (column->choice.weights != AH_WEIGHTS_HOST) {
        double upload_us = copy_us(milp, true, group->own_trained_elements, milp->job->weight_bytes);
        p->late_us[AH_PLAN_LANE_H2D] += upload_us;
        p->lane_us[AH_PLAN_LANE_H2D] += upload_us;
    }
}

static void streamed_pieces(const struct ah_milp *milp, const struct ah_job_group *group,
                            struct ah_milp_column *column)
{
    struct ah_milp_pieces *p = &column->pieces;
    const struct ah_job *job = milp->job;
    bool host_weights = column->choice.weights == AH_WEIGHTS_HOST;
    uint64_t weight_out = host_weights ? job->weight_bytes : 0;
    uint64_t weight_in = host_weights && job->training.dtype == AH_FP32 ? job->weight_bytes : 0;
    p->states_in_us = copy_us(milp, true, group->own_trained_elements, job->state_bytes + weight_in);
    p->lane_us[AH_PLAN_LANE_H2D] += p->states_in_us;
    p->lane_us[AH_PLAN_LANE_D2H] +=
        copy_us(milp, false, group->own_trained_elements, job->state_bytes + weight_out);
}

/* ---- memory ---- */

static void device_memory(const struct ah_milp *milp, const struct ah_job_group *group,
                          struct ah_milp_column *column)
{
    struct ah_milp_pieces *p = &column->pieces;
    const struct ah_config *config = &column->choice;
    const struct ah_job *job = milp->job;
    uint64_t together = milp->by_block ? milp->micro_batches : 1;
    uint64_t weights = group->flat_elements * job->weight_bytes;
    bool away = config->weights != AH_WEIGHTS_DEVICE;
    bool device_sums = sums_on(milp, config, AH_ACCUMULATOR_DEVICE);
    bool has_backward = group->backward && group->kind != AH_BLOCK_HEAD;
    p->stays = bytes(!away                                    ? weights
                     : config->weights == AH_WEIGHTS_GATHERED ? group->own_flat_elements * job->weight_bytes
                                                              : 0);
    if (config->optimizer == AH_OPTIMIZER_DEVICE)
        p->stays += bytes(group->own_trained_elements * job->state_bytes);
    if (away && group->kind != AH_BLOCK_EMBEDDING) {
        p->fetched = bytes(weights);
        p->between =
            column->kept && has_backward && (milp->micro_batches == 1 || milp->by_block) ? p->fetched : 0;
    }
    if (away && group->kind == AH_BLOCK_EMBEDDING && job->model->tied)
        p->table = bytes(weights);
    p->part = bytes(group->trained_elements * job->gradient_bytes);
    p->sum = device_sums ? bytes(group->own_trained_elements * sizeof(float)) : 0;
    p->gradient = p->part + p->sum;
    p->table_gradient = p->gradient;
    if (milp->clip && config->optimizer != AH_OPTIMIZER_HOST)
        p->waits = device_sums ? p->sum : p->part;
    if (ah_milp_shares(milp)) {
        p->gradient += bytes((ah_job_shards(job) - 1) * group->own_trained_elements * job->gradient_bytes);
        p->sum = milp->micro_batches > 1 ? p->sum : 0; /* the only micro-batch's sum begins at its gradient */
        p->table_gradient = p->part + (milp->by_block ? 0 : p->sum);
    }
    p->saved = has_backward ? bytes(group->saved_bytes[config->activations] * together) : 0;
    p->work_forward = bytes(group->forward_work_bytes[config->activations]);
    p->work_backward = has_backward ? bytes(group->backward_work_bytes[config->activations]) : 0;
}

static void host_memory(const struct ah_milp *milp, const struct ah_job_group *group,
                        struct ah_milp_column *column)
{
    const struct ah_config *config = &column->choice;
    const struct ah_job *job = milp->job;
    bool host_weights = config->weights == AH_WEIGHTS_HOST;
    bool host_sums = sums_on(milp, config, AH_ACCUMULATOR_HOST);
    uint64_t element = 0;
    if (config->optimizer == AH_OPTIMIZER_STREAMED)
        element = job->state_bytes;
    if (config->optimizer == AH_OPTIMIZER_HOST) {
        element = job->state_bytes + (host_sums ? ah_fold_bytes(&job->training) : 0);
        if (job->training.dtype == AH_FP32 && !host_weights)
            element += sizeof(float);
        if ((milp->clip || ah_milp_shares(milp)) &&
            !host_sums) /* all arrive before the first update frees any */
            element += sums_on(milp, config, AH_ACCUMULATOR_DEVICE) ? sizeof(float) : job->gradient_bytes;
    }
    column->pieces.host = bytes(group->own_trained_elements * element);
    if (host_weights)
        column->pieces.host += bytes(group->own_flat_elements * job->weight_bytes +
                                     (ah_milp_shares(milp) ? 0 : group->gathered_bytes));
}

/* ---- classes and columns ---- */

static void add_column(struct ah_milp *milp, size_t class, uint32_t config, const struct ah_config *choice,
                       bool kept)
{
    const struct ah_job_group *group = &milp->job->groups[milp->classes[class].group];
    struct ah_milp_column *column = &milp->columns[milp->n_columns++];
    *column = (struct ah_milp_column){
        .of_class = (uint32_t) class, .config = config, .kept = kept, .choice = *choice};
    struct ah_milp_pieces *p = &column->pieces;
    compute_pieces(milp, group, column);
    fetch_pieces(milp, group, column);
    shared_pieces(milp, group, column);
    if (choice->optimizer == AH_OPTIMIZER_HOST)
        host_update_pieces(milp, group, column);
    if (choice->optimizer == AH_OPTIMIZER_STREAMED)
        streamed_pieces(milp, group, column);
    device_memory(milp, group, column);
    host_memory(milp, group, column);
    p->late = choice->optimizer == AH_OPTIMIZER_HOST || choice->optimizer == AH_OPTIMIZER_STREAMED;
    milp->classes[class].n_columns++;
}

static void class_columns(struct ah_milp *milp, size_t class)
{
    const struct ah_job_group *group = &milp->job->groups[milp->classes[class].group];
    struct ah_config configs[AH_CONFIGS_MAX];
    size_t n = ah_configs(milp->job, group, configs);
    class_fetches(milp, class, true, &milp->keepable[class]);
    milp->classes[class].first_column = milp->n_columns;
    for (uint32_t i = 0; i < n; i++) {
        if (!(milp->classes[class].allowed >> i & 1))
            continue;
        add_column(milp, class, i, &configs[i], false);
        bool fetched = configs[i].weights != AH_WEIGHTS_DEVICE &&
                       (group->kind != AH_BLOCK_EMBEDDING || ah_milp_shares(milp));
        if (fetched && milp->keepable[class])
            add_column(milp, class, i, &configs[i], true);
    }
}

static uint32_t allowed_of(const struct ah_milp *milp, size_t block)
{
    struct ah_config configs[AH_CONFIGS_MAX];
    size_t n = ah_configs(milp->job, ah_job_block(milp->job, block), configs);
    uint32_t all = (uint32_t)((UINT64_C(1) << n) - 1);
    return milp->input->allowed ? milp->input->allowed[block] & all : all;
}

/* Assigns numbers to classes, by their first block. Without `allowed`, the classes are the groups. */
static int make_classes(struct ah_milp *milp, struct ah_error *err)
{
    for (size_t block = 0; block < milp->job->n_blocks; block++) {
        uint32_t group = milp->job->group_of[block], allowed = allowed_of(milp, block);
        if (!allowed)
            return ah_error_set(err, AH_E_USAGE, "block %zu is allowed no config: allow it at least one",
                                block);
        size_t i = 0;
        while (i < milp->n_classes &&
               (milp->classes[i].group != group || milp->classes[i].allowed != allowed))
            i++;
        if (i == milp->n_classes) {
            milp->classes[i] =
                (struct ah_milp_class){.group = group, .allowed = allowed, .first_block = (uint32_t)block};
            milp->n_classes++;
        }
        milp->class_of[block] = (uint32_t)i;
        milp->classes[i].blocks++;
    }
    return AH_OK;
}

int ah_milp_columns(struct ah_milp *milp, struct ah_arena *arena, struct ah_error *err)
{
    size_t n = milp->job->n_blocks;
    milp->classes = ah_arena_array(arena, n, sizeof *milp->classes);
    milp->class_of = ah_arena_array(arena, n, sizeof *milp->class_of);
    if (!milp->classes || !milp->class_of)
        return ah_error_memory(err);
    int rc = make_classes(milp, err);
    if (rc)
        return rc;
    milp->columns = ah_arena_array(arena, milp->n_classes * 2 * AH_CONFIGS_MAX, sizeof *milp->columns);
    milp->keepable = ah_arena_array(arena, milp->n_classes, sizeof *milp->keepable);
    if (!milp->columns || !milp->keepable)
        return ah_error_memory(err);
    for (size_t class = 0; class < milp->n_classes; class ++)
        class_columns(milp, class);
    return AH_OK;
}
