/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of the planner, written as documents and read again, run: every policy, under budgets from what is there down to
 * a third of what resident takes. Whatever machine a plan was made for, the CPU device runs it, to the same bits.
 */
#include "planner/planner.h"
#include "tests/golden/train/case.h"

static struct golden golden;
static struct golden_result first, other;

struct asked {
    enum ah_policy policy;
    uint64_t device_bytes; /* of the arena; 0: all */
};

/* False: there is no such plan. */
static bool plan_with(struct golden *g, const struct ah_machine *machine, struct asked asked)
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

static void run_policies(const char *name, enum ah_dtype dtype, const struct ah_machine *machine,
                         uint64_t ran[AH_POLICIES])
{
    golden_open(&golden, name, dtype);
    golden_plan_resident(&golden);
    uint64_t resident = golden.options.plan->memory.device_bytes;
    ah_trainer_close(golden_start(&golden, &first));
    for (int policy = 0; policy < AH_POLICIES; policy++)
        for (uint64_t third = 0; third < 3; third++) {
            const struct asked asked = {(enum ah_policy)policy, third ? resident * (3 - third) / 3 : 0};
            if (!plan_with(&golden, machine, asked))
                continue;
            ah_trainer_close(golden_start(&golden, &other));
            for (size_t i = 0; i < first.n_records; i++)
                assert_memory_equal(&first.records[i].loss, &other.records[i].loss, sizeof(double));
            assert_memory_equal(first.weights, other.weights, first.n_values * sizeof(float));
            ran[policy]++;
        }
    golden_close(&golden);
}

static void test_policies__give_the_same_bits(void **state)
{
    static const char *const names[] = {"gpt2", "llama", "mistral-documents", "qwen2", "qwen3"};
    uint64_t ran[AH_POLICIES] = {0};
    struct ah_document machine;
    struct ah_error err = {0};
    (void)state;
    CHECK_OK(ah_document_load(&machine, "examples/machines/rtx4090-64g.json", AH_DOCUMENT_MACHINE, &err),
             err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        run_policies(names[i], i % 2 ? AH_BF16 : AH_FP32, machine.body.machine, ran);
    for (int policy = 0; policy < AH_POLICIES; policy++)
        if (!ran[policy])
            fail_msg("policy '%s' has not run", ah_words_policy[policy]);
    ah_document_release(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policies__give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
