/* SPDX-License-Identifier: Apache-2.0
 *
 * Persist: makes a trainer's weights and states the source and sink of a checkpoint (checkpoint/checkpoint_folder.h).
 * They are passed in pieces of flat vectors, at drained points, without a second copy of anything.
 *
 * Weights of trained tensors are saved from their masters. Files of weights are rounded to the model's dtype. So
 * loading takes only frozen tensors from these files, and takes masters from the states.
 *
 *     const struct ah_checkpoint_source source = ah_persist_source(trainer);
 *     rc = ah_checkpoints_save(checkpoints, &position, &source, keep, &saved, err);
 */
#ifndef AH_RUNTIME_TRAIN_PERSIST_H
#define AH_RUNTIME_TRAIN_PERSIST_H

#include "runtime/train/checkpoint/checkpoint_folder.h"
#include "runtime/train/trainer.h"

/* Return a source and a sink for use at drained points, while the trainer is open. */
struct ah_checkpoint_source ah_persist_source(struct ah_trainer *trainer);
struct ah_checkpoint_sink ah_persist_sink(struct ah_trainer *trainer);

#endif
