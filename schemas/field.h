/* SPDX-License-Identifier: Apache-2.0
 *
 * Field: the tables from which documents are read, written, compared, looked up and described.
 *
 * A table lists the fields of one JSON object in canonical order, each with the place of its value in a C struct. The
 * reader and the JSON Schema use the same rows, so they cannot drift apart:
 *
 *     static const struct ah_field point_fields[] = {
 *         {.name = "bytes", AH_COUNT_AT(ah_point, bytes), .min = 1, .max = 1e15, .about = "Size of a copy."},
 *         {.name = "us", AH_GROUP_AT(ah_point, us, &metric_table), .about = "Time it took."},
 *         {0}};
 *
 * Invariants of a table:
 * 1. Required fields are always written. Optional ones are written only if they differ from `fallback` (a list or map:
 *    if it is not empty). So reading back what was written gives the same document.
 * 2. Relations between fields of one object that JSON Schema can express are `rules`, never code.
 * 3. Only other relations are code: the table's `check`.
 */
#ifndef AH_SCHEMAS_FIELD_H
#define AH_SCHEMAS_FIELD_H

#include "base/buffer.h"
#include "base/error.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_field_type {
    AH_FIELD_CONST,  /* text that must be words[0]; not in the struct */
    AH_FIELD_BOOL,   /* bool */
    AH_FIELD_COUNT,  /* uint64_t from min to max, at most AH_FIELD_COUNT_MAX; or uint64_t * + count (list) */
    AH_FIELD_NUMBER, /* double from min to max */
    AH_FIELD_TEXT,   /* const char *, of a form; NULL: absent; or const char ** + count (list) */
    AH_FIELD_WORD,   /* an enum: index into words */
    AH_FIELD_GROUP,  /* struct in place; optional: pointer, NULL if absent; list: pointer + count */
    AH_FIELD_MAP     /* struct ah_text_pair * + count: text to text, at most AH_FIELD_PAIRS_MAX */
};

enum {
    AH_FIELD_OPTIONAL = 1,
    AH_FIELD_UNIQUE = 2,     /* list of counts, texts or words: no value twice */
    AH_FIELD_ABOVE = 4,      /* number: above min, not equal to it */
    AH_FIELD_NULLABLE = 8,   /* null counts as absent (foreign documents only) */
    AH_FIELD_ASIDE = 16,     /* ignored when two documents are compared */
    AH_FIELD_LABEL = 32,     /* a name for people: counts in a diff, not in a digest */
    AH_FIELD_NO_DEFAULT = 64 /* optional number: `fallback` only marks absence, it is not a default */
};

enum ah_text_form {
    AH_TEXT_LINE,   /* 1 to 512 characters, none of them a control character */
    AH_TEXT_ANY,    /* up to 4096 characters, may be empty */
    AH_TEXT_LONG,   /* up to 1048576 characters, may be empty; bytes that are not UTF-8 become '?' */
    AH_TEXT_NAME,   /* letters, digits and . _ + -; begins with a letter or digit; up to 128 */
    AH_TEXT_SHA256, /* 64 lower-case hexadecimal digits */
    AH_TEXT_FILE,   /* a file name inside a folder: no slash, not hidden; up to 255 */
    AH_TEXT_FORMS
};

#define AH_FIELD_COUNT_MAX  9007199254740991.0 /* 2^53 - 1: the largest integer that every JSON reader keeps */
#define AH_FIELD_NUMBER_MAX 1e300

enum { AH_FIELD_PAIRS_MAX = 4096, AH_FIELDS_MAX = 64 /* rows per table */ };

struct ah_field_table;

struct ah_field {
    const char *name;
    const char *about; /* one sentence, for the schema */
    enum ah_field_type type;
    unsigned flags;
    bool list;
    size_t offset;
    size_t count_offset; /* list, map: offset of the number of items */
    double min, max;     /* COUNT, NUMBER */
    double fallback;     /* optional BOOL, COUNT, NUMBER, WORD: the default, stored if the field is absent */
    size_t min_items, max_items;
    enum ah_text_form form;
    const char *const *words;           /* WORD, CONST; NULL-terminated */
    const struct ah_field_table *table; /* GROUP */
};

/* A rule: if field `when` has value `is` (a word, "true", "false"; NULL: any value), `then` must hold for `field`. */
enum ah_rule_then { AH_RULE_REQUIRES, AH_RULE_FORBIDS, AH_RULE_IS, AH_RULE_IS_NOT };
struct ah_rule {
    const char *when;
    const char *is;
    enum ah_rule_then then;
    const char *field;
    const char *word;    /* IS, IS_NOT: a word, "true" or "false" */
    const char *because; /* a sentence for the person who broke the rule */
};

struct ah_field_table {
    const char *name; /* unique among the tables of a document */
    const char *about;
    size_t bytes; /* of the struct */
    const struct ah_field *fields;
    const struct ah_rule *rules; /* (optional) ends with a zero row */

    /* (optional) Checks relations that a schema cannot express, once the whole document has the right shape. Fails
     * with ah_meaning_fail(). */
    int (*check)(const void *group, struct ah_error *err);
};

/* Places of values in structs. The compiler checks that a member has the type of its field. */
#define AH_PLACE(tag, member, type_)                                                                         \
    (offsetof(struct tag, member) + 0 * sizeof((type_ *)0 == &((struct tag *)0)->member))
#define AH_LIST_OFFSETS(tag, member, type_)                                                                  \
    .list = true, .offset = AH_PLACE(tag, member, type_), .count_offset = AH_PLACE(tag, n_##member, size_t)
#define AH_BOOL_AT(tag, member)    .type = AH_FIELD_BOOL, .offset = AH_PLACE(tag, member, bool)
#define AH_COUNT_AT(tag, member)   .type = AH_FIELD_COUNT, .offset = AH_PLACE(tag, member, uint64_t)
#define AH_COUNTS_AT(tag, member)  .type = AH_FIELD_COUNT, AH_LIST_OFFSETS(tag, member, uint64_t *)
#define AH_NUMBER_AT(tag, member)  .type = AH_FIELD_NUMBER, .offset = AH_PLACE(tag, member, double)
#define AH_NUMBERS_AT(tag, member) .type = AH_FIELD_NUMBER, AH_LIST_OFFSETS(tag, member, double *)
#define AH_TEXT_AT(tag, member)    .type = AH_FIELD_TEXT, .offset = AH_PLACE(tag, member, const char *)
#define AH_TEXTS_AT(tag, member)   .type = AH_FIELD_TEXT, AH_LIST_OFFSETS(tag, member, const char **)
#define AH_WORD_AT(tag, member, list)                                                                        \
    .type = AH_FIELD_WORD, .offset = offsetof(struct tag, member), .words = (list)
#define AH_WORDS_AT(tag, member, list_)                                                                      \
    .type = AH_FIELD_WORD, AH_LIST_OFFSETS(tag, member, unsigned *), .words = (list_)
#define AH_GROUP_AT(tag, member, of)                                                                         \
    .type = AH_FIELD_GROUP, .offset = offsetof(struct tag, member), .table = (of)
#define AH_GROUPS_AT(tag, member, of)                                                                        \
    .type = AH_FIELD_GROUP, .list = true, .offset = offsetof(struct tag, member),                            \
    .count_offset = AH_PLACE(tag, n_##member, size_t), .table = (of)
#define AH_MAP_AT(tag, member)                                                                               \
    .type = AH_FIELD_MAP, .offset = AH_PLACE(tag, member, struct ah_text_pair *),                            \
    .count_offset = AH_PLACE(tag, n_##member, size_t)

/* The fields that begin every document, and the one that ends it. */
#define AH_FIELD_HEAD(tag, word_list) AH_FIELD_HEAD_OF(tag, word_list, ah_field_version)
#define AH_FIELD_HEAD_OF(tag, word_list, version_list)                                                       \
    {.name = "kind", .type = AH_FIELD_CONST, .words = (word_list), .about = "The kind of document."},        \
        {.name = "format_version",                                                                           \
         .type = AH_FIELD_CONST,                                                                             \
         .words = (version_list),                                                                            \
         .about = "Version of the format; a minor version only adds optional fields."},                      \
    {                                                                                                        \
        .name = "generator", AH_TEXT_AT(tag, generator), .flags = AH_FIELD_ASIDE,                            \
        .about = "Program and version that wrote this document."                                             \
    }
#define AH_FIELD_ANNOTATIONS(tag)                                                                            \
    {                                                                                                        \
        .name = "annotations", AH_MAP_AT(tag, annotations), .flags = AH_FIELD_OPTIONAL | AH_FIELD_ASIDE,     \
        .about = "Free notes for people; ignored and kept."                                                  \
    }

extern const char *const ah_field_version[];      /* {"1.0", NULL} */
extern const char *const ah_field_plan_version[]; /* {"2.0", NULL}: of plans and cluster plans */

/* Return the number of rows; the row named `name`, or NULL. */
size_t ah_field_count(const struct ah_field_table *table);
const struct ah_field *ah_field_find(const struct ah_field_table *table, const char *name);

/* Returns the row that a mistyped `name` most likely means; NULL: none is similar. */
const struct ah_field *ah_field_nearest(const struct ah_field_table *table, const char *name);

/* Return the address of the value in `group` (for a list, of its pointer); the number of items; the size of an item. */
void *ah_field_address(const struct ah_field *field, const void *group);
size_t ah_field_items(const struct ah_field *field, const void *group);
size_t ah_field_item_bytes(const struct ah_field *field);

/* True if an optional field has its fallback or is empty, so that it is not written. */
bool ah_field_absent(const struct ah_field *field, const void *group);

/* True if a value fits its row: a number must be in range (and whole for a COUNT), text must have the form. */
bool ah_field_fits_number(const struct ah_field *field, double value);
bool ah_field_fits_text(enum ah_text_form form, const char *text);

/* Appends what a field expects to `out`, for a sentence: "an integer from 1 to 64", "one of host, device". */
void ah_field_expected(const struct ah_field *field, struct ah_buffer *out);

/* Sets "field: sentence" in `err` and returns AH_E_DOCUMENT, for a table's check. ah_meaning_check() adds the path. */
int ah_meaning_fail(struct ah_error *err, const char *field, const char *format, ...) AH_PRINTF(3, 4);

/* Like ah_meaning_fail(), for an item: "list[index].field: sentence"; `field` NULL: "list[index]: sentence". */
int ah_meaning_fail_item(struct ah_error *err, const char *list, size_t index, const char *field,
                         const char *format, ...) AH_PRINTF(5, 6);

/* Like ah_meaning_fail(), with numbers as documents print them: "field: VALUE is above the median OTHER". */
int ah_meaning_fail_numbers(struct ah_error *err, const char *field, double value, const char *relation,
                            double other);

/* Runs the checks of `table` and of every table below it. An error begins with the field's path. */
int ah_meaning_check(const struct ah_field_table *table, const void *group, struct ah_error *err);

/* The regular expression and the length limits of a form, as in JSON Schema. */
struct ah_text_limits {
    const char *pattern;             /* NULL: any */
    unsigned min_length, max_length; /* characters */
    const char *expected;
};
const struct ah_text_limits *ah_field_text_limits(enum ah_text_form form);

#endif
