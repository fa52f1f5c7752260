/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a cluster plan, and what must hold between them:
 * 1. The stages of each pipeline hold all blocks from 0 on, in order and without gaps.
 * 2. The configs of a stage do the same for its blocks; none has weights on the host but states on the device.
 * 3. A stage has `tp` ranks; no rank occurs twice among stages and idle ranks.
 * 4. The pipelines' micro-batches add up to training.micro_batches, which divides the batch.
 * 5. No GPU needs more memory than it has; a stage that keeps states on its host needs host memory.
 * 6. Segments name blocks that exist; the bottleneck is a stage that exists.
 * 7. A stage's program, if there is one, is a part of the same model and training, with the stage's blocks, degree,
 *    place and micro-batches. It needs no more memory than the stage. All programs run on one kind of device.
 * 8. With sharding, all pipelines have one stage and the same program, whose part has as many shards as there are
 *    pipelines. Pipeline p is rank p. Micro-batches are dealt in turn; the program has those of pipeline 0. There are
 *    no segments or sums.
 */
#include "schemas/cluster_plan.h"

#include "schemas/kinds_internal.h"
#include "schemas/model_internal.h"
#include "schemas/plan_internal.h"
#include "schemas/rows_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD(value, word) [value] = word,
const char *const ah_words_tp_mode[] = {AH_TP_MODE_WORDS(WORD) NULL};
const char *const ah_words_cluster_policy[] = {AH_CLUSTER_POLICY_WORDS(WORD) NULL};

static const char *const kind_words[] = {"cluster-plan", NULL};

enum { BLOCKS_MAX = 10002, RANKS_MAX = 4194304, STAGES_MAX = 65536, PASSES_MAX = 16777216 };

#define US_MAX 1e18
#define RANKS(tag, member, least, sentence)                                                                  \
    {                                                                                                        \
        .name = #member, AH_COUNTS_AT(tag, member), .flags = AH_FIELD_UNIQUE, .min_items = (least),          \
        .max_items = 65536, .max = RANKS_MAX - 1, .about = (sentence)                                        \
    }

static const struct ah_field input_fields[] = {AH_ROW_NAME(ah_plan_input, name, "The document's name."),
                                               AH_ROW_SHA256(ah_plan_input, sha256,
                                                             "Digest of its canonical "
                                                             "text."),
                                               {0}};
AH_TABLE(input, ah_plan_input, "cluster_input", "A document that the plan was made from.", NULL);

static const struct ah_field inputs_fields[] = {
    AH_ROW_GROUP(ah_cluster_plan_inputs, model, &input_table, "The model."),
    AH_ROW_GROUP(ah_cluster_plan_inputs, cluster, &input_table,
                 "The cluster; with sharding, the machine whose GPUs they are."),
    {0}};
AH_TABLE(inputs, ah_cluster_plan_inputs, "cluster_inputs", "What the plan was made from.", NULL);

static int training_check(const void *group, struct ah_error *err)
{
    const struct ah_cluster_plan_training *training = group;
    if (training->batch % training->micro_batches)
        return ah_meaning_fail(err, "micro_batches", "%" PRIu64 " does not divide batch %" PRIu64,
                               training->micro_batches, training->batch);
    return AH_OK;
}

static const struct ah_field training_fields[] = {
    AH_ROW_COUNT(ah_cluster_plan_training, batch, 1, AH_BATCH_MAX, "Sequences of a step."),
    AH_ROW_COUNT(ah_cluster_plan_training, micro_batches, 1, AH_BATCH_MAX, "Micro-batches of a step."),
    AH_ROW_COUNT(ah_cluster_plan_training, seq, 1, AH_SEQ_MAX, "Tokens of a sequence."),
    AH_ROW_WORD(ah_cluster_plan_training, dtype, ah_words_dtype, "Type of weights and activations."),
    AH_ROW_WORD(ah_cluster_plan_training, state_dtype, ah_words_dtype, "Type of the optimizer's moments."),
    {.name = "clip",
     AH_NUMBER_AT(ah_cluster_plan_training, clip),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_CLIP_MAX,
     .about = "Largest norm of the gradient, over all ranks; 0: not clipped."},
    {.name = "trainable",
     AH_TEXTS_AT(ah_cluster_plan_training, trainable),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 4096,
     .about = "Patterns of tensor names, '!' excludes; absent: all are trained."},
    {.name = "sums",
     AH_COUNTS_AT(ah_cluster_plan_training, sums),
     .flags = AH_FIELD_OPTIONAL,
     .min_items = 2,
     .max_items = 65536,
     .min = 1,
     .max = AH_BATCH_MAX,
     .about = "Micro-batches of each group whose gradients are added up separately. The first pipeline has "
              "the first groups, and each other pipeline one of the last; absent: each pipeline is a group."},
    {0}};
AH_TABLE(training, ah_cluster_plan_training, "cluster_training", "What is trained, and in which portions.",
         training_check);

static const struct ah_field config_fields[] = {
    AH_ROW_COUNT(ah_cluster_plan_config, first_block, 0, BLOCKS_MAX - 1, "The lowest block."),
    AH_ROW_COUNT(ah_cluster_plan_config, blocks, 1, BLOCKS_MAX, "Number of blocks."),
    AH_ROW_WORD(ah_cluster_plan_config, activations, ah_words_activations, "What is kept for backward."),
    AH_ROW_WORD(ah_cluster_plan_config, weights, ah_words_weights, "Where weights live."),
    AH_ROW_WORD(ah_cluster_plan_config, optimizer, ah_words_optimizer, "Where the optimizer runs."),
    {0}};
static const struct ah_rule config_rules[] = {
    {.when = "weights",
     .is = "host",
     .then = AH_RULE_IS_NOT,
     .field = "optimizer",
     .word = "device",
     .because = "weights on the host are updated there or streamed"},
    {0}};
static const struct ah_field_table config_table = {.name = "config",
                                                   .about = "Blocks that are treated alike.",
                                                   .bytes = sizeof(struct ah_cluster_plan_config),
                                                   .fields = config_fields,
                                                   .rules = config_rules};

static int check_host(const struct ah_cluster_plan_stage *stage, struct ah_error *err)
{
    bool away = false;
    for (size_t i = 0; i < stage->n_configs; i++)
        away |= stage->configs[i].weights == AH_WEIGHTS_HOST ||
                stage->configs[i].optimizer == AH_OPTIMIZER_HOST ||
                stage->configs[i].optimizer == AH_OPTIMIZER_STREAMED;
    if (away != (stage->host_bytes > 0))
        return ah_meaning_fail(err, "host_bytes",
                               "is %" PRIu64 " but %s of the configs has its weights or optimizer there",
                               stage->host_bytes, away ? "one" : "none");
    return AH_OK;
}

static int stage_check(const void *group, struct ah_error *err)
{
    const struct ah_cluster_plan_stage *stage = group;
    uint64_t next = stage->first_block, end = stage->first_block + stage->blocks;
    if (stage->n_ranks != stage->tp)
        return ah_meaning_fail(err, "ranks", "are %zu, but tp is %" PRIu64, stage->n_ranks, stage->tp);
    if (stage->memory_bytes > stage->capacity_bytes)
        return ah_meaning_fail(err, "memory_bytes", "%" PRIu64 " exceeds capacity_bytes %" PRIu64,
                               stage->memory_bytes, stage->capacity_bytes);
    for (size_t i = 0; i < stage->n_configs; i++) {
        if (stage->configs[i].first_block != next)
            return ah_meaning_fail_item(err, "configs", i, "first_block", "is not %" PRIu64, next);
        next += stage->configs[i].blocks;
    }
    if (next != end)
        return ah_meaning_fail(err, "configs", "end at block %" PRIu64 ", the stage at %" PRIu64, next, end);
    return check_host(stage, err);
}

static const struct ah_field stage_fields[] = {
    AH_ROW_NAME(ah_cluster_plan_stage, node, "The node."),
    AH_ROW_NAME(ah_cluster_plan_stage, gpu, "Type of its GPUs."),
    AH_ROW_COUNT(ah_cluster_plan_stage, tp, 1, 1024, "GPUs that share the blocks."),
    RANKS(ah_cluster_plan_stage, ranks, 1, "Its GPUs, by their numbers in the cluster."),
    AH_ROW_COUNT(ah_cluster_plan_stage, first_block, 0, BLOCKS_MAX - 1, "Its lowest block."),
    AH_ROW_COUNT(ah_cluster_plan_stage, blocks, 1, BLOCKS_MAX, "How many blocks."),
    {.name = "configs",
     AH_GROUPS_AT(ah_cluster_plan_stage, configs, &config_table),
     .min_items = 1,
     .max_items = BLOCKS_MAX,
     .about = "What happens to each range of its blocks."},
    AH_ROW_COUNT(ah_cluster_plan_stage, in_flight, 1, 16777216,
                 "Most micro-batches whose activations it holds at one time."),
    AH_ROW_BYTES(ah_cluster_plan_stage, memory_bytes, "Memory that each GPU needs, including its reserve."),
    AH_ROW_BYTES(ah_cluster_plan_stage, capacity_bytes, "Memory that each GPU has."),
    {.name = "host_bytes",
     AH_COUNT_AT(ah_cluster_plan_stage, host_bytes),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_FIELD_COUNT_MAX,
     .about = "Memory on the node's host, for all its GPUs."},
    AH_ROW_NUMBER(ah_cluster_plan_stage, forward_us, US_MAX, "Time per micro-batch."),
    AH_ROW_NUMBER(ah_cluster_plan_stage, backward_us, US_MAX, "Time per micro-batch."),
    AH_ROW_NUMBER(ah_cluster_plan_stage, send_us, US_MAX,
                  "Time to send output and input gradient of a micro-batch."),
    {.name = "update_us",
     AH_NUMBER_AT(ah_cluster_plan_stage, update_us),
     .flags = AH_FIELD_OPTIONAL,
     .max = 1e15,
     .about = "Its own update."},
    AH_ROW_NUMBER(ah_cluster_plan_stage, busy_us, US_MAX, "Time of computing and sending in a step."),
    {.name = "starts_us",
     AH_COUNTS_AT(ah_cluster_plan_stage, starts_us),
     .flags = AH_FIELD_OPTIONAL,
     .min_items = 2,
     .max_items = 2 * PASSES_MAX,
     .max = AH_FIELD_COUNT_MAX,
     .about = "Start times of its passes, in the order in which they run (one forward, one backward), to the "
              "microsecond."},
    {.name = "program",
     AH_COUNT_AT(ah_cluster_plan_stage, program),
     .flags = AH_FIELD_OPTIONAL,
     .max = STAGES_MAX,
     .about = "The program of each of its ranks: an index into programs."},
    {.name = "nic_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_plan_stage, nic_bytes_per_s),
     .flags = AH_FIELD_OPTIONAL,
     .max = 1e18,
     .about = "Rate of its node's network interface, each way."},
    {0}};
AH_TABLE(stage, ah_cluster_plan_stage, "stage", "GPUs that share a run of blocks.", stage_check);

/* Checks that each stage starts two passes per micro-batch, in ascending order. */
static int pipeline_check(const void *group, struct ah_error *err)
{
    const struct ah_cluster_plan_pipeline *pipeline = group;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
        if (stage->n_starts_us && stage->n_starts_us != 2 * pipeline->micro_batches)
            return ah_meaning_fail_item(err, "stages", i, "starts_us",
                                        "has %zu passes for %" PRIu64 " micro-batches; each needs two",
                                        stage->n_starts_us, pipeline->micro_batches);
        for (size_t k = 1; k < stage->n_starts_us; k++)
            if (stage->starts_us[k] < stage->starts_us[k - 1])
                return ah_meaning_fail_item(err, "stages", i, "starts_us", "decreases at item %zu", k);
    }
    return AH_OK;
}

static const struct ah_field pipeline_fields[] = {
    AH_ROW_COUNT(ah_cluster_plan_pipeline, micro_batches, 1, 16777216, "Micro-batches that pass through it."),
    AH_ROW_NUMBER(ah_cluster_plan_pipeline, time_us, US_MAX, "Time until its last backward ends."),
    {.name = "stages",
     AH_GROUPS_AT(ah_cluster_plan_pipeline, stages, &stage_table),
     .min_items = 1,
     .max_items = BLOCKS_MAX,
     .about = "In the order of the blocks."},
    {0}};
AH_TABLE(pipeline, ah_cluster_plan_pipeline, "pipeline", "A copy of the model, and its part of the batch.",
         pipeline_check);

static const char *const dealing_words[] = {"round_robin", NULL};
static const struct ah_field sharding_fields[] = {
    {.name = "micro_batches",
     .type = AH_FIELD_CONST,
     .words = dealing_words,
     .about = "Micro-batch j belongs to pipeline j modulo their number."},
    {.name = "fabric_bytes_per_s",
     AH_NUMBER_AT(ah_cluster_plan_sharding, fabric_bytes_per_s),
     .flags = AH_FIELD_ABOVE,
     .max = 1e18,
     .about = "Rate at which each GPU sends to the others, and receives."},
    {0}};
AH_TABLE(sharding, ah_cluster_plan_sharding, "sharding",
         "The pipelines are equal GPUs of one machine, and each owns a part of all states.", NULL);

static const struct ah_field group_fields[] = {
    RANKS(ah_cluster_plan_group, ranks, 2, "Ranks that hold the same slice."), {0}};
AH_TABLE(group, ah_cluster_plan_group, "group", "Ranks that add up one slice of their gradients.", NULL);

static const struct ah_field segment_fields[] = {
    AH_ROW_COUNT(ah_cluster_plan_segment, first_block, 0, BLOCKS_MAX - 1, "Its lowest block."),
    AH_ROW_COUNT(ah_cluster_plan_segment, blocks, 1, BLOCKS_MAX, "How many blocks."),
    {.name = "tied",
     AH_BOOL_AT(ah_cluster_plan_segment, tied),
     .flags = AH_FIELD_OPTIONAL,
     .about = "It is the table that embedding and head share."},
    AH_ROW_BYTES(ah_cluster_plan_segment, bytes, "Size of its gradients, all slices."),
    AH_ROW_NUMBER(ah_cluster_plan_segment, start_us, US_MAX, "When adding up begins."),
    AH_ROW_NUMBER(ah_cluster_plan_segment, time_us, US_MAX,
                  "Time to add them up if nothing else uses the network."),
    {.name = "groups",
     AH_GROUPS_AT(ah_cluster_plan_segment, groups, &group_table),
     .min_items = 1,
     .max_items = 4096,
     .about = "One a slice."},
    {0}};
AH_TABLE(segment, ah_cluster_plan_segment, "segment", "Blocks whose gradients the same ranks add up.", NULL);

static const struct ah_field predicted_fields[] = {
    AH_ROW_NUMBER(ah_cluster_plan_predicted, step_us, US_MAX, "Simulated time of a step."),
    AH_ROW_NUMBER(ah_cluster_plan_predicted, pipelines_us, US_MAX,
                  "Time until the last backward of the slowest pipeline."),
    AH_ROW_NUMBER(ah_cluster_plan_predicted, exposed_sync_us, US_MAX, "Time to add up gradients after that."),
    AH_ROW_NUMBER(ah_cluster_plan_predicted, update_us, US_MAX, "Time of the slowest stage's update."),
    {.name = "programs_us",
     AH_NUMBER_AT(ah_cluster_plan_predicted, programs_us),
     .flags = AH_FIELD_OPTIONAL,
     .max = US_MAX,
     .about = "Time of a first step, with all programs simulated together."},
    {.name = "programs_period_us",
     AH_NUMBER_AT(ah_cluster_plan_predicted, programs_period_us),
     .flags = AH_FIELD_OPTIONAL,
     .max = US_MAX,
     .about = "Time of a later step, with all programs simulated together."},
    AH_ROW_NUMBER(ah_cluster_plan_predicted, bubble, 1,
                  "Share of the pipelines' time in which their GPUs wait."),
    AH_ROW_NUMBER(ah_cluster_plan_predicted, tokens_per_s, 1e15, "Simulated rate."),
    AH_ROW_COUNT(ah_cluster_plan_predicted, bottleneck_pipeline, 0, 65535,
                 "The pipeline of the busiest "
                 "stage."),
    AH_ROW_COUNT(ah_cluster_plan_predicted, bottleneck_stage, 0, BLOCKS_MAX, "The busiest stage."),
    {.name = "estimated",
     AH_BOOL_AT(ah_cluster_plan_predicted, estimated),
     .about = "Some costs were not measured."},
    {0}};
AH_TABLE(predicted, ah_cluster_plan_predicted, "predicted", "What the simulation predicts.", NULL);

static const struct ah_field solver_fields[] = {
    AH_ROW_WORD(ah_plan_solver, status, ah_words_plan_status, "What is proven."),
    AH_ROW_NUMBER(ah_plan_solver, objective_us, US_MAX, "Time of the step."),
    AH_ROW_NUMBER(ah_plan_solver, bound_us, US_MAX, "No plan can be faster than this; 0: no bound."),
    AH_ROW_NUMBER(ah_plan_solver, gap, 1, "(objective - bound) / objective."),
    AH_ROW_COUNT(ah_plan_solver, evaluations, 0, AH_FIELD_COUNT_MAX, "Pipelines and plans that were timed."),
    {0}};
AH_TABLE(solver, ah_plan_solver, "cluster_solver", "How good the plan is.", ah_plan_check_solver);

static int check_stages(const struct ah_cluster_plan *plan, size_t p, struct ah_error *err)
{
    const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
    uint64_t next = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        if (pipeline->stages[i].first_block != next)
            return ah_meaning_fail_item(err, "pipelines", p, "stages",
                                        "stage %zu begins at block %" PRIu64 ", not at %" PRIu64, i,
                                        pipeline->stages[i].first_block, next);
        next += pipeline->stages[i].blocks;
    }
    if (next != plan->blocks)
        return ah_meaning_fail_item(err, "pipelines", p, "stages",
                                    "hold %" PRIu64 " blocks; the model has %" PRIu64, next, plan->blocks);
    return AH_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p > q) - (p < q);
}

static size_t gather_ranks(const struct ah_cluster_plan *plan, uint64_t *ret_ranks)
{
    size_t n = 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &plan->pipelines[p].stages[i];
            for (size_t r = 0; r < stage->n_ranks; r++, n++)
                if (ret_ranks)
                    ret_ranks[n] = stage->ranks[r];
        }
    for (size_t r = 0; r < plan->n_idle_ranks; r++, n++)
        if (ret_ranks)
            ret_ranks[n] = plan->idle_ranks[r];
    return n;
}

static int check_ranks(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    size_t n = gather_ranks(plan, NULL);
    uint64_t *ranks = calloc(n + 1, sizeof *ranks);
    int rc = AH_OK;
    if (!ranks)
        return ah_error_memory(err);
    gather_ranks(plan, ranks);
    qsort(ranks, n, sizeof *ranks, compare_ranks);
    for (size_t i = 1; i < n && !rc; i++)
        if (ranks[i] == ranks[i - 1])
            rc = ah_meaning_fail(err, "pipelines", "rank %" PRIu64 " has two places", ranks[i]);
    free(ranks);
    return rc;
}

static int check_segments(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    for (size_t i = 0; i < plan->n_segments; i++)
        if (plan->segments[i].first_block + plan->segments[i].blocks > plan->blocks)
            return ah_meaning_fail_item(err, "segments", i, "blocks", "goes beyond the model's %" PRIu64,
                                        plan->blocks);
    return AH_OK;
}

/* Checks `sums`: the first pipeline computes the leading groups, every other pipeline one of the rest. */
static int check_sums(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    const struct ah_cluster_plan_training *training = &plan->training;
    const size_t n = training->n_sums, behind = plan->n_pipelines - 1;
    uint64_t micro_batches = 0;
    for (size_t i = 0; i < n; i++)
        micro_batches += training->sums[i];
    const int rc = ah_plan_check_sums(training->sums, n, err);
    if (rc)
        return rc;
    if (n && micro_batches != training->micro_batches)
        return ah_meaning_fail(err, "training.sums", "have %" PRIu64 " micro-batches, training has %" PRIu64,
                               micro_batches, training->micro_batches);
    if (n && n <= plan->n_pipelines)
        return ah_meaning_fail(
            err, "training.sums",
            "are %zu groups for %zu pipelines; give them only if the first pipeline has several", n,
            plan->n_pipelines);
    for (size_t p = 1; p < plan->n_pipelines && n; p++)
        if (plan->pipelines[p].micro_batches != training->sums[n - 1 - behind + p])
            return ah_meaning_fail_item(err, "pipelines", p, "micro_batches",
                                        "is %" PRIu64 ", its group of training.sums has %" PRIu64
                                        "; only the first pipeline has more than one group",
                                        plan->pipelines[p].micro_batches, training->sums[n - 1 - behind + p]);
    return AH_OK;
}

/* Returns the number of micro-batches that the program of pipeline `p` computes. */
static uint64_t programmed(const struct ah_cluster_plan *plan, size_t p)
{
    return plan->pipelines[plan->sharding ? 0 : p].micro_batches;
}

/* True if a program has the `sums` of its pipeline `p`. */
static bool has_sums(const struct ah_cluster_plan *plan, size_t p, const struct ah_plan *program)
{
    const struct ah_cluster_plan_training *training = &plan->training;
    const size_t n = p ? 0 : ah_cluster_plan_first_sums(training->sums, training->n_sums, plan->n_pipelines);
    return program->training.n_sums == n &&
           (!n || !memcmp(program->training.sums, training->sums, n * sizeof *training->sums));
}

/* Returns what in a stage's program does not match the stage; NULL: nothing. */
static const char *wrong_program(const struct ah_cluster_plan *plan, size_t p, size_t i)
{
    const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
    const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
    const struct ah_plan *program = &plan->programs[stage->program];
    const struct ah_plan_part *part = program->part;
    const uint64_t sequences = plan->training.batch / plan->training.micro_batches;
    if (strcmp(program->inputs.model.sha256, plan->inputs.model.sha256) != 0)
        return "is made for another model";
    if (!part || part->first_block != stage->first_block || part->blocks != stage->blocks)
        return "has other blocks";
    if (part->tp != stage->tp || part->stage != i || part->stages != pipeline->n_stages)
        return "has another place in the pipelines";
    if (part->shards != (plan->sharding ? plan->n_pipelines : 0))
        return "shares states with another number of ranks";
    if (program->training.micro_batches != programmed(plan, p) ||
        program->training.batch != sequences * programmed(plan, p) ||
        program->training.seq != plan->training.seq || program->training.dtype != plan->training.dtype ||
        program->training.state_dtype != plan->training.state_dtype)
        return "has other training settings";
    if (!has_sums(plan, p, program))
        return "adds up other groups of micro-batches";
    if (memcmp(&program->training.clip, &plan->training.clip, sizeof plan->training.clip) != 0)
        return "clips to another norm";
    if (program->numeric_signature.device != plan->programs[0].numeric_signature.device)
        return "runs on another kind of device than program 0";
    if (program->memory.device_bytes + program->memory.reserved_bytes > stage->memory_bytes)
        return "takes more than the stage's memory_bytes";
    return NULL;
}

static int check_programs(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    for (size_t p = 0; p < plan->n_pipelines && plan->n_programs; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            uint64_t program = plan->pipelines[p].stages[i].program;
            const char *wrong = program < plan->n_programs ? wrong_program(plan, p, i) : "does not exist";
            if (wrong)
                return ah_meaning_fail_item(err, "pipelines", p, "stages",
                                            "stage %zu: its program %" PRIu64 " %s", i, program, wrong);
        }
    return AH_OK;
}

static int check_sharding(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    if (!plan->sharding)
        return AH_OK;
    if (plan->n_programs != 1 || plan->n_segments || plan->training.n_sums)
        return ah_meaning_fail(err, "sharding",
                               "goes with one program, and without segments or training.sums");
    for (size_t p = 0; p < plan->n_pipelines; p++) {
        const uint64_t dealt = ah_cluster_plan_dealt(plan->training.micro_batches, plan->n_pipelines, p);
        if (plan->pipelines[p].n_stages != 1)
            return ah_meaning_fail_item(err, "pipelines", p, "stages", "are %zu; with sharding, it is one",
                                        plan->pipelines[p].n_stages);
        if (plan->pipelines[p].stages[0].ranks[0] != p)
            return ah_meaning_fail_item(err, "pipelines", p, "stages[0].ranks",
                                        "is %" PRIu64 "; with sharding, it is the pipeline's number",
                                        plan->pipelines[p].stages[0].ranks[0]);
        if (plan->pipelines[p].micro_batches != dealt)
            return ah_meaning_fail_item(err, "pipelines", p, "micro_batches",
                                        "is %" PRIu64 "; dealt in turn, it is %" PRIu64,
                                        plan->pipelines[p].micro_batches, dealt);
    }
    return AH_OK;
}

static int plan_check(const void *group, struct ah_error *err)
{
    const struct ah_cluster_plan *plan = group;
    const struct ah_cluster_plan_predicted *predicted = &plan->predicted;
    uint64_t micro_batches = 0;
    int rc = AH_OK;
    if (plan->model && ah_model_blocks(plan->model) != plan->blocks)
        rc = ah_meaning_fail(err, "blocks", "%" PRIu64 " are not those of the model, %" PRIu64, plan->blocks,
                             ah_model_blocks(plan->model));
    for (size_t p = 0; p < plan->n_pipelines && !rc; p++) {
        micro_batches += plan->pipelines[p].micro_batches;
        rc = check_stages(plan, p, err);
    }
    if (!rc && micro_batches != plan->training.micro_batches)
        rc = ah_meaning_fail(err, "pipelines", "have %" PRIu64 " micro-batches, training has %" PRIu64,
                             micro_batches, plan->training.micro_batches);
    rc = rc ? rc : check_sums(plan, err);
    rc = rc ? rc : check_ranks(plan, err);
    rc = rc ? rc : check_segments(plan, err);
    rc = rc ? rc : check_sharding(plan, err);
    rc = rc ? rc : check_programs(plan, err);
    if (!rc && (predicted->bottleneck_pipeline >= plan->n_pipelines ||
                predicted->bottleneck_stage >= plan->pipelines[predicted->bottleneck_pipeline].n_stages))
        rc = ah_meaning_fail(err, "predicted.bottleneck_stage", "there is no such stage");
    return rc;
}

static const struct ah_field plan_fields[] = {
    AH_FIELD_HEAD_OF(ah_cluster_plan, kind_words, ah_field_plan_version),
    AH_ROW_GROUP(ah_cluster_plan, inputs, &inputs_table, "What it was made from."),
    {.name = "model",
     AH_GROUP_AT(ah_cluster_plan, model, &ah_model_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "The whole model."},
    AH_ROW_COUNT(ah_cluster_plan, blocks, 3, BLOCKS_MAX, "Blocks of the model: embedding, layers, head."),
    AH_ROW_GROUP(ah_cluster_plan, training, &training_table, "What is trained, and in which portions."),
    AH_ROW_WORD(ah_cluster_plan, tp_mode, ah_words_tp_mode, "Do all types of GPU have the same degree?"),
    AH_ROW_WORD(ah_cluster_plan, policy, ah_words_cluster_policy, "How the GPUs were arranged."),
    AH_ROW_WITHOUT(ah_cluster_plan),
    {.name = "sharding",
     AH_GROUP_AT(ah_cluster_plan, sharding, &sharding_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "How equal GPUs share the states; absent: each rank has all states of its blocks."},
    {.name = "pipelines",
     AH_GROUPS_AT(ah_cluster_plan, pipelines, &pipeline_table),
     .min_items = 1,
     .max_items = STAGES_MAX,
     .about = "Copies of the model that share the batch."},
    {.name = "segments",
     AH_GROUPS_AT(ah_cluster_plan, segments, &segment_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = STAGES_MAX,
     .about = "Which ranks add up the gradients of which blocks, from the highest block down."},
    RANKS(ah_cluster_plan, idle_ranks, 0, "GPUs without work."),
    {.name = "programs",
     AH_GROUPS_AT(ah_cluster_plan, programs, &ah_plan_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = STAGES_MAX,
     .about = "One plan for each rank; its times are those of the rank alone."},
    AH_ROW_GROUP(ah_cluster_plan, predicted, &predicted_table, "What the simulation predicts."),
    AH_ROW_GROUP(ah_cluster_plan, solver, &solver_table, "How good it is."),
    AH_FIELD_ANNOTATIONS(ah_cluster_plan),
    {0}};
AH_TABLE(plan, ah_cluster_plan, "cluster-plan", "Who trains which blocks on a cluster of unequal GPUs.",
         plan_check);

const struct ah_kind ah_kind_cluster_plan = {.table = &plan_table,
                                             .alternatives =
                                                 (const struct ah_field_table *const[]){&plan_table, NULL},
                                             .upgrade = ah_plan_upgrade_cluster};
