/* SPDX-License-Identifier: Apache-2.0
 *
 * Mix: how often the documents of each input are taken, and what became of the inputs. FOLDER/inputs.json keeps that
 * beside token files (token_files.h).
 *
 * With weight w, every document of an input is taken floor(w) times, and a share w - floor(w) of them once more. Which
 * ones is a function of seed, number of the input and number of the document (base/philox.h), so every run takes the
 * same, on any number of threads.
 */
#ifndef AH_RUNTIME_TEXT_MIX_H
#define AH_RUNTIME_TEXT_MIX_H

#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define AH_MIX_FILE "inputs.json"
enum { AH_MIX_WEIGHT_MOST = 1000 };

/* What is in token files, without padding. A document that was taken twice counts twice. */
struct ah_mix_part {
    uint64_t documents, tokens;
};

struct ah_mix_input {
    const char *path; /* borrowed, or in the arena of ah_mix_load() */
    double weight;    /* above 0, at most AH_MIX_WEIGHT_MOST */
    uint64_t read;    /* its documents, taken or not */
    struct ah_mix_part train, held_out;
};

struct ah_mix {
    uint64_t seed;
    struct ah_mix_input *inputs; /* (n) borrowed, or in the arena of ah_mix_load() */
    size_t n;
};

/* Returns how often a document is taken. `input` is below 2^16, `document` below 2^40; both count from 0. */
uint32_t ah_mix_copies(const struct ah_mix *mix, size_t input, uint64_t document);

/* Returns the input's share of the tokens to train on, 0 to 1. */
double ah_mix_share(const struct ah_mix *mix, size_t input);

/* Writes FOLDER/inputs.json. AH_E_IO, AH_E_MEMORY. */
int ah_mix_save(const struct ah_mix *mix, const char *folder, struct ah_error *err);

/* Reads FOLDER/inputs.json. No inputs, if there is no such file, or one of another program. AH_E_MEMORY. */
int ah_mix_load(struct ah_mix *ret_mix, const char *folder, struct ah_arena *arena, struct ah_error *err);

#endif
