/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests clipping by the norm of all gradients: compares scale and norm with hand calculations, and checks that sums
 * that are not finite are refused.
 */
#include "runtime/device/host/clip.h"

#include "tests/support/check.h"

#include <math.h>

TEST(clip, limits_the_norm)
{
    struct ah_error err = {0};
    struct ah_adamw_scalars scalars = {.grad_scale = 1};
    const double sums[] = {9, 0, 16};
    CHECK_OK(ah_clip_run(&scalars, sums, &(struct ah_op_clip){3, 1.0}, &err), err);
    assert_true(scalars.grad_norm == 5.0f);
    assert_true(scalars.grad_scale == (float)(1.0 / (5.0 + 1e-6)));
    CHECK_OK(ah_clip_run(&scalars, sums, &(struct ah_op_clip){3, 6.0}, &err), err);
    assert_true(scalars.grad_scale == 1.0f);
}

TEST(clip, only_records_without_limit)
{
    struct ah_error err = {0};
    struct ah_adamw_scalars scalars = {.grad_scale = 0.25f};
    const double sums[] = {4};
    CHECK_OK(ah_clip_run(&scalars, sums, &(struct ah_op_clip){1, 0.0}, &err), err);
    assert_true(scalars.grad_norm == 2.0f);
    assert_true(scalars.grad_scale == 0.25f);
}

TEST(clip, refuses_what_is_not_finite)
{
    const double bad[] = {NAN, INFINITY, -1};
    for (size_t i = 0; i < 3; i++) {
        struct ah_error err = {0};
        struct ah_adamw_scalars scalars = {.grad_scale = 1, .grad_norm = 7, .step = 12};
        CHECK_FAILS(ah_clip_run(&scalars, &bad[i], &(struct ah_op_clip){1, 1.0}, &err), err, AH_E_NUMERIC,
                    "step 12");
        assert_true(scalars.grad_norm == 7 && scalars.grad_scale == 1);
    }
}
