/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the check of a plan. Each returns AH_E_DOCUMENT and names the field, its value, and the derived value.
 */
#ifndef AH_RUNTIME_SCHEDULE_CHECK_INTERNAL_H
#define AH_RUNTIME_SCHEDULE_CHECK_INTERNAL_H

#include "runtime/schedule/schedule_internal.h"

/* check_arena.c: checks that live tensors do not overlap and are aligned, and that the highest one ends at the peak. */
int ah_check_arena(const struct ah_plan *plan, struct ah_error *err);

/* check_rebuild.c: checks that for this job the configs give the plan's ops, tensors and memory. If `from_documents`,
 * job and costs come from documents, and times are compared as well; otherwise times are taken from the plan. */
struct ah_check_inputs {
    const struct ah_job *job;
    const struct ah_costs *costs;
    const double *base_us; /* (optional) times of forward, backward and sends, in compute order */
    bool from_documents;
};
int ah_check_rebuild(const struct ah_plan *plan, const struct ah_check_inputs *inputs, struct ah_error *err);

/* check_work.c: check that equal work takes equal time, and that a copy's time follows from its tiles and bytes. */
int ah_check_work(const struct ah_plan *plan, const struct ah_job *job, struct ah_error *err);
int ah_check_links(const struct ah_plan *plan, struct ah_error *err);

/* check_times.c: checks that the orders of lanes are those that `scheduling` gives, and take the stated time. */
int ah_check_times(const struct ah_plan *plan, struct ah_error *err);

/* Times of a lane's copies, per tile and per byte. `relative`: tolerance, larger if all tiles per byte are similar. */
struct ah_check_copies {
    double us_a_tile, us_a_byte, relative;
};
struct ah_check_copies ah_check_copies(const struct ah_plan *plan, enum ah_plan_lane lane);

/* check_claims.c: checks that names, rates, and the numbers of the solver and of other policies agree. */
int ah_check_claims(const struct ah_plan *plan, struct ah_error *err);

/* True if two times, or rates, are equal up to rounding. */
bool ah_check_near(double a, double b);

/* Check that two numbers are equal. AH_E_DOCUMENT: no; the text is "<place>: is <stated>; <derived> <source>". */
int ah_check_number(const char *place, double stated, double derived, const char *source,
                    struct ah_error *err);
int ah_check_count(const char *place, uint64_t stated, uint64_t derived, const char *source,
                   struct ah_error *err);

#endif
