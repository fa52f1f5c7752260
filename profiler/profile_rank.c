/* SPDX-License-Identifier: Apache-2.0
 *
 * Divides the cores, memory and links of a machine's profile among its ranks.
 */
#include "profiler/profile_rank.h"

#include "base/units.h"

#include <inttypes.h>
#include <math.h>

#define KEPT_MOST (UINT64_C(8) << 30)
enum { KEPT_PART = 16 };

/* The fraction of its memory's bandwidth that AdamW on a GPU reaches. Cluster costs assume it (docs/clusters.md). */
static const double gpu_memory_share = 0.8;

static int fail_missing(const char *name, const char *what, struct ah_error *err)
{
    return ah_error_set(err, AH_E_DOCUMENT, "%s: %s; measure the machine again with 'autohete profile'", name,
                        what);
}

/* ---- rates by number of threads ---- */

/* True if `threads` suits `wanted` better than `best`. The largest up to `wanted` suits best, else the smallest. */
static bool is_nearer(uint64_t threads, uint64_t best, uint64_t wanted)
{
    if (!best || (threads <= wanted) != (best <= wanted))
        return !best || threads <= wanted;
    return threads <= wanted ? threads > best : threads < best;
}

/* Returns a rate for `wanted` threads. If more threads were measured, the rate is reduced in proportion. */
static double share_of(double rate, uint64_t measured, uint64_t wanted)
{
    return measured > wanted ? rate * (double)wanted / (double)measured : rate;
}

/* Returns the rate of the fastest product with `threads` threads. */
static double flops_per_s(const struct ah_machine *machine, enum ah_dtype dtype, uint64_t threads)
{
    uint64_t measured = 0;
    double most = 0;
    for (size_t i = 0; i < machine->n_matmul; i++)
        if (machine->matmul[i].dtype == dtype && is_nearer(machine->matmul[i].threads, measured, threads))
            measured = machine->matmul[i].threads;
    for (size_t i = 0; i < machine->n_matmul; i++)
        if (machine->matmul[i].dtype == dtype && machine->matmul[i].threads == measured)
            most = fmax(most, machine->matmul[i].flops_per_s.median);
    return share_of(most, measured, threads);
}

static double adam_bytes(const struct ah_machine_adam *adam)
{
    return adam->params_per_s.median *
           ah_machine_adam_bytes(adam->state_dtype, adam->gradient_dtype, adam->weight_dtype);
}

/* Returns the highest rate in bytes of AdamW on that side with `threads` threads (0: with any number). */
static double adam_bytes_per_s(const struct ah_machine *machine, enum ah_side side, uint64_t threads)
{
    uint64_t measured = 0;
    double most = 0;
    for (size_t i = 0; i < machine->n_adam && threads; i++)
        if (machine->adam[i].side == side && is_nearer(machine->adam[i].threads, measured, threads))
            measured = machine->adam[i].threads;
    for (size_t i = 0; i < machine->n_adam; i++)
        if (machine->adam[i].side == side && (!threads || machine->adam[i].threads == measured))
            most = fmax(most, adam_bytes(&machine->adam[i]));
    return threads ? share_of(most, measured, threads) : most;
}

static void read_link(const struct ah_machine *machine, struct ah_profile_rank *rank)
{
    rank->link_bytes_per_s =
        fmin(ah_machine_link_bytes_per_s(machine, AH_H2D), ah_machine_link_bytes_per_s(machine, AH_D2H));
    for (size_t i = 0; i < machine->n_links; i++)
        rank->link_latency_us = fmax(rank->link_latency_us, machine->links[i].latency_us);
}

/* ---- a GPU ---- */

static int read_gpu(const struct ah_machine *machine, const char *name,
                    const struct ah_profile_rank_options *options, struct ah_profile_rank *rank,
                    struct ah_error *err)
{
    if (options->ranks || options->device_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "'--%s' works only for machines without a GPU, but %s profiles one; leave it out",
                            options->ranks ? "ranks" : "device-memory", name);
    rank->ranks = 1;
    rank->memory_bytes = machine->device.memory_bytes;
    rank->bf16_flops_per_s = ah_machine_matmul_flops_per_s(machine, AH_BF16);
    rank->adam_bytes_per_s = adam_bytes_per_s(machine, AH_DEVICE, 0);
    rank->host_memory_bytes = machine->host.memory_bytes;
    rank->host_bytes_per_s = adam_bytes_per_s(machine, AH_HOST, 0);
    rank->host_link_bytes_per_s = rank->host_bytes_per_s > 0 ? rank->link_bytes_per_s : 0;
    if (!(rank->bf16_flops_per_s > 0))
        return fail_missing(name, "matmul: no bf16 product was measured, but GPUs of clusters train in bf16",
                            err);
    return AH_OK;
}

/* ---- a share of a CPU machine ---- */

/* Divides the memory shared by devices and host. Sets `ret_alone` to whether devices get all and the host nothing. */
static int share_memory(const struct ah_machine *machine, const char *name,
                        const struct ah_profile_rank_options *options, struct ah_profile_rank *rank,
                        bool *ret_alone, struct ah_error *err)
{
    const uint64_t memory = machine->host.memory_bytes, part = memory / KEPT_PART;
    const uint64_t kept = part < KEPT_MOST ? part : KEPT_MOST;
    const uint64_t most = (memory - kept) / rank->ranks,
                   measured = machine->device.memory_bytes / rank->ranks;
    char asked[AH_UNITS_TEXT_MAX], there[AH_UNITS_TEXT_MAX];
    rank->memory_bytes = options->device_bytes ? options->device_bytes : measured < most ? measured : most;
    if (rank->memory_bytes > most)
        return ah_error_set(
            err, AH_E_USAGE, "'--device-memory' %s: %s has only %s for each rank; give at most that",
            ah_units_print_bytes(asked, options->device_bytes), name, ah_units_print_bytes(there, most));
    if (rank->memory_bytes <= rank->reserved_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "%s: a device memory of %s is no more than the %s that the device reserves for "
                            "itself",
                            name, ah_units_print_bytes(asked, rank->memory_bytes),
                            ah_units_print_bytes(there, rank->reserved_bytes));
    rank->host_memory_bytes = memory - rank->ranks * rank->memory_bytes;
    *ret_alone = rank->memory_bytes == most;
    return AH_OK;
}

static void share_cores(const struct ah_machine *machine, bool alone, struct ah_profile_rank *rank)
{
    const uint64_t cores = machine->host.cores / rank->ranks, compute = alone ? cores : cores - (cores > 0);
    rank->compute_threads = compute > 1 ? compute : 1;
    rank->host_threads = 1;
}

static int read_share(const struct ah_machine *machine, const char *name,
                      const struct ah_profile_rank_options *options, struct ah_profile_rank *rank,
                      struct ah_error *err)
{
    bool alone = false;
    rank->ranks = options->ranks ? options->ranks : 1;
    if (rank->ranks > machine->host.threads)
        return ah_error_set(err, AH_E_USAGE,
                            "'--ranks' %" PRIu64 ": %s has %" PRIu64 " threads; give at most that",
                            rank->ranks, name, machine->host.threads);
    int rc = share_memory(machine, name, options, rank, &alone, err);
    if (rc)
        return rc;
    share_cores(machine, alone, rank);
    rank->bf16_flops_per_s = machine->device.bf16 ? flops_per_s(machine, AH_BF16, rank->compute_threads) : 0;
    rank->fp32_flops_per_s = flops_per_s(machine, AH_FP32, rank->compute_threads);
    rank->adam_bytes_per_s = adam_bytes_per_s(machine, AH_DEVICE, rank->compute_threads);
    rank->host_bytes_per_s = adam_bytes_per_s(machine, AH_HOST, rank->host_threads * rank->ranks);
    if (!alone && rank->host_bytes_per_s > 0)
        rank->host_link_bytes_per_s = rank->link_bytes_per_s / (double)rank->ranks;
    return rank->fp32_flops_per_s > 0 ? AH_OK
                                      : fail_missing(name, "matmul: no fp32 product was measured", err);
}

int ah_profile_rank_read(const struct ah_machine *machine, const char *name,
                         const struct ah_profile_rank_options *options, struct ah_profile_rank *ret_rank,
                         struct ah_error *err)
{
    struct ah_profile_rank rank = {.reserved_bytes = machine->device.reserve_bytes};
    read_link(machine, &rank);
    int rc = machine->device.kind == AH_DEVICE_CPU ? read_share(machine, name, options, &rank, err)
                                                   : read_gpu(machine, name, options, &rank, err);
    if (!rc && !(rank.link_bytes_per_s > 0))
        rc = fail_missing(name, "links: h2d and d2h are needed, each with a rate", err);
    if (!rc)
        *ret_rank = rank;
    return rc;
}

struct ah_cluster_gpu ah_profile_rank_gpu(const struct ah_profile_rank *rank)
{
    return (struct ah_cluster_gpu){.memory_bytes = rank->memory_bytes,
                                   .reserved_bytes = rank->reserved_bytes,
                                   .flops_per_s = rank->bf16_flops_per_s,
                                   .fp32_flops_per_s = rank->fp32_flops_per_s,
                                   .flops_origin = AH_FLOPS_MEASURED,
                                   .memory_bytes_per_s = rank->adam_bytes_per_s / gpu_memory_share,
                                   .compute_threads = rank->compute_threads,
                                   .host_threads = rank->host_threads};
}
