/* SPDX-License-Identifier: Apache-2.0
 *
 * Merge: makes a whole model of a base model and an adapter in peft's files.
 *
 *     const struct ah_merge_options options = {.model = model, .base = "llama", .adapter = "out/step-00000500"};
 *     rc = ah_merge(&options, "merged", err);
 *
 * A matrix with an adapter becomes W + s B A, computed in fp32 and rounded once; a tensor that was trained whole is the
 * adapter's; all others are the base's. A file has the base's tensors, in BF16 if all of them are, else in F32. Nothing
 * is in memory but one file's table, one adapter, and a piece of a tensor.
 */
#ifndef AH_RUN_MERGE_H
#define AH_RUN_MERGE_H

#include "base/error.h"
#include "schemas/model.h"

#include <stdbool.h>

struct ah_merge_options {
    const struct ah_model *model; /* the base's */
    const char *base;             /* folder of safetensors */
    const char *adapter;          /* folder of an adapter */
    /* (optional) called between pieces; returns false to stop: AH_E_INTERRUPTED */
    bool (*progress)(void *context, double share);
    void *context;
};

/* What was merged. */
struct ah_merged {
    uint64_t adapters; /* number of matrices with an adapter */
    uint64_t replaced; /* number of tensors that were trained whole */
    uint64_t bytes;
};

/* Writes `folder`, which must not exist: into FOLDER.tmp, which is renamed last. AH_E_MISMATCH: a tensor of the adapter
 * does not fit the base. AH_E_UNSUPPORTED names a setting of the adapter. AH_E_IO, AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_merge(const struct ah_merge_options *options, const char *folder, struct ah_merged *ret_merged,
             struct ah_error *err);

#endif
