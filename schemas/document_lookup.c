/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup: finds the value at a path such as "blocks[3].optimizer", walking a body by its table.
 */
#include "schemas/document.h"
#include "schemas/field.h"
#include "schemas/kinds_internal.h"
#include "schemas/writer_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The most names that are listed after a suggestion, and without one. */
enum { NAMES_LISTED = 12, NAMES_LISTED_ALONE = 32 };

/* The state of a lookup: the object reached so far, and the rest of the path. */
struct walk {
    const struct ah_field_table *table;
    const void *group;
    const char *path; /* the whole path, for messages */
    const char *at;   /* the rest of `path` */
    struct ah_error *err;
};

/* A field on a path, linked to the one before it. */
struct passed {
    const struct passed *before;
    const struct ah_field *field;
};

static void put_passed(const struct passed *passed, struct ah_buffer *out)
{
    if (!passed)
        return;
    put_passed(passed->before, out);
    ah_buffer_printf(out, "%s%s.", passed->field->name, passed->field->list ? "[0]" : "");
}

/* Appends the path of a field named `name` in some nested object: "time.step_us", "blocks[0].optimizer". */
static bool put_path_inside(const struct ah_field_table *table, const char *name, const struct passed *passed,
                            struct ah_buffer *out)
{
    if (passed && ah_field_find(table, name)) {
        put_passed(passed, out);
        ah_buffer_puts(out, name);
        return true;
    }
    for (const struct ah_field *field = table->fields; field->name; field++) {
        const struct passed here = {passed, field};
        if (field->type == AH_FIELD_GROUP && put_path_inside(field->table, name, &here, out))
            return true;
    }
    return false;
}

/* Appends "; did you mean 'step_us'? there is step_us, compute_us". Suggests a field with a similar name, or a nested
 * field with this name, and lists all names if they are few. */
static void put_names(const struct walk *walk, const char *name, struct ah_buffer *out)
{
    const struct ah_field *near = ah_field_nearest(walk->table, name);
    struct ah_buffer inside = {0};
    bool said = true;
    if (near)
        ah_buffer_printf(out, "; did you mean '%s'?", near->name);
    else if (*name && put_path_inside(walk->table, name, NULL, &inside))
        ah_buffer_printf(out, "; did you mean '%.*s%s'?", (int)(walk->at - walk->path), walk->path,
                         inside.failed ? "" : inside.data);
    else
        said = false;
    out->failed = out->failed || inside.failed;
    ah_buffer_release(&inside);
    if (ah_field_count(walk->table) > (said ? NAMES_LISTED : NAMES_LISTED_ALONE))
        return;
    for (const struct ah_field *field = walk->table->fields; field->name; field++)
        ah_buffer_printf(out, "%s%s",
                         field != walk->table->fields ? ", "
                         : said                       ? " there is "
                                                      : "; there is ",
                         field->name);
}

static int fail_name(const struct walk *walk, const char *name, int length)
{
    struct ah_buffer rest = {0};
    int parent = (int)(walk->at > walk->path ? walk->at - walk->path - 1 : 0);
    put_names(walk, name, &rest);
    int rc = rest.failed ? ah_error_memory(walk->err)
             : parent    ? ah_error_set(walk->err, AH_E_USAGE, "'%s': there is no '%.*s' in '%.*s'%s",
                                        walk->path, length, walk->at, parent, walk->path, rest.data)
                      : ah_error_set(walk->err, AH_E_USAGE, "'%s': the document has no '%.*s'%s", walk->path,
                                     length, walk->at, rest.data ? rest.data : "");
    ah_buffer_release(&rest);
    return rc;
}

static int store_scalar(const struct ah_field *field, const void *address, struct ah_value *ret_value)
{
    struct ah_value value = {.kind = AH_VALUE_NUMBER};
    switch (field->type) {
    case AH_FIELD_BOOL:
        value.kind = AH_VALUE_BOOL;
        value.number = *(const bool *)address ? 1.0 : 0.0;
        break;
    case AH_FIELD_COUNT:
        value.number = (double)*(const uint64_t *)address;
        break;
    case AH_FIELD_NUMBER:
        value.number = *(const double *)address;
        break;
    case AH_FIELD_CONST:
        value.text = field->words[0];
        break;
    case AH_FIELD_TEXT:
        value.text = *(const char *const *)address;
        break;
    case AH_FIELD_WORD:
        value.text = field->words[*(const unsigned *)address];
        break;
    case AH_FIELD_GROUP:
    case AH_FIELD_MAP:
        break;
    }
    if (field->type == AH_FIELD_CONST || field->type == AH_FIELD_TEXT || field->type == AH_FIELD_WORD)
        value.kind = value.text ? AH_VALUE_TEXT : AH_VALUE_ABSENT;
    *ret_value = value;
    return AH_OK;
}

static int fail_list(const struct walk *walk, const struct ah_field *field)
{
    return ah_error_set(walk->err, AH_E_USAGE, "'%s': '%s' is a list; name an item of it, as in '%.*s[0]%s'",
                        walk->path, field->name, (int)(walk->at - walk->path), walk->path, walk->at);
}

static int fail_inside(const struct walk *walk)
{
    return ah_error_set(walk->err, AH_E_USAGE, "'%s': nothing is inside '%.*s'", walk->path,
                        (int)(walk->at - walk->path), walk->path);
}

static int lookup_map(const struct walk *walk, const struct ah_field *field, struct ah_value *ret_value)
{
    const struct ah_text_pair *pairs =
        *(const struct ah_text_pair *const *)ah_field_address(field, walk->group);
    *ret_value = (struct ah_value){.kind = AH_VALUE_ABSENT};
    for (size_t i = 0; i < ah_field_items(field, walk->group); i++)
        if (strcmp(pairs[i].key, walk->at) == 0)
            *ret_value = (struct ah_value){.kind = AH_VALUE_TEXT, .text = pairs[i].value};
    return AH_OK;
}

/* Moves past "[3]" at `at` and returns the item's address. AH_E_USAGE if there is no such item. */
static int step_index(struct walk *walk, const struct ah_field *field, const void **ret_address)
{
    char *end;
    size_t n = ah_field_items(field, walk->group);
    unsigned long long index = strtoull(walk->at + 1, &end, 10);
    if (walk->at[1] < '0' || walk->at[1] > '9' || *end != ']')
        return ah_error_set(walk->err, AH_E_USAGE, "'%s': '%s' is not an index like [0]", walk->path,
                            walk->at);
    if (!n)
        return ah_error_set(walk->err, AH_E_USAGE, "'%s': '%s' has no items", walk->path, field->name);
    if (index >= n)
        return ah_error_set(walk->err, AH_E_USAGE, "'%s': '%s' has %zu item%s, [0] to [%zu]", walk->path,
                            field->name, n, n == 1 ? "" : "s", n - 1);
    const char *items = *(const char *const *)ah_field_address(field, walk->group);
    *ret_address = items + index * ah_field_item_bytes(field);
    walk->at = end + 1;
    return AH_OK;
}

/* Enters an object, and returns true, if the path continues inside it. */
static bool enter_group(struct walk *walk, const struct ah_field *field, const void *address)
{
    if (field->type != AH_FIELD_GROUP || *walk->at != '.')
        return false;
    walk->table = field->table;
    walk->group = address;
    walk->at++;
    return true;
}

/* Finds the value of `field`, or enters the field if the path continues (`ret_inside`). */
static int step_field(struct walk *walk, const struct ah_field *field, bool *ret_inside,
                      struct ah_value *ret_value)
{
    const void *address = ah_field_address(field, walk->group);
    bool end = *walk->at == '\0';
    *ret_inside = false;
    if (field->type == AH_FIELD_MAP && *walk->at == '.') {
        walk->at++;
        return lookup_map(walk, field, ret_value);
    }
    if (end && (field->list || field->type == AH_FIELD_MAP)) {
        *ret_value = (struct ah_value){AH_VALUE_GROUP, (double)ah_field_items(field, walk->group), NULL};
        return AH_OK;
    }
    if (field->list && *walk->at != '[')
        return fail_list(walk, field);
    if (field->list) {
        int rc = step_index(walk, field, &address);
        if (rc)
            return rc;
    } else if (field->type == AH_FIELD_GROUP && field->flags & AH_FIELD_OPTIONAL) {
        address = *(const void *const *)address;
        if (!address) {
            *ret_value = (struct ah_value){.kind = AH_VALUE_ABSENT};
            return AH_OK;
        }
    }
    *ret_inside = enter_group(walk, field, address);
    if (*ret_inside)
        return AH_OK;
    if (*walk->at)
        return fail_inside(walk);
    if (field->type == AH_FIELD_GROUP) {
        *ret_value = (struct ah_value){.kind = AH_VALUE_GROUP};
        return AH_OK;
    }
    if (field->flags & AH_FIELD_NO_DEFAULT && ah_field_absent(field, walk->group)) {
        *ret_value = (struct ah_value){.kind = AH_VALUE_ABSENT};
        return AH_OK;
    }
    return store_scalar(field, address, ret_value);
}

int ah_document_lookup(const struct ah_document *document, const char *path, struct ah_value *ret_value,
                       struct ah_error *err)
{
    const struct ah_kind *kind = ah_document_kind(document->kind);
    if (!kind)
        return ah_error_set(err, AH_E_USAGE, "'%s': the document is empty", path);
    struct walk walk = {kind->table, document->body.any, path, path, err};
    for (;;) {
        char name[64] = "";
        size_t length = strcspn(walk.at, ".[");
        const struct ah_field *field = NULL;
        if (length && length < sizeof name) {
            memcpy(name, walk.at, length);
            name[length] = '\0';
            field = ah_field_find(walk.table, name);
        }
        if (!field)
            return fail_name(&walk, name, (int)(length < 64 ? length : 64));
        walk.at += length;
        bool inside;
        int rc = step_field(&walk, field, &inside, ret_value);
        if (rc || !inside)
            return rc;
    }
}
