/* SPDX-License-Identifier: Apache-2.0
 *
 * Numeric signature: everything that decides the bits of a training run. Equal signatures give equal losses and weights
 * on one device kind, whatever a plan offloads, recomputes or reorders.
 *
 * A plan knows the first part; a run log and a checkpoint know all of it. Fields that are not known yet are absent and
 * agree with anything. `sums`, `tied` and `run.base_sha256` are always known: if absent, there is one group, one table,
 * and a base of initial weights.
 */
#ifndef AH_SCHEMAS_SIGNATURE_H
#define AH_SCHEMAS_SIGNATURE_H

#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest batch (and number of micro-batches), sequence and gradient norm that documents allow. */
enum { AH_BATCH_MAX = 16777216, AH_SEQ_MAX = 268435456 };
#define AH_CLIP_MAX 1e30

/* The part that a plan does not know, because it is chosen when a run begins. */
struct ah_signature_run {
    uint64_t seed;
    const char *data_sha256; /* identity of the data set */
    const char
        *base_sha256;     /* (optional) with adapters: identity of the weights that they are trained beside */
    const char *schedule; /* "constant", "cosine", ... */
    double lr;
    double beta1, beta2;
    double epsilon;
    double weight_decay;
    uint64_t warmup_steps;
    uint64_t steps; /* steps that the schedule spans */
};

struct ah_signature {
    const char *model_sha256;
    const char **trainable; /* patterns of tensor names; "!" excludes; the last match decides */
    size_t n_trainable;
    enum ah_dtype dtype;
    enum ah_dtype state_dtype;
    uint64_t batch;
    uint64_t micro_batches;
    uint64_t seq;
    double clip; /* 0: none */
    uint64_t *
        /* micro-batches per group; a group's gradients are added up, then added to those of the groups before it */
        sums;
    size_t n_sums; /* 0: one group */
    enum ah_tied tied;
    enum ah_device_kind device;
    const char *matmul_sha256;    /* (optional) of the device's table of matrix algorithms */
    struct ah_signature_run *run; /* (optional) */
};

/* True if a field known to both differs; `out` gets the path of the first such field ("seq", "run.seed"). */
enum { AH_SIGNATURE_PATH_MAX = 64 };
bool ah_signature_differs(const struct ah_signature *a, const struct ah_signature *b,
                          char out[AH_SIGNATURE_PATH_MAX]);

#endif
