/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of a layout once: expects an error and a layout that still works.
 */
#include "runtime/schedule/layout.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"

static const struct ah_layout_tensor given[] = {{.bytes = 300, .from = 0, .to = 2},
                                                {.bytes = 300, .from = 2, .to = 3},
                                                {.bytes = 300, .from = 1, .to = 1}};

/* Grows a working layout. If this fails, the layout must still place the tensors for which it had room. */
static int grow_and_place(void *context, struct ah_error *err)
{
    struct ah_layout layout = {0};
    struct ah_layout_result result;
    struct ah_layout_tensor tensors[] = {given[0], given[1], given[2]};
    (void)context;
    int rc = ah_layout_reserve(&layout, 3, 4, err);
    if (rc)
        return rc;
    rc = ah_layout_reserve(&layout, 1000, 1000, err);
    ah_layout_place(&layout, tensors, 3, 4, &result);
    assert_true(result.peak_bytes == 1024);
    ah_layout_release(&layout);
    return rc;
}

TEST(layout, out_of_memory_is_an_error)
{
    assert_int_equal(fault_sweep(grow_and_place, NULL, 0), 2);
}

TEST(layout, placing_allocates_nothing)
{
    struct ah_layout layout = {0};
    struct ah_layout_result result;
    struct ah_layout_tensor tensors[] = {given[0], given[1], given[2]};
    struct ah_error err = {0};
    CHECK_OK(ah_layout_reserve(&layout, 3, 4, &err), err);
    (void)fault_count();
    ah_layout_live(&layout, tensors, 3, 4, &result);
    ah_layout_place(&layout, tensors, 3, 4, &result);
    CHECK_OK(ah_layout_reserve(&layout, 2, 4, &err), err); /* the layout already has room for this */
    assert_int_equal(fault_count(), 0);
    ah_layout_release(&layout);
}
