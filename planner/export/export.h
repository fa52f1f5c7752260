/* SPDX-License-Identifier: Apache-2.0
 *
 * Export: translates a plan into another system's settings, and lists the decisions that the system cannot follow.
 *
 * A plan decides block by block; DeepSpeed, Megatron and torchtitan have one switch, or one share, for all blocks. If
 * possible, Export chooses a value with which the target needs no more device memory than the plan. Every decision that
 * the target does not follow is listed as a LOSS: which blocks, what the plan says, what the target does instead, and
 * the effect. Losses that decide whether the export is useful come first. Values outside every plan (learning rate,
 * data, the model's shape) are not losses; notes name them. docs/export.md has every setting, its source and the
 * version that it was checked against.
 *
 *     struct ah_export export;
 *     rc = ah_export_plan(plan, digest, AH_EXPORT_MEGATRON, arena, &export, err);
 *     ah_export_print(&export, &out);       // the target's file
 *
 * Export uses no files and no state; equal plans give equal bytes.
 */
#ifndef AH_PLANNER_EXPORT_EXPORT_H
#define AH_PLANNER_EXPORT_EXPORT_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AH_EXPORT_TARGETS(X)                                                                                 \
    X(AH_EXPORT_DEEPSPEED, deepspeed)                                                                        \
    X(AH_EXPORT_MEGATRON, megatron)                                                                          \
    X(AH_EXPORT_TORCHTITAN, torchtitan)

enum ah_export_target {
#define AH_EXPORT_TARGET_VALUE(value, name) value,
    AH_EXPORT_TARGETS(AH_EXPORT_TARGET_VALUE)
#undef AH_EXPORT_TARGET_VALUE
};

/* "deepspeed", ...; NULL-terminated, indexed by target. */
extern const char *const ah_words_export_target[];

enum ah_export_kind {
    AH_EXPORT_BOOL,
    AH_EXPORT_INTEGER,
    AH_EXPORT_NUMBER, /* may be infinite if the target's language allows it */
    AH_EXPORT_TEXT,
    AH_EXPORT_FLAG, /* a name without a value */
};

struct ah_export_setting {
    const char *path; /* "zero_optimization.stage"; for Megatron, the argument without its dashes */
    enum ah_export_kind kind;
    uint64_t integer; /* for INTEGER; 0 or 1 for BOOL */
    double number;
    const char *text;
};

/* The effects of losses, in the order of the list. X(value, word, text in messages). */
#define AH_EXPORT_EFFECTS(X)                                                                                 \
    X(AH_EXPORT_MEMORY, memory, "may not fit")                                                               \
    X(AH_EXPORT_RESULT, result, "other results")                                                             \
    X(AH_EXPORT_SPEED, speed, "other speed")                                                                 \
    X(AH_EXPORT_LIMIT, limit, "no limit")

enum ah_export_effect {
#define AH_EXPORT_EFFECT_VALUE(value, word, text) value,
    AH_EXPORT_EFFECTS(AH_EXPORT_EFFECT_VALUE)
#undef AH_EXPORT_EFFECT_VALUE
};

/* "memory", ...; NULL-terminated, indexed by effect. */
extern const char *const ah_words_export_effect[];

/* A decision of the plan, not followed by the target. */
struct ah_export_loss {
    enum ah_export_effect effect;
    const char *field;   /* the plan's field, for example "blocks.optimizer" */
    const char *blocks;  /* the affected blocks, "layer.0-1, layer.4"; NULL: the plan as a whole */
    const char *plan;    /* what the plan says, as a clause */
    const char *instead; /* what the target does, as a clause that begins with the target's name */
};

enum { AH_EXPORT_SETTINGS_MAX = 24, AH_EXPORT_LOSSES_MAX = 16, AH_EXPORT_NOTES_MAX = 4 };

struct ah_export {
    enum ah_export_target target;
    const struct ah_plan *plan; /* borrowed */
    const char *plan_sha256;    /* borrowed */
    const char *version; /* the version used to check the settings, "Megatron-LM core 0.14.0"; static */
    struct ah_export_setting settings[AH_EXPORT_SETTINGS_MAX];
    size_t n_settings;
    struct ah_export_loss losses[AH_EXPORT_LOSSES_MAX];
    size_t n_losses;
    const char *notes[AH_EXPORT_NOTES_MAX]; /* values outside every plan, and where to get them */
    size_t n_notes;
};

/* Fills `ret_export`, with texts in `arena`. Borrows `plan` and its digest. Fails only with AH_E_MEMORY. */
int ah_export_plan(const struct ah_plan *plan, const char *plan_sha256, enum ah_export_target target,
                   struct ah_arena *arena, struct ah_export *ret_export, struct ah_error *err);

/* Appends "written for Megatron-LM core 0.14.0 from the plan with digest 0a1b...", one line without its end. */
void ah_export_print_origin(const struct ah_export *export, struct ah_buffer *out);

/* Appends "lost (may not fit): layer.0-1: <plan>; <instead>", one line without its end. */
void ah_export_print_loss(const struct ah_export_loss *loss, struct ah_buffer *out);

/* Appends the target's file and a final newline: JSON, a bash array of arguments, or TOML. Losses and notes are
 * comments, if the format has comments. */
void ah_export_print(const struct ah_export *export, struct ah_buffer *out);

/* Appends the settings as one compact JSON object. Sections are objects, flags are true, and numbers that are not
 * finite become texts ("inf"). */
void ah_export_print_settings(const struct ah_export *export, struct ah_buffer *out);

#endif
