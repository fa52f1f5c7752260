/* SPDX-License-Identifier: Apache-2.0
 *
 * Barriers, and functions of the warp: shuffles, votes, reductions. In CUDA it is undefined what a shuffle reads from a
 * lane that is not in the mask, does not exist or has returned: here all bits are ones.
 *
 * Source: CUDA C++ Programming Guide, "Warp Shuffle Functions", "Warp Vote Functions", "Warp Reduce Functions".
 */
#ifndef AH_TESTS_DOUBLE_CUDA_SIMT_WARP_CUH
#define AH_TESTS_DOUBLE_CUDA_SIMT_WARP_CUH

#include <string.h>

#include "tests/double/cuda/emulator.h"

static inline void __syncthreads(void)
{
    (void)emulator_barrier(false);
}

static inline int __syncthreads_count(int vote)
{
    return static_cast<int>(emulator_barrier(vote != 0).yes);
}

static inline int __syncthreads_or(int vote)
{
    return emulator_barrier(vote != 0).yes != 0;
}

static inline int __syncthreads_and(int vote)
{
    struct emulator_votes votes = emulator_barrier(vote != 0);
    return votes.yes == votes.all;
}

static inline unsigned simt_lane(void)
{
    return emulator_self->number % EMULATOR_WARP;
}

inline void simt_meet(void *const[EMULATOR_WARP], unsigned)
{
}

static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    emulator_warp(mask, simt_meet, nullptr);
}

struct simt_pick {
    unsigned from;
    uint64_t value;
    uint64_t result;
};

inline void simt_pick_all(void *const lanes[EMULATOR_WARP], unsigned mask)
{
    for (unsigned left = mask; left; left &= left - 1) {
        struct simt_pick *mine = static_cast<struct simt_pick *>(lanes[__builtin_ctz(left)]);
        const struct simt_pick *other = static_cast<const struct simt_pick *>(lanes[mine->from]);
        mine->result = other ? other->value : ~UINT64_C(0);
    }
}

template <class T> static inline T simt_shuffle(unsigned mask, T value, unsigned from)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles values of 4 and 8 bytes");
    struct simt_pick pick = {from, 0, 0};
    memcpy(&pick.value, &value, sizeof value);
    emulator_warp(mask, simt_pick_all, &pick);
    memcpy(&value, &pick.result, sizeof value);
    return value;
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = EMULATOR_WARP)
{
    unsigned w = static_cast<unsigned>(width);
    return simt_shuffle(mask, value, (simt_lane() & ~(w - 1)) | (static_cast<unsigned>(from) & (w - 1)));
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = EMULATOR_WARP)
{
    unsigned lane = simt_lane(), from = lane ^ static_cast<unsigned>(bits), w = static_cast<unsigned>(width);
    return simt_shuffle(mask, value, from / w > lane / w ? lane : from);
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = EMULATOR_WARP)
{
    unsigned lane = simt_lane(), w = static_cast<unsigned>(width);
    return simt_shuffle(mask, value, (lane & (w - 1)) + delta < w ? lane + delta : lane);
}

template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = EMULATOR_WARP)
{
    unsigned lane = simt_lane(), w = static_cast<unsigned>(width);
    return simt_shuffle(mask, value, (lane & (w - 1)) >= delta ? lane - delta : lane);
}

/* One lane's part in a vote or reduction; all get the same result. */
struct simt_share {
    unsigned value;
    unsigned result;
};

typedef unsigned simt_combine_fn(unsigned a, unsigned b);

template <simt_combine_fn *combine>
inline void simt_combine_all(void *const lanes[EMULATOR_WARP], unsigned mask)
{
    unsigned left = mask & (mask - 1);
    unsigned all = static_cast<const struct simt_share *>(lanes[__builtin_ctz(mask)])->value;
    for (; left; left &= left - 1)
        all = combine(all, static_cast<const struct simt_share *>(lanes[__builtin_ctz(left)])->value);
    for (left = mask; left; left &= left - 1)
        static_cast<struct simt_share *>(lanes[__builtin_ctz(left)])->result = all;
}

template <simt_combine_fn *combine> static inline unsigned simt_reduce(unsigned mask, unsigned value)
{
    struct simt_share share = {value, 0};
    emulator_warp(mask, simt_combine_all<combine>, &share);
    return share.result;
}

static inline unsigned simt_add(unsigned a, unsigned b)
{
    return a + b;
}

static inline unsigned simt_and(unsigned a, unsigned b)
{
    return a & b;
}

static inline unsigned simt_or(unsigned a, unsigned b)
{
    return a | b;
}

static inline unsigned simt_xor(unsigned a, unsigned b)
{
    return a ^ b;
}

static inline unsigned simt_less(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static inline unsigned simt_more(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static inline unsigned __ballot_sync(unsigned mask, int vote)
{
    return simt_reduce<simt_or>(mask, vote ? 1u << simt_lane() : 0);
}

static inline int __any_sync(unsigned mask, int vote)
{
    return simt_reduce<simt_or>(mask, vote != 0) != 0;
}

static inline int __all_sync(unsigned mask, int vote)
{
    return simt_reduce<simt_and>(mask, vote != 0) != 0;
}

static inline unsigned __reduce_add_sync(unsigned mask, unsigned value)
{
    return simt_reduce<simt_add>(mask, value);
}

static inline unsigned __reduce_min_sync(unsigned mask, unsigned value)
{
    return simt_reduce<simt_less>(mask, value);
}

static inline unsigned __reduce_max_sync(unsigned mask, unsigned value)
{
    return simt_reduce<simt_more>(mask, value);
}

static inline unsigned __reduce_and_sync(unsigned mask, unsigned value)
{
    return simt_reduce<simt_and>(mask, value);
}

static inline unsigned __reduce_or_sync(unsigned mask, unsigned value)
{
    return simt_reduce<simt_or>(mask, value);
}

static inline unsigned __reduce_xor_sync(unsigned mask, unsigned value)
{
    return simt_reduce<simt_xor>(mask, value);
}

struct simt_match {
    uint64_t value;
    unsigned equals;
};

inline void simt_match_all(void *const lanes[EMULATOR_WARP], unsigned mask)
{
    for (unsigned left = mask; left; left &= left - 1) {
        struct simt_match *mine = static_cast<struct simt_match *>(lanes[__builtin_ctz(left)]);
        for (unsigned others = mask; others; others &= others - 1)
            if (static_cast<const struct simt_match *>(lanes[__builtin_ctz(others)])->value == mine->value)
                mine->equals |= 1u << __builtin_ctz(others);
    }
}

template <class T> static inline unsigned __match_any_sync(unsigned mask, T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA matches values of 4 and 8 bytes");
    struct simt_match match = {0, 0};
    memcpy(&match.value, &value, sizeof value);
    emulator_warp(mask, simt_match_all, &match);
    return match.equals;
}

#endif
