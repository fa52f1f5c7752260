/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a report passes through a pipe unchanged, and that reading a truncated report fails.
 */
#include "cli/profile/profile_report.h"

#include "tests/support/check.h"

#include <string.h>

static const char document[] = "{\"name\": \"one\"}\nend\nlink 7 8 1 1 1\n"; /* looks like our lines */

static struct ah_report_host hosts[] = {{"vm", 0, document, sizeof document - 1}, {"left vm", 1, "{}\n", 3}};
static struct ah_report_link links[] = {{0, 1, {1.1e9 / 3, 29.6, 0.49}}};

TEST(profile_report, reads_what_was_written)
{
    const struct ah_profile_report report = {hosts, 2, links, 1, 0, {0}};
    struct ah_profile_report found;
    struct ah_buffer text = {0};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    ah_profile_report_print(&report, &text);
    CHECK_OK(ah_profile_report_parse(text.data, text.size, &arena, &found, &err), err);
    assert_int_equal(found.n_hosts, 2);
    assert_int_equal(found.n_links, 1);
    assert_string_equal(found.hosts[0].text, document);
    assert_string_equal(found.hosts[1].name, "left vm");
    assert_int_equal(found.hosts[1].first, 1);
    assert_int_equal(found.hosts[1].text_bytes, 3);
    assert_memory_equal(&found.links[0].link, &links[0].link, sizeof links[0].link);
    for (size_t bytes = 0; bytes < text.size - 4; bytes++)
        CHECK_FAILS(ah_profile_report_parse(text.data, bytes, &arena, &found, &err), err, AH_E_FAILED,
                    "only part");
    ah_buffer_release(&text);
    ah_arena_release(&arena);
}

TEST(profile_report, of_a_failure_has_the_reason_alone)
{
    struct ah_profile_report report = {hosts, 2, links, 1, 1, {0}}, found;
    struct ah_buffer text = {0};
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    ah_error_set(&report.why, AH_E_MISSING, "there is no CUDA here");
    ah_profile_report_print(&report, &text);
    CHECK_OK(ah_profile_report_parse(text.data, text.size, &arena, &found, &err), err);
    assert_int_equal(found.culprit, 1);
    assert_int_equal(found.why.code, AH_E_MISSING);
    assert_string_equal(found.why.text, "there is no CUDA here");
    assert_int_equal(found.n_links, 0);
    assert_null(found.hosts[0].text);
    ah_buffer_release(&text);
    ah_arena_release(&arena);
}

TEST(profile_report, tells_progress_from_other_lines)
{
    struct ah_buffer line = {0};
    double fraction = 0;
    const char *what = NULL;
    ah_profile_report_progress(0.25, "matrix products: bf16 nt", &line);
    line.data[line.size - 1] = '\0';
    assert_true(ah_profile_report_is_progress(line.data, &fraction, &what));
    check_near(fraction, 0.25, 1e-9);
    assert_string_equal(what, "matrix products: bf16 nt");
    assert_false(ah_profile_report_is_progress("report", &fraction, &what));
    ah_buffer_release(&line);
}
