/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind: finds, for each rank, the rank that delays it: the last of its chain of waits. Pure.
 */
#ifndef AH_RUNTIME_TRAIN_BEHIND_H
#define AH_RUNTIME_TRAIN_BEHIND_H

#include <stdint.h>

#define AH_BEHIND_NOBODY UINT32_MAX

/* Sets `ret_root`, by rank, to the last rank of each rank's chain, or to the rank itself if it waits for nobody.
 * `waits_for` has, by rank, the rank it waits for, or AH_BEHIND_NOBODY. Ranks observed at different moments may seem to
 * wait in a circle; the root of such a chain is the lowest rank of the circle. */
void ah_behind_find(const uint32_t *waits_for, uint32_t ranks, uint32_t *ret_root);

#endif
