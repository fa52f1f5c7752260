/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that the planner makes for a golden case on any machine, written as documents and read back.
 *
 *     const struct golden_asked asked = {AH_POLICY_STREAM, resident_bytes / 2};
 *     if (golden_plan_policy(&golden, machine, asked))
 *         trainer = golden_start(&golden, &result);
 */
#ifndef AH_TESTS_GOLDEN_TRAIN_POLICIES_H
#define AH_TESTS_GOLDEN_TRAIN_POLICIES_H

#include "planner/planner.h"
#include "tests/golden/train/case.h"

struct golden_asked {
    enum ah_policy policy;
    uint64_t device_bytes; /* device arena; 0: all memory */
};

/* Plans for the golden case with this policy and memory. Returns false if there is no such plan. */
static inline bool golden_plan_policy(struct golden *g, const struct ah_machine *machine,
                                      struct golden_asked asked)
{
    static const char sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct ah_error err = {0};
    struct ah_document written = {.kind = AH_DOCUMENT_PLAN};
    struct ah_diagnosis diagnosis;
    struct ah_buffer text = {0};
    struct ah_plan *plan = ah_arena_alloc(&written.arena, sizeof *plan);
    const struct ah_plan_request request = {
        .model = g->options.model,
        .model_sha256 = sha256,
        .machine = machine,
        .machine_sha256 = sha256,
        .training = g->c.job.training,
        .device_bytes = asked.device_bytes ? machine->device.reserve_bytes + asked.device_bytes : 0,
        .policy = asked.policy,
        .effort = AH_EFFORT_QUICK,
        .no_remedies = true,
        .generator = "autohete test"};
    assert_non_null(plan);
    written.body.plan = plan;
    int rc = ah_planner_plan(&request, &written.arena, plan, &diagnosis, &err);
    bool is_there = rc != AH_E_INFEASIBLE && rc != AH_E_NO_PLAN;
    if (is_there) {
        CHECK_OK(rc, err);
        CHECK_OK(ah_document_print(&written, &text, &err), err);
        if (g->is_planned)
            ah_document_release(&g->plan);
        CHECK_OK(ah_document_parse(&g->plan, "plan", text.data, text.size, AH_DOCUMENT_PLAN, &err), err);
        g->is_planned = true;
        g->options.plan = g->plan.body.plan;
    }
    ah_buffer_release(&text);
    ah_document_release(&written);
    return is_there;
}

#endif
