/* SPDX-License-Identifier: Apache-2.0
 *
 * The `cluster` document: nodes with GPUs of unequal kinds, and the network between them.
 *
 * Rates are achieved, not peak, unless a GPU type's `flops_origin` says peak; then plans scale them by the
 * efficiency that a profile of the type gives, and are flagged as estimated.
 */
#ifndef AH_SCHEMAS_CLUSTER_H
#define AH_SCHEMAS_CLUSTER_H

#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_flops_origin { AH_FLOPS_MEASURED, AH_FLOPS_PEAK };

struct ah_cluster_gpu {
    const char *name; /* of the type, unique: "a100-80g" */
    uint64_t memory_bytes;
    uint64_t reserved_bytes;
    double flops_per_s; /* bf16 matrix products */
    enum ah_flops_origin flops_origin;
    const char *machine_sha256; /* (optional) of the machine document that profiled it */
};

struct ah_cluster_node {
    const char *id;  /* unique */
    const char *gpu; /* name of a type */
    uint64_t gpus;
    double intra_bytes_per_s; /* between two GPUs of the node */
    double intra_latency_us;
    double nic_bytes_per_s; /* out of and into the node */
    double nic_latency_us;
    uint64_t host_memory_bytes;
    double disk_bytes_per_s; /* 0: no local disk */
    const char *zone;        /* (optional) */
    bool spot;               /* may be taken away */
};

/* Where two nodes are not connected at the lower of their NIC rates. */
struct ah_cluster_pair {
    const char *a, *b; /* node ids */
    double bytes_per_s;
    double latency_us;
};

struct ah_cluster_cloud {
    double node_bytes_per_s;  /* one node alone */
    double total_bytes_per_s; /* all together */
};

struct ah_cluster {
    const char *generator;
    const char *name;
    struct ah_cluster_gpu *gpus;
    size_t n_gpus;
    struct ah_cluster_node *nodes;
    size_t n_nodes;
    struct ah_cluster_pair *pairs;
    size_t n_pairs;
    struct ah_cluster_cloud *cloud; /* (optional) storage that outlives nodes */
    struct ah_text_pair *sources;
    size_t n_sources;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

/* The type of a node; never NULL in a document that was read. */
const struct ah_cluster_gpu *ah_cluster_gpu_of(const struct ah_cluster *cluster,
                                               const struct ah_cluster_node *node);

/* GPUs in all, and the sum of their rates. */
uint64_t ah_cluster_gpus(const struct ah_cluster *cluster);
double ah_cluster_flops_per_s(const struct ah_cluster *cluster);

#endif
