/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: how far another host's clock is from this one's, from words that went there and back. Nothing is decided by that: timelines of
 * several hosts are drawn on one clock.
 *
 * An exchange says that the other clock read `there_ns` between two readings of this one. Its middle is off by half of what the two ways
 * differ, so the exchanges with the shortest way there and back say most; of these the median counts.
 */
#ifndef AH_RUNTIME_TRAIN_CLOCKS_H
#define AH_RUNTIME_TRAIN_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct ah_clocks_exchange {
    uint64_t sent_ns, back_ns; /* of this clock */
    uint64_t there_ns;         /* of the other */
};

enum { AH_CLOCKS_EXCHANGES = 64, AH_CLOCKS_BEST = 16 };

/* What the other clock is ahead, by the AH_CLOCKS_BEST of at most AH_CLOCKS_EXCHANGES; sorts them. 0 of none. */
int64_t ah_clocks_offset(struct ah_clocks_exchange *exchanges, size_t n);

#endif
