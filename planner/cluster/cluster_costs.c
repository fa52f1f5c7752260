/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of the steps of a block's program on t GPUs that share it:
 *
 *     product     flops / (t x share x rate)      share: 1 of an achieved rate, 0.5 of a peak; of the weights' type
 *     attention   as a product at 0.5 of its rate forward, 0.4 backward (planner/cost/pricing_blocks.c has the sources)
 *     the rest    bytes / (t x 0.8 x rate of the GPU's memory), if the document knows it; else 0
 *
 * A layer adds 2 all-reduces of the residual stream forward, 2 backward, and 2 more if the forward is repeated. The
 * embedding and the head add one each. All-reduces are rings inside the node. 0.5 and 0.8 are assumptions made before
 * any comparison: large transformers reach 40 to 60 % of the peak of matrix products on the GPUs in question
 * (HexiScale's and Megatron-LM's papers), and copies about 80 % of the data sheet's bandwidth.
 */
#include "planner/cluster/cluster_costs.h"

#include "planner/cluster/offload_costs.h"
#include "runtime/schedule/layout.h"
#include "runtime/schedule/program.h"
#include "runtime/schedule/reserve.h"

#include <math.h>
#include <string.h>

#define PEAK_SHARE               0.5
#define MEMORY_SHARE             0.8
#define ATTENTION_FORWARD_SHARE  0.5
#define ATTENTION_BACKWARD_SHARE 0.4

/* two for outputs and two for gradients: one to send from, one to receive into */
enum { BOUNDARY_BUFFERS = 4 };

struct costing {
    const struct ah_cluster_costs_input *input;
    struct ah_job job;
    struct ah_cluster_problem *problem;
    struct ah_problem_kind *kinds;
    struct ah_problem_class *classes;
    bool adds_up;            /* there are several micro-batches, or the table has two gradients */
    uint64_t gradient_bytes; /* bytes of an element of a sum */
    uint64_t held_bytes;     /* as gradient_bytes, plus the second vector if groups are summed separately */
    uint64_t table_elements; /* elements of a tied table */
    bool estimated;
};

bool ah_cluster_costs_divides(const struct ah_model *model, uint64_t tp)
{
    return model->heads % tp == 0 && model->kv_heads % tp == 0 && model->mlp_width % tp == 0;
}

/* ---- times of a block ---- */

/* A kind of unit while its blocks are timed. */
struct site {
    const struct ah_cluster_gpu *gpu;
    const struct ah_cluster_node *node;
    uint64_t tp;
    double flops_per_s;          /* in the training's dtype */
    struct ah_offload_host host; /* unshared */
    uint64_t sharers;            /* largest number of units that can share the host */
};

static double memory_us(const struct site *site, double bytes)
{
    if (site->gpu->memory_bytes_per_s <= 0)
        return 0;
    return 1e6 * bytes / ((double)site->tp * MEMORY_SHARE * site->gpu->memory_bytes_per_s);
}

static double step_us(const struct site *site, const struct ah_program_step *step)
{
    double rate = site->flops_per_s * (site->gpu->flops_origin == AH_FLOPS_PEAK ? PEAK_SHARE : 1);
    double moved_us = memory_us(site, (double)step->moved_bytes);
    if (step->kind == AH_STEP_POINTWISE)
        return moved_us;
    if (step->kind == AH_STEP_ATTENTION)
        rate *= step->backward ? ATTENTION_BACKWARD_SHARE : ATTENTION_FORWARD_SHARE;
    return fmax(1e6 * step->flops / ((double)site->tp * rate), moved_us);
}

static double all_reduce_us(const struct costing *c, const struct site *site)
{
    double t = (double)site->tp;
    return 2 * (t - 1) / t * 1e6 * (double)c->job.residual_bytes / site->node->intra_bytes_per_s +
           2 * (t - 1) * site->node->intra_latency_us;
}

static double pass_us(const struct costing *c, const struct site *site, const struct ah_job_group *group,
                      enum ah_pass pass, enum ah_activations way)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    size_t n = ah_program_steps(&c->job, group, pass, way, steps);
    bool again = pass == AH_PASS_BACKWARD && way == AH_ACTIVATIONS_RECOMPUTE;
    double us = 0;
    for (size_t i = 0; i < n; i++)
        us += step_us(site, &steps[i]);
    if (n)
        us += (group->kind == AH_BLOCK_LAYER ? again ? 4 : 2 : 1) * all_reduce_us(c, site);
    return us;
}

/* Returns the group's times on this kind of unit from the cluster document; NULL: not measured. */
static const struct ah_cluster_time *find_time(const struct costing *c, const struct site *site,
                                               const char *group, enum ah_activations way)
{
    const struct ah_cluster_costs_input *in = c->input;
    for (size_t i = 0; i < in->cluster->n_times; i++) {
        const struct ah_cluster_time *time = &in->cluster->times[i];
        if (strcmp(time->model_sha256, in->model_sha256) == 0 && strcmp(time->gpu, site->gpu->name) == 0 &&
            strcmp(time->group, group) == 0 && time->tp == site->tp && time->activations == way &&
            time->sequences == c->job.training.batch && time->seq == in->training.seq &&
            time->dtype == in->training.dtype)
            return time;
    }
    return NULL;
}

/* Sets a block's times, measured if possible. Unmeasured recomputation adds its estimate to the measured backward. */
static void time_group(struct costing *c, const struct site *site, const struct ah_job_group *group,
                       struct ah_problem_block *block)
{
    const struct ah_cluster_time *keep = find_time(c, site, group->name, AH_ACTIVATIONS_KEEP);
    double estimate = pass_us(c, site, group, AH_PASS_BACKWARD, AH_ACTIVATIONS_KEEP);
    block->forward_us =
        keep ? keep->forward_us : pass_us(c, site, group, AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP);
    for (int way = 0; way < AH_PROBLEM_WAYS; way++) {
        const struct ah_cluster_time *time = find_time(c, site, group->name, (enum ah_activations)way);
        double us = pass_us(c, site, group, AH_PASS_BACKWARD, (enum ah_activations)way);
        block->backward_us[way] = time ? time->backward_us : us + (keep ? keep->backward_us - estimate : 0);
        if (way)
            block->backward_us[way] = fmax(block->backward_us[way], block->backward_us[way - 1]);
    }
    c->estimated |= !keep;
}

/* ---- sizes of a block ---- */

/* Returns the aligned size of one rank's part of a tensor of `bytes`. */
static uint64_t rank_part_bytes(uint64_t bytes, uint64_t tp)
{
    uint64_t each = (bytes + tp - 1) / tp;
    return (each + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN;
}

/* Returns the elements of the table that a tied head copies; 0 for other groups. */
static uint64_t group_table(const struct costing *c, const struct ah_job_group *group)
{
    return group->kind == AH_BLOCK_HEAD ? c->table_elements : 0;
}

/* Returns the device bytes of the ring for streamed states; 0 if states cannot be streamed. */
static uint64_t ring_bytes(const struct costing *c, const struct site *site)
{
    uint64_t element = c->job.state_bytes + c->job.weight_bytes;
    return site->host.memory_bytes
               ? AH_OFFLOAD_STATE_TILES * ah_offload_tile_elements(&c->job, site->tp) * element
               : 0;
}

/* Returns the bytes in use during a pass: scratch, gradients, boundary buffers, inputs, and the ring of states. */
static uint64_t work_bytes(const struct costing *c, const struct site *site, uint64_t scratch,
                           uint64_t gradient)
{
    const struct ah_job *job = &c->job;
    return rank_part_bytes(scratch, site->tp) + rank_part_bytes(gradient, site->tp) +
           (1 + BOUNDARY_BUFFERS) * rank_part_bytes(job->residual_bytes, site->tp) +
           rank_part_bytes(2 * job->input_bytes + job->constant_bytes, 1) + ring_bytes(c, site);
}

/* Sets a block's sizes and update time. With several micro-batches, a gradient is a separate vector before it is added
 * to the sum. The head's forward includes its backward. */
static void size_group(const struct costing *c, const struct site *site, const struct ah_job_group *group,
                       struct ah_problem_block *block)
{
    const struct ah_job *job = &c->job;
    uint64_t table = group_table(c, group);
    uint64_t trained = group->trained_elements + table;
    uint64_t one = c->adds_up ? trained * job->gradient_bytes : 0;
    block->state_bytes = rank_part_bytes((group->flat_elements + table) * job->weight_bytes, site->tp) +
                         rank_part_bytes(trained * c->held_bytes, site->tp) +
                         rank_part_bytes(trained * job->state_bytes, site->tp);
    block->update_us =
        memory_us(site, (double)(trained * (2 * job->state_bytes + c->gradient_bytes + job->weight_bytes)));
    for (int way = 0; way < AH_PROBLEM_WAYS; way++) {
        uint64_t forward = work_bytes(c, site, group->forward_work_bytes[way],
                                      group->kind == AH_BLOCK_HEAD ? one : 0),
                 backward = work_bytes(c, site, group->backward_work_bytes[way], one);
        block->saved_bytes[way] = rank_part_bytes(group->input_bytes, site->tp) +
                                  rank_part_bytes(group->saved_bytes[way], site->tp);
        block->work_bytes[way] = forward > backward ? forward : backward;
    }
}

/* ---- kinds, classes, links ---- */

static bool same_host(const struct ah_offload_host *p, const struct ah_offload_host *q)
{
    return p->memory_bytes == q->memory_bytes &&
           memcmp(&p->link_bytes_per_s, &q->link_bytes_per_s, sizeof(double)) == 0 &&
           memcmp(&p->memory_bytes_per_s, &q->memory_bytes_per_s, sizeof(double)) == 0;
}

static bool same_site(const struct site *p, const struct site *q)
{
    return p->gpu == q->gpu && p->tp == q->tp && same_host(&p->host, &q->host) &&
           memcmp(&p->node->intra_bytes_per_s, &q->node->intra_bytes_per_s, sizeof(double)) == 0 &&
           memcmp(&p->node->intra_latency_us, &q->node->intra_latency_us, sizeof(double)) == 0;
}

/* Finds the reserve as plans for one machine do: the measured reserve or, if larger, what ops need with these threads.
 * A rank of `tp` needs no more than a single rank. */
static int find_reserve(const struct costing *c, const struct ah_cluster_gpu *gpu, uint64_t *ret_bytes,
                        struct ah_error *err)
{
    uint64_t bytes = 0;
    int rc = ah_reserve_find(&c->job, c->input->cluster->device, gpu->compute_threads, &bytes, err);
    if (!rc)
        *ret_bytes = bytes > gpu->reserved_bytes ? bytes : gpu->reserved_bytes;
    return rc;
}

static int build_kind(struct costing *c, const struct site *site, struct ah_arena *arena,
                      struct ah_problem_kind *ret_kind, struct ah_error *err)
{
    struct ah_problem_block *blocks = ah_arena_array(arena, c->job.n_blocks, sizeof *blocks);
    const uint64_t memory_bytes = site->gpu->memory_bytes;
    uint64_t reserved_bytes = 0;
    int rc = blocks ? find_reserve(c, site->gpu, &reserved_bytes, err) : ah_error_memory(err);
    if (rc)
        return rc;
    for (size_t g = 0; g < c->job.n_groups; g++) {
        const struct ah_job_group *group = &c->job.groups[g];
        struct ah_problem_block block = {0};
        time_group(c, site, group, &block);
        size_group(c, site, group, &block);
        for (size_t b = 0; b < c->job.n_blocks; b++)
            if (c->job.group_of[b] == g)
                blocks[b] = block;
    }
    *ret_kind = (struct ah_problem_kind){
        .gpu = site->gpu->name,
        .tp = site->tp,
        .reserved_bytes = reserved_bytes,
        .capacity_bytes = memory_bytes > reserved_bytes ? memory_bytes - reserved_bytes : 1,
        .blocks = blocks};
    return AH_OK;
}

/* Computes one unit's share of the host when `sharers` units use the host. */
static int build_host(const struct costing *c, const struct site *site, uint64_t sharers,
                      const struct ah_problem_block *blocks, struct ah_arena *arena,
                      struct ah_problem_host *ret_host, struct ah_error *err)
{
    struct ah_problem_away *away = ah_arena_array(arena, c->job.n_blocks * AH_PROBLEM_AWAYS, sizeof *away);
    const uint64_t rings = AH_OFFLOAD_HOST_TILES * ah_offload_tile_elements(&c->job, site->tp) *
                           (c->gradient_bytes + c->job.weight_bytes);
    const struct ah_offload_terms terms = {.job = &c->job,
                                           .host = ah_offload_share(site->node, sharers * site->tp),
                                           .tp = site->tp,
                                           .sum_bytes = c->gradient_bytes,
                                           .held_bytes = c->held_bytes,
                                           .sums = c->input->training.micro_batches > 1,
                                           .without = c->input->without};
    if (!away)
        return ah_error_memory(err);
    for (size_t b = 0; b < c->job.n_blocks; b++) {
        const struct ah_job_group *group = ah_job_block(&c->job, b);
        ah_offload_price(&terms, group, group_table(c, group), &blocks[b], away + b * AH_PROBLEM_AWAYS);
    }
    *ret_host =
        (struct ah_problem_host){terms.host.memory_bytes > rings ? terms.host.memory_bytes - rings : 0, away};
    return AH_OK;
}

static int build_hosts(const struct costing *c, const struct site *site, struct ah_arena *arena,
                       struct ah_problem_kind *kind, struct ah_error *err)
{
    if (!site->host.memory_bytes)
        return AH_OK;
    struct ah_problem_host *hosts = ah_arena_array(arena, site->sharers, sizeof *hosts);
    if (!hosts)
        return ah_error_memory(err);
    for (uint64_t s = 0; s < site->sharers; s++) {
        int rc = build_host(c, site, s + 1, kind->blocks, arena, &hosts[s], err);
        if (rc)
            return rc;
    }
    kind->hosts = hosts;
    kind->n_hosts = site->sharers;
    return AH_OK;
}

static struct site site_of(const struct costing *c, const struct ah_cluster_node *node)
{
    const struct ah_cluster_gpu *gpu = ah_cluster_gpu_of(c->input->cluster, node);
    const unsigned neither = AH_WITHOUT_HOST_OPTIMIZER | AH_WITHOUT_STREAMED;
    struct site site = {.gpu = gpu,
                        .node = node,
                        .tp = c->input->tp[gpu - c->input->cluster->gpus],
                        .flops_per_s = ah_cluster_gpu_flops_per_s(gpu, c->input->training.dtype)};
    if ((c->input->without & neither) != neither)
        site.host = ah_offload_share(node, 1);
    if (site.tp)
        site.sharers =
            (node->gpus + site.tp - 1) / site.tp; /* rounded up: other units may have other degrees */
    return site;
}

/* Returns the index of the kind equal to `site`; makes the kind if there is none. */
static int find_kind(struct costing *c, const struct site *site, struct site *sites, struct ah_arena *arena,
                     size_t *ret_kind, struct ah_error *err)
{
    struct ah_cluster_problem *in = c->problem;
    size_t kind = 0;
    while (kind < in->n_kinds && !same_site(&sites[kind], site))
        kind++;
    if (kind == in->n_kinds) {
        int rc = build_kind(c, site, arena, &c->kinds[kind], err);
        if (rc)
            return rc;
        sites[in->n_kinds++] = *site;
    }
    sites[kind].sharers = site->sharers > sites[kind].sharers ? site->sharers : sites[kind].sharers;
    *ret_kind = kind;
    return AH_OK;
}

static int build_classes(struct costing *c, struct ah_arena *arena, struct ah_error *err)
{
    const struct ah_cluster *cluster = c->input->cluster;
    struct ah_cluster_problem *in = c->problem;
    struct site *sites = ah_arena_array(arena, cluster->n_nodes, sizeof *sites);
    c->classes = ah_arena_array(arena, cluster->n_nodes, sizeof *c->classes);
    c->kinds = ah_arena_array(arena, cluster->n_nodes, sizeof *c->kinds);
    if (!sites || !c->classes || !c->kinds)
        return ah_error_memory(err);
    in->kinds = c->kinds;
    in->classes = c->classes;
    int rc = AH_OK;
    for (size_t n = 0; n < cluster->n_nodes && !rc; n++) {
        const struct ah_cluster_node *node = &cluster->nodes[n];
        const struct site site = site_of(c, node);
        if (!site.tp || node->gpus < site.tp)
            continue;
        struct ah_problem_class *class = &c->classes[in->n_classes++];
        *class = (struct ah_problem_class){0, n, node->gpus / site.tp, node->nic_bytes_per_s};
        rc = find_kind(c, &site, sites, arena, &class->kind, err);
    }
    for (size_t k = 0; k < in->n_kinds && !rc; k++)
        rc = build_hosts(c, &sites[k], arena, &c->kinds[k], err);
    return rc;
}

static int build_links(const struct costing *c, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_cluster_problem *in = c->problem;
    struct ah_problem_link *links = ah_arena_array(arena, in->n_classes * in->n_classes, sizeof *links);
    if (in->n_classes && !links)
        return ah_error_memory(err);
    for (size_t a = 0; a < in->n_classes; a++)
        for (size_t b = 0; b < in->n_classes; b++) {
            struct ah_cluster_link link =
                ah_cluster_link_of(c->input->cluster, in->classes[a].node, in->classes[b].node);
            links[a * in->n_classes + b] = (struct ah_problem_link){link.bytes_per_s, link.latency_us};
        }
    in->links = links;
    return AH_OK;
}

static int build_gradients(const struct costing *c, struct ah_arena *arena, struct ah_error *err)
{
    uint64_t *bytes = ah_arena_array(arena, c->job.n_blocks, sizeof *bytes);
    if (!bytes)
        return ah_error_memory(err);
    for (size_t b = 0; b < c->job.n_blocks; b++)
        bytes[b] = ah_job_block(&c->job, b)->trained_elements * c->gradient_bytes;
    c->problem->tied_bytes = c->job.table_trained ? c->table_elements * c->gradient_bytes : 0;
    bytes[0] -= c->problem->tied_bytes < bytes[0] ? c->problem->tied_bytes : bytes[0];
    c->problem->gradient_bytes = bytes;
    return AH_OK;
}

int ah_cluster_costs_build(const struct ah_cluster_costs_input *input, struct ah_arena *arena,
                           struct ah_cluster_problem *ret_problem, bool *ret_estimated, struct ah_error *err)
{
    struct ah_cluster_problem problem = {.micro_batches = input->training.micro_batches};
    struct costing c = {.input = input, .problem = &problem};
    struct ah_plan_training one = input->training; /* of one micro-batch */
    one.batch /= one.micro_batches;
    one.micro_batches = 1;
    one.n_sums = 0;
    one.tied = AH_TIED_JOINT; /* the second gradient of a table is counted separately */
    const char *gpu;
    if (!ah_cluster_has(input->cluster, one.dtype, &gpu))
        return ah_error_set(err, AH_E_USAGE,
                            "type '%s' of cluster '%s' has no bf16 products; plan with '--dtype fp32'", gpu,
                            input->cluster->name);
    int rc = ah_job_init(&c.job, input->model, &one, arena, err);
    if (rc)
        return rc;
    c.table_elements = input->model->tied ? input->model->vocabulary * input->model->width : 0;
    c.adds_up = problem.micro_batches > 1 || (c.table_elements && c.job.table_trained);
    c.gradient_bytes = c.adds_up ? sizeof(float) : c.job.gradient_bytes;
    c.held_bytes = c.gradient_bytes * (input->separate_sums ? 2 : 1);
    problem.n_blocks = c.job.n_blocks;
    problem.boundary_bytes = c.job.residual_bytes;
    rc = build_classes(&c, arena, err);
    rc = rc ? rc : build_links(&c, arena, err);
    rc = rc ? rc : build_gradients(&c, arena, err);
    if (rc)
        return rc;
    *ret_problem = problem;
    *ret_estimated = c.estimated;
    return AH_OK;
}
