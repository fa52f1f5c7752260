/* SPDX-License-Identifier: Apache-2.0
 *
 * The `resume` document, resume.json beside a run's checkpoints: the options that `run --resume` keeps unless they are
 * given again. None of them changes a bit of the result. Paths are absolute, so a run can resume from any folder.
 */
#ifndef AH_SCHEMAS_RESUME_H
#define AH_SCHEMAS_RESUME_H

#include "schemas/field.h"

#include <stddef.h>
#include <stdint.h>

#define AH_RESUME_FILE "resume.json"

/* The best checkpoint by held-out loss. */
struct ah_resume_best {
    uint64_t step;
    double loss;
};

struct ah_resume {
    const char *generator;
    const char **data;
    size_t n_data;
    const char *data_format; /* NULL: detected per file */
    const char **valid;
    size_t n_valid;
    const char *weights;  /* with adapters: the base model's; NULL: initial weights */
    uint64_t valid_every; /* steps; 0: only at the end */
    uint64_t save_every;  /* steps; 0: only at the end */
    uint64_t keep;        /* checkpoints; 0: all */
    const char *log;      /* NULL: none */
    double first_loss;    /* median of the first steps, to detect divergence; 0: too few steps yet */
    bool keeps_best;
    struct ah_resume_best *best; /* NULL: none yet, or not kept */
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

#endif
