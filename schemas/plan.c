/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a plan. plan_check.c checks what must hold between them.
 */
#include "schemas/plan.h"

#include "schemas/algorithms_internal.h"
#include "schemas/kinds_internal.h"
#include "schemas/model_internal.h"
#include "schemas/plan_internal.h"
#include "schemas/rows_internal.h"
#include "schemas/signature_internal.h"

#define WORD(value, word) [value] = word,
const char *const ah_words_policy[] = {AH_POLICY_WORDS(WORD) NULL};
const char *const ah_words_scheduling[] = {AH_SCHEDULING_WORDS(WORD) NULL};
const char *const ah_words_micro_order[] = {AH_MICRO_ORDER_WORDS(WORD) NULL};
const char *const ah_words_accumulator[] = {AH_ACCUMULATOR_WORDS(WORD) NULL};
const char *const ah_words_plan_op[] = {AH_PLAN_OP_WORDS(WORD) NULL};
const char *const ah_words_plan_status[] = {AH_PLAN_STATUS_WORDS(WORD) NULL};
const char *const ah_words_tensor[] = {AH_BLOCK_TENSOR_WORDS(WORD) AH_SHARED_TENSOR_WORDS(WORD) NULL};
const char *const ah_words_technique[] = {AH_TECHNIQUE_WORDS(WORD) NULL};
const char *const ah_words_what_if[] = {AH_WHAT_IF_WORDS(WORD) NULL};

static const char *const kind_words[] = {"plan", NULL};

enum { OPS_MAX = 1000000 };

#define COUNT_MAX AH_FIELD_COUNT_MAX
#define US_MAX    1e15
#define OPTIONAL_COUNT(tag, member, most, sentence)                                                          \
    {                                                                                                        \
        .name = #member, AH_COUNT_AT(tag, member), .flags = AH_FIELD_OPTIONAL, .max = (most),                \
        .about = (sentence)                                                                                  \
    }
#define POSITION(tag, member, sentence)                                                                      \
    {                                                                                                        \
        .name = #member, AH_COUNT_AT(tag, member), .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,         \
        .max = OPS_MAX - 1, .fallback = (double)AH_PLAN_NOWHERE, .about = (sentence)                         \
    }

static const struct ah_field input_fields[] = {AH_ROW_NAME(ah_plan_input, name, "The document's name."),
                                               AH_ROW_SHA256(ah_plan_input, sha256,
                                                             "Digest of its canonical "
                                                             "text."),
                                               {0}};
AH_TABLE(input, ah_plan_input, "input", "A document that the plan was made from.", NULL);

static const struct ah_field emulated_fields[] = {
    AH_ROW_NAME(ah_plan_emulated, name, "The machine that was emulated."),
    AH_ROW_NUMBER(ah_plan_emulated, h2d_bytes_per_s, 1e15, "Rate of copies to the device."),
    AH_ROW_NUMBER(ah_plan_emulated, d2h_bytes_per_s, 1e15, "Rate of copies from the device."),
    AH_ROW_NUMBER(ah_plan_emulated, copy_latency_us, US_MAX, "Latency of a copy."),
    AH_ROW_NUMBER(ah_plan_emulated, both_kept, 1,
                  "Share of its rate that a copy keeps while another runs in the other direction."),
    AH_ROW_NUMBER(ah_plan_emulated, host_adam_params_per_s, 1e15, "Rate of the host's AdamW."),
    {0}};
AH_TABLE(emulated, ah_plan_emulated, "emulated", "The rates to which lanes were slowed.", NULL);

static const struct ah_field inputs_fields[] = {
    AH_ROW_GROUP(ah_plan_inputs, model, &input_table, "The model."),
    AH_ROW_GROUP(ah_plan_inputs, machine, &input_table, "The machine."),
    {.name = "emulated",
     AH_GROUP_AT(ah_plan_inputs, emulated, &emulated_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "For a profile that emulates another machine: the rates to which its lanes were slowed."},
    {0}};
AH_TABLE(inputs, ah_plan_inputs, "inputs", "What the plan was made from.", NULL);

static const struct ah_field what_if_fields[] = {
    AH_ROW_WORD(ah_plan_what_if, field, ah_words_what_if, "The field of the machine document."),
    AH_ROW_BYTES(ah_plan_what_if, machine_bytes, "What the machine has."),
    AH_ROW_BYTES(ah_plan_what_if, planned_bytes, "The larger amount that the plan assumes."),
    {0}};
AH_TABLE(what_if, ah_plan_what_if, "what_if",
         "A resource that the plan assumes larger than the "
         "machine's.",
         NULL);

static const struct ah_field training_fields[] = {
    AH_ROW_COUNT(ah_plan_training, batch, 1, AH_BATCH_MAX, "Sequences of a step."),
    AH_ROW_COUNT(ah_plan_training, micro_batches, 1, AH_BATCH_MAX, "Micro-batches of a step."),
    AH_ROW_COUNT(ah_plan_training, seq, 1, AH_SEQ_MAX, "Tokens of a sequence."),
    AH_ROW_WORD(ah_plan_training, dtype, ah_words_dtype, "Type of weights and activations."),
    AH_ROW_WORD(ah_plan_training, state_dtype, ah_words_dtype, "Type of the optimizer's moments."),
    AH_ROW_NUMBER(ah_plan_training, clip, AH_CLIP_MAX, "Largest norm of the gradient; 0: not clipped."),
    AH_ROW_SUMS(ah_plan_training),
    AH_ROW_TIED(ah_plan_training),
    {.name = "trainable",
     AH_TEXTS_AT(ah_plan_training, trainable),
     .min_items = 1,
     .max_items = 1024,
     .about = "Patterns of trained tensors; ! excludes, the last match counts."},
    {0}};
AH_TABLE(training, ah_plan_training, "training", "What is trained, and in which portions.", NULL);

static const struct ah_field part_fields[] = {
    AH_ROW_COUNT(ah_plan_part, first_block, 0, 10001, "Index in the model of this part's block 0."),
    AH_ROW_COUNT(ah_plan_part, blocks, 1, 10002, "Number of blocks."),
    AH_ROW_COUNT(ah_plan_part, tp, 1, 1024, "Ranks that share each block."),
    AH_ROW_COUNT(ah_plan_part, stage, 0, 10001, "Its place in the pipeline."),
    AH_ROW_COUNT(ah_plan_part, stages, 1, 10002, "Stages of the pipeline."),
    OPTIONAL_COUNT(ah_plan_part, step_micro_batches, AH_BATCH_MAX,
                   "Micro-batches of all pipelines; 0: this is the only pipeline."),
    OPTIONAL_COUNT(
        ah_plan_part, shards, 1024,
        "Ranks that train the whole model, each with a part of all states; 0: states are not shared."),
    {0}};
AH_TABLE(part, ah_plan_part, "part", "The part of the model that a rank of a pipeline holds.", NULL);

static const struct ah_field threads_fields[] = {
    AH_ROW_COUNT(ah_plan_threads, compute, 0, 1048576, "Cores of the compute lane; 0 on a GPU."),
    AH_ROW_COUNT(ah_plan_threads, host, 1, 1048576, "Cores of the host lane."),
    {0}};
AH_TABLE(threads, ah_plan_threads, "threads", "Cores of the host given to lanes.", NULL);

static const struct ah_field knobs_fields[] = {
    AH_ROW_COUNT(ah_plan_knobs, fetch_ahead, 0, OPS_MAX,
                 "Compute positions by which a fetch may begin early."),
    AH_ROW_COUNT(ah_plan_knobs, send_behind, 0, OPS_MAX,
                 "Compute positions for which a gradient may outlast its backward."),
    {.name = "updates_after_backward",
     AH_BOOL_AT(ah_plan_knobs, updates_after_backward),
     .about = "Updates begin only after the last backward."},
    {.name = "step_ends",
     AH_BOOL_AT(ah_plan_knobs, step_ends),
     .about = "An iteration begins only after the previous one is completely done."},
    {0}};
AH_TABLE(knobs, ah_plan_knobs, "knobs", "Choices that hold for all blocks.", NULL);

static const struct ah_field staging_fields[] = {
    AH_ROW_COUNT(ah_plan_staging, tile_elements, AH_PLAN_TILE_UNIT, COUNT_MAX,
                 "Elements of a tile of a flat vector; a multiple of 4096."),
    AH_ROW_COUNT(ah_plan_staging, host_gradient_tiles, 0, 65536,
                 "Slots for arrived gradients; 0: whole vectors."),
    AH_ROW_COUNT(ah_plan_staging, host_weight_tiles, 0, 65536,
                 "Slots for weights that host Adam wrote; 0: whole vectors."),
    AH_ROW_COUNT(ah_plan_staging, device_state_tiles, 0, 65536,
                 "Slots for optimizer states that visit the "
                 "device."),
    {0}};
AH_TABLE(staging, ah_plan_staging, "staging", "Tiles, and rings of them between host and device.", NULL);

#define DEMAND(value, word, does, title, flags_)                                                             \
    {.name = word,                                                                                           \
     AH_NUMBER_AT(ah_plan_resource, demand[value]),                                                          \
     .flags = (flags_),                                                                                      \
     .max = 1e6,                                                                                             \
     .about = "Demand of " does "."},
static const struct ah_field resource_fields[] = {AH_ROW_NAME(ah_plan_resource, name, "Its name."),
                                                  AH_PLAN_LANE_ROWS(DEMAND){0}};
AH_TABLE(resource, ah_plan_resource, "resource",
         "Demand of each lane on a resource, as a share of its "
         "capacity.",
         NULL);

#define WEIGHT(value, word, does, title, flags_)                                                             \
    {.name = word,                                                                                           \
     AH_NUMBER_AT(ah_plan_by_lane, of[value]),                                                               \
     .flags = (flags_),                                                                                      \
     .min = 1e-6,                                                                                            \
     .max = 1e6,                                                                                             \
     .about = "Weight of " does "."},
static const struct ah_field lane_weights_fields[] = {AH_PLAN_LANE_ROWS(WEIGHT){0}};
AH_TABLE(lane_weights, ah_plan_by_lane, "lane_weights",
         "Lanes get speeds in proportion to these at a "
         "contended resource.",
         NULL);

static const struct ah_field sharing_fields[] = {
    AH_ROW_GROUP(ah_plan_sharing, weights, &lane_weights_table, "How contending lanes share a resource."),
    {.name = "resources",
     AH_GROUPS_AT(ah_plan_sharing, resources, &resource_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 16,
     .about = "The resources that lanes share."},
    {0}};
AH_TABLE(sharing, ah_plan_sharing, "sharing", "How lanes slow each other down.", NULL);

static const struct ah_field block_fields[] = {
    AH_ROW_COUNT(ah_plan_block, index, 0, 10001,
                 "Its index: in a whole model, 0 is the embedding and the last one the head."),
    AH_ROW_NAME(ah_plan_block, name, "Its name."),
    AH_ROW_NAME(ah_plan_block, group, "Blocks of one group cost the same."),
    AH_ROW_COUNT(ah_plan_block, parameters, 0, COUNT_MAX, "Parameters that it owns."),
    AH_ROW_WORD(ah_plan_block, activations, ah_words_activations, "What happens to its activations."),
    AH_ROW_WORD(ah_plan_block, weights, ah_words_weights, "Where its weights live."),
    AH_ROW_WORD(ah_plan_block, optimizer, ah_words_optimizer,
                "Where its optimizer states live and are updated."),
    {.name = "accumulator",
     AH_WORD_AT(ah_plan_block, accumulator, ah_words_accumulator),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Where gradients of several micro-batches are summed."},
    {0}};
static const struct ah_rule block_rules[] = {
    {"weights", "host", AH_RULE_IS_NOT, "optimizer", "device",
     "must not be device where the weights are on the host"},
    {"optimizer", "none", AH_RULE_IS, "accumulator", "none", "must be none in a frozen block"},
    {0}};
static const struct ah_field_table block_table = {.name = "block",
                                                  .about = "The config of a block.",
                                                  .bytes = sizeof(struct ah_plan_block),
                                                  .fields = block_fields,
                                                  .rules = block_rules};

static const struct ah_field by_class_fields[] = {
    AH_ROW_BYTES(ah_plan_by_class, weights, "Weights."),
    AH_ROW_BYTES(ah_plan_by_class, gradients, "Gradients and accumulators."),
    AH_ROW_BYTES(ah_plan_by_class, optimizer, "Optimizer states."),
    AH_ROW_BYTES(ah_plan_by_class, activations, "Activations."),
    AH_ROW_BYTES(ah_plan_by_class, staging, "Rings."),
    AH_ROW_BYTES(ah_plan_by_class, workspace, "Scratch of operations."),
    {0}};
AH_TABLE(by_class, ah_plan_by_class, "by_class", "What fills the device arena at its peak.", NULL);

static const struct ah_field memory_fields[] = {
    AH_ROW_BYTES(ah_plan_memory, device_bytes, "Highest byte used in the device arena."),
    AH_ROW_BYTES(ah_plan_memory, device_capacity_bytes, "Limit for arena and reserve together."),
    AH_ROW_BYTES(ah_plan_memory, reserved_bytes, "Memory outside the arena: context and library workspace."),
    AH_ROW_BYTES(ah_plan_memory, host_bytes, "Pinned and pageable together."),
    AH_ROW_BYTES(ah_plan_memory, host_capacity_bytes, "Limit for host_bytes and process_bytes together."),
    {.name = "process_bytes",
     AH_COUNT_AT(ah_plan_memory, process_bytes),
     .flags = AH_FIELD_OPTIONAL,
     .max = AH_FIELD_COUNT_MAX,
     .about = "What the process itself takes: code, libraries, the driver, a save."},
    AH_ROW_BYTES(ah_plan_memory, pinned_bytes, "Locked: tiles in flight, weights on the host."),
    AH_ROW_BYTES(ah_plan_memory, pageable_bytes, "Masters and moments on the host."),
    AH_ROW_GROUP(ah_plan_memory, by_class, &by_class_table, "What fills the device arena."),
    {0}};
AH_TABLE(memory, ah_plan_memory, "memory", "Memory that the plan needs.", ah_plan_check_memory);

#define BUSY(value, word, does, title, flags_) AH_ROW_BUSY(ah_plan_time, value, word, does, flags_)
static const struct ah_field time_fields[] = {
    AH_ROW_NUMBER(ah_plan_time, step_us, US_MAX, "Period: steady-state time of an iteration."),
    AH_PLAN_LANE_ROWS(BUSY)
        AH_ROW_GROUP(ah_plan_time, exposed_us, &ah_plan_exposed_table, "Time that compute waits."),
    {.name = "estimated",
     AH_BOOL_AT(ah_plan_time, estimated),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Some costs were not measured on the machine."},
    {0}};
AH_TABLE(time, ah_plan_time, "time", "What the plan predicts.", NULL);

static const struct ah_field solver_fields[] = {
    AH_ROW_WORD(ah_plan_solver, status, ah_words_plan_status, "What is proven of the plan."),
    AH_ROW_NUMBER(ah_plan_solver, objective_us, US_MAX, "Period of the plan."),
    AH_ROW_NUMBER(ah_plan_solver, bound_us, US_MAX, "No plan can be faster than this; 0: no bound."),
    AH_ROW_NUMBER(ah_plan_solver, gap, 1, "(objective - bound) / objective."),
    AH_ROW_COUNT(ah_plan_solver, evaluations, 0, COUNT_MAX, "Candidates that were laid out and scored."),
    {0}};
AH_TABLE(solver, ah_plan_solver, "solver", "How good the plan is.", ah_plan_check_solver);

static const struct ah_field alternative_fields[] = {
    AH_ROW_WORD(ah_plan_alternative, policy, ah_words_policy, "Its policy."),
    {.name = "feasible", AH_BOOL_AT(ah_plan_alternative, feasible), .about = "Does it fit?"},
    {.name = "step_us",
     AH_NUMBER_AT(ah_plan_alternative, step_us),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT | AH_FIELD_ABOVE,
     .max = US_MAX,
     .about = "Its period."},
    {0}};
static const struct ah_rule alternative_rules[] = {
    {"feasible", "true", AH_RULE_REQUIRES, "step_us", NULL, "is missing; a feasible policy needs it"},
    {"feasible", "false", AH_RULE_FORBIDS, "step_us", NULL, "does not go with an infeasible policy"},
    {0}};
static const struct ah_field_table alternative_table = {.name = "alternative",
                                                        .about = "Another policy at its best setting.",
                                                        .bytes = sizeof(struct ah_plan_alternative),
                                                        .fields = alternative_fields,
                                                        .rules = alternative_rules};

static const struct ah_field op_fields[] = {
    AH_ROW_WORD(ah_plan_op, op, ah_words_plan_op, "What is done."),
    AH_ROW_WORD(ah_plan_op, lane, ah_words_plan_lane, "Which lane does it."),
    AH_ROW_COUNT(ah_plan_op, block, 0, 10001, "Its block."),
    OPTIONAL_COUNT(ah_plan_op, micro_batch, 16777216, "Its micro-batch."),
    POSITION(ah_plan_op, position, "Compute position of an op of the compute lane, of its first tile."),
    POSITION(ah_plan_op, issue_after, "It starts after this compute position is done."),
    POSITION(ah_plan_op, due_before, "Compute position that waits for it."),
    {.name = "tiles",
     AH_COUNT_AT(ah_plan_op, tiles),
     .flags = AH_FIELD_OPTIONAL,
     .min = 1,
     .max = 65536,
     .fallback = 1,
     .about = "Equal parts in which it is done."},
    OPTIONAL_COUNT(ah_plan_op, bytes, COUNT_MAX, "Bytes over the link, all tiles."),
    AH_ROW_NUMBER(ah_plan_op, us, US_MAX, "Predicted time, all tiles."),
    {0}};
#define OTHER_LANE(value, word, does, title, flags_)                                                         \
    {"lane", word, AH_RULE_FORBIDS, "position", NULL, "belongs only to ops of the compute lane"},            \
        {"lane", word, AH_RULE_REQUIRES, "issue_after", NULL, "is missing; ops of this lane need it"},       \
        {"lane", word, AH_RULE_REQUIRES, "due_before", NULL, "is missing; ops of this lane need it"},
static const struct ah_rule op_rules[] = {
    {"lane", "compute", AH_RULE_REQUIRES, "position", NULL, "is missing; ops of the compute lane need it"},
    {"lane", "compute", AH_RULE_FORBIDS, "issue_after", NULL, "does not belong to ops of the compute lane"},
    {"lane", "compute", AH_RULE_FORBIDS, "due_before", NULL, "does not belong to ops of the compute lane"},
    AH_PLAN_OTHER_LANE_ROWS(OTHER_LANE){0}};
static const struct ah_field_table op_table = {.name = "op",
                                               .about = "Something that a lane does in every iteration.",
                                               .bytes = sizeof(struct ah_plan_op),
                                               .fields = op_fields,
                                               .rules = op_rules};

#define ORDER(value, word, does, title, flags_)                                                              \
    {.name = word,                                                                                           \
     AH_COUNTS_AT(ah_plan_lanes, order[value]),                                                              \
     .flags = AH_FIELD_OPTIONAL,                                                                             \
     .max = OPS_MAX - 1,                                                                                     \
     .max_items = OPS_MAX,                                                                                   \
     .about = "Indices into ops in order, one for each tile."},
static const struct ah_field lanes_fields[] = {AH_PLAN_LANE_ROWS(ORDER){0}};
AH_TABLE(lanes, ah_plan_lanes, "lanes", "The frozen order of each lane.", NULL);

static const struct ah_field tensor_fields[] = {
    AH_ROW_WORD(ah_plan_tensor, label, ah_words_tensor, "What it holds."),
    {.name = "block",
     AH_COUNT_AT(ah_plan_tensor, block),
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_NO_DEFAULT,
     .max = 10001,
     .fallback = (double)AH_PLAN_NOWHERE,
     .about = "The block it belongs to."},
    OPTIONAL_COUNT(ah_plan_tensor, micro_batch, 16777216, "The first micro-batch it belongs to."),
    AH_ROW_BYTES(ah_plan_tensor, offset_bytes, "Where it begins in the arena."),
    AH_ROW_COUNT(ah_plan_tensor, bytes, 1, COUNT_MAX, "Its size."),
    AH_ROW_COUNT(ah_plan_tensor, from, 0, COUNT_MAX, "First compute position at which it is live."),
    AH_ROW_COUNT(ah_plan_tensor, to, 0, COUNT_MAX,
                 "Last compute position at which it is live; if below 'from', in the next iteration."),
    {0}};
#define OF_A_BLOCK(value, word)                                                                              \
    {"label", word, AH_RULE_REQUIRES, "block", NULL, "is missing; such a tensor belongs to a block"},
#define OF_NO_BLOCK(value, word)                                                                             \
    {"label", word, AH_RULE_FORBIDS, "block", NULL, "does not go with a tensor of all blocks"},
static const struct ah_rule tensor_rules[] = {AH_BLOCK_TENSOR_WORDS(OF_A_BLOCK)
                                                  AH_SHARED_TENSOR_WORDS(OF_NO_BLOCK){0}};
static const struct ah_field_table tensor_table = {.name = "tensor",
                                                   .about = "A tensor in the device arena.",
                                                   .bytes = sizeof(struct ah_plan_tensor),
                                                   .fields = tensor_fields,
                                                   .rules = tensor_rules};

static const struct ah_field arena_fields[] = {
    AH_ROW_COUNT(ah_plan_arena, positions, 1, OPS_MAX, "Compute positions of an iteration."),
    {.name = "tensors",
     AH_GROUPS_AT(ah_plan_arena, tensors, &tensor_table),
     .min_items = 1,
     .max_items = OPS_MAX,
     .about = "Every tensor of the device arena."},
    {0}};
AH_TABLE(arena, ah_plan_arena, "arena", "The layout of the device arena.", NULL);

static const struct ah_field plan_fields[] = {
    AH_FIELD_HEAD_OF(ah_plan, kind_words, ah_field_plan_version),
    AH_ROW_GROUP(ah_plan, inputs, &inputs_table, "What the plan was made from."),
    {.name = "what_if",
     AH_GROUPS_AT(ah_plan, what_if, &what_if_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = AH_WHAT_IFS,
     .about = "For a plan that assumes more than the machine in inputs has; such a plan does not run."},
    AH_ROW_GROUP(ah_plan, model, &ah_model_table, "The whole model."),
    AH_ROW_GROUP(ah_plan, training, &training_table, "What is trained."),
    {.name = "part",
     AH_GROUP_AT(ah_plan, part, &part_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "For a rank: the part of the model that it holds."},
    AH_ROW_GROUP(ah_plan, numeric_signature, &ah_signature_table,
                 "The settings in the plan that decide the run's bits."),
    {.name = "algorithms",
     AH_GROUP_AT(ah_plan, algorithms, &ah_algorithms_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Algorithms of the model's matrix products, from the machine."},
    AH_ROW_WORD(ah_plan, policy, ah_words_policy, "How the configs were chosen."),
    AH_ROW_WORD(ah_plan, scheduling, ah_words_scheduling, "How lanes order their ops."),
    AH_ROW_WORD(ah_plan, micro_batch_order, ah_words_micro_order, "Which loop is the outer one."),
    {.name = "threads",
     AH_GROUP_AT(ah_plan, threads, &threads_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Cores of the lanes."},
    AH_ROW_WITHOUT(ah_plan),
    {.name = "policy_numbers",
     AH_COUNTS_AT(ah_plan, policy_numbers),
     .flags = AH_FIELD_OPTIONAL,
     .max = COUNT_MAX,
     .max_items = AH_PLAN_POLICY_NUMBERS,
     .about = "The numbers of the policy's setting."},
    AH_ROW_GROUP(ah_plan, knobs, &knobs_table, "Choices that hold for all blocks."),
    AH_ROW_GROUP(ah_plan, staging, &staging_table, "Rings of tiles."),
    AH_ROW_GROUP(ah_plan, sharing, &sharing_table, "The resources that lanes share."),
    {.name = "blocks",
     AH_GROUPS_AT(ah_plan, blocks, &block_table),
     .min_items = 1,
     .max_items = 10002,
     .about = "The config of every block."},
    AH_ROW_GROUP(ah_plan, memory, &memory_table, "Memory that it needs."),
    AH_ROW_GROUP(ah_plan, time, &time_table, "What it predicts."),
    AH_ROW_GROUP(ah_plan, solver, &solver_table, "How good it is."),
    AH_ROW_NUMBER(ah_plan, tokens_per_s, 1e15, "Predicted rate."),
    {.name = "alternatives",
     AH_GROUPS_AT(ah_plan, alternatives, &alternative_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 64,
     .about = "Other policies."},
    {.name = "ops",
     AH_GROUPS_AT(ah_plan, ops, &op_table),
     .min_items = 1,
     .max_items = OPS_MAX,
     .about = "Everything that is done in an iteration."},
    AH_ROW_GROUP(ah_plan, lanes, &lanes_table, "The order of each lane."),
    AH_ROW_GROUP(ah_plan, arena, &arena_table, "The layout of the device arena."),
    AH_FIELD_ANNOTATIONS(ah_plan),
    {0}};
const struct ah_field_table ah_plan_table = {
    .name = "plan",
    .about = "Everything that one rank does in a training step, decided in advance.",
    .bytes = sizeof(struct ah_plan),
    .fields = plan_fields,
    .check = ah_plan_check};

const struct ah_kind ah_kind_plan = {.table = &ah_plan_table,
                                     .alternatives =
                                         (const struct ah_field_table *const[]){&ah_plan_table, NULL},
                                     .upgrade = ah_plan_upgrade};
