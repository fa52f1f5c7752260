/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that ranks end together, however they end. One rank dies at any of its messages, weights become NaN, one rank's
 * data cannot be read, or the run is interrupted. If a rank waited forever, the test would exceed its time limit.
 */
#include "base/threads.h"
#include "tests/property/train/counted.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/hooked.h"
#include "tests/support/root.h"

#include <inttypes.h>
#include <math.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

enum { DEATHS_EACH = 40, INTERRUPTS = 24, STEPS = 8, DELAY_US = 40 };

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;

static struct ah_comm_hub_options late_world(uint64_t *seed)
{
    return (struct ah_comm_hub_options){
        .poisons = true, .most_delay_us = DELAY_US, .seed = check_random(seed)};
}

/* Reads and writes everything of a block, as rank 0 does. */
static int change_block(struct ah_trainer *trainer, uint64_t block, bool spoils, struct ah_error *err)
{
    static float values[GOLDEN_VALUES_MAX];
    const struct ah_flat flat =
        ah_flat_of(&golden.c.model, ah_job_block(&golden.c.job, block)->kind, UINT32_MAX);
    int rc = AH_OK;
    for (size_t i = 0; i < flat.n && !rc; i++) {
        const struct ah_weights_piece piece = {
            .block = block, .tensor = i, .element = flat.tensors[i].first, .n = flat.tensors[i].elements};
        rc = ah_trainer_read(trainer, AH_TRAINER_WEIGHTS, &piece, values, err);
        for (uint64_t k = 0; k < piece.n && spoils; k++)
            values[k] = NAN;
        rc = rc ? rc : ah_trainer_write(trainer, AH_TRAINER_WEIGHTS, &piece, values, err);
    }
    return rc;
}

/* ---- worlds of several pipelines ---- */

enum { GROUPS_MAX = 3, SMALL_PIECE = 512, RANKS_MOST = 5 };

static const struct groups {
    const char *name;
    uint64_t sums[GROUPS_MAX];
    uint64_t n, micro_batches;
} worlds[] = {
    {"llama", {2, 2}, 2, 4}, {"llama-frozen-below", {1, 3}, 2, 4}, {"gpt2-untied-odd", {1, 3, 2}, 3, 6}};
enum { WORLDS = sizeof worlds / sizeof *worlds };

/* Opens the case with its micro-batches in these groups. A single process sums the groups in the same way. */
static void open_grouped(const struct groups *of, enum ah_dtype dtype)
{
    static uint64_t sums[GROUPS_MAX]; /* borrowed by the job */
    memcpy(sums, of->sums, sizeof sums);
    golden_open_as(&golden, of->name, dtype, AH_FP32);
    golden_regroup(&golden, of->micro_batches, sums, of->n);
}

static void open_pipelines(const struct groups *of, uint64_t *turn, uint64_t *seed)
{
    pipeline.share_piece = SMALL_PIECE;
    pipeline_open_groups(&pipeline, &golden, of->sums, of->n, RANKS_MOST, turn, seed);
}

/* ---- deaths ---- */

/* Gives every order that rank 0 can give to the other ranks. */
static int do_all(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                  struct ah_error *err)
{
    struct ah_trainer_evaluation evaluation;
    bool *did_all = context;
    int rc = ah_trainer_run(trainer, 2, NULL, err);
    rc = rc ? rc : ah_trainer_evaluate(trainer, held_out, NULL, &evaluation, err);
    for (uint64_t block = 0; block < golden.c.job.n_blocks && !rc; block++)
        rc = change_block(trainer, block, false, err);
    rc = rc ? rc : ah_trainer_run(trainer, 3, NULL, err);
    *did_all = !rc;
    return rc;
}

static void let_die(uint32_t rank, uint64_t at, uint64_t *seed)
{
    struct ah_comm_hub_options world = late_world(seed);
    char died[64];
    bool did_all = false;
    world.dies_at = at;
    world.dying_rank = rank;
    pipeline_run(&pipeline, &world, do_all, &did_all);
    snprintf(died, sizeof died, "rank %u: it died at its message %" PRIu64, rank, at);
    for (size_t i = 0; i < pipeline.n && !did_all; i++) {
        const struct pipeline_stage *s = &pipeline.stages[i];
        const char *said = i || rank ? died : strchr(died, 'i'); /* rank 0 does not name itself */
        if (s->rc != AH_E_FAILED || strncmp(s->err.text, said, strlen(said)) != 0)
            fail_msg("'%s', yet rank %zu ends with %d: %s", died, i, s->rc, s->err.text);
    }
}

TEST(rank_ends, a_rank_that_dies_ends_all_and_is_named)
{
    static const char *const names[] = {"llama", "llama-frozen-below", "gpt2-untied-odd"};
    uint64_t seed = check_seed(43), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool did_all = false;
        golden_open_as(&golden, names[i], AH_FP32, AH_FP32);
        pipeline_open(&pipeline, &golden, 3, turn, &seed);
        pipeline.driver = counted_driver();
        counted_reset();
        pipeline_run(&pipeline, &(struct ah_comm_hub_options){0}, do_all, &did_all);
        pipeline_expect_ok(&pipeline);
        assert_true(did_all);
        pipeline.driver = NULL;
        for (uint32_t rank = 0; rank < pipeline.n; rank++)
            for (size_t k = 0; k < check_scaled(DEATHS_EACH); k++)
                let_die(rank, 1 + test_below(&seed, counted[rank].posts), &seed);
        pipeline_close(&pipeline);
        golden_close(&golden);
    }
}

/* Lets the rank die at a message, and returns the purpose of that message. */
static uint32_t let_die_counted(uint32_t rank, uint64_t *seed)
{
    const uint64_t at = 1 + test_below(seed, counted[rank].posts), posts = counted[rank].posts;
    counted[rank].posts = 0;
    counted[rank].watched = at;
    counted[rank].watched_is_of = COUNTED_PURPOSES;
    let_die(rank, at, seed);
    counted[rank].posts = posts;
    return counted[rank].watched_is_of;
}

TEST(rank_ends, a_rank_of_several_pipelines_that_dies_ends_all_and_is_named)
{
    uint64_t seed = check_seed(71), turn[AH_BLOCK_HEAD + 1] = {0}, of[COUNTED_PURPOSES + 1] = {0};
    for (size_t i = 0; i < WORLDS; i++) {
        bool did_all = false;
        open_grouped(&worlds[i], AH_FP32);
        open_pipelines(&worlds[i], turn, &seed);
        pipeline.driver = counted_driver();
        counted_reset();
        pipeline_run(&pipeline, &(struct ah_comm_hub_options){0}, do_all, &did_all);
        pipeline_expect_ok(&pipeline);
        assert_true(did_all);
        for (uint32_t rank = 0; rank < pipeline.n; rank++)
            for (size_t k = 0; k < check_scaled(DEATHS_EACH); k++)
                of[let_die_counted(rank, &seed)]++;
        pipeline.driver = NULL;
        pipeline_close(&pipeline);
        golden_close(&golden);
    }
    print_message("%" PRIu64 " deaths at partial sums, %" PRIu64 " at totals\n", of[AH_LINKS_PARTIAL],
                  of[AH_LINKS_TOTAL]);
    assert_true(of[AH_LINKS_PARTIAL] && of[AH_LINKS_TOTAL] && of[AH_LINKS_DOWN]);
}

/* ---- numbers that are not finite ---- */

/* Trains, and spoils a block after 2 steps. UINT64_MAX spoils none; weights then grow until nothing is finite. */
static int spoil(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    const uint64_t *block = context;
    (void)held_out;
    int rc = ah_trainer_run(trainer, 2, NULL, err);
    if (!rc && *block != UINT64_MAX)
        rc = change_block(trainer, *block, true, err);
    return rc ? rc : ah_trainer_run(trainer, STEPS, NULL, err);
}

/* Returns 3 for "... gradient norm of step 3 is not finite" and "... step 3: its loss or gradient is not finite". */
static uint64_t step_of(const struct ah_error *err)
{
    static const char ends[] = "is not finite";
    const char *at = strstr(err->text, ends), *step = NULL;
    for (const char *next = err->text; at && (next = strstr(next, "step ")) && next < at; next++)
        step = next;
    return step ? strtoull(step + strlen("step "), NULL, 10) : 0;
}

static void expect_numeric(uint64_t block, struct ah_trainer *alone, struct ah_error *err)
{
    if (spoil(&block, alone, NULL, err) != AH_E_NUMERIC)
        fail_msg("one process ends with: %s", err->text);
    const uint64_t step = step_of(err);
    assert_true(step > 0);
    ah_trainer_close(alone);
    for (size_t rank = 0; rank < pipeline.n; rank++) {
        const struct pipeline_stage *s = &pipeline.stages[rank];
        if (s->rc != AH_E_NUMERIC || step_of(&s->err) != step)
            fail_msg("%s, block %" PRIu64 " spoilt: one process ends at step %" PRIu64
                     ", rank %zu with %d: %s",
                     golden.folder, block, step, rank, s->rc, s->err.text);
    }
}

static void run_spoilt(uint64_t block, uint64_t *seed)
{
    struct ah_error err = {0};
    struct ah_trainer *alone;
    const struct ah_comm_hub_options world = late_world(seed);
    pipeline_run(&pipeline, &world, spoil, &block);
    CHECK_OK(ah_trainer_open(&alone, &golden.options, &err), err);
    expect_numeric(block, alone, &err);
}

TEST(rank_ends, numbers_that_are_not_finite_end_all_at_their_step)
{
    static const char *const names[] = {"qwen3-layer-types", "llama-frozen-below", "llama-linear"};
    uint64_t seed = check_seed(47), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden_open_as(&golden, names[i], AH_BF16, AH_FP32);
        golden_plan_resident(&golden);
        pipeline_open(&pipeline, &golden, 3, turn, &seed);
        for (uint64_t block = 0; block < golden.c.job.n_blocks; block++)
            run_spoilt(block, &seed);
        golden.options.rate.lr = 1e19;
        for (size_t rank = 0; rank < pipeline.n; rank++)
            pipeline.stages[rank].options.rate.lr = 1e19;
        run_spoilt(UINT64_MAX, &seed);
        pipeline_close(&pipeline);
        golden_close(&golden);
    }
}

TEST(rank_ends, numbers_that_are_not_finite_end_several_pipelines_at_their_step)
{
    uint64_t seed = check_seed(73), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t i = 0; i < WORLDS; i++) {
        open_grouped(&worlds[i], AH_BF16);
        golden_plan_resident(&golden);
        open_pipelines(&worlds[i], turn, &seed);
        for (uint64_t block = 0; block < golden.c.job.n_blocks; block++)
            run_spoilt(block, &seed);
        golden.options.rate.lr = 1e19;
        for (size_t rank = 0; rank < pipeline.n; rank++)
            pipeline.stages[rank].options.rate.lr = 1e19;
        run_spoilt(UINT64_MAX, &seed);
        pipeline_close(&pipeline);
        golden_close(&golden);
    }
}

/* Spoils one rank only, because a broken machine never spoils two replicas alike. */
struct spoiling {
    atomic_uint_fast64_t left; /* number of ops before one is spoilt */
    uint32_t lane;
    enum ah_op_kind kind;
    atomic_bool any;
};

/* Writes a NaN, of fp32 or bf16, into the result of a product, or into a sum just before it is sent. */
static void spoil_one(void *context, const struct hooked_op *op)
{
    struct spoiling *spoiling = context;
    const struct ah_ref *ref = &op->op->arg[0];
    if (op->lane != spoiling->lane || op->op->kind != spoiling->kind ||
        atomic_fetch_sub(&spoiling->left, 1) != 1)
        return;
    memset(op->arenas[ref->arena] + ref->offset_bytes, 0xFF, 4);
    atomic_store(&spoiling->any, true);
}

static void expect_one_step(uint32_t rank, const struct spoiling *spoiling)
{
    const uint64_t step = step_of(&pipeline.stages[0].err);
    for (size_t i = 0; i < pipeline.n; i++) {
        const struct pipeline_stage *s = &pipeline.stages[i];
        if (s->rc != AH_E_NUMERIC || !step || step_of(&s->err) != step)
            fail_msg("%s, lane %" PRIu32 " of rank %" PRIu32 " spoilt: rank 0 ends at step %" PRIu64
                     ", rank %zu with %d: %s",
                     golden.folder, spoiling->lane, rank, step, i, s->rc, s->err.text);
    }
}

static void spoil_rank(uint32_t rank, bool sum, uint64_t *seed)
{
    const struct ah_comm_hub_options world = late_world(seed);
    struct spoiling spoiling = {.left = 1 + test_below(seed, sum ? 24 : 60),
                                .lane = sum ? AH_LANE_SUMS : AH_LANE_COMPUTE,
                                .kind = sum ? AH_OP_SEND : AH_OP_MATMUL};
    uint64_t none = UINT64_MAX;
    hooked_set(&(struct hooked_hooks){
        .before = sum ? spoil_one : NULL, .after = sum ? NULL : spoil_one, .context = &spoiling});
    pipeline.stages[rank].options.driver = hooked_driver();
    pipeline_run(&pipeline, &world, spoil, &none);
    pipeline.stages[rank].options.driver = ah_device_cpu();
    if (spoiling.any)
        expect_one_step(rank, &spoiling);
    else
        pipeline_expect_ok(&pipeline);
}

TEST(rank_ends, a_number_that_one_rank_alone_spoils_ends_all_at_one_step)
{
    uint64_t seed = check_seed(79), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t i = 0; i < WORLDS; i++) {
        open_grouped(&worlds[i], AH_FP32);
        for (uint64_t k = 0; k < check_scaled(DEATHS_EACH); k++) {
            open_pipelines(&worlds[i], turn, &seed);
            for (uint32_t rank = 0; rank < pipeline.n; rank++)
                spoil_rank(rank, (k + rank) % 2, &seed);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
}

/* ---- data ---- */

static int train_on(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                    struct ah_error *err)
{
    (void)context;
    (void)held_out;
    return ah_trainer_run(trainer, 20, NULL, err);
}

/* Gives a rank its own copy of the data, and then empties that file. */
static void take_data(struct pipeline_stage *s, const char *root, const char *name, const char *path)
{
    struct ah_error err = {0};
    char from[2 * GOLDEN_PATH_MAX];
    struct ah_buffer text = {0};
    const char *paths[] = {path};
    snprintf(from, sizeof from, "%s/data.bin", golden.folder);
    CHECK_OK(ah_file_read(from, 1 << 20, &text, &err), err);
    root_put_bytes(root, name, text.data, text.size);
    ah_buffer_release(&text);
    const struct ah_batches_options of = s->batches.options;
    ah_batches_release(&s->batches);
    ah_dataset_close(s->data);
    CHECK_OK(ah_dataset_open(&s->data,
                             &(struct ah_dataset_options){.paths = paths,
                                                          .n_paths = 1,
                                                          .format = AH_DATASET_U16,
                                                          .vocabulary = golden.c.model.vocabulary},
                             &err),
             err);
    struct ah_batches_options batches = of;
    batches.data = s->data;
    CHECK_OK(ah_batches_init(&s->batches, &batches, &err), err);
    assert_int_equal(truncate(path, 0), 0);
}

TEST_IN(rank_ends, data_that_one_cannot_read_end_all, root_make, root_remove)
{
    uint64_t seed = check_seed(53), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t bad = 0; bad < 3; bad++) {
        char name[16], path[GOLDEN_PATH_MAX];
        snprintf(name, sizeof name, "rank%zu.bin", bad);
        snprintf(path, sizeof path, "%s/%s", (const char *)*state, name);
        golden_open_as(&golden, "llama", AH_FP32, AH_FP32);
        pipeline_open(&pipeline, &golden, 3, turn, &seed);
        take_data(&pipeline.stages[bad], *state, name, path);
        const struct ah_comm_hub_options world = late_world(&seed);
        pipeline_run(&pipeline, &world, train_on, NULL);
        for (size_t rank = 0; rank < pipeline.n; rank++) {
            const struct pipeline_stage *s = &pipeline.stages[rank];
            if (!s->rc || s->rc != pipeline.stages[bad].rc || !strstr(s->err.text, path))
                fail_msg("rank %zu has no data, yet rank %zu ends with %d: %s", bad, rank, s->rc,
                         s->err.text);
        }
        pipeline_close(&pipeline);
        golden_close(&golden);
    }
}

/* All ranks end before they look at anything else of the plan. */
TEST(rank_ends, a_plan_that_does_not_fit_one_ends_all)
{
    uint64_t seed = check_seed(59), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, "llama", AH_FP32, AH_FP32);
    for (size_t bad = 0; bad < 3; bad++) {
        pipeline_open(&pipeline, &golden, 3, turn, &seed);
        pipeline.stages[bad].batches.options.batch++;
        pipeline_run(&pipeline, &(struct ah_comm_hub_options){0}, train_on, NULL);
        for (size_t rank = 0; rank < pipeline.n; rank++) {
            const struct pipeline_stage *s = &pipeline.stages[rank];
            if (s->rc != AH_E_MISMATCH || !strstr(s->err.text, "the plan is for"))
                fail_msg("rank %zu has another plan, yet rank %zu ends with %d: %s", bad, rank, s->rc,
                         s->err.text);
        }
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

/* ---- ops that fail ---- */

struct failing {
    atomic_uint_fast64_t left; /* number of ops before one fails */
    uint32_t lane;
};

static int fail_op(void *context, const struct hooked_op *op, struct ah_error *err)
{
    struct failing *failing = context;
    if (op->lane != failing->lane || atomic_fetch_sub(&failing->left, 1) != 1)
        return AH_OK;
    return ah_error_set(err, AH_E_FAILED, "made up");
}

/* True if the text says where in the training the op failed, and names the rank once. Rank 0 does not name itself. */
static bool tells(const char *text, size_t teller, uint32_t rank, uint32_t lane)
{
    char whose[24];
    snprintf(whose, sizeof whose, "rank %" PRIu32 ": ", rank);
    const bool names = strncmp(text, whose, strlen(whose)) == 0,
               again = names && strstr(text + strlen(whose), "rank ");
    if (!strstr(text, "made up") || again || names != (rank || teller))
        return false;
    return teller == rank || /* the op of the teller may have failed in an evaluation */
           (strstr(text, "after step ") && (lane != AH_LANE_SEND || strstr(text, "' in micro-batch ")));
}

/* Makes an op of the rank fail. It skips what it would have sent, and may wait for rank 0, which waits for that. */
static void let_fail(uint32_t rank, uint32_t lane, uint64_t at, uint64_t *seed)
{
    const struct ah_comm_hub_options world = late_world(seed);
    struct failing failing = {.left = at, .lane = lane};
    bool did_all = false;
    hooked_set(&(struct hooked_hooks){.fail = fail_op, .context = &failing});
    pipeline.stages[rank].options.driver = hooked_driver();
    pipeline_run(&pipeline, &world, do_all, &did_all);
    pipeline.stages[rank].options.driver = ah_device_cpu();
    for (size_t i = 0; i < pipeline.n && !did_all; i++) {
        assert_int_not_equal(pipeline.stages[i].rc, AH_OK);
        if (!tells(pipeline.stages[i].err.text, i, rank, lane))
            fail_msg("rank %" PRIu32 ", op %" PRIu64 ": rank %zu says '%s'", rank, at, i,
                     pipeline.stages[i].err.text);
    }
}

TEST(rank_ends, an_op_that_fails_ends_all)
{
    static const uint32_t lanes[] = {AH_LANE_COMPUTE, AH_LANE_HOST, AH_LANE_D2H, AH_LANE_SEND};
    uint64_t seed = check_seed(61), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, "llama-linear", AH_FP32, AH_FP32);
    for (uint64_t i = 0; i < check_scaled(DEATHS_EACH); i++) {
        pipeline_open(&pipeline, &golden, 0, turn, &seed);
        const uint32_t lane = lanes[i % (sizeof lanes / sizeof *lanes)];
        const uint64_t most = lane == AH_LANE_COMPUTE ? 900 : 12;
        let_fail((uint32_t)(test_below(&seed, pipeline.n)), lane, 1 + test_below(&seed, most), &seed);
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

TEST(rank_ends, an_op_that_fails_ends_all_pipelines)
{
    static const uint32_t lanes[] = {AH_LANE_SUMS, AH_LANE_COMPUTE, AH_LANE_HOST, AH_LANE_SUMS, AH_LANE_SEND};
    uint64_t seed = check_seed(83), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t i = 0; i < WORLDS; i++) {
        open_grouped(&worlds[i], AH_FP32);
        for (uint64_t k = 0; k < check_scaled(DEATHS_EACH); k++) {
            const uint32_t lane = lanes[k % (sizeof lanes / sizeof *lanes)];
            const uint64_t most = lane == AH_LANE_COMPUTE ? 900 : lane == AH_LANE_SUMS ? 60 : 12;
            open_pipelines(&worlds[i], turn, &seed);
            let_fail((uint32_t)(test_below(&seed, pipeline.n)), lane, 1 + test_below(&seed, most), &seed);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
}

/* ---- stalls ---- */

struct stall {
    atomic_uint told;
    sem_t over;               /* posted when no rank is delayed any longer */
    struct ah_error why;      /* from the first rank that noticed the stall */
    atomic_uint_fast64_t ops; /* ops of the slow rank */
    bool works;               /* true: the slow rank computes; false: it sleeps */
};

/* Delays one op, once, for longer than the patience of every rank. */
static void hold_up(void *context, const struct hooked_op *op)
{
    enum { AT = 40, FOR_NS = 1500 * 1000 * 1000 };
    struct stall *stall = context;
    if (op->lane != AH_LANE_COMPUTE || atomic_fetch_add(&stall->ops, 1) != AT)
        return;
    const uint64_t until_ns = ah_threads_now_ns() + FOR_NS;
    while (stall->works && ah_threads_now_ns() < until_ns)
        continue;
    if (!stall->works) /* sleeping takes no processor time */
        sem_wait(&stall->over);
}

static void note_stall(void *context, const struct ah_error *why)
{
    struct stall *stall = context;
    if (!atomic_fetch_add(&stall->told, 1))
        stall->why = *why;
    sem_post(&stall->over);
}

static void run_held_up(struct stall *stall, uint32_t slow)
{
    const double patience_s = 0.4;
    sem_init(&stall->over, 0, 0);
    hooked_set(&(struct hooked_hooks){.before = hold_up, .context = stall});
    for (size_t i = 0; i < pipeline.n; i++)
        pipeline.stages[i].options.device.watch =
            (struct ah_device_watch){.patience_s = patience_s, .stalled = note_stall, .context = stall};
    pipeline.stages[slow].options.driver = hooked_driver();
    pipeline_run(&pipeline, NULL, train_on, NULL);
    pipeline.stages[slow].options.driver = ah_device_cpu();
    pipeline_expect_ok(&pipeline);
    sem_destroy(&stall->over);
}

TEST(rank_ends, a_rank_that_waits_for_one_that_works_is_not_stalled)
{
    uint64_t seed = check_seed(67), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, "llama", AH_FP32, AH_FP32);
    for (uint32_t slow = 0; slow < 3; slow++) {
        struct stall works = {.works = true}, sleeps = {.works = false};
        char said[40];
        pipeline_open(&pipeline, &golden, 3, turn, &seed);
        run_held_up(&works, slow);
        if (works.told)
            fail_msg("rank %" PRIu32 " works, yet: %s", slow, works.why.text);
        run_held_up(&sleeps, slow);
        snprintf(said, sizeof said, "; rank %" PRIu32 " waits for ", slow);
        if (!strstr(sleeps.why.text, said))
            fail_msg("rank %" PRIu32 " is stalled, yet: %s", slow, sleeps.why.text);
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

/* ---- interrupts ---- */

struct interrupt {
    uint64_t at; /* the observer stops the run at the record of this step */
    struct golden_result *result;
};

static bool stop_at(void *context, const struct ah_step_record *record)
{
    struct interrupt *interrupt = context;
    golden_keep_record(interrupt->result, record);
    return record->step < interrupt->at;
}

static int run_interrupted(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                           struct ah_error *err)
{
    struct interrupt *interrupt = context;
    struct ah_trainer_evaluation evaluation;
    const atomic_int cancel = 1;
    interrupt->result->n_records = 0;
    int rc =
        ah_trainer_run(trainer, STEPS, &(struct ah_observer){.step = stop_at, .context = interrupt}, err);
    if (rc)
        return rc;
    rc = ah_trainer_evaluate(trainer, held_out, &cancel, &evaluation, err);
    if (rc != AH_E_INTERRUPTED)
        return rc ? rc : ah_error_set(err, AH_E_FAILED, "the evaluation was not interrupted");
    golden_read(&golden, trainer, AH_TRAINER_WEIGHTS, interrupt->result->weights,
                &interrupt->result->n_values);
    return AH_OK;
}

static uint64_t run_alone(struct interrupt *interrupt)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    struct ah_batches held_out;
    struct ah_batches_options options = golden.batches.options;
    options.held_out = true;
    CHECK_OK(ah_batches_init(&held_out, &options, &err), err);
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    CHECK_OK(run_interrupted(interrupt, trainer, &held_out, &err), err);
    const uint64_t steps = ah_trainer_facts(trainer).steps;
    ah_trainer_close(trainer);
    ah_batches_release(&held_out);
    return steps;
}

/* Interrupts one process and the open pipelines. They must stop at the same step, with the same weights. */
static void interrupt_both(uint64_t *seed)
{
    struct interrupt alone = {1 + test_below(seed, STEPS), &first}, together = {alone.at, &other};
    const uint64_t steps = run_alone(&alone);
    const struct ah_comm_hub_options world = late_world(seed);
    pipeline_run(&pipeline, &world, run_interrupted, &together);
    pipeline_expect_ok(&pipeline);
    assert_int_equal(first.n_records, other.n_records);
    for (size_t rank = 0; rank < pipeline.n; rank++)
        assert_int_equal(pipeline.stages[rank].facts.steps, steps);
    assert_memory_equal(first.weights, other.weights, first.n_values * sizeof *first.weights);
}

TEST(rank_ends, an_interrupt_ends_all_after_the_same_step)
{
    uint64_t seed = check_seed(61), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open_as(&golden, "qwen3-layer-types", AH_BF16, AH_FP32);
    golden_plan_resident(&golden);
    for (size_t i = 0; i < check_scaled(INTERRUPTS); i++) {
        pipeline_open(&pipeline, &golden, 0, turn, &seed);
        interrupt_both(&seed);
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

TEST(rank_ends, an_interrupt_ends_all_pipelines_after_the_same_step)
{
    uint64_t seed = check_seed(89), turn[AH_BLOCK_HEAD + 1] = {0};
    for (size_t i = 0; i < WORLDS; i++) {
        open_grouped(&worlds[i], AH_BF16);
        golden_plan_resident(&golden);
        for (size_t k = 0; k < check_scaled(INTERRUPTS); k++) {
            open_pipelines(&worlds[i], turn, &seed);
            interrupt_both(&seed);
            pipeline_close(&pipeline);
        }
        golden_close(&golden);
    }
}
