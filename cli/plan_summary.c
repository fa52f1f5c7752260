/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan_summary.h"

#include "base/units.h"

#include <string.h>

struct ah_plan_lane_times ah_plan_lane_times(const struct ah_plan *plan)
{
    const struct ah_plan_time *time = &plan->time;
    return (struct ah_plan_lane_times){
        .busy_us = {[AH_PLAN_LANE_COMPUTE] = time->compute_us,
                    [AH_PLAN_LANE_H2D] = time->h2d_us,
                    [AH_PLAN_LANE_D2H] = time->d2h_us,
                    [AH_PLAN_LANE_HOST] = time->host_us},
        .exposed_us = {[AH_PLAN_LANE_H2D] = time->exposed_us.h2d,
                       [AH_PLAN_LANE_D2H] = time->exposed_us.d2h,
                       [AH_PLAN_LANE_HOST] = time->exposed_us.host},
    };
}

/* ---- what limits the speed ---- */

static const char *const lane_names[AH_PLAN_LANES] = {
    [AH_PLAN_LANE_COMPUTE] = "compute",
    [AH_PLAN_LANE_H2D] = "the link to the device",
    [AH_PLAN_LANE_D2H] = "the link to the host",
    [AH_PLAN_LANE_HOST] = "host Adam",
};

enum { WAITED_FOR = AH_PLAN_LANES - 1 };

/* Shares of the step that lanes work and that compute waits for them, and the lanes that it waits for, longest first. */
struct shares {
    double busy[AH_PLAN_LANES];
    double exposed[AH_PLAN_LANES];
    enum ah_plan_lane waited[WAITED_FOR];
    size_t n_waited;
};

static struct shares shares_of(double step_us, const struct ah_plan_lane_times *times)
{
    const double noticed = 0.005; /* shorter waits are not worth a word */
    struct shares shares = {.n_waited = 0};
    for (int lane = 0; lane < AH_PLAN_LANES && step_us > 0; lane++) {
        shares.busy[lane] = times->busy_us[lane] / step_us;
        shares.exposed[lane] = times->exposed_us[lane] / step_us;
    }
    for (int lane = AH_PLAN_LANE_H2D; lane < AH_PLAN_LANES; lane++) {
        size_t at = shares.n_waited;
        if (shares.exposed[lane] < noticed)
            continue;
        for (; at && shares.exposed[shares.waited[at - 1]] < shares.exposed[lane]; at--)
            shares.waited[at] = shares.waited[at - 1];
        shares.waited[at] = (enum ah_plan_lane)lane;
        shares.n_waited++;
    }
    return shares;
}

static void put_capital(struct ah_buffer *out, const char *text)
{
    char first = text[0] >= 'a' && text[0] <= 'z' ? (char)(text[0] - 'a' + 'A') : text[0];
    ah_buffer_printf(out, "%c%s", first, text + 1);
}

/* "12 % for the link to the device (busy 51 %), 3 % for host Adam (busy 39 %)" */
static void put_waits(struct ah_buffer *out, const struct shares *shares, size_t first)
{
    for (size_t i = first; i < shares->n_waited; i++) {
        enum ah_plan_lane lane = shares->waited[i];
        ah_buffer_printf(out, "%s%.0f %% for %s (busy %.0f %%)", i > first ? ", " : "",
                         100 * shares->exposed[lane], lane_names[lane], 100 * shares->busy[lane]);
    }
}

void ah_plan_put_bottleneck(struct ah_buffer *out, double step_us, const struct ah_plan_lane_times *times)
{
    const double saturated = 0.8;
    const struct shares shares = shares_of(step_us, times);
    double compute = shares.busy[AH_PLAN_LANE_COMPUTE];
    enum ah_plan_lane worst = shares.n_waited ? shares.waited[0] : AH_PLAN_LANE_COMPUTE;
    if (!shares.n_waited) {
        ah_buffer_printf(out, "Compute is the bottleneck: it is busy %.0f %% of the step and hardly waits.",
                         100 * compute);
    } else if (shares.busy[worst] >= saturated && shares.busy[worst] >= compute) {
        put_capital(out, lane_names[worst]);
        ah_buffer_printf(
            out,
            " is the bottleneck: it is busy %.0f %% of the step; compute waits %.0f %% of the step for it",
            100 * shares.busy[worst], 100 * shares.exposed[worst]);
        ah_buffer_puts(out, shares.n_waited > 1 ? ", " : ".");
        put_waits(out, &shares, 1);
        ah_buffer_puts(out, shares.n_waited > 1 ? "." : "");
    } else {
        ah_buffer_printf(out, "%s busy %.0f %% of the step; it waits ",
                         compute >= saturated ? "Compute is the bottleneck:"
                                              : "No lane is busy all the time: compute is",
                         100 * compute);
        put_waits(out, &shares, 0);
        ah_buffer_puts(out, compute >= saturated ? "." : ". They take turns.");
    }
}

void ah_plan_put_quality(struct ah_buffer *out, const struct ah_plan_solver *solver)
{
    char text[AH_UNITS_TEXT_MAX];
    if (solver->status == AH_PLAN_OPTIMAL)
        ah_buffer_puts(out, "proven optimal");
    else if (solver->bound_us > 0)
        ah_buffer_printf(out, "within %.1f %% of the bound (%s), which no plan can beat", 100 * solver->gap,
                         ah_units_print_time(text, solver->bound_us));
    else
        ah_buffer_puts(out, "how close to the best is not known: there is no bound");
}

/* ---- blocks ---- */

bool ah_plan_same_config(const struct ah_plan_block *a, const struct ah_plan_block *b)
{
    return a->activations == b->activations && a->weights == b->weights && a->optimizer == b->optimizer &&
           a->accumulator == b->accumulator;
}

/* "layer" of "layer.12"; all of a name without a dot. */
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
