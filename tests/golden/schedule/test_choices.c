/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins the meaning of 640 random choices, to the bit, by digests of times and lane orders (not of layouts). A change
 * that keeps the meaning of plans must keep the digests. After any other change, the test prints new digests for the
 * table; the commit gives the reason.
 */
#include "runtime/schedule/replay.h"
#include "tests/property/schedule/choices.h"

#include <inttypes.h>

enum { ROWS = 8, JOBS = 20, CHOICES = 4 };

static const uint64_t expected[ROWS] = {
    UINT64_C(0x3b915e78d7e055bc), UINT64_C(0x053483b55dd4aa54), UINT64_C(0x24d20c65cde519da),
    UINT64_C(0x9b8d282a441bc2b8), UINT64_C(0xeffd14468d7fc977), UINT64_C(0xe1ff3eec322597f5),
    UINT64_C(0x42ba52bd9a9296a1), UINT64_C(0xfb673a32efc3814d),
};

static uint64_t mix(uint64_t digest, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        digest = (digest ^ bytes[i]) * UINT64_C(1099511628211);
    return digest;
}

static uint64_t mix_order(uint64_t digest, const uint64_t *order, size_t n)
{
    return mix(mix(digest, &n, sizeof n), order, n * sizeof *order);
}

static uint64_t mix_plan(uint64_t digest, const struct ah_plan *plan)
{
    const double times[] = {plan->time.step_us,
                            plan->time.busy_us[AH_PLAN_LANE_COMPUTE],
                            plan->time.busy_us[AH_PLAN_LANE_H2D],
                            plan->time.busy_us[AH_PLAN_LANE_D2H],
                            plan->time.busy_us[AH_PLAN_LANE_HOST],
                            plan->time.exposed_us.of[AH_PLAN_LANE_H2D],
                            plan->time.exposed_us.of[AH_PLAN_LANE_D2H],
                            plan->time.exposed_us.of[AH_PLAN_LANE_HOST]};
    digest = mix(digest, times, sizeof times);
    digest =
        mix_order(digest, plan->lanes.order[AH_PLAN_LANE_COMPUTE], plan->lanes.n_order[AH_PLAN_LANE_COMPUTE]);
    digest = mix_order(digest, plan->lanes.order[AH_PLAN_LANE_H2D], plan->lanes.n_order[AH_PLAN_LANE_H2D]);
    digest = mix_order(digest, plan->lanes.order[AH_PLAN_LANE_D2H], plan->lanes.n_order[AH_PLAN_LANE_D2H]);
    return mix_order(digest, plan->lanes.order[AH_PLAN_LANE_HOST], plan->lanes.n_order[AH_PLAN_LANE_HOST]);
}

static uint64_t digest_job(uint64_t digest, uint64_t *seed)
{
    static struct test_case c;
    struct ah_schedule schedule = {0};
    struct ah_error err = {0};
    struct ah_score score;
    test_case_open(&c, seed);
    CHECK_OK(ah_schedule_init(&schedule, &c.job, &err), err);
    for (int k = 0; k < CHOICES; k++) {
        struct ah_document document;
        test_case_choose(&c, seed);
        if (ah_schedule_evaluate(&schedule, &c.choice, &score, &err))
            continue;
        test_case_emit(&c, &schedule, &document);
        digest = mix_plan(digest, document.body.plan);
        ah_document_release(&document);
    }
    ah_schedule_release(&schedule);
    test_case_close(&c);
    return digest;
}

TEST(choices, mean_what_they_meant)
{
    size_t other = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        uint64_t seed = 1000 + row, digest = UINT64_C(14695981039346656037);
        for (int job = 0; job < JOBS; job++)
            digest = digest_job(digest, &seed);
        if (digest != expected[row])
            print_error("row %" PRIu64 ": UINT64_C(0x%016" PRIx64 "),\n", row, digest);
        other += digest != expected[row];
    }
    assert_int_equal(other, 0);
}
