/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes of a plan. A lane runs ops one after another, beside the other lanes. Structs and documents that hold a value
 * for each lane are made from this table, so a new lane is a new row.
 */
#ifndef AH_SCHEMAS_PLAN_LANES_H
#define AH_SCHEMAS_PLAN_LANES_H

/* clang-format off */
/* value, word in documents, what it does, its title in sentences about speed, flags of its fields */
#define AH_PLAN_LANE_ROWS(X)                                                                                 \
    X(AH_PLAN_LANE_COMPUTE, "compute", "computing", "compute", 0)                                            \
    AH_PLAN_OTHER_LANE_ROWS(X)
/* The lanes that compute waits for. Only plans of ranks that share states use `net`. */
#define AH_PLAN_OTHER_LANE_ROWS(X)                                                                           \
    X(AH_PLAN_LANE_H2D, "h2d", "copies to the device", "the link to the device", 0)                          \
    X(AH_PLAN_LANE_D2H, "d2h", "copies from the device", "the link to the host", 0)                          \
    X(AH_PLAN_LANE_HOST, "host", "work of the host", "host Adam", 0)                                         \
    X(AH_PLAN_LANE_NET, "net", "messages between ranks", "the network", AH_FIELD_OPTIONAL)
/* clang-format on */

enum ah_plan_lane {
#define AH_PLAN_LANE_VALUE(value, word, does, title, flags) value,
    AH_PLAN_LANE_ROWS(AH_PLAN_LANE_VALUE)
#undef AH_PLAN_LANE_VALUE
        AH_PLAN_LANES
};

extern const char *const ah_words_plan_lane[];
extern const char *const ah_plan_lane_titles[AH_PLAN_LANES];

/* A number for each lane, by enum ah_plan_lane. */
struct ah_plan_by_lane {
    double of[AH_PLAN_LANES];
};

#endif
