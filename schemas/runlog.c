/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a run log: one table per kind of line, for reading, writing and the schema, and one table of the whole
 * log, for lookup and diff.
 */
#include "schemas/runlog.h"

#include "schemas/kinds_internal.h"
#include "schemas/plan_internal.h"
#include "schemas/rows_internal.h"
#include "schemas/signature_internal.h"
#include "schemas/writer_internal.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US_MAX    1e15
#define BYTES_MAX AH_FIELD_COUNT_MAX
#define STEP_MAX  AH_FIELD_COUNT_MAX
#define FLOPS_MAX 1e30

static const char *const kind_words[] = {"runlog", NULL};
static const char *const step_words[] = {"step", NULL};
static const char *const evaluation_words[] = {"evaluation", NULL};
static const char *const save_words[] = {"save", NULL};
static const char *const sample_words[] = {"sample", NULL};
static const char *const resume_words[] = {"resume", NULL};
static const char *const end_words[] = {"end", NULL};
static const char *const reason_words[] = {"done", "interrupted", "failed", NULL};

#define AH_WORD_TEXT(value, word) word,
const char *const ah_words_runlog_op[] = {AH_PLAN_OP_WORDS(AH_WORD_TEXT) "data", NULL};
#undef AH_WORD_TEXT
_Static_assert(sizeof ah_words_runlog_op / sizeof *ah_words_runlog_op == AH_RUNLOG_OPS + 1, "a word each");

#define LINE(word_list)                                                                                      \
    {                                                                                                        \
        .name = "line", .type = AH_FIELD_CONST, .words = (word_list), .about = "What this line is."          \
    }
#define STEP(tag, least, sentence)                                                                           \
    {                                                                                                        \
        .name = "step", AH_COUNT_AT(tag, step), .min = (least), .max = STEP_MAX, .about = (sentence)         \
    }

static const struct ah_field part_fields[] = {
    AH_ROW_WORD(ah_runlog_part, op, ah_words_runlog_op,
                "Kind of op; data: batches and headers of steps, which are not in plans."),
    AH_ROW_WORD(ah_runlog_part, lane, ah_words_plan_lane, "Its lane."),
    AH_ROW_NUMBER(ah_runlog_part, us, US_MAX, "Time of all its ops in a step."),
    {0}};
AH_TABLE(part, ah_runlog_part, "part", "Time of the ops of one kind in a step.", NULL);

enum { RANKS_MAX = 65536 };

static const struct ah_field rank_fields[] = {
    AH_ROW_COUNT(ah_runlog_rank, rank, 0, RANKS_MAX - 1, "Its number."),
    AH_ROW_COUNT(ah_runlog_rank, pipeline, 0, RANKS_MAX - 1, "Its pipeline."),
    AH_ROW_COUNT(ah_runlog_rank, stage, 0, RANKS_MAX - 1, "Its stage there."),
    {.name = "node", AH_TEXT_AT(ah_runlog_rank, node), .about = "Its node in the cluster plan."},
    {.name = "host",
     AH_TEXT_AT(ah_runlog_rank, host),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Name of the host on which it ran."},
    AH_ROW_NUMBER(ah_runlog_rank, step_us, US_MAX,
                  "Time from the end of compute in the previous step to its "
                  "end in this one."),
    AH_ROW_NUMBER(ah_runlog_rank, compute_us, US_MAX, "Time that compute works, without messages."),
    AH_ROW_NUMBER(ah_runlog_rank, messages_us, US_MAX,
                  "Time that compute waits until other ranks take its messages."),
    AH_ROW_NUMBER(ah_runlog_rank, before_us, US_MAX, "Time that it waits for the stage before."),
    AH_ROW_NUMBER(ah_runlog_rank, behind_us, US_MAX, "Time that it waits for the stage after."),
    AH_ROW_NUMBER(ah_runlog_rank, sums_us, US_MAX,
                  "Time that it waits for sums of gradients over "
                  "pipelines."),
    AH_ROW_NUMBER(ah_runlog_rank, gate_us, US_MAX,
                  "Time that it waits at the gate, where all ranks form the "
                  "norm."),
    AH_ROW_NUMBER(ah_runlog_rank, lanes_us, US_MAX, "Time that it waits for other lanes of its own device."),
    AH_ROW_NUMBER(ah_runlog_rank, h2d_us, US_MAX, "Busy time of the lane that copies to the device."),
    AH_ROW_NUMBER(ah_runlog_rank, d2h_us, US_MAX, "Busy time of the lane that copies from the device."),
    AH_ROW_NUMBER(ah_runlog_rank, host_us, US_MAX, "Busy time of the host lane, including the gate."),
    AH_ROW_NUMBER(ah_runlog_rank, sums_lane_us, US_MAX,
                  "Time that the lane of sums between pipelines works or waits for other pipelines."),
    AH_ROW_BYTES(ah_runlog_rank, sent_bytes, "Bytes sent to neighbours."),
    AH_ROW_BYTES(ah_runlog_rank, summed_bytes, "Bytes sent to other pipelines for sums."),
    AH_ROW_BYTES(ah_runlog_rank, device_bytes, "Highest byte used in its device arena."),
    AH_ROW_BYTES(ah_runlog_rank, host_bytes, "Peak host memory."),
    {0}};
AH_TABLE(rank, ah_runlog_rank, "rank", "Where the time of a rank's step goes.", NULL);

#define RANKS(tag, sentence)                                                                                 \
    {                                                                                                        \
        .name = "ranks", AH_GROUPS_AT(tag, ranks, &rank_table), .flags = AH_FIELD_OPTIONAL,                  \
        .max_items = RANKS_MAX, .about = (sentence)                                                          \
    }

#define EXPOSED_AND_PARTS(tag)                                                                               \
    {.name = "exposed_us",                                                                                   \
     AH_GROUP_AT(tag, exposed_us, &ah_plan_exposed_table),                                                   \
     .flags = AH_FIELD_OPTIONAL,                                                                             \
     .about = "Time that compute waits for each lane."},                                                     \
    {                                                                                                        \
        .name = "parts", AH_GROUPS_AT(tag, parts, &part_table), .flags = AH_FIELD_OPTIONAL,                  \
        .about = "Where the lanes' time goes, by kind of op."                                                \
    }

#define PREDICTED_BUSY(value, word, does, title, flags_)                                                     \
    AH_ROW_BUSY(ah_runlog_predicted, value, word, does, flags_)
static const struct ah_field predicted_fields[] = {
    AH_ROW_NUMBER(ah_runlog_predicted, step_us, US_MAX, "Time of a step."),
    AH_PLAN_LANE_ROWS(PREDICTED_BUSY)
        AH_ROW_NUMBER(ah_runlog_predicted, tokens_per_s, 1e15, "Tokens trained per second."),
    AH_ROW_BYTES(ah_runlog_predicted, device_bytes, "Highest byte used in the device arena."),
    AH_ROW_BYTES(ah_runlog_predicted, host_bytes, "Host memory."),
    {.name = "estimated",
     AH_BOOL_AT(ah_runlog_predicted, estimated),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Some costs were not measured on the machine."},
    EXPOSED_AND_PARTS(ah_runlog_predicted),
    RANKS(ah_runlog_predicted, "For a cluster plan: a step of each rank, in rank order."),
    {0}};
AH_TABLE(predicted, ah_runlog_predicted, "predicted", "What the plan predicted.", NULL);

#define HEADER_FIELDS                                                                                        \
    AH_FIELD_HEAD(ah_runlog, kind_words),                                                                    \
        {.name = "plan_sha256",                                                                              \
         AH_TEXT_AT(ah_runlog, plan_sha256),                                                                 \
         .form = AH_TEXT_SHA256,                                                                             \
         .about = "Digest of the plan that ran."},                                                           \
        AH_ROW_NAME(ah_runlog, model, "The model's name."),                                                  \
        {.name = "device", AH_TEXT_AT(ah_runlog, device), .about = "The device's own name."},                \
        {.name = "policy",                                                                                   \
         AH_TEXT_AT(ah_runlog, policy),                                                                      \
         .form = AH_TEXT_NAME,                                                                               \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .about = "The plan's policy."},                                                                     \
        {.name = "paced",                                                                                    \
         AH_BOOL_AT(ah_runlog, paced),                                                                       \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .about = "Did the run make every op and message take its planned time?"},                           \
        {.name = "emulates",                                                                                 \
         AH_TEXT_AT(ah_runlog, emulates),                                                                    \
         .form = AH_TEXT_NAME,                                                                               \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .about = "The emulated machine: lanes were slowed to its ratios."},                                 \
        {.name = "first_step",                                                                               \
         AH_COUNT_AT(ah_runlog, first_step),                                                                 \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .min = 1,                                                                                           \
         .max = STEP_MAX,                                                                                    \
         .fallback = 1,                                                                                      \
         .about = "First step of a resumed run."},                                                           \
        {.name = "model_flops",                                                                              \
         AH_NUMBER_AT(ah_runlog, model_flops),                                                               \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .max = FLOPS_MAX,                                                                                   \
         .about = "Operations that the model needs in a step, without what is computed again."},             \
        {.name = "peak_flops_per_s",                                                                         \
         AH_NUMBER_AT(ah_runlog, peak_flops_per_s),                                                          \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .max = FLOPS_MAX,                                                                                   \
         .about = "Rate of the fastest matrix product measured on the plan's machine."},                     \
        {.name = "numeric_signature",                                                                        \
         AH_GROUP_AT(ah_runlog, numeric_signature, &ah_signature_table),                                     \
         .about = "What the run's bits depend on."},                                                         \
        {.name = "predicted",                                                                                \
         AH_GROUP_AT(ah_runlog, predicted, &predicted_table),                                                \
         .flags = AH_FIELD_OPTIONAL,                                                                         \
         .about = "What the plan predicted."},                                                               \
        AH_FIELD_ANNOTATIONS(ah_runlog)

static const struct ah_field header_fields[] = {HEADER_FIELDS, {0}};
AH_TABLE(header, ah_runlog, "header", "The first line.", NULL);

#define COPIED(member, sentence)                                                                             \
    {                                                                                                        \
        .name = #member, AH_COUNT_AT(ah_runlog_step, member), .flags = AH_FIELD_OPTIONAL, .max = BYTES_MAX,  \
        .about = (sentence)                                                                                  \
    }

#define STEP_BUSY(value, word, does, title, flags_) AH_ROW_BUSY(ah_runlog_step, value, word, does, flags_)
static const struct ah_field step_fields[] = {
    LINE(step_words),
    STEP(ah_runlog_step, 1, "Number of the step, from 1."),
    {.name = "loss",
     AH_NUMBER_AT(ah_runlog_step, loss),
     .min = -AH_FIELD_NUMBER_MAX,
     .max = AH_FIELD_NUMBER_MAX,
     .about = "Mean over the unmasked tokens of the batch."},
    AH_ROW_BYTES(ah_runlog_step, tokens, "Loss-bearing tokens of the step."),
    AH_ROW_NUMBER(ah_runlog_step, lr, 1e3, "Learning rate."),
    {.name = "grad_norm",
     AH_NUMBER_AT(ah_runlog_step, grad_norm),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .max = AH_FIELD_NUMBER_MAX,
     .fallback = AH_RUNLOG_NO_NORM,
     .about = "Norm of the gradient before clipping."},
    AH_ROW_NUMBER(ah_runlog_step, step_us, US_MAX, "Time of the step."),
    AH_ROW_NUMBER(ah_runlog_step, tokens_per_s, 1e15, "Tokens trained per second: batch x sequence."),
    {.name = "learned_tokens_per_s",
     AH_NUMBER_AT(ah_runlog_step, learned_tokens_per_s),
     .flags = AH_FIELD_OPTIONAL,
     .max = 1e15,
     .about = "Loss-bearing tokens per second."},
    AH_PLAN_LANE_ROWS(STEP_BUSY) COPIED(h2d_bytes, "Bytes copied to the device."),
    COPIED(d2h_bytes, "Bytes copied from the device."),
    AH_ROW_BYTES(ah_runlog_step, device_peak_bytes, "Highest byte touched in the device arena."),
    AH_ROW_BYTES(ah_runlog_step, host_peak_bytes, "Peak host memory in use."),
    {0}};
AH_TABLE(step, ah_runlog_step, "step", "A step that was done.", NULL);

static const struct ah_field evaluation_fields[] = {
    LINE(evaluation_words),
    STEP(ah_runlog_evaluation, 0, "Steps done before it."),
    {.name = "loss",
     AH_NUMBER_AT(ah_runlog_evaluation, loss),
     .min = -AH_FIELD_NUMBER_MAX,
     .max = AH_FIELD_NUMBER_MAX,
     .about = "Mean over the unmasked tokens held out."},
    AH_ROW_BYTES(ah_runlog_evaluation, tokens, "Loss-bearing tokens held out."),
    {0}};
AH_TABLE(evaluation, ah_runlog_evaluation, "evaluation", "Loss on held-out data.", NULL);

static const struct ah_field save_fields[] = {LINE(save_words),
                                              STEP(ah_runlog_save, 0, "Steps done before it."),
                                              AH_ROW_NUMBER(ah_runlog_save, us, US_MAX, "Time it took."),
                                              AH_ROW_BYTES(ah_runlog_save, bytes, "Written in all."),
                                              {0}};
AH_TABLE(save, ah_runlog_save, "save", "A checkpoint that was written.", NULL);

#define SAID(member, flags_, sentence)                                                                       \
    {                                                                                                        \
        .name = #member, AH_TEXT_AT(ah_runlog_sample, member), .form = AH_TEXT_LONG, .flags = (flags_),      \
        .about = (sentence)                                                                                  \
    }

static const struct ah_field sample_fields[] = {
    LINE(sample_words),
    STEP(ah_runlog_sample, 0, "Steps done before it."),
    SAID(prompt, 0, "What the model read."),
    SAID(text, 0, "What it said."),
    SAID(data, AH_FIELD_OPTIONAL, "How the data go on after the prompt."),
    {0}};
AH_TABLE(sample, ah_runlog_sample, "sample", "What the model says to a prompt.", NULL);

static const struct ah_field resume_fields[] = {
    LINE(resume_words), STEP(ah_runlog_resume, 0, "Step of the checkpoint."), {0}};
AH_TABLE(resume, ah_runlog_resume, "resume", "The run was resumed and goes on here.", NULL);

#define MEDIAN(member, least, most, sentence)                                                                \
    {                                                                                                        \
        .name = #member, AH_NUMBER_AT(ah_runlog_end, member),                                                \
        .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT, .min = (least), .max = (most), .about = (sentence) \
    }

static const struct ah_field busy_fields[] = {
    AH_ROW_WORD(ah_runlog_busy, lane, ah_words_plan_lane, "The lane."),
    AH_ROW_NUMBER(ah_runlog_busy, busy_us, US_MAX, "Time that it worked."),
    AH_ROW_NUMBER(ah_runlog_busy, exposed_us, US_MAX,
                  "Part of that during which compute did not work; 0 for "
                  "compute."),
    {0}};
AH_TABLE(busy, ah_runlog_busy, "busy", "How long a lane worked.", NULL);

const char *const ah_words_runlog_source[] = {"lanes", "hardware", NULL};

static const struct ah_field overlap_fields[] = {
    AH_ROW_WORD(
        ah_runlog_overlap, source, ah_words_runlog_source,
        "Where the times come from: the lanes' ops, or the kernels and copies that the device recorded."),
    AH_ROW_COUNT(ah_runlog_overlap, first_step, 1, STEP_MAX, "The first of the steps."),
    AH_ROW_COUNT(ah_runlog_overlap, steps, 1, STEP_MAX, "Number of steps."),
    AH_ROW_NUMBER(ah_runlog_overlap, total_us, US_MAX, "Total time of the steps."),
    AH_ROW_NUMBER(ah_runlog_overlap, compute_us, US_MAX, "Time that compute worked."),
    AH_ROW_NUMBER(ah_runlog_overlap, copy_us, US_MAX, "Time that copies worked but compute did not."),
    AH_ROW_NUMBER(ah_runlog_overlap, host_us, US_MAX, "Time that only the host worked."),
    AH_ROW_NUMBER(ah_runlog_overlap, idle_us, US_MAX, "Time that nothing worked."),
    {.name = "lanes", AH_GROUPS_AT(ah_runlog_overlap, lanes, &busy_table), .about = "Each lane's share."},
    AH_ROW_BYTES(ah_runlog_overlap, records, "Kernels and copies that the device recorded."),
    AH_ROW_BYTES(ah_runlog_overlap, lost, "Records that were lost, so shares are too low."),
    AH_ROW_NUMBER(ah_runlog_overlap, overhead_us, US_MAX, "Time that recording took, as far as is known."),
    {0}};
AH_TABLE(overlap, ah_runlog_overlap, "overlap", "Where the time of some steps went.", NULL);

static const struct ah_field end_fields[] = {
    LINE(end_words),
    STEP(ah_runlog_end, 0, "The last step that was done."),
    AH_ROW_WORD(ah_runlog_end, reason, reason_words, "Why the run ended."),
    {.name = "error",
     AH_TEXT_AT(ah_runlog_end, error),
     .flags = AH_FIELD_OPTIONAL,
     .form = AH_TEXT_ANY,
     .about = "The error message, if it failed."},
    MEDIAN(median_step_us, 0, US_MAX, "Median time of a step."),
    MEDIAN(predicted_step_us, 0, US_MAX, "The step that the plan predicted."),
    MEDIAN(step_error, -1, AH_FIELD_NUMBER_MAX, "Median divided by prediction, minus 1."),
    EXPOSED_AND_PARTS(ah_runlog_end),
    RANKS(ah_runlog_end,
          "For a cluster plan: a step of each rank, means over the middle half of steps by time."),
    {.name = "overlap",
     AH_GROUP_AT(ah_runlog_end, overlap, &overlap_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Where the time of the traced steps went."},
    {0}};
static const struct ah_rule end_rules[] = {
    {"reason", "failed", AH_RULE_REQUIRES, "error", NULL, "is missing; a failed run must give the reason"},
    {0}};
static const struct ah_field_table end_table = {.name = "end",
                                                .about = "The last line.",
                                                .bytes = sizeof(struct ah_runlog_end),
                                                .fields = end_fields,
                                                .rules = end_rules};

static const struct ah_field runlog_fields[] = {HEADER_FIELDS,
                                                {.name = "steps",
                                                 AH_GROUPS_AT(ah_runlog, steps, &step_table),
                                                 .flags = AH_FIELD_OPTIONAL,
                                                 .about = "Steps."},
                                                {.name = "evaluations",
                                                 AH_GROUPS_AT(ah_runlog, evaluations, &evaluation_table),
                                                 .flags = AH_FIELD_OPTIONAL,
                                                 .about = "Evaluations."},
                                                {.name = "saves",
                                                 AH_GROUPS_AT(ah_runlog, saves, &save_table),
                                                 .flags = AH_FIELD_OPTIONAL,
                                                 .about = "Checkpoints."},
                                                {.name = "samples",
                                                 AH_GROUPS_AT(ah_runlog, samples, &sample_table),
                                                 .flags = AH_FIELD_OPTIONAL,
                                                 .about = "What the model says."},
                                                {.name = "resumes",
                                                 AH_GROUPS_AT(ah_runlog, resumes, &resume_table),
                                                 .flags = AH_FIELD_OPTIONAL,
                                                 .about = "Resumes."},
                                                {.name = "end",
                                                 AH_GROUP_AT(ah_runlog, end, &end_table),
                                                 .flags = AH_FIELD_OPTIONAL,
                                                 .about = "How it ended."},
                                                {0}};
AH_TABLE(runlog, ah_runlog, "runlog", "What a run did.", NULL);

/* A kind of line after the header. The kinds are in the order of the lines of one step. */
struct line_kind {
    const struct ah_field_table *table;
    size_t pointer_offset;
    size_t count_offset; /* 0: at most one */
};
static const struct line_kind line_kinds[] = {
    {&step_table, offsetof(struct ah_runlog, steps), offsetof(struct ah_runlog, n_steps)},
    {&evaluation_table, offsetof(struct ah_runlog, evaluations), offsetof(struct ah_runlog, n_evaluations)},
    {&save_table, offsetof(struct ah_runlog, saves), offsetof(struct ah_runlog, n_saves)},
    {&sample_table, offsetof(struct ah_runlog, samples), offsetof(struct ah_runlog, n_samples)},
    {&resume_table, offsetof(struct ah_runlog, resumes), offsetof(struct ah_runlog, n_resumes)},
    {&end_table, offsetof(struct ah_runlog, end), 0},
};
enum { LINE_KINDS = sizeof line_kinds / sizeof line_kinds[0] };

/* A run log being read: for each kind of line, the number of items and the room for them. Steps count up by one from
 * the first; every other line names the last step done. */
struct lines {
    struct ah_reader *reader;
    struct ah_runlog *runlog;
    size_t n[LINE_KINDS];
    size_t room[LINE_KINDS];
    uint64_t last_step; /* the first step - 1 until a step was read */
    uint64_t at_bytes;  /* offset of the line being read */
};

/* Adds an item of a kind; NULL: out of memory. A growing array is copied, so the arena holds up to twice the items. */
static void *add_item(struct lines *lines, size_t kind)
{
    size_t bytes = line_kinds[kind].table->bytes;
    char **items = (char **)(void *)((char *)lines->runlog + line_kinds[kind].pointer_offset);
    if (lines->n[kind] == lines->room[kind]) {
        size_t room = lines->room[kind] ? 2 * lines->room[kind] : 16;
        char *more = ah_arena_array(lines->reader->arena, room, bytes);
        if (!more)
            return NULL;
        if (lines->n[kind])
            memcpy(more, *items, lines->n[kind] * bytes);
        *items = more;
        lines->room[kind] = room;
    }
    return *items + bytes * lines->n[kind]++;
}

static int line_fail(const struct lines *lines, const char *place, const char *what)
{
    return ah_error_set(lines->reader->err, AH_E_DOCUMENT, "%s: %s: %s", lines->reader->name, place, what);
}

static int check_step(struct lines *lines, const char *place, bool is_step, uint64_t number)
{
    uint64_t expected = lines->last_step + (is_step ? 1 : 0);
    char what[120];
    if (number == expected) {
        lines->last_step = number;
        return AH_OK;
    }
    if (number <= lines->last_step)
        snprintf(what, sizeof what, "step: goes back to %" PRIu64 ", but the last one was %" PRIu64, number,
                 lines->last_step);
    else if (is_step)
        snprintf(what, sizeof what, "step: %" PRIu64 " appears where %" PRIu64 " is expected", number,
                 expected);
    else
        snprintf(what, sizeof what, "step: %" PRIu64 " was not done; the last one was %" PRIu64, number,
                 expected);
    return line_fail(lines, place, what);
}

static int read_line(struct lines *lines, const struct ah_reader_path *path, const cJSON *tree,
                     enum ah_document_fault *ret_fault)
{
    const cJSON *word = cJSON_GetObjectItemCaseSensitive(tree, "line");
    size_t kind = 0;
    while (kind < LINE_KINDS &&
           (!cJSON_IsString(word) || strcmp(word->valuestring, line_kinds[kind].table->name) != 0))
        kind++;
    *ret_fault = AH_FAULT_SHAPE;
    if (kind == LINE_KINDS)
        return line_fail(lines, path->name,
                         cJSON_GetObjectItemCaseSensitive(tree, "kind")
                             ? "kind: another run begins here; a log has one"
                             : "line: is not one of step, evaluation, save, sample, resume, end");
    bool ended = lines->n[LINE_KINDS - 1] != 0;
    void *item = add_item(lines, kind);
    if (!item)
        return ah_error_memory(lines->reader->err);
    int rc = ah_reader_group(lines->reader, path, line_kinds[kind].table, tree, item);
    if (rc)
        return rc;
    if (kind == 0)
        ((struct ah_runlog_step *)item)->at_bytes = lines->at_bytes;
    if (kind == LINE_KINDS - 1)
        ((struct ah_runlog_end *)item)->at_bytes = lines->at_bytes;
    *ret_fault = AH_FAULT_MEANING;
    const struct ah_field *step = ah_field_find(line_kinds[kind].table, "step");
    uint64_t number = *(const uint64_t *)ah_field_address(step, item);
    if (ended)
        return line_fail(lines, path->name, "follows the end line");
    return check_step(lines, path->name, kind == 0, number);
}

static bool is_blank(const struct ah_json_source *line)
{
    size_t i = 0;
    while (i < line->size && memchr(" \t\r", line->text[i], 3))
        i++;
    return i == line->size;
}

static int read_one(struct lines *lines, const struct ah_json_source *line, bool header,
                    enum ah_document_fault *ret_fault)
{
    char name[40];
    cJSON *tree;
    snprintf(name, sizeof name, "line %zu", line->first_line);
    struct ah_reader_path path = {NULL, name, 0};
    *ret_fault = AH_FAULT_SYNTAX;
    if (is_blank(line))
        return line_fail(lines, name, "is blank; a run log has one JSON object per line");
    int rc = ah_json_parse(line, &tree, ret_fault, lines->reader->err);
    if (rc)
        return rc;
    *ret_fault = AH_FAULT_SHAPE;
    if (header) {
        rc = ah_reader_group(lines->reader, &path, &header_table, tree, lines->runlog);
        lines->last_step = lines->runlog->first_step - 1;
    } else
        rc = read_line(lines, &path, tree, ret_fault);
    cJSON_Delete(tree);
    return rc;
}

static int runlog_parse(struct ah_reader *reader, const struct ah_json_source *source, void *body,
                        enum ah_document_fault *ret_fault)
{
    struct lines lines = {.reader = reader, .runlog = body};
    struct ah_json_source line = *source;
    const char *end = source->text + source->size;
    int rc = AH_OK;
    *ret_fault = AH_FAULT_SYNTAX;
    if (source->size == 0)
        return ah_error_set(reader->err, AH_E_DOCUMENT, "%s: is empty; a run log is expected", source->name);
    for (const char *at = source->text; at < end && !rc; line.first_line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        line.text = at;
        lines.at_bytes = (uint64_t)(at - source->text);
        line.size = (size_t)((newline ? newline : end) - at);
        rc = read_one(&lines, &line, at == source->text, ret_fault);
        at = newline ? newline + 1 : end;
    }
    for (size_t i = 0; i < LINE_KINDS && !rc; i++)
        if (line_kinds[i].count_offset)
            memcpy((char *)body + line_kinds[i].count_offset, &lines.n[i], sizeof lines.n[i]);
    return rc;
}

static int print_line(const struct ah_field_table *table, const void *group, struct ah_buffer *out,
                      struct ah_error *err)
{
    int rc = ah_writer_group(table, group, out, err);
    ah_buffer_puts(out, "\n");
    return !rc && out->failed ? ah_error_memory(err) : rc;
}

int ah_runlog_print_header(const struct ah_runlog *runlog, struct ah_buffer *out, struct ah_error *err)
{
    return print_line(&header_table, runlog, out, err);
}

int ah_runlog_print_step(const struct ah_runlog_step *step, struct ah_buffer *out, struct ah_error *err)
{
    return print_line(&step_table, step, out, err);
}

int ah_runlog_print_evaluation(const struct ah_runlog_evaluation *evaluation, struct ah_buffer *out,
                               struct ah_error *err)
{
    return print_line(&evaluation_table, evaluation, out, err);
}

int ah_runlog_print_save(const struct ah_runlog_save *save, struct ah_buffer *out, struct ah_error *err)
{
    return print_line(&save_table, save, out, err);
}

int ah_runlog_print_sample(const struct ah_runlog_sample *sample, struct ah_buffer *out, struct ah_error *err)
{
    return print_line(&sample_table, sample, out, err);
}

int ah_runlog_print_resume(const struct ah_runlog_resume *resume, struct ah_buffer *out, struct ah_error *err)
{
    return print_line(&resume_table, resume, out, err);
}

int ah_runlog_print_end(const struct ah_runlog_end *end, struct ah_buffer *out, struct ah_error *err)
{
    return print_line(&end_table, end, out, err);
}

/* Prints the lines of steps below `limit`, besides those of steps themselves, from `next` on. */
static int print_between(const struct ah_runlog *runlog, uint64_t limit, size_t next[LINE_KINDS],
                         struct ah_buffer *out, struct ah_error *err)
{
    for (int rc = AH_OK;;) {
        size_t first = 0;
        uint64_t least = limit;
        const char *item = NULL;
        for (size_t kind = 1; kind < LINE_KINDS - 1; kind++) {
            const struct line_kind *line = &line_kinds[kind];
            size_t n;
            memcpy(&n, (const char *)runlog + line->count_offset, sizeof n);
            if (next[kind] == n)
                continue;
            const char *items =
                *(const char *const *)(const void *)((const char *)runlog + line->pointer_offset);
            const char *at = items + next[kind] * line->table->bytes;
            const uint64_t step = *(const uint64_t *)ah_field_address(ah_field_find(line->table, "step"), at);
            if (step < least) {
                least = step;
                first = kind;
                item = at;
            }
        }
        if (rc || !first)
            return rc;
        next[first]++;
        rc = print_line(line_kinds[first].table, item, out, err);
    }
}

/* Prints in canonical order: each step's line, then its others in the order of the kinds; the end last. */
static int runlog_print(const void *body, struct ah_buffer *out, struct ah_error *err)
{
    const struct ah_runlog *runlog = body;
    size_t next[LINE_KINDS] = {0};
    int rc = ah_runlog_print_header(runlog, out, err);
    for (size_t i = 0; i <= runlog->n_steps && !rc; i++) {
        rc = print_between(runlog, i < runlog->n_steps ? runlog->steps[i].step : UINT64_MAX, next, out, err);
        if (!rc && i < runlog->n_steps)
            rc = ah_runlog_print_step(&runlog->steps[i], out, err);
    }
    return !rc && runlog->end ? ah_runlog_print_end(runlog->end, out, err) : rc;
}

const struct ah_kind ah_kind_runlog = {
    .table = &runlog_table,
    .alternatives =
        (const struct ah_field_table *const[]){&header_table, &step_table, &evaluation_table, &save_table,
                                               &sample_table, &resume_table, &end_table, NULL},
    .parse = runlog_parse,
    .print = runlog_print};
