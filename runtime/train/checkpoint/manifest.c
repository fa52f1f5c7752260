/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/manifest_internal.h"

#include "runtime/model/safetensors.h"
#include "runtime/train/checkpoint/stream_internal.h"
#include "schemas/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VALUE_TEXT_MAX = 96 };

int ah_manifest_load(struct ah_document *ret_manifest, const char *folder, struct ah_error *err)
{
    char path[PATH_MAX];
    uint64_t bytes;
    int rc = ah_stream_path(folder, AH_CHECKPOINT_MANIFEST, path, err);
    if (!rc)
        rc = ah_stream_size(folder, AH_CHECKPOINT_MANIFEST, &bytes, err);
    return rc ? rc : ah_document_load(ret_manifest, path, AH_DOCUMENT_CHECKPOINT, err);
}

const struct ah_checkpoint_file *ah_manifest_file(const struct ah_checkpoint *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->n_files; i++)
        if (strcmp(manifest->files[i].name, name) == 0)
            return &manifest->files[i];
    return NULL;
}

/* Prints a number in the format of documents. */
static void print_number(double number, char out[VALUE_TEXT_MAX])
{
    struct ah_buffer text = {0};
    ah_json_put_number(&text, number);
    snprintf(out, VALUE_TEXT_MAX, "%s", text.failed ? "" : text.data);
    ah_buffer_release(&text);
}

/* Prints the value of a field of the signature: "42" for "run.seed"; "" for lists. */
static void print_value(const struct ah_document *document, const char *field, char out[VALUE_TEXT_MAX])
{
    char path[AH_SIGNATURE_PATH_MAX + sizeof "numeric_signature."];
    struct ah_value value = {0};
    snprintf(path, sizeof path, "numeric_signature.%s", field);
    out[0] = '\0';
    if (ah_document_lookup(document, path, &value, NULL))
        return;
    if (value.kind == AH_VALUE_NUMBER)
        print_number(value.number, out);
    if (value.kind == AH_VALUE_TEXT)
        snprintf(out, VALUE_TEXT_MAX, "%s", value.text);
}

int ah_manifest_check_signature(const struct ah_document *manifest, const char *folder,
                                const struct ah_signature *signature, struct ah_error *err)
{
    char field[AH_SIGNATURE_PATH_MAX], theirs[VALUE_TEXT_MAX], ours[VALUE_TEXT_MAX];
    struct ah_checkpoint body = {.numeric_signature = *signature};
    const struct ah_document own = {.kind = AH_DOCUMENT_CHECKPOINT, .body.checkpoint = &body};
    if (!ah_signature_differs(&manifest->body.checkpoint->numeric_signature, signature, field))
        return AH_OK;
    print_value(manifest, field, theirs);
    print_value(&own, field, ours);
    if (!theirs[0] || !ours[0])
        return ah_stream_say(err, AH_E_MISMATCH, folder,
                             "belongs to another run: its '%s' differs; use the value that it was made with, "
                             "or name another checkpoint",
                             field);
    return ah_stream_say(err, AH_E_MISMATCH, folder,
                         "belongs to another run: its '%s' is %s, this run's is %s; use the value that it "
                         "was made with, or name another checkpoint",
                         field, theirs, ours);
}

/* Fails if the folder has weights outside the manifest that readers would prefer to those in it. */
static int check_strangers(const struct ah_checkpoint *manifest, const char *folder, struct ah_error *err)
{
    static const char *const names[] = {AH_SAFETENSORS_FILE, AH_SAFETENSORS_INDEX};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int rc = ah_stream_path(folder, names[i], path, err);
        if (rc)
            return rc;
        if (!ah_manifest_file(manifest, names[i]) && access(path, F_OK) == 0)
            return ah_stream_say(err, AH_E_DOCUMENT, path,
                                 "is not in the checkpoint's manifest; move it elsewhere");
    }
    return AH_OK;
}

int ah_manifest_check_files(const struct ah_document *manifest, const char *folder, struct ah_error *err)
{
    const struct ah_checkpoint *body = manifest->body.checkpoint;
    for (size_t i = 0; i < body->n_files; i++) {
        const struct ah_checkpoint_file *file = &body->files[i];
        char path[PATH_MAX];
        uint64_t bytes = 0;
        int rc = ah_stream_path(folder, file->name, path, err);
        if (!rc)
            rc = ah_stream_size(folder, file->name, &bytes, err);
        if (!rc && bytes != file->bytes)
            rc = ah_stream_say(err, AH_E_DOCUMENT, path,
                               "has %" PRIu64 " bytes but the manifest says %" PRIu64 "; the checkpoint is "
                               "damaged",
                               bytes, file->bytes);
        if (rc)
            return rc;
    }
    return check_strangers(body, folder, err);
}
