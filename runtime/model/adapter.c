/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: LoraConfig (tuners/lora/config.py) and check_target_module_exists() (tuners/tuners_utils.py) of
 * huggingface/peft. Names of modules match endings of full names, so "c_proj" alone would name two matrices of gpt2.
 */
#include "runtime/model/adapter.h"

#include "base/file.h"
#include "runtime/model/weight_names.h"
#include "runtime/model/weights.h"
#include "schemas/cursor.h"
#include "schemas/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES_MAX = 1 << 24 };

/* ---- printing ---- */

static void put_list_item(struct ah_buffer *out, bool first, const char *text)
{
    ah_buffer_printf(out, "%s\"%s\"", first ? "" : ",", text);
}

/* Returns the name of a matrix's module: its last part, unless that names two matrices. */
static const char *target_of(const struct ah_model *model, enum ah_lora matrix,
                             char module[AH_NAMES_MODULE_MAX])
{
    const char *name = ah_names_module(model, matrix, module);
    return model->family == AH_FAMILY_GPT2 ? name : strrchr(name, '.') + 1;
}

static void put_targets(const struct ah_model *model, struct ah_buffer *out)
{
    char module[AH_NAMES_MODULE_MAX];
    ah_buffer_puts(out, "[");
    for (size_t i = 0; i < model->lora->n_on; i++)
        put_list_item(out, i == 0, target_of(model, (enum ah_lora)model->lora->on[i], module));
    ah_buffer_puts(out, "]");
}

static uint32_t adapters_of(const struct ah_model *model)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    const size_t n = ah_model_tensors(model, AH_BLOCK_LAYER, tensors);
    uint32_t adapters = 0;
    for (size_t i = 0; i < n; i++)
        adapters |= (uint32_t)tensors[i].adapter << i;
    return adapters;
}

/* Puts the layers with adapters; "null" if all layers have them. */
static void put_layers(const struct ah_model *model, const uint32_t *trained, struct ah_buffer *out)
{
    const uint32_t adapters = adapters_of(model);
    uint64_t n = 0;
    for (uint64_t layer = 0; layer < model->layers; layer++)
        n += (trained[layer + 1] & adapters) != 0;
    if (n == model->layers) {
        ah_buffer_puts(out, "null");
        return;
    }
    ah_buffer_puts(out, "[");
    for (uint64_t layer = 0, put = 0; layer < model->layers; layer++)
        if (trained[layer + 1] & adapters)
            ah_buffer_printf(out, "%s%" PRIu64, put++ ? "," : "", layer);
    ah_buffer_puts(out, "]");
}

/* True if the part's module has an adapter. */
static bool has_adapter(const struct ah_model *model, const char *module)
{
    char matrix[AH_NAMES_MODULE_MAX];
    const size_t length = strlen(module);
    for (size_t i = 0; i < model->lora->n_on; i++) {
        const char *name = ah_names_module(model, (enum ah_lora)model->lora->on[i], matrix);
        if (length > strlen(name) && strcmp(module + length - strlen(name), name) == 0)
            return true;
    }
    return false;
}

/* True if the table of a tied model is trained. peft then needs both its names. */
static bool trains_tied_table(const struct ah_model *model, const uint32_t *trained)
{
    return model->tied && (trained[0] & 1);
}

/* Returns the tensors of a block that are trained whole, a bit for each. */
static uint32_t whole_of(const struct ah_model *model, uint64_t block, uint32_t trained)
{
    return trained & ~(ah_model_block_kind(model, block) == AH_BLOCK_LAYER ? adapters_of(model) : 0);
}

/* Writes the name of the part's module in the model of the library. */
static void name_module(const struct ah_model *model, const struct ah_names_part *part,
                        char ret_name[AH_NAMES_NAME_MAX])
{
    ah_names_spell(model, ah_names_spellings(model), part->name, ret_name);
    *strrchr(ret_name, '.') = '\0';
}

/* Checks a part that is trained whole against the other parts of its module, and against adapters. */
static int check_part(const struct ah_model *model, const struct ah_names_part *parts, size_t n, size_t i,
                      uint32_t whole, bool adapted, struct ah_error *err)
{
    char module[AH_NAMES_NAME_MAX], other[AH_NAMES_NAME_MAX];
    name_module(model, &parts[i], module);
    if (adapted && has_adapter(model, module))
        return ah_error_set(
            err, AH_E_UNSUPPORTED,
            "'%s' would be trained and have an adapter, too, which an adapter's files cannot say; "
            "leave one out: '--train', '--lora-on'",
            parts[i].name);
    for (size_t k = 0; k < n; k++) {
        name_module(model, &parts[k], other);
        if (!strcmp(module, other) && !(whole >> parts[k].tensor & 1))
            return ah_error_set(
                err, AH_E_UNSUPPORTED,
                "'%s' would be trained without '%s', but an adapter's files hold whole modules; "
                "name both with '--train', or none",
                parts[i].name, parts[k].name);
    }
    return AH_OK;
}

int ah_adapter_check_trained(const struct ah_model *model, const uint32_t *trained, struct ah_error *err)
{
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    for (uint64_t block = 0; block < ah_model_blocks(model); block++) {
        const uint32_t whole = whole_of(model, block, trained[block]);
        const size_t n = whole ? ah_names_parts(model, block, parts) : 0;
        for (size_t i = 0; i < n; i++) {
            if (!(whole >> parts[i].tensor & 1))
                continue;
            const int rc = check_part(model, parts, n, i, whole, trained[block] != whole, err);
            if (rc)
                return rc;
        }
    }
    return AH_OK;
}

/* Puts the modules that are trained whole, with their full names: an ending like "norm" would name others, too. */
static void put_modules(const struct ah_model *model, const uint32_t *trained, struct ah_buffer *out)
{
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    char module[AH_NAMES_NAME_MAX], last[AH_NAMES_NAME_MAX] = "";
    for (uint64_t block = 0; block < ah_model_blocks(model); block++) {
        const uint32_t whole = whole_of(model, block, trained[block]);
        const size_t n = whole ? ah_names_parts(model, block, parts) : 0;
        for (size_t i = 0; i < n; i++) {
            if (!(whole >> parts[i].tensor & 1))
                continue;
            name_module(model, &parts[i], module);
            if (strcmp(module, last) != 0)
                put_list_item(out, !last[0], module);
            memcpy(last, module, sizeof last);
        }
    }
    if (trains_tied_table(model, trained))
        put_list_item(out, false, "lm_head");
}

int ah_adapter_print(const struct ah_model *model, const uint32_t *trained, const char *base,
                     struct ah_buffer *out, struct ah_error *err)
{
    const struct ah_model_lora *lora = model->lora;
    struct ah_buffer compact = {0};
    int rc = ah_adapter_check_trained(model, trained, err);
    if (rc)
        return rc;
    ah_buffer_puts(&compact, "{\"base_model_name_or_path\":");
    if (!base || !ah_json_put_text(&compact, base))
        ah_buffer_puts(&compact, "null");
    ah_buffer_printf(
        &compact,
        ",\"bias\":\"none\",\"ensure_weight_tying\":%s,%s\"fan_in_fan_out\":%s,\"inference_mode\":"
        "true,\"layers_to_transform\":",
        trains_tied_table(model, trained) ? "true" : "false",
        model->multimodal ? "\"exclude_modules\":\".*vision_tower.*\"," : "",
        model->family == AH_FAMILY_GPT2 ? "true" : "false");
    put_layers(model, trained, &compact);
    ah_buffer_puts(&compact, ",\"lora_alpha\":");
    ah_json_put_number(&compact, lora->alpha);
    ah_buffer_puts(&compact, ",\"lora_dropout\":0.0,\"modules_to_save\":[");
    put_modules(model, trained, &compact);
    ah_buffer_printf(&compact, "],\"peft_type\":\"LORA\",\"r\":%" PRIu64 ",\"target_modules\":", lora->rank);
    put_targets(model, &compact);
    ah_buffer_printf(&compact, ",\"task_type\":\"CAUSAL_LM\",\"use_rslora\":%s}",
                     lora->scaling == AH_LORA_STANDARD ? "false" : "true");
    if (!compact.failed)
        ah_json_layout(out, compact.data);
    if (!rc && (compact.failed || out->failed))
        rc = ah_error_memory(err);
    ah_buffer_release(&compact);
    return rc;
}

/* ---- checking ---- */

struct config {
    struct ah_adapter_facts facts;
    struct ah_arena arena; /* of keys and texts */
    const char *path;
    struct ah_error *err;
};

static int refuse(const struct config *config, const char *key, const char *what)
{
    return ah_error_set(config->err, AH_E_UNSUPPORTED, "%s: %s %s", config->path, key, what);
}

/* True if the value is null, false, "none", or empty. */
static bool is_unset(struct ah_cursor cursor)
{
    const char begin = ah_cursor_peek(&cursor);
    static const char none[] = "\"none\"";
    return begin == 'n' || begin == 'f' || strncmp(cursor.at, none, sizeof none - 1) == 0 ||
           (begin == '{' && ah_cursor_enter(&cursor, '{') && !ah_cursor_next(&cursor, '}')) ||
           (begin == '[' && ah_cursor_enter(&cursor, '[') && !ah_cursor_next(&cursor, ']'));
}

/* True for ways to begin that take something from the base's weights. */
static bool changes_base(struct ah_cursor cursor)
{
    static const char *const ways[] = {"\"pissa", "\"olora", "\"corda", "\"loftq", "\"lora_ga"};
    ah_cursor_peek(&cursor);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strncmp(cursor.at, ways[i], strlen(ways[i])))
            return true;
    return false;
}

/* Reads the value of a key that changes what an adapter computes. */
static int read_key(struct config *config, const char *key, struct ah_cursor cursor)
{
    /* settings that must be unset, because we lack them */
    static const char *const lacking[] = {
        "alora_invocation_tokens", "alpha_pattern", "arrow_config",      "bias",         "kasa_config",
        "layer_replication",       "lora_bias",     "monteclora_config", "rank_pattern", "target_parameters",
        "trainable_token_indices", "use_bdlora",    "use_dora",          "use_qalora",   "velora_config"};
    const char begin = ah_cursor_peek(&cursor);
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (!strcmp(key, lacking[i]) && !is_unset(cursor))
            return refuse(config, key, "is set, which autohete does not support");
    if (!strcmp(key, "peft_type") && strncmp(cursor.at, "\"LORA\"", 6) != 0)
        return refuse(config, key, "is not LORA, the only kind of adapter that autohete supports");
    if (!strcmp(key, "init_lora_weights") && changes_base(cursor))
        return refuse(config, key,
                      "changes the base's weights; save the adapter for the original base with "
                      "path_initial_model_for_weight_conversion of peft");
    if (!strcmp(key, "r"))
        config->facts.rank = begin >= '0' && begin <= '9' ? strtod(cursor.at, NULL) : (double)NAN;
    else if (!strcmp(key, "lora_alpha"))
        config->facts.alpha = begin >= '0' && begin <= '9' ? strtod(cursor.at, NULL) : (double)NAN;
    else if (!strcmp(key, "use_rslora"))
        config->facts.rank_stabilized = begin == 't';
    return AH_OK;
}

static int read_keys(struct config *config, const struct ah_buffer *text)
{
    struct ah_cursor cursor = {text->data, text->data + text->size};
    const struct ah_json_source source = {config->path, text->data, text->size, 1};
    int rc = ah_json_scan(&source, config->err);
    if (!rc && !ah_cursor_enter(&cursor, '{'))
        rc = ah_error_set(config->err, AH_E_DOCUMENT, "%s: is not an object", config->path);
    while (!rc && ah_cursor_next(&cursor, '}')) {
        const char *key = ah_cursor_key(&cursor, &config->arena);
        rc = key ? read_key(config, key, cursor) : ah_error_memory(config->err);
        ah_cursor_skip(&cursor);
    }
    return rc;
}

int ah_adapter_path(const char *folder, char ret_path[PATH_MAX], struct ah_error *err)
{
    if (snprintf(ret_path, PATH_MAX, "%s/" AH_WEIGHTS_ADAPTER, folder) >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", folder);
    return AH_OK;
}

int ah_adapter_read(const char *folder, struct ah_adapter_facts *ret_facts, struct ah_error *err)
{
    char path[PATH_MAX];
    struct ah_buffer text = {0};
    struct config config = {.path = path, .facts = {.alpha = 8, .rank = 8}, .err = err}; /* peft's defaults */
    if (snprintf(path, sizeof path, "%s/" AH_WEIGHTS_ADAPTER_CONFIG, folder) >= (int)sizeof path)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", folder);
    int rc = ah_file_read(path, CONFIG_BYTES_MAX, &text, err);
    rc = rc ? rc : read_keys(&config, &text);
    struct ah_adapter_facts *facts = &config.facts;
    if (!rc && !(facts->rank >= 1 && facts->rank <= AH_LORA_RANK_MAX && facts->alpha >= AH_LORA_ALPHA_MIN &&
                 facts->alpha <= AH_LORA_ALPHA_MAX))
        rc = ah_error_set(err, AH_E_DOCUMENT,
                          "%s: r must be a number from 1 to %d, lora_alpha one above 0 and up to a million",
                          path, (int)AH_LORA_RANK_MAX);
    facts->scale = facts->alpha / (facts->rank_stabilized ? sqrt(facts->rank) : facts->rank);
    if (!rc)
        *ret_facts = *facts;
    ah_buffer_release(&text);
    ah_arena_release(&config.arena);
    return rc;
}

int ah_adapter_check(const struct ah_model *model, const char *folder, struct ah_error *err)
{
    struct ah_adapter_facts has;
    const struct ah_model_lora *lora = model->lora;
    const bool stabilized = lora->scaling == AH_LORA_RANK_STABILIZED;
    const int rc = ah_adapter_read(folder, &has, err);
    if (rc ||
        (has.rank == (double)lora->rank && has.alpha == lora->alpha && has.rank_stabilized == stabilized))
        return rc;
    return ah_error_set(err, AH_E_MISMATCH,
                        "%s/" AH_WEIGHTS_ADAPTER_CONFIG
                        ": the adapter has rank %g and alpha %g%s, the plan's have rank %" PRIu64
                        " and alpha %g%s; plan with '--lora rank=%g,alpha=%g%s'",
                        folder, has.rank, has.alpha, has.rank_stabilized ? ", rank-stabilized" : "",
                        lora->rank, lora->alpha, stabilized ? ", rank-stabilized" : "", has.rank, has.alpha,
                        has.rank_stabilized ? ",scaling=rank_stabilized" : "");
}
