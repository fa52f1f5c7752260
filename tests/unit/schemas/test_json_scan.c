/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the scanner on the traps of RFC 8259, with cases of the public JSON test suites written out by hand.
 */
#include "schemas/json.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    const char *text;
    const char *place; /* "line:column: part of the sentence"; NULL: accepted */
};

static const struct sample samples[] = {
    {"{}", NULL},
    {"[]", NULL},
    {" [ ] \r\n\t", NULL},
    {"0", NULL},
    {"-0", NULL},
    {"-0.0", NULL},
    {"1e3", NULL},
    {"1E+3", NULL},
    {"1.25e-3", NULL},
    {"true", NULL},
    {"null", NULL},
    {"\"\"", NULL},
    {"\"a\\u00e9\\n\\/\"", NULL},
    {"\"\\ud83d\\ude00\"", NULL},
    {"\"\x7f\"", NULL},
    {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", NULL},
    {"\"\xf4\x8f\xbf\xbf\"", NULL},
    {"{\"a\":{\"b\":[1,2,{\"c\":null}]}}", NULL},
    {"{\"a\":1,\"a\":2}", NULL}, /* the tree refuses it later */

    {"", "is empty"},
    {"  \n", "is empty"},
    {"\xef\xbb\xbf{}", "1:1: a byte order mark"},
    {"{} x", "1:4: 'x' where the end of the document is expected"},
    {"{}{}", "1:3: '{'"},
    {"[1,]", "1:4: ']' where a value"},
    {"[,1]", "1:2: ','"},
    {"[1 2]", "1:4: '2' where ',' or ']'"},
    {"[1", "1:3: the text ends where ',' or ']'"},
    {"{\"a\":1,}", "1:8: '}' where a key"},
    {"{\"a\" 1}", "1:6: '1' where ':'"},
    {"{\"a\":}", "1:6: '}' where a value"},
    {"{a:1}", "1:2: 'a' where a key in double quotes"},
    {"{'a':1}", "1:2: ''' where a key"},
    {"{\"a\"", "1:5: the text ends where ':'"},
    {"{", "1:2: the text ends where a key"},
    {"{1:2}", "1:2: '1' where a key"},
    {"[\n  1,\n  x]", "3:3: 'x' where a value"},
    {"[\"\xc3\xa9\", x]", "1:7: 'x'"}, /* columns count characters */
    {"01", "1:2: a number with a leading zero"},
    {"-01", "1:3: a number with a leading zero"},
    {"+1", "1:1: '+' where a value"},
    {".5", "1:1: '.' where a value"},
    {"1.", "1:3: the text ends where a digit"},
    {"1.e3", "1:3: 'e' where a digit"},
    {"1e", "1:3: the text ends where a digit"},
    {"1e+", "1:4: the text ends where a digit"},
    {"-", "1:2: the text ends where a digit"},
    {"--1", "1:2: '-' where a digit"},
    {"0x10", "1:2: 'x' where the end"},
    {"1_000", "1:2: '_' where the end"},
    {"NaN", "1:1: NaN and infinity"},
    {"[-Infinity]", "1:3: infinity"},
    {"Infinity", "1:1: NaN and infinity"},
    {"tru", "1:1: 't' where a value"},
    {"True", "1:1: 'T' where a value"},
    {"truex", "1:5: 'x' where the end"},
    {"// c\n1", "1:1: '/'"},
    {"\"", "1:1: text without its closing quote"},
    {"\"a", "1:1: text without"},
    {"\"a\nb\"", "1:3: a control character"},
    {"\"\t\"", "1:2: a control character"},
    {"\"\\x\"", "1:3: 'x' where an escape"},
    {"\"\\", "1:3: the text ends where an escape"},
    {"\"\\u12g4\"", "1:3: \\u needs four"},
    {"\"\\u12", "1:3: \\u needs four"},
    {"\"\\u0000\"", "\\u0000 is not allowed"},
    {"\"\\ud800\"", "a high surrogate without its low"},
    {"\"\\ud800\\n\"", "a high surrogate without its low"},
    {"\"\\ud800\\ud800\"", "a high surrogate without its low"},
    {"\"\\udc00\"", "a low surrogate without its high"},
    {"\"\xff\"", "1:2: not UTF-8"},
    {"\"\x80\"", "1:2: not UTF-8"},
    {"\"\xc3\"", "1:2: not UTF-8"},
    {"\"\xc0\xaf\"", "1:2: not UTF-8"},         /* overlong */
    {"\"\xe0\x80\xaf\"", "1:2: not UTF-8"},     /* overlong */
    {"\"\xf0\x80\x80\xaf\"", "1:2: not UTF-8"}, /* overlong */
    {"\"\xed\xa0\x80\"", "1:2: not UTF-8"},     /* surrogate */
    {"\"\xf4\x90\x80\x80\"", "1:2: not UTF-8"}, /* above U+10FFFF */
    {"\"\xe2\x82", "1:2: not UTF-8"},
    {"\xff", "1:1: byte 0xff where a value"},
    {"\xfe\xff\x00{", "the file is UTF-16"},
};

/* Scans a copy without a NUL at its end, so that the address sanitizer notices reads beyond the end. */
static int scan(const char *text, size_t size, struct ah_error *err)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    int rc = ah_json_scan(&(struct ah_json_source){"file", copy, size, 1}, err);
    free(copy);
    return rc;
}

TEST(json_scan, accepts_and_refuses)
{
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        struct ah_error err = {0};
        int rc = scan(samples[i].text, strlen(samples[i].text), &err);
        if (!samples[i].place && rc)
            fail_msg("'%s': %s", samples[i].text, err.text);
        if (samples[i].place && rc != AH_E_DOCUMENT)
            fail_msg("'%s' was accepted", samples[i].text);
        if (samples[i].place)
            check_text_has(err.text, samples[i].place);
    }
}

TEST(json_scan, refuses_nul_bytes)
{
    struct ah_error err = {0};
    CHECK_FAILS(scan("{}\0", 3, &err), err, AH_E_DOCUMENT, "1:3: byte 0x00");
    CHECK_FAILS(scan("\"a\0b\"", 5, &err), err, AH_E_DOCUMENT, "1:3: a control character");
    CHECK_FAILS(scan("\0", 1, &err), err, AH_E_DOCUMENT, "1:1: byte 0x00");
    CHECK_FAILS(scan("[1\0]", 4, &err), err, AH_E_DOCUMENT, "1:3: byte 0x00");
}

TEST(json_scan, bounds_depth)
{
    enum { DEEP = 10000 };
    static char text[2 * DEEP];
    struct ah_error err = {0};
    for (size_t depth = 1; depth <= DEEP; depth = depth == 64 ? 65 : depth == 65 ? DEEP : depth + 21) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        int rc = scan(text, 2 * depth, &err);
        assert_int_equal(rc, depth <= AH_JSON_DEPTH_MAX ? AH_OK : AH_E_DOCUMENT);
        if (depth == DEEP)
            check_text_has(err.text, "1:65: nested deeper than 64");
    }
    memset(text, '[', DEEP);
    CHECK_FAILS(scan(text, DEEP, &err), err, AH_E_DOCUMENT, "nested deeper");
}

TEST(json_scan, bounds_the_length_of_numbers)
{
    char text[128];
    struct ah_error err = {0};
    memset(text, '1', sizeof text);
    CHECK_OK(scan(text, AH_JSON_NUMBER_MAX, &err), err);
    CHECK_FAILS(scan(text, AH_JSON_NUMBER_MAX + 1, &err), err, AH_E_DOCUMENT,
                "1:1: a number of more than 60");
}

TEST(json_scan, bounds_the_number_of_values)
{
    size_t n = AH_JSON_VALUES_MAX + 1;
    char *text = malloc(2 * n + 2);
    struct ah_error err = {0};
    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < n; i++)
        memcpy(text + 1 + 2 * i, i + 1 < n ? "0," : "0]", 2);
    int rc = ah_json_scan(&(struct ah_json_source){"file", text, 2 * n + 1, 1}, &err);
    assert_int_equal(rc, AH_E_DOCUMENT);
    check_text_has(err.text, "more than 4000000 values");
    free(text);
}

/* The scanner judges every prefix of a text, and the text with any byte changed, without reading out of bounds. */
TEST(json_scan, stays_inside_mutated_text)
{
    static const char text[] = "{\"a\\u00e9\":[1.5e-3,true,\"\\ud83d\\ude00\xc3\xa9\"],\"b\":{}}";
    struct ah_error err = {0};
    for (size_t size = 0; size + 1 < sizeof text; size++) {
        if (scan(text, size, &err) == AH_OK)
            fail_msg("the first %zu bytes were accepted", size);
        for (int byte = 0; byte < 256; byte++) {
            char changed[sizeof text];
            memcpy(changed, text, sizeof text);
            changed[size] = (char)byte;
            (void)scan(changed, sizeof text - 1, &err);
        }
    }
}
