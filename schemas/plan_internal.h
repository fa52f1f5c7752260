/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of a plan (plan_check.c), for its tables (plan.c), and the plan's table, for documents that contain plans.
 */
#ifndef AH_SCHEMAS_PLAN_INTERNAL_H
#define AH_SCHEMAS_PLAN_INTERNAL_H

#include "base/error.h"
#include "schemas/field.h"

extern const struct ah_field_table ah_plan_table;         /* for struct ah_plan */
extern const struct ah_field_table ah_plan_exposed_table; /* for struct ah_plan_by_lane */

#define AH_ROW_WITHOUT(tag)                                                                                  \
    {                                                                                                        \
        .name = "without", AH_WORDS_AT(tag, without, ah_words_technique),                                    \
        .flags = AH_FIELD_OPTIONAL | AH_FIELD_UNIQUE, .max_items = AH_TECHNIQUES,                            \
        .about = "Techniques that the plan was forbidden to use."                                            \
    }

/* A row, with its comma, for the time that a lane works: element `value` of a member busy_us. */
#define AH_ROW_BUSY(tag, value, word, does, flags_)                                                          \
    {.name = word "_us",                                                                                     \
     AH_NUMBER_AT(tag, busy_us[value]),                                                                      \
     .flags = (flags_),                                                                                      \
     .max = 1e15,                                                                                            \
     .about = "Time of " does "."},

/* plan_upgrade.c: change the tree of a plan, or a cluster plan, of format 1.0 to 2.0. AH_E_MEMORY. The reader checks
 * the result, so the tree may have any shape. */
struct cJSON;
int ah_plan_upgrade(struct cJSON *tree, struct ah_error *err);
int ah_plan_upgrade_cluster(struct cJSON *tree, struct ah_error *err);

int ah_plan_check(const void *plan, struct ah_error *err);
/* Checks that `training.sums` has the only form allowed: the result of ah_plan_join_sums(). */
int ah_plan_check_sums(const uint64_t *sums, size_t n, struct ah_error *err);
int ah_plan_check_memory(const void *memory, struct ah_error *err);
int ah_plan_check_solver(const void *solver, struct ah_error *err);

#endif
