/* SPDX-License-Identifier: Apache-2.0
 *
 * The scanner: accepts exactly RFC 8259 in UTF-8, within our limits, and reports where it stopped.
 *
 * It is stricter than the RFC on purpose: no byte order mark, no \u0000 and no lone surrogate in text, numbers of at
 * most AH_JSON_NUMBER_MAX characters, and limits on depth and number of values.
 */
#include "schemas/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct scan {
    const struct ah_json_source *source;
    const char *at;
    const char *end;
    size_t values;
    unsigned depth;
    struct ah_error *err;
};

static int scan_value(struct scan *scan);

static int scan_fail(const struct scan *scan, const char *what)
{
    size_t line = scan->source->first_line;
    size_t column = 1;
    for (const char *c = scan->source->text; c < scan->at; c++) {
        if (*c == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*c & 0xC0) != 0x80)
            column++;
    }
    return ah_error_set(scan->err, AH_E_DOCUMENT, "%s:%zu:%zu: %s", scan->source->name, line, column, what);
}

/* Reports the character found where something else was expected. */
static int scan_unexpected(const struct scan *scan, const char *expected)
{
    char what[160];
    if (scan->at == scan->end)
        snprintf(what, sizeof what, "the text ends where %s is expected", expected);
    else if (*scan->at > 0x20 && *scan->at < 0x7f)
        snprintf(what, sizeof what, "'%c' where %s is expected", *scan->at, expected);
    else
        snprintf(what, sizeof what, "byte 0x%02x where %s is expected", (unsigned)(unsigned char)*scan->at,
                 expected);
    return scan_fail(scan, what);
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->end && memchr(" \t\r\n", *scan->at, 4))
        scan->at++;
}

static bool next_is(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool is_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

size_t ah_json_utf8(const char *text, const char *end)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t left = (size_t)(end - text);
    if (left == 0)
        return 0;
    if (c[0] < 0x80)
        return 1;
    size_t n = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : 2;
    if (c[0] < 0xC2 || c[0] > 0xF4 || left < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xC0) != 0x80)
            return 0;
    if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF0 && c[1] < 0x90) ||
        (c[0] == 0xF4 && c[1] > 0x8F))
        return 0;
    return n;
}

static int hex4(const char *text, const char *end, unsigned *ret_value)
{
    unsigned value = 0;
    if (end - text < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return -1;
        unsigned d = (unsigned)(digit - digits);
        value = value * 16 + (d > 15 ? d - 6 : d);
    }
    *ret_value = value;
    return 0;
}

/* Scans an escape from its `u`, and moves `at` past it. */
static int scan_unicode_escape(struct scan *scan)
{
    unsigned high, low;
    if (hex4(scan->at + 1, scan->end, &high))
        return scan_fail(scan, "\\u needs four hexadecimal digits");
    if (high == 0)
        return scan_fail(scan, "\\u0000 is not allowed in text");
    if (high >= 0xDC00 && high <= 0xDFFF)
        return scan_fail(scan, "a low surrogate without its high one");
    scan->at += 5;
    if (high < 0xD800 || high > 0xDBFF)
        return AH_OK;
    if (scan->end - scan->at < 6 || scan->at[0] != '\\' || scan->at[1] != 'u' ||
        hex4(scan->at + 2, scan->end, &low) || low < 0xDC00 || low > 0xDFFF)
        return scan_fail(scan, "a high surrogate without its low one");
    scan->at += 6;
    return AH_OK;
}

static int scan_escape(struct scan *scan)
{
    scan->at++;
    if (scan->at < scan->end && *scan->at == 'u')
        return scan_unicode_escape(scan);
    if (scan->at == scan->end || !memchr("\"\\/bfnrt", *scan->at, 8))
        return scan_unexpected(scan, "an escape (\\n, \\\", \\u1234, ...)");
    scan->at++;
    return AH_OK;
}

static int scan_string(struct scan *scan)
{
    const char *open = scan->at;
    scan->at++;
    while (scan->at < scan->end && *scan->at != '"') {
        if (*scan->at == '\\') {
            int rc = scan_escape(scan);
            if (rc)
                return rc;
            continue;
        }
        if ((unsigned char)*scan->at < 0x20)
            return scan_fail(scan, "a control character inside text; write it as an escape");
        size_t n = ah_json_utf8(scan->at, scan->end);
        if (n == 0)
            return scan_fail(scan, "not UTF-8");
        scan->at += n;
    }
    if (scan->at == scan->end) {
        scan->at = open;
        return scan_fail(scan, "text without its closing quote");
    }
    scan->at++;
    return AH_OK;
}

static int scan_digits(struct scan *scan)
{
    if (!is_digit(scan))
        return scan_unexpected(scan, "a digit");
    while (is_digit(scan))
        scan->at++;
    return AH_OK;
}

static int scan_number(struct scan *scan)
{
    const char *begin = scan->at;
    int rc = AH_OK;
    next_is(scan, '-');
    if (scan->end - scan->at >= 3 && (!memcmp(scan->at, "Inf", 3) || !memcmp(scan->at, "inf", 3)))
        return scan_fail(scan, "infinity is not a JSON number");
    if (next_is(scan, '0')) {
        if (is_digit(scan))
            return scan_fail(scan, "a number with a leading zero");
    } else
        rc = scan_digits(scan);
    if (!rc && next_is(scan, '.'))
        rc = scan_digits(scan);
    if (!rc && (next_is(scan, 'e') || next_is(scan, 'E'))) {
        if (!next_is(scan, '-'))
            next_is(scan, '+');
        rc = scan_digits(scan);
    }
    if (!rc && scan->at - begin > AH_JSON_NUMBER_MAX) {
        scan->at = begin;
        return scan_fail(scan, "a number of more than 60 characters");
    }
    return rc;
}

static int scan_word(struct scan *scan)
{
    static const char *const words[] = {"true", "false", "null"};
    static const char *const infinite[] = {"NaN", "nan", "Infinity", "inf"};
    size_t left = (size_t)(scan->end - scan->at);
    for (size_t i = 0; i < 3; i++)
        if (left >= strlen(words[i]) && memcmp(scan->at, words[i], strlen(words[i])) == 0) {
            scan->at += strlen(words[i]);
            return AH_OK;
        }
    for (size_t i = 0; i < 4; i++)
        if (left >= strlen(infinite[i]) && memcmp(scan->at, infinite[i], strlen(infinite[i])) == 0)
            return scan_fail(scan, "NaN and infinity are not JSON numbers");
    return scan_unexpected(scan, "a value");
}

static int scan_member(struct scan *scan)
{
    skip_space(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return scan_unexpected(scan, "a key in double quotes");
    int rc = scan_string(scan);
    if (rc)
        return rc;
    skip_space(scan);
    if (!next_is(scan, ':'))
        return scan_unexpected(scan, "':'");
    return scan_value(scan);
}

/* Scans an object or array; `item` scans one member or element. */
static int scan_container(struct scan *scan, char close, int (*item)(struct scan *), const char *expected)
{
    if (++scan->depth > AH_JSON_DEPTH_MAX)
        return scan_fail(scan, "nested deeper than 64 levels");
    scan->at++;
    skip_space(scan);
    if (!next_is(scan, close)) {
        for (;;) {
            int rc = item(scan);
            if (rc)
                return rc;
            skip_space(scan);
            if (next_is(scan, close))
                break;
            if (!next_is(scan, ','))
                return scan_unexpected(scan, expected);
        }
    }
    scan->depth--;
    return AH_OK;
}

static int scan_value(struct scan *scan)
{
    skip_space(scan);
    if (++scan->values > AH_JSON_VALUES_MAX)
        return scan_fail(scan, "more than 4000000 values");
    if (scan->at == scan->end)
        return scan_unexpected(scan, "a value");
    if (*scan->at == '{')
        return scan_container(scan, '}', scan_member, "',' or '}'");
    if (*scan->at == '[')
        return scan_container(scan, ']', scan_value, "',' or ']'");
    if (*scan->at == '"')
        return scan_string(scan);
    if (*scan->at == '-' || is_digit(scan))
        return scan_number(scan);
    return scan_word(scan);
}

int ah_json_scan(const struct ah_json_source *source, struct ah_error *err)
{
    struct scan scan = {source, source->text, source->text + source->size, 0, 0, err};
    skip_space(&scan);
    if (scan.at == scan.end)
        return ah_error_set(err, AH_E_DOCUMENT, "%s: is empty; a JSON document is expected", source->name);
    if (scan.end - scan.at >= 3 && memcmp(scan.at, "\xEF\xBB\xBF", 3) == 0)
        return scan_fail(&scan, "a byte order mark; save the file as UTF-8 without it");
    if (scan.end - scan.at >= 2 && (!memcmp(scan.at, "\xFF\xFE", 2) || !memcmp(scan.at, "\xFE\xFF", 2)))
        return scan_fail(&scan, "the file is UTF-16; save it as UTF-8");
    int rc = scan_value(&scan);
    if (rc)
        return rc;
    skip_space(&scan);
    return scan.at == scan.end ? AH_OK : scan_unexpected(&scan, "the end of the document");
}
