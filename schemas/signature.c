/* SPDX-License-Identifier: Apache-2.0 */
#include "schemas/signature.h"

#include "schemas/signature_internal.h"

#include <stdio.h>
#include <string.h>

static const struct ah_field run_fields[] = {
    {.name = "seed",
     AH_COUNT_AT(ah_signature_run, seed),
     .max = AH_FIELD_COUNT_MAX,
     .about = "Key of all randomness."},
    {.name = "data_sha256",
     AH_TEXT_AT(ah_signature_run, data_sha256),
     .form = AH_TEXT_SHA256,
     .about = "Identity of the data set."},
    {.name = "schedule",
     AH_TEXT_AT(ah_signature_run, schedule),
     .form = AH_TEXT_NAME,
     .about = "Shape of the learning rate over steps."},
    {.name = "lr", AH_NUMBER_AT(ah_signature_run, lr), .max = 1e3, .about = "Highest learning rate."},
    {.name = "beta1", AH_NUMBER_AT(ah_signature_run, beta1), .max = 1, .about = "Decay of the first moment."},
    {.name = "beta2",
     AH_NUMBER_AT(ah_signature_run, beta2),
     .max = 1,
     .about = "Decay of the second moment."},
    {.name = "epsilon",
     AH_NUMBER_AT(ah_signature_run, epsilon),
     .max = 1,
     .about = "Added to the root of the second moment."},
    {.name = "weight_decay",
     AH_NUMBER_AT(ah_signature_run, weight_decay),
     .max = 1e3,
     .about = "Decoupled decay."},
    {.name = "warmup_steps",
     AH_COUNT_AT(ah_signature_run, warmup_steps),
     .max = AH_FIELD_COUNT_MAX,
     .about = "Steps of rising rate."},
    {.name = "steps",
     AH_COUNT_AT(ah_signature_run, steps),
     .max = AH_FIELD_COUNT_MAX,
     .about = "Steps that the schedule spans."},
    {0}};
static const struct ah_field_table run_table = {.name = "signature_run",
                                                .about = "What is chosen when a run begins.",
                                                .bytes = sizeof(struct ah_signature_run),
                                                .fields = run_fields};

static const struct ah_field signature_fields[] = {
    {.name = "model_sha256",
     AH_TEXT_AT(ah_signature, model_sha256),
     .form = AH_TEXT_SHA256,
     .about = "Of the model's canonical document."},
    {.name = "trainable",
     AH_TEXTS_AT(ah_signature, trainable),
     .min_items = 1,
     .max_items = 1024,
     .about = "Patterns of trained tensors; ! excludes, the last match counts."},
    {.name = "dtype",
     AH_WORD_AT(ah_signature, dtype, ah_words_dtype),
     .about = "Of weights and activations."},
    {.name = "state_dtype",
     AH_WORD_AT(ah_signature, state_dtype, ah_words_dtype),
     .about = "Of the optimizer's moments."},
    {.name = "batch",
     AH_COUNT_AT(ah_signature, batch),
     .min = 1,
     .max = 16777216,
     .about = "Sequences of a step."},
    {.name = "micro_batches",
     AH_COUNT_AT(ah_signature, micro_batches),
     .min = 1,
     .max = 16777216,
     .about = "Parts that a batch is computed in."},
    {.name = "seq",
     AH_COUNT_AT(ah_signature, seq),
     .min = 1,
     .max = 268435456,
     .about = "Tokens of a sequence."},
    {.name = "clip",
     AH_NUMBER_AT(ah_signature, clip),
     .max = 1e30,
     .about = "Largest norm of the gradient; 0: not clipped."},
    {.name = "device", AH_WORD_AT(ah_signature, device, ah_words_device_kind), .about = "Kind of device."},
    {.name = "matmul_sha256",
     AH_TEXT_AT(ah_signature, matmul_sha256),
     .form = AH_TEXT_SHA256,
     .flags = AH_FIELD_OPTIONAL,
     .about = "Of the device's table of matrix algorithms."},
    {.name = "run",
     AH_GROUP_AT(ah_signature, run, &run_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "What a plan does not know."},
    {0}};
const struct ah_field_table ah_signature_table = {
    .name = "numeric_signature",
    .about = "What decides the bits of a run; equal signatures give equal losses and weights.",
    .bytes = sizeof(struct ah_signature),
    .fields = signature_fields};

static bool same_texts(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
    bool same = n_a == n_b;
    for (size_t i = 0; i < n_a && same; i++)
        same = strcmp(a[i], b[i]) == 0;
    return same;
}

static bool same_value(const struct ah_field *field, const void *a, const void *b)
{
    const char *place_a = ah_field_place(field, a);
    const char *place_b = ah_field_place(field, b);
    if (field->list)
        return same_texts(*(const char *const *const *)(const void *)place_a, ah_field_items(field, a),
                          *(const char *const *const *)(const void *)place_b, ah_field_items(field, b));
    if (field->type != AH_FIELD_TEXT)
        return memcmp(place_a, place_b, ah_field_item_bytes(field)) == 0;
    return strcmp(*(const char *const *)(const void *)place_a, *(const char *const *)(const void *)place_b) ==
           0;
}

static const struct ah_field *first_difference(const struct ah_field_table *table, const void *a,
                                               const void *b)
{
    for (const struct ah_field *field = table->fields; field->name; field++) {
        bool known = !ah_field_absent(field, a) && !ah_field_absent(field, b);
        if (known && field->type != AH_FIELD_GROUP && !same_value(field, a, b))
            return field;
    }
    return NULL;
}

bool ah_signature_differs(const struct ah_signature *a, const struct ah_signature *b,
                          char out[AH_SIGNATURE_PATH_MAX])
{
    const struct ah_field *field = first_difference(&ah_signature_table, a, b);
    bool run = false;
    if (!field && a->run && b->run) {
        field = first_difference(&run_table, a->run, b->run);
        run = field != NULL;
    }
    if (field)
        snprintf(out, AH_SIGNATURE_PATH_MAX, "%s%s", run ? "run." : "", field->name);
    return field != NULL;
}
