/* SPDX-License-Identifier: Apache-2.0
 *
 * Export: translates a plan into another system's settings, and lists the decisions that it cannot follow.
 *
 * A plan decides block by block; DeepSpeed, Megatron and torchtitan have one switch, or one share, for all blocks.
 * If a setting has such a value, Export chooses one with which the target needs no more device memory than the plan. It
 * lists every decision that the target will not follow (a LOSS): which blocks, what the plan says, what the target does
 * instead, and the effect. Losses that decide whether the export is useful come first. Values that no plan contains
 * (learning rate, data, the model's shape) are not losses; notes name them. docs/export.md has every setting, its
 * source and the version that it was checked against.
 *
 *     struct ah_export export;
 *     rc = ah_export_plan(plan, digest, AH_EXPORT_MEGATRON, arena, &export, err);
 *     ah_export_print(&export, &out);       // the target's file
 *
 * It uses no files and no state; equal plans give equal bytes.
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

/* What a loss changes, in the order in which losses are listed. X(value, word, text in messages). */
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

/* One decision of the plan that the target does not follow. */
struct ah_export_loss {
    enum ah_export_effect effect;
    const char *field;   /* field of the plan: "blocks.optimizer", "memory", ... */
    const char *blocks;  /* "layer.0-1, layer.4": the blocks concerned; NULL: the plan as a whole */
    const char *plan;    /* what the plan says, a clause */
    const char *instead; /* what the target does, a clause that begins with its name */
};

enum { AH_EXPORT_SETTINGS_MAX = 24, AH_EXPORT_LOSSES_MAX = 16, AH_EXPORT_NOTES_MAX = 4 };

struct ah_export {
    enum ah_export_target target;
    const struct ah_plan *plan; /* borrowed */
    const char *plan_sha256;    /* borrowed */
    const char *version; /* "Megatron-LM core 0.14.0": what the settings were checked against; static */
    struct ah_export_setting settings[AH_EXPORT_SETTINGS_MAX];
    size_t n_settings;
    struct ah_export_loss losses[AH_EXPORT_LOSSES_MAX];
    size_t n_losses;
    const char *notes[AH_EXPORT_NOTES_MAX]; /* values that no plan contains, and where they come from */
    size_t n_notes;
};

/* Fills `ret_export`; texts in `arena`; `plan` and its digest stay borrowed. AH_E_MEMORY only. */
int ah_export_plan(const struct ah_plan *plan, const char *plan_sha256, enum ah_export_target target,
                   struct ah_arena *arena, struct ah_export *ret_export, struct ah_error *err);

/* Appends "written for Megatron-LM core 0.14.0 from the plan with digest 0a1b...", one line without its end. */
void ah_export_print_origin(const struct ah_export *export, struct ah_buffer *out);

/* Appends "lost (may not fit): layer.0-1: <plan>; <instead>", one line without its end. */
void ah_export_print_loss(const struct ah_export_loss *loss, struct ah_buffer *out);

/* Appends the target's file: JSON, a bash array of arguments, or TOML; with losses and notes as comments if the format
 * has comments. Ends with a newline. */
void ah_export_print(const struct ah_export *export, struct ah_buffer *out);

/* Appends the settings as one compact JSON object, sections as objects, flags as true. Numbers that are not
 * finite become texts ("inf"). */
void ah_export_print_settings(const struct ah_export *export, struct ah_buffer *out);

#endif
