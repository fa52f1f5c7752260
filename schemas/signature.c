/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a numeric signature, and how two are compared.
 */
#include "schemas/signature.h"

#include "schemas/rows_internal.h"
#include "schemas/signature_internal.h"

#include <stdio.h>
#include <string.h>

static const struct ah_field run_fields[] = {
    AH_ROW_COUNT(ah_signature_run, seed, 0, AH_FIELD_COUNT_MAX, "Seed of everything random."),
    AH_ROW_SHA256(ah_signature_run, data_sha256, "Identity of the data set."),
    {.name = "base_sha256",
     AH_TEXT_AT(ah_signature_run, base_sha256),
     .form = AH_TEXT_SHA256,
     .flags = AH_FIELD_OPTIONAL,
     .about = "With adapters: identity of the weights of the base model; absent: they are initial weights."},
    AH_ROW_NAME(ah_signature_run, schedule, "Shape of the learning rate over steps."),
    AH_ROW_NUMBER(ah_signature_run, lr, 1e3, "Highest learning rate."),
    AH_ROW_NUMBER(ah_signature_run, beta1, 1, "Decay of the first moment."),
    AH_ROW_NUMBER(ah_signature_run, beta2, 1, "Decay of the second moment."),
    AH_ROW_NUMBER(ah_signature_run, epsilon, 1, "Added to the root of the second moment."),
    AH_ROW_NUMBER(ah_signature_run, weight_decay, 1e3, "Decoupled decay."),
    AH_ROW_COUNT(ah_signature_run, warmup_steps, 0, AH_FIELD_COUNT_MAX, "Steps of rising rate."),
    AH_ROW_COUNT(ah_signature_run, steps, 0, AH_FIELD_COUNT_MAX, "Steps that the schedule spans."),
    {0}};
AH_TABLE(run, ah_signature_run, "signature_run", "Settings chosen when a run begins.", NULL);

static const struct ah_field signature_fields[] = {
    AH_ROW_SHA256(ah_signature, model_sha256, "Digest of the model's canonical document."),
    {.name = "trainable",
     AH_TEXTS_AT(ah_signature, trainable),
     .min_items = 1,
     .max_items = 1024,
     .about = "Patterns of trained tensors; ! excludes, the last match counts."},
    AH_ROW_WORD(ah_signature, dtype, ah_words_dtype, "Type of weights and activations."),
    AH_ROW_WORD(ah_signature, state_dtype, ah_words_dtype, "Type of the optimizer's moments."),
    AH_ROW_COUNT(ah_signature, batch, 1, AH_BATCH_MAX, "Sequences of a step."),
    AH_ROW_COUNT(ah_signature, micro_batches, 1, AH_BATCH_MAX, "Micro-batches of a step."),
    AH_ROW_COUNT(ah_signature, seq, 1, AH_SEQ_MAX, "Tokens of a sequence."),
    AH_ROW_NUMBER(ah_signature, clip, AH_CLIP_MAX, "Largest norm of the gradient; 0: not clipped."),
    AH_ROW_SUMS(ah_signature),
    AH_ROW_TIED(ah_signature),
    AH_ROW_WORD(ah_signature, device, ah_words_device_kind, "Kind of device."),
    {.name = "matmul_sha256",
     AH_TEXT_AT(ah_signature, matmul_sha256),
     .form = AH_TEXT_SHA256,
     .flags = AH_FIELD_OPTIONAL,
     .about = "Digest of the device's table of matrix algorithms."},
    {.name = "run",
     AH_GROUP_AT(ah_signature, run, &run_table),
     .flags = AH_FIELD_OPTIONAL,
     .about = "Settings that a plan does not contain."},
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

static bool same_counts(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b)
{
    return n_a == n_b && (!n_a || memcmp(a, b, n_a * sizeof *a) == 0);
}

static bool same_value(const struct ah_field *field, const void *a, const void *b)
{
    const char *place_a = ah_field_address(field, a);
    const char *place_b = ah_field_address(field, b);
    if (field->list && field->type == AH_FIELD_COUNT)
        return same_counts(*(const uint64_t *const *)(const void *)place_a, ah_field_items(field, a),
                           *(const uint64_t *const *)(const void *)place_b, ah_field_items(field, b));
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
        /* an absent `sums` or `tied` has a meaning, too */
        const bool says = (field->list && field->type == AH_FIELD_COUNT) || field->type == AH_FIELD_WORD;
        bool known = says || (!ah_field_absent(field, a) && !ah_field_absent(field, b));
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
        /* the base of adapters: weights that were given, or initial ones */
        if (!field && !a->run->base_sha256 != !b->run->base_sha256) {
            field = ah_field_find(&run_table, "base_sha256");
            run = true;
        }
    }
    if (field)
        snprintf(out, AH_SIGNATURE_PATH_MAX, "%s%s", run ? "run." : "", field->name);
    return field != NULL;
}
