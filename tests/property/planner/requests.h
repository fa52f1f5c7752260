/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for tests, from the example documents.
 *
 *     struct test_request t;
 *     test_request_open(&t, "gpt-22b", "rtx4090-64g");      // batch 8, sequence 1024, quick
 *     t.request.device_bytes = ...;
 *     int rc = test_request_plan(&t);                       // t.plan, t.diagnosis, t.err
 *     test_request_close(&t);
 */
#ifndef AH_TESTS_PROPERTY_PLANNER_REQUESTS_H
#define AH_TESTS_PROPERTY_PLANNER_REQUESTS_H

#include "planner/planner.h"
#include "tests/support/documents.h"

#include <stdio.h>
#include <string.h>

#define TEST_MIB (UINT64_C(1) << 20)
#define TEST_GIB (UINT64_C(1) << 30)

static const char test_sha256[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

struct test_request {
    struct ah_document model, machine;
    struct ah_arena arena;
    struct ah_plan_request request;
    struct ah_plan plan;
    struct ah_diagnosis diagnosis;
    struct ah_error err;
};

static inline void test_request_open(struct test_request *t, const char *model, const char *machine)
{
    memset(t, 0, sizeof *t);
    load_example(&t->model, AH_DOCUMENT_MODEL, model);
    load_example(&t->machine, AH_DOCUMENT_MACHINE, machine);
    t->request = (struct ah_plan_request){
        .model = t->model.body.model,
        .model_sha256 = test_sha256,
        .machine = t->machine.body.machine,
        .machine_sha256 = test_sha256,
        .training = {.batch = 8, .micro_batches = 1, .seq = 1024, .dtype = AH_BF16, .clip = 1},
        .policy = AH_POLICY_OPTIMAL,
        .effort = AH_EFFORT_QUICK,
        .generator = "autohete test"};
    if (t->request.training.seq > t->request.model->max_positions)
        t->request.training.seq = t->request.model->max_positions;
}

/* Plans the request. The texts of the result are valid until the request is closed. */
static inline int test_request_plan(struct test_request *t)
{
    t->plan = (struct ah_plan){0};
    t->err = (struct ah_error){0};
    return ah_planner_plan(&t->request, &t->arena, &t->plan, &t->diagnosis, &t->err);
}

static inline void test_request_close(struct test_request *t)
{
    ah_arena_release(&t->arena);
    ah_document_release(&t->model);
    ah_document_release(&t->machine);
}

/* Returns the plan's document as text; the caller releases it. */
static inline struct ah_buffer test_request_text(struct test_request *t)
{
    const struct ah_document document = {.kind = AH_DOCUMENT_PLAN, .body = {.plan = &t->plan}};
    struct ah_buffer text = {0};
    CHECK_OK(ah_document_print(&document, &text, &t->err), t->err);
    return text;
}

#endif
