/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planner cannot know is checked here, by the option's name: a budget above the machine, a number out of
 * range. What only the planner can know (does a pattern match, does the batch fit) it says itself.
 */
#include "cli/request.h"

#include "base/units.h"
#include "cli/cache.h"
#include "cli/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_DEFAULT = 8, SEQ_DEFAULT = 1024 };

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
    int rc = AH_OK;
    if (!machine)
        rc = ah_cache_find(&cli->arena, &machine, err);
    if (!rc)
        rc = ah_document_load(&request->model, model, AH_DOCUMENT_MODEL, err);
    if (!rc)
        rc = ah_document_load(&request->machine, machine, AH_DOCUMENT_MACHINE, err);
    if (!rc)
        rc = ah_document_digest(&request->model, request->model_sha256, err);
    if (!rc)
        rc = ah_document_digest(&request->machine, request->machine_sha256, err);
    for (size_t i = 0; i < request->model.n_warnings && !rc; i++)
        ah_cli_note(cli, "%s: warning: %s", model, request->model.warnings[i]);
    return rc;
}

/* ---- training ---- */

/* A number that was given, or the default; 1 to 2^53 - 1. */
static int read_count(const char *option, const struct ah_option_integer *given, uint64_t otherwise,
                      uint64_t *ret_value, struct ah_error *err)
{
    *ret_value = given->given ? given->value : otherwise;
    if (*ret_value && *ret_value < UINT64_C(1) << 53)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE, "'--%s': %" PRIu64 " is out of range; give %s", option, *ret_value,
                        *ret_value ? "less than 2^53" : "1 or more");
}

static int check_division(const struct ah_plan_training *training, struct ah_error *err)
{
    if (training->batch % training->micro_batches == 0)
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "'--batch' %" PRIu64 " cannot be cut into %" PRIu64
                        " equal parts; choose '--micro-batches' so that it divides the batch",
                        training->batch, training->micro_batches);
}

static int read_sizes(struct ah_request *request, const struct ah_request_options *options,
                      struct ah_error *err)
{
    struct ah_plan_training *training = &request->planner.training;
    const struct ah_model *model = request->model.body.model;
    uint64_t seq = model->max_positions < SEQ_DEFAULT ? model->max_positions : SEQ_DEFAULT;
    int rc = read_count("batch", &options->batch, BATCH_DEFAULT, &training->batch, err);
    if (!rc)
        rc = read_count("seq", &options->seq, seq, &training->seq, err);
    request->planner.any_micro_batches = options->micro_batches.word != NULL;
    if (request->planner.any_micro_batches)
        training->micro_batches = 1;
    else if (!rc)
        rc = read_count("micro-batches", &options->micro_batches, 1, &training->micro_batches, err);
    if (!rc && model->position == AH_POSITION_LEARNED && training->seq > model->max_positions)
        rc = ah_error_set(err, AH_E_USAGE,
                          "'--seq' %" PRIu64 ": the model '%s' has %" PRIu64
                          " learned positions; give at most that",
                          training->seq, model->name, model->max_positions);
    return rc ? rc : check_division(training, err);
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
    if (training->dtype == AH_BF16 && !machine->device.bf16)
        return ah_error_set(err, AH_E_USAGE,
                            "'--dtype' bf16: the device '%s' has no bf16; use '--dtype fp32'",
                            machine->device.name);
    return AH_OK;
}

/* "a,!b" freezes: of what is trained, "!a" takes away and "b" brings back. Patterns are cut out of `text`. */
static int add_patterns(struct ah_cli *cli, const char *text, const char **patterns, size_t *n,
                        struct ah_error *err)
{
    while (text) {
        const char *comma = strchr(text, ',');
        size_t length = comma ? (size_t)(comma - text) : strlen(text);
        bool brings_back = *text == '!';
        struct ah_buffer pattern = {0};
        ah_buffer_printf(&pattern, "%s%.*s", brings_back ? "" : "!", (int)(length - brings_back),
                         text + brings_back);
        const char *copy = pattern.failed ? NULL : ah_arena_strdup(&cli->arena, pattern.data);
        ah_buffer_release(&pattern);
        if (!copy)
            return ah_error_memory(err);
        if (length == brings_back)
            return ah_error_set(err, AH_E_USAGE, "'--freeze': a pattern between its commas is empty");
        patterns[(*n)++] = copy;
        text = comma ? comma + 1 : NULL;
    }
    return AH_OK;
}

static int read_trainable(struct ah_request *request, struct ah_cli *cli, const struct ah_option_list *freeze,
                          struct ah_error *err)
{
    size_t room = 1;
    for (size_t i = 0; i < freeze->n; i++)
        for (const char *at = freeze->items[i]; at; at = strchr(at, ','), at += at != NULL)
            room++;
    const char **patterns = ah_arena_array(&cli->arena, room, sizeof *patterns);
    if (!patterns)
        return ah_error_memory(err);
    patterns[0] = "*";
    size_t n = 1;
    int rc = AH_OK;
    for (size_t i = 0; i < freeze->n && !rc; i++)
        rc = add_patterns(cli, freeze->items[i], patterns, &n, err);
    request->planner.training.trainable = patterns;
    request->planner.training.n_trainable = n;
    return rc;
}

/* ---- budgets and search ---- */

static int read_budget(const char *what, const struct ah_option_integer *given, uint64_t available_bytes,
                       uint64_t *ret_bytes, struct ah_error *err)
{
    char asked[AH_UNITS_TEXT_MAX];
    char there[AH_UNITS_TEXT_MAX];
    *ret_bytes = given->value;
    if (!given->given || (given->value && given->value <= available_bytes))
        return AH_OK;
    if (!given->value)
        return ah_error_set(err, AH_E_USAGE, "'--%s-memory' 0 is no budget; leave it out to use all there is",
                            what);
    return ah_error_set(err, AH_E_USAGE, "'--%s-memory' %s is more than the machine's %s (%" PRIu64 " bytes)",
                        what, ah_units_print_bytes(asked, given->value),
                        ah_units_print_bytes(there, available_bytes), available_bytes);
}

static int read_technique(const char *word, size_t length, uint32_t *without, struct ah_error *err)
{
    for (unsigned i = 0; i < AH_TECHNIQUES; i++) {
        if (strlen(ah_words_technique[i]) == length && !strncmp(word, ah_words_technique[i], length)) {
            *without |= UINT32_C(1) << i;
            return AH_OK;
        }
    }
    struct ah_buffer words = {0};
    ah_options_join(&words, ah_words_technique);
    int rc = words.failed ? ah_error_memory(err)
                          : ah_error_set(err, AH_E_USAGE, "'--without': '%.*s' is not one of %s",
                                         (int)(length < 40 ? length : 40), word, words.data);
    ah_buffer_release(&words);
    return rc;
}

/* "streamed,selective" */
static int read_without(struct ah_request *request, const struct ah_option_list *lists, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < lists->n && !rc; i++) {
        const char *at = lists->items[i];
        for (bool more = true; more && !rc; at++) {
            size_t length = strcspn(at, ",");
            rc = read_technique(at, length, &request->planner.without, err);
            at += length;
            more = *at == ',';
        }
    }
    return rc;
}

static int read_search(struct ah_request *request, const struct ah_request_options *options,
                       struct ah_error *err)
{
    struct ah_plan_request *planner = &request->planner;
    const struct ah_machine *machine = request->machine.body.machine;
    uint64_t effort = options->effort.word ? AH_EFFORT_QUICK : options->effort.value;
    if (options->effort.given && (!effort || effort > AH_EFFORT_MOST))
        return ah_error_set(err, AH_E_USAGE, "'--effort' %" PRIu64 " is not one of 1 (quick) to %d", effort,
                            AH_EFFORT_MOST);
    planner->effort = (uint32_t)effort;
    if (options->scheduling)
        planner->scheduling = ah_request_index(ah_words_scheduling, options->scheduling);
    int rc = read_budget("device", &options->device_memory, machine->device.memory_bytes,
                         &planner->device_bytes, err);
    if (!rc)
        rc =
            read_budget("host", &options->host_memory, machine->host.memory_bytes, &planner->host_bytes, err);
    return rc;
}

static bool went_on(void *context, uint64_t done, uint64_t planned)
{
    struct ah_request *request = context;
    char what[64];
    snprintf(what, sizeof what, "%" PRIu64 " of %" PRIu64 " evaluations", done, planned);
    ah_terminal_draw(&request->progress, planned ? (double)done / (double)planned : 0, what);
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
        rc = read_sizes(request, options, err);
    if (!rc)
        rc = read_numbers(request, options, err);
    if (!rc)
        rc = read_trainable(request, cli, &options->freeze, err);
    if (!rc)
        rc = read_search(request, options, err);
    if (!rc)
        rc = read_without(request, &options->without, err);
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
