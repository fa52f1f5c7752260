/* SPDX-License-Identifier: Apache-2.0 */
#include "schemas/checkpoint.h"

#include "schemas/kinds_internal.h"
#include "schemas/rows_internal.h"
#include "schemas/signature_internal.h"

#include <string.h>

#define BYTES_MAX AH_FIELD_COUNT_MAX

static const char *const kind_words[] = {"checkpoint", NULL};

static const struct ah_field file_fields[] = {
    {.name = "name",
     AH_TEXT_AT(ah_checkpoint_file, name),
     .form = AH_TEXT_FILE,
     .about = "Its name in the checkpoint's folder."},
    AH_ROW_COUNT(ah_checkpoint_file, bytes, 0, BYTES_MAX, "Its size."),
    AH_ROW_SHA256(ah_checkpoint_file, sha256, "Digest of its content."),
    {0}};
AH_TABLE(file, ah_checkpoint_file, "file", "A file of the checkpoint.", NULL);

static const struct ah_field tensor_fields[] = {
    {.name = "name", AH_TEXT_AT(ah_checkpoint_tensor, name), .about = "As the file spells it."},
    {.name = "file",
     AH_TEXT_AT(ah_checkpoint_tensor, file),
     .form = AH_TEXT_FILE,
     .about = "The safetensors file."},
    AH_ROW_WORD(ah_checkpoint_tensor, dtype, ah_words_dtype, "Type of its elements."),
    {.name = "shape",
     AH_COUNTS_AT(ah_checkpoint_tensor, shape),
     .min = 1,
     .max = BYTES_MAX,
     .min_items = 1,
     .max_items = 8,
     .about = "Its shape, row-major."},
    {0}};
AH_TABLE(tensor, ah_checkpoint_tensor, "tensor", "A weight.", NULL);

static const struct ah_field state_fields[] = {
    AH_ROW_COUNT(ah_checkpoint_state, block, 0, 10001, "Index of the block."),
    {.name = "file",
     AH_TEXT_AT(ah_checkpoint_state, file),
     .form = AH_TEXT_FILE,
     .about = "Where its states are."},
    AH_ROW_COUNT(ah_checkpoint_state, count, 1, BYTES_MAX, "Elements of the flat vector."),
    AH_ROW_WORD(ah_checkpoint_state, state_dtype, ah_words_dtype, "Type of the moments."),
    AH_ROW_COUNT(ah_checkpoint_state, master_offset_bytes, 0, BYTES_MAX, "Master weights, fp32."),
    AH_ROW_COUNT(ah_checkpoint_state, m_offset_bytes, 0, BYTES_MAX, "First moment."),
    AH_ROW_COUNT(ah_checkpoint_state, v_offset_bytes, 0, BYTES_MAX, "Second moment."),
    {0}};
AH_TABLE(state, ah_checkpoint_state, "state", "The optimizer's states of a block.", NULL);

static const struct ah_checkpoint_file *find_file(const struct ah_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->n_files; i++)
        if (strcmp(checkpoint->files[i].name, name) == 0)
            return &checkpoint->files[i];
    return NULL;
}

/* True if [offset, offset + count * bytes) is inside the file. */
static bool inside(const struct ah_checkpoint_file *file, uint64_t offset, uint64_t count, uint64_t bytes)
{
    return offset <= file->bytes && count <= (file->bytes - offset) / bytes;
}

static int check_state(const struct ah_checkpoint *checkpoint, size_t i, struct ah_error *err)
{
    const struct ah_checkpoint_state *state = &checkpoint->states[i];
    const struct ah_checkpoint_file *file = find_file(checkpoint, state->file);
    uint64_t moment_bytes = state->state_dtype == AH_FP32 ? 4 : 2;
    const struct {
        const char *field;
        uint64_t offset_bytes, element_bytes;
    } parts[] = {{"master_offset_bytes", state->master_offset_bytes, 4},
                 {"m_offset_bytes", state->m_offset_bytes, moment_bytes},
                 {"v_offset_bytes", state->v_offset_bytes, moment_bytes}};
    if (!file)
        return ah_meaning_fail_item(err, "states", i, "file", "'%s' is not in files", state->file);
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        if (!inside(file, parts[k].offset_bytes, state->count, parts[k].element_bytes))
            return ah_meaning_fail_item(err, "states", i, parts[k].field, "extends beyond the end of '%s'",
                                        state->file);
    return AH_OK;
}

static int check_digest(const struct ah_checkpoint *checkpoint, struct ah_error *err)
{
    char digest[AH_DOCUMENT_DIGEST_MAX];
    struct ah_checkpoint body = *checkpoint;
    const struct ah_document document = {.kind = AH_DOCUMENT_CHECKPOINT, .body.checkpoint = &body};
    if (!checkpoint->sha256)
        return AH_OK;
    int rc = ah_document_digest(&document, digest, err);
    if (rc || !strcmp(digest, checkpoint->sha256))
        return rc;
    return ah_meaning_fail(err, "sha256", "does not match this document, which was damaged or edited");
}

static int checkpoint_check(const void *group, struct ah_error *err)
{
    const struct ah_checkpoint *checkpoint = group;
    int rc = checkpoint->numeric_signature.run ? AH_OK
                                               : ah_meaning_fail(err, "numeric_signature.run",
                                                                 "is missing; a checkpoint must record its "
                                                                 "run");
    for (size_t i = 0; i < checkpoint->n_files && !rc; i++)
        if (find_file(checkpoint, checkpoint->files[i].name) != &checkpoint->files[i])
            rc = ah_meaning_fail_item(err, "files", i, "name", "'%s' appears twice",
                                      checkpoint->files[i].name);
    for (size_t i = 0; i < checkpoint->n_tensors && !rc; i++)
        if (!find_file(checkpoint, checkpoint->tensors[i].file))
            rc = ah_meaning_fail_item(err, "tensors", i, "file", "'%s' is not in files",
                                      checkpoint->tensors[i].file);
    for (size_t i = 0; i < checkpoint->n_states && !rc; i++)
        rc = check_state(checkpoint, i, err);
    return rc ? rc : check_digest(checkpoint, err);
}

static const struct ah_field checkpoint_fields[] = {
    AH_FIELD_HEAD(ah_checkpoint, kind_words),
    {.name = "sha256",
     AH_TEXT_AT(ah_checkpoint, sha256),
     .form = AH_TEXT_SHA256,
     .flags = AH_FIELD_OPTIONAL | AH_FIELD_ASIDE,
     .about = "Digest of this document without this field."},
    AH_ROW_COUNT(ah_checkpoint, step, 0, BYTES_MAX, "Steps done."),
    AH_ROW_COUNT(ah_checkpoint, cursor, 0, BYTES_MAX, "Sequences of the data set consumed."),
    AH_ROW_COUNT(ah_checkpoint, tokens, 0, BYTES_MAX, "Loss-bearing tokens so far."),
    AH_ROW_GROUP(ah_checkpoint, numeric_signature, &ah_signature_table, "What the run's bits depend on."),
    {.name = "files",
     AH_GROUPS_AT(ah_checkpoint, files, &file_table),
     .min_items = 1,
     .max_items = 4096,
     .about = "All other files of the checkpoint."},
    {.name = "tensors",
     AH_GROUPS_AT(ah_checkpoint, tensors, &tensor_table),
     .min_items = 1,
     .max_items = 262144,
     .about = "The weights."},
    {.name = "states",
     AH_GROUPS_AT(ah_checkpoint, states, &state_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = 10002,
     .about = "The optimizer's states, by block."},
    AH_FIELD_ANNOTATIONS(ah_checkpoint),
    {0}};
AH_TABLE(checkpoint, ah_checkpoint, "checkpoint",
         "The manifest of a checkpoint: written last, so a folder that has it is complete.",
         checkpoint_check);

const struct ah_kind ah_kind_checkpoint = {
    .table = &checkpoint_table,
    .alternatives = (const struct ah_field_table *const[]){&checkpoint_table, NULL}};
