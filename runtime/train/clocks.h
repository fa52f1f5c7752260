/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: how far another host's clock is ahead of this one, from messages sent there and back. It is only used to draw
 * timelines of several hosts on one clock.
 *
 * In an exchange the other clock read `there_ns` between two readings of this one. So it is ahead by at least there -
 * back, and by at most there - sent. The result is the range that all exchanges allow, however long some of them took
 * on one way.
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

/* Returns how far the other clock is ahead, within +-`ret_within_ns`. 0 without exchanges. */
int64_t ah_clocks_offset(const struct ah_clocks_exchange *exchanges, size_t n, int64_t *ret_within_ns);

#endif
