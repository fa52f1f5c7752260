/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank of a cluster has on a machine, by the machine's profile: a GPU, or a share of the cores and memory of a
 * CPU machine with `ranks` ranks.
 *
 * Ranks of a CPU machine share its cores equally. A rank's compute lane has all of its cores, or one less if states
 * may be on the host, whose lane then has that one. Rates are those measured with as many threads; if only more were
 * measured, they are scaled down. A sixteenth of the machine's memory, at most 8 GiB, is not given to devices.
 */
#ifndef AH_PROFILER_PROFILE_RANK_H
#define AH_PROFILER_PROFILE_RANK_H

#include "base/error.h"
#include "schemas/cluster.h"
#include "schemas/machine.h"

struct ah_profile_rank_options {
    uint64_t ranks;        /* CPU machine only; 0: 1 */
    uint64_t device_bytes; /* for each rank's device; 0: its share of the profile's, if memory allows */
};

struct ah_profile_rank {
    uint64_t memory_bytes, reserved_bytes;     /* of its device */
    uint64_t compute_threads, host_threads;    /* 0 for a GPU */
    double bf16_flops_per_s, fp32_flops_per_s; /* 0: none, or not known */
    double adam_bytes_per_s;                   /* that AdamW moves on its device */

    /* The node with all its ranks. host_link_bytes_per_s is 0 if devices have all memory and the host keeps nothing. */
    uint64_t ranks, host_memory_bytes;
    double host_bytes_per_s; /* that AdamW moves on the host */
    double link_bytes_per_s; /* the slower direction */
    double host_link_bytes_per_s;
    double link_latency_us;
};

/* `name` stands for the machine in messages. AH_E_DOCUMENT: the profile lacks a rate. AH_E_USAGE: the options do not
 * fit such a machine. */
int ah_profile_rank_read(const struct ah_machine *machine, const char *name,
                         const struct ah_profile_rank_options *options, struct ah_profile_rank *ret_rank,
                         struct ah_error *err);

/* The type of GPU that stands for these ranks in a cluster document, without a name. */
struct ah_cluster_gpu ah_profile_rank_gpu(const struct ah_profile_rank *rank);

#endif
