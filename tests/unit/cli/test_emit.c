/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests JSON output, in one line and laid out, against expected texts.
 */
#include "cli/frame/emit.h"
#include "tests/support/check.h"

#include <math.h>

TEST(emit, one_line)
{
    struct ah_buffer out = {0};
    struct ah_emit emit = {.out = &out, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "text", "a\"b\\c\n");
    ah_emit_text(&emit, "none", NULL);
    ah_emit_integer(&emit, "big", 9007199254740991);
    ah_emit_number(&emit, "tenth", 0.1);
    ah_emit_number(&emit, "infinite", (double)INFINITY);
    ah_emit_open(&emit, "list", '[');
    ah_emit_bool(&emit, NULL, true);
    ah_emit_bool(&emit, NULL, false);
    ah_emit_open(&emit, NULL, '[');
    ah_emit_close(&emit);
    ah_emit_close(&emit);
    ah_emit_json(&emit, "raw", "{\"x\":1}");
    ah_emit_close(&emit);
    assert_string_equal(out.data,
                        "{\"text\":\"a\\\"b\\\\c\\n\",\"none\":null,\"big\":9007199254740991,"
                        "\"tenth\":0.1,\"infinite\":null,\"list\":[true,false,[]],\"raw\":{\"x\":1}}");
    ah_buffer_release(&out);
}

TEST(emit, repairs_what_is_not_utf8)
{
    struct ah_buffer out = {0};
    struct ah_emit emit = {.out = &out, .one_line = true};
    ah_emit_open(&emit, NULL, '[');
    ah_emit_text(&emit, NULL,
                 "a\xff"
                 "b\xc3\xa9\xc3");
    ah_emit_close(&emit);
    assert_string_equal(out.data, "[\"a?b\xc3\xa9?\"]");
    ah_buffer_release(&out);
}

TEST(emit, lays_out_and_ends_the_line)
{
    struct ah_buffer out = {0};
    struct ah_emit emit = {.out = &out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_integer(&emit, "n", 7);
    ah_emit_close(&emit);
    assert_true(out.size > 2);
    assert_int_equal(out.data[out.size - 1], '\n');
    assert_int_not_equal(out.data[out.size - 2], '\n');
    ah_buffer_release(&out);
}

TEST(emit, without_a_place_prints_nothing)
{
    struct ah_emit emit = {.out = NULL};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "a", "b");
    ah_emit_error(&emit, "error", &(struct ah_error){.code = AH_E_IO, .text = "x"}, 1);
    ah_emit_close(&emit);
    assert_int_equal(emit.text.size, 0);
}

TEST(emit, error_object)
{
    struct ah_buffer out = {0};
    struct ah_emit emit = {.out = &out, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_error(&emit, "error", &(struct ah_error){.code = AH_E_DOCUMENT, .text = "no"}, 3);
    ah_emit_close(&emit);
    assert_string_equal(out.data,
                        "{\"error\":{\"code\":\"invalid_document\",\"exit_status\":3,\"message\":\"no\"}}");
    ah_buffer_release(&out);
}
