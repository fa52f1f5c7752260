/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificate: the bounds of settings, raised by grouping (grouping.h) as far as that is worth it.
 */
#ifndef AH_PLANNER_CLUSTER_CERTIFICATE_H
#define AH_PLANNER_CLUSTER_CERTIFICATE_H

#include "base/error.h"
#include "planner/cluster/settings.h"

/* Raises `bound_us` of the settings, in about so many `steps` of all of them together: none above `most_us`, and none
 * further than the lowest one can be raised, as that is the bound of all. AH_E_MEMORY. */
int ah_certificate_raise(struct ah_setting *settings, size_t n, double most_us, uint64_t steps,
                         struct ah_error *err);

#endif
