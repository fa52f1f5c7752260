/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"
#include "planner/export/export_internal.h"
#include "runtime/schedule/names.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const ah_words_export_target[] = {
#define TARGET_WORD(value, name) #name,
    AH_EXPORT_TARGETS(TARGET_WORD)
#undef TARGET_WORD
        NULL};

const char *const ah_words_export_effect[] = {
#define EFFECT_WORD(value, word, text) #word,
    AH_EXPORT_EFFECTS(EFFECT_WORD)
#undef EFFECT_WORD
        NULL};

typedef void target_writer(struct ah_export_draft *draft);

/* For each target: its name in sentences, the version that the settings' names belong to, and its writer. */
static const struct {
    const char *name;
    const char *version;
    target_writer *write;
} targets[] = {
    [AH_EXPORT_DEEPSPEED] = {"DeepSpeed", "DeepSpeed 0.17.6", ah_export_deepspeed},
    [AH_EXPORT_MEGATRON] = {"Megatron", "Megatron-LM core 0.14.0", ah_export_megatron},
    [AH_EXPORT_TORCHTITAN] = {"torchtitan", "torchtitan 0.2.2", ah_export_torchtitan},
};

bool ah_export_weights_host(const struct ah_plan_block *block)
{
    return block->weights == AH_WEIGHTS_HOST;
}

bool ah_export_weights_device(const struct ah_plan_block *block)
{
    return block->weights == AH_WEIGHTS_DEVICE;
}

bool ah_export_optimizer_host(const struct ah_plan_block *block)
{
    return block->optimizer == AH_OPTIMIZER_HOST || block->optimizer == AH_OPTIMIZER_STREAMED;
}

bool ah_export_optimizer_device(const struct ah_plan_block *block)
{
    return block->optimizer == AH_OPTIMIZER_DEVICE;
}

bool ah_export_recomputes(const struct ah_plan_block *block)
{
    return block->activations == AH_ACTIVATIONS_RECOMPUTE;
}

bool ah_export_selective(const struct ah_plan_block *block)
{
    return block->activations == AH_ACTIVATIONS_SELECTIVE;
}

bool ah_export_saves_less(const struct ah_plan_block *block)
{
    return block->activations != AH_ACTIVATIONS_KEEP;
}

static bool streamed(const struct ah_plan_block *block)
{
    return block->optimizer == AH_OPTIMIZER_STREAMED;
}

static void add_setting(struct ah_export_draft *draft, struct ah_export_setting setting)
{
    struct ah_export *export = draft->export;
    if (export->n_settings == AH_EXPORT_SETTINGS_MAX)
        draft->failed = true;
    else
        export->settings[export->n_settings++] = setting;
}

void ah_export_add_bool(struct ah_export_draft *draft, const char *path, bool value)
{
    add_setting(draft, (struct ah_export_setting){.path = path, .kind = AH_EXPORT_BOOL, .integer = value});
}

void ah_export_add_integer(struct ah_export_draft *draft, const char *path, uint64_t value)
{
    add_setting(draft, (struct ah_export_setting){.path = path, .kind = AH_EXPORT_INTEGER, .integer = value});
}

void ah_export_add_number(struct ah_export_draft *draft, const char *path, double value)
{
    add_setting(draft, (struct ah_export_setting){.path = path, .kind = AH_EXPORT_NUMBER, .number = value});
}

void ah_export_add_text(struct ah_export_draft *draft, const char *path, const char *text)
{
    add_setting(draft, (struct ah_export_setting){.path = path, .kind = AH_EXPORT_TEXT, .text = text});
}

void ah_export_add_flag(struct ah_export_draft *draft, const char *path)
{
    add_setting(draft, (struct ah_export_setting){.path = path, .kind = AH_EXPORT_FLAG});
}

void ah_export_add_note(struct ah_export_draft *draft, const char *note)
{
    struct ah_export *export = draft->export;
    if (export->n_notes == AH_EXPORT_NOTES_MAX)
        draft->failed = true;
    else
        export->notes[export->n_notes++] = note;
}

/* Copies the text of `out` to the arena. Returns NULL and sets `failed` when out of memory. */
static const char *keep_text(struct ah_export_draft *draft, struct ah_buffer *out)
{
    const char *text = out->failed ? NULL : ah_arena_strdup(draft->arena, out->data ? out->data : "");
    ah_buffer_release(out);
    draft->failed = draft->failed || !text;
    return text;
}

/* Returns the names of the blocks that pass the test: "layer.0-1, layer.4". */
static const char *name_blocks(struct ah_export_draft *draft, ah_export_block_test *test)
{
    const struct ah_plan *plan = draft->plan;
    struct ah_buffer out = {0};
    for (size_t i = 0, end; i < plan->n_blocks; i = end + 1) {
        for (end = i; end < plan->n_blocks && test(&plan->blocks[end]);)
            end++;
        if (end == i)
            continue;
        ah_buffer_puts(&out, out.size ? ", " : "");
        ah_name_range(ah_names_of_plan(plan), i, end, &out);
    }
    return keep_text(draft, &out);
}

/* Inserts a loss after all losses of the same or a more important effect. */
void ah_export_lose(struct ah_export_draft *draft, enum ah_export_effect effect, const char *field,
                    ah_export_block_test *test, const char *plan, const char *instead)
{
    struct ah_export *export = draft->export;
    const char *blocks = test ? name_blocks(draft, test) : NULL;
    size_t at = export->n_losses;
    if (test && (!blocks || !*blocks))
        return;
    if (at == AH_EXPORT_LOSSES_MAX) {
        draft->failed = true;
        return;
    }
    for (; at && export->losses[at - 1].effect > effect; at--)
        export->losses[at] = export->losses[at - 1];
    export->losses[at] = (struct ah_export_loss){effect, field, blocks, plan, instead};
    export->n_losses++;
}

/* Adds a loss, with the target's name put before `instead`. */
static void lose(struct ah_export_draft *draft, enum ah_export_effect effect, const char *field,
                 ah_export_block_test *test, const char *plan, const char *instead)
{
    struct ah_buffer out = {0};
    ah_buffer_printf(&out, "%s %s", targets[draft->export->target].name, instead);
    const char *text = keep_text(draft, &out);
    if (text)
        ah_export_lose(draft, effect, field, test, plan, text);
}

double ah_export_host_share(const struct ah_export_sums *sums)
{
    if (sums->host_parameters == sums->trained_parameters)
        return 1;
    double share = (double)sums->host_parameters / (double)sums->trained_parameters;
    return fmin(ceil(share * 1e6) / 1e6, 1);
}

static void lose_frozen(struct ah_export_draft *draft)
{
    const struct ah_plan_training *training = &draft->plan->training;
    if (training->n_trainable == 1 && !strcmp(training->trainable[0], "*"))
        return;
    struct ah_buffer out = {0};
    ah_buffer_puts(&out, "trains only the tensors that match");
    for (size_t i = 0; i < training->n_trainable; i++)
        ah_buffer_printf(&out, "%s '%s'", i ? "," : "", training->trainable[i]);
    const char *text = keep_text(draft, &out);
    if (text)
        lose(draft, AH_EXPORT_MEMORY, "training.trainable", NULL, text,
             "trains every tensor, with gradients and states, unless the model's code sets requires_grad to "
             "False for some");
}

static void lose_memory(struct ah_export_draft *draft)
{
    const struct ah_plan_memory *memory = &draft->plan->memory;
    char device[AH_UNITS_TEXT_MAX];
    char host[AH_UNITS_TEXT_MAX];
    struct ah_buffer out = {0};
    ah_units_print_bytes(device, memory->device_bytes + memory->reserved_bytes);
    ah_units_print_bytes(host, memory->host_bytes);
    ah_buffer_printf(&out, "uses at most %s of the device and %s of the host", device, host);
    const char *text = keep_text(draft, &out);
    if (text)
        lose(draft, AH_EXPORT_LIMIT, "memory", NULL, text, "allocates as it goes, without a limit");
}

/* Adds a loss if the plan sums gradients in groups; no target does that. */
static void lose_sums(struct ah_export_draft *draft)
{
    const struct ah_plan_training *training = &draft->plan->training;
    struct ah_buffer out = {0};
    if (!training->n_sums)
        return;
    ah_buffer_puts(&out, "adds up gradients in groups of ");
    for (size_t i = 0; i < training->n_sums; i++)
        ah_buffer_printf(&out, "%s%" PRIu64, i ? ", " : "", training->sums[i]);
    ah_buffer_puts(&out, " micro-batches");
    const char *text = keep_text(draft, &out);
    if (text)
        lose(draft, AH_EXPORT_RESULT, "training.sums", NULL, text,
             "adds up all micro-batches one after another");
}

void ah_export_lose_common(struct ah_export_draft *draft)
{
    const struct ah_plan *plan = draft->plan;
    lose(draft, AH_EXPORT_SPEED, "blocks.optimizer", streamed, "states visit the device for their update",
         "updates these on the host");
    lose_frozen(draft);
    lose_sums(draft);
    if (plan->micro_batch_order == AH_BLOCK_MAJOR && plan->training.micro_batches > 1)
        lose(draft, AH_EXPORT_SPEED, "micro_batch_order", NULL,
             "each block does all micro-batches before the next block",
             "does one micro-batch after the other");
    if (plan->lanes.n_order[AH_PLAN_LANE_H2D] || plan->lanes.n_order[AH_PLAN_LANE_D2H] ||
        plan->lanes.n_order[AH_PLAN_LANE_HOST])
        lose(draft, AH_EXPORT_SPEED, "lanes", NULL,
             "freezes the order of copies and host updates, across iterations",
             "uses its own order, and ends every step before the next");
    if (plan->lanes.n_order[AH_PLAN_LANE_H2D] || plan->lanes.n_order[AH_PLAN_LANE_D2H] ||
        plan->lanes.n_order[AH_PLAN_LANE_HOST] || draft->sums.layers_recompute ||
        draft->sums.layers_selective)
        lose_memory(draft);
}

/* Adds one block to the sums. `layer`: the block is a transformer layer. */
static void sum_block(struct ah_export_sums *sums, const struct ah_plan_block *block, bool layer)
{
    bool host = ah_export_optimizer_host(block);
    if (layer) {
        sums->layers++;
        sums->saving_first =
            sums->saving_first && (!ah_export_saves_less(block) ||
                                   sums->layers_recompute + sums->layers_selective == sums->layers - 1);
        sums->layers_recompute += ah_export_recomputes(block);
        sums->layers_selective += ah_export_selective(block);
    }
    if (host && sums->host_parameters != sums->trained_parameters)
        sums->host_first = false;
    if (block->optimizer != AH_OPTIMIZER_NONE)
        sums->trained_parameters += block->parameters;
    if (host)
        sums->host_parameters += block->parameters;
    if (ah_export_weights_device(block))
        sums->device_weights += block->parameters;
    else if (block->parameters > sums->largest_host_weight)
        sums->largest_host_weight = block->parameters;
    if (block->parameters > sums->largest_block)
        sums->largest_block = block->parameters;
}

static struct ah_export_sums sum_plan(const struct ah_plan *plan)
{
    struct ah_export_sums sums = {.saving_first = true, .host_first = true};
    for (size_t i = 0; i < plan->n_blocks; i++)
        sum_block(&sums, &plan->blocks[i], i > 0 && i + 1 < plan->n_blocks);
    return sums;
}

int ah_export_plan(const struct ah_plan *plan, const char *plan_sha256, enum ah_export_target target,
                   struct ah_arena *arena, struct ah_export *ret_export, struct ah_error *err)
{
    *ret_export = (struct ah_export){
        .target = target, .plan = plan, .plan_sha256 = plan_sha256, .version = targets[target].version};
    struct ah_export_draft draft = {
        .plan = plan, .sums = sum_plan(plan), .export = ret_export, .arena = arena};
    targets[target].write(&draft);
    ah_export_lose_common(&draft);
    ah_export_add_note(&draft,
                       "learning rate, schedule, betas, weight decay, data and seed are not part of a plan");
    return draft.failed ? ah_error_memory(err) : AH_OK;
}
