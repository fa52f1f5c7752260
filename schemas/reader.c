/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a JSON tree into a struct (reader_internal.h).
 */
#include "schemas/reader_internal.h"

#include "schemas/json.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static void put_path(const struct ah_reader_path *path, struct ah_buffer *out)
{
    if (!path)
        return;
    put_path(path->parent, out);
    if (path->name) {
        ah_buffer_puts(out, out->size ? "." : "");
        ah_json_put_plain(out, path->name);
    } else
        ah_buffer_printf(out, "[%zu]", path->index);
}

/* Fails with "file: path: what"; releases `what`. */
static int reader_fail(struct ah_reader *reader, const struct ah_reader_path *path, struct ah_buffer *what)
{
    struct ah_buffer place = {0};
    put_path(path, &place);
    int rc;
    if (place.failed || what->failed)
        rc = ah_error_memory(reader->err);
    else
        rc = ah_error_set(reader->err, AH_E_DOCUMENT, "%s: %s%s%s", reader->name,
                          place.data ? place.data : "", place.data ? ": " : "", what->data);
    ah_buffer_release(&place);
    ah_buffer_release(what);
    return rc;
}

static int fail_expected(struct ah_reader *reader, const struct ah_reader_path *path, const cJSON *value,
                         const char *expected)
{
    struct ah_buffer what = {0};
    ah_json_put_brief(&what, value);
    ah_buffer_printf(&what, " is not %s", expected);
    return reader_fail(reader, path, &what);
}

static int fail_value(struct ah_reader *reader, const struct ah_reader_path *path,
                      const struct ah_field *field, const cJSON *value)
{
    struct ah_buffer what = {0};
    ah_json_put_brief(&what, value);
    ah_buffer_puts(&what, " is not ");
    ah_field_expected(field, &what);
    return reader_fail(reader, path, &what);
}

static int fail_text(struct ah_reader *reader, const struct ah_reader_path *path, const char *text)
{
    struct ah_buffer what = {0};
    ah_buffer_puts(&what, text);
    return reader_fail(reader, path, &what);
}

/* Stores a value that is not a container at `place`. */
static int read_scalar(struct ah_reader *reader, const struct ah_reader_path *path,
                       const struct ah_field *field, const cJSON *value, void *place)
{
    bool number = field->type == AH_FIELD_COUNT || field->type == AH_FIELD_NUMBER;
    if (number && (!cJSON_IsNumber(value) || !ah_field_fits_number(field, value->valuedouble)))
        return fail_value(reader, path, field, value);
    if (field->type == AH_FIELD_BOOL && !cJSON_IsBool(value))
        return fail_value(reader, path, field, value);
    if (!number && field->type != AH_FIELD_BOOL && !cJSON_IsString(value))
        return fail_value(reader, path, field, value);

    if (field->type == AH_FIELD_COUNT)
        *(uint64_t *)place = (uint64_t)value->valuedouble;
    else if (field->type == AH_FIELD_NUMBER)
        *(double *)place = value->valuedouble;
    else if (field->type == AH_FIELD_BOOL)
        *(bool *)place = cJSON_IsTrue(value);
    else if (field->type == AH_FIELD_TEXT) {
        if (!ah_field_fits_text(field->form, value->valuestring))
            return fail_value(reader, path, field, value);
        const char *copy = ah_arena_strdup(reader->arena, value->valuestring);
        if (!copy)
            return ah_error_memory(reader->err);
        *(const char **)place = copy;
    } else {
        unsigned word = 0;
        while (field->words[word] && strcmp(field->words[word], value->valuestring) != 0)
            word++;
        if (!field->words[word])
            return fail_value(reader, path, field, value);
        if (field->type == AH_FIELD_WORD)
            *(unsigned *)place = word;
    }
    return AH_OK;
}

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const struct ah_text_pair *)a)->key, ((const struct ah_text_pair *)b)->key);
}

static size_t count_children(const cJSON *value)
{
    size_t n = 0;
    for (const cJSON *child = value->child; child; child = child->next)
        n++;
    return n;
}

static int read_map(struct ah_reader *reader, const struct ah_reader_path *path, const struct ah_field *field,
                    const cJSON *value, void *group)
{
    if (!cJSON_IsObject(value))
        return fail_value(reader, path, field, value);
    size_t n = count_children(value);
    if (n > AH_FIELD_PAIRS_MAX)
        return fail_text(reader, path, "has more than 4096 entries");
    struct ah_text_pair *pairs = ah_arena_array(reader->arena, n, sizeof *pairs);
    if (!pairs)
        return ah_error_memory(reader->err);
    size_t i = 0;
    for (const cJSON *child = value->child; child; child = child->next, i++) {
        if (!cJSON_IsString(child))
            return fail_expected(reader, &(struct ah_reader_path){path, child->string, 0}, child, "text");
        pairs[i].key = ah_arena_strdup(reader->arena, child->string);
        pairs[i].value = ah_arena_strdup(reader->arena, child->valuestring);
        if (!pairs[i].key || !pairs[i].value)
            return ah_error_memory(reader->err);
    }
    if (n)
        qsort(pairs, n, sizeof *pairs, compare_pairs);
    *(struct ah_text_pair **)ah_field_address(field, group) = n ? pairs : NULL;
    memcpy((char *)group + field->count_offset, &n, sizeof n);
    return AH_OK;
}

static int compare_counts(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare_words(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a;
    unsigned y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses a list in which a value occurs twice. Sorts a copy. */
static int check_unique(struct ah_reader *reader, const struct ah_reader_path *path,
                        const struct ah_field *field, const void *items, size_t n)
{
    size_t bytes = ah_field_item_bytes(field);
    int (*compare)(const void *, const void *) = field->type == AH_FIELD_COUNT  ? compare_counts
                                                 : field->type == AH_FIELD_WORD ? compare_words
                                                                                : compare_texts;
    if (n < 2)
        return AH_OK;
    char *sorted = malloc(n * bytes);
    if (!sorted)
        return ah_error_memory(reader->err);
    memcpy(sorted, items, n * bytes);
    qsort(sorted, n, bytes, compare);
    bool twice = false;
    for (size_t i = 1; i < n && !twice; i++)
        twice = compare(sorted + (i - 1) * bytes, sorted + i * bytes) == 0;
    free(sorted);
    return twice ? fail_text(reader, path, "has a value twice") : AH_OK;
}

static int read_list(struct ah_reader *reader, const struct ah_reader_path *path,
                     const struct ah_field *field, const cJSON *value, void *group)
{
    if (!cJSON_IsArray(value))
        return fail_expected(reader, path, value, "a list");
    size_t n = count_children(value);
    if (n < field->min_items || (field->max_items && n > field->max_items)) {
        struct ah_buffer what = {0};
        ah_buffer_printf(&what, "has %zu items, ", n);
        if (field->max_items)
            ah_buffer_printf(&what, "not %zu to %zu", field->min_items, field->max_items);
        else
            ah_buffer_printf(&what, "at least %zu are needed", field->min_items);
        return reader_fail(reader, path, &what);
    }
    size_t bytes = ah_field_item_bytes(field);
    char *items = ah_arena_array(reader->arena, n, bytes);
    if (!items)
        return ah_error_memory(reader->err);
    size_t i = 0;
    for (const cJSON *child = value->child; child; child = child->next, i++) {
        struct ah_reader_path element = {path, NULL, i};
        int rc = field->type == AH_FIELD_GROUP
                     ? ah_reader_group(reader, &element, field->table, child, items + i * bytes)
                     : read_scalar(reader, &element, field, child, items + i * bytes);
        if (rc)
            return rc;
    }
    *(void **)ah_field_address(field, group) = n ? items : NULL;
    memcpy((char *)group + field->count_offset, &n, sizeof n);
    return field->flags & AH_FIELD_UNIQUE ? check_unique(reader, path, field, items, n) : AH_OK;
}

static int read_field(struct ah_reader *reader, const struct ah_reader_path *path,
                      const struct ah_field *field, const cJSON *value, void *group)
{
    void *place = ah_field_address(field, group);
    if (cJSON_IsNull(value) && field->flags & AH_FIELD_NULLABLE)
        return AH_OK;
    if (field->type == AH_FIELD_MAP)
        return read_map(reader, path, field, value, group);
    if (field->list)
        return read_list(reader, path, field, value, group);
    if (field->type != AH_FIELD_GROUP)
        return read_scalar(reader, path, field, value, place);
    if (!(field->flags & AH_FIELD_OPTIONAL))
        return ah_reader_group(reader, path, field->table, value, place);
    void *item = ah_arena_alloc(reader->arena, field->table->bytes);
    if (!item)
        return ah_error_memory(reader->err);
    *(void **)place = item;
    return ah_reader_group(reader, path, field->table, value, item);
}

static void store_fallback(const struct ah_field *field, void *group)
{
    void *place = ah_field_address(field, group);
    if (field->list || !(field->flags & AH_FIELD_OPTIONAL))
        return;
    if (field->type == AH_FIELD_BOOL)
        *(bool *)place = field->fallback != 0.0;
    else if (field->type == AH_FIELD_COUNT)
        *(uint64_t *)place = (uint64_t)field->fallback;
    else if (field->type == AH_FIELD_NUMBER)
        *(double *)place = field->fallback;
    else if (field->type == AH_FIELD_WORD)
        *(unsigned *)place = (unsigned)field->fallback;
}

/* True if the member is this word, or the boolean spelled by it. Returns `absent` if there is no member. */
static bool holds(const cJSON *member, const char *word, bool absent)
{
    if (!member)
        return absent;
    if (cJSON_IsBool(member))
        return strcmp(word, cJSON_IsTrue(member) ? "true" : "false") == 0;
    return cJSON_IsString(member) && strcmp(word, member->valuestring) == 0;
}

/* True if this word is the field's fallback, the value of an absent member. */
static bool fallback_is(const struct ah_field_table *table, const char *name, const char *word)
{
    const struct ah_field *field = ah_field_find(table, name);
    if (field->type == AH_FIELD_BOOL)
        return strcmp(word, field->fallback != 0.0 ? "true" : "false") == 0;
    return field->type == AH_FIELD_WORD && field->flags & AH_FIELD_OPTIONAL &&
           strcmp(word, field->words[(size_t)field->fallback]) == 0;
}

static bool rule_holds(const struct ah_field_table *table, const struct ah_rule *rule, const cJSON *object)
{
    const cJSON *when = cJSON_GetObjectItemCaseSensitive(object, rule->when);
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, rule->field);
    if (rule->is ? !holds(when, rule->is, fallback_is(table, rule->when, rule->is)) : !when)
        return true;
    switch (rule->then) {
    case AH_RULE_REQUIRES:
        return member != NULL;
    case AH_RULE_FORBIDS:
        return member == NULL;
    case AH_RULE_IS:
        return holds(member, rule->word, fallback_is(table, rule->field, rule->word));
    case AH_RULE_IS_NOT:
        break;
    }
    return !holds(member, rule->word, fallback_is(table, rule->field, rule->word));
}

static int check_rules(struct ah_reader *reader, const struct ah_reader_path *path,
                       const struct ah_field_table *table, const cJSON *object)
{
    for (const struct ah_rule *rule = table->rules; rule && rule->when; rule++)
        if (!rule_holds(table, rule, object))
            return fail_text(reader, &(struct ah_reader_path){path, rule->field, 0}, rule->because);
    return AH_OK;
}

static int check_missing(struct ah_reader *reader, const struct ah_reader_path *path,
                         const struct ah_field_table *table, const bool *seen)
{
    for (size_t i = 0; table->fields[i].name; i++)
        if (!seen[i] && !(table->fields[i].flags & AH_FIELD_OPTIONAL))
            return fail_text(reader, &(struct ah_reader_path){path, table->fields[i].name, 0}, "is missing");
    return AH_OK;
}

static int fail_unknown(struct ah_reader *reader, const struct ah_reader_path *path,
                        const struct ah_field_table *table, const cJSON *member)
{
    if (reader->unknown)
        return reader->unknown(reader->unknown_context, member);
    const struct ah_field *near = ah_field_nearest(table, member->string);
    struct ah_buffer what = {0};
    ah_buffer_printf(&what, "is not a known field%s%s%s", near ? "; did you mean '" : "",
                     near ? near->name : "", near ? "'?" : "");
    return reader_fail(reader, &(struct ah_reader_path){path, member->string, 0}, &what);
}

int ah_reader_group(struct ah_reader *reader, const struct ah_reader_path *path,
                    const struct ah_field_table *table, const struct cJSON *object, void *ret_group)
{
    bool seen[AH_FIELDS_MAX] = {false};
    assert(ah_field_count(table) <= AH_FIELDS_MAX);
    if (!cJSON_IsObject(object))
        return fail_expected(reader, path, object, "an object");
    for (const struct ah_field *field = table->fields; field->name; field++)
        store_fallback(field, ret_group);
    for (const cJSON *member = object->child; member; member = member->next) {
        const struct ah_field *field = ah_field_find(table, member->string);
        int rc;
        if (field) {
            seen[field - table->fields] = true;
            rc = read_field(reader, &(struct ah_reader_path){path, member->string, 0}, field, member,
                            ret_group);
        } else
            rc = fail_unknown(reader, path, table, member);
        if (rc)
            return rc;
    }
    int rc = check_missing(reader, path, table, seen);
    return rc ? rc : check_rules(reader, path, table, object);
}
