/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests text for terminals: escaping, width, time left, and tables against expected lines.
 */
#include "cli/frame/table.h"
#include "cli/frame/terminal.h"
#include "tests/support/check.h"

#include <string.h>

static void cleans_to(const char *text, const char *expected)
{
    char copy[64];
    strcpy(copy, text);
    ah_terminal_clean(copy);
    assert_string_equal(copy, expected);
}

TEST(terminal, cleans_what_steers)
{
    cleans_to("plain \xc3\xa9", "plain \xc3\xa9");
    cleans_to("\033[31mred", "?[31mred");
    cleans_to("a\r\nb\tc\x7f", "a??b?c?");
    cleans_to("\xc2\x9b"
              "2J\xc2\xa0",
              "?2J\xc2\xa0"); /* C1 controls are replaced, a no-break space is not */
    cleans_to("a\xe2\x80\xae"
              "b\xe2\x81\xa6"
              "c\xe2\x80\x93",
              "a?b?c\xe2\x80\x93"); /* a dash is not replaced */
    cleans_to("\xe2\x80", "\xe2\x80");
}

TEST(terminal, width_counts_code_points)
{
    assert_int_equal(ah_terminal_width(""), 0);
    assert_int_equal(ah_terminal_width("\xc3\xa9t\xc3\xa9"), 3);
}

/* Progress is uneven: 8 % of the work takes 2 s, nothing happens for 3 s, and work continues at the old rate. */
TEST(terminal, left_does_not_jump)
{
    struct ah_progress progress = {0};
    assert_true(ah_terminal_left_s(&progress, 1, 0.04) < 0);
    double before = ah_terminal_left_s(&progress, 2, 0.08);
    check_near(before, 23, 0.01);
    for (int i = 1; i <= 300; i++) {
        const double elapsed_s = 2 + 0.1 * i, stopped_s = elapsed_s < 5 ? elapsed_s - 2 : 3;
        const double left = ah_terminal_left_s(&progress, elapsed_s, 0.04 * (elapsed_s - stopped_s));
        if (left < 0)
            break;
        assert_true(left - before < 1.0 && before - left < 1.0);
        before = left;
    }
    assert_true(before < 4);
}

TEST(terminal, left_counts_down_at_a_steady_rate)
{
    struct ah_progress progress = {0};
    for (int percent = 5; percent < 100; percent++)
        check_near(ah_terminal_left_s(&progress, 0.6 * percent, percent / 100.0), 60 - 0.6 * percent, 1e-6);
    assert_true(ah_terminal_left_s(&progress, 60, 1) < 0);
}

static const struct ah_style plain = {"", "", "", "", "", ""};

TEST(terminal, table_aligns)
{
    struct ah_arena arena = {0};
    struct ah_buffer out = {0};
    struct ah_table table = {.arena = &arena, .columns = {"name", ">count", "note"}, .indent = 1};
    const char *const cells[] = {"\xc3\xa9", "7", "", "long name", "12345", "see\033"};
    for (size_t i = 0; i < 6; i++)
        ah_table_cell(&table, "%s", cells[i]);
    ah_table_print(&table, &out, plain, 0);
    assert_string_equal(out.data, " name       count  note\n"
                                  " \xc3\xa9              7\n"
                                  " long name  12345  see?\n");
    ah_buffer_release(&out);
    ah_arena_release(&arena);
}

TEST(terminal, table_without_headings_or_rows)
{
    struct ah_arena arena = {0};
    struct ah_buffer out = {0};
    struct ah_table table = {.arena = &arena, .columns = {"", ""}};
    ah_table_print(&table, &out, plain, 0);
    assert_int_equal(out.size, 0);
    ah_table_cell(&table, "a");
    ah_table_cell(&table, "%d", 5);
    ah_table_print(&table, &out, plain, 0);
    assert_string_equal(out.data, "a  5\n");
    ah_buffer_release(&out);
    ah_arena_release(&arena);
}

static void check_table(struct ah_table *table, size_t columns, const char *expected)
{
    struct ah_buffer out = {0};
    ah_table_print(table, &out, plain, columns);
    assert_string_equal(out.data, expected);
    ah_buffer_release(&out);
}

/* Narrow tables wrap headings first, then text, and last numbers before their units. Without a width, nothing wraps. */
TEST(terminal, table_wraps_at_its_width)
{
    struct ah_arena arena = {0};
    struct ah_table table = {.arena = &arena, .columns = {"what", ">waits for data", "why"}, .indent = 1};
    const char *const cells[] = {"a", "1.15 s", "one and two", "b", "-", "three"};
    for (size_t i = 0; i < 6; i++)
        ah_table_cell(&table, "%s", cells[i]);
    const char *const whole = " what  waits for data  why\n"
                              " a             1.15 s  one and two\n"
                              " b                  -  three\n";
    check_table(&table, 0, whole);
    check_table(&table, 34, whole);
    check_table(&table, 33,
                " what  waits for  why\n"
                "            data\n"
                " a        1.15 s  one and two\n"
                " b             -  three\n");
    check_table(&table, 22,
                " what   waits  why\n"
                "          for\n"
                "         data\n"
                " a     1.15 s  one and\n"
                "               two\n"
                " b          -  three\n");
    check_table(&table, 19,
                " what  waits  why\n"
                "         for\n"
                "        data\n"
                " a      1.15  one\n"
                "           s  and\n"
                "              two\n"
                " b         -  three\n");
    ah_arena_release(&arena);
}

TEST(terminal, table_cuts_a_digest_last)
{
    struct ah_arena arena = {0};
    struct ah_table table = {.arena = &arena, .columns = {"file", "digest"}};
    ah_table_cell(&table, "model");
    ah_table_cell(&table, "0123456789abcdef0123456789abcdef");
    check_table(&table, 27,
                "file   digest\n"
                "model  0123456789abcdef0123\n"
                "       456789abcdef\n");
    check_table(&table, 5,
                "file   digest\n"
                "model  0123456789abcdef\n"
                "       0123456789abcdef\n");
    ah_arena_release(&arena);
}
