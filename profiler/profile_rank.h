/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds, from a machine's profile, what a rank of a cluster gets there: a GPU, or one of `ranks` equal parts of the
 * cores and memory of a CPU machine.
 *
 * Ranks of a CPU machine divide its cores equally. A rank's compute lane gets all of the rank's cores. If states may be
 * on the host, it gets one core less, and the host lane gets that core. Rates are those for as many threads; if only
 * more threads were measured, rates are scaled down. Devices leave a sixteenth of the memory free, at most 8 GiB.
 */
#ifndef AH_PROFILER_PROFILE_RANK_H
#define AH_PROFILER_PROFILE_RANK_H

#include "base/error.h"
#include "schemas/cluster.h"
#include "schemas/machine.h"

struct ah_profile_rank_options {
    uint64_t ranks;        /* number of ranks on a CPU machine; 0: one */
    uint64_t device_bytes; /* of each rank's device; 0: its part of the profiled memory, if there is enough */
};

struct ah_profile_rank {
    uint64_t memory_bytes, reserved_bytes;     /* of its device */
    uint64_t compute_threads, host_threads;    /* 0 for a GPU */
    double bf16_flops_per_s, fp32_flops_per_s; /* 0: not supported, or unknown */
    double adam_bytes_per_s;                   /* rate of AdamW on its device */

    /* The fields from here on describe the node with all its ranks. host_link_bytes_per_s is 0 if devices get all
     * memory, so that the host keeps nothing. */
    uint64_t ranks, host_memory_bytes;
    double host_bytes_per_s; /* rate of AdamW on the host */
    double link_bytes_per_s; /* rate of the slower direction */
    double host_link_bytes_per_s;
    double link_latency_us;
};

/* Reads a rank's part of `machine`; messages call the machine `name`. AH_E_DOCUMENT: the profile lacks a rate.
 * AH_E_USAGE: the options do not fit such a machine. */
int ah_profile_rank_read(const struct ah_machine *machine, const char *name,
                         const struct ah_profile_rank_options *options, struct ah_profile_rank *ret_rank,
                         struct ah_error *err);

/* Returns the entry for these ranks' type of GPU in a cluster document; its name is left empty. */
struct ah_cluster_gpu ah_profile_rank_gpu(const struct ah_profile_rank *rank);

#endif
