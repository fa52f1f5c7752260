/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests error objects: code, sentence, prefix and truncation, and the exit status of each code.
 */
#include "base/error.h"

#include "tests/support/check.h"

#include <string.h>

TEST(error, set_stores_code_and_sentence)
{
    struct ah_error err = {0};
    assert_int_equal(ah_error_set(&err, AH_E_DOCUMENT, "field '%s' is %d", "seq", 7), AH_E_DOCUMENT);
    assert_int_equal(err.code, AH_E_DOCUMENT);
    assert_string_equal(err.text, "field 'seq' is 7");
}

TEST(error, null_is_the_code_only)
{
    assert_int_equal(ah_error_set(NULL, AH_E_IO, "%s", "lost"), AH_E_IO);
    assert_int_equal(ah_error_prefix(NULL, AH_E_IO, "%s", "lost"), AH_E_IO);
    assert_int_equal(ah_error_memory(NULL), AH_E_MEMORY);
}

TEST(error, prefix_goes_before)
{
    struct ah_error err = {0};
    ah_error_set(&err, AH_E_IO, "no such file");
    assert_int_equal(ah_error_prefix(&err, AH_E_DOCUMENT, "plan '%s'", "a.json"), AH_E_DOCUMENT);
    assert_int_equal(err.code, AH_E_DOCUMENT);
    assert_string_equal(err.text, "plan 'a.json': no such file");
}

TEST(error, long_sentences_are_cut)
{
    struct ah_error err = {0};
    char lots[2 * AH_ERROR_TEXT_MAX];
    memset(lots, 'y', sizeof lots - 1);
    lots[sizeof lots - 1] = '\0';
    ah_error_set(&err, AH_E_FAILED, "%s", lots);
    assert_int_equal(strlen(err.text), AH_ERROR_TEXT_MAX - 1);
    ah_error_prefix(&err, AH_E_FAILED, "head");
    assert_int_equal(strlen(err.text), AH_ERROR_TEXT_MAX - 1);
    assert_memory_equal(err.text, "head: yyy", 9);
    ah_error_prefix(&err, AH_E_FAILED, "%s", lots);
    assert_int_equal(strlen(err.text), AH_ERROR_TEXT_MAX - 1);
}

/* Scripts rely on these exit statuses. */
TEST(error, exit_statuses)
{
    static const struct {
        int code, exit_status;
        const char *word;
    } expected[] = {
        {AH_OK, 0, "ok"},
        {AH_E_FAILED, 1, "failed"},
        {AH_E_MEMORY, 1, "out_of_memory"},
        {AH_E_IO, 1, "io"},
        {AH_E_USAGE, 2, "usage"},
        {AH_E_DOCUMENT, 3, "invalid_document"},
        {AH_E_INFEASIBLE, 4, "infeasible"},
        {AH_E_NO_PLAN, 5, "no_plan"},
        {AH_E_MISMATCH, 6, "mismatch"},
        {AH_E_MISSING, 7, "missing"},
        {AH_E_ASSERTION, 8, "assertion_failed"},
        {AH_E_NUMERIC, 9, "numeric_fault"},
        {AH_E_INTERRUPTED, 130, "interrupted"},
        {AH_E_CAPACITY, 1, "capacity"},
        {AH_E_UNSUPPORTED, 7, "unsupported"},
        {AH_E_STALLED, 7, "stalled"},
        {AH_E_PEER, 1, "peer"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(ah_error_exit_status(expected[i].code), expected[i].exit_status);
        assert_string_equal(ah_error_word(expected[i].code), expected[i].word);
        assert_true(strlen(ah_error_meaning(expected[i].code)) > 3);
    }
}

TEST(error, unknown_codes_are_failures)
{
    assert_int_equal(ah_error_exit_status(-12345), 1);
    assert_int_equal(ah_error_exit_status(5), 1);
    assert_string_equal(ah_error_word(99), "failed");
    assert_non_null(ah_error_meaning(99));
}
