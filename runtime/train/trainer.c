/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens and closes a trainer.
 */
#include "runtime/train/trainer_internal.h"

#include "runtime/model/adapter.h"
#include "runtime/model/initial.h"
#include "runtime/schedule/trainable.h"
#include "runtime/train/angles.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks of the plan ---- */

static int check_part(const struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_plan_part *part = t->options.plan->part;
    const struct ah_trainer_rank *rank = t->options.rank;
    if (!part && rank)
        return ah_error_set(err, AH_E_USAGE, "rank %" PRIu32 " of %" PRIu32 " has a plan for the whole model",
                            rank->rank, rank->ranks);
    if (!part || rank)
        return AH_OK;
    if (part->shards)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "the plan is that of one of %" PRIu64 " ranks that share states; run the cluster "
                            "plan that it belongs to",
                            part->shards);
    return ah_error_set(err, AH_E_UNSUPPORTED,
                        "the plan is the part of one rank, stage %" PRIu64 " of %" PRIu64 " of a pipeline; "
                        "run the cluster plan that it belongs to",
                        part->stage, part->stages);
}

static int check_batches(const struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_batches_options *batches = &t->options.batches->options;
    const struct ah_plan_training *training = &t->options.plan->training;
    if (batches->seq == training->seq && batches->batch == ah_ranks_step_batch(t))
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "the plan is for %" PRIu64 " sequences of %" PRIu64 ", but the data are cut into "
                        "%" PRIu64 " of %" PRIu64 "; plan for these",
                        ah_ranks_step_batch(t), training->seq, batches->batch, batches->seq);
}

static int bind_ops(struct ah_trainer *t, struct ah_error *err)
{
    struct ah_bind_options options = {
        .graph = &t->graph, .addresses = &t->addresses, .documents = t->documents};
    if (ah_ranks_several(&t->ranks)) {
        options.messages = &t->ranks.messages;
        options.message = (struct ah_op_message){.move = ah_ranks_move, .context = t};
        options.gate = (struct ah_op_call){.run = ah_ranks_gate, .context = t};
        options.rank = t->options.rank;
    }
    return ah_bind(&t->bound, &options, err);
}

static int bind_plan(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_plan *plan = t->options.plan;
    int rc = ah_job_init_part(&t->job, t->options.model, &plan->training, plan->part, &t->arena, err);
    if (!rc)
        rc = ah_ranks_read(t, err);
    if (!rc)
        rc = ah_addresses_init(&t->addresses, plan, &t->job, ah_ranks_shard(t), &t->arena, err);
    if (!rc)
        rc = ah_graph_read(plan, &t->arena, &t->graph, err);
    if (!rc)
        rc = ah_shares_init(t, err);
    if (!rc)
        rc = ah_norm_copy_place(&t->graph, plan, &t->norm_copy, err);
    if (!rc)
        rc = bind_ops(t, err);
    rc = rc ? rc : ah_bind_check(&t->bound, &t->addresses, err);
    return rc ? rc : ah_recorded_init(t, err);
}

/* ---- memory of the loop ---- */

static bool reads_data(const struct ah_trainer *t, uint32_t position)
{
    enum ah_plan_op_kind kind = t->options.plan->ops[t->graph.items[position].op].op;
    return kind == AH_PLAN_FORWARD || kind == AH_PLAN_BACKWARD;
}

static uint64_t micro_batch_at(const struct ah_trainer *t, uint32_t position)
{
    return t->options.plan->ops[t->graph.items[position].op].micro_batch;
}

/* Finds, for each position, the next one that reads another micro-batch. Positions continue into the next step. */
static void find_next_data(struct ah_trainer *t)
{
    uint32_t n = t->graph.positions, first = 0;
    while (!reads_data(t, first))
        first++;
    uint32_t next = n + first, after = next;
    for (uint32_t p = n; p-- > 0;) {
        if (reads_data(t, p)) {
            if (after < n && micro_batch_at(t, after) != micro_batch_at(t, p))
                next = after;
            after = p;
        }
        t->next_data[p] = next;
    }
}

/* Lays out all blocks of the model at rank 0, which also saves and loads the blocks of other ranks. */
static int lay_out_model(struct ah_trainer *t, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_job whole;
    if (!ah_ranks_leads(&t->ranks))
        return AH_OK;
    int rc = ah_job_init(&whole, t->options.model, &t->options.plan->training, &arena, err);
    if (!rc) {
        t->flats = ah_arena_array(&t->arena, whole.n_blocks, sizeof *t->flats);
        rc = t->flats ? AH_OK : ah_error_memory(err);
    }
    for (size_t block = 0; !rc && block < whole.n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(&whole, block);
        t->flats[block] = ah_flat_of(t->options.model, group->kind, group->trained);
    }
    ah_arena_release(&arena);
    return rc;
}

static int take_memory(struct ah_trainer *t, struct ah_error *err)
{
    t->items = ah_arena_array(&t->arena, t->graph.n_items, sizeof *t->items);
    t->next_data = ah_arena_array(&t->arena, t->graph.positions, sizeof *t->next_data);
    if (!t->items || !t->next_data)
        return ah_error_memory(err);
    if (ah_job_shards(&t->job) > 1) {
        t->passed_on = ah_arena_array(&t->arena, STEPS_MARKED * t->graph.n_items, sizeof *t->passed_on);
        if (!t->passed_on)
            return ah_error_memory(err);
    }
    for (int i = 0; i < AH_GRAPH_RINGS; i++) {
        t->rings[i].slots = t->graph.slots[i];
        t->rings[i].free = ah_arena_array(&t->arena, t->rings[i].slots + 1, sizeof *t->rings[i].free);
        if (!t->rings[i].free)
            return ah_error_memory(err);
    }
    find_next_data(t);
    ah_round_count(t, 0);
    return AH_OK;
}

/* ---- the device ---- */

static int prepare_device(struct ah_trainer *t, struct ah_error *err)
{
    struct ah_op *ops = malloc((t->bound.n_ops + 1) * sizeof *ops);
    if (!ops)
        return ah_error_memory(err);
    for (size_t i = 0; i < t->bound.n_ops; i++)
        ops[i] = t->bound.ops[i].op;
    int rc = ah_device_prepare(t->device, ops, t->bound.n_ops, err);
    free(ops);
    return rc;
}

/* Opens the device. It has room for the spans of two rounds and an opening, so none is lost before it is read. */
static int open_device(struct ah_trainer *t, struct ah_error *err)
{
    struct ah_device_options options = t->options.device;
    options.pin_submitter = true;
    options.messages = ah_ranks_several(&t->ranks);
    options.pace = ah_pace_hooks(t);
    options.failed = options.messages ? ah_ranks_failed : NULL;
    options.failed_context = t;
    options.watch.name = ah_run_name;
    options.watch.name_context = t;
    options.watch.other_waits = options.messages ? ah_ranks_other_waits : NULL;
    options.watch.pulse = options.messages ? ah_ranks_pulse : NULL;
    if (!options.spans)
        options.spans = (uint32_t)(4 * t->bound.n_ops + 1024);
    int rc = ah_device_open(&t->device, t->options.driver, &options, err);
    if (rc)
        return rc;
    if (t->options.plan->training.dtype == AH_BF16 && !t->device->info.bf16)
        return ah_error_set(err, AH_E_UNSUPPORTED, "device '%s' has no bf16; plan with --dtype fp32",
                            t->device->info.name);
    rc = prepare_device(t, err);
    return rc ? rc : ah_device_reserve(t->device, t->addresses.arena_bytes, err);
}

/* ---- initial contents of the arenas ---- */

/* True if this rank holds the block. Each rank fills its own blocks. */
static bool wants_block(const void *context, uint64_t block)
{
    return ah_state_wants(context, block);
}

static int take_piece(void *context, const struct ah_weights_piece *piece, const float *values,
                      struct ah_error *err)
{
    return ah_state_write(context, AH_TRAINER_WEIGHTS, piece, values, err);
}

static int fill_angles(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_model *model = t->options.model;
    const uint64_t seq = t->job.training.seq, all = ah_angles_rows(model, seq);
    uint64_t row_bytes = model->head_dim * sizeof(float), most = AH_BOUNCE_BYTES / row_bytes;
    int rc = AH_OK;
    for (uint64_t first = 0; first < all && !rc; first += most) {
        uint64_t rows = all - first < most ? all - first : most;
        struct ah_ref to = t->addresses.angles;
        to.offset_bytes += first * row_bytes;
        ah_angles_fill(model, seq, first, rows, ah_device_pointer(t->device, t->addresses.bounce_buffer));
        rc = ah_state_send(t, to, rows * row_bytes, err);
    }
    return rc;
}

static int load_adapter(struct ah_trainer *t, struct ah_weights_sink sink, struct ah_error *err)
{
    const struct ah_trainer_options *options = &t->options;
    const struct ah_plan_training *training = &options->plan->training;
    char path[PATH_MAX];
    uint32_t *trained = calloc(ah_model_blocks(options->model), sizeof *trained);
    int rc = trained ? ah_adapter_path(options->adapter, path, err) : ah_error_memory(err);
    if (!rc)
        rc = ah_trainable_match(options->model, training->trainable, training->n_trainable, trained, err);
    sink.adapter_of = trained;
    rc = rc ? rc : ah_adapter_check(options->model, options->adapter, err);
    rc = rc ? rc : ah_weights_load(options->model, path, &sink, err);
    free(trained);
    return rc;
}

static int fill_arenas(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_trainer_options *options = &t->options;
    const struct ah_weights_sink sink = {.take = take_piece, .context = t, .wants = wants_block};
    int rc = fill_angles(t, err);
    if (rc)
        return rc;
    if (!options->weights)
        return ah_initial_load(options->model, options->seed, options->pool, &sink, err);
    rc = ah_weights_load(options->model, options->weights, &sink, err);
    rc = rc ? rc : ah_initial_load_adapters(options->model, options->seed, options->pool, &sink, err);
    return rc || !options->adapter ? rc : load_adapter(t, sink, err);
}

/* ---- the public functions ---- */

int ah_trainer_open(struct ah_trainer **ret_trainer, const struct ah_trainer_options *options,
                    struct ah_error *err)
{
    static int (*const parts[])(struct ah_trainer *, struct ah_error *) = {
        bind_plan,     lay_out_model, take_memory,    ah_pace_init, open_device,
        ah_ranks_meet, ah_ranks_pair, ah_beats_start, fill_arenas,  ah_ranks_ready};
    struct ah_trainer *t = calloc(1, sizeof *t);
    if (!t)
        return ah_error_memory(err);
    t->options = *options;
    t->ranks.options = options->rank; /* set first, so that any failure is reported to the others */
    t->steps = t->reported_step = options->steps_before;
    t->documents = options->documents || ah_dataset_facts(options->batches->options.data)->has_docs;
    int rc = check_part(t, err);
    rc = rc ? rc : check_batches(t, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        rc = parts[i](t, err);
    if (rc) {
        rc = ah_ranks_fail(t, rc, err);
        ah_trainer_close(t);
    } else {
        *ret_trainer = t;
    }
    return rc;
}

static void touch(const struct ah_trainer *t, const struct ah_bound_op *bound, uint64_t ret_touched[])
{
    struct ah_operand operands[AH_OP_ARGS];
    if (ah_op_operands(&bound->op, operands, NULL))
        return;
    for (size_t arg = 0; arg < AH_OP_ARGS; arg++) {
        const struct ah_ref *ref = &bound->op.arg[arg];
        enum ah_offset_term move = bound->move[arg];
        uint64_t slots = move >= AH_OFFSET_GRADIENT_RING && move <= AH_OFFSET_STATE_RING
                             ? t->graph.slots[move - AH_OFFSET_GRADIENT_RING]
                         : move == AH_OFFSET_NONE ? 1
                                                  : 2;
        uint64_t end = ref->offset_bytes + operands[arg].bytes + (slots - 1) * t->addresses.stride[move];
        if (operands[arg].role != AH_ROLE_NONE && end > ret_touched[ref->arena])
            ret_touched[ref->arena] = end;
    }
}

struct ah_trainer_facts ah_trainer_facts(const struct ah_trainer *t)
{
    struct ah_trainer_facts facts = {.steps = t->steps, .reserve_bytes = ah_device_outside_bytes(t->device)};
    memcpy(facts.arena_bytes, t->addresses.arena_bytes, sizeof facts.arena_bytes);
    for (size_t i = 0; i < t->bound.n_ops; i++)
        touch(t, &t->bound.ops[i], facts.touched_bytes);
    return facts;
}

void ah_trainer_time_ops(struct ah_trainer *t)
{
    t->times_ops = true;
}

struct ah_device *ah_trainer_device(struct ah_trainer *t)
{
    return t->device;
}

void ah_trainer_close(struct ah_trainer *t)
{
    if (!t)
        return;
    if (ah_ranks_leads(&t->ranks) && t->ranks.links && !t->ranks.ended)
        (void)ah_ranks_order(t, &(struct ranks_order){.kind = RANKS_END}, NULL);
    ah_beats_stop(t);
    ah_device_close(t->device);
    ah_pace_release(t);
    ah_ranks_release(t);
    ah_bound_release(&t->bound);
    ah_arena_release(&t->arena);
    free(t);
}
