/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which messages a log passes to its sink, where long lines are cut, and the names of levels.
 */
#include "base/log.h"

#include "tests/support/check.h"

#include <string.h>

struct heard {
    int count;
    enum ah_log_level level;
    char text[2 * AH_LOG_TEXT_MAX];
};

static void hear(void *context, enum ah_log_level level, const char *text)
{
    struct heard *heard = context;
    heard->count++;
    heard->level = level;
    strcpy(heard->text, text);
}

TEST(log, hands_on_what_matters)
{
    struct heard heard = {0};
    struct ah_log log = {.write = hear, .context = &heard, .least = AH_LOG_WARNING};
    ah_log_printf(&log, AH_LOG_INFO, "dropped");
    assert_int_equal(heard.count, 0);
    ah_log_printf(&log, AH_LOG_WARNING, "%d samples of '%s'", 3, "copy");
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, AH_LOG_WARNING);
    assert_string_equal(heard.text, "3 samples of 'copy'");
    ah_log_printf(&log, AH_LOG_ERROR, "more");
    assert_int_equal(heard.count, 2);
}

TEST(log, no_sink_is_silence)
{
    struct ah_log log = {0};
    ah_log_printf(NULL, AH_LOG_ERROR, "%s", "nobody");
    ah_log_printf(&log, AH_LOG_ERROR, "%s", "nobody");
}

TEST(log, long_lines_are_cut)
{
    struct heard heard = {0};
    struct ah_log log = {.write = hear, .context = &heard};
    ah_log_printf(&log, AH_LOG_DEBUG, "%*d", 2 * AH_LOG_TEXT_MAX, 1);
    assert_int_equal(strlen(heard.text), AH_LOG_TEXT_MAX - 1);
}

TEST(log, level_names)
{
    assert_string_equal(ah_log_level_name(AH_LOG_DEBUG), "debug");
    assert_string_equal(ah_log_level_name(AH_LOG_INFO), "info");
    assert_string_equal(ah_log_level_name(AH_LOG_WARNING), "warning");
    assert_string_equal(ah_log_level_name(AH_LOG_ERROR), "error");
}
