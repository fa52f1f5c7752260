/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare/compare_measured.h"

#include "cli/frame/interrupt.h"
#include "cli/run/run_terminal.h"
#include "cli/run/stall.h"
#include "runtime/run/run.h"
#include "runtime/train/data/synthetic_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS_DEFAULT = 5, STEPS_DEFAULT = 5, ROUNDS_MOST = 1000, STEPS_MOST = 100000 };
enum { FIRST_STEPS = 3, LAST_STEPS = 1 }; /* uncounted steps at the start and the end of a turn */

struct turn {
    uint64_t from_ns, to_ns; /* start and end of the counted steps */
};

/* The results of one policy while it is measured. */
struct entrant {
    const struct ah_comparison *row;
    double *step_us; /* by round: mean step time of its turn */
    double *losses;  /* by step: loss in its first round */
};

struct measuring {
    struct ah_cli *cli;
    struct ah_run_terminal terminal;
    struct ah_run_options options;
    struct entrant entrants[AH_POLICIES];
    size_t n_entrants;
    uint64_t turn_steps; /* number of steps in a turn, counted or not */
    struct ah_compare_measurement *measurement;
    struct ah_progress progress;

    /* the current turn */
    struct entrant *entrant;
    uint64_t round;
    struct turn turn;
};

/* ---- a turn ---- */

static void draw_progress(struct measuring *m, uint64_t step)
{
    const struct ah_compare_measurement *measurement = m->measurement;
    char what[96];
    uint64_t turns = measurement->rounds * m->n_entrants;
    uint64_t done = m->round * m->n_entrants;
    for (size_t i = 0; i < m->n_entrants; i++)
        done += m->entrants[i].step_us[m->round] > 0;
    snprintf(what, sizeof what, "round %" PRIu64 " of %" PRIu64 ": %s", m->round + 1, measurement->rounds,
             ah_words_policy[m->entrant->row->policy]);
    ah_terminal_draw(&m->progress, ((double)done + (double)step / (double)m->turn_steps) / (double)turns,
                     what);
}

static void differs(struct measuring *m, uint64_t step)
{
    if (m->measurement->unlike)
        return;
    m->measurement->unlike = ah_words_policy[m->entrant->row->policy];
    m->measurement->unlike_step = step;
}

static void on_step(void *context, const struct ah_step_record *record, double step_us)
{
    struct measuring *m = context;
    double *loss = &m->entrant->losses[record->step - 1];
    (void)step_us;
    if (record->step == FIRST_STEPS)
        m->turn.from_ns = record->end_ns;
    if (record->step == m->turn_steps - LAST_STEPS)
        m->turn.to_ns = record->end_ns;
    if (!m->round)
        *loss = record->loss;
    else if (memcmp(loss, &record->loss, sizeof *loss) != 0)
        differs(m, record->step);
    draw_progress(m, record->step);
}

static int note_run(struct measuring *m, const struct ah_run *run, struct ah_error *err)
{
    struct ah_compare_measured *row = &m->measurement->policies[m->entrant->row->policy];
    const struct ah_trainer_facts facts = ah_trainer_facts(run->trainer);
    const uint64_t *touched = facts.touched_bytes;
    row->device_peak_bytes = touched[AH_ARENA_DEVICE] + facts.reserve_bytes;
    row->host_peak_bytes = touched[AH_ARENA_PINNED] + touched[AH_ARENA_PAGEABLE];
    if (!m->measurement->device)
        m->measurement->device = ah_arena_strdup(&m->cli->arena, ah_trainer_device(run->trainer)->info.name);
    return m->measurement->device ? AH_OK : ah_error_memory(err);
}

static int take_turn(struct measuring *m, struct ah_error *err)
{
    const struct ah_run_listener listener = {.step = on_step, .context = m};
    struct ah_run run;
    draw_progress(m, 0);
    int rc = ah_run_open(&run, &m->terminal.host, m->entrant->row->plan, &m->options, err);
    if (!rc)
        rc = ah_run_train(&run, &listener, err);
    if (!rc)
        rc = note_run(m, &run, err);
    ah_run_close(&run);
    if (!rc)
        m->entrant->step_us[m->round] =
            (double)(m->turn.to_ns - m->turn.from_ns) * 1e-3 / (double)m->measurement->steps;
    return rc;
}

static int take_turns(struct measuring *m, struct ah_error *err)
{
    int rc = AH_OK;
    for (m->round = 0; m->round < m->measurement->rounds && !rc; m->round++) {
        for (size_t i = 0; i < m->n_entrants && !rc; i++) {
            m->entrant = &m->entrants[(m->round + i) % m->n_entrants];
            rc = take_turn(m, err);
        }
    }
    return rc;
}

/* ---- results ---- */

static const struct ah_signature *signature_of(const struct entrant *entrant)
{
    return &entrant->row->plan->numeric_signature;
}

/* Returns the first entrant with the same signature, perhaps `entrant` itself. */
static const struct entrant *first_like(const struct measuring *m, const struct entrant *entrant)
{
    char path[AH_SIGNATURE_PATH_MAX];
    const struct entrant *first = m->entrants;
    while (first < entrant && ah_signature_differs(signature_of(first), signature_of(entrant), path))
        first++;
    return first;
}

static void compare_losses(struct measuring *m)
{
    for (size_t i = 0; i < m->n_entrants; i++) {
        m->entrant = &m->entrants[i];
        const struct entrant *first = first_like(m, m->entrant);
        m->measurement->signatures += first == m->entrant;
        for (uint64_t step = 0; step < m->turn_steps; step++)
            if (memcmp(&first->losses[step], &m->entrant->losses[step], sizeof *first->losses) != 0)
                differs(m, step + 1);
    }
}

static const struct entrant *find_optimal(const struct measuring *m)
{
    for (size_t i = 0; i < m->n_entrants; i++)
        if (m->entrants[i].row->policy == AH_POLICY_OPTIMAL)
            return &m->entrants[i];
    return NULL;
}

static int summarise(struct measuring *m, struct ah_error *err)
{
    const struct entrant *optimal = find_optimal(m);
    uint64_t rounds = m->measurement->rounds;
    double *sorted = ah_arena_array(&m->cli->arena, rounds, sizeof *sorted);
    if (!sorted)
        return ah_error_memory(err);
    for (size_t i = 0; i < m->n_entrants; i++) {
        const struct entrant *entrant = &m->entrants[i];
        struct ah_compare_measured *row = &m->measurement->policies[entrant->row->policy];
        memcpy(sorted, entrant->step_us, rounds * sizeof *sorted);
        row->step_us = ah_stats_of(sorted, rounds);
        for (uint64_t k = 0; k < rounds && optimal; k++)
            sorted[k] = entrant->step_us[k] / optimal->step_us[k];
        if (optimal)
            row->to_optimal = ah_stats_of(sorted, rounds);
    }
    compare_losses(m);
    return AH_OK;
}

/* ---- setup ---- */

static int read_count(const char *option, const struct ah_option_integer *given, uint64_t otherwise,
                      uint64_t most, uint64_t *ret_value, struct ah_error *err)
{
    *ret_value = given->given ? given->value : otherwise;
    if (*ret_value && *ret_value <= most)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE, "'--%s' %" PRIu64 " is not one of 1 to %" PRIu64, option, *ret_value,
                        most);
}

static int add_entrants(struct measuring *m, const struct ah_comparison rows[AH_POLICIES],
                        struct ah_error *err)
{
    for (size_t i = 0; i < AH_POLICIES; i++) {
        if (!rows[i].feasible)
            continue;
        struct entrant *entrant = &m->entrants[m->n_entrants++];
        *entrant = (struct entrant){
            .row = &rows[i],
            .step_us = ah_arena_array(&m->cli->arena, m->measurement->rounds, sizeof *entrant->step_us),
            .losses = ah_arena_array(&m->cli->arena, m->turn_steps, sizeof *entrant->losses)};
        if (!entrant->step_us || !entrant->losses)
            return ah_error_memory(err);
    }
    return AH_OK;
}

/* Makes synthetic tokens for a few batches. */
static int make_data(struct measuring *m, struct ah_synthetic_tokens *tokens, struct ah_error *err)
{
    const struct ah_plan *plan = m->entrants[0].row->plan;
    const struct ah_synthetic_tokens_options options = {.vocabulary = plan->model.vocabulary,
                                                        .tokens =
                                                            4 * plan->training.batch * plan->training.seq + 1,
                                                        .seed = m->options.seed.value};
    int rc = ah_synthetic_tokens_init(tokens, &options, err);
    if (rc)
        return rc;
    m->measurement->synthetic_data = true;
    m->options.data = (struct ah_option_list){.items = tokens->paths, .n = 1};
    m->options.data_format = ah_dataset_format_word(tokens->format);
    return AH_OK;
}

static int measure_entrants(struct measuring *m, struct ah_error *err)
{
    struct ah_synthetic_tokens tokens = {0};
    struct ah_device_keep keep = {0};
    m->options.keep_pinned = &keep;
    int rc = m->options.data.n ? AH_OK : make_data(m, &tokens, err);
    m->progress = ah_terminal_progress();
    if (!rc)
        rc = take_turns(m, err);
    ah_device_keep_release(&keep);
    ah_terminal_erase(&m->progress);
    ah_synthetic_tokens_release(&tokens);
    return rc ? rc : summarise(m, err);
}

int ah_compare_measured_run(struct ah_cli *cli, const struct ah_comparison rows[AH_POLICIES],
                            const struct ah_machine *machine,
                            const struct ah_compare_measured_options *options,
                            struct ah_compare_measurement *ret_measurement, struct ah_error *err)
{
    struct ah_compare_measurement *measurement = ret_measurement;
    *measurement = (struct ah_compare_measurement){0};
    int rc = read_count("rounds", &options->rounds, ROUNDS_DEFAULT, ROUNDS_MOST, &measurement->rounds, err);
    if (!rc)
        rc = read_count("steps", &options->steps, STEPS_DEFAULT, STEPS_MOST, &measurement->steps, err);
    if (rc)
        return rc;
    struct measuring m = {.cli = cli,
                          .measurement = measurement,
                          .turn_steps = FIRST_STEPS + measurement->steps + LAST_STEPS,
                          .options = {.data = options->data,
                                      .data_format = options->data_format,
                                      .seed = options->seed,
                                      .device = options->device,
                                      .watch = ah_stall_watch(cli, NULL),
                                      .emulated = machine->emulates ? machine : NULL}};
    ah_run_terminal_init(&m.terminal, cli);
    m.terminal.host.stop = ah_interrupt_catch();
    m.options.steps = (struct ah_option_integer){.given = true, .value = m.turn_steps};
    rc = add_entrants(&m, rows, err);
    return rc || !m.n_entrants ? rc : measure_entrants(&m, err);
}
