/* SPDX-License-Identifier: Apache-2.0
 *
 * Meaning: runs the checks of a body's tables, from the outside in, once every value has the right shape.
 */
#include "schemas/field.h"

#include "schemas/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 256 };

struct meaning {
    char path[PATH_BYTES];
    size_t length;
    struct ah_error *err;
};

int ah_meaning_fail(struct ah_error *err, const char *field, const char *format, ...)
{
    char sentence[AH_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return ah_error_set(err, AH_E_DOCUMENT, "%s: %s", field, sentence);
}

int ah_meaning_fail_item(struct ah_error *err, const char *list, size_t index, const char *field,
                         const char *format, ...)
{
    char sentence[AH_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return ah_error_set(err, AH_E_DOCUMENT, "%s[%zu]%s%s: %s", list, index, field ? "." : "",
                        field ? field : "", sentence);
}

int ah_meaning_fail_numbers(struct ah_error *err, const char *field, double value, const char *relation,
                            double other)
{
    char texts[2][AH_JSON_NUMBER_TEXT];
    return ah_meaning_fail(err, field, "%s %s %s", ah_json_number_text(value, texts[0]), relation,
                           ah_json_number_text(other, texts[1]));
}

static int check_group(struct meaning *meaning, const struct ah_field_table *table, const void *group)
{
    int rc = table->check ? table->check(group, meaning->err) : AH_OK;
    if (rc && rc != AH_E_MEMORY && meaning->err && meaning->length) {
        char text[AH_ERROR_TEXT_MAX];
        memcpy(text, meaning->err->text, sizeof text);
        ah_error_set(meaning->err, rc, "%s.%s", meaning->path, text);
    }
    for (const struct ah_field *field = table->fields; field->name && !rc; field++) {
        if (field->type != AH_FIELD_GROUP || ah_field_absent(field, group))
            continue;
        const char *address = ah_field_address(field, group);
        size_t n = field->list ? ah_field_items(field, group) : 1;
        size_t before = meaning->length;
        if (field->list || field->flags & AH_FIELD_OPTIONAL)
            address = *(const char *const *)(const void *)address;
        for (size_t i = 0; i < n && !rc; i++) {
            char index[32] = "";
            if (field->list)
                snprintf(index, sizeof index, "[%zu]", i);
            int added = snprintf(meaning->path + before, PATH_BYTES - before, "%s%s%s", before ? "." : "",
                                 field->name, index);
            size_t room = PATH_BYTES - before - 1;
            meaning->length = before + ((size_t)added < room ? (size_t)added : room);
            rc = check_group(meaning, field->table, address + i * field->table->bytes);
        }
        meaning->length = before;
        meaning->path[before] = '\0';
    }
    return rc;
}

int ah_meaning_check(const struct ah_field_table *table, const void *group, struct ah_error *err)
{
    struct meaning meaning = {.err = err};
    return check_group(&meaning, table, group);
}
