/* SPDX-License-Identifier: Apache-2.0
 *
 * Difference: walks two bodies of one kind together by their table, in the order of the fields.
 */
#include "schemas/document.h"
#include "schemas/field.h"
#include "schemas/kinds_internal.h"
#include "schemas/writer_internal.h"

#include <stdint.h>
#include <string.h>

struct difference {
    struct ah_buffer path;
    struct ah_buffer a, b; /* the two values as text */
    size_t found;
    bool failed;
    ah_document_difference *report;
    void *context;
};

static void diff_group(struct difference *diff, const struct ah_field_table *table, const void *a,
                       const void *b);

static size_t push_path(struct difference *diff, const char *name, size_t index)
{
    size_t before = diff->path.size;
    if (name)
        ah_buffer_printf(&diff->path, "%s%s", before ? "." : "", name);
    else
        ah_buffer_printf(&diff->path, "[%zu]", index);
    return before;
}

static void pop_path(struct difference *diff, size_t before)
{
    if (diff->path.failed)
        return;
    diff->path.size = before;
    diff->path.data[before] = '\0';
}

static void report_item(struct difference *diff)
{
    diff->failed = diff->failed || diff->path.failed || diff->a.failed || diff->b.failed;
    const char *a = diff->a.size ? diff->a.data : "";
    const char *b = diff->b.size ? diff->b.data : "";
    if (diff->failed || strcmp(a, b) == 0)
        return;
    diff->found++;
    if (diff->report)
        diff->report(diff->context, diff->path.data, a, b);
}

/* Compares one item of each side; a NULL group means that the side has none. */
static void diff_item(struct difference *diff, const struct ah_field *field, const void *a, size_t index_a,
                      const void *b, size_t index_b)
{
    ah_buffer_clear(&diff->a);
    ah_buffer_clear(&diff->b);
    if (a)
        ah_writer_item(field, a, index_a, &diff->a, NULL);
    if (b)
        ah_writer_item(field, b, index_b, &diff->b, NULL);
    report_item(diff);
}

static void diff_list(struct difference *diff, const struct ah_field *field, const void *a, const void *b)
{
    size_t n_a = ah_field_items(field, a);
    size_t n_b = ah_field_items(field, b);
    size_t bytes = ah_field_item_bytes(field);
    const char *items_a = *(const char *const *)ah_field_address(field, a);
    const char *items_b = *(const char *const *)ah_field_address(field, b);
    for (size_t i = 0; i < n_a || i < n_b; i++) {
        size_t before = push_path(diff, NULL, i);
        if (field->type == AH_FIELD_GROUP && i < n_a && i < n_b)
            diff_group(diff, field->table, items_a + i * bytes, items_b + i * bytes);
        else
            diff_item(diff, field, i < n_a ? a : NULL, i, i < n_b ? b : NULL, i);
        pop_path(diff, before);
    }
}

/* Returns the index of `key` among a map's pairs, or `n` if it is missing. */
static size_t find_key(const struct ah_text_pair *pairs, size_t n, const char *key)
{
    size_t i = 0;
    while (i < n && strcmp(pairs[i].key, key) != 0)
        i++;
    return i;
}

static void diff_map(struct difference *diff, const struct ah_field *field, const void *a, const void *b)
{
    const struct ah_text_pair *pairs_a = *(const struct ah_text_pair *const *)ah_field_address(field, a);
    const struct ah_text_pair *pairs_b = *(const struct ah_text_pair *const *)ah_field_address(field, b);
    size_t n_a = ah_field_items(field, a);
    size_t n_b = ah_field_items(field, b);
    for (size_t i = 0; i < n_a; i++) {
        size_t j = find_key(pairs_b, n_b, pairs_a[i].key);
        size_t before = push_path(diff, pairs_a[i].key, 0);
        diff_item(diff, field, a, i, j < n_b ? b : NULL, j);
        pop_path(diff, before);
    }
    for (size_t j = 0; j < n_b; j++) {
        if (find_key(pairs_a, n_a, pairs_b[j].key) < n_a)
            continue;
        size_t before = push_path(diff, pairs_b[j].key, 0);
        diff_item(diff, field, NULL, 0, b, j);
        pop_path(diff, before);
    }
}

static void diff_field(struct difference *diff, const struct ah_field *field, const void *a, const void *b)
{
    if (field->type == AH_FIELD_MAP) {
        diff_map(diff, field, a, b);
        return;
    }
    if (field->list) {
        diff_list(diff, field, a, b);
        return;
    }
    bool absent_a = ah_field_absent(field, a);
    bool absent_b = ah_field_absent(field, b);
    if (field->type != AH_FIELD_GROUP || absent_a || absent_b) {
        diff_item(diff, field, absent_a ? NULL : a, 0, absent_b ? NULL : b, 0);
        return;
    }
    const void *address_a = ah_field_address(field, a);
    const void *address_b = ah_field_address(field, b);
    if (field->flags & AH_FIELD_OPTIONAL) {
        address_a = *(const void *const *)address_a;
        address_b = *(const void *const *)address_b;
    }
    diff_group(diff, field->table, address_a, address_b);
}

static void diff_group(struct difference *diff, const struct ah_field_table *table, const void *a,
                       const void *b)
{
    for (const struct ah_field *field = table->fields; field->name; field++) {
        if (field->flags & AH_FIELD_ASIDE)
            continue;
        size_t before = push_path(diff, field->name, 0);
        diff_field(diff, field, a, b);
        pop_path(diff, before);
    }
}

size_t ah_document_diff(const struct ah_document *a, const struct ah_document *b,
                        ah_document_difference *report, void *context)
{
    const struct ah_kind *kind = ah_document_kind(a->kind);
    struct difference diff = {.report = report, .context = context};
    if (kind && a->kind == b->kind)
        diff_group(&diff, kind->table, a->body.any, b->body.any);
    ah_buffer_release(&diff.path);
    ah_buffer_release(&diff.a);
    ah_buffer_release(&diff.b);
    return diff.failed ? SIZE_MAX : diff.found;
}
