/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation: gives the order of the samples in an epoch, as a pure function of (seed, epoch, n, place).
 *
 * It is a Feistel network, keyed by Philox, over the smallest square of a power of two that is at least n. It is
 * repeated until the result is below n. So every place has one sample, and every sample one place. It takes constant
 * time and no table. It is part of the numeric signature and never changes.
 *
 *     uint64_t sample = ah_permutation_at(seed, cursor / n, n, cursor % n);
 */
#ifndef AH_RUNTIME_TRAIN_DATA_PERMUTATION_H
#define AH_RUNTIME_TRAIN_DATA_PERMUTATION_H

#include <stdint.h>

/* The largest number of samples that can be permuted. */
#define AH_PERMUTATION_MAX (UINT64_C(1) << 62)

/* Returns the sample at `place` of `epoch`; place < n <= AH_PERMUTATION_MAX, epoch < 2^48 (asserted). Any thread. */
uint64_t ah_permutation_at(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t place);

#endif
