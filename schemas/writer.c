/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a struct as compact JSON text (writer_internal.h).
 */
#include "schemas/writer_internal.h"

#include "schemas/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_field(const struct ah_field *field, const char *what, struct ah_error *err)
{
    struct ah_buffer expected = {0};
    ah_field_expected(field, &expected);
    int rc = expected.failed ? ah_error_memory(err)
                             : ah_error_set(err, AH_E_DOCUMENT, "%s: %s is not %s, so it cannot be written",
                                            field->name, what, expected.data);
    ah_buffer_release(&expected);
    return rc;
}

static int write_number(const struct ah_field *field, double value, struct ah_buffer *out,
                        struct ah_error *err)
{
    char text[40];
    if (ah_field_fits_number(field, value)) {
        ah_json_put_number(out, value);
        return AH_OK;
    }
    snprintf(text, sizeof text, "%g", value);
    return fail_field(field, text, err);
}

static int write_count(const struct ah_field *field, uint64_t value, struct ah_buffer *out,
                       struct ah_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    if (!ah_field_fits_number(field, (double)value))
        return fail_field(field, text, err);
    ah_buffer_puts(out, text);
    return AH_OK;
}

static int write_text(const struct ah_field *field, const char *text, struct ah_buffer *out,
                      struct ah_error *err)
{
    if (!text)
        return fail_field(field, "nothing", err);
    if (!ah_field_fits_text(field->form, text))
        return fail_field(field, "its text", err);
    if (ah_json_put_text(out, text))
        return AH_OK;
    if (field->form != AH_TEXT_LONG)
        return fail_field(field, "its text", err);
    ah_json_put_repaired(out, text);
    return AH_OK;
}

static int write_word(const struct ah_field *field, unsigned value, struct ah_buffer *out,
                      struct ah_error *err)
{
    size_t n = 0;
    while (field->words[n])
        n++;
    if (value >= n)
        return fail_field(field, "its value", err);
    ah_json_put_text(out, field->words[value]);
    return AH_OK;
}

/* Writes the value at `place`, which is not a list. */
static int write_value(const struct ah_field *field, const void *place, struct ah_buffer *out,
                       struct ah_error *err)
{
    switch (field->type) {
    case AH_FIELD_CONST:
        ah_json_put_text(out, field->words[0]);
        return AH_OK;
    case AH_FIELD_BOOL:
        ah_buffer_puts(out, *(const bool *)place ? "true" : "false");
        return AH_OK;
    case AH_FIELD_COUNT:
        return write_count(field, *(const uint64_t *)place, out, err);
    case AH_FIELD_NUMBER:
        return write_number(field, *(const double *)place, out, err);
    case AH_FIELD_TEXT:
        return write_text(field, *(const char *const *)place, out, err);
    case AH_FIELD_WORD:
        return write_word(field, *(const unsigned *)place, out, err);
    case AH_FIELD_GROUP:
        return ah_writer_group(field->table, place, out, err);
    case AH_FIELD_MAP:
        break;
    }
    return fail_field(field, "a map", err);
}

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const struct ah_text_pair *)a)->key, ((const struct ah_text_pair *)b)->key);
}

/* Writes pairs sorted by key. */
static int write_map(const struct ah_field *field, const struct ah_text_pair *pairs, size_t n,
                     struct ah_buffer *out, struct ah_error *err)
{
    struct ah_text_pair *sorted = malloc((n + 1) * sizeof *sorted);
    int rc = sorted ? AH_OK : ah_error_memory(err);
    if (!rc && n) {
        memcpy(sorted, pairs, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, compare_pairs);
    }
    ah_buffer_puts(out, "{");
    for (size_t i = 0; i < n && !rc; i++) {
        ah_buffer_puts(out, i ? "," : "");
        bool twice = i && strcmp(sorted[i - 1].key, sorted[i].key) == 0;
        bool written = !twice && ah_json_put_text(out, sorted[i].key);
        ah_buffer_puts(out, ":");
        if (!written || !ah_json_put_text(out, sorted[i].value))
            rc = fail_field(field, "a pair", err);
    }
    ah_buffer_puts(out, "}");
    free(sorted);
    return rc;
}

int ah_writer_item(const struct ah_field *field, const void *group, size_t index, struct ah_buffer *out,
                   struct ah_error *err)
{
    const void *place = ah_field_address(field, group);
    if (field->type == AH_FIELD_MAP) {
        const struct ah_text_pair *pairs = *(const struct ah_text_pair *const *)place;
        return ah_json_put_text(out, pairs[index].value) ? AH_OK : fail_field(field, "a pair", err);
    }
    if (field->list)
        return write_value(field, *(const char *const *)place + index * ah_field_item_bytes(field), out, err);
    if (field->type == AH_FIELD_GROUP && field->flags & AH_FIELD_OPTIONAL)
        return write_value(field, *(const void *const *)place, out, err);
    return write_value(field, place, out, err);
}

int ah_writer_field(const struct ah_field *field, const void *group, struct ah_buffer *out,
                    struct ah_error *err)
{
    if (field->type == AH_FIELD_MAP)
        return write_map(field, *(const struct ah_text_pair *const *)ah_field_address(field, group),
                         ah_field_items(field, group), out, err);
    if (!(field->list))
        return ah_writer_item(field, group, 0, out, err);
    size_t n = ah_field_items(field, group);
    if (n < field->min_items || (field->max_items && n > field->max_items))
        return ah_error_set(err, AH_E_DOCUMENT, "%s: a list of %zu items cannot be written", field->name, n);
    ah_buffer_puts(out, "[");
    for (size_t i = 0; i < n; i++) {
        ah_buffer_puts(out, i ? "," : "");
        int rc = ah_writer_item(field, group, i, out, err);
        if (rc)
            return rc == AH_E_MEMORY ? rc : ah_error_prefix(err, rc, "%s[%zu]", field->name, i);
    }
    ah_buffer_puts(out, "]");
    return AH_OK;
}

int ah_writer_group_without(const struct ah_field_table *table, const void *group, unsigned without,
                            struct ah_buffer *out, struct ah_error *err)
{
    const char *comma = "";
    ah_buffer_puts(out, "{");
    for (const struct ah_field *field = table->fields; field->name; field++) {
        if (field->flags & without || ah_field_absent(field, group))
            continue;
        ah_buffer_printf(out, "%s\"%s\":", comma, field->name);
        int rc = ah_writer_field(field, group, out, err);
        if (rc)
            return rc;
        comma = ",";
    }
    ah_buffer_puts(out, "}");
    return out->failed ? ah_error_memory(err) : AH_OK;
}

int ah_writer_group(const struct ah_field_table *table, const void *group, struct ah_buffer *out,
                    struct ah_error *err)
{
    return ah_writer_group_without(table, group, 0, out, err);
}
