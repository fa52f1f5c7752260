/* SPDX-License-Identifier: Apache-2.0
 *
 * The `cluster` document: nodes with GPUs of different types, and the network between them. If `device` is the CPU, a
 * "GPU" is a rank that computes on cores of its node's host, with its own part of the host's memory.
 *
 * Rates are achieved, not peak, unless a GPU type's `flops_origin` says peak. Plans scale peak rates by the efficiency
 * in a profile of the type, and are flagged as estimated.
 */
#ifndef AH_SCHEMAS_CLUSTER_H
#define AH_SCHEMAS_CLUSTER_H

#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_flops_origin { AH_FLOPS_MEASURED, AH_FLOPS_PEAK };

struct ah_cluster_gpu {
    const char *name; /* name of the type, unique: "a100-80g" */
    uint64_t memory_bytes;
    uint64_t reserved_bytes;
    double flops_per_s;      /* rate of bf16 matrix products; 0: the GPU has none */
    double fp32_flops_per_s; /* rate of fp32 products; 0: unknown, assumed to equal bf16 */
    enum ah_flops_origin flops_origin;
    double
        memory_bytes_per_s; /* of the GPU's own memory; 0: unknown, so ops that only move bytes cost nothing */
    uint64_t compute_threads;   /* CPU: cores of a rank's compute lane; GPU: 0 */
    uint64_t host_threads;      /* CPU: cores of a rank's host lane; GPU: 0 */
    const char *machine_sha256; /* (optional) digest of the machine document with its profile */
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
    double host_memory_bytes_per_s; /* host memory bandwidth of AdamW on all cores */
    double
        host_link_bytes_per_s; /* from the host to each GPU, and back; 0: unknown, so the host holds nothing */
    double disk_bytes_per_s;   /* 0: no local disk */
    const char *zone;          /* (optional) */
    bool spot;                 /* the provider may reclaim the node at any time */
};

/* The connection of two nodes, if it is not the lower of their NIC rates. */
struct ah_cluster_pair {
    const char *a, *b; /* node ids */
    double bytes_per_s;
    double latency_us;
};

/* The measured passes of a block over one micro-batch, on `tp` GPUs of one type that share the block. */
struct ah_cluster_time {
    const char *model_sha256; /* ah_document_digest() of the model */
    const char *group;        /* group of blocks: "embedding", "layer", "head" */
    const char *gpu;          /* name of a type */
    uint64_t tp;
    uint64_t sequences; /* in the micro-batch */
    uint64_t seq;
    enum ah_dtype dtype;
    enum ah_activations activations;
    double forward_us; /* includes communication between the GPUs */
    double backward_us;
};

struct ah_cluster_cloud {
    double node_bytes_per_s;  /* rate of one node alone */
    double total_bytes_per_s; /* rate of all nodes together */
};

struct ah_cluster {
    const char *generator;
    const char *name;
    enum ah_device_kind device; /* of every rank */
    struct ah_cluster_gpu *gpus;
    size_t n_gpus;
    struct ah_cluster_node *nodes;
    size_t n_nodes;
    struct ah_cluster_pair *pairs;
    size_t n_pairs;
    struct ah_cluster_time *times; /* no two for the same pass */
    size_t n_times;
    struct ah_cluster_cloud *cloud; /* (optional) storage that outlives nodes */
    struct ah_text_pair *sources;
    size_t n_sources;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

/* Returns the GPU type of a node; never NULL in a document that was read. */
const struct ah_cluster_gpu *ah_cluster_gpu_of(const struct ah_cluster *cluster,
                                               const struct ah_cluster_node *node);

/* The rate and latency from node `a` to node `b`: those of their pair, else of their two NICs, or inside the node. */
struct ah_cluster_link {
    double bytes_per_s;
    double latency_us;
};
struct ah_cluster_link ah_cluster_link_of(const struct ah_cluster *cluster, size_t a, size_t b);

/* Returns the rate of matrix products of `dtype`; 0: the GPU has none. */
double ah_cluster_gpu_flops_per_s(const struct ah_cluster_gpu *gpu, enum ah_dtype dtype);

/* True if every GPU type has matrix products of that dtype; otherwise `ret_gpu` is the name of a type without them. */
bool ah_cluster_has(const struct ah_cluster *cluster, enum ah_dtype dtype, const char **ret_gpu);

/* Return the number of GPUs; the sum of their rates of bf16 products, or of fp32 products if a type has no bf16. */
uint64_t ah_cluster_gpus(const struct ah_cluster *cluster);
double ah_cluster_flops_per_s(const struct ah_cluster *cluster);

#endif
