/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels/mma.cuh offers, on the processor. Only that file includes this one.
 *
 * A copy in the background makes its target NaN at once and happens only when it is waited for. So a kernel that reads
 * too early, or reuses the source's memory too early, computes nonsense here, too. Misaligned places end the kernel as
 * on hardware; so do rows of a tile in the same banks, which hardware only loads slowly.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_MMA_DOUBLE_CUH
#define AH_TESTS_DOUBLE_CUDA_MMA_DOUBLE_CUH

#include "tests/double/cuda/emulator.h"

#include <math.h>
#include <string.h>

typedef uintptr_t ah_mma_place;

enum { MMA_COPIES = 96 };

struct mma_copy {
    void *to;
    const void *from;
    uint32_t bytes; /* the rest of `room` becomes zero */
    uint32_t room;
    unsigned group;
};

struct ah_mma_pipe {
    unsigned n;
    unsigned group; /* the open group */
    struct mma_copy copies[MMA_COPIES];
};

static inline ah_mma_place ah_mma_at(const void *shared)
{
    return reinterpret_cast<uintptr_t>(shared);
}

static inline ah_mma_place ah_mma_anew(ah_mma_place place)
{
    return place;
}

static inline float mma_float(uint32_t half)
{
    const uint32_t bits = half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct mma_part {
    float (*c)[4];
    const uint32_t (*a)[4];
    uint32_t b[2];
};

/* Writes registers only, so sanitizers need not check it. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static void
mma_multiply_all(void *const lanes[EMULATOR_WARP], unsigned mask)
{
    float a[16][16], b[16][8];
    if (mask != 0xffffffffu)
        emulator_trap("a product of tiles without all lanes of the warp");
    for (unsigned lane = 0; lane < EMULATOR_WARP; lane++) {
        const struct mma_part *part = static_cast<const struct mma_part *>(lanes[lane]);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned high = 0; high < 2; high++)
                a[g + i % 2 * 8][i / 2 * 8 + 2 * t + high] =
                    mma_float((*part->a)[i] >> (16 * high) & 0xffffu);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned high = 0; high < 2; high++)
                b[i * 8 + 2 * t + high][g] = mma_float(part->b[i] >> (16 * high) & 0xffffu);
    }
    for (unsigned row = 0; row < 16; row++) {
        float sums[8] = {0};
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++)
                sums[column] += a[row][k] * b[k][column];
        for (unsigned column = 0; column < 8; column++)
            (*static_cast<struct mma_part *>(lanes[row % 8 * 4 + column / 2])->c)[row / 8 * 2 + column % 2] +=
                sums[column];
    }
}

static inline void ah_mma_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    struct mma_part part = {&c, &a, {b0, b1}};
    emulator_warp(0xffffffffu, mma_multiply_all, &part);
}

struct mma_rows {
    ah_mma_place row;
    uint32_t (*tiles)[4];
};

static uint16_t mma_element(void *const lanes[EMULATOR_WARP], unsigned tile, unsigned row, unsigned column)
{
    uint16_t element;
    const ah_mma_place place = static_cast<const struct mma_rows *>(lanes[tile * 8 + row])->row;
    memcpy(&element, reinterpret_cast<const void *>(place + column * sizeof element), sizeof element);
    return element;
}

static void mma_check_banks(void *const lanes[EMULATOR_WARP])
{
    for (unsigned tile = 0; tile < 4; tile++) {
        unsigned banks = 0;
        for (unsigned row = 0; row < 8; row++)
            banks |= 1u << static_cast<const struct mma_rows *>(lanes[tile * 8 + row])->row / 16 % 8;
        if (banks != 0xff)
            emulator_trap("a load of a tile of which two rows lie in the same banks");
    }
}

template <bool turned> static void mma_load_all(void *const lanes[EMULATOR_WARP], unsigned mask)
{
    if (mask != 0xffffffffu)
        emulator_trap("a load of tiles without all lanes of the warp");
    mma_check_banks(lanes);
    for (unsigned lane = 0; lane < EMULATOR_WARP; lane++)
        for (unsigned tile = 0; tile < 4; tile++) {
            const unsigned g = lane / 4, t = lane % 4 * 2;
            const uint32_t low = turned ? mma_element(lanes, tile, t, g) : mma_element(lanes, tile, g, t);
            const uint32_t high =
                turned ? mma_element(lanes, tile, t + 1, g) : mma_element(lanes, tile, g, t + 1);
            (*static_cast<struct mma_rows *>(lanes[lane])->tiles)[tile] = low | high << 16;
        }
}

template <bool turned> static inline void mma_load(uint32_t (&ret_tiles)[4], ah_mma_place row)
{
    struct mma_rows rows = {row, &ret_tiles};
    if (row % 16)
        emulator_trap("a row of a tile that is not at a multiple of 16 bytes");
    emulator_warp(0xffffffffu, mma_load_all<turned>, &rows);
}

static inline void ah_mma_load(uint32_t (&ret_tiles)[4], ah_mma_place row)
{
    mma_load<false>(ret_tiles, row);
}

static inline void ah_mma_load_transposed(uint32_t (&ret_tiles)[4], ah_mma_place row)
{
    mma_load<true>(ret_tiles, row);
}

static inline void mma_begin(struct ah_mma_pipe &pipe, ah_mma_place to, const void *from, uint32_t bytes,
                             uint32_t room)
{
    void *place = reinterpret_cast<void *>(to);
    if (to % room || reinterpret_cast<uintptr_t>(from) % room)
        emulator_trap("a copy in the background that is not aligned");
    if (bytes > room || pipe.n == MMA_COPIES)
        emulator_trap("a copy in the background that is too large, or one too many");
    memset(place, EMULATOR_POISON, room);
    pipe.copies[pipe.n++] = {place, from, bytes, room, pipe.group};
}

static inline void ah_mma_copy(struct ah_mma_pipe &pipe, ah_mma_place to, const void *from, uint32_t bytes)
{
    mma_begin(pipe, to, from, bytes, 16);
}

static inline void ah_mma_copy_word(struct ah_mma_pipe &pipe, ah_mma_place to, const void *from,
                                    uint32_t bytes)
{
    mma_begin(pipe, to, from, bytes, 4);
}

static inline void ah_mma_commit(struct ah_mma_pipe &pipe)
{
    pipe.group++;
}

template <unsigned groups> static inline void ah_mma_wait(struct ah_mma_pipe &pipe)
{
    unsigned left = 0;
    for (unsigned i = 0; i < pipe.n; i++) {
        const struct mma_copy copy = pipe.copies[i];
        if (copy.group + groups >= pipe.group) {
            pipe.copies[left++] = copy;
            continue;
        }
        if (copy.bytes)
            memcpy(copy.to, copy.from, copy.bytes);
        memset(static_cast<unsigned char *>(copy.to) + copy.bytes, 0, copy.room - copy.bytes);
    }
    pipe.n = left;
}

static inline uint32_t mma_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fffu; /* the only NaN that the instruction returns */
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

static inline uint32_t ah_mma_pair(float low, float high)
{
    return mma_half(low) | mma_half(high) << 16;
}

static inline float ah_mma_exp2(float x)
{
    return x < -126.0f ? 0.0f : exp2f(x);
}

static inline float ah_mma_reciprocal(float x)
{
    return x > 0x1p126f ? 0.0f : 1.0f / x;
}

static inline float ah_mma_log2(float x)
{
    return x < 0x1p-126f ? -INFINITY : log2f(x);
}

#endif
