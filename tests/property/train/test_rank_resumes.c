/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that checkpoints do not depend on the number of ranks that made them. A run stopped after an odd step and
 * resumed by one process, by ranks, or by ranks with other stages ends with the bits of a run that never stopped. So
 * does a chain of worlds of eight, five, three, eight and one ranks, with several pipelines or one that adds up their
 * groups itself. Some worlds die, even while they save, and the next world resumes from the last checkpoint. Whether
 * ranks share the folder or only rank 0 writes, a checkpoint has the same bytes.
 */
#include "runtime/train/persist.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/root.h"

#include <limits.h>
#include <sys/stat.h>

enum { STEPS = 7, STOP = 3, RUNS_EACH = 10 };

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;
/* micro-batches of each pipeline; none: there is one pipeline */
static uint64_t groups[3];
static size_t n_groups;
static unsigned n_together; /* number of checkpoints that all ranks may have written */
static unsigned n_lost;     /* number of checkpoints at which a rank died, while saving or loading */

/* A part of a run. */
struct leg {
    const char *from, *to; /* checkpoints; NULL: none */
    uint64_t before, steps;
};

static struct ah_signature signature_of(struct ah_signature_run *run)
{
    static const char sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct ah_signature signature = golden.options.plan->numeric_signature;
    *run = (struct ah_signature_run){.data_sha256 = sha256, .schedule = "cosine"};
    signature.run = run;
    return signature;
}

/* Saves once with all ranks and once with only rank 0. Both checkpoints must have the same bytes. */
static int save_twice(const struct ah_checkpoint_job *job, const struct ah_checkpoint_position *position,
                      struct ah_trainer *trainer, const char *path, struct ah_error *err)
{
    const struct ah_checkpoint_source source = ah_persist_source(trainer);
    struct ah_checkpoint_source alone = source;
    char again[PATH_MAX], command[3 * PATH_MAX];
    alone.together = NULL;
    int rc = ah_checkpoint_save(job, position, &source, path, err);
    if (rc || !source.together)
        return rc;
    n_together++;
    snprintf(again, sizeof again, "%s-alone", path);
    rc = ah_checkpoint_save(job, position, &alone, again, err);
    if (rc)
        return rc;
    snprintf(command, sizeof command, "diff -r '%s' '%s' && rm -r '%s'", path, again, again);
    return system(command) ? ah_error_set(err, AH_E_FAILED, "%s has other bytes", again) : AH_OK;
}

static int run_leg(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                   struct ah_error *err)
{
    const struct leg *leg = context;
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    struct ah_signature_run run;
    const struct ah_signature signature = signature_of(&run);
    const struct ah_checkpoint_job job = {.model = golden.model.body.model, .signature = &signature};
    struct ah_checkpoint_position position = {.step = leg->before + leg->steps};
    const struct ah_checkpoint_sink sink = ah_persist_sink(trainer);
    int rc = leg->from ? ah_checkpoint_load(&job, &sink, leg->from, &position, err) : AH_OK;
    n_lost += rc != AH_OK;
    (void)held_out;
    rc = rc ? rc : ah_trainer_run(trainer, leg->steps, &observer, err);
    position.step = leg->before + leg->steps;
    if (!rc && leg->to) {
        rc = save_twice(&job, &position, trainer, leg->to, err);
        n_lost += rc != AH_OK;
    }
    for (uint64_t block = 0; block < golden.c.job.n_blocks && !rc; block++)
        rc = golden_read_block(&golden, trainer, AH_TRAINER_WEIGHTS, block, other.weights, &other.n_values,
                               err);
    return rc;
}

static void by_one(const struct leg *leg, uint64_t *seed)
{
    struct ah_error err = {0};
    struct ah_trainer *trainer;
    struct leg copy = *leg;
    golden_plan_random(&golden, seed);
    golden.options.steps_before = leg->before;
    CHECK_OK(ah_trainer_open(&trainer, &golden.options, &err), err);
    CHECK_OK(run_leg(&copy, trainer, NULL, &err), err);
    ah_trainer_close(trainer);
}

static void by_ranks(const struct leg *leg, uint64_t *turn, uint64_t *seed)
{
    struct leg copy = *leg;
    golden.options.steps_before = leg->before;
    pipeline.apart = test_below(seed, 2) == 0;
    if (n_groups)
        pipeline_open_groups(&pipeline, &golden, groups, n_groups, PIPELINE_STAGES, turn, seed);
    else
        pipeline_open(&pipeline, &golden, 0, turn, seed);
    pipeline_run(&pipeline, &(struct ah_comm_hub_options){.poisons = true}, run_leg, &copy);
    pipeline_expect_ok(&pipeline);
    pipeline_close(&pipeline);
}

static void run_legs(unsigned kind, const char *path, uint64_t *turn, uint64_t *seed)
{
    const struct leg legs[] = {{NULL, path, 0, STOP}, {path, NULL, STOP, STEPS - STOP}};
    other.n_records = 0;
    for (unsigned i = 0; i < 2; i++)
        if (kind != i)
            by_ranks(&legs[i], turn, seed);
        else
            by_one(&legs[i], seed);
    assert_int_equal(other.n_records, STEPS);
    for (size_t step = 0; step < STEPS; step++) {
        assert_int_equal(other.records[step].step, step + 1);
        assert_memory_equal(&first.records[step].loss, &other.records[step].loss, sizeof(double));
        assert_memory_equal(&first.records[step].grad_norm, &other.records[step].grad_norm, sizeof(double));
    }
    assert_memory_equal(first.weights, other.weights, first.n_values * sizeof *first.weights);
}

/* Trains every leg. The golden case must be open; this function closes it. */
static void run_all(const char *root, const char *name, uint64_t *seed)
{
    static unsigned runs;
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0};
    golden.steps = STEPS;
    golden_split(&golden);
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
    for (size_t k = 0; k < check_scaled(RUNS_EACH); k++, runs++)
        for (unsigned kind = 0; kind < 3; kind++) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/%s-%u-%u", root, name, runs, kind);
            run_legs(kind, path, turn, seed);
        }
    golden_close(&golden);
}

TEST_IN(rank_resumes, have_the_bits_of_a_run_that_never_stopped, root_make, root_remove)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype, state_dtype;
    } cases[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32},
                 {"llama-masked", AH_BF16, AH_BF16},
                 {"llama-frozen-below", AH_BF16, AH_FP32},
                 {"qwen2-frozen-tensors", AH_FP32, AH_BF16},
                 {"gpt2", AH_BF16, AH_BF16}};
    uint64_t seed = check_seed(89);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        run_all(*state, cases[i].name, &seed);
    }
}

enum { LEGS = 5, CHAINS_EACH = 5, GROUPS_MAX = 3, MESSAGES_MOST = 200 };

struct chain {
    const char *name;
    enum ah_dtype dtype, state_dtype;
    uint64_t sums[GROUPS_MAX];
    size_t n_sums;
};

static void open_world(const struct chain *chain, uint64_t ranks, uint64_t *turn, uint64_t *seed)
{
    const uint64_t blocks = golden.c.job.n_blocks;
    if (ranks >= chain->n_sums && test_below(seed, 3))
        pipeline_open_groups(&pipeline, &golden, chain->sums, chain->n_sums, ranks, turn, seed);
    else
        pipeline_open(&pipeline, &golden, ranks < blocks ? ranks : blocks, turn, seed);
}

/* Checks that a checkpoint saved by a dead world is whole or absent. */
static void check_death(const struct leg *leg)
{
    struct ah_error err = {0};
    struct stat about;
    char path[PATH_MAX], command[2 * PATH_MAX];
    if (!leg->to)
        return;
    if (!stat(leg->to, &about))
        CHECK_OK(ah_checkpoint_verify(leg->to, &err), err);
    snprintf(path, sizeof path, "%s.tmp", leg->to);
    if (!stat(path, &about))
        fail_msg("'%s' was left behind", path);
    snprintf(command, sizeof command, "rm -rf '%s' '%s-alone'", leg->to, leg->to);
    assert_int_equal(system(command), 0);
}

/* Runs a world, which may die before its leg ends. Returns true if it did not. A dead world's results are discarded. */
static bool run_world(const struct chain *chain, const struct leg *leg, uint64_t ranks, bool dies,
                      uint64_t *turn, uint64_t *seed)
{
    const size_t records = other.n_records;
    struct ah_comm_hub_options world = {.poisons = true};
    struct leg copy = *leg;
    golden.options.steps_before = leg->before;
    pipeline.apart = test_below(seed, 2) == 0;
    open_world(chain, ranks, turn, seed);
    if (dies) {
        world.dying_rank = (uint32_t)test_below(seed, pipeline.n);
        world.dies_at = 1 + test_below(seed, MESSAGES_MOST);
    }
    pipeline_run(&pipeline, &world, run_leg, &copy);
    if (!dies)
        pipeline_expect_ok(&pipeline);
    else
        check_death(leg);
    if (dies)
        other.n_records = records;
    pipeline_close(&pipeline);
    return !dies;
}

static void run_chain(const struct chain *chain, const char *folder, unsigned number, uint64_t *turn,
                      uint64_t *seed)
{
    static const uint64_t ranks[LEGS] = {8, 5, 3, 8, 1}, steps[LEGS] = {2, 1, 2, 1, 1};
    char paths[2][PATH_MAX] = {"", ""};
    uint64_t before = 0;
    other.n_records = 0;
    for (unsigned i = 0; i < LEGS; before += steps[i++]) {
        snprintf(paths[i % 2], PATH_MAX, "%s/chain-%u-%u", folder, number, i);
        const struct leg leg = {i ? paths[1 - i % 2] : NULL, i + 1 < LEGS ? paths[i % 2] : NULL, before,
                                steps[i]};
        if (ranks[i] == 1)
            by_one(&leg, seed);
        else
            while (!run_world(chain, &leg, ranks[i], test_below(seed, 2) == 0, turn, seed))
                ;
    }
    assert_int_equal(other.n_records, STEPS);
    for (size_t step = 0; step < STEPS; step++) {
        assert_memory_equal(&first.records[step].loss, &other.records[step].loss, sizeof(double));
        assert_memory_equal(&first.records[step].grad_norm, &other.records[step].grad_norm, sizeof(double));
    }
    assert_memory_equal(first.weights, other.weights, first.n_values * sizeof *first.weights);
}

TEST_IN(rank_resumes, go_on_with_any_arrangement, root_make, root_remove)
{
    static const struct chain chains[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32, {1, 3, 2}, 3},
                                          {"llama-masked", AH_BF16, AH_BF16, {2, 2}, 2},
                                          {"qwen2-frozen-tensors", AH_FP32, AH_BF16, {1, 2, 1}, 3},
                                          {"llama-frozen-below", AH_BF16, AH_FP32, {1, 3}, 2},
                                          {"gpt2", AH_BF16, AH_BF16, {1, 2, 1}, 3},
                                          {"qwen3", AH_FP32, AH_FP32, {3, 1}, 2}};
    uint64_t seed = check_seed(97);
    unsigned number = 0;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct chain chain = chains[i];
        uint64_t turn[AH_BLOCK_HEAD + 1] = {0}, micro_batches = 0;
        for (size_t k = 0; k < chain.n_sums; k++)
            micro_batches += chain.sums[k];
        golden_open_as(&golden, chain.name, chain.dtype, chain.state_dtype);
        golden_regroup(&golden, micro_batches, chain.sums, chain.n_sums);
        golden.steps = STEPS;
        golden_split(&golden);
        golden_plan_resident(&golden);
        ah_trainer_close(golden_start(&golden, &first));
        for (size_t k = 0; k < check_scaled(CHAINS_EACH); k++)
            run_chain(&chain, *state, number++, turn, &seed);
        golden_close(&golden);
    }
    print_message("%u chains, %u checkpoints of all ranks, %u deaths while saving or loading\n", number,
                  n_together, n_lost);
    assert_true(n_together > 0 && n_lost > 0);
}

/* The values of a checkpoint reach a rank of each pipeline. */
TEST_IN(rank_resumes, of_several_pipelines_have_them, root_make, root_remove)
{
    static const struct {
        const char *name;
        enum ah_dtype dtype, state_dtype;
        uint64_t groups[3];
        size_t n;
    } cases[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32, {1, 3, 2}, 3},
                 {"llama-masked", AH_BF16, AH_BF16, {2, 2}, 2},
                 {"llama-frozen-below", AH_BF16, AH_FP32, {1, 3}, 2},
                 {"gpt2-frozen-table", AH_BF16, AH_FP32, {1, 3}, 2},
                 {"gpt2", AH_FP32, AH_BF16, {2, 2}, 2}};
    uint64_t seed = check_seed(97);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t micro_batches = 0;
        memcpy(groups, cases[i].groups, sizeof groups);
        n_groups = cases[i].n;
        for (size_t k = 0; k < n_groups; k++)
            micro_batches += groups[k];
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        golden_regroup(&golden, micro_batches, groups, n_groups);
        run_all(*state, cases[i].name, &seed);
    }
    n_groups = 0;
}
