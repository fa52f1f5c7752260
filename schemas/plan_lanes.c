/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of lanes, and the table of a number for each lane.
 */
#include "schemas/plan_lanes.h"

#include "schemas/plan_internal.h"

#include <stddef.h>

#define WORD(value, word, does, title, flags_) [value] = word,
const char *const ah_words_plan_lane[] = {AH_PLAN_LANE_ROWS(WORD) NULL};

#define TITLE(value, word, does, title, flags_) [value] = title,
const char *const ah_plan_lane_titles[AH_PLAN_LANES] = {AH_PLAN_LANE_ROWS(TITLE)};

#define EXPOSED(value, word, does, title, flags_)                                                            \
    {.name = word,                                                                                           \
     AH_NUMBER_AT(ah_plan_by_lane, of[value]),                                                               \
     .flags = (flags_),                                                                                      \
     .max = 1e15,                                                                                            \
     .about = "Waiting for " does "."},
static const struct ah_field exposed_fields[] = {AH_PLAN_OTHER_LANE_ROWS(EXPOSED){0}};
const struct ah_field_table ah_plan_exposed_table = {.name = "exposed_us",
                                                     .about = "Time that compute waits for each lane.",
                                                     .bytes = sizeof(struct ah_plan_by_lane),
                                                     .fields = exposed_fields};
