/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainer: executes a plan on the lanes of a device, with real weights and data.
 *
 * LIFE. Open checks that the plan is for this model and training, binds its ops, opens the device, reserves the arenas,
 * and fills in weights, given or initial. Run does a number of steps and ends at a drained point. Between steps nothing
 * is drained: iterations overlap as the plan says. At drained points, weights and moments may be read and written (for
 * checkpoints), and held-out loss may be measured in the same arena. After open, only the caller of an evaluation
 * allocates: small buffers.
 *
 *     struct ah_trainer *trainer;
 *     rc = ah_trainer_open(&trainer, &options, err);
 *     rc = ah_trainer_run(trainer, 100, &(struct ah_observer){.step = on_step, .context = log}, err);
 *     rc = ah_trainer_evaluate(trainer, &held_out, NULL, &evaluation, err);
 *     rc = ah_weights_save(model, &(struct ah_weights_source){ah_trainer_give, trainer}, ...);
 *     ah_trainer_close(trainer);
 *
 * ORDER. Lanes take their items in the plan's frozen orders, queued a round ahead.
 *
 * PRECISION. Losses and weights depend on model, training, data and seed, but not on the plan or its orders.
 *
 * One thread uses a trainer. After an error of run or of the device, the trainer can only be closed.
 */
#ifndef AH_RUNTIME_TRAIN_TRAINER_H
#define AH_RUNTIME_TRAIN_TRAINER_H

#include "base/pool.h"
#include "runtime/device/device.h"
#include "runtime/model/weights.h"
#include "runtime/train/data/batches.h"
#include "runtime/train/rate.h"
#include "schemas/plan.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ah_trainer;
struct ah_comm;
struct ah_links;
struct ah_paced_nics;

/* The part of the model and of a step that one rank trains. */
struct ah_trainer_stage {
    uint32_t pipeline;
    uint64_t first_block, blocks;
    uint64_t first_micro_batch, micro_batches;
    uint32_t node; /* node of the plan; used only for a pace (pace.h), like nic_bytes_per_s */
    double nic_bytes_per_s;
};

/* A run of blocks whose gradients are added up over one rank of each pipeline. A tied share, always the last, is the
 * table. It has two members per pipeline: the ranks with the head's copy and with the embedding. */
struct ah_trainer_share {
    uint64_t first_block, blocks;
    bool tied;
    /* By pipeline, in the order of their micro-batches. If tied: all ranks with a head, then all with an embedding. */
    const uint32_t *ranks;
    double time_us,
        /* Planned time of the sum, and planned bytes through each node's NIC in each direction; only for a pace. */
        volume_bytes;
};

enum { AH_SHARE_PIECE = 1 << 18 };

/* The place of a trainer that is one of several and runs one rank's program. All are opened together. Then rank 0 uses
 * this header, and the others call ah_trainer_follow(): they run, evaluate, read and write pieces when rank 0 does. */
struct ah_trainer_rank {
    struct ah_comm *comm; /* open, without channels; its owner closes it after the trainer */
    uint32_t rank, ranks;
    uint32_t before, behind; /* the neighbours in the pipeline, if they exist */
    const uint32_t *owner;   /* by block of the model: the rank that owns it in the first pipeline */
    const struct ah_trainer_stage *stages; /* by rank */
    const struct ah_trainer_share *shares; /* in the order of their sums */
    size_t n_shares;
    uint32_t pipelines;
    /* True if the ranks share all states (docs/planning.md, "Shards"). Each is a pipeline of one stage, and rank r
     * computes micro-batches r, r + ranks, ... of a step. */
    bool shards;
    uint64_t share_piece;     /* number of elements added up at a time; 0: AH_SHARE_PIECE */
    uint64_t step_batch;      /* number of sequences in a step, over all pipelines */
    const char *const *hosts; /* (optional) host names by rank; "" while unknown */
    struct ah_links *links;   /* (optional) already opened (links.h); NULL: the trainer opens its own */
    /* (optional) If set, on all ranks: ops and messages take as long as planned (pace.h). */
    struct ah_paced_nics *nics;
    /* for rank 0: it writes and reads checkpoints alone, even if all ranks see the folder */
    bool saves_alone;
};

/* Returns the length of a share's `ranks`. */
static inline uint32_t ah_trainer_share_members(const struct ah_trainer_rank *rank,
                                                const struct ah_trainer_share *share)
{
    return share->tied ? 2 * rank->pipelines : rank->pipelines;
}

/* True if no earlier member is the same rank. */
static inline bool ah_trainer_share_is_first(const struct ah_trainer_share *share, uint32_t member)
{
    uint32_t m = 0;
    while (share->ranks[m] != share->ranks[member])
        m++;
    return m == member;
}

/* True if rank `which` takes part in a share. */
bool ah_trainer_shares(const struct ah_trainer_rank *rank, const struct ah_trainer_share *share,
                       uint32_t which);

/* A rank's progress, reported to rank 0 about once a second. A rank either waits for a message, or it works. */
#define AH_BEAT_NONE UINT32_MAX
struct ah_trainer_beat {
    uint64_t step;  /* the last step that the rank knows to be done */
    bool has_op;    /* the lane compute runs an op, or has a next one; the next three fields describe it */
    uint32_t op;    /* enum ah_plan_op_kind */
    uint32_t block; /* of the model; AH_BEAT_NONE: none */
    uint32_t micro_batch;   /* in the rank's pipeline; AH_BEAT_NONE: none */
    bool waits;             /* the rank waits for a message; the fields below describe it */
    bool sends;             /* true: it waits until the peer receives; false: until the peer sends */
    uint32_t peer, purpose; /* enum ah_links_purpose */
    /* number of earlier messages of the channel; for outputs and gradients, the micro-batch */
    uint64_t message;
    uint64_t waits_ns; /* the wait so far, as seen by beats */
};

/* The steps whose ops are recorded: `n` steps, from number `first` on. */
struct ah_recorded_steps {
    uint64_t first, n; /* n = 0: none */
};

struct ah_trainer_options {
    const struct ah_model *model; /* borrowed until close, like all pointers here */
    const struct ah_plan *plan;   /* of this model */
    const struct ah_device_driver *driver;
    struct ah_device_options device; /* `queue` and `spans` may be 0: then the plan decides */
    struct ah_batches *batches; /* with the plan's batch and seq; for a rank, the batch of all pipelines */
    bool documents;             /* held-out data have documents (for training data, `batches` knows) */
    struct ah_rate rate;
    double beta1, beta2, epsilon, weight_decay;
    uint64_t seed; /* for initial weights and for rounding */
    /* (optional) files of weights to start with (runtime/model/weights.h); NULL: initial weights */
    const char *weights;
    const char *adapter;   /* (optional) folder of adapters to begin with; NULL: initial adapters */
    struct ah_pool *pool;  /* (optional) for initial weights; during open only */
    uint64_t steps_before; /* number of steps done before a resume; the next step and its data follow them */
    const struct ah_trainer_rank *rank; /* (optional) NULL: this is the only trainer of the model */
    /* (optional) For ranks, the same on all: the steps for ah_recorded_collect() (recorded.h). */
    struct ah_recorded_steps recorded;

    /* True to report progress, even without a watch of devices; the same on all ranks. About once a second and at the
     * end, rank 0 gets beats of all ranks, a single trainer its own. A thread calls `heard`, which must not block. */
    bool tells;
    void (*heard)(void *context, const struct ah_trainer_beat *beats, uint32_t ranks); /* (optional) */
    void (*asked)(void *context,
                  /* (optional) Called on the same thread when it begins to wait for a rank's beat. */
                  uint32_t rank);
    void *heard_context;
};

/* The record of a finished step. */
struct ah_step_record {
    uint64_t step; /* from 1 */
    double loss; /* mean over loss-bearing tokens, with the weights before the step; 0 without such tokens */
    double grad_norm; /* before clipping; 0 if the plan does not clip */
    double rate;
    uint64_t tokens;                   /* number of loss-bearing tokens */
    uint64_t end_ns;                   /* end of the last op of its round, on the host's monotonic clock */
    uint64_t busy_ns[AH_DEVICE_LANES]; /* time for which each lane worked in its round */
    uint64_t h2d_bytes, d2h_bytes;     /* bytes copied in its round */
};

/* The record of a finished op, which may be one that no plan mentions. */
struct ah_op_record {
    uint64_t step; /* step of the round in which it was submitted */
    uint32_t lane; /* enum ah_device_lane */
    size_t op; /* index of the plan's op; SIZE_MAX if it has none: data, headers, the loss, receives, sums */
    uint64_t tile;                       /* for a receive: its micro-batch */
    uint64_t ticket;                     /* ticket in its lane; of several joined ops, the last */
    uint64_t ready_ns, start_ns, end_ns; /* as in struct ah_span */
};

/* Called for each step in order, on the caller's thread, while later steps run. If it returns false, the run stops;
 * steps in progress, at most two, are finished and reported. */
struct ah_observer {
    bool (*step)(void *context, const struct ah_step_record *record);
    void *context;
    /* (optional) Called for each finished primitive op, before the record of its step, in order within a lane. An op of
     * the plan has several primitive ops, and some of these may share a record (ah_trainer_time_ops()). */
    void (*op)(void *context, const struct ah_op_record *record);
};

/* Returns the device's lane for ops of a plan's lane, except sends, which have a lane of their own. */
static inline uint32_t ah_trainer_lane(enum ah_plan_lane lane)
{
    return lane == AH_PLAN_LANE_NET ? (uint32_t)AH_LANE_SUMS : (uint32_t)lane;
}

struct ah_trainer_facts {
    uint64_t steps;                         /* number of steps done, earlier runs included */
    uint64_t arena_bytes[AH_ARENA_KINDS];   /* size of each arena */
    uint64_t touched_bytes[AH_ARENA_KINDS]; /* highest end of an operand of any op */
    uint64_t reserve_bytes;                 /* device memory outside the arena */
};

/* Opens a trainer. AH_E_MISMATCH: the plan is not for this model, training or data. Errors of device, weights,
 * memory. */
int ah_trainer_open(struct ah_trainer **ret_trainer, const struct ah_trainer_options *options,
                    struct ah_error *err);

/* Makes the observer get every primitive op from now on. Otherwise a device may join consecutive ops of an item. */
void ah_trainer_time_ops(struct ah_trainer *trainer);

/* Does `steps` steps, or fewer if the observer (optional) stops the run, and drains. AH_E_NUMERIC: the loss or gradient
 * of a step is not finite. Errors of data and device. */
int ah_trainer_run(struct ah_trainer *trainer, uint64_t steps, const struct ah_observer *observer,
                   struct ah_error *err);

struct ah_trainer_evaluation {
    double loss;     /* mean over `tokens` */
    uint64_t tokens; /* number of loss-bearing tokens: not masked, and not the first of a document */
};

/* Computes the mean loss over loss-bearing tokens of held-out batches, with the plan's batch and seq. AH_E_INTERRUPTED
 * once `cancel` (optional) is not 0. Then, or after a data error of a single trainer, training can continue. */
int ah_trainer_evaluate(struct ah_trainer *trainer, struct ah_batches *held_out, const atomic_int *cancel,
                        struct ah_trainer_evaluation *ret_evaluation, struct ah_error *err);

enum ah_trainer_vector { AH_TRAINER_WEIGHTS, AH_TRAINER_M, AH_TRAINER_V };

/* Read and write the values of a piece. Weights are the masters, which training updates. Moments of frozen tensors are
 * zeros that cannot be written (AH_E_USAGE). */
int ah_trainer_read(struct ah_trainer *trainer, enum ah_trainer_vector vector,
                    const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err);
int ah_trainer_write(struct ah_trainer *trainer, enum ah_trainer_vector vector,
                     const struct ah_weights_piece *piece, const float *values, struct ah_error *err);

/* Reads weights with ah_trainer_read(), as a source for ah_weights_save(). `context` is the trainer. */
int ah_trainer_give(void *context, const struct ah_weights_piece *piece, float *ret_values,
                    struct ah_error *err);

struct ah_trainer_facts ah_trainer_facts(const struct ah_trainer *trainer);

/* Returns the device, for timelines. Tags of spans: the item; for a receive, items + micro-batch; else UINT64_MAX. */
struct ah_device *ah_trainer_device(struct ah_trainer *trainer);

/* Does what rank 0 does, on any other rank, until rank 0 closes its trainer. `held_out` (optional) is the same as rank
 * 0's. Errors of all functions above; AH_E_PEER if another rank is lost, or the error that made that rank fail. */
int ah_trainer_follow(struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err);

/* Ends the work in progress and frees the trainer; NULL is fine. Rank 0 tells the others that the run has ended. */
void ah_trainer_close(struct ah_trainer *trainer);

#endif
