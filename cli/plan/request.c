/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns options into a request. Checks only ranges and names the option; the planner makes checks that need the model.
 */
#include "cli/plan/request.h"

#include "base/units.h"
#include "cli/frame/cache.h"
#include "cli/frame/interrupt.h"
#include "cli/plan/lora.h"
#include "runtime/model/adapter.h"
#include "runtime/model/freeze.h"
#include "runtime/schedule/trainable.h"
#include "schemas/nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_DEFAULT = 8, SEQ_DEFAULT = 1024, GPUS_MOST = 1024 };

#define FABRIC_LEAST 1e3
#define FABRIC_MOST  1e18

static const double clip_default = 1;

const char *const ah_request_words_auto[] = {"auto", NULL};
const char *const ah_request_words_none[] = {"none", NULL};
const char *const ah_request_words_quick[] = {"quick", NULL};

unsigned ah_request_index(const char *const *words, const char *word)
{
    unsigned i = 0;
    while (words[i] && strcmp(words[i], word) != 0)
        i++;
    return i;
}

/* ---- documents ---- */

static int load_documents(struct ah_request *request, struct ah_cli *cli, const char *machine,
                          struct ah_error *err)
{
    const char *model = cli->arguments.operands[0];
    if (machine && !strcmp(model, "-") && !strcmp(machine, "-"))
        return ah_error_set(err, AH_E_USAGE,
                            "standard input ('-') can be the model or the machine, not both");
    int rc = ah_input_load(&request->model, model, AH_DOCUMENT_MODEL, err);
    if (!rc && !machine)
        rc = ah_cache_find(&cli->arena, &machine, err);
    if (!rc)
        rc = ah_input_load(&request->machine, machine, AH_DOCUMENT_MACHINE, err);
    if (!rc)
        rc = ah_document_digest(&request->model, request->model_sha256, err);
    if (!rc)
        rc = ah_document_digest(&request->machine, request->machine_sha256, err);
    for (size_t i = 0; i < request->model.n_warnings && !rc; i++)
        ah_cli_tell(cli, AH_CLI_WARNING, "%s: %s", model, request->model.warnings[i]);
    return rc;
}

/* ---- training ---- */

struct count {
    const char *option;
    uint64_t otherwise, most;
};

/* Sets `ret_value` to the given number or the default. It must be from 1 to the limit of plans. */
static int read_count(const struct count *count, const struct ah_option_integer *given, uint64_t *ret_value,
                      struct ah_error *err)
{
    *ret_value = given->given ? given->value : count->otherwise;
    if (!*ret_value)
        return ah_error_set(err, AH_E_USAGE, "'--%s': 0 is out of range; give 1 or more", count->option);
    if (*ret_value > count->most)
        return ah_error_set(err, AH_E_USAGE, "'--%s': %" PRIu64 " is out of range; give at most %" PRIu64,
                            count->option, *ret_value, count->most);
    return AH_OK;
}

static int check_division(const struct ah_plan_training *training, struct ah_error *err)
{
    uint64_t sequences = training->batch / training->micro_batches;
    if (sequences > UINT32_MAX / training->seq)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--batch' %" PRIu64 " with '--seq' %" PRIu64
            ": a micro-batch would have 2^32 tokens or more; give less, or more '--micro-batches'",
            training->batch, training->seq);
    if (training->batch % training->micro_batches == 0)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "'--batch' %" PRIu64 " cannot be cut into %" PRIu64 " equal parts; choose "
                        "'--micro-batches' that divides the batch",
                        training->batch, training->micro_batches);
}

static int read_sizes(struct ah_request *request, struct ah_cli *cli,
                      const struct ah_request_options *options, struct ah_error *err)
{
    struct ah_plan_training *training = &request->planner.training;
    const struct ah_model *model = request->model.body.model;
    const struct count batch = {"batch", BATCH_DEFAULT, AH_BATCH_MAX};
    const struct count micro_batches = {"micro-batches", 1, AH_BATCH_MAX};
    const struct count seq = {"seq", model->max_positions < SEQ_DEFAULT ? model->max_positions : SEQ_DEFAULT,
                              AH_SEQ_MAX};
    int rc = read_count(&batch, &options->batch, &training->batch, err);
    if (!rc)
        rc = read_count(&seq, &options->seq, &training->seq, err);
    request->planner.any_micro_batches = options->micro_batches.word != NULL;
    if (request->planner.any_micro_batches)
        training->micro_batches = 1;
    else if (!rc)
        rc = read_count(&micro_batches, &options->micro_batches, &training->micro_batches, err);
    if (!rc && model->position == AH_POSITION_LEARNED && training->seq > model->max_positions)
        rc = ah_error_set(err, AH_E_USAGE,
                          "'--seq' %" PRIu64 ": the model '%s' has %" PRIu64 " learned positions; give at "
                          "most that many",
                          training->seq, model->name, model->max_positions);
    if (!rc)
        rc = check_division(training, err);
    if (!rc && training->seq > model->max_positions)
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "'--seq' %" PRIu64 " is more than the %" PRIu64 " positions that '%s' was made for",
                    training->seq, model->max_positions, model->name);
    return rc;
}

static int read_numbers(struct ah_request *request, const struct ah_request_options *options,
                        struct ah_error *err)
{
    struct ah_plan_training *training = &request->planner.training;
    const struct ah_machine *machine = request->machine.body.machine;
    training->dtype = machine->device.bf16 ? AH_BF16 : AH_FP32;
    if (options->dtype)
        training->dtype = ah_request_index(ah_words_dtype, options->dtype);
    if (options->state_dtype)
        training->state_dtype = ah_request_index(ah_words_dtype, options->state_dtype);
    training->clip = options->clip.given ? options->clip.value : clip_default;
    if (training->clip > AH_CLIP_MAX)
        return ah_error_set(err, AH_E_USAGE, "'--clip' %g is above %g; 'none' does not clip", training->clip,
                            AH_CLIP_MAX);
    if (training->dtype == AH_BF16 && !machine->device.bf16)
        return ah_error_set(err, AH_E_USAGE,
                            "'--dtype' bf16: the device '%s' has no bf16; use '--dtype fp32'",
                            machine->device.name);
    return AH_OK;
}

/* The trained tensors, as patterns like those of plans. */
struct trainable {
    const char *option; /* whose patterns are added */
    struct ah_freeze_names patterns;
    struct ah_freeze_names adapters; /* patterns of adapters, which come last: '--train' names none */
    uint32_t *trained;               /* room for two results of ah_trainable_match() */
};

/* Appends patterns in our names for `pattern`, in our names or Hugging Face's. AH_E_USAGE: it matches no tensor. */
static int name_tensors(struct ah_arena *arena, const struct ah_model *model, const char *pattern,
                        const struct trainable *list, struct ah_freeze_names *names, struct ah_error *err)
{
    uint32_t *trained = list->trained;
    char inside[AH_TRAINABLE_NAME_MAX];
    const char *wider = inside;
    int rc = ah_trainable_match(model, &pattern, 1, trained, NULL);
    if (rc != AH_E_USAGE)
        return rc || !ah_freeze_add(names, arena, pattern) ? ah_error_memory(err) : AH_OK;
    rc = ah_freeze_translate(model, list->option, pattern, arena, names, err);
    if (rc || names->n)
        return rc;
    bool fits = snprintf(inside, sizeof inside, "%s.*", pattern) < (int)sizeof inside;
    if (fits && !ah_trainable_match(model, &wider, 1, trained, NULL))
        return ah_error_set(err, AH_E_USAGE, "'--%s': '%s' matches no tensor of '%s'; did you mean '%s'?",
                            list->option, pattern, model->name, inside);
    return ah_error_set(
        err, AH_E_USAGE,
        "'--%s': '%s' matches no tensor of '%s'; names are like 'embedding.embedding.weight', "
        "'layer.0.attention.qkv.weight', 'head.norm.weight', or as Hugging Face has them",
        list->option, pattern, model->name);
}

/* Checks that "!b" exempts a tensor named by an earlier pattern. */
static int check_brought_back(const struct ah_model *model, const struct trainable *list, size_t n_before,
                              const char *pattern, struct ah_error *err)
{
    const struct ah_freeze_names *patterns = &list->patterns;
    uint64_t blocks = ah_model_blocks(model);
    uint32_t *before = list->trained, *now = list->trained + blocks;
    int rc = ah_trainable_match(model, patterns->items, n_before, before, NULL);
    if (rc == AH_E_USAGE) /* nothing was trained before */
        return AH_OK;
    if (!rc)
        rc = ah_trainable_match(model, patterns->items, patterns->n, now, NULL);
    if (rc)
        return ah_error_memory(err);
    if (memcmp(before, now, blocks * sizeof *now) != 0)
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "'--%s': '!%s' changes nothing: '!' exempts what an earlier pattern named, and none did; leave "
        "out '!' to %s it",
        list->option, pattern, list->option);
}

/* Appends one part of "a,!b" to the list of trained tensors. '--freeze': "!a" because "a" is frozen, "b" for the
 * exemption "!b"; '--train': "a", "!b". */
static int add_pattern(struct ah_arena *arena, const struct ah_model *model, const char *pattern,
                       struct trainable *list, struct ah_error *err)
{
    const bool exempts = *pattern == '!', trains = exempts == !strcmp(list->option, "freeze");
    const size_t n_before = list->patterns.n;
    struct ah_freeze_names names = {0};
    int rc = name_tensors(arena, model, pattern + exempts, list, &names, err);
    for (size_t i = 0; i < names.n && !rc; i++) {
        const size_t length = strlen(names.items[i]) + 2;
        char *excluded = ah_arena_alloc(arena, length);
        if (excluded)
            snprintf(excluded, length, "!%s", names.items[i]);
        if (!excluded || !ah_freeze_add(&list->patterns, arena, excluded + trains))
            rc = ah_error_memory(err);
    }
    return !rc && exempts ? check_brought_back(model, list, n_before, pattern + 1, err) : rc;
}

static int add_patterns(struct ah_arena *arena, const struct ah_model *model, const char *text,
                        struct trainable *list, struct ah_error *err)
{
    int rc = AH_OK;
    while (text && !rc) {
        const size_t length = strcspn(text, ",");
        if (length == (*text == '!'))
            return ah_error_set(err, AH_E_USAGE, "'--%s' has an empty pattern; put one between its commas",
                                list->option);
        const char *pattern = ah_arena_strndup(arena, text, length);
        rc = pattern ? add_pattern(arena, model, pattern, list, err) : ah_error_memory(err);
        text = text[length] ? text + length + 1 : NULL;
    }
    return rc;
}

static int read_lists(struct ah_arena *arena, const struct ah_model *model, const char *option,
                      const struct ah_option_list *lists, struct trainable *list, struct ah_error *err)
{
    int rc = AH_OK;
    list->option = option;
    for (size_t i = 0; i < lists->n && !rc; i++)
        rc = add_patterns(arena, model, lists->items[i], list, err);
    return rc;
}

static int check_lora(const struct ah_request_options *options, const struct ah_model *model,
                      struct ah_error *err)
{
    if (options->lora && options->freeze.n)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--freeze' has nothing to do with '--lora', which trains only adapters; say with "
            "'--lora-on' and '--train' what is trained");
    if (!options->lora && (options->lora_on.n || (options->train.n && !model->lora)))
        return ah_error_set(err, AH_E_USAGE, "'--%s' needs '--lora', such as '--lora rank=16,alpha=32'",
                            options->lora_on.n ? "lora-on" : "train");
    return AH_OK;
}

/* Gives the model its adapters, and begins the list of trained tensors. */
static int begin_trainable(struct ah_request *request, struct ah_arena *arena,
                           const struct ah_request_options *options, struct trainable *list,
                           struct ah_error *err)
{
    struct ah_model *model = request->model.body.model;
    int rc = check_lora(options, model, err);
    if (rc)
        return rc;
    if (!options->lora && !model->lora)
        return ah_freeze_add(&list->patterns, arena, "*") ? AH_OK : ah_error_memory(err);
    if (!options->lora)
        return ah_freeze_add(&list->adapters, arena, "*.lora_*") ? AH_OK : ah_error_memory(err);
    if (model->lora)
        return ah_error_set(err, AH_E_USAGE, "'--lora': the model '%s' has adapters already", model->name);
    rc = ah_lora_read(arena, options->lora, &options->lora_on, model, &list->adapters, err);
    return rc ? rc : ah_document_digest(&request->model, request->model_sha256, err);
}

static int add_adapters(struct ah_arena *arena, struct trainable *list, struct ah_error *err)
{
    bool added = !list->adapters.n || !list->patterns.n || ah_freeze_add(&list->patterns, arena, "!*.lora_*");
    for (size_t i = 0; i < list->adapters.n && added; i++)
        added = ah_freeze_add(&list->patterns, arena, list->adapters.items[i]);
    return added ? AH_OK : ah_error_memory(err);
}

static int read_trainable(struct ah_request *request, struct ah_cli *cli,
                          const struct ah_request_options *options, struct ah_error *err)
{
    const struct ah_model *model = request->model.body.model;
    struct trainable list = {
        .trained = ah_arena_array(&cli->arena, 2 * ah_model_blocks(model), sizeof *list.trained)};
    int rc = list.trained ? begin_trainable(request, &cli->arena, options, &list, err) : ah_error_memory(err);
    rc = rc ? rc : read_lists(&cli->arena, model, "train", &options->train, &list, err);
    rc = rc ? rc : add_adapters(&cli->arena, &list, err);
    rc = rc ? rc : read_lists(&cli->arena, model, "freeze", &options->freeze, &list, err);
    if (!rc && ah_trainable_match(model, list.patterns.items, list.patterns.n, list.trained, NULL))
        rc = ah_error_set(err, AH_E_USAGE, "'--freeze' leaves nothing to train; freeze less");
    if (!rc && model->lora && ah_adapter_check_trained(model, list.trained, err))
        rc = ah_error_prefix(err, AH_E_USAGE, "'--train'");
    request->planner.training.trainable = list.patterns.items;
    request->planner.training.n_trainable = list.patterns.n;
    return rc;
}

/* Reads '--gpus' and '--fabric', which need each other. Unless micro-batches are given, the least number is planned. */
static int read_gpus(struct ah_request *request, const struct ah_request_options *options,
                     struct ah_error *err)
{
    struct ah_plan_request *planner = &request->planner;
    const struct count gpus = {"gpus", 1, GPUS_MOST};
    int rc = read_count(&gpus, &options->gpus, &planner->gpus, err);
    if (!rc && planner->gpus == 1 && options->fabric)
        rc = ah_error_set(err, AH_E_USAGE,
                          "'--fabric' is for several GPUs; say how many with '--gpus', 2 or more");
    if (!rc && planner->gpus > 1 && !options->fabric)
        rc =
            ah_error_set(err, AH_E_USAGE,
                         "'--gpus' %" PRIu64 " needs '--fabric': how fast each GPU sends to the others, such "
                         "as '250GB/s' for NVLink",
                         planner->gpus);
    if (rc || planner->gpus == 1)
        return rc;
    rc = ah_units_parse_rate(options->fabric, &planner->fabric_bytes_per_s, err);
    if (rc)
        return ah_error_prefix(err, rc, "'--fabric'");
    if (planner->fabric_bytes_per_s < FABRIC_LEAST || planner->fabric_bytes_per_s > FABRIC_MOST)
        return ah_error_set(err, AH_E_USAGE, "'--fabric' %s is out of range; give a rate such as '250GB/s'",
                            options->fabric);
    planner->least_micro_batches = !options->micro_batches.given;
    planner->any_micro_batches = planner->any_micro_batches || planner->least_micro_batches;
    return AH_OK;
}

int ah_request_training(struct ah_request *request, struct ah_cli *cli,
                        const struct ah_request_options *options, struct ah_error *err)
{
    int rc = read_sizes(request, cli, options, err);
    rc = rc ? rc : read_numbers(request, options, err);
    return rc ? rc : read_trainable(request, cli, options, err);
}

/* ---- budgets and search ---- */

/* Sets the error for a value so small that its unit must have been forgotten. */
static int fail_unit(const char *what, uint64_t value, struct ah_error *err)
{
    return ah_error_set(err, AH_E_USAGE,
                        "'--%s-memory' %" PRIu64 " is %" PRIu64 " byte%s, too little for anything; did you "
                        "mean '%" PRIu64 "GiB'?",
                        what, value, value, value == 1 ? "" : "s", value);
}

/* Reads a budget. A budget above the machine's memory makes a what-if (planner.h). */
static int read_budget(const char *what, const struct ah_option_integer *given, uint64_t *ret_bytes,
                       struct ah_error *err)
{
    const uint64_t unit_forgotten = 4096, most = UINT64_C(1) << 50;
    char asked[AH_UNITS_TEXT_MAX], limit[AH_UNITS_TEXT_MAX];
    *ret_bytes = given->value;
    if (given->given && !given->value)
        return ah_error_set(err, AH_E_USAGE,
                            "'--%s-memory' 0 leaves no memory; leave the option out to use "
                            "all of it",
                            what);
    if (given->given && given->value < unit_forgotten)
        return fail_unit(what, given->value, err);
    if (!given->given || given->value <= most)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE, "'--%s-memory' %s is out of range; give at most %s", what,
                        ah_units_print_bytes(asked, given->value), ah_units_print_bytes(limit, most));
}

static int check_reserve(const struct ah_machine *machine, uint64_t device_bytes, struct ah_error *err)
{
    char asked[AH_UNITS_TEXT_MAX], kept[AH_UNITS_TEXT_MAX];
    if (device_bytes > machine->device.reserve_bytes)
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "'--device-memory' %s is no more than the %s that '%s' reserves for itself; give more",
        ah_units_print_bytes(asked, device_bytes), ah_units_print_bytes(kept, machine->device.reserve_bytes),
        machine->name);
}

static int read_technique(const char *word, size_t length, uint32_t *without, struct ah_error *err)
{
    const enum ah_technique technique = ah_restriction_technique(word, length);
    if (technique != AH_TECHNIQUES) {
        *without |= UINT32_C(1) << technique;
        return AH_OK;
    }
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), word);
    const char *near = ah_nearest(name, ah_words_technique, AH_TECHNIQUES);
    struct ah_buffer words = {0};
    ah_options_join(&words, ah_words_technique);
    int rc = words.failed
                 ? ah_error_memory(err)
                 : ah_error_set(err, AH_E_USAGE, "'--without': '%s' is not one of %s%s%s%s", name, words.data,
                                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    ah_buffer_release(&words);
    return rc;
}

int ah_request_without(const struct ah_option_list *lists, uint32_t *ret_without, struct ah_error *err)
{
    uint32_t without = 0;
    int rc = AH_OK;
    for (size_t i = 0; i < lists->n && !rc; i++) {
        const char *at = lists->items[i];
        for (bool more = true; more && !rc; at++) {
            size_t length = strcspn(at, ",");
            rc = read_technique(at, length, &without, err);
            at += length;
            more = *at == ',';
        }
    }
    if (!rc)
        *ret_without = without;
    return rc;
}

int ah_request_effort(const struct ah_option_integer *option, uint32_t *ret_effort, struct ah_error *err)
{
    uint64_t effort = option->word ? AH_EFFORT_QUICK : option->value;
    if (option->given && (!effort || effort > AH_EFFORT_MOST))
        return ah_error_set(err, AH_E_USAGE, "'--effort' %" PRIu64 " is not one of 1 (quick) to %d", effort,
                            AH_EFFORT_MOST);
    *ret_effort = (uint32_t)effort;
    return AH_OK;
}

static int read_search(struct ah_request *request, const struct ah_request_options *options,
                       struct ah_error *err)
{
    struct ah_plan_request *planner = &request->planner;
    const struct ah_machine *machine = request->machine.body.machine;
    int rc = ah_request_effort(&options->effort, &planner->effort, err);
    if (rc)
        return rc;
    if (options->scheduling)
        planner->scheduling = ah_request_index(ah_words_scheduling, options->scheduling);
    rc = read_budget("device", &options->device_memory, &planner->device_bytes, err);
    if (!rc && options->device_memory.given)
        rc = check_reserve(machine, planner->device_bytes, err);
    if (!rc)
        rc = read_budget("host", &options->host_memory, &planner->host_bytes, err);
    return rc;
}

static bool went_on(void *context, uint64_t done, uint64_t planned)
{
    struct ah_request *request = context;
    char what[64];
    if (planned)
        snprintf(what, sizeof what, "%" PRIu64 " of %" PRIu64 " evaluations", done, planned);
    else
        snprintf(what, sizeof what, "%" PRIu64 " plans evaluated", done);
    ah_terminal_draw(&request->progress, planned ? (double)done / (double)planned : -1, what);
    return ah_interrupt_seen();
}

int ah_request_init(struct ah_request *ret_request, struct ah_cli *cli,
                    const struct ah_request_options *options, struct ah_error *err)
{
    struct ah_request *request = ret_request;
    *request = (struct ah_request){.progress = ah_terminal_progress()};
    int rc = load_documents(request, cli, options->machine, err);
    request->planner = (struct ah_plan_request){.model = request->model.body.model,
                                                .model_sha256 = request->model_sha256,
                                                .machine = request->machine.body.machine,
                                                .machine_sha256 = request->machine_sha256,
                                                .policy = AH_POLICY_OPTIMAL,
                                                .generator = "autohete " AUTOHETE_VERSION,
                                                .progress = went_on,
                                                .context = request};
    if (!rc)
        rc = ah_request_training(request, cli, options, err);
    if (!rc)
        rc = read_gpus(request, options, err);
    if (!rc)
        rc = read_search(request, options, err);
    if (!rc)
        rc = ah_request_without(&options->without, &request->planner.without, err);
    if (rc)
        ah_request_release(request);
    else
        ah_interrupt_catch();
    return rc;
}

void ah_request_release(struct ah_request *request)
{
    ah_document_release(&request->model);
    ah_document_release(&request->machine);
}
