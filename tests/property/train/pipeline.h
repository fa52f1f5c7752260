/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline of a golden case, with stages cut anywhere. Each stage has its own plan, data and thread, and its blocks
 * take one config after another. Rank 0 runs on the test's thread.
 *
 *     golden_open_as(&golden, ...);
 *     pipeline_open(&p, &golden, turn, &seed);
 *     pipeline_run(&p, &(struct ah_comm_hub_options){.poisons = true}, lead, context);
 *     ... p.stages[rank].rc, .err, .facts ...
 *     pipeline_close(&p);
 *
 * Every run must end, even if a rank fails; a test that hangs exceeds its time limit.
 */
#ifndef AH_TESTS_PROPERTY_TRAIN_PIPELINE_H
#define AH_TESTS_PROPERTY_TRAIN_PIPELINE_H

#include "runtime/comm/loop/loop.h"
#include "runtime/comm/nccl.h"
#include "runtime/train/links.h"
#include "schemas/cluster_plan.h"
#include "tests/golden/train/case.h"

#include <pthread.h>

enum { PIPELINE_STAGES = 8 };

struct pipeline;

struct pipeline_stage {
    struct pipeline *pipeline;
    struct test_case c;
    struct ah_schedule schedule;
    struct ah_document document;
    struct ah_dataset *data, *held_out; /* each used by one thread at a time */
    struct ah_batches batches, held_out_batches;
    struct ah_trainer_options options;
    struct ah_trainer_rank rank;
    struct ah_comm_nccl nccl; /* boot of the rank's messages, if ranks are on GPUs */
    /* Results of the latest run. */
    struct ah_trainer_facts facts;
    struct ah_error err;
    int rc;
};

struct pipeline {
    struct pipeline_stage stages[PIPELINE_STAGES];
    size_t n;
    uint32_t owner[TEST_BLOCKS_MAX];
    struct ah_trainer_stage of_rank[PIPELINE_STAGES];
    struct ah_trainer_share shares[TEST_BLOCKS_MAX + 1];
    uint32_t share_ranks[TEST_BLOCKS_MAX + 1][PIPELINE_STAGES];
    size_t n_shares;
    uint32_t pipelines;
    uint64_t share_piece;                /* 0: the default */
    const struct ah_comm_driver *driver; /* NULL: ah_comm_loop() */
    bool gpus;                           /* `driver` is NCCL on top of ah_comm_loop(), and rank r has GPU r */
    double deadline_s;                   /* deadline of the world */
    bool apart;                          /* only rank 0 writes and reads checkpoints */
    struct ah_comm_hub *hub;

    /* (optional) Gets every rank's trainer after the run has ended, on that rank's thread. */
    void (*done)(void *context, const struct pipeline_stage *stage, struct ah_trainer *trainer);
    void *context;
    /* (optional) Scores configs. If set, a block takes the last config with the highest score instead of its next. */
    int (*likes)(const struct ah_config *config);
    /* (optional) Gets each config that a block could have had. `had` is true for the config that the block has. */
    void (*chosen)(enum ah_block_kind kind, const struct ah_config *config, bool had);
};

/* Plans a stage with the next configs. Draws once more if the rings are too small for their order. */
static inline void pipeline_plan_stage(struct pipeline_stage *s, uint64_t *turn, uint64_t *seed)
{
    struct ah_config options[AH_CONFIGS_MAX];
    struct ah_error err = {0};
    struct ah_score score;
    int rc = AH_E_FAILED;
    for (size_t block = 0; block < s->c.job.n_blocks; block++) {
        const struct ah_job_group *group = ah_job_block(&s->c.job, block);
        const size_t n = ah_configs(&s->c.job, group, options);
        size_t taken = turn[group->kind]++ % n;
        for (size_t i = 0; i < n && s->pipeline->likes; i++)
            if (s->pipeline->likes(&options[i]) >= s->pipeline->likes(&options[taken]))
                taken = i;
        s->c.configs[block] = options[taken];
        for (size_t i = 0; i < n && s->pipeline->chosen; i++)
            s->pipeline->chosen(group->kind, &options[i], false);
        if (s->pipeline->chosen)
            s->pipeline->chosen(group->kind, &s->c.configs[block], true);
    }
    while (rc == AH_E_FAILED) {
        test_case_knobs(&s->c, seed);
        s->c.choice.knobs.tile_elements = AH_PLAN_TILE_UNIT;
        s->c.choice.knobs.step_ends |=
            (s->pipeline->pipelines > 1 && !s->c.part.shards) || ah_job_splits_table(&s->c.job);
        rc = ah_schedule_evaluate(&s->schedule, &s->c.choice, &score, &err);
    }
    CHECK_OK(rc, err);
    test_case_emit(&s->c, &s->schedule, &s->document);
}

static inline void pipeline_open_data(const struct golden *g, struct pipeline_stage *s)
{
    struct ah_error err = {0};
    struct ah_batches_options batches = g->batches.options;
    golden_open_dataset(g, "data", &s->data);
    golden_open_dataset(g, "data", &s->held_out);
    batches.data = s->data;
    CHECK_OK(ah_batches_init(&s->batches, &batches, &err), err);
    CHECK_OK(ah_batches_init(
                 &s->held_out_batches,
                 &(struct ah_batches_options){
                     .data = s->held_out, .seq = batches.seq, .batch = batches.batch, .held_out = true},
                 &err),
             err);
}

/* A stage of one of the pipelines, and its rank. */
struct pipeline_place {
    struct ah_plan_part part;
    uint32_t pipeline, rank, before, behind;
    uint64_t first_micro_batch, micro_batches;
};

static inline void pipeline_open_stage(struct pipeline *p, const struct golden *g,
                                       const struct pipeline_place *at, uint64_t *turn, uint64_t *seed)
{
    struct pipeline_stage *s = &p->stages[at->rank];
    struct ah_plan_training training = g->c.job.training;
    struct ah_error err = {0};
    memset(s, 0, sizeof *s);
    s->pipeline = p;
    s->c.model = g->c.model;
    s->c.part = at->part;
    training.batch = training.batch / training.micro_batches * at->micro_batches;
    if (p->pipelines > 1) { /* each pipeline has one group, but a single pipeline adds up all groups */
        training.sums = NULL;
        training.n_sums = 0;
    }
    s->c.job.training = training;
    test_case_cut(&s->c, at->micro_batches, seed);
    CHECK_OK(ah_schedule_init(&s->schedule, &s->c.job, &err), err);
    pipeline_plan_stage(s, turn, seed);
    s->rank = (struct ah_trainer_rank){.rank = at->rank,
                                       .ranks = (uint32_t)p->n,
                                       .before = at->before,
                                       .behind = at->behind,
                                       .owner = p->owner,
                                       .stages = p->of_rank,
                                       .shares = p->shares,
                                       .n_shares = p->n_shares,
                                       .pipelines = p->pipelines,
                                       .share_piece = p->share_piece,
                                       .saves_alone = p->apart,
                                       .step_batch = g->c.job.training.batch};
    s->options = g->options;
    s->options.device = (struct ah_device_options){.compute_threads = 1, .host_threads = 1, .shared = true};
    s->options.device.index = p->gpus ? at->rank : 0;
    s->options.plan = s->document.body.plan;
    s->options.rank = &s->rank;
    s->options.batches = &s->batches;
    pipeline_open_data(g, s);
    p->of_rank[at->rank] = (struct ah_trainer_stage){.pipeline = at->pipeline,
                                                     .first_block = at->part.first_block,
                                                     .blocks = at->part.blocks,
                                                     .first_micro_batch = at->first_micro_batch,
                                                     .micro_batches = at->micro_batches};
    for (uint64_t block = 0; block < at->part.blocks && !at->pipeline; block++)
        p->owner[at->part.first_block + block] = at->rank;
}

/* Cuts a pipeline into stages, anywhere. `ranks` lists their ranks. */
static inline void pipeline_cut(struct pipeline *p, const struct golden *g, struct pipeline_place at,
                                const uint32_t *ranks, uint64_t *turn, uint64_t *seed)
{
    const uint64_t blocks = ah_model_blocks(&g->c.model), stages = at.part.stages;
    uint64_t begin = 0;
    for (uint64_t i = 0; i < stages; i++) {
        const uint64_t end =
            i + 1 < stages ? begin + 1 + test_below(seed, blocks - begin - (stages - 1 - i)) : blocks;
        at.part.first_block = begin;
        at.part.blocks = end - begin;
        at.part.tp = 1;
        at.part.stage = i;
        at.rank = ranks[i];
        at.before = i ? ranks[i - 1] : 0;
        at.behind = i + 1 < stages ? ranks[i + 1] : 0;
        pipeline_open_stage(p, g, &at, turn, seed);
        begin = end;
    }
}

static inline uint32_t pipeline_rank_of(const struct pipeline *p, uint32_t pipeline, uint64_t block)
{
    uint32_t rank = 0;
    while (p->of_rank[rank].pipeline != pipeline || block < p->of_rank[rank].first_block ||
           block - p->of_rank[rank].first_block >= p->of_rank[rank].blocks)
        rank++;
    return rank;
}

/* Cuts shares wherever some pipeline is cut. They go from the head down, in the order in which gradients are ready. */
static inline void pipeline_share(struct pipeline *p, uint64_t blocks)
{
    for (uint64_t end = blocks, at = blocks; at-- > 0;) {
        bool cut = false;
        for (size_t rank = 0; rank < p->n; rank++)
            cut = cut || p->of_rank[rank].first_block == at;
        if (!cut)
            continue;
        uint32_t *ranks = p->share_ranks[p->n_shares];
        for (uint32_t pipeline = 0; pipeline < p->pipelines; pipeline++)
            ranks[pipeline] = pipeline_rank_of(p, pipeline, at);
        p->shares[p->n_shares++] =
            (struct ah_trainer_share){.first_block = at, .blocks = end - at, .ranks = ranks};
        end = at;
    }
}

/* Adds the share of the table as the last one. Ranks of heads come first, then ranks of embeddings. */
static inline void pipeline_share_table(struct pipeline *p, const struct golden *g)
{
    uint32_t *ranks = p->share_ranks[p->n_shares];
    if (!ah_job_splits_table(&g->c.job))
        return;
    for (uint32_t pipeline = 0; pipeline < p->pipelines; pipeline++) {
        ranks[pipeline] = pipeline_rank_of(p, pipeline, ah_model_blocks(&g->c.model) - 1);
        ranks[p->pipelines + pipeline] = pipeline_rank_of(p, pipeline, 0);
    }
    p->shares[p->n_shares++] = (struct ah_trainer_share){.blocks = 1, .tied = true, .ranks = ranks};
}

static inline void pipeline_tell_shares(struct pipeline *p)
{
    for (size_t rank = 0; rank < p->n; rank++)
        p->stages[rank].rank.n_shares = p->n_shares;
}

/* Opens a pipeline of `n` stages, or of any number from 2 on if `n` is 0. `turn`: the next config, by kind of block. */
static inline void pipeline_open(struct pipeline *p, const struct golden *g, uint64_t n, uint64_t *turn,
                                 uint64_t *seed)
{
    static const uint32_t in_order[PIPELINE_STAGES] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint64_t blocks = ah_model_blocks(&g->c.model),
                   most = blocks < PIPELINE_STAGES ? blocks : PIPELINE_STAGES;
    p->n = n ? n : 2 + test_below(seed, most - 1);
    p->pipelines = 1;
    p->n_shares = 0;
    pipeline_cut(
        p, g,
        (struct pipeline_place){.part = {.stages = p->n}, .micro_batches = g->c.job.training.micro_batches},
        in_order, turn, seed);
    pipeline_share_table(p, g);
    pipeline_tell_shares(p);
}

/* Opens `n` ranks that share all states. All run the plan of rank 0, whose blocks take the next configs. */
static inline void pipeline_open_shards(struct pipeline *p, const struct golden *g, uint64_t n,
                                        uint64_t *turn, uint64_t *seed)
{
    const uint64_t blocks = ah_model_blocks(&g->c.model), all = g->c.job.training.micro_batches;
    void (*const chosen)(enum ah_block_kind, const struct ah_config *, bool) = p->chosen;
    p->n = n;
    p->pipelines = (uint32_t)n;
    p->n_shares = 0;
    for (uint32_t rank = 0; rank < n; rank++) {
        struct pipeline_stage *s = &p->stages[rank];
        const struct pipeline_place at = {.part = {.blocks = blocks, .tp = 1, .stages = 1, .shards = n},
                                          .pipeline = rank,
                                          .rank = rank,
                                          .first_micro_batch = rank,
                                          .micro_batches = (all + n - 1) / n};
        pipeline_open_stage(p, g, &at, turn, seed);
        p->chosen = NULL;
        p->of_rank[rank].micro_batches = ah_cluster_plan_dealt(all, n, rank);
        s->rank.shards = true;
        s->options.plan = p->stages[0].document.body.plan;
    }
    p->chosen = chosen;
    pipeline_tell_shares(p);
}

/* Opens a pipeline for each of these groups of micro-batches. They have up to `most` ranks in all, numbered in random
 * order. Each has one stage if embedding and head share a table that is not split. */
static inline void pipeline_open_groups(struct pipeline *p, const struct golden *g, const uint64_t *sums,
                                        size_t n_sums, uint64_t most, uint64_t *turn, uint64_t *seed)
{
    const uint64_t blocks = ah_model_blocks(&g->c.model);
    uint64_t stages[PIPELINE_STAGES], first = 0, micro_batches = 0;
    uint32_t ranks[PIPELINE_STAGES], next = 0;
    p->n = n_sums;
    for (size_t i = 0; i < n_sums; i++)
        stages[i] = 1;
    const bool whole = g->c.model.tied && g->c.job.table_trained && !ah_job_splits_table(&g->c.job);
    for (uint64_t extra = whole ? 0 : test_below(seed, most - n_sums + 1); extra > 0; extra--) {
        const size_t i = test_below(seed, n_sums);
        p->n += stages[i] < blocks;
        stages[i] += stages[i] < blocks;
    }
    for (uint32_t i = 0; i < p->n; i++)
        ranks[i] = i;
    for (size_t i = p->n; i-- > 1;) {
        const size_t other = test_below(seed, i + 1);
        const uint32_t kept = ranks[i];
        ranks[i] = ranks[other];
        ranks[other] = kept;
    }
    for (size_t i = 0; i < n_sums; i++)
        micro_batches += sums[i];
    p->pipelines = (uint32_t)n_sums;
    p->n_shares = 0;
    for (uint32_t i = 0; i < n_sums; i++) {
        pipeline_cut(
            p, g,
            (struct pipeline_place){.part = {.stages = stages[i], .step_micro_batches = micro_batches},
                                    .pipeline = i,
                                    .first_micro_batch = first,
                                    .micro_batches = sums[i]},
            ranks + next, turn, seed);
        next += (uint32_t)stages[i];
        first += sums[i];
    }
    pipeline_share(p, blocks);
    pipeline_share_table(p, g);
    pipeline_tell_shares(p);
}

static inline void pipeline_close(struct pipeline *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct pipeline_stage *s = &p->stages[i];
        ah_batches_release(&s->batches);
        ah_batches_release(&s->held_out_batches);
        ah_dataset_close(s->data);
        ah_dataset_close(s->held_out);
        ah_document_release(&s->document);
        ah_schedule_release(&s->schedule);
        test_case_close(&s->c);
    }
}

typedef int pipeline_lead(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                          struct ah_error *err);

static inline int pipeline_open_rank(struct pipeline_stage *s, struct ah_trainer **ret_trainer)
{
    const struct pipeline *p = s->pipeline;
    struct ah_comm_options options = {.driver = p->driver ? p->driver : ah_comm_loop(),
                                      .rank = s->rank.rank,
                                      .ranks = s->rank.ranks,
                                      .boot = p->hub,
                                      .deadline_s = p->deadline_s};
    s->nccl = (struct ah_comm_nccl){ah_comm_loop(), p->hub, AH_LINKS_CONTROL, s->rank.rank, 0};
    if (p->gpus)
        options.boot = &s->nccl;
    s->err = (struct ah_error){0};
    s->rank.comm = NULL;
    *ret_trainer = NULL;
    s->rc = ah_comm_open(&s->rank.comm, &options, &s->err);
    s->rc = s->rc ? s->rc : ah_trainer_open(ret_trainer, &s->options, &s->err);
    return s->rc;
}

static inline void pipeline_close_rank(struct pipeline_stage *s, struct ah_trainer *trainer)
{
    const struct pipeline *p = s->pipeline;
    if (trainer) {
        s->facts = ah_trainer_facts(trainer);
        if (p->done)
            p->done(p->context, s, trainer);
    }
    ah_trainer_close(trainer);
    ah_comm_close(s->rank.comm);
}

static inline void *pipeline_follow(void *context)
{
    struct pipeline_stage *s = context;
    struct ah_trainer *trainer;
    if (!pipeline_open_rank(s, &trainer))
        s->rc = ah_trainer_follow(trainer, &s->held_out_batches, &s->err);
    pipeline_close_rank(s, trainer);
    return NULL;
}

/* Runs the ranks and writes each rank's outcome to its stage. Returns errors of the hub. */
static inline int pipeline_try(struct pipeline *p, const struct ah_comm_hub_options *world,
                               pipeline_lead *lead, void *context, struct ah_error *err)
{
    struct ah_trainer *trainer;
    pthread_t threads[PIPELINE_STAGES];
    int rc = ah_comm_hub_new(&p->hub, (uint32_t)p->n, world, err);
    if (rc)
        return rc;
    for (size_t i = 1; i < p->n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pipeline_follow, &p->stages[i]), 0);
    struct pipeline_stage *s = &p->stages[0];
    if (!pipeline_open_rank(s, &trainer))
        s->rc = lead(context, trainer, &s->held_out_batches, &s->err);
    pipeline_close_rank(s, trainer);
    for (size_t i = 1; i < p->n; i++)
        pthread_join(threads[i], NULL);
    ah_comm_hub_free(p->hub);
    return AH_OK;
}

static inline void pipeline_run(struct pipeline *p, const struct ah_comm_hub_options *world,
                                pipeline_lead *lead, void *context)
{
    struct ah_error err = {0};
    CHECK_OK(pipeline_try(p, world, lead, context, &err), err);
}

static inline void pipeline_expect_ok(const struct pipeline *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->stages[i].rc)
            fail_msg("rank %zu: %s (%d)", i, p->stages[i].err.text, p->stages[i].rc);
}

#endif
