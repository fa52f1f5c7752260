/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests remedies for requests that do not fit: kinds and amounts, and that planning with one step less memory fails.
 */
#include "tests/property/planner/requests.h"

#include "base/units.h"

static struct ah_remedy remedy_of(const struct ah_diagnosis *diagnosis, enum ah_remedy_kind kind)
{
    for (size_t i = 0; i < diagnosis->n_remedies; i++)
        if (diagnosis->remedies[i].kind == kind)
            return diagnosis->remedies[i];
    fail_msg("no remedy of kind %d", (int)kind);
    return (struct ah_remedy){0};
}

TEST(remedies, go_beyond_the_machine)
{
    struct test_request t;
    char lacking[AH_UNITS_TEXT_MAX];
    test_request_open(&t, "gpt-22b", "rtx4090-64g");
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    const struct ah_diagnosis *d = &t.diagnosis;
    const struct ah_remedy device = remedy_of(d, AH_REMEDY_DEVICE_MEMORY);
    const struct ah_remedy host = remedy_of(d, AH_REMEDY_HOST_MEMORY);
    assert_true(d->proven && !d->both);
    assert_string_equal(d->resource, "host memory"); /* host memory has the smaller relative shortage */
    assert_string_equal(d->other_resource, "device memory");
    assert_true(device.beyond_machine && !device.changes_mathematics);
    assert_true(host.beyond_machine && host.step_us > device.step_us);
    assert_true(host.value > d->needed_bytes && host.value < d->needed_bytes + d->needed_bytes / 8);
    assert_true(device.value >= d->other_needed_bytes &&
                device.value < d->other_needed_bytes + d->other_needed_bytes / 16);
    assert_int_equal(host.value % TEST_GIB, 0);
    assert_int_equal(device.value % TEST_GIB, 0);
    check_text_has(t.err.text, "'gpt-22b' with policy optimal on 'rtx4090-64g': no plan exists; host memory");
    check_text_has(t.err.text, ah_units_print_bytes(lacking, d->needed_bytes - d->available_bytes));
    check_text_has(t.err.text, "; or device memory is short by");
    test_request_close(&t);
}

/* With one step less than the remedy, no plan fits. A step is a 32nd of the memory, as a power of two. */
TEST(remedies, are_the_least_memory)
{
    struct test_request t;
    test_request_open(&t, "gpt2-124m", "rtx4090-64g");
    t.request.device_bytes = 800 * TEST_MIB;
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    const struct ah_remedy device = remedy_of(&t.diagnosis, AH_REMEDY_DEVICE_MEMORY);
    assert_true(!device.beyond_machine);
    assert_int_equal(device.value % (32 * TEST_MIB), 0);
    t.request.device_bytes = device.value - 32 * TEST_MIB;
    int rc = test_request_plan(&t);
    assert_true(rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN);
    test_request_close(&t);
}

/* There are two orders of micro-batches. The remedy names the memory for the one that needs less. */
TEST(remedies, need_what_the_better_order_needs)
{
    struct test_request t;
    test_request_open(&t, "gpt2-355m", "rtx4090-64g");
    t.request.training.batch = t.request.training.micro_batches = 4;
    t.request.effort = AH_EFFORT_QUICK;
    t.request.device_bytes = 1050 * TEST_MIB;
    CHECK_OK(test_request_plan(&t), t.err);
    t.request.device_bytes = 1000 * TEST_MIB;
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    assert_true(t.diagnosis.at_least && t.diagnosis.needed_bytes <= 1050 * TEST_MIB);
    assert_true(remedy_of(&t.diagnosis, AH_REMEDY_DEVICE_MEMORY).value < 1100 * TEST_MIB);
    test_request_close(&t);
}

/* For policies other than `optimal`, the needed memory is found by trying all settings of the policy. */
TEST(remedies, of_a_policy_that_is_not_enough)
{
    struct test_request t;
    test_request_open(&t, "gpt-4b", "rtx4090-64g");
    t.request.policy = AH_POLICY_RESIDENT;
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    const struct ah_remedy policy = remedy_of(&t.diagnosis, AH_REMEDY_POLICY);
    const struct ah_remedy device = remedy_of(&t.diagnosis, AH_REMEDY_DEVICE_MEMORY);
    assert_true(t.diagnosis.proven && t.diagnosis.at_least);
    assert_string_equal(t.diagnosis.resource, "device memory");
    assert_null(t.diagnosis.other_resource);
    assert_true(policy.value == AH_POLICY_OPTIMAL && t.diagnosis.remedies[0].kind == AH_REMEDY_POLICY);
    assert_true(device.value >= t.diagnosis.needed_bytes && device.beyond_machine);
    assert_true(device.value - t.diagnosis.needed_bytes < 3 * TEST_GIB);
    check_text_has(t.err.text, "no plan exists; device memory is short by at least ");
    t.request.any_micro_batches = true; /* any number of micro-batches */
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    assert_true(t.diagnosis.proven && remedy_of(&t.diagnosis, AH_REMEDY_DEVICE_MEMORY).value <= device.value);
    test_request_close(&t);
}

TEST(remedies, of_both_memories)
{
    struct test_request t;
    test_request_open(&t, "gpt-8b", "a100-40g-epyc7713");
    t.request.policy = AH_POLICY_STREAM;
    t.request.device_bytes = 2 * TEST_GIB;
    t.request.host_bytes = 8 * TEST_GIB;
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    const struct ah_remedy both = remedy_of(&t.diagnosis, AH_REMEDY_BOTH_MEMORIES);
    assert_true(t.diagnosis.both && !both.beyond_machine && !t.diagnosis.at_least);
    assert_int_equal(t.diagnosis.needed_bytes, both.value);
    assert_int_equal(t.diagnosis.other_needed_bytes, both.host_bytes);
    check_text_has(t.err.text, "; and host memory is short by");
    t.request.device_bytes = both.value; /* more device memory alone is not enough */
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    test_request_close(&t);
}

/* The memory that the system keeps on a larger machine is not part of the budget. */
TEST(remedies, count_what_the_system_keeps)
{
    struct test_request t;
    test_request_open(&t, "llama-2-7b", "rtx4090-64g");
    assert_int_equal(test_request_plan(&t), AH_E_INFEASIBLE);
    const struct ah_remedy host = remedy_of(&t.diagnosis, AH_REMEDY_HOST_MEMORY);
    assert_true(host.beyond_machine);
    t.machine.body.machine->host.memory_bytes = host.value;
    CHECK_OK(test_request_plan(&t), t.err);
    assert_true(t.plan.memory.host_capacity_bytes < host.value);
    test_request_close(&t);
}
