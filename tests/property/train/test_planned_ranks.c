/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests plans of the cluster planner for unequal machines, with one or several pipelines. Bit for bit, their ranks give
 * the losses, norms, moments and weights of one process that trains what ah_cluster_plan_step() says. The ranks of a
 * plan for another cluster give equal bits if that plan keeps the first plan's sums (planner/cluster/groups.h).
 */
#include "planner/cluster/cluster_verify.h"
#include "planner/recovery/adapt.h"
#include "runtime/train/world.h"
#include "tests/property/cluster/planned.h"
#include "tests/property/train/pipeline.h"
#include "tests/support/root.h"

#include <inttypes.h>

enum {
    PLANS = 40,
    PAIRS = 20,
    ROOM = 1 << 26,
    DRAWS = 4000,
    STEPS = 3,
    TOKENS = 6000,
    VALUES = 1 << 20,
    DELAY_US = 40
};

struct result {
    struct ah_step_record records[STEPS];
    size_t n_records;
    float weights[VALUES], moments[VALUES];
    size_t n;
};

static struct planned planned;
static struct golden golden; /* for the single process; its folder is not used */
static struct pipeline pipeline;
static struct result alone, together;

static bool is_wanted(const struct ah_cluster_plan *plan, bool several)
{
    size_t ranks = 0;
    bool wanted = (plan->n_pipelines > 1) == several && !plan->n_idle_ranks && plan->n_programs;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        ranks += plan->pipelines[p].n_stages;
    return wanted && ranks > 1 && ranks <= PIPELINE_STAGES;
}

/* Makes two kinds of machine, one three times as fast as the other. Links are so fast that summing is worthwhile. */
static void make_unequal(struct planned *c, uint64_t *random)
{
    struct ah_cluster_gpu *slow = &c->gpus[0], *fast = &c->gpus[1];
    fast->flops_per_s = 3 * slow->flops_per_s;
    fast->memory_bytes_per_s = 3 * slow->memory_bytes_per_s;
    for (size_t n = 0; n < c->cluster.n_nodes; n++) {
        c->nodes[n].gpu = n % 2 ? "b" : "a";
        c->nodes[n].nic_bytes_per_s = planned_some(random, 3e8, 3e9);
    }
}

static void draw(bool several, uint64_t *random)
{
    for (int i = 0; i < DRAWS; i++) {
        planned_draw(&planned, random);
        for (size_t n = 0; n < planned.cluster.n_nodes; n++)
            planned.nodes[n].gpus = 1 + check_random(random) % 2;
        if (planned.cluster.n_nodes > 1) {
            if (several)
                make_unequal(&planned, random);
            planned_of_cpus(&planned);
            planned.request.tp_mode = AH_TP_SYMMETRIC;
            planned.request.tp = 1;
            planned.request.training.micro_batches = several ? 8 : 4;
            if (planned_plan(&planned) && is_wanted(&planned.plan, several))
                return;
        }
        planned_release(&planned);
    }
    fail_msg("no such plan in %d draws", DRAWS);
}

static void open_data(const char *path, struct ah_dataset **ret_data, struct ah_batches *ret_batches)
{
    struct ah_error err = {0};
    const char *paths[] = {path};
    CHECK_OK(ah_dataset_open(ret_data,
                             &(struct ah_dataset_options){.paths = paths,
                                                          .n_paths = 1,
                                                          .format = AH_DATASET_U16,
                                                          .vocabulary = planned.model.body.model->vocabulary},
                             &err),
             err);
    CHECK_OK(ah_batches_init(ret_batches,
                             &(struct ah_batches_options){.data = *ret_data,
                                                          .seq = planned.plan.training.seq,
                                                          .batch = planned.plan.training.batch,
                                                          .seed = 5},
                             &err),
             err);
}

static void put_data(const char *root, uint64_t *random)
{
    static uint16_t tokens[TOKENS];
    for (size_t i = 0; i < TOKENS; i++)
        tokens[i] = (uint16_t)(check_random(random) % planned.model.body.model->vocabulary);
    root_put_bytes(root, "data.bin", tokens, sizeof tokens);
}

static void keep_values(struct ah_trainer *trainer, enum ah_trainer_vector vector, float *values)
{
    struct ah_error err = {0};
    size_t n = 0;
    for (uint64_t block = 0; block < golden.c.job.n_blocks; block++) {
        const struct ah_flat flat =
            ah_flat_of(&golden.c.model, ah_job_block(&golden.c.job, block)->kind, UINT32_MAX);
        for (size_t i = 0; i < flat.n; i++) {
            const struct ah_weights_piece piece = {
                .block = block, .tensor = i, .element = flat.tensors[i].first, .n = flat.tensors[i].elements};
            assert_true(n + piece.n <= VALUES);
            CHECK_OK(ah_trainer_read(trainer, vector, &piece, values + n, &err), err);
            n += piece.n;
        }
    }
    assert_true(n > 0);
    alone.n = together.n = n;
}

static bool keep_record(void *context, const struct ah_step_record *record)
{
    struct result *result = context;
    assert_true(result->n_records < STEPS);
    result->records[result->n_records++] = *record;
    return true;
}

static int train(void *context, struct ah_trainer *trainer, struct ah_batches *held_out, struct ah_error *err)
{
    struct result *result = context;
    (void)held_out;
    result->n_records = 0;
    int rc =
        ah_trainer_run(trainer, STEPS, &(struct ah_observer){.step = keep_record, .context = result}, err);
    if (rc)
        return rc;
    keep_values(trainer, AH_TRAINER_WEIGHTS, result->weights);
    keep_values(trainer, AH_TRAINER_M, result->moments);
    return AH_OK;
}

static struct ah_trainer_options options_of(const struct ah_plan *plan, struct ah_batches *batches)
{
    return (struct ah_trainer_options){.plan = plan,
                                       .model = planned.model.body.model,
                                       .driver = ah_device_cpu(),
                                       .device = {.compute_threads = 1, .host_threads = 1, .shared = true},
                                       .batches = batches,
                                       .rate = {.schedule = AH_RATE_CONSTANT, .lr = 0.01, .steps = STEPS},
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .epsilon = 1e-8,
                                       .weight_decay = 0.1,
                                       .seed = 7};
}

/* Trains in one process with everything on the device, wherever the cluster's plan keeps it. */
static void train_alone(const char *path)
{
    struct ah_error err = {0};
    struct ah_plan_training training;
    struct ah_trainer *trainer;
    memset(&golden, 0, sizeof golden);
    golden.c.model = *planned.model.body.model;
    CHECK_OK(ah_cluster_plan_step(&planned.plan, &golden.c.arena, &training, &err), err);
    assert_true(training.n_trainable <= TEST_PATTERNS_MAX);
    for (size_t i = 0; i < training.n_trainable; i++)
        golden.c.patterns[i] = training.trainable[i];
    test_case_job(&golden.c, training, training.n_trainable);
    test_case_costs(&golden.c, 100, 100, 200);
    CHECK_OK(ah_schedule_init(&golden.schedule, &golden.c.job, &err), err);
    golden_plan_resident(&golden);
    open_data(path, &golden.data, &golden.batches);
    const struct ah_trainer_options options = options_of(golden.plan.body.plan, &golden.batches);
    CHECK_OK(ah_trainer_open(&trainer, &options, &err), err);
    CHECK_OK(train(&alone, trainer, NULL, &err), err);
    ah_trainer_close(trainer);
}

static void close_alone(void)
{
    ah_document_release(&golden.plan);
    ah_batches_release(&golden.batches);
    ah_dataset_close(golden.data);
    ah_schedule_release(&golden.schedule);
    test_case_close(&golden.c);
}

static void train_together(const struct ah_cluster_plan *plan, const char *path, uint64_t *random)
{
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_world world;
    CHECK_OK(ah_world_init(&world, plan, &arena, &err), err);
    memset(&pipeline, 0, sizeof pipeline);
    pipeline.n = world.ranks;
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        struct pipeline_stage *s = &pipeline.stages[rank];
        s->pipeline = &pipeline;
        open_data(path, &s->data, &s->batches);
        s->rank = world.places[rank];
        s->options = options_of(world.programs[rank], &s->batches);
        s->options.rank = &s->rank;
    }
    pipeline_run(&pipeline,
                 &(struct ah_comm_hub_options){
                     .poisons = true, .most_delay_us = DELAY_US, .seed = check_random(random)},
                 train, &together);
    pipeline_expect_ok(&pipeline);
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        ah_batches_release(&pipeline.stages[rank].batches);
        ah_dataset_close(pipeline.stages[rank].data);
    }
    ah_arena_release(&arena);
}

static void expect_same(uint64_t plan)
{
    assert_int_equal(alone.n_records, STEPS);
    assert_int_equal(together.n_records, STEPS);
    for (size_t i = 0; i < STEPS; i++)
        if (memcmp(&alone.records[i].loss, &together.records[i].loss, sizeof(double)) != 0 ||
            memcmp(&alone.records[i].grad_norm, &together.records[i].grad_norm, sizeof(double)) != 0)
            fail_msg("plan %" PRIu64 ", step %zu: loss %.17g, norm %.17g, not %.17g, %.17g", plan, i + 1,
                     together.records[i].loss, together.records[i].grad_norm, alone.records[i].loss,
                     alone.records[i].grad_norm);
    for (size_t i = 0; i < alone.n; i++)
        if (memcmp(&alone.weights[i], &together.weights[i], sizeof(float)) != 0 ||
            memcmp(&alone.moments[i], &together.moments[i], sizeof(float)) != 0)
            fail_msg("plan %" PRIu64 ": value %zu differs", plan, i);
}

TEST_IN(planned_ranks, have_the_bits_of_one_process, root_make, root_remove)
{
    uint64_t random = check_seed(103), unequal = 0, away = 0, uneven = 0, split = 0;
    char path[GOLDEN_PATH_MAX];
    snprintf(path, sizeof path, "%s/data.bin", (const char *)*state);
    for (uint64_t i = 0; i < check_scaled(PLANS); i++) {
        draw(i % 4 != 3, &random);
        const struct ah_cluster_plan *plan = &planned.plan;
        put_data(*state, &random);
        train_alone(path);
        train_together(plan, path, &random);
        expect_same(i);
        for (size_t p = 0; p < plan->n_pipelines; p++) {
            unequal += plan->pipelines[p].n_stages != plan->pipelines[0].n_stages;
            uneven += plan->pipelines[p].micro_batches != plan->pipelines[0].micro_batches;
        }
        split += plan->programs[0].training.tied == AH_TIED_SPLIT;
        for (size_t k = 0; k < plan->n_programs; k++)
            for (size_t block = 0; block < plan->programs[k].n_blocks; block++)
                away += plan->programs[k].blocks[block].optimizer == AH_OPTIMIZER_HOST;
        close_alone();
        planned_release(&planned);
    }
    print_message("pipelines with other stages than the first: %" PRIu64
                  ", with other micro-batches: %" PRIu64 "; blocks updated on hosts: %" PRIu64
                  "; with a split table: %" PRIu64 "\n",
                  unequal, uneven, away, split);
    assert_true((unequal && uneven && away && split) || check_scaled(PLANS) < PLANS);
}

struct pairs {
    uint64_t as_one, one_to_one, leading, several, away, refused, adapted, adapted_leading;
};

static bool plan_other(struct planned *other, const struct ah_plan_training *training)
{
    other->request = planned.request;
    other->request.cluster = &other->cluster;
    other->request.training = *training;
    other->request.sums_stay = true;
    if (!planned_plan(other))
        return false;
    size_t ranks = 0;
    for (size_t p = 0; p < other->plan.n_pipelines; p++)
        ranks += other->plan.pipelines[p].n_stages;
    return ranks <= PIPELINE_STAGES;
}

/* Draws a cluster with another number of GPUs and plans for it. */
static bool draw_other(struct planned *other, const struct ah_plan_training *training, uint64_t *random)
{
    *other = (struct planned){0};
    planned_draw_cluster(other, random);
    for (size_t n = 0; n < other->cluster.n_nodes; n++)
        other->nodes[n].gpus = 1 + check_random(random) % 2;
    if (check_random(random) % 3)
        make_unequal(other, random);
    if (other->cluster.device != AH_DEVICE_CPU)
        planned_of_cpus(other);
    return ah_cluster_gpus(&other->cluster) != ah_cluster_gpus(&planned.cluster) &&
           plan_other(other, training);
}

static void expect_same_step(const struct ah_cluster_plan *plan, const struct ah_plan_training *training)
{
    struct ah_error err = {0};
    struct ah_plan_training other;
    CHECK_OK(ah_cluster_plan_step(plan, &golden.c.arena, &other, &err), err);
    assert_int_equal(other.batch, training->batch);
    assert_int_equal(other.micro_batches, training->micro_batches);
    assert_int_equal(other.n_sums, training->n_sums);
    assert_int_equal(other.tied, training->tied);
    if (other.n_sums)
        assert_memory_equal(other.sums, training->sums, other.n_sums * sizeof *other.sums);
}

/* Checks that the document, read again, passes `check`. */
static void expect_valid(const struct planned *other)
{
    struct ah_error err = {0};
    struct ah_buffer text = {0};
    struct ah_document again;
    struct ah_cluster_plan copy = other->plan;
    const struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = &copy}};
    const struct ah_cluster_verify_inputs inputs = {planned.model.body.model, planned.sha256, &other->cluster,
                                                    planned.sha256};
    CHECK_OK(ah_document_print(&document, &text, &err), err);
    CHECK_OK(ah_document_parse(&again, "other", text.data, text.size, AH_DOCUMENT_CLUSTER_PLAN, &err), err);
    CHECK_OK(ah_cluster_verify(again.body.cluster_plan, &inputs, &err), err);
    ah_document_release(&again);
    ah_buffer_release(&text);
}

static void count_pair(const struct ah_cluster_plan *plan, const struct ah_plan_training *training,
                       struct pairs *pairs)
{
    const size_t first = ah_cluster_plan_first_sums(training->sums, training->n_sums, plan->n_pipelines);
    pairs->several += training->n_sums > 0;
    pairs->as_one += first && plan->n_pipelines == 1;
    pairs->leading += first && plan->n_pipelines > 1;
    pairs->one_to_one += training->n_sums == plan->n_pipelines;
    for (size_t k = 0; k < plan->n_programs; k++)
        for (size_t block = 0; block < plan->programs[k].n_blocks && first; block++)
            pairs->away += plan->programs[k].blocks[block].accumulator == AH_ACCUMULATOR_HOST;
}

/* Gives all GPUs room for the whole model, fast links, and one GPU per node, so that each node is a pipeline. */
static void make_roomy(struct planned *c, size_t nodes, double times_as_fast)
{
    c->cluster.n_nodes = nodes;
    c->gpus[0].memory_bytes = c->gpus[1].memory_bytes = ROOM;
    c->gpus[0].flops_per_s = 1e10;
    c->gpus[0].memory_bytes_per_s = 1e12;
    c->gpus[1].flops_per_s = times_as_fast * c->gpus[0].flops_per_s;
    c->gpus[1].memory_bytes_per_s = times_as_fast * c->gpus[0].memory_bytes_per_s;
    for (size_t n = 0; n < nodes; n++)
        c->nodes[n] = (struct ah_cluster_node){.id = planned_ids[n],
                                               .gpu = n ? "a" : "b",
                                               .gpus = 1,
                                               .intra_bytes_per_s = 1e9,
                                               .nic_bytes_per_s = 1e11};
    planned_of_cpus(c);
}

static void draw_roomy(uint64_t *random)
{
    do {
        planned_release(&planned);
        planned_draw(&planned, random);
        make_roomy(&planned, 3 + check_random(random) % 2, 1 + check_uniform(random));
        planned.request.tp_mode = AH_TP_SYMMETRIC;
        planned.request.tp = 1;
        planned.request.training.micro_batches = 8;
    } while (!planned_plan(&planned));
}

/* Plans for two nodes, one taking all groups but the last, or else for one node per group. */
static bool draw_roomy_other(struct planned *other, const struct ah_plan_training *training, bool two)
{
    const double last = (double)training->sums[training->n_sums - 1];
    *other = (struct planned){.cluster = planned.cluster};
    other->cluster.gpus = other->gpus;
    other->cluster.nodes = other->nodes;
    memcpy(other->gpus, planned.gpus, sizeof planned.gpus);
    if (two)
        make_roomy(other, 2, ((double)training->micro_batches - last) / last);
    else
        make_roomy(other, training->n_sums, 1);
    return plan_other(other, training);
}

/* Adapts the first plan to the other cluster in each way. The run must continue with the same bits. */
static void adapt_each_way(uint64_t pair, struct planned *other, const struct ah_plan_training *training,
                           const char *path, uint64_t *random, struct pairs *pairs)
{
    for (int way = 0; way < AH_ADAPT_WAYS; way++) {
        struct ah_error err = {0};
        bool fits = false;
        size_t ranks = 0;
        CHECK_OK(ah_adapt_plan(&other->request, &planned.plan, (enum ah_adapt_way)way, &other->arena,
                               &other->plan, &fits, &err),
                 err);
        for (size_t p = 0; fits && p < other->plan.n_pipelines; p++)
            ranks += other->plan.pipelines[p].n_stages;
        if (!fits || ranks > PIPELINE_STAGES)
            continue;
        expect_same_step(&other->plan, training);
        expect_valid(other);
        train_together(&other->plan, path, random);
        expect_same(pair);
        pairs->adapted++;
        pairs->adapted_leading +=
            other->plan.n_pipelines > 1 &&
            ah_cluster_plan_first_sums(training->sums, training->n_sums, other->plan.n_pipelines);
    }
}

static void try_pair(uint64_t pair, const char *root, const char *path, uint64_t *random, struct pairs *pairs)
{
    static struct planned other;
    struct ah_plan_training training;
    struct ah_error err = {0};
    const bool roomy = pair % 3 == 0;
    if (roomy)
        draw_roomy(random);
    else
        draw(pair % 5 != 4, random);
    put_data(root, random);
    train_alone(path);
    train_together(&planned.plan, path, random);
    expect_same(pair);
    CHECK_OK(ah_cluster_plan_step(&planned.plan, &planned.arena, &training, &err), err);
    if (roomy && training.n_sums > 2)
        assert_true(draw_roomy_other(&other, &training, pair % 2));
    else
        while (!draw_other(&other, &training, random)) {
            pairs->refused++;
            planned_release(&other);
        }
    expect_same_step(&other.plan, &training);
    expect_valid(&other);
    train_together(&other.plan, path, random);
    expect_same(pair);
    count_pair(&other.plan, &training, pairs);
    adapt_each_way(pair, &other, &training, path, random, pairs);
    planned_release(&other);
    close_alone();
    planned_release(&planned);
}

TEST_IN(planned_ranks, of_another_cluster_have_the_bits_of_the_first, root_make, root_remove)
{
    uint64_t random = check_seed(107);
    struct pairs pairs = {0};
    char path[GOLDEN_PATH_MAX];
    snprintf(path, sizeof path, "%s/data.bin", (const char *)*state);
    for (uint64_t i = 0; i < check_scaled(PAIRS); i++)
        try_pair(i, *state, path, &random, &pairs);
    print_message("groups apart: %" PRIu64 "; all of them in one pipeline: %" PRIu64
                  ", the first ones in the first of several: %" PRIu64 ", each in its own: %" PRIu64
                  "; blocks whose groups are added up on hosts: %" PRIu64
                  "; clusters that did not do: %" PRIu64 "\nadapted: %" PRIu64
                  ", with several groups in the first of several: %" PRIu64 "\n",
                  pairs.several, pairs.as_one, pairs.leading, pairs.one_to_one, pairs.away, pairs.refused,
                  pairs.adapted, pairs.adapted_leading);
    assert_true((pairs.as_one && pairs.leading && pairs.one_to_one) || check_scaled(PAIRS) < PAIRS);
}
