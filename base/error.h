/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: a code that decides the exit status, and a sentence for the person who reads it.
 *
 * A function that can fail returns AH_OK or a negative `enum ah_err`. If a person needs context, it takes `struct
 * ah_error *err` as its last parameter and fills it with ah_error_set(). The sentence names the thing in single quotes
 * and says what to do. `err` may be NULL: the caller wants the code only.
 *
 *     int rc = ah_file_read(path, limit, &buffer, err);
 *     if (rc)
 *         return ah_error_prefix(err, rc, "profile '%s'", path);
 */
#ifndef AH_BASE_ERROR_H
#define AH_BASE_ERROR_H

/* name, value, exit status of the command line, word used in JSON, what it means */
#define AH_ERRORS(X)                                                                                         \
    X(AH_E_FAILED, -1, 1, "failed", "the operation failed")                                                  \
    X(AH_E_MEMORY, -2, 1, "out_of_memory", "the host is out of memory")                                      \
    X(AH_E_IO, -3, 1, "io", "a file could not be read or written")                                           \
    X(AH_E_USAGE, -4, 2, "usage", "the command line is wrong")                                               \
    X(AH_E_DOCUMENT, -5, 3, "invalid_document", "a document is not valid")                                   \
    X(AH_E_INFEASIBLE, -6, 4, "infeasible", "no plan exists, proven")                                        \
    X(AH_E_NO_PLAN, -7, 5, "no_plan", "no plan was found; one may still exist")                              \
    X(AH_E_MISMATCH, -8, 6, "mismatch", "an input is stale or belongs to another document")                  \
    X(AH_E_MISSING, -9, 7, "missing", "a device or a library is missing")                                    \
    X(AH_E_ASSERTION, -10, 8, "assertion_failed", "an assertion given by the user failed")                   \
    X(AH_E_NUMERIC, -11, 9, "numeric_fault", "a number is not finite")                                       \
    X(AH_E_INTERRUPTED, -12, 130, "interrupted", "interrupted by the user")                                  \
    X(AH_E_CAPACITY, -13, 1, "capacity", "an arena or a budget is too small")                                \
    X(AH_E_UNSUPPORTED, -14, 7, "unsupported", "this device cannot do that")                                 \
    X(AH_E_STALLED, -15, 7, "stalled", "a device has stopped making progress")                               \
    X(AH_E_PEER, -16, 1, "peer", "a rank of this training is lost")

enum ah_err {
    AH_OK = 0,
#define AH_ERROR_ENUM(name, value, exit_status, word, text) name = value,
    AH_ERRORS(AH_ERROR_ENUM)
#undef AH_ERROR_ENUM
};

enum { AH_ERROR_TEXT_MAX = 768 };

struct ah_error {
    int code;                     /* enum ah_err */
    char text[AH_ERROR_TEXT_MAX]; /* one line, no newline at its end; cut at the end when too long */
};

#if defined(__GNUC__)
#define AH_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define AH_PRINTF(text, first)
#endif

/* Stores code and sentence in `err` (when not NULL) and returns `code`, so that callers can `return` it. */
int ah_error_set(struct ah_error *err, int code, const char *format, ...) AH_PRINTF(3, 4);

/* Puts "<formatted>: " before the sentence that `err` holds; returns `code`. */
int ah_error_prefix(struct ah_error *err, int code, const char *format, ...) AH_PRINTF(3, 4);

/* Sets AH_E_MEMORY with its sentence, and returns it. */
int ah_error_memory(struct ah_error *err);

/* Return the exit status, word and meaning of a code; never NULL, even for unknown codes. */
int ah_error_exit_status(int code);
const char *ah_error_word(int code);
const char *ah_error_meaning(int code);

#endif
