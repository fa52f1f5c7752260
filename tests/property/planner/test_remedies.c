/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests every remedy by following it, for infeasible requests on the example machines and for random small ones. The
 * amount that a diagnosis calls needed is checked by planning with one byte less.
 */
#include "tests/property/planner/requests.h"

#include <stdlib.h>

static const char *const remedy_words[AH_REMEDIES] = {"policy",        "device memory", "host memory",
                                                      "both memories", "micro-batches", "batch",
                                                      "sequence",      "state dtype"};

static void follow(const struct test_request *t, const struct ah_remedy *remedy)
{
    const struct ah_machine *machine = t->request.machine;
    struct ah_plan_request request = t->request;
    struct ah_arena arena = {0};
    struct ah_plan plan = {0};
    struct ah_diagnosis ignored;
    struct ah_error err = {0};
    switch (remedy->kind) {
    case AH_REMEDY_POLICY:
        request.policy = (enum ah_policy)remedy->value;
        break;
    case AH_REMEDY_DEVICE_MEMORY:
        request.device_bytes = remedy->value;
        break;
    case AH_REMEDY_HOST_MEMORY:
        request.host_bytes = remedy->value;
        break;
    case AH_REMEDY_BOTH_MEMORIES:
        request.device_bytes = remedy->value;
        request.host_bytes = remedy->host_bytes;
        break;
    case AH_REMEDY_MICRO_BATCHES:
        request.training.micro_batches = remedy->value;
        break;
    case AH_REMEDY_BATCH:
        request.training.batch = remedy->value;
        break;
    case AH_REMEDY_SEQ:
        request.training.seq = remedy->value;
        break;
    case AH_REMEDY_STATE_DTYPE:
        request.training.state_dtype = AH_BF16;
        break;
    case AH_REMEDIES:
        break;
    }
    bool beyond = request.device_bytes > machine->device.memory_bytes ||
                  request.host_bytes > machine->host.memory_bytes;
    assert_int_equal(beyond, remedy->beyond_machine);
    int rc = ah_planner_plan(&request, &arena, &plan, &ignored, &err);
    if (rc)
        fail_msg("%s %llu was followed: %s", remedy_words[remedy->kind], (unsigned long long)remedy->value,
                 err.text);
    assert_int_equal(plan.n_what_if > 0, beyond);
    if (plan.time.step_us > remedy->step_us * (1 + 1e-9))
        fail_msg("%s %llu: %g us were promised, they are %g", remedy_words[remedy->kind],
                 (unsigned long long)remedy->value, remedy->step_us, plan.time.step_us);
    ah_arena_release(&arena);
}

/* Checks that, with one byte less than needed of the short memory, the request is still proven infeasible. */
static void check_needed(const struct test_request *t)
{
    struct ah_plan_request request = t->request;
    struct ah_machine machine = *t->request.machine;
    struct ah_arena arena = {0};
    struct ah_plan plan;
    struct ah_diagnosis diagnosis, now = t->diagnosis;
    struct ah_error err = {0};
    bool device = !strcmp(now.resource, "device memory");
    assert_true(now.needed_bytes > now.available_bytes);
    request.machine = &machine;
    request.policy = AH_POLICY_OPTIMAL;
    if (device) {
        machine.device.memory_bytes += now.needed_bytes;
        request.device_bytes = now.needed_bytes - 1;
    } else {
        machine.host.memory_bytes += now.needed_bytes;
        request.host_bytes = now.needed_bytes - 1;
    }
    assert_int_equal(ah_planner_plan(&request, &arena, &plan, &diagnosis, &err), AH_E_INFEASIBLE);
    assert_true(diagnosis.proven);
    ah_arena_release(&arena);
}

/* Follows the remedies for a request and returns their number. */
static size_t check_request(struct test_request *t, size_t followed[AH_REMEDIES])
{
    int rc = test_request_plan(t);
    const struct ah_diagnosis *d = &t->diagnosis;
    if (!rc)
        return 0;
    if (rc != AH_E_INFEASIBLE && rc != AH_E_NO_PLAN)
        fail_msg("%s", t->err.text);
    assert_int_equal(d->proven, rc == AH_E_INFEASIBLE);
    check_text_has(t->err.text, d->resource);
    check_text_has(t->err.text, d->proven ? "no plan exists" : "no plan was found");
    if (d->proven && t->request.policy == AH_POLICY_OPTIMAL && !t->request.any_micro_batches && !d->both)
        check_needed(t);
    if (getenv("AH_TEST_VERBOSE"))
        printf("%s\n", t->err.text);
    for (size_t i = 0; i < d->n_remedies; i++) {
        if (getenv("AH_TEST_VERBOSE"))
            printf("    %s %.3f %.3f\n", remedy_words[d->remedies[i].kind],
                   (double)d->remedies[i].value / (double)TEST_GIB,
                   (double)d->remedies[i].host_bytes / (double)TEST_GIB);
        follow(t, &d->remedies[i]);
        followed[d->remedies[i].kind]++;
    }
    return d->n_remedies;
}

static const struct {
    const char *model, *machine;
    uint64_t device_mib, host_mib, batch, micro_batches, seq;
    enum ah_policy policy;
    bool at_length, usual_effort, auto_micro_batches;
    enum ah_remedy_kind wanted; /* one of the remedies */
} cases[] = {
    {"gpt-22b", "rtx4090-64g", .at_length = true, .policy = AH_POLICY_OPTIMAL,
     .wanted = AH_REMEDY_HOST_MEMORY},
    {"gpt-22b", "a100-40g-epyc7713", 4096, .policy = AH_POLICY_OPTIMAL, .wanted = AH_REMEDY_DEVICE_MEMORY},
    {"gpt-22b", "a100-40g-epyc7713", .policy = AH_POLICY_RESIDENT, .wanted = AH_REMEDY_POLICY},
    {"gpt-22b", "h200-16c-128g", .policy = AH_POLICY_OPTIMAL, .wanted = AH_REMEDY_HOST_MEMORY},
    {"gpt-16b", "a100-40g-epyc7713", 28672, .policy = AH_POLICY_ZERO_OFFLOAD, .wanted = AH_REMEDY_POLICY},
    {"gpt-16b", "h200-16c-128g", 0, 8192, .policy = AH_POLICY_STREAM, .wanted = AH_REMEDY_HOST_MEMORY},
    {"gpt-16b", "h200-16c-128g", 2048, 8192, .policy = AH_POLICY_STREAM, .wanted = AH_REMEDY_BOTH_MEMORIES},
    {"gpt2-124m", "rtx4090-64g", 1024, .policy = AH_POLICY_OPTIMAL, .usual_effort = true,
     .wanted = AH_REMEDY_SEQ},
    {"gpt2-124m", "rtx4090-64g", 1000, .policy = AH_POLICY_OPTIMAL, .batch = 12,
     .wanted = AH_REMEDY_MICRO_BATCHES},
    {"gpt2-124m", "rtx4090-64g", 720, .auto_micro_batches = true, .policy = AH_POLICY_OPTIMAL,
     .wanted = AH_REMEDY_DEVICE_MEMORY},
    {"gpt2-355m", "rtx4090-64g", 2048, .batch = 32, .policy = AH_POLICY_STRONGHOLD,
     .wanted = AH_REMEDY_BATCH},
    {"gpt2-355m", "h200-16c-128g", 2048, 1024, .policy = AH_POLICY_PATRICKSTAR,
     .wanted = AH_REMEDY_DEVICE_MEMORY},
    {"tiny", "rtx4090-64g", 505, .policy = AH_POLICY_OPTIMAL, .wanted = AH_REMEDY_DEVICE_MEMORY},
    {"qwen3-0.6b", "a100-40g-epyc7713", 2048, 4096, .policy = AH_POLICY_AUTOHETE_PAPER,
     .wanted = AH_REMEDY_DEVICE_MEMORY},
};

TEST(remedies, work_when_followed)
{
    size_t followed[AH_REMEDIES] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_request t;
        bool wanted = false;
        if (cases[i].at_length && check_scaled(10) < 10)
            continue;
        test_request_open(&t, cases[i].model, cases[i].machine);
        t.request.device_bytes = cases[i].device_mib * TEST_MIB;
        t.request.host_bytes = cases[i].host_mib * TEST_MIB;
        t.request.policy = cases[i].policy;
        t.request.effort = cases[i].usual_effort ? 0 : AH_EFFORT_QUICK;
        t.request.any_micro_batches = cases[i].auto_micro_batches;
        if (cases[i].batch)
            t.request.training.batch = cases[i].batch;
        if (!check_request(&t, followed))
            fail_msg("case %zu: a plan, or nothing that helps: %s", i, t.err.text);
        for (size_t k = 0; k < t.diagnosis.n_remedies; k++)
            wanted |= t.diagnosis.remedies[k].kind == cases[i].wanted;
        if (!wanted)
            fail_msg("case %zu: no remedy by %s: %s", i, remedy_words[cases[i].wanted], t.err.text);
        test_request_close(&t);
    }
    for (size_t kind = 0; kind < AH_REMEDIES; kind++)
        if (!followed[kind])
            fail_msg("no remedy by %s was met", remedy_words[kind]);
}

static uint64_t below(uint64_t *random, uint64_t n)
{
    return check_random(random) % n;
}

TEST(remedies, work_for_small_requests)
{
    static const char *const machines[] = {"rtx4090-64g", "a100-40g-epyc7713", "h200-16c-128g"};
    uint64_t random = check_seed(20261121);
    size_t followed[AH_REMEDIES] = {0}, diagnosed = 0, helped = 0;
    while (diagnosed < check_scaled(6)) {
        struct test_request t;
        test_request_open(&t, below(&random, 2) ? "tiny" : "gpt2-124m", machines[below(&random, 3)]);
        uint64_t reserve = t.request.machine->device.reserve_bytes;
        t.request.device_bytes = reserve + (4 + below(&random, 600)) * TEST_MIB;
        t.request.host_bytes = (1 + below(&random, 1200)) * TEST_MIB;
        t.request.policy =
            below(&random, 2) ? AH_POLICY_OPTIMAL : (enum ah_policy)below(&random, AH_POLICIES);
        t.request.training.batch = 4 + below(&random, 9);
        t.request.training.dtype = below(&random, 4) ? AH_BF16 : AH_FP32;
        t.request.any_micro_batches = below(&random, 4) == 0;
        size_t n = check_request(&t, followed);
        diagnosed += n || t.err.text[0];
        helped += n > 0;
        test_request_close(&t);
    }
    print_message("%zu diagnosed, %zu with remedies\n", diagnosed, helped);
    assert_true(diagnosed > 0 && helped == diagnosed);
}
