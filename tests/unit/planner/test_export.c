/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the settings written for each target from plans with known blocks, and the blocks named by each loss. Expected
 * settings are written by hand from the targets' documentation (docs/export.md).
 */
#include "planner/export/export.h"

#include "tests/support/documents.h"

#include <stdio.h>
#include <string.h>

#define PATH "tests/cli/documents/plan.json"

enum { LAYERS = 6, BLOCKS = LAYERS + 2, FIELDS_MAX = 8 };

/* A plan with one letter per block in each string. Activations: k(eep), s(elective) or r(ecompute). Weights: d(evice)
 * or h(ost). Optimizer: d(evice), h(ost), s(treamed) or n(one). Every block has 100 parameters. */
struct shape {
    const char *activations;
    const char *weights;
    const char *optimizer;
    bool fp32, bf16_states, unclipped, block_major, copies;
    const char *trainable;
};

struct expectation {
    const char *what;
    struct shape shape;
    enum ah_export_target target;
    const char *settings;           /* settings as compact JSON, without the batch */
    const char *losses[FIELDS_MAX]; /* "effect: field blocks", in order, until NULL */
};

#define KEEP                "kkkkkkkk"
#define DEVICE              "dddddddd"
#define HOST                "hhhhhhhh"
#define BLOCKS_ARE(a, w, o) .activations = (a), .weights = (w), .optimizer = (o)
#define DS_BATCH                                                                                             \
    "\"train_batch_size\":8,\"train_micro_batch_size_per_gpu\":4,\"gradient_accumulation_steps\":2,"
#define DS             "{" DS_BATCH "\"bf16\":{\"enabled\":true},\"gradient_clipping\":1,\"zero_optimization\":{"
#define OVERLAP        "\"overlap_comm\":true,\"contiguous_gradients\":true,"
#define MEGATRON_BATCH "{\"num-layers\":6,\"seq-length\":512,\"micro-batch-size\":4,\"global-batch-size\":8,"
#define MEGATRON       MEGATRON_BATCH "\"bf16\":true,\"clip-grad\":1"
#define TITAN_BATCH    "{\"training\":{\"local_batch_size\":4,\"global_batch_size\":8,\"seq_len\":512,"
#define TITAN          TITAN_BATCH "\"max_norm\":1,\"mixed_precision_param\":\"bfloat16\",\"enable_cpu_offload\":"

static const struct expectation expectations[] = {
    {"everything on the device says all",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE)},
     AH_EXPORT_DEEPSPEED,
     DS "\"stage\":0}}",
     {0}},
    {"everything on the device says all",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE)},
     AH_EXPORT_MEGATRON,
     MEGATRON "}",
     {0}},
    {"everything on the device says all",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"none\"}}",
     {0}},
    {"fp32 and no clipping",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE), .fp32 = true, .unclipped = true},
     AH_EXPORT_DEEPSPEED,
     "{" DS_BATCH "\"bf16\":{\"enabled\":false},\"gradient_clipping\":0,\"zero_optimization\":{\"stage\":0}}",
     {0}},
    {"fp32 and no clipping",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE), .fp32 = true, .unclipped = true},
     AH_EXPORT_MEGATRON,
     MEGATRON_BATCH "\"clip-grad\":0}",
     {0}},
    {"fp32 and no clipping",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE), .fp32 = true, .unclipped = true},
     AH_EXPORT_TORCHTITAN,
     TITAN_BATCH "\"max_norm\":\"inf\",\"mixed_precision_param\":\"float32\",\"enable_cpu_offload\":false},"
                 "\"activation_checkpoint\":{\"mode\":\"none\"}}",
     {0}},
    {"all optimizers on the host are stage 2",
     {BLOCKS_ARE(KEEP, DEVICE, HOST), .copies = true},
     AH_EXPORT_DEEPSPEED,
     DS "\"stage\":2," OVERLAP "\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true}}}",
     {"speed: lanes", "limit: memory"}},
    {"a share of optimizers is stage 3, and of the first blocks",
     {BLOCKS_ARE(KEEP, DEVICE, "hhdddddd"), .copies = true},
     AH_EXPORT_DEEPSPEED,
     DS
     "\"stage\":3," OVERLAP
     "\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true,\"ratio\":0.25},\"sub_group_size\":100}}",
     {"speed: lanes", "limit: memory"}},
    {"the last blocks' optimizers become the first ones'",
     {BLOCKS_ARE(KEEP, DEVICE, "dddddhhh"), .copies = true},
     AH_EXPORT_DEEPSPEED,
     DS "\"stage\":3," OVERLAP "\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true,\"ratio\":0."
        "375},\"sub_group_size\":100}}",
     {"speed: blocks.optimizer layer.4-5, head", "speed: lanes", "limit: memory"}},
    {"a share is of what is trained; visiting states are named",
     {BLOCKS_ARE(KEEP, DEVICE, "nhhsdddd"), .copies = true, .trainable = "layer.*"},
     AH_EXPORT_MEGATRON,
     MEGATRON ",\"use-distributed-optimizer\":true,\"use-precision-aware-optimizer\":true,"
              "\"optimizer-cpu-offload\":true,\"optimizer-offload-fraction\":0.428572,"
              "\"overlap-cpu-optimizer-d2h-h2d\":true}",
     {"memory: training.trainable", "speed: blocks.optimizer layer.2", "speed: lanes", "limit: memory"}},
    {"weights on the host are stage 3",
     {BLOCKS_ARE(KEEP, "dhhddddd", HOST), .copies = true},
     AH_EXPORT_DEEPSPEED,
     DS "\"stage\":3," OVERLAP "\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true},"
        "\"offload_param\":{\"device\":\"cpu\",\"pin_memory\":true},\"stage3_max_live_parameters\":800,"
        "\"stage3_max_reuse_distance\":600,\"stage3_prefetch_bucket_size\":100}}",
     {"speed: blocks.weights embedding, layer.2-5, head", "speed: lanes", "limit: memory"}},
    {"Megatron cannot fetch weights",
     {BLOCKS_ARE("krrkkkkk", "dhhddddd", HOST), .copies = true},
     AH_EXPORT_MEGATRON,
     MEGATRON ",\"recompute-granularity\":\"full\",\"recompute-method\":\"block\",\"recompute-num-layers\":2,"
              "\"use-distributed-optimizer\":true,\"use-precision-aware-optimizer\":true,"
              "\"optimizer-cpu-offload\":true,\"optimizer-offload-fraction\":1,"
              "\"overlap-cpu-optimizer-d2h-h2d\":true}",
     {"memory: blocks.weights layer.0-1", "speed: lanes", "limit: memory"}},
    {"Megatron recomputes the first layers",
     {BLOCKS_ARE("kkrkrkkk", DEVICE, DEVICE)},
     AH_EXPORT_MEGATRON,
     MEGATRON
     ",\"recompute-granularity\":\"full\",\"recompute-method\":\"block\",\"recompute-num-layers\":2}",
     {"speed: blocks.activations layer.1, layer.3", "limit: memory"}},
    {"Megatron recomputes selective layers whole",
     {BLOCKS_ARE("krskkkkk", DEVICE, DEVICE)},
     AH_EXPORT_MEGATRON,
     MEGATRON
     ",\"recompute-granularity\":\"full\",\"recompute-method\":\"block\",\"recompute-num-layers\":2}",
     {"speed: blocks.activations layer.1", "limit: memory"}},
    {"DeepSpeed leaves activations to the model",
     {BLOCKS_ARE("krrsskkk", DEVICE, DEVICE)},
     AH_EXPORT_DEEPSPEED,
     DS "\"stage\":0}}",
     {"memory: blocks.activations layer.0-1", "memory: blocks.activations layer.2-3", "limit: memory"}},
    {"torchtitan: every third layer, exactly",
     {BLOCKS_ARE("kkkrkkrk", DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"selective\",\"selective_ac_option\":\"3\"}}",
     {"limit: memory"}},
    {"torchtitan: as many layers, but others",
     {BLOCKS_ARE("krrkkkkk", DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"selective\",\"selective_ac_option\":\"3\"}}",
     {"speed: blocks.activations layer.0-1", "limit: memory"}},
    {"torchtitan: more than half is all",
     {BLOCKS_ARE("krrrrkkk", DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"full\"}}",
     {"speed: blocks.activations layer.0-3", "limit: memory"}},
    {"torchtitan: all is all",
     {BLOCKS_ARE("krrrrrrk", DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"full\"}}",
     {"limit: memory"}},
    {"torchtitan: selective by operation",
     {BLOCKS_ARE("kssssssk", DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"selective\",\"selective_ac_option\":\"op\"}}",
     {"speed: blocks.activations layer.0-5", "limit: memory"}},
    {"torchtitan: a mixture recomputes all",
     {BLOCKS_ARE("krsskkkk", DEVICE, DEVICE)},
     AH_EXPORT_TORCHTITAN,
     TITAN "false},\"activation_checkpoint\":{\"mode\":\"full\"}}",
     {"speed: blocks.activations layer.1-2", "speed: blocks.activations layer.0", "limit: memory"}},
    {"torchtitan offloads all or nothing",
     {BLOCKS_ARE(KEEP, DEVICE, "hhdddddd"), .copies = true, .bf16_states = true, .block_major = true},
     AH_EXPORT_TORCHTITAN,
     TITAN "true},\"activation_checkpoint\":{\"mode\":\"none\"}}",
     {"memory: blocks.weights embedding, layer.0", "memory: training.state_dtype",
      "speed: blocks.weights embedding, layer.0-5, head", "speed: micro_batch_order", "speed: lanes",
      "limit: memory"}},
    {"bf16 states have arguments of Megatron, and none of DeepSpeed",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE), .bf16_states = true},
     AH_EXPORT_MEGATRON,
     MEGATRON ",\"use-distributed-optimizer\":true,\"use-precision-aware-optimizer\":true,"
              "\"exp-avg-dtype\":\"bf16\",\"exp-avg-sq-dtype\":\"bf16\"}",
     {"result: training.state_dtype"}},
    {"bf16 states have arguments of Megatron, and none of DeepSpeed",
     {BLOCKS_ARE(KEEP, DEVICE, DEVICE), .bf16_states = true},
     AH_EXPORT_DEEPSPEED,
     DS "\"stage\":0}}",
     {"memory: training.state_dtype"}},
};

static unsigned letter(const char *letters, char c)
{
    return (unsigned)(strchr(letters, c) - letters);
}

static void shape_plan(struct ah_plan *plan, struct ah_plan_block blocks[BLOCKS], const struct shape *shape,
                       const char **trainable)
{
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = (struct ah_plan_block){
            .index = i,
            .parameters = 100,
            .activations = letter("ksr", shape->activations[i]),
            .weights = letter("dh", shape->weights[i]),
            .optimizer = letter("dhsn", shape->optimizer[i]),
        };
    *trainable = shape->trainable ? shape->trainable : "*";
    plan->blocks = blocks;
    plan->n_blocks = BLOCKS;
    plan->training.trainable = trainable;
    plan->training.n_trainable = 1;
    plan->training.dtype = shape->fp32 ? AH_FP32 : AH_BF16;
    plan->training.state_dtype = shape->bf16_states ? AH_BF16 : AH_FP32;
    plan->training.clip = shape->unclipped ? 0 : 1;
    plan->micro_batch_order = shape->block_major ? AH_BLOCK_MAJOR : AH_MICRO_BATCH_MAJOR;
    plan->lanes.n_order[AH_PLAN_LANE_H2D] = plan->lanes.n_order[AH_PLAN_LANE_D2H] =
        plan->lanes.n_order[AH_PLAN_LANE_HOST] = shape->copies;
}

static void check_losses(const struct ah_export *export, const struct expectation *expected)
{
    size_t n = 0;
    for (; n < export->n_losses && expected->losses[n]; n++) {
        char told[200];
        const struct ah_export_loss *loss = &export->losses[n];
        snprintf(told, sizeof told, "%s: %s%s%s", ah_words_export_effect[loss->effect], loss->field,
                 loss->blocks ? " " : "", loss->blocks ? loss->blocks : "");
        if (strcmp(told, expected->losses[n]) != 0)
            fail_msg("%s: loss %zu is '%s', not '%s'", expected->what, n, told, expected->losses[n]);
    }
    if (n != export->n_losses || expected->losses[n])
        fail_msg("%s: %zu losses; '%s' is next", expected->what, export->n_losses,
                 n < export->n_losses ? export->losses[n].field : expected->losses[n]);
}

static void check_one(const struct expectation *expected, struct ah_plan plan)
{
    struct ah_plan_block blocks[BLOCKS];
    const char *trainable = NULL;
    struct ah_arena arena = {0};
    struct ah_buffer settings = {0};
    struct ah_export export;
    struct ah_error err = {0};
    shape_plan(&plan, blocks, &expected->shape, &trainable);
    CHECK_OK(ah_export_plan(&plan, "", expected->target, &arena, &export, &err), err);
    ah_export_print_settings(&export, &settings);
    if (strcmp(settings.data, expected->settings) != 0)
        fail_msg("%s: %s\nexpected %s", expected->what, settings.data, expected->settings);
    check_losses(&export, expected);
    assert_true(export.n_notes > 0);
    ah_buffer_release(&settings);
    ah_arena_release(&arena);
}

TEST(export, says_what_the_target_can_do_and_names_the_rest)
{
    struct ah_document document;
    load_document(&document, PATH, AH_DOCUMENT_PLAN);
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++)
        check_one(&expectations[i], *document.body.plan);
    ah_document_release(&document);
}

TEST(export, a_comment_stays_on_its_line)
{
    struct ah_document document;
    struct ah_arena arena = {0};
    struct ah_buffer out = {0};
    struct ah_export export;
    struct ah_error err = {0};
    load_document(&document, PATH, AH_DOCUMENT_PLAN);
    document.body.plan->inputs.model.name = "x\nrm -rf /";
    CHECK_OK(ah_export_plan(document.body.plan, "0a1b", AH_EXPORT_MEGATRON, &arena, &export, &err), err);
    ah_export_print(&export, &out);
    check_text_has(out.data, "'x?rm -rf /'");
    check_text_has(
        out.data,
        "\n# written for Megatron-LM core 0.14.0 from the plan with digest 0a1b\n# lost (may not fit): ");
    ah_buffer_release(&out);
    ah_arena_release(&arena);
    ah_document_release(&document);
}
