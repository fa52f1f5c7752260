/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds adapters by the names in their file, because 'target_modules' of a config may be patterns of many kinds.
 */
#include "runtime/model/adapter.h"

#include "runtime/model/safetensors.h"
#include "runtime/model/weight_names.h"
#include "schemas/checkpoint.h"
#include "schemas/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct finding {
    struct ah_model model; /* with the adapters that are looked for */
    struct ah_safetensors files;
    struct ah_adapter_found *found;
    const char *path;
    struct ah_error *err;
};

bool ah_adapter_possible(const struct ah_model *model, enum ah_lora matrix)
{
    return ah_model_adaptable(model) >> matrix & 1;
}

/* True if the file has an adapter of the matrix in some layer. */
static bool has_adapter(const struct finding *finding, enum ah_lora matrix)
{
    char module[AH_NAMES_MODULE_MAX], ending[AH_NAMES_MODULE_MAX + 16];
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    snprintf(ending, sizeof ending, ".%s.lora_A.weight", ah_names_module(&finding->model, matrix, module));
    for (uint64_t block = 1; block <= finding->model.layers; block++) {
        const size_t n = ah_names_parts(&finding->model, block, parts);
        for (size_t i = 0; i < n; i++)
            if (strstr(parts[i].name, ending) && ah_safetensors_find(&finding->files, parts[i].name))
                return true;
    }
    return false;
}

static void find_matrices(struct finding *finding)
{
    struct ah_model_lora *lora = &finding->found->lora;
    unsigned all[AH_LORA_MATRICES], on[AH_LORA_MATRICES];
    size_t n = 0;
    lora->on = all;
    lora->n_on = 0;
    for (unsigned i = 0; i < AH_LORA_MATRICES; i++)
        if (ah_adapter_possible(&finding->model, (enum ah_lora)i))
            all[lora->n_on++] = i;
    for (size_t i = 0; i < lora->n_on; i++)
        if (has_adapter(finding, (enum ah_lora)all[i]))
            on[n++] = all[i];
    memcpy(finding->found->on, on, n * sizeof *on);
    lora->on = finding->found->on;
    lora->n_on = n;
}

/* True if an adapter's A or B is without the other. B comes after A. */
static bool is_half(const struct ah_model_tensor *tensors, size_t n, uint32_t some)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (tensors[i].adapter) {
            if ((some >> i ^ some >> (i + 1)) & 1)
                return true;
            i++;
        }
    return false;
}

/* Finds the tensors of a block of which the file has every part. */
static int find_tensors(const struct finding *finding, uint64_t block, uint32_t *ret_trained)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    uint32_t some = 0, lacks = 0;
    const size_t n = ah_names_parts(&finding->model, block, parts);
    const size_t n_tensors =
        ah_model_tensors(&finding->model, ah_model_block_kind(&finding->model, block), tensors);
    for (size_t i = 0; i < n; i++) {
        if (!tensors[parts[i].tensor].adapter)
            ah_names_in_adapter(&finding->model, &parts[i]);
        const bool has = ah_safetensors_find(&finding->files, parts[i].name);
        some |= (uint32_t)has << parts[i].tensor;
        lacks |= (uint32_t)!has << parts[i].tensor;
    }
    *ret_trained = some & ~lacks;
    if (some & lacks || is_half(tensors, n_tensors, some))
        return ah_error_set(finding->err, AH_E_UNSUPPORTED,
                            "%s: block %" PRIu64
                            " lacks an adapter or a tensor that others like it have, which is not supported",
                            finding->path, block);
    return AH_OK;
}

int ah_adapter_find(const struct ah_model *model, const char *folder, struct ah_arena *arena,
                    struct ah_adapter_found *ret_found, struct ah_error *err)
{
    struct ah_adapter_found found;
    struct finding finding = {.model = *model, .found = &found, .err = err};
    struct ah_adapter_facts facts;
    char path[PATH_MAX];
    bool any = false;
    int rc = ah_adapter_read(folder, &facts, err);
    rc = rc ? rc : ah_adapter_path(folder, path, err);
    rc = rc ? rc : ah_safetensors_open(&finding.files, path, err);
    if (rc)
        return rc;
    found.lora =
        (struct ah_model_lora){.rank = (uint64_t)facts.rank,
                               .alpha = facts.alpha,
                               .scaling = facts.rank_stabilized ? AH_LORA_RANK_STABILIZED : AH_LORA_STANDARD};
    finding.model.lora = &found.lora;
    finding.path = path;
    find_matrices(&finding);
    found.trained = ah_arena_array(arena, ah_model_blocks(model), sizeof *found.trained);
    rc = found.trained ? AH_OK : ah_error_memory(err);
    for (uint64_t block = 0; block < ah_model_blocks(model) && !rc; block++) {
        rc = find_tensors(&finding, block, &found.trained[block]);
        any |= found.trained[block] != 0;
    }
    if (!rc && !any)
        rc = ah_error_set(err, AH_E_MISMATCH,
                          "%s: has no tensor of model '%s'; is it an adapter of this model?", path,
                          model->name);
    ah_safetensors_release(&finding.files);
    if (rc)
        return rc;
    *ret_found = found;
    ret_found->lora.on = ret_found->on;
    return AH_OK;
}

int ah_adapter_has_other_base(const char *folder, const char *base, bool *ret_other, struct ah_error *err)
{
    struct ah_document manifest;
    char path[PATH_MAX], digest[AH_SHA256_HEX_MAX];
    *ret_other = false;
    if (snprintf(path, sizeof path, "%s/checkpoint.json", folder) >= PATH_MAX || access(path, F_OK))
        return AH_OK;
    int rc = ah_document_load(&manifest, path, AH_DOCUMENT_CHECKPOINT, err);
    if (rc)
        return rc;
    const struct ah_signature_run *run = manifest.body.checkpoint->numeric_signature.run;
    const char *beside = run ? run->base_sha256 : NULL;
    rc = beside ? ah_safetensors_digest(base, digest, err) : AH_OK;
    *ret_other = !rc && beside && strcmp(beside, digest) != 0;
    ah_document_release(&manifest);
    return rc;
}
