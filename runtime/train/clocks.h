/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: estimates how far another host's clock is ahead of this one, from messages sent there and back. Its only use
 * is to draw timelines of several hosts on one clock.
 *
 * In an exchange, the other clock reads `there_ns` between two readings of this one. So the other clock is ahead by at
 * least there - back, and by at most there - sent. All exchanges together give a range, however long some of them took
 * in one direction.
 */
#ifndef AH_RUNTIME_TRAIN_CLOCKS_H
#define AH_RUNTIME_TRAIN_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct ah_clocks_exchange {
    uint64_t sent_ns, back_ns; /* readings of this clock */
    uint64_t there_ns;         /* reading of the other clock */
};

enum { AH_CLOCKS_EXCHANGES = 64 };

/* Returns how far the other clock is ahead, within +-`ret_within_ns`; 0 if there are no exchanges. */
int64_t ah_clocks_offset(const struct ah_clocks_exchange *exchanges, size_t n, int64_t *ret_within_ns);

#endif
