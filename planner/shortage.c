/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortage: determines which memory is short, and by how much.
 *
 * If the relaxation has no solution, its rows show the shortage: the least device memory with the host's budget, the
 * least host memory with the device's or, if neither alone is enough, the least of both together. If the relaxation has
 * a solution but no plan was found, the trials show it: the least device memory of all choices that fit the host, and
 * vice versa. Policies other than `optimal` always use trials, because they need more than the relaxation says. The
 * rows give lower bounds, and so do a policy's settings if all were tried: layouts may take more. Several GPUs need
 * device memory each, and host memory together.
 */
#include "planner/planner_internal.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

const char ah_shortage_device[] = "device memory";
const char ah_shortage_host[] = "host memory";

struct side {
    const char *name;
    uint64_t needed_bytes; /* 0: unknown, or more of only this memory does not help */
    uint64_t available_bytes;
};

struct sides {
    struct side device, host;
    bool both;
};

static uint64_t added(uint64_t available_bytes, uint64_t missing_bytes)
{
    return missing_bytes == AH_MILP_NEVER ? 0 : available_bytes + missing_bytes;
}

static void proven_needs(const struct ah_planning *p, struct sides *sides)
{
    const struct ah_milp_shortage *shortage = &p->shortage;
    sides->both = shortage->device_bytes == AH_MILP_NEVER && shortage->host_bytes == AH_MILP_NEVER;
    sides->device.needed_bytes = added(ah_planning_arena_bytes(p) + p->reserve_bytes,
                                       sides->both ? shortage->both_device_bytes : shortage->device_bytes);
    sides->host.needed_bytes =
        added(p->host_capacity_bytes, sides->both ? shortage->both_host_bytes : shortage->host_bytes);
}

/* Lowers a side's need to a trial's. Ignores a need within the available memory: only the layout did not fit. */
static void take_tried(struct side *side, uint64_t tried_bytes, uint64_t outside_bytes)
{
    if (tried_bytes == UINT64_MAX || tried_bytes + outside_bytes <= side->available_bytes)
        return;
    if (!side->needed_bytes || tried_bytes + outside_bytes < side->needed_bytes)
        side->needed_bytes = tried_bytes + outside_bytes;
}

static void tried_needs(const struct ah_planning *p, struct sides *sides)
{
    for (size_t i = 0; i < p->n_splits; i++) {
        const struct ah_evaluator *evaluator = &p->splits[i].evaluator;
        take_tried(&sides->device, evaluator->least_device_bytes, p->reserve_bytes);
        take_tried(&sides->host, evaluator->least_host_bytes, p->process_bytes);
    }
}

static uint64_t missing(const struct side *side)
{
    return side->needed_bytes > side->available_bytes ? side->needed_bytes - side->available_bytes : 0;
}

/* Returns the shortage divided by the available memory. The same bytes are easier to add to a large memory. */
static double growth(const struct side *side)
{
    return (double)missing(side) / (1.0 + (double)side->available_bytes);
}

void ah_shortage_find(const struct ah_planning *p, struct ah_diagnosis *ret_diagnosis)
{
    struct sides sides = {.device = {ah_shortage_device, 0, p->device_capacity_bytes},
                          .host = {ah_shortage_host, 0, p->host_capacity_bytes}};
    bool by_relaxation = p->infeasible && p->request->policy == AH_POLICY_OPTIMAL;
    (by_relaxation ? proven_needs : tried_needs)(p, &sides);
    sides.host.needed_bytes *= p->gpus;
    sides.host.available_bytes *= p->gpus;
    bool host_first =
        missing(&sides.host) && (!missing(&sides.device) || growth(&sides.host) < growth(&sides.device));
    const struct side *first = host_first ? &sides.host : &sides.device;
    const struct side *other = host_first ? &sides.device : &sides.host;
    *ret_diagnosis = (struct ah_diagnosis){.proven = ah_planning_proven(p),
                                           .at_least = by_relaxation || p->exhausted,
                                           .resource = first->name,
                                           .needed_bytes = first->needed_bytes,
                                           .available_bytes = first->available_bytes};
    if (!missing(other))
        return;
    ret_diagnosis->both = sides.both;
    ret_diagnosis->other_resource = other->name;
    ret_diagnosis->other_needed_bytes = other->needed_bytes;
    ret_diagnosis->other_available_bytes = other->available_bytes;
}

/* Prints "host memory is short by at least 2.0 GiB: at least 10.0 GiB needed, 8.0 GiB available". */
static void print_side(char *out, size_t max, const struct side *side, bool at_least)
{
    char lacking[AH_UNITS_TEXT_MAX], needed[AH_UNITS_TEXT_MAX], available[AH_UNITS_TEXT_MAX];
    ah_units_print_bytes(available, side->available_bytes);
    ah_units_print_bytes(lacking, missing(side));
    ah_units_print_bytes(needed, side->needed_bytes);
    if (missing(side) && at_least)
        snprintf(out, max, "%s is short by at least %s: at least %s needed, %s available", side->name,
                 lacking, needed, available);
    else if (missing(side))
        snprintf(out, max, "%s is short by %s: the smallest plan tried needs %s, %s available", side->name,
                 lacking, needed, available);
    else
        snprintf(out, max, "%s is short: %s available", side->name, available);
}

int ah_shortage_say(const struct ah_planning *p, const struct ah_diagnosis *diagnosis, struct ah_error *err)
{
    const struct side first = {diagnosis->resource, diagnosis->needed_bytes, diagnosis->available_bytes};
    const struct side other = {diagnosis->other_resource, diagnosis->other_needed_bytes,
                               diagnosis->other_available_bytes};
    char texts[2][200] = {"", ""}, without[200] = "";
    for (unsigned i = 0; i < AH_TECHNIQUES; i++)
        if (p->request->without >> i & 1)
            snprintf(without + strlen(without), sizeof without - strlen(without), "%s%s",
                     without[0] ? "," : " without ", ah_words_technique[i]);
    print_side(texts[0], sizeof texts[0], &first, diagnosis->at_least);
    if (other.name)
        print_side(texts[1], sizeof texts[1], &other, diagnosis->at_least);
    return ah_error_set(
        err, diagnosis->proven ? AH_E_INFEASIBLE : AH_E_NO_PLAN, "'%s' with policy %s%s on '%s': %s; %s%s%s",
        p->request->model->name, ah_words_policy[p->request->policy], without, p->request->machine->name,
        diagnosis->proven ? "no plan exists" : "no plan was found, but one may still exist", texts[0],
        !other.name       ? ""
        : diagnosis->both ? "; and "
                          : "; or ",
        texts[1]);
}
