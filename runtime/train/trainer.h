/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainer: executes a plan on the lanes of a device: real weights, real data, real steps.
 *
 * LIFE. Open checks that the plan is of this model and training, binds its ops, opens the device, prepares and takes the
 * arenas, and fills weights: given ones, or initial ones. Run does so many steps and ends at a drained point; between
 * the steps of one run nothing is drained: iterations overlap as the plan says. At drained points weights and moments may
 * be read and written (checkpoints, saving) and held-out loss measured, in the same arena. Nothing is allocated after
 * open, but for evaluation's own small buffers by its caller.
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
 * PRECISION. Losses and weights are functions of model, training, data and seed, not of the plan, nor of orders.
 *
 * One thread uses a trainer. After an error of run or of the device, only close is of use.
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
struct ah_ways;

/* What a rank has of the model, and of the step. */
struct ah_trainer_stage {
    uint32_t pipeline;
    uint64_t first_block, blocks;
    uint64_t first_micro_batch, micro_batches;
    uint32_t node; /* of the plan; the two are for a pace (pace.h) alone */
    double nic_bytes_per_s;
};

/* A run of blocks whose gradients one rank of each pipeline adds up. Where it is tied: the table that embedding and head share. Then each
 * pipeline has two members, the rank with the head's copy and the rank with the embedding; this share is the last of a step. */
struct ah_trainer_share {
    uint64_t first_block, blocks;
    bool tied;
    const uint32_t
        *ranks; /* by pipeline, in the order of their micro-batches; tied: all heads, then all embeddings */
    double time_us,
        volume_bytes; /* planned, of the sum; through the NIC of each of several nodes, each way: for a pace alone */
};

enum { AH_SHARE_PIECE = 1 << 18 };

/* A trainer that is one of several: its plan is the part of one rank. All are opened together; then rank 0 does what this
 * header says, and the others follow (ah_trainer_follow()): they run, evaluate, give and take pieces when rank 0 does. */
struct ah_trainer_rank {
    struct ah_comm *comm; /* open, without channels; closed by its owner, behind the trainer */
    uint32_t rank, ranks;
    uint32_t before, behind;               /* in the pipeline, where there is one */
    const uint32_t *owner;                 /* by block of the model: of the first pipeline */
    const struct ah_trainer_stage *stages; /* by rank */
    const struct ah_trainer_share *shares; /* in the order in which they are added up */
    size_t n_shares;
    uint32_t pipelines;
    uint64_t share_piece;     /* elements that are added up at a time; 0: AH_SHARE_PIECE */
    uint64_t step_batch;      /* sequences of a step, of all pipelines */
    const char *const *hosts; /* (optional) their names, by rank, "" while unknown */
    struct ah_links *links;   /* (optional) opened before (links.h); NULL: the trainer opens its own */
    struct ah_ways *ways;     /* (optional) of all ranks: ops and messages take as long as planned (pace.h) */
    bool apart; /* of rank 0: nobody else writes or reads checkpoints, even where all see the folder */
};

/* How many `ranks` a share has. */
static inline uint32_t ah_trainer_share_members(const struct ah_trainer_rank *rank,
                                                const struct ah_trainer_share *share)
{
    return share->tied ? 2 * rank->pipelines : rank->pipelines;
}

/* Is this member the first of its rank? */
static inline bool ah_trainer_share_is_first(const struct ah_trainer_share *share, uint32_t member)
{
    uint32_t m = 0;
    while (share->ranks[m] != share->ranks[member])
        m++;
    return m == member;
}

/* Does a rank take part in a share? */
bool ah_trainer_shares(const struct ah_trainer_rank *rank, const struct ah_trainer_share *share,
                       uint32_t which);

/* Where a rank is, as it tells rank 0 about once a second. What it waits for keeps it from going on: else it works. */
#define AH_BEAT_NONE UINT32_MAX
struct ah_trainer_beat {
    uint64_t step;          /* the last one that it knows to be done */
    bool has_op;            /* on the lane compute: under way, or next; the three below describe it */
    uint32_t op;            /* enum ah_plan_op_kind */
    uint32_t block;         /* of the model; AH_BEAT_NONE: of none */
    uint32_t micro_batch;   /* in the rank's pipeline; AH_BEAT_NONE: of none */
    bool waits;             /* for a message; those below describe it */
    bool sends;             /* the peer is to take it; else to send it */
    uint32_t peer, purpose; /* enum ah_links_purpose */
    uint64_t message;  /* messages of the channel before it; of outputs and gradients: which micro-batch */
    uint64_t waits_ns; /* for how long so far, as far as beats saw it */
};

/* Steps of a run whose ops are kept: those from `first` on, by number. */
struct ah_recorded_steps {
    uint64_t first, n; /* n 0: none */
};

struct ah_trainer_options {
    const struct ah_model *model; /* borrowed, as all pointers here, until close */
    const struct ah_plan *plan;   /* of this model */
    const struct ah_device_driver *driver;
    struct ah_device_options device; /* `queue` and `spans` 0: as the plan needs */
    struct ah_batches *batches;      /* of the plan's batch and seq; of a rank: of all pipelines' batch */
    bool documents;                  /* held-out data have documents; those of `batches` say so themselves */
    struct ah_rate rate;
    double beta1, beta2, epsilon, weight_decay;
    uint64_t seed;       /* of initial weights and of rounding */
    const char *weights; /* (optional) files to begin with (runtime/model/weights.h); NULL: initial weights */
    struct ah_pool *pool; /* (optional) for initial weights; during open only */
    uint64_t
        steps_before; /* of a run that is gone on with: the next step is the one after; data go on there, too */
    const struct ah_trainer_rank *rank; /* (optional) NULL: this trainer alone trains the model */
    struct ah_recorded_steps
        recorded; /* (optional) of ranks, alike on all: for ah_recorded_collect() (recorded.h) */

    /* Where ranks are is told whether or not anyone has patience with the devices: alike on all ranks. Rank 0 hears it, by rank, about
     * once a second and at the end, on a thread of its own, which should not be held up; a trainer alone of itself. */
    bool tells;
    void (*heard)(void *context, const struct ah_trainer_beat *beats, uint32_t ranks); /* (optional) */
    void (*asked)(
        void *context,
        uint32_t rank); /* (optional) on that thread: from now on, until `heard`, this rank is waited for */
    void *heard_context;
};

/* A step that is done. */
struct ah_step_record {
    uint64_t step;    /* from 1 */
    double loss;      /* mean over loss-bearing tokens, before the step; 0 where there are none */
    double grad_norm; /* before clipping; 0 where the plan does not clip */
    double rate;
    uint64_t tokens; /* loss-bearing ones */
    uint64_t end_ns; /* when the last op of its round ended, on the host's monotonic clock */
    uint64_t busy_ns[AH_DEVICE_LANES]; /* of its round */
    uint64_t h2d_bytes, d2h_bytes;     /* the same */
};

/* When an op of the plan, or one that no plan mentions, was done. */
struct ah_op_record {
    uint64_t step; /* of the round that it was submitted in */
    uint32_t lane; /* enum ah_device_lane */
    size_t
        op; /* of the plan; SIZE_MAX: of none: data and headers of steps, the loss; messages that arrive, sums */
    uint64_t tile;                       /* of a message that arrives: its micro-batch */
    uint64_t ticket;                     /* of its lane; of several, the last */
    uint64_t ready_ns, start_ns, end_ns; /* as in struct ah_span */
};

/* Told of each step in order, on the caller's thread, while later ones run. False: stop; steps that are under way are
 * ended and told, at most two. */
struct ah_observer {
    bool (*step)(void *context, const struct ah_step_record *record);
    void *context;
    /* (optional) Told of each primitive op that is done, before the record of its step; of a lane in their order. An op of
     * the plan is several of them, of which some may be told of together (ah_trainer_time_ops()). */
    void (*op)(void *context, const struct ah_op_record *record);
};

struct ah_trainer_facts {
    uint64_t steps;                         /* done, those before included */
    uint64_t arena_bytes[AH_ARENA_KINDS];   /* taken */
    uint64_t touched_bytes[AH_ARENA_KINDS]; /* highest end of an operand of any op */
    uint64_t reserve_bytes;                 /* device memory beside the arena */
};

/* AH_E_MISMATCH: the plan is not of this model, training or data. Errors of the device, of weights, of memory. */
int ah_trainer_open(struct ah_trainer **ret_trainer, const struct ah_trainer_options *options,
                    struct ah_error *err);

/* From now on the observer hears of each primitive op by itself, on every device. Otherwise a device may tell of ops of an item
 * that follow each other as of one, which costs it less. */
void ah_trainer_time_ops(struct ah_trainer *trainer);

/* Does `steps` steps, fewer where the observer (optional) says stop, and drains. AH_E_NUMERIC: the loss of a step is not
 * finite. Errors of data and device. */
int ah_trainer_run(struct ah_trainer *trainer, uint64_t steps, const struct ah_observer *observer,
                   struct ah_error *err);

struct ah_trainer_evaluation {
    double loss;     /* mean over `tokens` */
    uint64_t tokens; /* that bear loss: not masked, and not the first of a document */
};

/* Mean loss over all loss-bearing tokens of held-out batches, of the plan's batch and seq. AH_E_INTERRUPTED once `cancel`
 * (optional) is not 0. After that, and after errors of the data where one trainer trains all, it still trains and can be saved. */
int ah_trainer_evaluate(struct ah_trainer *trainer, struct ah_batches *held_out, const atomic_int *cancel,
                        struct ah_trainer_evaluation *ret_evaluation, struct ah_error *err);

enum ah_trainer_vector { AH_TRAINER_WEIGHTS, AH_TRAINER_M, AH_TRAINER_V };

/* The values of a piece, and new ones; of weights those that training goes on with (masters). Moments of frozen tensors
 * are zeros that cannot be written (AH_E_USAGE). */
int ah_trainer_read(struct ah_trainer *trainer, enum ah_trainer_vector vector,
                    const struct ah_weights_piece *piece, float *ret_values, struct ah_error *err);
int ah_trainer_write(struct ah_trainer *trainer, enum ah_trainer_vector vector,
                     const struct ah_weights_piece *piece, const float *values, struct ah_error *err);

/* ah_trainer_read() of weights, as a source of ah_weights_save(): `context` is the trainer. */
int ah_trainer_give(void *context, const struct ah_weights_piece *piece, float *ret_values,
                    struct ah_error *err);

struct ah_trainer_facts ah_trainer_facts(const struct ah_trainer *trainer);

/* For timelines: its spans are tagged with the item of the round; those of messages that arrive with their micro-batch behind all
 * items; others with UINT64_MAX. */
struct ah_device *ah_trainer_device(struct ah_trainer *trainer);

/* Of a rank but 0: does what rank 0 does, until that closes its trainer. `held_out` (optional): the same as rank 0's. Errors of
 * all of that; AH_E_PEER where another rank is lost, or the code of what made it fail. */
int ah_trainer_follow(struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err);

/* Ends what is under way and frees; NULL is fine. Rank 0 tells the others that it is over. */
void ah_trainer_close(struct ah_trainer *trainer);

#endif
