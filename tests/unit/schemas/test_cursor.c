/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the JSON cursor: texts with escapes, walks over containers, and which numbers count as whole numbers.
 */
#include "schemas/cursor.h"

#include "tests/support/check.h"

#include <string.h>

static struct ah_cursor at(const char *text)
{
    return (struct ah_cursor){text, text + strlen(text)};
}

TEST(cursor, reads_text_without_escapes)
{
    static const char *const cases[][2] = {
        {"\"\"", ""},
        {"  \"plain\"", "plain"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00!\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80!"},
        {"\"\xf0\x9f\x98\x80\\u0041\"", "\xf0\x9f\x98\x80"
                                        "A"},
    };
    struct ah_arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ah_cursor cursor = at(cases[i][0]);
        assert_string_equal(ah_cursor_text(&cursor, &arena), cases[i][1]);
        assert_int_equal(ah_cursor_peek(&cursor), '\0');
    }
    ah_arena_release(&arena);
}

TEST(cursor, walks_containers)
{
    struct ah_cursor cursor =
        at(" { \"a\" : [ 1 , [ ] , {\"]\":\"\\\"}\"} ] ,\"b\":7,\"c\":-1.5e3 , \"d\" : true } ");
    struct ah_arena arena = {0};
    uint64_t count = 0;
    assert_false(ah_cursor_enter(&cursor, '['));
    assert_true(ah_cursor_enter(&cursor, '{'));
    assert_true(ah_cursor_next(&cursor, '}'));
    assert_string_equal(ah_cursor_key(&cursor, &arena), "a");
    struct ah_cursor inside = cursor;
    ah_cursor_skip(&cursor);
    assert_true(ah_cursor_next(&cursor, '}'));
    assert_string_equal(ah_cursor_key(&cursor, &arena), "b");
    assert_true(ah_cursor_count(&cursor, &count));
    assert_int_equal(count, 7);
    assert_true(ah_cursor_next(&cursor, '}'));
    assert_string_equal(ah_cursor_key(&cursor, &arena), "c");
    ah_cursor_skip(&cursor);
    assert_true(ah_cursor_next(&cursor, '}'));
    assert_string_equal(ah_cursor_key(&cursor, &arena), "d");
    ah_cursor_skip(&cursor);
    assert_false(ah_cursor_next(&cursor, '}'));
    assert_int_equal(ah_cursor_peek(&cursor), '\0');

    assert_true(ah_cursor_enter(&inside, '['));
    assert_true(ah_cursor_next(&inside, ']'));
    assert_true(ah_cursor_count(&inside, &count));
    assert_true(ah_cursor_next(&inside, ']'));
    assert_true(ah_cursor_enter(&inside, '['));
    assert_false(ah_cursor_next(&inside, ']'));
    assert_true(ah_cursor_next(&inside, ']'));
    assert_true(ah_cursor_enter(&inside, '{'));
    assert_true(ah_cursor_next(&inside, '}'));
    assert_string_equal(ah_cursor_key(&inside, &arena), "]");
    assert_string_equal(ah_cursor_text(&inside, &arena), "\"}");
    assert_false(ah_cursor_next(&inside, '}'));
    assert_false(ah_cursor_next(&inside, ']'));
    ah_arena_release(&arena);
}

TEST(cursor, counts_only_whole_numbers)
{
    static const char *const wrong[] = {
        "-1",   "-0",    "1.0", "1e2", "18446744073709551616", "99999999999999999999999",
        "true", "\"1\"", "[1]", ""};
    uint64_t count = 5;
    struct ah_cursor cursor = at("18446744073709551615");
    assert_true(ah_cursor_count(&cursor, &count));
    assert_true(count == UINT64_MAX);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cursor = at(wrong[i]);
        if (ah_cursor_count(&cursor, &count))
            fail_msg("'%s' is counted", wrong[i]);
    }
    assert_true(count == UINT64_MAX);
}
