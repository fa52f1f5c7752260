/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan summary: sentences about a plan that several verbs print.
 */
#include "cli/inspect/plan_summary.h"

#include "base/units.h"
#include "planner/prospects.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void ah_plan_put_without(struct ah_buffer *out, const unsigned *techniques, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ah_buffer_printf(out, "%s%s", i ? ", " : ", without ", ah_words_technique[techniques[i]]);
}

/* ---- what limits the speed ---- */

/* Fractions of the step: from the first on, a lane is the bottleneck; from the second on, the busiest lane is named
 * without being one; from the third on, a wait is mentioned. Each is half a percent below its printed value. */
static const double saturated = 0.945, busiest_least = 0.795, noticed = 0.005;

enum { WAITED_FOR = AH_PLAN_LANES - 1 };

/* By lane: the fractions of the step in which it works (busy), and in which compute waits for it (exposed). Also the
 * bottlenecks, the busiest lane, and the lanes that compute waits for, longest wait first. */
struct shares {
    double busy[AH_PLAN_LANES];
    double exposed[AH_PLAN_LANES];
    double unexplained; /* fraction in which compute neither works nor waits for a lane */
    bool named[AH_PLAN_LANES];
    size_t n_named;
    enum ah_plan_lane busiest;
    enum ah_plan_lane waited[WAITED_FOR];
    size_t n_waited;
};

static void sort_waits(struct shares *shares)
{
    for (int lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++) {
        size_t at = shares->n_waited;
        if (shares->exposed[lane] < noticed)
            continue;
        for (; at && shares->exposed[shares->waited[at - 1]] < shares->exposed[lane]; at--)
            shares->waited[at] = shares->waited[at - 1];
        shares->waited[at] = (enum ah_plan_lane)lane;
        shares->n_waited++;
    }
}

static struct shares shares_of(const struct ah_plan_time *time)
{
    double step_us = time->step_us;
    struct shares shares = {.unexplained = step_us > 0 ? 1 : 0};
    for (int lane = 0; lane < AH_PLAN_LANES && step_us > 0; lane++) {
        shares.busy[lane] = time->busy_us[lane] / step_us;
        shares.exposed[lane] = time->exposed_us.of[lane] / step_us;
        shares.unexplained -= shares.exposed[lane] + (lane == AH_PLAN_LANE_COMPUTE ? shares.busy[lane] : 0);
        if (shares.busy[lane] > shares.busy[shares.busiest])
            shares.busiest = (enum ah_plan_lane)lane;
        shares.named[lane] = shares.busy[lane] >= saturated;
        shares.n_named += shares.named[lane];
    }
    sort_waits(&shares);
    return shares;
}

static void put_capital(struct ah_buffer *out, const char *text)
{
    char first = text[0] >= 'a' && text[0] <= 'z' ? (char)(text[0] - 'a' + 'A') : text[0];
    ah_buffer_printf(out, "%c%s", first, text + 1);
}

/* Appends "Host Adam is the bottleneck: it is busy 96 % of the step". */
static void put_one(struct ah_buffer *out, const struct shares *shares, enum ah_plan_lane lane,
                    const char *predicate)
{
    put_capital(out, ah_plan_lane_titles[lane]);
    ah_buffer_printf(out, " %s: it is busy %.0f %% of the step", predicate, 100 * shares->busy[lane]);
}

/* Appends "Compute (busy 98 % of the step) and host Adam (96 %) together are the bottleneck". */
static void put_several(struct ah_buffer *out, const struct shares *shares)
{
    size_t left = shares->n_named;
    for (int lane = 0; lane < AH_PLAN_LANES; lane++) {
        bool first = left == shares->n_named;
        if (!shares->named[lane])
            continue;
        if (first)
            put_capital(out, ah_plan_lane_titles[lane]);
        else
            ah_buffer_printf(out, "%s%s", left == 1 ? " and " : ", ", ah_plan_lane_titles[lane]);
        ah_buffer_printf(out, " (%s%.0f %%%s)", first ? "busy " : "", 100 * shares->busy[lane],
                         first ? " of the step" : "");
        left--;
    }
    ah_buffer_puts(out, " together are the bottleneck");
}

/* Appends " and waits 12 % for host Adam (busy 87 %), 3 % for the link to the device (busy 51 %)". Leaves out "busy"
 * for lanes in `said`. */
static void put_waits(struct ah_buffer *out, const struct shares *shares, const char *waits, const bool *said)
{
    const char *before = "";
    if (shares->n_waited || shares->unexplained >= noticed)
        ah_buffer_puts(out, waits);
    for (size_t i = 0; i < shares->n_waited; i++) {
        enum ah_plan_lane lane = shares->waited[i];
        ah_buffer_printf(out, "%s%.0f %% for %s", before, 100 * shares->exposed[lane],
                         ah_plan_lane_titles[lane]);
        if (!said[lane])
            ah_buffer_printf(out, " (busy %.0f %%)", 100 * shares->busy[lane]);
        before = ", ";
    }
    if (shares->unexplained >= noticed)
        ah_buffer_printf(out, "%s%.0f %% for free memory or its turn in the order", before,
                         100 * shares->unexplained);
    ah_buffer_puts(out, ".");
}

void ah_plan_put_bottleneck(struct ah_buffer *out, const struct ah_plan_time *time)
{
    struct shares shares = shares_of(time);
    bool only_compute = true;
    if (shares.n_named > 1) {
        put_several(out, &shares);
        only_compute = false;
    } else if (shares.n_named || shares.busy[shares.busiest] >= busiest_least) {
        put_one(out, &shares, shares.busiest,
                shares.n_named ? "is the bottleneck"
                               : "limits the speed most, though no lane is busy all the time");
        shares.named[shares.busiest] = true;
        only_compute = shares.busiest == AH_PLAN_LANE_COMPUTE;
    } else {
        ah_buffer_printf(
            out,
            "No single lane is the bottleneck; lanes wait for each other: compute is busy %.0f %% of "
            "the step",
            100 * shares.busy[AH_PLAN_LANE_COMPUTE]);
    }
    put_waits(out, &shares, only_compute ? " and waits " : "; of the step compute waits ", shares.named);
}

struct part {
    size_t n;
    const char *one, *many; /* verb phrases for one block and for several */
};

/* Appends "10 of 23 blocks stream their states, 9 keep ...": the first part with blocks also gets the total. */
static void put_parts(struct ah_buffer *out, const struct part *parts, size_t n, size_t all)
{
    const char *before = "";
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].n)
            continue;
        ah_buffer_printf(out, "%s%zu", before, parts[i].n);
        if (!*before)
            ah_buffer_printf(out, " of %zu blocks", all);
        ah_buffer_printf(out, " %s", parts[i].n == 1 ? parts[i].one : parts[i].many);
        before = ", ";
    }
    if (!*before)
        ah_buffer_puts(out, "Everything stays on the device and nothing is recomputed");
    ah_buffer_puts(out, ".");
}

void ah_plan_put_cause(struct ah_buffer *out, const struct ah_plan *plan)
{
    const struct ah_prospect_blocks blocks = ah_prospects_count(plan);
    const struct part parts[] = {
        {blocks.streamed, "streams its states", "stream their states"},
        {blocks.optimizer_host, "is updated on the host", "are updated on the host"},
        {blocks.weights_host, "keeps its weights on the host", "keep their weights on the host"},
        {blocks.recompute, "recomputes its activations", "recompute their activations"},
        {blocks.selective, "recomputes cheap operations only", "recompute cheap operations only"},
    };
    put_parts(out, parts, sizeof parts / sizeof *parts, blocks.all);
}

void ah_plan_put_quality(struct ah_buffer *out, const struct ah_plan_solver *solver)
{
    char text[AH_UNITS_TEXT_MAX];
    if (solver->status == AH_PLAN_OPTIMAL) {
        ah_buffer_puts(out, "proven optimal: no plan is faster");
    } else if (solver->status == AH_PLAN_WITHIN_GAP && solver->bound_us > 0) {
        double excess = solver->objective_us / solver->bound_us - 1;
        ah_buffer_printf(out, "within %.1f %% of the best possible step (bound %s)", fmax(100 * excess, 0.1),
                         ah_units_print_time(text, solver->bound_us));
    } else {
        ah_buffer_puts(out, "distance from the best possible step unknown: there is no bound");
    }
}

/* ---- sizes ---- */

void ah_plan_put_batch(struct ah_buffer *out, uint64_t batch, uint64_t seq)
{
    ah_buffer_printf(out, "%" PRIu64 " sequence%s of %" PRIu64 " token%s", batch, batch == 1 ? "" : "s", seq,
                     seq == 1 ? "" : "s");
}

void ah_plan_put_sums(struct ah_buffer *out, const uint64_t *sums, size_t n_sums)
{
    for (size_t i = 0; i < n_sums; i++)
        ah_buffer_printf(out, "%s%" PRIu64, i ? "+" : "", sums[i]);
}

const char *ah_plan_predicted(bool estimated)
{
    return estimated ? "predicted from estimates" : "predicted";
}

uint64_t ah_plan_device_bytes(const struct ah_plan *plan)
{
    return plan->memory.device_bytes + plan->memory.reserved_bytes;
}

uint64_t ah_plan_host_bytes(const struct ah_plan *plan)
{
    return plan->memory.host_bytes + plan->memory.process_bytes;
}

void ah_plan_put_what_if(struct ah_buffer *out, const struct ah_plan *plan)
{
    static const char *const names[AH_WHAT_IFS] = {"device", "host"};
    for (size_t i = 0; i < plan->n_what_if; i++) {
        const struct ah_plan_what_if *row = &plan->what_if[i];
        char planned[AH_UNITS_TEXT_MAX], there[AH_UNITS_TEXT_MAX];
        if (i)
            ah_buffer_puts(out, " and ");
        else
            ah_buffer_printf(out, "what if %s had ", plan->inputs.machine.name);
        ah_buffer_printf(out, "%s of %s memory (it has %s)",
                         ah_units_print_bytes(planned, row->planned_bytes), names[row->field],
                         ah_units_print_bytes(there, row->machine_bytes));
    }
}

/* ---- blocks ---- */

bool ah_plan_same_config(const struct ah_plan_block *a, const struct ah_plan_block *b)
{
    return a->activations == b->activations && a->weights == b->weights && a->optimizer == b->optimizer &&
           a->accumulator == b->accumulator;
}

/* Returns the length of "layer" in "layer.12"; without a dot, the length of the name. */
static size_t kind_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_kind(const char *a, const char *b)
{
    size_t length = kind_length(a);
    return length == kind_length(b) && !strncmp(a, b, length);
}

size_t ah_plan_range_end(const struct ah_plan *plan, size_t first)
{
    const struct ah_plan_block *block = &plan->blocks[first];
    size_t end = first + 1;
    while (end < plan->n_blocks && same_kind(block->name, plan->blocks[end].name) &&
           ah_plan_same_config(block, &plan->blocks[end]))
        end++;
    return end;
}

void ah_plan_put_range(struct ah_buffer *out, const struct ah_plan *plan, size_t first, size_t end)
{
    const char *last = plan->blocks[end - 1].name;
    const char *number = strrchr(last, '.');
    ah_buffer_puts(out, plan->blocks[first].name);
    if (end - first > 1)
        ah_buffer_printf(out, "-%s", number ? number + 1 : last);
}

void ah_plan_put_lora(struct ah_buffer *out, const char *before, const struct ah_model *model)
{
    const struct ah_model_lora *lora = model->lora;
    if (!lora)
        return;
    ah_buffer_printf(out, "%sadapters of rank %" PRIu64 ", alpha %g%s, on ", before, lora->rank, lora->alpha,
                     lora->scaling == AH_LORA_STANDARD ? "" : " (rank-stabilized)");
    for (size_t i = 0; i < lora->n_on; i++)
        ah_buffer_printf(out, "%s%s", i ? ", " : "", ah_words_lora[lora->on[i]]);
}

void ah_plan_emit_lora(struct ah_emit *emit, const struct ah_model *model)
{
    const struct ah_model_lora *lora = model->lora;
    if (!lora)
        return;
    ah_emit_open(emit, "lora", '{');
    ah_emit_integer(emit, "rank", lora->rank);
    ah_emit_number(emit, "alpha", lora->alpha);
    ah_emit_text(emit, "scaling", ah_words_lora_scaling[lora->scaling]);
    ah_emit_open(emit, "on", '[');
    for (size_t i = 0; i < lora->n_on; i++)
        ah_emit_text(emit, NULL, ah_words_lora[lora->on[i]]);
    ah_emit_close(emit);
    ah_emit_close(emit);
}
