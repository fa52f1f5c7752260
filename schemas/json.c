/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses JSON into a checked tree, and writes texts and numbers (json.h).
 */
#include "schemas/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_KEYS = 16, PATH_MAX_BYTES = 256, BRIEF_BYTES = 56 };

/* The path of a value in the tree, for messages. */
struct json_path {
    const struct json_path *parent;
    const char *name; /* NULL: an element */
    size_t index;
};

static void put_json_path(const struct json_path *at, struct ah_buffer *out)
{
    if (!at)
        return;
    put_json_path(at->parent, out);
    if (at->name) {
        ah_buffer_puts(out, at->parent ? "." : "");
        ah_json_put_plain(out, at->name);
    } else
        ah_buffer_printf(out, "[%zu]", at->index);
}

static int fail_at(const struct ah_json_source *source, const struct json_path *at, const char *what,
                   struct ah_error *err)
{
    struct ah_buffer path = {0};
    put_json_path(at, &path);
    int rc = path.failed ? ah_error_memory(err)
                         : ah_error_set(err, AH_E_DOCUMENT, "%s: %s: %s", source->name,
                                        path.data ? path.data : "document", what);
    ah_buffer_release(&path);
    return rc;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns a key that the object has twice, or NULL. Sets `ret_memory` if memory runs out. */
static const char *repeated_key(const cJSON *object, bool *ret_memory)
{
    size_t n = 0;
    for (const cJSON *member = object->child; member; member = member->next)
        n++;
    const char *few[FEW_KEYS];
    const char **keys = n <= FEW_KEYS ? few : malloc(n * sizeof *keys);
    if (!keys) {
        *ret_memory = true;
        return NULL;
    }
    n = 0;
    for (const cJSON *member = object->child; member; member = member->next)
        keys[n++] = member->string;
    if (n)
        qsort(keys, n, sizeof *keys, compare_keys);
    const char *found = NULL;
    for (size_t i = 1; i < n && !found; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            found = keys[i];
    if (keys != few)
        free(keys);
    return found;
}

static int check_tree(const struct ah_json_source *source, const cJSON *value, const struct json_path *at,
                      struct ah_error *err)
{
    if (cJSON_IsNumber(value) && !isfinite(value->valuedouble))
        return fail_at(source, at, "the number is too large for a double", err);
    if (cJSON_IsObject(value)) {
        bool memory = false;
        const char *key = repeated_key(value, &memory);
        if (memory)
            return ah_error_memory(err);
        if (key)
            return fail_at(source, &(struct json_path){at, key, 0}, "appears twice", err);
    }
    size_t index = 0;
    for (const cJSON *child = value->child; child; child = child->next, index++) {
        int rc = check_tree(source, child, &(struct json_path){at, child->string, index}, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

int ah_json_parse(const struct ah_json_source *source, struct cJSON **ret_tree,
                  enum ah_document_fault *ret_fault, struct ah_error *err)
{
    *ret_fault = AH_FAULT_SYNTAX;
    int rc = ah_json_scan(source, err);
    if (rc)
        return rc;
    cJSON *tree = cJSON_ParseWithLengthOpts(source->text, source->size, NULL, 0);
    rc = tree ? check_tree(source, tree, NULL, err) : ah_error_memory(err);
    if (rc) {
        cJSON_Delete(tree);
        if (rc == AH_E_MEMORY)
            *ret_fault = AH_FAULT_NONE;
        return rc;
    }
    *ret_fault = AH_FAULT_NONE;
    *ret_tree = tree;
    return AH_OK;
}

static void put_character(struct ah_buffer *out, unsigned char c)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: character, letter of its escape */
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if ((unsigned char)named[i] == c) {
            ah_buffer_printf(out, "\\%c", named[i + 1]);
            return;
        }
    if (c < 0x20)
        ah_buffer_printf(out, "\\u%04x", (unsigned)c);
    else
        ah_buffer_append(out, &c, 1);
}

bool ah_json_put_text(struct ah_buffer *out, const char *text)
{
    const char *end = text + strlen(text);
    for (const char *c = text; c < end;) {
        size_t n = ah_json_utf8(c, end);
        if (n == 0)
            return false;
        c += n;
    }
    ah_buffer_puts(out, "\"");
    for (const char *c = text; c < end; c++)
        put_character(out, (unsigned char)*c);
    ah_buffer_puts(out, "\"");
    return true;
}

bool ah_json_is_utf8(const char *text)
{
    const char *end = text + strlen(text);
    for (size_t length; text < end; text += length) {
        length = ah_json_utf8(text, end);
        if (!length)
            return false;
    }
    return true;
}

static char *repair(char *text)
{
    const char *end = text + strlen(text);
    for (char *at = text; at < end;) {
        size_t length = ah_json_utf8(at, end);
        if (!length)
            *at = '?';
        at += length ? length : 1;
    }
    return text;
}

void ah_json_put_repaired(struct ah_buffer *out, const char *text)
{
    char *copy = strdup(text);
    if (copy)
        ah_json_put_text(out, repair(copy));
    else
        out->failed = true;
    free(copy);
}

const char *ah_json_number_text(double value, char out[AH_JSON_NUMBER_TEXT])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, AH_JSON_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    const char *point = localeconv()->decimal_point;
    char *found = *point ? strstr(out, point) : NULL;
    if (found) {
        *found = '.';
        memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
    }
    return out;
}

void ah_json_put_number(struct ah_buffer *out, double value)
{
    char text[AH_JSON_NUMBER_TEXT];
    ah_buffer_puts(out, ah_json_number_text(value, text));
}

void ah_json_put_plain(struct ah_buffer *out, const char *text)
{
    const char *end = text + strlen(text);
    const char *c = text;
    while (c < end && c - text < BRIEF_BYTES - 8) {
        size_t n = ah_json_utf8(c, end);
        if (n > 1)
            ah_buffer_append(out, c, n);
        else
            put_character(out, n ? (unsigned char)*c : '?');
        c += n ? n : 1;
    }
    if (c < end)
        ah_buffer_puts(out, "...");
}

void ah_json_put_brief(struct ah_buffer *out, const struct cJSON *value)
{
    if (cJSON_IsString(value)) {
        ah_buffer_puts(out, "\"");
        ah_json_put_plain(out, value->valuestring);
        ah_buffer_puts(out, "\"");
    } else if (cJSON_IsNumber(value))
        ah_json_put_number(out, value->valuedouble);
    else
        ah_buffer_puts(out, cJSON_IsObject(value)  ? "an object"
                            : cJSON_IsArray(value) ? "a list"
                            : cJSON_IsTrue(value)  ? "true"
                            : cJSON_IsFalse(value) ? "false"
                                                   : "null");
}
