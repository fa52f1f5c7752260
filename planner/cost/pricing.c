/* SPDX-License-Identifier: Apache-2.0
 *
 * Pricing: computes the costs of a job from the rates of a machine document.
 *
 * THREADS. Numbers of the host are those measured with the requested thread count. Without such a measurement, the
 * largest measured count below it is used or, if there is none below, the smallest count.
 *
 * ADAM is bound by memory. If its exact types were not measured, the nearest measured combination is scaled by the
 * bytes moved for a parameter (master 8, each moment 8 or 4, gradient 4 or 2, bf16 weight 2). If the device has its own
 * memory, the speed of that memory is derived from the device's AdamW in the same way.
 */
#include "planner/cost/pricing_internal.h"

#include <math.h>

struct pricing {
    const struct ah_machine *machine;
    const struct ah_job *job;
    struct ah_plan_threads threads;
    struct ah_arena *arena;
};

static bool is_cpu(const struct ah_machine *machine)
{
    return machine->device.kind == AH_DEVICE_CPU;
}

static int missing(const struct ah_machine *machine, struct ah_error *err, const char *field,
                   const char *what)
{
    return ah_error_set(
        err, AH_E_DOCUMENT,
        "machine '%s': '%s' has no %s: measure it with 'autohete profile', or add it with its source",
        machine->name, field, what);
}

/* True if `count` is a better substitute for `wanted` than `best` (0: none): near it, and preferably not above it. */
static bool nearer(uint64_t count, uint64_t best, uint64_t wanted)
{
    if (best == 0)
        return true;
    if ((count <= wanted) != (best <= wanted))
        return count <= wanted;
    return count <= wanted ? count > best : count < best;
}

/* ---- products ---- */

static uint64_t product_threads(const struct pricing *p, enum ah_dtype dtype)
{
    uint64_t best = 0;
    for (size_t i = 0; i < p->machine->n_matmul; i++) {
        const struct ah_machine_matmul *matmul = &p->machine->matmul[i];
        if (matmul->dtype == dtype && nearer(matmul->threads, best, p->threads.compute))
            best = matmul->threads;
    }
    return best;
}

static int read_products(const struct pricing *p, struct ah_pricing_rates *rates, struct ah_error *err)
{
    const struct ah_machine *machine = p->machine;
    enum ah_dtype dtype = p->job->training.dtype;
    uint64_t threads = product_threads(p, dtype);
    rates->products = ah_arena_array(p->arena, machine->n_matmul + 1, sizeof *rates->products);
    if (!rates->products)
        return ah_error_memory(err);
    for (size_t i = 0; i < machine->n_matmul; i++) {
        const struct ah_machine_matmul *matmul = &machine->matmul[i];
        if (matmul->dtype != dtype || matmul->threads != threads || !(matmul->flops_per_s.median > 0))
            continue;
        double us_per_flop = 1e6 / matmul->flops_per_s.median;
        rates->products[rates->n_products++] =
            (struct ah_pricing_product){matmul->form, log((double)matmul->m), log((double)matmul->n),
                                        log((double)matmul->k), us_per_flop};
        if (rates->n_products == 1 || us_per_flop < rates->best_us_per_flop)
            rates->best_us_per_flop = us_per_flop;
    }
    if (rates->n_products)
        return AH_OK;
    return missing(machine, err, "matmul", dtype == AH_BF16 ? "bf16 product" : "fp32 product");
}

/* ---- AdamW ---- */

struct adam_types {
    enum ah_dtype state, gradient, weight;
};

static double adam_bytes(const struct adam_types *types)
{
    return ah_machine_adam_bytes(types->state, types->gradient, types->weight);
}

static struct adam_types measured_types(const struct ah_machine_adam *adam)
{
    return (struct adam_types){adam->state_dtype, adam->gradient_dtype, adam->weight_dtype};
}

static struct adam_types job_types(const struct ah_job *job)
{
    bool sum = job->adds_up;
    return (struct adam_types){job->training.state_dtype, sum || job->gradient_bytes == 4 ? AH_FP32 : AH_BF16,
                               job->training.dtype};
}

static int differing_types(const struct adam_types *a, const struct adam_types *b)
{
    return 4 * (a->weight != b->weight) + 2 * (a->state != b->state) + (a->gradient != b->gradient);
}

/* Returns the measurement used for the time of an update; NULL: there is none. */
static const struct ah_machine_adam *find_adam(const struct ah_machine *machine, enum ah_side side,
                                               uint64_t threads, const struct adam_types *wanted)
{
    const struct ah_machine_adam *best = NULL;
    for (size_t i = 0; i < machine->n_adam; i++) {
        const struct ah_machine_adam *adam = &machine->adam[i];
        if (adam->side != side || !(adam->params_per_s.median > 0))
            continue;
        struct adam_types types = measured_types(adam);
        struct adam_types best_types = best ? measured_types(best) : types;
        bool same = best && adam->threads == best->threads;
        if (!best || (same && differing_types(&types, wanted) < differing_types(&best_types, wanted)) ||
            (!same && nearer(adam->threads, best->threads, threads)))
            best = adam;
    }
    return best;
}

static double adam_us_per_byte(const struct ah_machine_adam *adam)
{
    struct adam_types types = measured_types(adam);
    return 1e6 / (adam->params_per_s.median * adam_bytes(&types));
}

static double adam_us(const struct ah_machine_adam *adam, const struct adam_types *wanted)
{
    return adam_us_per_byte(adam) * adam_bytes(wanted);
}

/* ---- memory ---- */

/* Returns the time per byte of in-place scaling, whose reads and writes are like those of the host lane's passes. */
static double host_us_per_byte(const struct ah_machine *machine, uint64_t threads,
                               const struct ah_machine_adam *host_adam)
{
    const struct ah_machine_memory *best = NULL;
    for (size_t i = 0; i < machine->n_memory; i++) {
        const struct ah_machine_memory *memory = &machine->memory[i];
        if (memory->pattern == AH_MEMORY_SCALE && memory->bytes_per_s.median > 0 &&
            (!best || nearer(memory->threads, best->threads, threads)))
            best = memory;
    }
    return best ? 1e6 / best->bytes_per_s.median : adam_us_per_byte(host_adam);
}

/* ---- links ---- */

static int read_link(const struct ah_machine *machine, enum ah_direction direction, double *ret_latency_us,
                     double *ret_us_per_byte, struct ah_error *err)
{
    for (size_t i = 0; i < machine->n_links; i++) {
        const struct ah_machine_link *link = &machine->links[i];
        if (link->direction != direction || !(link->bytes_per_s.median > 0))
            continue;
        *ret_latency_us = link->latency_us;
        *ret_us_per_byte = 1e6 / link->bytes_per_s.median;
        return AH_OK;
    }
    return missing(machine, err, "links", ah_words_direction[direction]);
}

/* ---- threads ---- */

/* Returns the largest thread count up to `most` with a measurement of host Adam; 0: none. */
static uint64_t host_threads_up_to(const struct ah_machine *machine, uint64_t most)
{
    uint64_t best = 0;
    for (size_t i = 0; i < machine->n_adam; i++)
        if (machine->adam[i].side == AH_HOST && machine->adam[i].threads <= most &&
            machine->adam[i].threads > best)
            best = machine->adam[i].threads;
    return best;
}

/* Returns the thread count up to `most` with the fastest measured host Adam; 0: none. */
static uint64_t fastest_host_threads(const struct ah_machine *machine, uint64_t most)
{
    const struct ah_machine_adam *best = NULL;
    for (size_t i = 0; i < machine->n_adam; i++) {
        const struct ah_machine_adam *adam = &machine->adam[i];
        if (adam->side == AH_HOST && adam->params_per_s.median > 0 && adam->threads <= most &&
            (!best || adam_us_per_byte(adam) < adam_us_per_byte(best)))
            best = adam;
    }
    return best ? best->threads : 0;
}

/* Returns the host lane's threads on a machine with a GPU. One core is left to the thread that enqueues. If host Adam
 * was measured on all cores only, returns that count, and a run uses one thread less (cuda/near.h). */
static uint64_t host_threads_beside_gpu(const struct ah_machine *machine)
{
    const uint64_t cores = machine->host.cores;
    const uint64_t host = fastest_host_threads(machine, cores > 1 ? cores - 1 : 1);
    return host ? host : fastest_host_threads(machine, UINT64_MAX);
}

/* Returns the largest thread count below `limit` with a measured product; 0: none. */
static uint64_t compute_threads_below(const struct ah_machine *machine, uint64_t limit)
{
    uint64_t best = 0;
    for (size_t i = 0; i < machine->n_matmul; i++)
        if (machine->matmul[i].threads < limit && machine->matmul[i].threads > best)
            best = machine->matmul[i].threads;
    return best;
}

/* True if `compute` is all cores and blocks were measured on them. The compute lane may then share all cores. */
static bool may_have_all(const struct ah_machine *machine, uint64_t compute)
{
    for (size_t i = 0; i < machine->n_blocks; i++)
        if (machine->blocks[i].threads == compute && compute == machine->host.cores)
            return true;
    return false;
}

size_t ah_pricing_thread_splits(const struct ah_machine *machine, struct ah_plan_threads *ret_splits,
                                size_t max)
{
    size_t n = 0;
    if (!is_cpu(machine)) {
        uint64_t host = host_threads_beside_gpu(machine);
        if (host && machine->n_matmul && max)
            ret_splits[n++] = (struct ah_plan_threads){0, host};
        return n;
    }
    uint64_t cores = machine->host.cores > 1 ? machine->host.cores : 2;
    uint64_t compute = UINT64_MAX;
    while (n < max && (compute = compute_threads_below(machine, compute)) > 0) {
        uint64_t left = compute < cores ? cores - compute : may_have_all(machine, compute);
        uint64_t host = host_threads_up_to(machine, left);
        if (host)
            ret_splits[n++] = (struct ah_plan_threads){compute, host};
    }
    return n;
}

/* ---- all costs ---- */

static int find_threads(struct pricing *p, const struct ah_plan_threads *threads, struct ah_error *err)
{
    if (threads) {
        p->threads = *threads;
        return AH_OK;
    }
    if (ah_pricing_thread_splits(p->machine, &p->threads, 1))
        return AH_OK;
    if (!p->machine->n_matmul)
        return missing(p->machine, err, "matmul", "product");
    return missing(p->machine, err, "adam", "entry for the host on few enough threads");
}

static void fill_passes(const struct pricing *p, const struct ah_pricing_rates *rates, struct ah_costs *costs)
{
    double gradient = (double)p->job->gradient_bytes;
    bool sum = p->job->adds_up;
    double add = gradient + 2 * sizeof(float), square = sum ? sizeof(float) : gradient;
    costs->host_accumulate_us = add * rates->host_us_per_byte;
    costs->device_accumulate_us = add * rates->device_us_per_byte;
    costs->host_squares_us = square * rates->host_us_per_byte;
    costs->device_squares_us = square * rates->device_us_per_byte;
    costs->host_us_per_byte = 2 * rates->host_us_per_byte;
    costs->norm_us = costs->d2h_latency_us + costs->h2d_latency_us; /* sums go to the host, the factor back */
}

static int fill_adam(const struct pricing *p, struct ah_pricing_rates *rates, struct ah_costs *costs,
                     struct ah_error *err)
{
    const struct ah_machine *machine = p->machine;
    struct adam_types types = job_types(p->job);
    const struct ah_machine_adam *host = find_adam(machine, AH_HOST, p->threads.host, &types);
    const struct ah_machine_adam *device = find_adam(machine, AH_DEVICE, p->threads.compute, &types);
    if (!host || !device)
        return missing(machine, err, "adam", host ? "entry for the device" : "entry for the host");
    costs->host_adam_us = adam_us(host, &types);
    costs->device_adam_us = adam_us(device, &types);
    rates->host_us_per_byte = host_us_per_byte(machine, p->threads.host, host);
    rates->device_us_per_byte =
        is_cpu(machine) ? host_us_per_byte(machine, p->threads.compute, device) : adam_us_per_byte(device);
    return AH_OK;
}

static int check_device(const struct ah_machine *machine, const struct ah_job *job, struct ah_error *err)
{
    if (job->training.dtype != AH_BF16 || machine->device.bf16)
        return AH_OK;
    return ah_error_set(
        err, AH_E_DOCUMENT,
        "machine '%s': 'device.bf16' is false, so '%s' cannot train in bf16: plan with '--dtype fp32'",
        machine->name, machine->device.name);
}

int ah_pricing_fill(const struct ah_machine *machine, const struct ah_job *job,
                    const struct ah_plan_threads *threads, struct ah_arena *arena, struct ah_costs *ret_costs,
                    struct ah_error *err)
{
    struct pricing p = {.machine = machine, .job = job, .arena = arena};
    struct ah_pricing_rates rates = {0};
    struct ah_costs costs = {.has_threads = is_cpu(machine)};
    int rc = check_device(machine, job, err);
    rc = rc ? rc : find_threads(&p, threads, err);
    rc = rc ? rc : read_products(&p, &rates, err);
    rc = rc ? rc : read_link(machine, AH_H2D, &costs.h2d_latency_us, &costs.h2d_us_per_byte, err);
    rc = rc ? rc : read_link(machine, AH_D2H, &costs.d2h_latency_us, &costs.d2h_us_per_byte, err);
    rc = rc ? rc : fill_adam(&p, &rates, &costs, err);
    rc = rc ? rc : ah_pricing_share(machine, arena, &costs.sharing, err);
    if (rc)
        return rc;
    ah_pricing_share_cores(machine, &p.threads, ah_job_shards(job), &costs.sharing);
    costs.threads = p.threads;
    costs.groups = ah_arena_array(arena, job->n_groups, sizeof *costs.groups);
    if (!costs.groups)
        return ah_error_memory(err);
    fill_passes(&p, &rates, &costs);
    costs.launch_us = rates.launch_us = machine->launch_us ? machine->launch_us->median : 0;
    const struct ah_pricing_blocks_of of = {machine, job, &rates, p.threads.compute};
    rc = ah_pricing_blocks(&of, costs.groups, &costs.estimated, err);
    if (rc)
        return rc;
    ah_pricing_gpus(machine, job, &costs);
    *ret_costs = costs;
    return AH_OK;
}
