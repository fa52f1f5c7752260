/* SPDX-License-Identifier: Apache-2.0
 *
 * Numeric signature: what decides the bits of a training run. Equal signatures give equal losses and weights
 * on one device kind, whatever a plan offloads, recomputes or reorders.
 *
 * A plan knows the first part; a run log and a checkpoint know all of it. Fields that are not known yet are absent and
 * agree with anything. `sums` and `tied` are always known: absent, they mean one group, and one table.
 */
#ifndef AH_SCHEMAS_SIGNATURE_H
#define AH_SCHEMAS_SIGNATURE_H

#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that documents allow for a batch (and its micro-batches), a sequence, and the norm of a gradient. */
enum { AH_BATCH_MAX = 16777216, AH_SEQ_MAX = 268435456 };
#define AH_CLIP_MAX 1e30

/* What a plan does not know, because it is chosen when a run begins. */
struct ah_signature_run {
    uint64_t seed;
    const char *data_sha256; /* identity of the data set */
    const char *schedule;    /* "constant", "cosine", ... */
    double lr;
    double beta1, beta2;
    double epsilon;
    double weight_decay;
    uint64_t warmup_steps;
    uint64_t steps; /* that the schedule spans */
};

struct ah_signature {
    const char *model_sha256;
    const char **trainable; /* patterns of tensor names, "!" excludes, the last match counts */
    size_t n_trainable;
    enum ah_dtype dtype;
    enum ah_dtype state_dtype;
    uint64_t batch;
    uint64_t micro_batches;
    uint64_t seq;
    double clip; /* 0: none */
    uint64_t *
        sums; /* micro-batches of each group whose gradients are added up by themselves, then to the groups before it */
    size_t n_sums; /* 0: all of them are one group */
    enum ah_tied tied;
    enum ah_device_kind device;
    const char *matmul_sha256;    /* (optional) of the device's table of matrix algorithms */
    struct ah_signature_run *run; /* (optional) */
};

/* Path of the first field that both know and that differs ("seq", "run.seed"), in `out`; false: they agree. */
enum { AH_SIGNATURE_PATH_MAX = 64 };
bool ah_signature_differs(const struct ah_signature *a, const struct ah_signature *b,
                          char out[AH_SIGNATURE_PATH_MAX]);

#endif
