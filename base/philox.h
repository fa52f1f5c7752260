/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10: random bits as a pure function of a counter and a key (Salmon, Moraes, Dror, Shaw: "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). There is no state: the bits of one element at one step are the same on any
 * device and in any order of computation.
 *
 * A random draw is named by six numbers, packed so that different names give different (counter, key):
 *
 *     key      seed                      64 bits   key[0] low half, key[1] high half
 *     counter  element                   40 bits   counter[0], counter[1] bits 0-7
 *              purpose                    8 bits   counter[1] bits 8-15
 *              block                     16 bits   counter[1] bits 16-31
 *              step                      48 bits   counter[2], counter[3] bits 0-15
 *              micro_batch               16 bits   counter[3] bits 16-31
 *
 * The packing is part of the numeric signature: it never changes. Numbers too large for their bits are bugs (asserted).
 * A number that a draw does not depend on is 0.
 *
 *     uint32_t bits[4];
 *     ah_philox_draw(&(struct ah_philox_name){.seed = 42, .purpose = AH_PHILOX_INIT, .element = i}, bits);
 *     float u = ah_philox_uniform(bits[0]);
 */
#ifndef AH_BASE_PHILOX_H
#define AH_BASE_PHILOX_H

#include <assert.h>
#include <stdint.h>

enum ah_philox_purpose {
    AH_PHILOX_INIT = 1,     /* initial weights; element: index in the block's flat vector */
    AH_PHILOX_SHUFFLE = 2,  /* order of the data; step: the epoch */
    AH_PHILOX_ROUNDING = 3, /* stochastic rounding of bf16 moments; element: index in the vector / 4 */
    AH_PHILOX_SAMPLE = 4,   /* choice of a token; element: the prompt, step: the token */
    AH_PHILOX_MIX = 5,      /* documents that are taken once more; element: the document, block: the input */
};

struct ah_philox_name {
    uint64_t seed;
    uint64_t step;        /* < 2^48 */
    uint64_t element;     /* < 2^40 */
    uint32_t purpose;     /* enum ah_philox_purpose, < 2^8 */
    uint32_t block;       /* < 2^16 */
    uint32_t micro_batch; /* < 2^16 */
};

/* Constants for kernels that compute several draws at once. */
enum { AH_PHILOX_ROUNDS = 10 };
#define AH_PHILOX_M0 0xD2511F53u
#define AH_PHILOX_M1 0xCD9E8D57u
#define AH_PHILOX_W0 0x9E3779B9u
#define AH_PHILOX_W1 0xBB67AE85u

/* Computes the ten rounds. */
static inline void ah_philox_bits(const uint32_t counter[4], const uint32_t key[2], uint32_t ret_bits[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < AH_PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)AH_PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)AH_PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += AH_PHILOX_W0;
        k1 += AH_PHILOX_W1;
    }
    ret_bits[0] = c0;
    ret_bits[1] = c1;
    ret_bits[2] = c2;
    ret_bits[3] = c3;
}

/* Packs a name. Consecutive elements differ only in counter[0], except for a carry every 2^32. */
static inline void ah_philox_pack(const struct ah_philox_name *name, uint32_t ret_counter[4],
                                  uint32_t ret_key[2])
{
    assert(name->element >> 40 == 0 && name->step >> 48 == 0);
    assert(name->purpose >> 8 == 0 && name->block >> 16 == 0 && name->micro_batch >> 16 == 0);
    ret_counter[0] = (uint32_t)name->element;
    ret_counter[1] = (uint32_t)(name->element >> 32) | name->purpose << 8 | name->block << 16;
    ret_counter[2] = (uint32_t)name->step;
    ret_counter[3] = (uint32_t)(name->step >> 32) | name->micro_batch << 16;
    ret_key[0] = (uint32_t)name->seed;
    ret_key[1] = (uint32_t)(name->seed >> 32);
}

/* Computes the 128 random bits of a name. */
static inline void ah_philox_draw(const struct ah_philox_name *name, uint32_t ret_bits[4])
{
    uint32_t counter[4], key[2];
    ah_philox_pack(name, counter, key);
    ah_philox_bits(counter, key, ret_bits);
}

/* Returns a number in [0, 1): an exact multiple of 2^-24, each equally likely. */
static inline float ah_philox_uniform(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

#endif
