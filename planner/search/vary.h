/* SPDX-License-Identifier: Apache-2.0
 *
 * Vary: changes a choice a little, at random. The result is valid: every block has a config that is allowed.
 *
 *     const struct ah_vary vary = {.job = job, .allowed = allowed};
 *     if (ah_vary_choice(&vary, &random, configs, &knobs)) ... configs or knobs have changed
 *
 * The same `random` gives the same changes.
 */
#ifndef AH_PLANNER_SEARCH_VARY_H
#define AH_PLANNER_SEARCH_VARY_H

#include "runtime/schedule/schedule.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_vary {
    const struct ah_job *job;
    const uint32_t *allowed; /* (optional) by block: bit i allows the i-th of ah_configs(); NULL: all */
};

/* Lists the configs allowed for a block. Returns their number. */
size_t ah_vary_options(const struct ah_vary *vary, size_t block,
                       struct ah_config ret_options[AH_CONFIGS_MAX]);

/* True if the block may have this config. */
bool ah_vary_allows(const struct ah_vary *vary, size_t block, const struct ah_config *config);

/* Makes one change or, sometimes, two. Returns false if `configs` and `knobs` are unchanged. */
bool ah_vary_choice(const struct ah_vary *vary, uint64_t *random, struct ah_config *configs,
                    struct ah_knobs *knobs);

/* Returns the next number of a random series. `*random` must not be 0. */
uint64_t ah_vary_next(uint64_t *random);

#endif
