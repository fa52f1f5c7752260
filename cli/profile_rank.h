/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank of a cluster has on a machine, as the machine's profile says it: a GPU, or a share of the cores and of the
 * memory of a CPU machine that has `ranks` of them.
 *
 * A rank of a CPU machine has an equal share of the cores. Its compute lane has all of them, or one less where states may be
 * on the host, whose lane has one. Rates are those of that many threads; in proportion, where only more were measured. A
 * sixteenth of the machine's memory, at most 8 GiB, is not given to devices.
 */
#ifndef AH_CLI_PROFILE_RANK_H
#define AH_CLI_PROFILE_RANK_H

#include "base/error.h"
#include "schemas/cluster.h"
#include "schemas/machine.h"

struct ah_profile_rank_options {
    uint64_t ranks;        /* of a CPU machine; 0: 1 */
    uint64_t device_bytes; /* of the device of each; 0: what the profile says, at most all that there is */
};

struct ah_profile_rank {
    uint64_t memory_bytes, reserved_bytes;     /* of its device */
    uint64_t compute_threads, host_threads;    /* 0 of a GPU */
    double bf16_flops_per_s, fp32_flops_per_s; /* 0: none, or not told */
    double adam_bytes_per_s;                   /* that AdamW moves on its device */

    /* The node with all its ranks. host_link_bytes_per_s is 0 if devices have all memory and the host keeps nothing. */
    uint64_t ranks, host_memory_bytes;
    double host_bytes_per_s; /* that AdamW moves on the host */
    double link_bytes_per_s; /* the slower direction */
    double host_link_bytes_per_s;
    double link_latency_us;
};

/* `name` is the machine's in messages. AH_E_DOCUMENT: the profile lacks a rate, AH_E_USAGE: the options are not for such a
 * machine. */
int ah_profile_rank_read(const struct ah_machine *machine, const char *name,
                         const struct ah_profile_rank_options *options, struct ah_profile_rank *ret_rank,
                         struct ah_error *err);

/* The type of GPU that these ranks are in a cluster document, without a name. */
struct ah_cluster_gpu ah_profile_rank_gpu(const struct ah_profile_rank *rank);

#endif
