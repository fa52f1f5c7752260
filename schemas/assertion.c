/* SPDX-License-Identifier: Apache-2.0 */
#include "schemas/assertion.h"

#include "base/units.h"
#include "schemas/json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By enum ah_assertion_operator. "<=" and ">=" come before "<" and ">", with which they begin. */
static const char *const operators[] = {"<=", ">=", "==", "!=", "<", ">"};

enum { OPERATORS = sizeof operators / sizeof operators[0] };

static int not_an_assertion(const char *text, struct ah_error *err)
{
    return ah_error_set(err, AH_E_USAGE,
                        "'%s' is not an assertion; write a path, one of < <= > >= == != and a value: "
                        "'time.step_us<=250000'",
                        text);
}

/* Returns the text without surrounding blanks and one pair of quotes, in the arena; NULL: no memory. */
static const char *trimmed(const char *from, const char *to, struct ah_arena *arena)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    if (to - from >= 2 && (*from == '"' || *from == '\'') && to[-1] == *from) {
        from++;
        to--;
    }
    return ah_arena_strndup(arena, from, (size_t)(to - from));
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && !strcmp(text + length - strlen(end), end);
}

static int read_bytes(const char *word, double *ret_bytes, struct ah_error *err)
{
    uint64_t bytes = 0;
    int rc = ah_units_parse_bytes(word, &bytes, err);
    if (!rc)
        *ret_bytes = (double)bytes;
    return rc;
}

/* Units of a field's numbers, by the end of its name or of its parent's name: "host_bytes", "exposed_us.h2d". */
static const struct quantity {
    const char *name;
    int (*read)(const char *word, double *ret_number, struct ah_error *err);
    const char *like;
} quantities[] = {{"bytes", read_bytes, "12GiB"},
                  {"by_class", read_bytes, "12GiB"},
                  {"us", ah_units_parse_time, "250ms"},
                  {"bytes_per_s", ah_units_parse_rate, "22GB/s"}};

static bool is_called(const char *path, const char *name)
{
    const size_t length = strlen(path) - strlen(name);
    return ends_with(path, name) && (length == 0 || path[length - 1] == '.' || path[length - 1] == '_');
}

/* Returns the quantity of the field at `path`; NULL if it is a plain number. */
static const struct quantity *quantity_of(const char *path)
{
    char parent[256];
    const char *dot = strrchr(path, '.');
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
    for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
        if (is_called(path, quantities[i].name) || is_called(parent, quantities[i].name))
            return &quantities[i];
    return NULL;
}

static void read_number(struct ah_assertion *assertion)
{
    char *end = NULL;
    const struct quantity *quantity = quantity_of(assertion->path);
    assertion->number = strtod(assertion->word, &end);
    assertion->is_number = end != assertion->word && !*end && isfinite(assertion->number) &&
                           !strpbrk(assertion->word, "xX"); /* JSON has no hexadecimal numbers */
    if (!assertion->is_number && quantity)
        assertion->is_number = !quantity->read(assertion->word, &assertion->number, NULL);
}

int ah_assertion_parse(struct ah_assertion *ret_assertion, const char *text, struct ah_arena *arena,
                       struct ah_error *err)
{
    const char *at = strpbrk(text, "<>=!");
    size_t row = 0;
    while (at && row < OPERATORS && strncmp(at, operators[row], strlen(operators[row])) != 0)
        row++;
    if (!at || row == OPERATORS)
        return not_an_assertion(text, err);
    struct ah_assertion assertion = {.text = text, .op = (enum ah_assertion_operator)row};
    const char *value = at + strlen(operators[row]);
    assertion.path = trimmed(text, at, arena);
    assertion.word = trimmed(value, value + strlen(value), arena);
    if (!assertion.path || !assertion.word)
        return ah_error_memory(err);
    if (!*assertion.path || !*assertion.word || strpbrk(assertion.word, "<>="))
        return not_an_assertion(text, err);
    read_number(&assertion);
    *ret_assertion = assertion;
    return AH_OK;
}

static bool numbers_hold(double a, enum ah_assertion_operator op, double b)
{
    switch (op) {
    case AH_ASSERTION_LESS_EQUAL:
        return a <= b;
    case AH_ASSERTION_GREATER_EQUAL:
        return a >= b;
    case AH_ASSERTION_EQUAL:
        return !(a < b) && !(a > b);
    case AH_ASSERTION_NOT_EQUAL:
        return a < b || a > b;
    case AH_ASSERTION_LESS:
        return a < b;
    case AH_ASSERTION_GREATER:
        return a > b;
    }
    return false;
}

static int failed(const struct ah_assertion *assertion, const char *actual, struct ah_error *err)
{
    return ah_error_set(err, AH_E_ASSERTION, "'%s' does not hold: %s is %s", assertion->text, assertion->path,
                        actual);
}

static int check_number(const struct ah_assertion *assertion, double actual, struct ah_error *err)
{
    char text[AH_JSON_NUMBER_TEXT];
    const struct quantity *quantity = quantity_of(assertion->path);
    if (!assertion->is_number)
        return ah_error_set(err, AH_E_USAGE, "'%s': %s is a number and cannot be compared with '%s'%s%s%s",
                            assertion->text, assertion->path, assertion->word,
                            quantity ? "; write a number, or one with its unit such as '" : "",
                            quantity ? quantity->like : "", quantity ? "'" : "");
    if (numbers_hold(actual, assertion->op, assertion->number))
        return AH_OK;
    return failed(assertion, ah_json_number_text(actual, text), err);
}

static int check_word(const struct ah_assertion *assertion, const char *actual, struct ah_error *err)
{
    bool equal = !strcmp(actual, assertion->word);
    if (assertion->op != AH_ASSERTION_EQUAL && assertion->op != AH_ASSERTION_NOT_EQUAL)
        return ah_error_set(err, AH_E_USAGE,
                            "'%s': %s is \"%s\", a word; compare it with == or !=", assertion->text,
                            assertion->path, actual);
    if (equal == (assertion->op == AH_ASSERTION_EQUAL))
        return AH_OK;
    char quoted[256];
    snprintf(quoted, sizeof quoted, "\"%s\"", actual);
    return failed(assertion, quoted, err);
}

int ah_assertion_check(const struct ah_assertion *assertion, const struct ah_document *document,
                       struct ah_value *ret_actual, struct ah_error *err)
{
    struct ah_value actual = {.kind = AH_VALUE_ABSENT};
    int rc = ah_document_lookup(document, assertion->path, &actual, err);
    if (rc)
        return rc;
    *ret_actual = actual;
    switch (actual.kind) {
    case AH_VALUE_NUMBER:
        return check_number(assertion, actual.number, err);
    case AH_VALUE_TEXT:
        return check_word(assertion, actual.text, err);
    case AH_VALUE_BOOL:
        return check_word(assertion, actual.number != 0 ? "true" : "false", err);
    case AH_VALUE_GROUP:
        return ah_error_set(err, AH_E_USAGE, "'%s': %s is not one value; name a field of it", assertion->text,
                            assertion->path);
    case AH_VALUE_ABSENT:
        break;
    }
    return failed(assertion, "absent", err);
}
