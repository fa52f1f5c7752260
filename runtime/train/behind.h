/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind: finds, for each rank, the rank that holds it up: the one at the end of its chain of waits. Pure.
 */
#ifndef AH_RUNTIME_TRAIN_BEHIND_H
#define AH_RUNTIME_TRAIN_BEHIND_H

#include <stdint.h>

#define AH_BEHIND_NOBODY UINT32_MAX

/* Both arrays are indexed by rank. `waits_for` has the rank that each rank waits for, or AH_BEHIND_NOBODY. `ret_root`
 * gets the end of each rank's chain: the rank itself if it waits for nobody. Ranks seen at different moments may appear
 * to wait in a circle: then the root is the lowest rank of the circle. */
void ah_behind_find(const uint32_t *waits_for, uint32_t ranks, uint32_t *ret_root);

#endif
