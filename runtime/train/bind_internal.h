/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the binder. bind.c visits the items. bind_pass.c binds forward and backward, bind_tiles.c ops
 * on parts of vectors, bind_shares.c sums over ranks, bind_net.c ops of ranks that share states, and bind_table.c ops
 * for a table that two blocks hold.
 */
#ifndef AH_RUNTIME_TRAIN_BIND_INTERNAL_H
#define AH_RUNTIME_TRAIN_BIND_INTERNAL_H

#include "runtime/schedule/fold.h"
#include "runtime/train/bind.h"

struct ah_binder {
    const struct ah_plan *plan;
    const struct ah_job *job;
    const struct ah_addresses *addresses;
    const struct ah_graph *graph;
    const struct ah_bind_options *options;
    bool documents;
    struct ah_bound *bound;
    struct ah_error *err;
};

/* Appends an empty op and returns it. Returns NULL, with `err` set, if there is no memory. */
struct ah_bound_op *ah_bind_push(struct ah_binder *binder, enum ah_op_kind kind);

/* Returns where `vector` has element `first` of the trained vector. `run` must contain that element. */
struct ah_ref ah_bind_at(const struct ah_vector *vector, const struct ah_run_of_elements *run,
                         uint64_t first);

/* Binds a copy of `bytes` between two operands with their moves. */
int ah_bind_copy(struct ah_binder *binder, struct ah_ref dst, uint8_t dst_move, struct ah_ref src,
                 uint8_t src_move, uint64_t bytes);

/* Binds an op that casts one vector into another, or adds it to the other. */
int ah_bind_elements(struct ah_binder *binder, enum ah_op_kind kind, struct ah_ref dst, struct ah_ref src,
                     uint8_t src_move, uint64_t count);

/* Binds an op that adds the sum of squares of a part of a block's gradient to the block's double in `sums`. */
int ah_bind_squares(struct ah_binder *binder, struct ah_ref sums, uint64_t block, struct ah_ref src,
                    struct ah_stretch part);

/* Find a gradient of a block on the device at `position`: that of one micro-batch, the sum of all, or a group's sum. */
int ah_bind_gradient(const struct ah_binder *binder, uint64_t block, uint64_t micro_batch, uint64_t position,
                     struct ah_ref *ret_ref);
int ah_bind_gradient_sum(const struct ah_binder *binder, uint64_t block, uint64_t position,
                         struct ah_ref *ret_ref);
int ah_bind_group_sum(const struct ah_binder *binder, uint64_t block, uint64_t position,
                      struct ah_ref *ret_ref);

/* Finds this rank's part of a block's sum on the device, if ranks share states. */
int ah_bind_own_sum(const struct ah_binder *binder, uint64_t block, uint64_t position,
                    struct ah_ref *ret_ref);

/* The operands of ops that add one micro-batch's gradient to its sum, in any memory. */
struct ah_bind_sums {
    struct ah_ref total, separate; /* `separate`: the sum of its group, if the fold needs one */
    struct ah_ref gradient;
    uint8_t gradient_move;
    uint64_t elements;
};
int ah_bind_add(struct ah_binder *binder, const struct ah_bind_sums *sums, struct ah_fold fold);

bool ah_bind_sums_on(const struct ah_binder *binder, uint64_t block, enum ah_accumulator where);

/* Finds the tensor of fetched weights of a block that the compute op at `position` uses and that has `bytes` bytes. */
int ah_bind_fetched(const struct ah_binder *binder, uint64_t block, uint64_t position, uint64_t bytes,
                    struct ah_ref *ret_ref);

/* Binds a message to a neighbour, or from one. */
int ah_bind_message(struct ah_binder *binder, enum ah_channel channel, uint64_t micro_batch);

/* bind_pass.c: binds the ops of a forward or backward. */
int ah_bind_pass(struct ah_binder *binder, const struct ah_graph_item *item, uint64_t position);

/* bind_shares.c: binds the ops that add up a share's gradients, and those that sum the squares of the total. */
int ah_bind_share_ops(struct ah_binder *binder, size_t share);
/* True if a block's gradient on this rank is part of a sum over ranks. Then ops of the share sum its squares. */
bool ah_bind_shares(const struct ah_binder *binder, uint64_t block);

/* bind_table.c, for a head with a copy of the embedding's table (job.h, copies_table). Returns the part of a block's
 * gradient that counts in the norm. Only the copy does not. */
struct ah_stretch ah_bind_counted(const struct ah_binder *binder, uint64_t block);

/* Returns the elements of the table, or of its copy, in the trained vector of its block. */
struct ah_stretch ah_bind_table(const struct ah_binder *binder, uint64_t block);

/* True if `part` of a block's trained vector is in a copy of the table. */
bool ah_bind_is_copy(const struct ah_binder *binder, uint64_t block, struct ah_stretch part);

/* On one rank: adds the copy's gradient to the table's after the step's last gradient, and copies the total back. */
int ah_bind_join(struct ah_binder *binder, uint64_t position);

/* bind_net.c: binds the ops of a scatter or an all_gather. */
int ah_bind_net(struct ah_binder *binder, const struct ah_graph_item *item);

/* bind_tiles.c: binds the ops of any other item. */
int ah_bind_tile(struct ah_binder *binder, const struct ah_graph_item *item);

#endif
