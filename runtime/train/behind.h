/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind: who holds up the others, from who waits for whom. A rank that waits for one that waits is held up by the one at the end
 * of the chain. Pure.
 */
#ifndef AH_RUNTIME_TRAIN_BEHIND_H
#define AH_RUNTIME_TRAIN_BEHIND_H

#include <stdint.h>

#define AH_BEHIND_NOBODY UINT32_MAX

/* By rank, `waits_for` has the rank that it waits for, or AH_BEHIND_NOBODY. `ret_root` gets the rank at the end of each one's chain: who
 * waits for nobody has itself there. Of a circle, as ranks may seem to form that were not seen at the same moment, all that lead into it get the
 * lowest rank of it. */
void ah_behind_find(const uint32_t *waits_for, uint32_t ranks, uint32_t *ret_root);

#endif
