/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how long it takes to evaluate a plan, by phase: 96 equal blocks, four tiles each, with and without clipping.
 *
 *     bench_schedule [--blocks N] [--tiles N] [--rounds N]
 *
 * Rows: `host` fetches and updates every block on the host; in `streamed` every block's states visit the device.
 * `mixed` has a third of the blocks on the device, a third updated on the host, a third streamed. `recompute` is mixed
 * with activations recomputed in half of the blocks. Columns are medians of one interleaved run, in microseconds.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "bench/options.h"
#include "runtime/schedule/schedule_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 1000, GROUPS = 3 };

enum phase {
    PHASE_COMPILE,
    PHASE_LAYOUT,
    PHASE_ITEMS,
    PHASE_LOAD,
    PHASE_DISPATCH,
    PHASE_FROZEN,
    PHASE_ALL,
    PHASES
};

static const char *const phase_names[PHASES] = {"compile",  "layout", "items",   "load",
                                                "dispatch", "frozen", "evaluate"};

static const struct ah_config device = {AH_ACTIVATIONS_KEEP, AH_WEIGHTS_DEVICE, AH_OPTIMIZER_DEVICE, 0};
static const struct ah_config host = {AH_ACTIVATIONS_KEEP, AH_WEIGHTS_HOST, AH_OPTIMIZER_HOST, 0};
static const struct ah_config host_update = {AH_ACTIVATIONS_KEEP, AH_WEIGHTS_DEVICE, AH_OPTIMIZER_HOST, 0};
static const struct ah_config streamed = {AH_ACTIVATIONS_KEEP, AH_WEIGHTS_DEVICE, AH_OPTIMIZER_STREAMED, 0};

static struct ah_config choose_host(size_t block, size_t n)
{
    (void)block;
    (void)n;
    return host;
}

static struct ah_config choose_streamed(size_t block, size_t n)
{
    (void)block;
    (void)n;
    return streamed;
}

static struct ah_config choose_mixed(size_t block, size_t n)
{
    return block < n / 3 ? device : block < 2 * n / 3 ? host_update : streamed;
}

static struct ah_config choose_recompute(size_t block, size_t n)
{
    struct ah_config config = choose_mixed(block, n);
    bool layer = block > 0 && block + 1 < n;
    config.activations = layer && block < n / 2 ? AH_ACTIVATIONS_RECOMPUTE : AH_ACTIVATIONS_KEEP;
    return config;
}

static const struct {
    const char *name;
    struct ah_config (*choose)(size_t block, size_t n);
} rows[] = {{"host", choose_host},
            {"streamed", choose_streamed},
            {"mixed", choose_mixed},
            {"recompute", choose_recompute}};

/* A GPT on a device of 100 teraflops. The link has 25 GB/s each way; the host updates a billion parameters a second.
 * Copies and the host's updates share memory. */
struct workload {
    struct ah_model model;
    struct ah_model_rope rope;
    const char *everything[1];
    struct ah_arena arena;
    struct ah_job job;
    struct ah_cost_group groups[GROUPS];
    struct ah_plan_resource dram;
    struct ah_costs costs;
    struct ah_config *configs;
    struct ah_choice choice;
};

static void stop(const struct ah_error *err)
{
    fprintf(stderr, "bench_schedule: %s\n", err->text);
    exit(1);
}

static void price(struct workload *w)
{
    for (size_t g = 0; g < w->job.n_groups; g++) {
        double us = 2.0 * (double)w->job.groups[g].parameters * (double)w->job.tokens / 100e6;
        w->groups[g] = (struct ah_cost_group){.forward_us = us, .backward_us = {2 * us, 2.1 * us, 3 * us}};
    }
    w->dram = (struct ah_plan_resource){.name = "host_dram", .demand = {0, 0.17, 0.17, 0.85}};
    w->costs = (struct ah_costs){.groups = w->groups,
                                 .h2d_latency_us = 10,
                                 .d2h_latency_us = 10,
                                 .h2d_us_per_byte = 1 / 25e3,
                                 .d2h_us_per_byte = 1 / 25e3,
                                 .host_adam_us = 1e-3,
                                 .host_squares_us = 1e-4,
                                 .device_adam_us = 1 / 44e3,
                                 .device_squares_us = 1 / 600e3,
                                 .host_us_per_byte = 1 / 50e3,
                                 .norm_us = 5,
                                 .sharing = {{{1, 1, 1, 1}}, &w->dram, 1}};
}

static void open_workload(struct workload *w, uint64_t layers, uint64_t tiles, double clip)
{
    struct ah_error err = {0};
    *w = (struct workload){.rope = {.theta = 10000}, .everything = {"*"}};
    w->model = (struct ah_model){.name = "bench",
                                 .family = AH_FAMILY_LLAMA,
                                 .layers = layers,
                                 .width = 4096,
                                 .heads = 32,
                                 .kv_heads = 32,
                                 .head_dim = 128,
                                 .mlp_width = 11008,
                                 .vocabulary = 32000,
                                 .max_positions = 4096,
                                 .padding_token = AH_MODEL_NO_PADDING,
                                 .position = AH_POSITION_ROPE,
                                 .rope = &w->rope,
                                 .norm_epsilon = 1e-5,
                                 .activation = AH_MODEL_SILU_GATED};
    const struct ah_plan_training training = {.batch = 8,
                                              .micro_batches = 1,
                                              .seq = 1024,
                                              .clip = clip,
                                              .trainable = w->everything,
                                              .n_trainable = 1};
    if (ah_job_init(&w->job, &w->model, &training, &w->arena, &err))
        stop(&err);
    w->configs = calloc(w->job.n_blocks, sizeof *w->configs);
    if (!w->configs)
        exit(1);
    price(w);
    uint64_t elements = ah_job_block(&w->job, 1)->flat_elements / tiles + AH_PLAN_TILE_UNIT;
    w->choice =
        (struct ah_choice){.configs = w->configs,
                           .costs = &w->costs,
                           .knobs = {.tile_elements = elements / AH_PLAN_TILE_UNIT * AH_PLAN_TILE_UNIT,
                                     .fetch_ahead = 2,
                                     .send_behind = 2,
                                     .host_gradient_tiles = 16,
                                     .host_weight_tiles = 16,
                                     .device_state_tiles = 4}};
}

static void close_workload(struct workload *w)
{
    ah_arena_release(&w->arena);
    free(w->configs);
}

static double since_us(uint64_t *begin_ns)
{
    uint64_t now_ns = ah_threads_now_ns();
    double us = (double)(now_ns - *begin_ns) / 1e3;
    *begin_ns = now_ns;
    return us;
}

/* Measures the phases of an evaluation, in the order of ah_schedule_evaluate(). */
static void time_phases(struct ah_schedule_memory *m, const struct ah_choice *choice, double us[PHASES])
{
    struct ah_error err = {0};
    struct ah_layout_result layout;
    struct ah_score score;
    uint64_t begin_ns = ah_threads_now_ns();
    int rc = ah_compile(&m->compile_memory, m->job, choice, &m->compiled, &err);
    us[PHASE_COMPILE] = since_us(&begin_ns);
    ah_layout_place(&m->layout, m->compiled.tensors, m->compiled.n_tensors, m->compiled.iteration.positions,
                    &layout);
    us[PHASE_LAYOUT] = since_us(&begin_ns);
    rc = rc ? rc : ah_items_build(&m->items_memory, &m->compiled.iteration, &m->items, &err);
    us[PHASE_ITEMS] = since_us(&begin_ns);
    struct ah_sim_run run = {.iteration = &m->compiled.iteration,
                             .items = &m->items,
                             .sharing = &choice->costs->sharing,
                             .op_us = m->op_us.items};
    rc = rc ? rc : ah_dispatch_load(&m->dispatch_memory, &run, AH_SCHEDULE_ITERATIONS_UNSTEADY, &err);
    us[PHASE_LOAD] = since_us(&begin_ns);
    rc = rc ? rc
            : ah_dispatch_freeze(&m->dispatch_memory, &run, choice->knobs.scheduling, &m->orders,
                                 &score.period_us, &err);
    us[PHASE_DISPATCH] = since_us(&begin_ns);
    rc = rc ? rc : ah_schedule_run_frozen(m, &run, &score, &err);
    us[PHASE_FROZEN] = since_us(&begin_ns);
    if (rc)
        stop(&err);
}

static void measure(struct workload *w, size_t row, size_t rounds)
{
    static double us[PHASES][ROUNDS_MAX];
    struct ah_schedule schedule = {0};
    struct ah_score score;
    struct ah_error err = {0};
    for (size_t block = 0; block < w->job.n_blocks; block++)
        w->configs[block] = rows[row].choose(block, w->job.n_blocks);
    if (ah_schedule_init(&schedule, &w->job, &err) ||
        ah_schedule_evaluate(&schedule, &w->choice, &score, &err))
        stop(&err);
    for (size_t round = 0; round < rounds; round++) {
        double phases[PHASES];
        time_phases(schedule.memory, &w->choice, phases);
        uint64_t begin_ns = ah_threads_now_ns();
        if (ah_schedule_evaluate(&schedule, &w->choice, &score, &err))
            stop(&err);
        phases[PHASE_ALL] = since_us(&begin_ns);
        for (size_t phase = 0; phase < PHASES; phase++)
            us[phase][round] = phases[phase];
    }
    printf("%-10s %-5s %5zu items", rows[row].name, w->job.training.clip > 0 ? "clip" : "",
           schedule.memory->items.n);
    for (size_t phase = 0; phase < PHASES; phase++)
        printf("  %s %6.1f", phase_names[phase], ah_stats_of(us[phase], rounds).median);
    printf(" (min %.1f)  period %.0f us\n", us[PHASE_ALL][0], score.period_us);
    ah_schedule_release(&schedule);
}

int main(int argc, char **argv)
{
    static struct workload w;
    size_t blocks = bench_option(argc, argv, "--blocks", 96, 1000);
    size_t tiles = bench_option(argc, argv, "--tiles", 4, 64);
    size_t rounds = bench_option(argc, argv, "--rounds", 200, ROUNDS_MAX);
    for (int clip = 0; clip < 2; clip++) {
        open_workload(&w, blocks, tiles, clip);
        for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
            measure(&w, row, rounds);
        close_workload(&w);
    }
    return 0;
}
