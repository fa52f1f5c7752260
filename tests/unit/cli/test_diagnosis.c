/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that each remedy prints as the option that carries it out, and that a printed size is exact.
 */
#include "base/units.h"
#include "cli/plan/diagnosis.h"
#include "tests/support/check.h"

#include <string.h>

static void is(enum ah_remedy_kind kind, uint64_t value, const char *expected)
{
    char text[AH_REMEDY_TEXT_MAX];
    const struct ah_remedy remedy = {.kind = kind, .value = value};
    assert_string_equal(ah_diagnosis_remedy(text, &remedy), expected);
}

TEST(diagnosis, remedies_are_command_lines)
{
    is(AH_REMEDY_DEVICE_MEMORY, UINT64_C(20) << 30, "--device-memory 20GiB");
    is(AH_REMEDY_HOST_MEMORY, UINT64_C(1536) << 20, "--host-memory 1536MiB");
    is(AH_REMEDY_HOST_MEMORY, (UINT64_C(1) << 30) + 7, "--host-memory 1073741831");
    is(AH_REMEDY_MICRO_BATCHES, 4, "--micro-batches 4");
    is(AH_REMEDY_BATCH, 3, "--batch 3");
    is(AH_REMEDY_SEQ, 512, "--seq 512");
    is(AH_REMEDY_STATE_DTYPE, 0, "--state-dtype bf16");
    is(AH_REMEDY_POLICY, AH_POLICY_STREAM, "--policy stream");
}

TEST(diagnosis, both_memories_are_two_options)
{
    char text[AH_REMEDY_TEXT_MAX];
    const struct ah_remedy remedy = {
        .kind = AH_REMEDY_BOTH_MEMORIES, .value = UINT64_C(26) << 30, .host_bytes = UINT64_C(70) << 30};
    assert_string_equal(ah_diagnosis_remedy(text, &remedy), "--device-memory 26GiB --host-memory 70GiB");
}

/* Reading a printed size gives the same number of bytes. */
TEST(diagnosis, sizes_lose_nothing)
{
    uint64_t random = check_seed(7);
    for (int i = 0; i < 1000; i++) {
        uint64_t bytes = (check_random(&random) >> 34) << (check_random(&random) % 3 * 10);
        bytes = bytes % (UINT64_C(24) << 30) + 1;
        const struct ah_remedy remedy = {.kind = AH_REMEDY_DEVICE_MEMORY, .value = bytes};
        char text[AH_REMEDY_TEXT_MAX];
        uint64_t read = 0;
        struct ah_error err = {0};
        ah_diagnosis_remedy(text, &remedy);
        CHECK_OK(ah_units_parse_bytes(text + strlen("--device-memory "), &read, &err), err);
        assert_int_equal(read, bytes);
    }
}
