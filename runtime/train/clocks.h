/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: how far another host's clock is from this one's, from words that went there and back. Nothing is decided by that: timelines of
 * several hosts are drawn on one clock.
 *
 * An exchange says that the other clock read `there_ns` between two readings of this one: it is ahead by no less than there - back,
 * and by no more than there - sent. All exchanges together leave the stretch that each of them allows, however late some were on
 * one way.
 */
#ifndef AH_RUNTIME_TRAIN_CLOCKS_H
#define AH_RUNTIME_TRAIN_CLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct ah_clocks_exchange {
    uint64_t sent_ns, back_ns; /* of this clock */
    uint64_t there_ns;         /* of the other */
};

enum { AH_CLOCKS_EXCHANGES = 64 };

/* What the other clock is ahead, to `ret_within_ns` more or less. 0 of none. */
int64_t ah_clocks_offset(const struct ah_clocks_exchange *exchanges, size_t n, int64_t *ret_within_ns);

#endif
