/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests plans of the planner, written as documents, read back and run. They have every policy, with budgets from all
 * memory down to a third of what `resident` takes. The CPU device runs plans made for any machine and gives equal bits.
 */
#include "tests/golden/train/policies.h"
#include "tests/support/documents.h"

static struct golden golden;
static struct golden_result first, other;

static void run_policies(const char *name, enum ah_dtype dtype, const struct ah_machine *machine,
                         uint64_t ran[AH_POLICIES])
{
    golden_open(&golden, name, dtype);
    golden_plan_resident(&golden);
    uint64_t resident = golden.options.plan->memory.device_bytes;
    ah_trainer_close(golden_start(&golden, &first));
    for (int policy = 0; policy < AH_POLICIES; policy++)
        for (uint64_t third = 0; third < 3; third++) {
            const struct golden_asked asked = {(enum ah_policy)policy,
                                               third ? resident * (3 - third) / 3 : 0};
            if (!golden_plan_policy(&golden, machine, asked))
                continue;
            ah_trainer_close(golden_start(&golden, &other));
            for (size_t i = 0; i < first.n_records; i++)
                assert_memory_equal(&first.records[i].loss, &other.records[i].loss, sizeof(double));
            assert_memory_equal(first.weights, other.weights, first.n_values * sizeof(float));
            ran[policy]++;
        }
    golden_close(&golden);
}

TEST(policies, give_the_same_bits)
{
    static const char *const names[] = {"gpt2", "llama", "mistral-documents", "qwen2", "qwen3"};
    uint64_t ran[AH_POLICIES] = {0};
    struct ah_document machine;
    load_document(&machine, "examples/machines/rtx4090-64g.json", AH_DOCUMENT_MACHINE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        run_policies(names[i], i % 2 ? AH_BF16 : AH_FP32, machine.body.machine, ran);
    for (int policy = 0; policy < AH_POLICIES; policy++)
        if (!ran[policy])
            fail_msg("policy '%s' has not run", ah_words_policy[policy]);
    ah_document_release(&machine);
}
