/* SPDX-License-Identifier: Apache-2.0
 *
 * A place is a pair (left, right) of `bits` bits each. A round maps (left, right) to (right, left ^ f(right)), which
 * can be undone for any f. Here f is Philox, keyed by seed, epoch, round and right. A result of n or more is mapped
 * again (cycle walking). In a permutation no path enters a cycle from outside, so the walk ends below n, after fewer
 * than four maps on average. By Luby and Rackoff (1988), three rounds suffice against an observer; eight leave a margin
 * for pairs of a few bits.
 */
#include "runtime/train/data/permutation.h"

#include "base/philox.h"

#include <assert.h>

enum { ROUNDS = 8, ROUND_SHIFT = 32 };

static unsigned half_bits(uint64_t n)
{
    unsigned bits = 1;
    while (UINT64_C(1) << 2 * bits < n)
        bits++;
    return bits;
}

static uint64_t mapped(uint64_t seed, uint64_t epoch, unsigned bits, uint64_t place)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t left = place >> bits, right = place & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t random[4];
        ah_philox_draw(&(struct ah_philox_name){.seed = seed,
                                                .step = epoch,
                                                .purpose = AH_PHILOX_SHUFFLE,
                                                .element = round << ROUND_SHIFT | right},
                       random);
        uint64_t next = left ^ (random[0] & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

uint64_t ah_permutation_at(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t place)
{
    assert(place < n && n <= AH_PERMUTATION_MAX);
    const unsigned bits = half_bits(n);
    do
        place = mapped(seed, epoch, bits, place);
    while (place >= n);
    return place;
}
