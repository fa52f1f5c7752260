/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler's state, which positions.c, lanes.c and tensors.c fill in turn (compile.c).
 */
#ifndef AH_RUNTIME_SCHEDULE_COMPILE_INTERNAL_H
#define AH_RUNTIME_SCHEDULE_COMPILE_INTERNAL_H

#include "runtime/schedule/fold.h"
#include "runtime/schedule/schedule_internal.h"

enum { COMPILE_NONE = UINT32_MAX };

/* A tile of an update on the device (`op`). `after` is the index in `base` of the op after which it runs. */
struct compile_attached {
    uint32_t after;
    uint32_t op;
};

struct compile {
    const struct ah_job *job;
    const struct ah_costs *costs;
    const struct ah_knobs *knobs;
    const struct ah_config *configs;
    const double *base_us; /* of the choice (struct ah_choice) */
    struct ah_compiled *out;
    size_t n_blocks, micro_batches;
    bool clip;
    /* True if updates come after the iteration's last gradient or, in a part, after its last op in `base`. */
    bool late_updates;

    struct ah_plan_op *ops;
    size_t n_ops;
    uint32_t *compute; /* op by position */
    size_t n_compute;
    uint32_t *last_position; /* by op of the compute lane */

    uint32_t *base;      /* forward and backward ops and sends, in order */
    double *base_end_us; /* end of each op of `base`; covers two iterations */
    size_t n_base;
    uint32_t *send_of[2]; /* index in `base` of the send of outputs [0] or gradients [1], by micro-batch */
    /* index in `base` of forward [0] or backward [1], by micro_batch * n_blocks + block */
    uint32_t *base_of[2];
    /* Index in `base` of the last op that makes a gradient or, in a part, of the last op. */
    uint32_t last_gradient;
    struct compile_attached *attached, *sorted;
    size_t n_attached;
    uint32_t *count;
    uint32_t *waiting;
    uint32_t *update_op; /* device_adam by block, or COMPILE_NONE */

    uint32_t head; /* position of the first head op */
    uint32_t last_gradient_position;

    struct ah_layout_tensor *tensors;
    struct ah_tensor_name *names;
    size_t n_tensors;
};

/* ---- compile.c: shared by all stages of compiling ---- */

/* Appends an op of one tile, without positions. Returns its index. */
uint32_t ah_compile_op(struct compile *c, enum ah_plan_op_kind kind, enum ah_plan_lane lane, size_t block,
                       size_t micro_batch);

bool ah_compile_trained(const struct compile *c, size_t block);

/* True if this op makes a gradient of trained parameters. */
bool ah_compile_gradient_here(const struct compile *c, enum ah_plan_op_kind kind, size_t block);

/* True if the stage sends its output to the next stage (first), or its input gradient to the previous one (second). If
 * nothing from here down is trained, the gradient is a word without bytes, which says that the stage is done. */
bool ah_compile_sends_output(const struct compile *c);
bool ah_compile_sends_gradient(const struct compile *c);

/* Returns the extra time of an op that makes a gradient, for adding gradients up and for squaring them for the norm. If
 * ranks share states, `scatter` does both. */
double ah_compile_gradient_us(const struct compile *c, size_t block, size_t micro_batch);

uint64_t ah_compile_tiles(const struct compile *c, uint64_t elements);

/* Return the bytes per element of streamed states when copied to the device, and when copied back. */
uint64_t ah_compile_states_in_bytes(const struct compile *c, size_t block);
uint64_t ah_compile_states_out_bytes(const struct compile *c, size_t block);
double ah_compile_states_in_us(const struct compile *c, size_t block);

/* Return the position of the block's forward, backward (COMPILE_NONE: none), or of the op that makes its gradient. */
uint32_t ah_compile_forward(const struct compile *c, size_t block, size_t micro_batch);
uint32_t ah_compile_backward(const struct compile *c, size_t block, size_t micro_batch);
uint32_t ah_compile_gradient(const struct compile *c, size_t block, size_t micro_batch);

/* Returns the position of the stage's send of this kind. */
uint32_t ah_compile_send(const struct compile *c, enum ah_plan_op_kind kind, size_t micro_batch);

/* Return the distance forward on the circle of positions (1 to n_compute), or the position at a distance. */
uint32_t ah_compile_distance(const struct compile *c, uint32_t from, uint32_t to);
uint32_t ah_compile_before(const struct compile *c, uint32_t position, uint32_t distance);
uint32_t ah_compile_after(const struct compile *c, uint32_t position, uint32_t distance);

/* True if the block's gradients stay on the device until all passes are done and the gradients of ranks are added. */
bool ah_compile_added_up_first(const struct compile *c, size_t block);

/* True if the block's gradients are added to an accumulator at `where`. */
bool ah_compile_sums_on(const struct compile *c, size_t block, enum ah_accumulator where);

/* Adds a tensor of the device arena, with its lifetime from one position to another. Adds nothing if `bytes` is 0. */
void ah_compile_tensor(struct compile *c, enum ah_tensor_label label, enum ah_layout_class layout_class,
                       size_t block, size_t micro_batch, uint64_t bytes, uint32_t from, uint32_t to);

/* ---- the stages, in the order in which compile.c calls them ---- */

void ah_compile_positions(struct compile *c); /* positions.c */
void ah_compile_lanes(struct compile *c);   /* lanes.c: ops of other lanes, with their tensors and staging */
void ah_compile_tensors(struct compile *c); /* tensors.c: tensors that compute needs, and persistent ones */
void ah_compile_host(struct compile *c);    /* tensors.c: host memory */

#endif
