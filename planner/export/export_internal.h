/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of export. A target is a function that adds settings and losses to a draft.
 */
#ifndef AH_PLANNER_EXPORT_EXPORT_INTERNAL_H
#define AH_PLANNER_EXPORT_EXPORT_INTERNAL_H

#include "planner/export/export.h"

/* Totals of a plan. Layers are the transformer blocks: all but the first and the last block. */
struct ah_export_sums {
    size_t layers;
    size_t layers_recompute;
    size_t layers_selective;
    bool saving_first;           /* only the first layers, without a gap, save less */
    uint64_t trained_parameters; /* parameters of blocks that have an optimizer */
    uint64_t host_parameters;    /* parameters of blocks with optimizer `host` or `streamed` */
    bool host_first;             /* the first trained blocks are those counted in host_parameters */
    uint64_t device_weights;     /* parameters of blocks with weights on the device */
    uint64_t
        largest_host_weight; /* parameters of the largest block with weights on the host; 0: there is none */
    uint64_t largest_block;
};

struct ah_export_draft {
    const struct ah_plan *plan;
    struct ah_export_sums sums;
    struct ah_export *export;
    struct ah_arena *arena;
    bool failed; /* out of memory, or an array is full (a bug) */
};

typedef bool ah_export_block_test(const struct ah_plan_block *block);

bool ah_export_weights_host(const struct ah_plan_block *block);
bool ah_export_weights_device(const struct ah_plan_block *block);
bool ah_export_optimizer_host(const struct ah_plan_block *block);   /* host or streamed */
bool ah_export_optimizer_device(const struct ah_plan_block *block); /* device */
bool ah_export_recomputes(const struct ah_plan_block *block);
bool ah_export_saves_less(const struct ah_plan_block *block); /* recompute or selective */
bool ah_export_selective(const struct ah_plan_block *block);

void ah_export_add_bool(struct ah_export_draft *draft, const char *path, bool value);
void ah_export_add_integer(struct ah_export_draft *draft, const char *path, uint64_t value);
void ah_export_add_number(struct ah_export_draft *draft, const char *path, double value);
void ah_export_add_text(struct ah_export_draft *draft, const char *path, const char *text);
void ah_export_add_flag(struct ah_export_draft *draft, const char *path);
void ah_export_add_note(struct ah_export_draft *draft, const char *note);

/* Adds a loss for the blocks that pass `test`, if there are any. `test` NULL: for the plan as a whole. */
void ah_export_lose(struct ah_export_draft *draft, enum ah_export_effect effect, const char *field,
                    ah_export_block_test *test, const char *plan, const char *instead);

/* Returns host_parameters / trained_parameters, rounded up to six digits: the target keeps no more on the device. */
double ah_export_host_share(const struct ah_export_sums *sums);

/* Adds losses common to all targets: frozen tensors, streamed states, orders, limits of memory, bf16 states. */
void ah_export_lose_common(struct ah_export_draft *draft);

void ah_export_deepspeed(struct ah_export_draft *draft);
void ah_export_megatron(struct ah_export_draft *draft);
void ah_export_torchtitan(struct ah_export_draft *draft);

#endif
