/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of tables: addresses of their values, which values fit, and texts that say so (field.h).
 */
#include "schemas/field.h"

#include "schemas/json.h"
#include "schemas/nearest.h"

#include <math.h>
#include <string.h>

const char *const ah_field_version[] = {"1.0", NULL};
const char *const ah_field_plan_version[] = {"2.0", NULL};

/* The patterns have (?!\n) because `$` in Python also matches before a final newline. It changes no other dialect. */
static const struct ah_text_limits text_limits[AH_TEXT_FORMS] = {
    [AH_TEXT_LINE] = {"^[^\\u0000-\\u001f]*$(?!\\n)", 1, 512, "a line of 1 to 512 characters"},
    [AH_TEXT_ANY] = {NULL, 0, 4096, "text of at most 4096 characters"},
    [AH_TEXT_LONG] = {NULL, 0, 1 << 20, "text of at most 1048576 characters"},
    [AH_TEXT_NAME] = {"^[A-Za-z0-9][A-Za-z0-9._+-]*$(?!\\n)", 1, 128,
                      "a name of letters, digits and . _ + - (at most 128)"},
    [AH_TEXT_SHA256] = {"^[0-9a-f]{64}$(?!\\n)", 64, 64, "a sha256 of 64 lower-case hexadecimal digits"},
    [AH_TEXT_FILE] = {"^[^./\\u0000-\\u001f][^/\\u0000-\\u001f]*$(?!\\n)", 1, 255,
                      "a file name without slashes that does not begin with a dot"},
};

size_t ah_field_count(const struct ah_field_table *table)
{
    size_t n = 0;
    while (table->fields[n].name)
        n++;
    return n;
}

const struct ah_field *ah_field_find(const struct ah_field_table *table, const char *name)
{
    for (const struct ah_field *field = table->fields; field->name; field++)
        if (strcmp(field->name, name) == 0)
            return field;
    return NULL;
}

const struct ah_field *ah_field_nearest(const struct ah_field_table *table, const char *name)
{
    const char *names[AH_FIELDS_MAX];
    size_t n = 0;
    for (; table->fields[n].name && n < AH_FIELDS_MAX; n++)
        names[n] = table->fields[n].name;
    const char *near = ah_nearest(name, names, n);
    return near ? ah_field_find(table, near) : NULL;
}

void *ah_field_address(const struct ah_field *field, const void *group)
{
    return (char *)(uintptr_t)group + field->offset;
}

size_t ah_field_items(const struct ah_field *field, const void *group)
{
    size_t count;
    memcpy(&count, (const char *)group + field->count_offset, sizeof count);
    return count;
}

size_t ah_field_item_bytes(const struct ah_field *field)
{
    switch (field->type) {
    case AH_FIELD_GROUP:
        return field->table->bytes;
    case AH_FIELD_MAP:
        return sizeof(struct ah_text_pair);
    case AH_FIELD_BOOL:
        return sizeof(bool);
    case AH_FIELD_WORD:
        return sizeof(unsigned);
    case AH_FIELD_CONST:
    case AH_FIELD_COUNT:
    case AH_FIELD_NUMBER:
    case AH_FIELD_TEXT:
        break;
    }
    return 8; /* uint64_t, double, const char * */
}

bool ah_field_absent(const struct ah_field *field, const void *group)
{
    if (!(field->flags & AH_FIELD_OPTIONAL))
        return false;
    const void *address = ah_field_address(field, group);
    if (field->type == AH_FIELD_MAP || field->list)
        return ah_field_items(field, group) == 0;
    switch (field->type) {
    case AH_FIELD_BOOL:
        return *(const bool *)address == (field->fallback != 0.0);
    case AH_FIELD_COUNT:
        return (double)*(const uint64_t *)address == field->fallback;
    case AH_FIELD_NUMBER:
        return *(const double *)address == field->fallback;
    case AH_FIELD_WORD:
        return (double)*(const unsigned *)address == field->fallback;
    case AH_FIELD_TEXT:
    case AH_FIELD_GROUP:
        return *(const void *const *)address == NULL;
    case AH_FIELD_CONST:
    case AH_FIELD_MAP:
        break;
    }
    return false;
}

bool ah_field_fits_number(const struct ah_field *field, double value)
{
    if (!isfinite(value) || value > field->max)
        return false;
    if (field->type == AH_FIELD_COUNT && value != floor(value))
        return false;
    return field->flags & AH_FIELD_ABOVE ? value > field->min : value >= field->min;
}

static bool one_line(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20)
            return false;
    return true;
}

bool ah_field_fits_text(enum ah_text_form form, const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
    size_t characters = 0;
    for (const char *c = text; *c; c++)
        characters += ((unsigned char)*c & 0xC0) != 0x80;
    if (characters < text_limits[form].min_length || characters > text_limits[form].max_length)
        return false;
    if (form == AH_TEXT_NAME)
        return strspn(text, letters) == strlen(text) && !strchr("._+-", text[0]);
    if (form == AH_TEXT_SHA256)
        return strspn(text, "0123456789abcdef") == strlen(text);
    if (form == AH_TEXT_FILE && (text[0] == '.' || strchr(text, '/')))
        return false;
    return form == AH_TEXT_ANY || form == AH_TEXT_LONG || one_line(text);
}

const struct ah_text_limits *ah_field_text_limits(enum ah_text_form form)
{
    return &text_limits[form];
}

static void expected_number(const struct ah_field *field, struct ah_buffer *out)
{
    ah_buffer_puts(out, field->type == AH_FIELD_COUNT ? "an integer " : "a number ");
    ah_buffer_puts(out, field->flags & AH_FIELD_ABOVE ? "above " : "from ");
    ah_json_put_number(out, field->min);
    ah_buffer_puts(out, field->flags & AH_FIELD_ABOVE ? " and at most " : " to ");
    ah_json_put_number(out, field->max);
}

static void expected_words(const char *const *words, struct ah_buffer *out)
{
    ah_buffer_puts(out, words[1] ? "one of " : "");
    for (size_t i = 0; words[i]; i++)
        ah_buffer_printf(out, "%s%s", i ? ", " : "", words[i]);
}

void ah_field_expected(const struct ah_field *field, struct ah_buffer *out)
{
    switch (field->type) {
    case AH_FIELD_BOOL:
        ah_buffer_puts(out, "true or false");
        break;
    case AH_FIELD_COUNT:
    case AH_FIELD_NUMBER:
        expected_number(field, out);
        break;
    case AH_FIELD_TEXT:
        ah_buffer_puts(out, text_limits[field->form].expected);
        break;
    case AH_FIELD_CONST:
    case AH_FIELD_WORD:
        expected_words(field->words, out);
        break;
    case AH_FIELD_GROUP:
    case AH_FIELD_MAP:
        ah_buffer_puts(out, "an object");
        break;
    }
}
