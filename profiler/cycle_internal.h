/* SPDX-License-Identifier: Apache-2.0
 *
 * Cycle: the compute lane's work in an iteration of training, but with fewer layers. It has the embedding, layers of
 * every group and the head, forward upwards and backward downwards, as the ops that a run submits
 * (runtime/schedule/program.h).
 *
 * Every block has separate memory for weights, gradients, inputs and saved activations. So operands are as cold in
 * caches as in a run, where all other blocks run between two passes of a block. Scratch and the residual stream's
 * gradient are shared, as in a plan. Layers keep, save selectively and recompute in turn. If a group has fewer than
 * three layers, the cycle has a turn per config, and each layer changes its config from turn to turn.
 *
 *     rc = ah_cycle_init(&cycle, job, &(struct ah_cycle_limits){.layers = 4, .bytes = 1 << 30}, err);
 *     ... open a device, prepare cycle.ops, reserve cycle.arena_bytes ...
 *     rc = ah_cycle_fill(&cycle, device, err);
 *     ... submit cycle.ops in order ...
 *     ah_cycle_release(&cycle);
 */
#ifndef AH_PROFILER_CYCLE_INTERNAL_H
#define AH_PROFILER_CYCLE_INTERNAL_H

#include "runtime/device/device.h"
#include "runtime/schedule/program.h"

enum { AH_CYCLE_BLOCKS_MAX = 128 };

/* The data of programs for a data set without documents. */
enum ah_cycle_datum {
    AH_CYCLE_TOKENS,
    AH_CYCLE_TARGETS,
    AH_CYCLE_MASK,
    AH_CYCLE_ROPE_TABLE,
    AH_CYCLE_WINDOW_ROPE_TABLE,
    AH_CYCLE_LOSS_SCALE,
    AH_CYCLE_LOSS_SUM,
    AH_CYCLE_DATA
};

struct ah_cycle_limits {
    uint64_t layers; /* largest number of layers of each group, at least 1 */
    uint64_t bytes;  /* largest size of the device arena */
};

struct ah_cycle_block {
    const struct ah_job_group *group; /* borrowed from the job */
    uint64_t number;                  /* number among the blocks of its group in the cycle */
    struct ah_ref weights, gradients, saved, input;
};

struct ah_cycle_pass {
    const struct ah_job_group *group;
    enum ah_pass pass;
    enum ah_activations activations;
    size_t end; /* index of the op after the pass, whose ops begin at the end of the previous pass */
};

struct ah_cycle {
    const struct ah_job *job; /* borrowed */
    struct ah_cycle_block blocks[AH_CYCLE_BLOCKS_MAX];
    size_t n_blocks;
    struct ah_ref scratch, residual_gradient, data[AH_CYCLE_DATA], stage;
    uint64_t arena_bytes[AH_ARENA_KINDS];
    struct ah_op *ops; /* owned; the ops of all turns */
    size_t n_ops, ops_room;
    struct ah_cycle_pass *passes; /* owned; in the order of the ops */
    size_t n_passes, passes_room;
};

/* Makes a cycle; if `limits->layers` do not fit, it has fewer. AH_E_CAPACITY: not even one layer of each group fits. */
int ah_cycle_init(struct ah_cycle *ret_cycle, const struct ah_job *job, const struct ah_cycle_limits *limits,
                  struct ah_error *err);

/* Returns the operations of matrix products and attention in all turns. */
double ah_cycle_flops(const struct ah_job *job, uint64_t layers);

/* Fills weights and data with values like those at the start of a run. */
int ah_cycle_fill(const struct ah_cycle *cycle, struct ah_device *device, struct ah_error *err);

/* Frees the cycle. A zeroed one is fine. */
void ah_cycle_release(struct ah_cycle *cycle);

#endif
