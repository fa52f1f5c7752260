/* SPDX-License-Identifier: Apache-2.0
 *
 * Pick: chooses the next token by its logits.
 *
 * Temperature 0 takes the largest logit, of equals the first. Otherwise a token has probability softmax(logits /
 * temperature), among the fewest most probable tokens that have at least `top_p` together.
 */
#ifndef AH_RUNTIME_SAMPLE_PICK_H
#define AH_RUNTIME_SAMPLE_PICK_H

#include <stdint.h>

struct ah_pick_chance {
    double weight;
    uint32_t token;
};

struct ah_pick {
    uint64_t vocabulary;
    double temperature;
    double top_p;                /* above 0; 1: all tokens */
    struct ah_pick_chance *room; /* (vocabulary), borrowed; unused by temperature 0 */
};

/* Returns the chosen token. `uniform` is a random number, at least 0 and below 1. */
uint32_t ah_pick(const struct ah_pick *pick, const float *logits, double uniform);

#endif
