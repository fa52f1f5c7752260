/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests printing JSON. Numbers are short and exact in any locale, text is escaped, and lines are filled.
 */
#include "schemas/json.h"
#include "tests/support/check.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_number(double value, const char *expected)
{
    struct ah_buffer out = {0};
    ah_json_put_number(&out, value);
    assert_string_equal(out.data, expected);
    ah_buffer_release(&out);
}

TEST(json, numbers_are_short)
{
    check_number(0, "0");
    check_number(0.1, "0.1");
    check_number(0.1 + 0.2, "0.30000000000000004");
    check_number(1.0 / 3, "0.3333333333333333");
    check_number(-2.5, "-2.5");
    check_number(22e9, "22000000000");
    check_number(9007199254740991.0, "9007199254740991");
    check_number(5e-324, "4.94065645841247e-324");
    check_number(1.7976931348623157e308, "1.7976931348623157e+308");
}

TEST(json, numbers_read_back)
{
    uint64_t seed = check_seed(20240711);
    struct ah_buffer out = {0};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = check_random(&seed);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        ah_buffer_clear(&out);
        ah_json_put_number(&out, value);
        double back = strtod(out.data, NULL);
        assert_memory_equal(&back, &value, sizeof value);
    }
    ah_buffer_release(&out);
}

TEST(json, numbers_have_a_point_in_any_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "de_DE@euro"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) && localeconv()->decimal_point[0] == ',';
    check_number(1234.5, "1234.5");
    setlocale(LC_NUMERIC, "C");
    if (!found)
        print_message("no locale with a decimal comma is installed; checked in the current one\n");
}

TEST(json, text_is_escaped)
{
    struct ah_buffer out = {0};
    assert_true(ah_json_put_text(&out, "a\"b\\c/\b\f\n\r\t\x01\x7f\xc3\xa9"));
    assert_string_equal(out.data, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xa9\"");
    ah_buffer_clear(&out);
    assert_false(ah_json_put_text(&out, "a\xff"));
    assert_int_equal(out.size, 0);
    ah_buffer_release(&out);
}

static void check_layout(const char *compact, const char *expected)
{
    struct ah_buffer out = {0};
    ah_json_layout(&out, compact);
    assert_string_equal(out.data, expected);
    ah_buffer_release(&out);
}

TEST(json, layout_fills_lines)
{
    char compact[1000] = "{\"long\":[";
    check_layout("{}", "{}\n");
    check_layout("[]", "[]\n");
    check_layout("7", "7\n");
    check_layout("{\"a\":1}", "{\n  \"a\": 1\n}\n");
    check_layout("{\"a\":{\"b\":[1,2],\"c\":\"x,y:{z}\\\"\"},\"d\":[]}",
                 "{\n  \"a\": {\"b\": [1, 2], \"c\": \"x,y:{z}\\\"\"},\n  \"d\": []\n}\n");
    for (int i = 0; i < 60; i++)
        strcat(compact, i ? ",1234" : "1234");
    strcat(compact, "]}");
    struct ah_buffer out = {0};
    ah_json_layout(&out, compact);
    size_t lines = 0;
    for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"), lines++)
        assert_true(strlen(line) <= AH_JSON_LINE);
    assert_int_equal(lines, 8); /* 60 numbers of 6 columns, in lines of 110, and four brackets */
    ah_buffer_release(&out);
}

TEST(json, layout_breaks_what_is_long)
{
    char compact[400] = "{\"a\":{\"name\":\"", text[200];
    memset(text, 'y', 120);
    text[120] = '\0';
    strcat(compact, text);
    strcat(compact, "\",\"b\":[[1],[2]]}}");
    struct ah_buffer out = {0};
    ah_json_layout(&out, compact);
    check_text_has(out.data, "{\n  \"a\": {\n    \"name\": \"yyy");
    check_text_has(out.data, "y\",\n    \"b\": [[1], [2]]\n  }\n}\n");
    ah_buffer_release(&out);
}
