/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertion: `PATH OP VALUE` about one value of a document, `time.step_us<=250000`.
 *
 * OP is < <= > >= == or !=. VALUE is a number, true, false or a word (may be quoted). Numbers compare as doubles. A
 * number may have a unit if one of the last two names of PATH is, or ends with, a quantity: 12GiB for `bytes` and
 * `by_class`, 250ms for `us`, 22GB/s for `bytes_per_s`. Words and booleans allow only == and !=. If the document omits
 * the value, every assertion about it fails.
 */
#ifndef AH_SCHEMAS_ASSERTION_H
#define AH_SCHEMAS_ASSERTION_H

#include "base/arena.h"
#include "base/error.h"
#include "schemas/document.h"

#include <stdbool.h>

enum ah_assertion_operator {
    AH_ASSERTION_LESS_EQUAL,
    AH_ASSERTION_GREATER_EQUAL,
    AH_ASSERTION_EQUAL,
    AH_ASSERTION_NOT_EQUAL,
    AH_ASSERTION_LESS,
    AH_ASSERTION_GREATER,
};

struct ah_assertion {
    const char *text; /* as given; borrowed */
    const char *path; /* in arena */
    enum ah_assertion_operator op;
    const char *word; /* VALUE; in arena */
    bool is_number;
    double number;
};

/* Parses `text`. AH_E_USAGE: it is no assertion; the message shows an example. */
int ah_assertion_parse(struct ah_assertion *ret_assertion, const char *text, struct ah_arena *arena,
                       struct ah_error *err);

/* Returns 0 if the assertion holds. AH_E_ASSERTION: it does not; the message has the actual value. AH_E_USAGE: the path
 * does not exist, or its value cannot be compared. `ret_actual` is written whenever the path leads to a value. */
int ah_assertion_check(const struct ah_assertion *assertion, const struct ah_document *document,
                       struct ah_value *ret_actual, struct ah_error *err);

#endif
