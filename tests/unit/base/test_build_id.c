/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the program's build id is hexadecimal text and that each call returns the same text.
 */
#include "base/build_id.h"

#include "tests/support/check.h"

#include <string.h>

/* This assumes that the linker writes build ids, as GNU ld does by default on Linux distributions. */
TEST(build_id, the_program_has_one)
{
    char text[AH_BUILD_ID_TEXT_MAX], again[AH_BUILD_ID_TEXT_MAX];
    assert_ptr_equal(ah_build_id_read(text), text);
    assert_true(strlen(text) >= 16 && strspn(text, "0123456789abcdef") == strlen(text));
    assert_string_equal(ah_build_id_read(again), text);
}
