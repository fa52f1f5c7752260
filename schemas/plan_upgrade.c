/* SPDX-License-Identifier: Apache-2.0
 *
 * Upgrades the tree of a plan or cluster plan of format 1.0 to 2.0, for verbs that only look at plans.
 *
 * Format 1.0 names a tensor "layer.3.saved.0" where 2.0 has label, block and micro_batch. A number after `fetched` or
 * `scratch` is a compute position and is dropped. Format 1.0 states neither knobs nor the numbers of a policy: here the
 * knobs become 0 and false. So an upgraded plan cannot be checked or run.
 */
#include "schemas/plan_internal.h"

#include "schemas/plan.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

struct tensor_name {
    unsigned label; /* AH_TENSOR_LABELS: the text is no tensor's name */
    double block;   /* in the model; below 0: of no single block */
    double number;
};

/* Reads a block's name at the beginning of `text`, and returns the text after it. */
static const char *read_owner(const char *text, double of_model, double *ret_block)
{
    static const struct {
        const char *word;
        bool last;
    } ends[] = {{"embedding.", false}, {"head.", true}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!strncmp(text, ends[i].word, strlen(ends[i].word))) {
            *ret_block = ends[i].last ? of_model - 1 : 0;
            return text + strlen(ends[i].word);
        }
    char *end;
    if (strncmp(text, "layer.", 6) != 0)
        return text;
    const unsigned long layer = strtoul(text + 6, &end, 10);
    if (end == text + 6 || *end != '.')
        return text;
    *ret_block = (double)layer + 1;
    return end + 1;
}

static struct tensor_name read_name(const char *text, double of_model)
{
    struct tensor_name name = {.block = -1};
    text = read_owner(text, of_model, &name.block);
    const size_t length = strcspn(text, ".");
    while (name.label < AH_TENSOR_LABELS && (strlen(ah_words_tensor[name.label]) != length ||
                                             strncmp(ah_words_tensor[name.label], text, length) != 0))
        name.label++;
    const bool position = name.label == AH_TENSOR_FETCHED || name.label == AH_TENSOR_SCRATCH;
    name.number = text[length] && !position ? (double)strtoul(text + length + 1, NULL, 10) : 0;
    return name;
}

/* Replaces the tensor's name. An unknown name becomes the label, which the reader then refuses. */
static bool upgrade_tensor(cJSON *tensor, double first, double of_model)
{
    if (!cJSON_IsObject(tensor))
        return true;
    cJSON *text = cJSON_DetachItemFromObjectCaseSensitive(tensor, "name");
    if (!cJSON_IsString(text)) {
        cJSON_Delete(text);
        return true;
    }
    const struct tensor_name name = read_name(text->valuestring, of_model);
    const bool known = name.label < AH_TENSOR_LABELS;
    bool done =
        cJSON_AddStringToObject(tensor, "label", known ? ah_words_tensor[name.label] : text->valuestring);
    if (name.block >= 0)
        done = done && cJSON_AddNumberToObject(tensor, "block", name.block - first);
    if (name.number > 0)
        done = done && cJSON_AddNumberToObject(tensor, "micro_batch", name.number);
    cJSON_Delete(text);
    return done;
}

static double number_in(const cJSON *tree, const char *group, const char *field)
{
    const cJSON *item =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tree, group), field);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static bool is_old(const cJSON *tree)
{
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(tree, "format_version");
    return cJSON_IsString(version) && !strcmp(version->valuestring, ah_field_version[0]);
}

static bool upgrade_version(cJSON *tree)
{
    cJSON *version = cJSON_GetObjectItemCaseSensitive(tree, "format_version");
    return cJSON_SetValuestring(version, ah_field_plan_version[0]);
}

/* Does nothing to a tree that is not of format 1.0; the reader refuses it. */
static bool upgrade_program(cJSON *plan)
{
    if (!is_old(plan))
        return true;
    const double first = number_in(plan, "part", "first_block");
    const double of_model = number_in(plan, "model", "layers") + 2;
    const cJSON *arena = cJSON_GetObjectItemCaseSensitive(plan, "arena");
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(arena, "tensors");
    bool done = upgrade_version(plan);
    cJSON *knobs = done ? cJSON_AddObjectToObject(plan, "knobs") : NULL;
    done = knobs && cJSON_AddNumberToObject(knobs, "fetch_ahead", 0) &&
           cJSON_AddNumberToObject(knobs, "send_behind", 0) &&
           cJSON_AddFalseToObject(knobs, "updates_after_backward") &&
           cJSON_AddFalseToObject(knobs, "step_ends");
    for (cJSON *tensor = tensors ? tensors->child : NULL; tensor && done; tensor = tensor->next)
        done = upgrade_tensor(tensor, first, of_model);
    return done;
}

int ah_plan_upgrade(cJSON *tree, struct ah_error *err)
{
    return upgrade_program(tree) ? AH_OK : ah_error_memory(err);
}

int ah_plan_upgrade_cluster(cJSON *tree, struct ah_error *err)
{
    const cJSON *programs = cJSON_GetObjectItemCaseSensitive(tree, "programs");
    bool done = upgrade_version(tree);
    for (cJSON *program = programs ? programs->child : NULL; program && done; program = program->next)
        done = upgrade_program(program);
    return done ? AH_OK : ah_error_memory(err);
}
