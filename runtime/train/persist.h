/* SPDX-License-Identifier: Apache-2.0
 *
 * Persist: what a trainer holds, as checkpoints want it (checkpoint/checkpoint.h): pieces of flat vectors, at drained
 * points, without a second copy of anything.
 *
 * Masters are what is saved as weights of what is trained; loading takes them from the states, and from the weights' files
 * only what is frozen, since these have been rounded to the model's dtype.
 *
 *     const struct ah_checkpoint_source source = ah_persist_source(trainer);
 *     rc = ah_checkpoints_save(checkpoints, &position, &source, keep, &saved, err);
 */
#ifndef AH_RUNTIME_TRAIN_PERSIST_H
#define AH_RUNTIME_TRAIN_PERSIST_H

#include "runtime/train/checkpoint/checkpoint.h"
#include "runtime/train/trainer.h"

/* Both are of use as long as the trainer, which is drained. */
struct ah_checkpoint_source ah_persist_source(struct ah_trainer *trainer);
struct ah_checkpoint_sink ah_persist_sink(struct ah_trainer *trainer);

#endif
