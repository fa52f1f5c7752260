/* SPDX-License-Identifier: Apache-2.0
 *
 * Soak test: trains worlds of every kind, one after another. They have one pipeline or several, any stages, fp32 or
 * bf16, frozen parts, masks and documents. Messages come late and overtake each other, or go one at a time. In one
 * world of four, a rank dies somewhere. A world must end with the bits of one process or, if a rank died, with its name
 * on every rank. scripts/soak runs thousands of worlds.
 */
#include "runtime/train/links.h"
#include "tests/property/train/pipeline.h"

#include <inttypes.h>

enum { RUNS = 1000, EACH = 10, STEPS = 4, DELAYS_MOST_US = 100, MESSAGES_MOST = 150 };

static struct golden golden;
static struct golden_result first, other;
static struct pipeline pipeline;
static struct {
    uint64_t runs, pipelines[5], serial, late, dead, ranks[PIPELINE_STAGES + 1];
} seen;

static const struct signature {
    const char *name;
    enum ah_dtype dtype, state_dtype;
} signatures[] = {{"gpt2-untied-odd", AH_FP32, AH_FP32},
                  {"llama-linear", AH_FP32, AH_FP32},
                  {"llama", AH_BF16, AH_FP32},
                  {"llama-frozen-below", AH_BF16, AH_FP32},
                  {"mistral-documents", AH_BF16, AH_BF16},
                  {"qwen2-frozen-tensors", AH_FP32, AH_FP32},
                  {"llama-masked", AH_BF16, AH_BF16},
                  {"qwen3-layer-types", AH_FP32, AH_FP32},
                  {"gpt2", AH_BF16, AH_FP32},
                  {"qwen2", AH_FP32, AH_FP32}};

/* Splits micro-batches into groups, one per pipeline; in one case of three, into a single group. */
static size_t draw_groups(uint64_t micro_batches, uint64_t *seed, uint64_t *ret_sums)
{
    const uint64_t most = micro_batches < 4 ? micro_batches : 4;
    const size_t n = test_below(seed, 3) ? 1 + test_below(seed, most) : 1;
    for (size_t i = 0; i < n; i++)
        ret_sums[i] = 1;
    for (uint64_t left = micro_batches - n; left > 0; left--)
        ret_sums[test_below(seed, n)]++;
    return n;
}

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    const struct ah_observer observer = {.step = golden_keep_record, .context = &other};
    bool *did_all = context;
    (void)held_out;
    other.n_records = 0;
    int rc = ah_trainer_run(trainer, STEPS, &observer, err);
    for (uint64_t block = 0; block < golden.c.job.n_blocks && !rc; block++)
        rc = golden_read_block(&golden, trainer, AH_TRAINER_WEIGHTS, block, other.weights, &other.n_values,
                               err);
    *did_all = !rc;
    return rc;
}

static void expect_same(void)
{
    for (size_t i = 0; i < first.n_records; i++)
        if (memcmp(&first.records[i].loss, &other.records[i].loss, sizeof(double)) != 0 ||
            memcmp(&first.records[i].grad_norm, &other.records[i].grad_norm, sizeof(double)) != 0)
            fail_msg("%s, run %" PRIu64 ": step %zu differs", golden.folder, seen.runs, i + 1);
    for (size_t i = 0; i < first.n_values; i++)
        if (memcmp(&first.weights[i], &other.weights[i], sizeof(float)) != 0)
            fail_msg("%s, run %" PRIu64 ": weight %zu differs", golden.folder, seen.runs, i);
}

/* Checks that the rank that died says what happened to it, and that the others name that rank. */
static void expect_named(const struct ah_comm_hub_options *world)
{
    char died[64];
    snprintf(died, sizeof died, "rank %u: it died at its message %" PRIu64, world->dying_rank,
             world->dies_at);
    for (size_t i = 0; i < pipeline.n; i++) {
        const struct pipeline_stage *s = &pipeline.stages[i];
        if (!s->rc || !strstr(s->err.text, i == world->dying_rank ? strstr(died, "it died") : died))
            fail_msg("%s, run %" PRIu64 ": '%s', yet rank %zu ends with %d: %s", golden.folder, seen.runs,
                     died, i, s->rc, s->err.text);
    }
}

static void expect_ok(const struct ah_comm_hub_options *world)
{
    for (size_t i = 0; i < pipeline.n; i++)
        if (pipeline.stages[i].rc)
            fail_msg("%s, run %" PRIu64 ", %" PRIu32 " pipelines, %zu ranks%s: rank %zu: %s (%d)",
                     golden.folder, seen.runs, pipeline.pipelines, pipeline.n,
                     world->is_serial ? ", taking turns" : "", i, pipeline.stages[i].err.text,
                     pipeline.stages[i].rc);
}

static void run_world(uint64_t *seed)
{
    const uint64_t delay_us = test_below(seed, 2) * test_below(seed, DELAYS_MOST_US);
    struct ah_comm_hub_options world = {.poisons = true,
                                        .most_delay_us = (uint32_t)delay_us,
                                        .seed = check_random(seed),
                                        .is_serial = test_below(seed, 3) == 0,
                                        .serial_purposes = AH_LINKS_CONTROL};
    bool did_all = false;
    if (!test_below(seed, 4)) {
        world.dying_rank = (uint32_t)test_below(seed, pipeline.n);
        world.dies_at = 1 + test_below(seed, MESSAGES_MOST);
    }
    pipeline_run(&pipeline, &world, train, &did_all);
    if (did_all && !pipeline.stages[0].rc)
        expect_same();
    else if (world.dies_at)
        expect_named(&world);
    else
        expect_ok(&world);
    seen.runs++;
    seen.pipelines[pipeline.pipelines]++;
    seen.ranks[pipeline.n]++;
    seen.serial += world.is_serial;
    seen.late += world.most_delay_us > 0;
    seen.dead += !did_all;
}

/* Computes the bits of a signature with one process, and then runs worlds of that signature. */
static void run_signature(const struct signature *signature, size_t worlds, uint64_t *seed)
{
    uint64_t turn[AH_BLOCK_HEAD + 1] = {0}, sums[4];
    bool apart = false;
    golden_open_as(&golden, signature->name, signature->dtype, signature->state_dtype);
    const size_t n = draw_groups(golden.c.job.training.batch, seed, sums);
    for (size_t i = 1; i < n; i++)
        apart = apart || sums[i] > 1;
    golden_regroup(&golden, golden.c.job.training.batch, apart ? sums : NULL, apart ? n : 0);
    golden.steps = STEPS;
    golden_split(&golden);
    golden_plan_resident(&golden);
    ah_trainer_close(golden_start(&golden, &first));
    for (size_t i = 0; i < worlds; i++) {
        pipeline.share_piece = test_below(seed, 2) ? 0 : 512 * (1 + test_below(seed, 4));
        if (n > 1)
            pipeline_open_groups(&pipeline, &golden, sums, n, PIPELINE_STAGES, turn, seed);
        else
            pipeline_open(&pipeline, &golden, 0, turn, seed);
        run_world(seed);
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

TEST(soak, worlds_end_with_the_bits_of_one_process_or_with_a_name)
{
    uint64_t seed = check_seed(61);
    for (size_t left = check_scaled(RUNS), i = 0; left > 0; i++) {
        const size_t worlds = left < EACH ? left : EACH;
        for (uint64_t skip = test_below(&seed, 8); skip > 0; skip--)
            i++;
        run_signature(&signatures[i % (sizeof signatures / sizeof *signatures)], worlds, &seed);
        left -= worlds;
    }
    print_message("%" PRIu64 " worlds; of 1 to 4 pipelines: %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  "; taking turns %" PRIu64 ", late %" PRIu64 ", with a death %" PRIu64 "\n",
                  seen.runs, seen.pipelines[1], seen.pipelines[2], seen.pipelines[3], seen.pipelines[4],
                  seen.serial, seen.late, seen.dead);
}
