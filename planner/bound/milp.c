/* SPDX-License-Identifier: Apache-2.0
 *
 * MILP: the rows that every schedule satisfies.
 *
 * SETS      classes k of b_k equal blocks; configs c of a class; lanes l; resources r (costs.h)
 * VARIABLES n[k][c], whole: blocks of class k with config c, sum over c = b_k;  T: the period
 * MINIMISE  T
 *
 * Rules 1 to 8 and positions are those of docs/planning.md. M is the number of micro-batches. F and B are forward and
 * backward of a block (the head H does both in F). At G the block's gradient is finished (B of the last micro-batch;
 * the head's F). In the steady state an iteration takes T on average. So a bound on the time between an event of an
 * iteration and the same event of the next bounds T, if it holds for all iterations. Durations are at full speed, the
 * least possible. Rows may omit terms, because no term is negative.
 *
 * TIME. LATE ops of a block run between its G and its F of the next iteration: host Adam, the upload, the first fetch
 * of new weights, sending the (last) gradient (rules 1 to 4, 7). U is the set of blocks updated on the host or
 * streamed, and u is the highest of them.
 *
 *  (1) T >= compute work        (2) T >= h2d work        (3) T >= d2h work        (4) T >= host work
 *  (5) T >= demand x work of r
 *      (1) to (4): a lane runs one op at a time, and each op of the iteration once in a period. (5): the shares of a
 *      resource used at one time add up to at most 1.
 *  (6) T >= late host work + SPAN   (7) T >= late h2d work + SPAN   (8) T >= late d2h work + SPAN
 *  (9) T >= demand x late work of r + SPAN
 *      An iteration's late ops run after u's G, the first G of U (backward goes down). They run before u's F of the
 *      next iteration, the last F of U (forward goes up). So none runs from u's F to u's G. That takes at least SPAN:
 *      all compute from F to G of the highest trained block below the head, or of H if H is in U. If U is empty, (1)
 *      implies these rows.
 * (10) T >= late h2d + states in + F of u to end of H
 *      States come in after their iteration's first H and before their block's next F. So h2d runs neither them nor
 *      late ops from u's next F to the end of the first H.
 *
 *      With clipping, norm waits for the last G of all blocks, and every update waits for norm (rule 5).
 * (11) T >= norm + late host work + TAIL    (12) T >= norm + late h2d work + TAIL
 * (13) T >= norm + demand x late host and h2d work of r + TAIL
 *      Late host ops run between norm's end and u's next F, and so do late h2d ops, because new weights wait for their
 *      update. From u's next F to the last G takes TAIL: the iteration's compute without updates and without F below u
 *      (of the first micro-batch, or of all where the order is by block). (13) is (5) for this time.
 * (14) T >= norm + compute work - F below the trained blocks
 *      The next iteration's first op that waits for norm is F of the lowest trained block, or an earlier one.
 *
 *      If ranks share states, every trained block has late ops on net: the last scatter of its gradient and, before its
 *      F, the first gathering of its new weights. V is the set of trained blocks, and v the highest of them.
 *  (1b) T >= net work    (7b) T >= late net work + SPAN of v    (12b) T >= norm + late gathering + TAIL of v
 *      (1b) as (1). (7b): late net ops run after v's G and before v's F of the next iteration, as in (7). (12b): new
 *      weights are gathered after their update, which waits for norm, as in (12). (9) and (13) leave out net.
 *
 * DEVICE MEMORY. The bytes live at one position (table in docs/planning.md) are at most the arena. Weights and states
 * that stay and the tokens of two micro-batches are live everywhere.
 *
 * (15) at the last H        inputs and saved tensors of blocks with a backward, residual gradient, scratch, gradient
 *                           and fetched weights of the head; a tied table's gradient; weights kept from F to B; sums
 *                           of gradients begun by earlier micro-batches (by block: none yet)
 * (16) at the last G, with  gradients that wait for norm, and the memory of the lowest backward itself (the least over
 *      clipping             its configs)
 * (17) at the last B of     the bytes of (15) without the memory of H itself, and the memory of that block itself
 *      the highest layer    (the least)
 * (18) at the last B of     one row a class: the block's bytes there, averaged over the blocks of the class, because an
 *      every block          average is at most the largest
 *
 * (19) HOST MEMORY          states and weights there, sums; with clipping, all gradients that no sum takes in: they
 *                           arrive before the first update frees any of them
 * (20) KEPT                 only some blocks of a class are near enough to the head to keep fetched weights
 *
 * Constants of a row are in the head's columns, because exactly one of these is chosen. All coefficients are whole
 * numbers (2^-10 us, rounded down; bytes) and none is negative. So T(n) = max of the time rows, and every sum, is
 * exact, and falls or stays when a cost falls. The same is true of its least value over any fixed set of n.
 */
#include "planner/bound/milp_internal.h"

#include <math.h>
#include <string.h>

#define TIME_MOST 0x1p50

enum { FIXED_ROWS = 27, ROWS_A_RESOURCE = 3, ROWS_A_CLASS = 2 };

/* Constants of the job used by several rows. */
struct builder {
    struct ah_milp *milp;
    size_t head;             /* block */
    size_t top;              /* highest trained block below the head; the head if there is none */
    double span_forward_us;  /* F from `top` to below the head */
    double span_backward_us; /* lower bound on B of the same blocks */
    int64_t always;          /* device bytes live in all of (15) to (18), in addition to `stays` */
    double together;         /* micro-batches that pass through a block before the next block runs */
};

typedef double time_piece(const struct builder *b, const struct ah_milp_column *column,
                          const struct ah_plan_resource *resource);
typedef int64_t memory_piece(const struct builder *b, const struct ah_milp_column *column, size_t of);

static const struct ah_job_group *group_of(const struct builder *b, const struct ah_milp_column *column)
{
    return &b->milp->job->groups[b->milp->classes[column->of_class].group];
}

static bool is_head(const struct builder *b, const struct ah_milp_column *column)
{
    return group_of(b, column)->kind == AH_BLOCK_HEAD;
}

/* ---- rows ---- */

static int64_t *push_row(struct builder *b, const char *name, enum ah_milp_row_kind kind, int64_t limit)
{
    struct ah_milp *milp = b->milp;
    milp->rows[milp->n_rows] = (struct ah_milp_row){name, kind, limit};
    return ah_milp_coefficients(milp, milp->n_rows++);
}

static void push_time(struct builder *b, const char *name, time_piece *piece,
                      const struct ah_plan_resource *resource)
{
    int64_t *row = push_row(b, name, AH_MILP_TIME, INT64_MAX);
    for (size_t j = 0; j < b->milp->n_columns; j++) {
        double units = piece(b, &b->milp->columns[j], resource) * AH_MILP_UNITS_PER_US;
        row[j] = (int64_t)floor(units < TIME_MOST ? units : TIME_MOST);
    }
}

/* Adds a row of device memory; `constant` goes to the head's columns. */
static void push_memory(struct builder *b, const char *name, memory_piece *piece, size_t of, int64_t constant)
{
    uint64_t most = INT64_MAX / 2;
    uint64_t limit = b->milp->input->device_bytes;
    int64_t *row = push_row(b, name, AH_MILP_DEVICE, (int64_t)(limit < most ? limit : most));
    for (size_t j = 0; j < b->milp->n_columns; j++) {
        const struct ah_milp_column *column = &b->milp->columns[j];
        row[j] = column->pieces.stays + piece(b, column, of);
        if (is_head(b, column))
            row[j] += b->always + constant;
    }
}

/* ---- (1) to (5): lanes and resources ---- */

static double norm_us(const struct builder *b, const struct ah_milp_column *column)
{
    return b->milp->clip && is_head(b, column) ? b->milp->costs->norm_us : 0;
}

static double compute_work(const struct builder *b, const struct ah_milp_column *column,
                           const struct ah_plan_resource *resource)
{
    (void)b, (void)resource;
    return column->pieces.lane_us[AH_PLAN_LANE_COMPUTE];
}

static double h2d_work(const struct builder *b, const struct ah_milp_column *column,
                       const struct ah_plan_resource *resource)
{
    (void)b, (void)resource;
    return column->pieces.lane_us[AH_PLAN_LANE_H2D];
}

static double d2h_work(const struct builder *b, const struct ah_milp_column *column,
                       const struct ah_plan_resource *resource)
{
    (void)b, (void)resource;
    return column->pieces.lane_us[AH_PLAN_LANE_D2H];
}

static double net_work(const struct builder *b, const struct ah_milp_column *column,
                       const struct ah_plan_resource *resource)
{
    (void)b, (void)resource;
    return column->pieces.lane_us[AH_PLAN_LANE_NET];
}

static double host_work(const struct builder *b, const struct ah_milp_column *column,
                        const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.lane_us[AH_PLAN_LANE_HOST] + norm_us(b, column);
}

static double resource_work(const struct builder *b, const struct ah_milp_column *column,
                            const struct ah_plan_resource *resource)
{
    return ah_plan_resource_us(resource, column->pieces.lane_us) +
           resource->demand[AH_PLAN_LANE_HOST] * norm_us(b, column);
}

/* ---- (6) to (10): late ops ---- */

/* Compute from F to G of the highest block with late ops. `head`: the head has some. */
static double span_of(const struct builder *b, const struct ah_milp_column *column, bool head)
{
    const struct ah_milp_pieces *p = &column->pieces;
    double m = (double)b->milp->micro_batches;
    if (!is_head(b, column))
        return b->milp->by_block ? 0 : (m - 1) * (p->forward_us + p->backward_us);
    return m * p->forward_us + p->gradient_us + (head ? 0 : b->span_forward_us + b->span_backward_us);
}

/* SPAN */
static double span(const struct builder *b, const struct ah_milp_column *column)
{
    return span_of(b, column, column->pieces.late);
}

static double late_net(const struct builder *b, const struct ah_milp_column *column,
                       const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_us[AH_PLAN_LANE_NET] +
           span_of(b, column, group_of(b, column)->trained_elements != 0);
}

static double late_host(const struct builder *b, const struct ah_milp_column *column,
                        const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_us[AH_PLAN_LANE_HOST] + span(b, column);
}

static double late_h2d(const struct builder *b, const struct ah_milp_column *column,
                       const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_us[AH_PLAN_LANE_H2D] + span(b, column);
}

static double late_d2h(const struct builder *b, const struct ah_milp_column *column,
                       const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_us[AH_PLAN_LANE_D2H] + span(b, column);
}

static double late_resource(const struct builder *b, const struct ah_milp_column *column,
                            const struct ah_plan_resource *resource)
{
    double late_us[AH_PLAN_LANES];
    memcpy(late_us, column->pieces.late_us, sizeof late_us);
    late_us[AH_PLAN_LANE_NET] = 0; /* blocks outside U have late ops there */
    return ah_plan_resource_us(resource, late_us) + span(b, column);
}

static double late_states(const struct builder *b, const struct ah_milp_column *column,
                          const struct ah_plan_resource *resource)
{
    const struct ah_milp_pieces *p = &column->pieces;
    (void)resource;
    double us = p->late_us[AH_PLAN_LANE_H2D] + p->states_in_us;
    return is_head(b, column) ? us + p->forward_us + (p->late ? 0 : b->span_forward_us) : us;
}

/* ---- (11) to (14): clipping ---- */

static double tail_of(const struct builder *b, const struct ah_milp_column *column, bool head)
{
    const struct ah_milp_pieces *p = &column->pieces;
    double m = (double)b->milp->micro_batches;
    if (!is_head(b, column))
        return m * p->backward_us + p->gradient_us + (b->milp->by_block ? 0 : (m - 1) * p->forward_us);
    return norm_us(b, column) + m * p->forward_us + p->gradient_us + (head ? 0 : b->span_forward_us);
}

static double tail(const struct builder *b, const struct ah_milp_column *column)
{
    return tail_of(b, column, column->pieces.late);
}

static double clipped_net(const struct builder *b, const struct ah_milp_column *column,
                          const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_gather_us + tail_of(b, column, group_of(b, column)->trained_elements != 0);
}

static double clipped_host(const struct builder *b, const struct ah_milp_column *column,
                           const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_us[AH_PLAN_LANE_HOST] + tail(b, column);
}

static double clipped_h2d(const struct builder *b, const struct ah_milp_column *column,
                          const struct ah_plan_resource *resource)
{
    (void)resource;
    return column->pieces.late_us[AH_PLAN_LANE_H2D] + tail(b, column);
}

static double clipped_resource(const struct builder *b, const struct ah_milp_column *column,
                               const struct ah_plan_resource *resource)
{
    return resource->demand[AH_PLAN_LANE_HOST] * column->pieces.late_us[AH_PLAN_LANE_HOST] +
           resource->demand[AH_PLAN_LANE_H2D] * column->pieces.late_us[AH_PLAN_LANE_H2D] + tail(b, column);
}

/* The compute work of (14): without the first F of blocks below the lowest trained block, which have no backward. */
static double clipped_compute(const struct builder *b, const struct ah_milp_column *column,
                              const struct ah_plan_resource *resource)
{
    const struct ah_milp_pieces *p = &column->pieces;
    double m = (double)b->milp->micro_batches;
    (void)resource;
    if (!group_of(b, column)->backward && !is_head(b, column))
        return (m - b->together) * p->forward_us;
    return p->lane_us[AH_PLAN_LANE_COMPUTE] + norm_us(b, column);
}

static void time_rows(struct builder *b)
{
    const struct ah_plan_sharing *sharing = &b->milp->costs->sharing;
    push_time(b, "compute", compute_work, NULL);
    push_time(b, "h2d", h2d_work, NULL);
    push_time(b, "d2h", d2h_work, NULL);
    push_time(b, "host", host_work, NULL);
    push_time(b, "host between backward and forward", late_host, NULL);
    push_time(b, "h2d between backward and forward", late_h2d, NULL);
    push_time(b, "d2h between backward and forward", late_d2h, NULL);
    push_time(b, "h2d between head and forward", late_states, NULL);
    if (b->milp->clip) {
        push_time(b, "host between norm and forward", clipped_host, NULL);
        push_time(b, "h2d between norm and forward", clipped_h2d, NULL);
        push_time(b, "compute and norm", clipped_compute, NULL);
    }
    if (ah_milp_shares(b->milp)) {
        push_time(b, "net", net_work, NULL);
        push_time(b, "net between backward and forward", late_net, NULL);
        if (b->milp->clip)
            push_time(b, "net between norm and forward", clipped_net, NULL);
    }
    for (size_t r = 0; r < sharing->n_resources; r++) {
        push_time(b, sharing->resources[r].name, resource_work, &sharing->resources[r]);
        push_time(b, sharing->resources[r].name, late_resource, &sharing->resources[r]);
        if (b->milp->clip)
            push_time(b, sharing->resources[r].name, clipped_resource, &sharing->resources[r]);
    }
}

/* ---- (15) to (18): device memory ---- */

static bool is_tied_table(const struct builder *b, const struct ah_milp_column *column)
{
    return group_of(b, column)->kind == AH_BLOCK_EMBEDDING && b->milp->job->model->tied;
}

/* Returns the bytes of a block that are live from its forward (or from the head) to its backward. */
static int64_t held(const struct builder *b, const struct ah_milp_column *column)
{
    const struct ah_milp_pieces *p = &column->pieces;
    int64_t gradient = is_tied_table(b, column) ? p->table_gradient : b->milp->by_block ? 0 : p->sum;
    return p->saved + p->between + gradient;
}

static int64_t at_head(const struct builder *b, const struct ah_milp_column *column, size_t of)
{
    const struct ah_milp_pieces *p = &column->pieces;
    (void)of;
    if (is_head(b, column))
        return p->fetched + p->gradient + p->work_forward;
    return held(b, column) + p->table;
}

/* Returns the bytes that are live only while the block's own op runs. */
static int64_t own_at_lowest(const struct builder *b, const struct ah_milp_column *column)
{
    const struct ah_milp_pieces *p = &column->pieces;
    int64_t gradient = column->choice.optimizer == AH_OPTIMIZER_HOST ? p->gradient : p->gradient - p->waits;
    (void)b;
    return p->saved + p->work_backward + p->fetched + gradient;
}

static int64_t own_at_top(const struct builder *b, const struct ah_milp_column *column)
{
    const struct ah_milp_pieces *p = &column->pieces;
    (void)b;
    return p->work_backward + p->part + p->fetched - p->between;
}

typedef int64_t own_piece(const struct builder *b, const struct ah_milp_column *column);

/* Returns the least `own` over the configs of a class. 0 if the class has one block, whose exact value alone() adds. */
static int64_t least_own(const struct builder *b, size_t class, own_piece *own)
{
    const struct ah_milp_class *it = &b->milp->classes[class];
    int64_t least = INT64_MAX;
    if (it->blocks == 1)
        return 0;
    for (size_t j = it->first_column; j < it->first_column + it->n_columns; j++) {
        int64_t bytes = own(b, &b->milp->columns[j]);
        least = bytes < least ? bytes : least;
    }
    return least;
}

static int64_t alone(const struct builder *b, const struct ah_milp_column *column, size_t of, own_piece *own)
{
    return column->of_class == of && b->milp->classes[of].blocks == 1 ? own(b, column) : 0;
}

static int64_t at_lowest(const struct builder *b, const struct ah_milp_column *column, size_t of)
{
    return column->pieces.waits + alone(b, column, of, own_at_lowest);
}

static int64_t at_top(const struct builder *b, const struct ah_milp_column *column, size_t of)
{
    if (is_head(b, column))
        return column->pieces.waits;
    return held(b, column) + alone(b, column, of, own_at_top);
}

static int64_t at_each(const struct builder *b, const struct ah_milp_column *column, size_t of)
{
    const struct ah_milp_pieces *p = &column->pieces;
    if (column->of_class != of)
        return 0;
    return (p->saved + p->work_backward + p->gradient + p->fetched) / (int64_t)b->milp->classes[of].blocks;
}

/* Returns the bytes of the inputs of all blocks with a backward, from the lowest up to `block`. */
static int64_t inputs_up_to(const struct builder *b, size_t block)
{
    const struct ah_job *job = b->milp->job;
    int64_t sum = 0;
    for (size_t y = job->lowest ? job->lowest : 1; y <= block; y++)
        sum += (int64_t)ah_job_block(job, y)->input_bytes;
    return sum * (int64_t)b->together;
}

static int64_t mean_inputs(const struct builder *b, size_t class)
{
    int64_t sum = 0;
    for (size_t block = 0; block < b->head; block++)
        if (b->milp->class_of[block] == class)
            sum += inputs_up_to(b, block);
    return sum / (int64_t)b->milp->classes[class].blocks;
}

static void memory_rows(struct builder *b)
{
    struct ah_milp *milp = b->milp;
    size_t lowest = milp->job->lowest;
    push_memory(b, "device memory at the head", at_head, 0, inputs_up_to(b, b->head));
    if (milp->clip && lowest < b->head) {
        size_t of = milp->class_of[lowest];
        int64_t input = (int64_t)ah_job_block(milp->job, lowest)->input_bytes * (int64_t)b->together;
        push_memory(b, "device memory at the last gradient", at_lowest, of,
                    input + least_own(b, of, own_at_lowest));
    }
    if (b->head >= 2 && lowest < b->head) {
        size_t of = milp->class_of[b->head - 1];
        push_memory(b, "device memory at the highest backward", at_top, of,
                    inputs_up_to(b, b->head - 1) + least_own(b, of, own_at_top));
    }
    for (size_t k = 0; k < milp->n_classes; k++) {
        const struct ah_job_group *group = &milp->job->groups[milp->classes[k].group];
        if (group->backward && group->kind != AH_BLOCK_HEAD)
            push_memory(b, "device memory at each backward", at_each, k, mean_inputs(b, k));
    }
}

/* ---- (19), (20) ---- */

static void host_row(struct builder *b)
{
    uint64_t most = INT64_MAX / 2, limit = b->milp->input->host_bytes;
    int64_t *row = push_row(b, "host memory", AH_MILP_HOST, (int64_t)(limit < most ? limit : most));
    for (size_t j = 0; j < b->milp->n_columns; j++)
        row[j] = b->milp->columns[j].pieces.host;
}

static void kept_rows(struct builder *b)
{
    for (size_t k = 0; k < b->milp->n_classes; k++) {
        const struct ah_milp_class *class = &b->milp->classes[k];
        if (b->milp->keepable[k] >= class->blocks)
            continue;
        int64_t *row = push_row(b, "kept weights", AH_MILP_CAP, (int64_t)b->milp->keepable[k]);
        for (size_t j = class->first_column; j < class->first_column + class->n_columns; j++)
            row[j] = b->milp->columns[j].kept;
    }
}

/* ---- all rows ---- */

static double least_backward_us(const struct ah_milp *milp, size_t block)
{
    const struct ah_milp_class *class = &milp->classes[milp->class_of[block]];
    double least = INFINITY;
    for (size_t j = class->first_column; j < class->first_column + class->n_columns; j++)
        least = fmin(least, milp->columns[j].pieces.backward_us);
    return least;
}

static void find_positions(struct builder *b)
{
    const struct ah_milp *milp = b->milp;
    const struct ah_job *job = milp->job;
    b->head = job->n_blocks - 1;
    b->together = milp->by_block ? (double)milp->micro_batches : 1;
    b->top = b->head;
    for (size_t block = 0; block < b->head; block++)
        if (ah_job_block(job, block)->trained_elements)
            b->top = block;
    for (size_t block = b->top; block < b->head; block++) {
        b->span_forward_us += b->together * milp->costs->groups[job->group_of[block]].forward_us;
        b->span_backward_us += b->together * least_backward_us(milp, block);
    }
    b->always = (int64_t)(2 * job->input_bytes) + (int64_t)job->residual_bytes * (int64_t)b->together;
}

int ah_milp_rows(struct ah_milp *milp, struct ah_arena *arena, struct ah_error *err)
{
    struct builder b = {.milp = milp};
    size_t most =
        FIXED_ROWS + ROWS_A_RESOURCE * milp->costs->sharing.n_resources + ROWS_A_CLASS * milp->n_classes;
    milp->rows = ah_arena_array(arena, most, sizeof *milp->rows);
    milp->coefficients = ah_arena_array(arena, most * milp->n_columns, sizeof *milp->coefficients);
    if (!milp->rows || !milp->coefficients)
        return ah_error_memory(err);
    find_positions(&b);
    time_rows(&b);
    memory_rows(&b);
    host_row(&b);
    kept_rows(&b);
    return AH_OK;
}

int ah_milp_build(struct ah_milp *ret_milp, const struct ah_milp_input *input, struct ah_arena *arena,
                  struct ah_error *err)
{
    *ret_milp = (struct ah_milp){.input = input,
                                 .job = input->job,
                                 .costs = input->costs,
                                 .micro_batches = input->job->training.micro_batches,
                                 .clip = input->job->training.clip > 0,
                                 .by_block = input->micro_order == AH_BLOCK_MAJOR};
    int rc = ah_milp_columns(ret_milp, arena, err);
    return rc ? rc : ah_milp_rows(ret_milp, arena, err);
}
