/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the tables of a document as JSON Schema (schema_internal.h).
 */
#include "schemas/schema_internal.h"

#include "schemas/json.h"

#include <string.h>

enum { TABLES_MAX = 64 }; /* more than any document has; a test would find dangling references */

/* The tables of a document, each once, in the order in which they are found. */
struct tables {
    const struct ah_field_table *table[TABLES_MAX];
    size_t n;
};

static void collect_tables(struct tables *tables, const struct ah_field_table *table)
{
    for (const struct ah_field *field = table->fields; field->name; field++) {
        bool known = field->type != AH_FIELD_GROUP;
        for (size_t i = 0; i < tables->n && !known; i++)
            known = tables->table[i] == field->table;
        if (known || tables->n == TABLES_MAX)
            continue;
        tables->table[tables->n++] = field->table;
        collect_tables(tables, field->table);
    }
}

static void put_pair(struct ah_buffer *out, const char *key, const char *text)
{
    ah_buffer_printf(out, ",\"%s\":", key);
    ah_json_put_text(out, text);
}

static void put_bound(struct ah_buffer *out, const char *key, double value)
{
    ah_buffer_printf(out, ",\"%s\":", key);
    ah_json_put_number(out, value);
}

static void put_words(struct ah_buffer *out, const char *const *words)
{
    ah_buffer_puts(out, "\"enum\":[");
    for (size_t i = 0; words[i]; i++) {
        ah_buffer_puts(out, i ? "," : "");
        ah_json_put_text(out, words[i]);
    }
    ah_buffer_puts(out, "]");
}

static void put_text_limits(struct ah_buffer *out, enum ah_text_form form)
{
    const struct ah_text_limits *limits = ah_field_text_limits(form);
    ah_buffer_printf(out, "\"type\":\"string\",\"minLength\":%u,\"maxLength\":%u", limits->min_length,
                     limits->max_length);
    if (limits->pattern)
        put_pair(out, "pattern", limits->pattern);
}

/* Puts the members that describe one value (one item of a list), without braces. */
static void put_item(struct ah_buffer *out, const struct ah_field *field)
{
    switch (field->type) {
    case AH_FIELD_CONST:
        ah_buffer_puts(out, "\"const\":");
        ah_json_put_text(out, field->words[0]);
        break;
    case AH_FIELD_BOOL:
        ah_buffer_puts(out, "\"type\":\"boolean\"");
        break;
    case AH_FIELD_COUNT:
    case AH_FIELD_NUMBER:
        ah_buffer_puts(out, field->type == AH_FIELD_COUNT ? "\"type\":\"integer\"" : "\"type\":\"number\"");
        put_bound(out, field->flags & AH_FIELD_ABOVE ? "exclusiveMinimum" : "minimum", field->min);
        put_bound(out, "maximum", field->max);
        break;
    case AH_FIELD_TEXT:
        put_text_limits(out, field->form);
        break;
    case AH_FIELD_WORD:
        put_words(out, field->words);
        break;
    case AH_FIELD_GROUP:
        ah_buffer_printf(out, "\"$ref\":\"#/$defs/%s\"", field->table->name);
        break;
    case AH_FIELD_MAP:
        ah_buffer_printf(
            out, "\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},\"maxProperties\":%d",
            AH_FIELD_PAIRS_MAX);
        break;
    }
}

static void put_fallback(struct ah_buffer *out, const struct ah_field *field)
{
    if (!(field->flags & AH_FIELD_OPTIONAL) || field->flags & AH_FIELD_NO_DEFAULT || field->list)
        return;
    if (field->type == AH_FIELD_BOOL)
        ah_buffer_printf(out, ",\"default\":%s", field->fallback != 0.0 ? "true" : "false");
    else if (field->type == AH_FIELD_WORD)
        put_pair(out, "default", field->words[(size_t)field->fallback]);
    else if (field->type == AH_FIELD_COUNT || field->type == AH_FIELD_NUMBER)
        put_bound(out, "default", field->fallback);
}

static void put_property(struct ah_buffer *out, const struct ah_field *field)
{
    ah_buffer_puts(out, "{\"description\":");
    ah_json_put_text(out, field->about);
    ah_buffer_puts(out, ",");
    if (field->list) {
        ah_buffer_puts(out, "\"type\":\"array\",\"items\":{");
        put_item(out, field);
        ah_buffer_puts(out, "}");
        if (field->min_items)
            ah_buffer_printf(out, ",\"minItems\":%zu", field->min_items);
        if (field->max_items)
            ah_buffer_printf(out, ",\"maxItems\":%zu", field->max_items);
        if (field->flags & AH_FIELD_UNIQUE)
            ah_buffer_puts(out, ",\"uniqueItems\":true");
    } else
        put_item(out, field);
    put_fallback(out, field);
    ah_buffer_puts(out, "}");
}

/* Puts "properties":{"field":{"const":word}},"required":["field"]. It holds if the field is present and is the word.
 * Leaves out "required" if an absent field means the same. */
static void put_condition(struct ah_buffer *out, const struct ah_field_table *table, const char *name,
                          const char *word)
{
    const struct ah_field *field = ah_field_find(table, name);
    bool is_bool = field->type == AH_FIELD_BOOL;
    bool fallback = false;
    if (field->flags & AH_FIELD_OPTIONAL)
        fallback = is_bool ? strcmp(word, field->fallback != 0.0 ? "true" : "false") == 0
                           : strcmp(word, field->words[(size_t)field->fallback]) == 0;
    ah_buffer_printf(out, "\"properties\":{\"%s\":{\"const\":", name);
    if (is_bool)
        ah_buffer_puts(out, word);
    else
        ah_json_put_text(out, word);
    ah_buffer_puts(out, "}}");
    if (!fallback)
        ah_buffer_printf(out, ",\"required\":[\"%s\"]", name);
}

static void put_rule(struct ah_buffer *out, const struct ah_field_table *table, const struct ah_rule *rule)
{
    ah_buffer_puts(out, "{\"description\":");
    ah_json_put_text(out, rule->because);
    ah_buffer_puts(out, ",\"if\":{");
    if (rule->is)
        put_condition(out, table, rule->when, rule->is);
    else
        ah_buffer_printf(out, "\"required\":[\"%s\"]", rule->when);
    ah_buffer_puts(out, "},\"then\":{");
    if (rule->then == AH_RULE_REQUIRES)
        ah_buffer_printf(out, "\"required\":[\"%s\"]", rule->field);
    else if (rule->then == AH_RULE_FORBIDS)
        ah_buffer_printf(out, "\"properties\":{\"%s\":false}", rule->field);
    else if (rule->then == AH_RULE_IS)
        put_condition(out, table, rule->field, rule->word);
    else {
        ah_buffer_puts(out, "\"not\":{");
        put_condition(out, table, rule->field, rule->word);
        ah_buffer_puts(out, "}");
    }
    ah_buffer_puts(out, "}}");
}

/* Puts the members of an object's schema, without braces. */
static void put_object(struct ah_buffer *out, const struct ah_field_table *table)
{
    ah_buffer_puts(out, "\"description\":");
    ah_json_put_text(out, table->about);
    ah_buffer_puts(out, ",\"type\":\"object\",\"properties\":{");
    for (const struct ah_field *field = table->fields; field->name; field++) {
        ah_buffer_printf(out, "%s\"%s\":", field == table->fields ? "" : ",", field->name);
        put_property(out, field);
    }
    ah_buffer_puts(out, "},\"required\":[");
    const char *comma = "";
    for (const struct ah_field *field = table->fields; field->name; field++)
        if (!(field->flags & AH_FIELD_OPTIONAL)) {
            ah_buffer_printf(out, "%s\"%s\"", comma, field->name);
            comma = ",";
        }
    ah_buffer_puts(out, "],\"additionalProperties\":false");
    if (table->rules) {
        ah_buffer_puts(out, ",\"allOf\":[");
        for (const struct ah_rule *rule = table->rules; rule->when; rule++) {
            ah_buffer_puts(out, rule == table->rules ? "" : ",");
            put_rule(out, table, rule);
        }
        ah_buffer_puts(out, "]");
    }
}

void ah_schema_put(const char *kind, const struct ah_field_table *const *alternatives, struct ah_buffer *out)
{
    struct tables tables = {.n = 0};
    ah_buffer_printf(out,
                     "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
                     "\"$id\":\"urn:autohete:schema:%s:%s\",\"title\":\"autohete %s\",",
                     kind, ah_field_find(alternatives[0], "format_version")->words[0], kind);
    for (size_t i = 0; alternatives[i] && alternatives[1]; i++)
        tables.table[tables.n++] = alternatives[i];
    for (size_t i = 0; alternatives[i]; i++)
        collect_tables(&tables, alternatives[i]);
    if (!alternatives[1])
        put_object(out, alternatives[0]);
    else {
        ah_buffer_puts(out, "\"description\":\"Each line is one of these objects.\",\"anyOf\":[");
        for (size_t i = 0; alternatives[i]; i++)
            ah_buffer_printf(out, "%s{\"$ref\":\"#/$defs/%s\"}", i ? "," : "", alternatives[i]->name);
        ah_buffer_puts(out, "]");
    }
    for (size_t i = 0; i < tables.n; i++) {
        ah_buffer_printf(out, "%s\"%s\":{", i ? "," : ",\"$defs\":{", tables.table[i]->name);
        put_object(out, tables.table[i]);
        ah_buffer_puts(out, "}");
    }
    ah_buffer_puts(out, tables.n ? "}}" : "}");
}
