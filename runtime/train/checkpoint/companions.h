/* SPDX-License-Identifier: Apache-2.0
 *
 * Companions: files in a folder of weights without which other programs cannot use the model: tokenizer, chat template,
 * and settings of generation. Training does not use them, but copies them to each saved folder, byte for byte.
 *
 *     struct ah_companions companions = {0};
 *     rc = ah_companions_read(&companions, "Qwen2.5-0.5B", err);
 *     job.companions = &companions;
 *     ah_companions_release(&companions);
 *
 * They stay in memory during the whole run, because the checkpoint they come from may be removed meanwhile.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_COMPANIONS_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_COMPANIONS_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { AH_COMPANIONS_MAX = 16 };

struct ah_companion {
    const char *name; /* without a folder; static */
    struct ah_buffer bytes;
};

struct ah_companions {
    size_t n;
    struct ah_companion items[AH_COMPANIONS_MAX];
};

/* Reads all companions in `folder`; there may be none. AH_E_IO: a file cannot be read, or is larger than 256 MiB.
 * `ret_companions` must be empty; release it also after a failure. */
int ah_companions_read(struct ah_companions *ret_companions, const char *folder, struct ah_error *err);

/* True if one of the companions is a tokenizer: tokenizer.json, tokenizer.model, vocab.json or vocab.txt. */
bool ah_companions_has_tokenizer(const struct ah_companions *companions);

bool ah_companions_has_name(const char *name);

void ah_companions_release(struct ah_companions *companions);

#endif
