/* SPDX-License-Identifier: Apache-2.0
 *
 * Run: does steps one after another, without a drain between them.
 *
 * Round k is submitted when round k - 2 is done, so that a whole round is always queued. Before that, batch and header
 * of step k + 2 are staged, since the step's rows may be gathered in step k + 1. The staging has four slots. Step k + 2
 * uses the slot of step k - 2, whose record has been reported by then.
 */
#include "runtime/train/trainer_internal.h"

#include "runtime/device/adamw_scalars.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct run {
    struct ah_trainer *t;
    uint64_t before; /* steps done before this run */
    uint64_t reported_step;
    const struct ah_observer *observer;
    bool stop;
    struct ah_error *err;
};

/* ---- staging ahead ---- */

struct ah_ref ah_run_header(const struct ah_trainer *t, int64_t step, uint64_t offset_bytes)
{
    struct ah_ref ref = t->addresses.headers;
    ref.offset_bytes += (uint64_t)step % AH_STEPS_STAGED * t->job.header_bytes + offset_bytes;
    return ref;
}

double ah_run_loss(const struct ah_trainer *t, int64_t step, const double *before)
{
    const double *losses = ah_ranks_several(&t->ranks)
                               ? t->ranks.losses
                               : ah_device_pointer(t->device, ah_run_header(t, step, AH_HEADER_LOSS));
    double sum = before ? *before + losses[0] : losses[0];
    for (uint64_t m = 1; m < ah_ranks_step_micro_batches(t); m++)
        sum += losses[m];
    return sum;
}

static void *staged_array(const struct ah_trainer *t, int64_t step, uint64_t micro_batch,
                          uint64_t offset_bytes)
{
    uint64_t slot = (uint64_t)step % AH_STEPS_STAGED * t->job.training.micro_batches + micro_batch;
    struct ah_ref ref = t->addresses.staging;
    ref.offset_bytes += slot * t->addresses.staged_micro_bytes + offset_bytes;
    return ah_device_pointer(t->device, ref);
}

/* Fills in micro-batch m of this pipeline from `cursor` on. Adds its loss-bearing tokens to `bearing`. */
static int fill_micro_batch(struct ah_trainer *t, struct ah_batches *batches, uint64_t cursor, int64_t step,
                            uint64_t m, uint64_t *bearing, struct ah_error *err)
{
    const uint64_t words = t->job.tokens * sizeof(uint32_t);
    const struct ah_batches_rows into = {.tokens = staged_array(t, step, m, 0),
                                         .targets = staged_array(t, step, m, words),
                                         .positions = staged_array(t, step, m, 2 * words),
                                         .docs = staged_array(t, step, m, 3 * words),
                                         .mask = staged_array(t, step, m, 5 * words)};
    uint64_t some;
    int rc = ah_batches_fill(batches, cursor, t->job.training.batch / t->job.training.micro_batches, &into,
                             &some, err);
    *bearing += rc ? 0 : some;
    return rc;
}

static uint64_t own_micro_batch(const struct ah_trainer *t, uint64_t m)
{
    return ah_ranks_micro_batch(t, t->options.rank ? t->options.rank->rank : 0, m);
}

/* True if this rank computes micro-batch `j` of the step. */
static bool computes(const struct ah_trainer *t, uint64_t j)
{
    uint64_t m = 0;
    while (m < t->job.training.micro_batches && own_micro_batch(t, m) != j)
        m++;
    return m < t->job.training.micro_batches;
}

/* Stages a batch. Other pipelines' micro-batches are only counted, in a slot that is overwritten afterwards. A rank
 * that has one micro-batch less than its plan computes the step's first one in its place. */
int ah_run_stage(struct ah_trainer *t, struct ah_batches *batches, uint64_t cursor, int64_t step,
                 uint64_t *ret_bearing, struct ah_error *err)
{
    const uint64_t words = t->job.tokens * sizeof(uint32_t), n = ah_ranks_step_micro_batches(t);
    const uint64_t rows = t->job.training.batch / t->job.training.micro_batches;
    uint64_t bearing = 0, ignored = 0;
    int rc = AH_OK;
    for (uint64_t j = 0; j < n && !rc; j++)
        if (!computes(t, j))
            rc = fill_micro_batch(t, batches, cursor + j * rows, step, 0, &bearing, err);
    for (uint64_t m = 0; m < t->job.training.micro_batches && !rc; m++) {
        uint32_t *counted = staged_array(t, step, m, 4 * words);
        const uint64_t j = own_micro_batch(t, m);
        rc = fill_micro_batch(t, batches, cursor + (j < n ? j : 0) * rows, step, m,
                              j < n ? &bearing : &ignored, err);
        for (uint64_t row = 0; row < t->job.tokens; row++)
            counted[row] = (uint32_t)row;
    }
    if (rc)
        return rc;
    float scale = ah_batches_loss_scale(bearing);
    memcpy(ah_device_pointer(t->device, ah_run_header(t, step, AH_HEADER_SCALE)), &scale, sizeof scale);
    t->filled = step;
    *ret_bearing = bearing;
    return AH_OK;
}

static int stage(struct run *run, int64_t step)
{
    struct ah_trainer *t = run->t;
    const struct ah_trainer_options *options = &t->options;
    uint64_t number = run->before + (uint64_t)step + 1;
    struct staged *staged = &t->staged[step % AH_STEPS_STAGED];
    struct ah_adamw_scalars scalars;
    *staged = (struct staged){.rate = ah_rate_at(&options->rate, number)};
    ah_adamw_scalars_init(&scalars, &(struct ah_adamw_settings){.lr = staged->rate,
                                                                .beta1 = options->beta1,
                                                                .beta2 = options->beta2,
                                                                .epsilon = options->epsilon,
                                                                .weight_decay = options->weight_decay,
                                                                .step = (uint32_t)number,
                                                                .seed = options->seed});
    memcpy(ah_device_pointer(t->device, ah_run_header(t, step, 0)), &scalars, sizeof scalars);
    return ah_run_stage(t, options->batches, (number - 1) * ah_ranks_step_batch(t), step, &staged->tokens,
                        run->err);
}

/* ---- reporting behind ---- */

static void tell_op(const struct run *run, uint32_t lane, const struct ah_span *span, bool later)
{
    const struct ah_graph *graph = &run->t->graph;
    const bool of_plan = span->tag < graph->n_items, arrives = !of_plan && span->tag != UINT64_MAX;
    const struct ah_op_record record = {.step = run->before + run->reported_step + 1 + later,
                                        .lane = lane,
                                        .op = of_plan ? graph->items[span->tag].op : SIZE_MAX,
                                        .tile = of_plan   ? graph->items[span->tag].tile
                                                : arrives ? span->tag - graph->n_items
                                                          : 0,
                                        .ticket = span->ticket,
                                        .ready_ns = span->ready_ns,
                                        .start_ns = span->start_ns,
                                        .end_ns = span->end_ns};
    ah_recorded_op(run->t, &record);
    if (run->observer && run->observer->op)
        run->observer->op(run->observer->context, &record);
}

/* Adds up the time a lane worked: in the round to be reported next, which ends with ticket `end`, and after it. */
static void read_lane(struct run *run, uint32_t lane, uint64_t end)
{
    struct ah_trainer *t = run->t;
    size_t n;
    while ((n = ah_device_spans(t->device, &t->readers[lane], t->spans, SPANS_READ)) > 0)
        for (size_t i = 0; i < n; i++) {
            const struct ah_span *span = &t->spans[i];
            bool later = span->ticket > end;
            if (lane < AH_DEVICE_LANES)
                t->busy_ns[later][lane] += span->end_ns - span->start_ns;
            if (lane < AH_DEVICE_LANES && span->end_ns > t->last_end_ns[later])
                t->last_end_ns[later] = span->end_ns;
            if ((run->observer && run->observer->op) || t->recording.room)
                tell_op(run, lane, span, later);
        }
}

/* Reads the spans of a round. Returns the time at which its last op was done. */
static uint64_t read_spans(struct run *run, const uint64_t end[])
{
    struct ah_trainer *t = run->t;
    for (uint32_t lane = 0; lane < run->t->device->lanes; lane++)
        read_lane(run, lane, end[lane]);
    uint64_t end_ns = t->last_end_ns[0];
    t->last_end_ns[0] = t->last_end_ns[1];
    t->last_end_ns[1] = 0;
    return end_ns;
}

/* Waits for the next round, and reports the record of its step. */
static int report_step(struct run *run)
{
    struct ah_trainer *t = run->t;
    int64_t step = (int64_t)run->reported_step;
    const struct staged *staged = &t->staged[step % AH_STEPS_STAGED];
    struct ah_adamw_scalars scalars;
    int rc = AH_OK;
    for (uint32_t lane = 0; lane < t->device->lanes && !rc; lane++)
        rc = ah_device_wait(t->device, lane, staged->end[lane], run->err);
    if (rc)
        return rc;
    memcpy(&scalars, ah_device_pointer(t->device, ah_run_header(t, step, 0)), sizeof scalars);
    double grad_norm = (double)scalars.grad_norm;
    rc = ah_ranks_several(&t->ranks) ? ah_ranks_gather(t, step, &grad_norm, run->err) : AH_OK;
    if (rc)
        return rc;
    struct ah_step_record record = {
        .step = run->before + run->reported_step + 1,
        .loss = staged->tokens ? ah_run_loss(t, step, NULL) / (double)staged->tokens : 0,
        .grad_norm = grad_norm,
        .rate = staged->rate,
        .tokens = staged->tokens,
        .end_ns = read_spans(run, staged->end),
        .h2d_bytes = staged->h2d_bytes,
        .d2h_bytes = staged->d2h_bytes};
    memcpy(record.busy_ns, t->busy_ns[0], sizeof record.busy_ns);
    memcpy(t->busy_ns[0], t->busy_ns[1], sizeof t->busy_ns[0]);
    memset(t->busy_ns[1], 0, sizeof t->busy_ns[1]);
    run->reported_step++;
    __atomic_store_n(&t->reported_step, record.step, __ATOMIC_RELAXED);
    if (run->observer && run->observer->step && !run->observer->step(run->observer->context, &record))
        run->stop = true;
    if (ah_ranks_several(&t->ranks)) {
        struct ranks_verdict verdict = {record.loss, record.grad_norm, run->stop};
        rc = ah_ranks_agree(t, &verdict, run->err);
        if (rc)
            return rc;
        record.loss = verdict.loss;
        record.grad_norm = verdict.grad_norm;
        run->stop = verdict.stop;
    }
    if (!isfinite(record.loss) || !isfinite(record.grad_norm))
        return ah_error_set(run->err, AH_E_NUMERIC, "step %" PRIu64 ": its loss or gradient is not finite",
                            record.step);
    return AH_OK;
}

/* ---- steps ---- */

static int open_run(struct run *run)
{
    struct ah_trainer *t = run->t;
    const struct waits none = {{0}};
    ah_round_reset(t);
    ah_round_count(t, 0);
    memset(t->busy_ns, 0, sizeof t->busy_ns);
    for (uint32_t lane = 0; lane < t->device->lanes; lane++)
        t->readers[lane] = ah_device_newest(t->device, lane, 0);
    int rc = stage(run, 0);
    if (!rc)
        rc = stage(run, 1);
    if (!rc)
        rc = ah_round_submit(t, -2, ROUND_BEFORE, run->err);
    if (!rc)
        rc = ah_round_header(t, 0, &none, &t->header_loaded[0], run->err);
    return rc ? rc : ah_round_submit(t, -1, ROUND_OPENING, run->err);
}

static int submit_round(struct run *run, int64_t step, bool last)
{
    struct ah_trainer *t = run->t;
    struct staged *staged = &t->staged[step % AH_STEPS_STAGED];
    int rc = last ? AH_OK : stage(run, step + 2);
    if (!rc)
        rc = ah_round_submit(t, step, last ? ROUND_CLOSING : ROUND_WHOLE, run->err);
    memcpy(staged->end, t->queue.last, sizeof staged->end);
    return rc;
}

/* Kinds of ops that exist for each micro-batch. */
static const uint32_t of_micro_batches =
    1u << AH_PLAN_FORWARD | 1u << AH_PLAN_BACKWARD | 1u << AH_PLAN_SCATTER | 1u << AH_PLAN_SEND_GRADIENTS |
    1u << AH_PLAN_ACCUMULATE | 1u << AH_PLAN_SEND_OUTPUT | 1u << AH_PLAN_SEND_INPUT_GRADIENT;

bool ah_run_is_of_micro_batch(enum ah_plan_op_kind kind)
{
    return of_micro_batches >> kind & 1;
}

void ah_run_name(const void *context, uint64_t tag, char *ret_name, size_t room)
{
    const struct ah_trainer *t = context;
    ret_name[0] = '\0';
    if (tag >= t->graph.n_items)
        return;
    const struct ah_plan_op *op = &t->options.plan->ops[t->graph.items[tag].op];
    const char *block = op->op == AH_PLAN_NORM ? NULL : t->options.plan->blocks[op->block].name;
    char micro_batch[48] = "";
    if (t->options.plan->training.micro_batches > 1 && ah_run_is_of_micro_batch(op->op))
        snprintf(micro_batch, sizeof micro_batch, " in micro-batch %" PRIu64, op->micro_batch);
    snprintf(ret_name, room, "'%s'%s%s%s%s", ah_words_plan_op[op->op], block ? " of block '" : "",
             block ? block : "", block ? "'" : "", micro_batch);
}

void ah_run_place(const struct ah_trainer *t, struct ah_error *err)
{
    char name[AH_ERROR_TEXT_MAX / 2];
    ah_run_name(t, ah_device_failed(t->device).tag, name, sizeof name);
    if (name[0])
        ah_error_prefix(err, err->code, "%s", name);
    ah_error_prefix(err, err->code, "after step %" PRIu64,
                    __atomic_load_n(&t->reported_step, __ATOMIC_RELAXED));
}

/* Adds to the error where the device failed, if it did. The run may have ended for another reason while the device was
 * failing, so only a wait shows a failure of the device. */
static int place_failure(const struct run *run, int rc)
{
    const struct ah_trainer *t = run->t;
    if (!rc || !ah_device_wait(t->device, AH_LANE_COMPUTE, 0, NULL) || !ah_device_failed(t->device).any)
        return rc;
    if (run->err)
        ah_run_place(t, run->err);
    return rc;
}

int ah_trainer_run(struct ah_trainer *t, uint64_t steps, const struct ah_observer *observer,
                   struct ah_error *err)
{
    struct run run = {.t = t, .before = t->steps, .observer = observer, .err = err};
    uint64_t done = 0;
    bool last = false;
    if (!steps)
        return AH_OK;
    int rc = ah_ranks_order(t, &(struct ranks_order){.kind = RANKS_RUN, .steps = steps}, err);
    t->ranks.trains_now = true;
    rc = rc ? rc : open_run(&run);
    for (; !last && !rc; done++) {
        if (done >= 2)
            rc = report_step(&run);
        last = done + 1 == steps || run.stop;
        if (!rc)
            rc = submit_round(&run, (int64_t)done, last);
    }
    while (run.reported_step < done && !rc)
        rc = report_step(&run);
    rc = place_failure(&run, rc);
    rc = ah_ranks_fail(t, rc, err); /* comes before the drain, because lanes may wait for other ranks */
    int drained = ah_device_drain(t->device, rc ? NULL : err);
    t->ranks.trains_now = false;
    t->steps = run.before + run.reported_step;
    return rc ? rc : place_failure(&run, drained);
}
