/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps: lists a folder of checkpoints by name: "step-00000100", and leftovers of their saves.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_STEPS_INTERNAL_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_STEPS_INTERNAL_H

#include "base/arena.h"
#include "runtime/train/checkpoint/manifest_internal.h"

#include <limits.h>
#include <stdbool.h>

enum { AH_STEPS_NAME_MAX = 48 };

struct ah_steps {
    size_t n;
    uint64_t *items; /* the newest first */
    size_t n_leftovers;
    uint64_t *leftovers; /* steps whose save or removal was interrupted by a kill */
};

/* Lists `folder`, tables in `arena`. AH_E_IO, AH_E_MEMORY. */
int ah_steps_list(const char *folder, struct ah_arena *arena, struct ah_steps *ret_steps,
                  struct ah_error *err);

/* Writes "FOLDER/step-00000100", followed by `ending`. AH_E_IO: the path is too long. */
int ah_steps_path(const char *folder, uint64_t step, const char *ending, char ret_path[PATH_MAX],
                  struct ah_error *err);

/* True if `name` is the name of a step followed by `ending`. */
bool ah_steps_parse(const char *name, const char *ending, uint64_t *ret_step);

/* Checks by manifest and file sizes that the checkpoint of `step` is whole. If so, loads its manifest into
 * `ret_manifest` (optional), which the caller releases. */
int ah_steps_check(const char *folder, uint64_t step, struct ah_document *ret_manifest, struct ah_error *err);

#endif
