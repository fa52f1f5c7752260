/* SPDX-License-Identifier: Apache-2.0
 *
 * The `cluster-plan` document: which GPUs of a cluster train which blocks, and how fast a step will be.
 *
 * PIPELINES share the batch. Each has its own `micro_batches`, which pass through its stages; together the stages hold
 * every block once. A STAGE is `tp` GPUs of one node that share a run of blocks. A RANK is a GPU's number in the
 * cluster document, counted node after node. SEGMENTS are runs of blocks that the same stages own in all pipelines.
 * Their gradients are added up over `groups`: each lists the ranks that hold the same slice, every rank once. A tied
 * table is a separate segment (`tied`).
 *
 * Usually each pipeline is one GROUP of micro-batches, whose gradients are added up separately. With `training.sums`,
 * the first pipeline computes the leading groups, each other one of the rest, so sums are added from the left.
 *
 * With SHARDING, the pipelines are equal GPUs of one machine, each with one stage of all blocks and the same program,
 * and each owns a part of all states (docs/planning.md, "Shards"). Micro-batch j of a step belongs to pipeline j mod n.
 * If that leaves some with one less than the program has, they skip its last. `inputs.cluster` is then the machine.
 *
 * The document has no host path or time of day: equal inputs give equal bytes. All its times are simulated.
 */
#ifndef AH_SCHEMAS_CLUSTER_PLAN_H
#define AH_SCHEMAS_CLUSTER_PLAN_H

#include "base/arena.h"
#include "schemas/plan.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define AH_TP_MODE_WORDS(X) X(AH_TP_SYMMETRIC, "symmetric") X(AH_TP_ASYMMETRIC, "asym")
/* The policies of other systems; `optimal` is ours. */
#define AH_CLUSTER_POLICY_OTHERS(X)                                                                          \
    X(AH_CLUSTER_POLICY_MEGATRON, "megatron") X(AH_CLUSTER_POLICY_WHALE, "whale")                            \
    X(AH_CLUSTER_POLICY_HEXISCALE, "hexiscale") X(AH_CLUSTER_POLICY_METIS, "metis")                          \
    X(AH_CLUSTER_POLICY_AUTOHET, "autohet")
#define AH_CLUSTER_POLICY_WORDS(X) X(AH_CLUSTER_POLICY_OPTIMAL, "optimal") AH_CLUSTER_POLICY_OTHERS(X)
/* clang-format on */
#define AH_WORD_VALUE(value, word) value,
enum ah_tp_mode { AH_TP_MODE_WORDS(AH_WORD_VALUE) };
enum ah_cluster_policy { AH_CLUSTER_POLICY_WORDS(AH_WORD_VALUE) AH_CLUSTER_POLICIES };
#undef AH_WORD_VALUE
extern const char *const ah_words_tp_mode[];
extern const char *const ah_words_cluster_policy[];

struct ah_cluster_plan_inputs {
    struct ah_plan_input model;
    struct ah_plan_input cluster; /* with sharding, the machine */
};

struct ah_cluster_plan_sharding {
    double fabric_bytes_per_s; /* rate at which each GPU sends to the others, and receives */
};

struct ah_cluster_plan_training {
    uint64_t batch;         /* sequences per step */
    uint64_t micro_batches; /* in all pipelines together; divides batch */
    uint64_t seq;
    enum ah_dtype dtype;
    enum ah_dtype state_dtype;
    double clip;            /* 0: none */
    const char **trainable; /* patterns as in plans; empty: everything is trained */
    size_t n_trainable;
    uint64_t *sums; /* groups that are added up separately, if the first pipeline has several; as in plans */
    size_t n_sums;  /* 0: each pipeline is one group */
};

/* A run of a stage's blocks with the same config. */
struct ah_cluster_plan_config {
    uint64_t first_block;
    uint64_t blocks;
    enum ah_activations activations;
    enum ah_weights weights;
    enum ah_optimizer optimizer;
};

struct ah_cluster_plan_stage {
    const char *node;
    const char *gpu; /* its type */
    uint64_t tp;
    uint64_t *ranks;
    size_t n_ranks;
    uint64_t first_block;
    uint64_t blocks;
    struct ah_cluster_plan_config *configs;
    size_t n_configs;
    uint64_t in_flight;    /* largest number of micro-batches whose activations the stage holds at once */
    uint64_t memory_bytes; /* per GPU, with the reserve */
    uint64_t capacity_bytes;
    uint64_t host_bytes; /* host memory of the node, for all GPUs of the stage */
    double forward_us;   /* per micro-batch */
    double backward_us;
    double send_us;   /* time to send the stage's output and its input's gradient */
    double update_us; /* time of the stage's own update */
    double busy_us;   /* time spent on computing and sending, per step */
    /* start times of its passes, ascending: a forward and a backward pass per micro-batch (docs/clusters.md) */
    uint64_t *starts_us;
    size_t n_starts_us;     /* two per micro-batch; 0: not given */
    uint64_t program;       /* index in `programs` of the program that its ranks run */
    double nic_bytes_per_s; /* of the node, each way; 0: not given */
};

struct ah_cluster_plan_pipeline {
    uint64_t micro_batches;
    double time_us; /* until the last backward of its last micro-batch */
    struct ah_cluster_plan_stage *stages;
    size_t n_stages;
};

struct ah_cluster_plan_group {
    uint64_t *ranks;
    size_t n_ranks;
};

struct ah_cluster_plan_segment {
    uint64_t first_block;
    uint64_t blocks;
    bool tied;       /* the table that embedding and head share */
    uint64_t bytes;  /* of its gradients, all slices */
    double start_us; /* time at which the sum begins */
    double time_us;  /* time of the sum when nothing else uses the network */
    struct ah_cluster_plan_group *groups;
    size_t n_groups;
};

struct ah_cluster_plan_predicted {
    double step_us;
    double pipelines_us; /* until the last backward of the slowest pipeline */
    double exposed_sync_us;
    double update_us;
    double bubble;             /* average fraction of the pipelines' time for which their GPUs wait */
    double programs_us;        /* first step of all programs, simulated together; 0: not given */
    double programs_period_us; /* a later step of all programs */
    double tokens_per_s;
    uint64_t bottleneck_pipeline; /* the pipeline and the stage that are busy longest */
    uint64_t bottleneck_stage;
    bool estimated; /* some costs were not measured */
};

struct ah_cluster_plan {
    const char *generator;
    struct ah_cluster_plan_inputs inputs;
    const struct ah_model *model; /* (optional) the model that `inputs` names */
    uint64_t blocks;              /* in the model */
    struct ah_cluster_plan_training training;
    enum ah_tp_mode tp_mode;
    enum ah_cluster_policy policy;
    unsigned *without; /* as in plans */
    size_t n_without;
    struct ah_cluster_plan_sharding *sharding; /* (optional) NULL: states are not shared */
    struct ah_cluster_plan_pipeline *pipelines;
    size_t n_pipelines;
    struct ah_cluster_plan_segment *segments;
    size_t n_segments;
    struct ah_plan *programs; /* the distinct programs of ranks; `part` says for which blocks */
    size_t n_programs;        /* 0: not given */
    uint64_t *idle_ranks;
    size_t n_idle_ranks;
    struct ah_cluster_plan_predicted predicted;
    struct ah_plan_solver solver;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

/* Returns the number of groups in the `sums` of the first pipeline's programs: the leading groups, which no other
 * pipeline computes. 0: there are none, because they add up like one group. */
size_t ah_cluster_plan_first_sums(const uint64_t *sums, size_t n_sums, size_t n_pipelines);

/* Returns the number of micro-batches that pipeline `p` computes if they are dealt to `n` in turn. */
uint64_t ah_cluster_plan_dealt(uint64_t micro_batches, size_t n, size_t p);

/* Describes one step of all pipelines as if one device trained it. The groups are those that the plan names. If it
 * names none, each of several pipelines is one group, in the form of ah_plan_join_sums(); with sharding, all are one
 * group. Borrows from the plan and
 * from `arena`. AH_E_MEMORY. */
int ah_cluster_plan_step(const struct ah_cluster_plan *plan, struct ah_arena *arena,
                         struct ah_plan_training *ret_training, struct ah_error *err);

/* Sets `ret_differs` if neither plan can continue the other's run with the same bits. `ret_path` comes from
 * ah_signature_differs() on their steps, or is "tp" if the stages of both plans differ in degree. Device kind and
 * `tied` are compared only if both plans have programs. AH_E_MEMORY. */
int ah_cluster_plan_differs(const struct ah_cluster_plan *a, const struct ah_cluster_plan *b,
                            bool *ret_differs, char ret_path[AH_SIGNATURE_PATH_MAX], struct ah_error *err);

#endif
