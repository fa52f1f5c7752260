/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads documents (first kind and version, then the fields of the kind's table, then the meaning) and writes them.
 */
#include "schemas/document.h"

#include "base/file.h"
#include "base/sha256.h"
#include "schemas/huggingface.h"
#include "schemas/json.h"
#include "schemas/kinds_internal.h"
#include "schemas/schema_internal.h"
#include "schemas/writer_internal.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_LINE_MAX = 1 << 20 }; /* most bytes of a run log's first line */

struct kind_row {
    const char *word;
    const struct ah_kind *kind;
};

static const struct kind_row kind_rows[AH_DOCUMENT_KINDS] = {
#define KIND_ROW(value, name, word) [value] = {word, &ah_kind_##name},
    AH_DOCUMENTS(KIND_ROW)
#undef KIND_ROW
};

enum ah_document_kind ah_document_kind_of(const char *word)
{
    for (int i = AH_DOCUMENT_ANY + 1; i < AH_DOCUMENT_KINDS; i++)
        if (strcmp(kind_rows[i].word, word) == 0)
            return (enum ah_document_kind)i;
    return AH_DOCUMENT_ANY;
}

const char *ah_document_word(enum ah_document_kind kind)
{
    return kind < AH_DOCUMENT_KINDS ? kind_rows[kind].word : NULL;
}

const struct ah_kind *ah_document_kind(enum ah_document_kind kind)
{
    return kind < AH_DOCUMENT_KINDS ? kind_rows[kind].kind : NULL;
}

/* The state of reading one document. */
struct reading {
    struct ah_document document;
    struct ah_json_source source;
    enum ah_document_kind expected;
    struct ah_error *err;
};

static int shape_fail(struct reading *reading, const char *what)
{
    reading->document.fault = AH_FAULT_SHAPE;
    return ah_error_set(reading->err, AH_E_DOCUMENT, "%s: %s", reading->source.name, what);
}

static int shape_fail_value(struct reading *reading, const char *field, const cJSON *value, const char *what)
{
    struct ah_buffer text = {0};
    ah_buffer_printf(&text, "%s: ", field);
    ah_json_put_brief(&text, value);
    ah_buffer_printf(&text, " %s", what);
    int rc = text.failed ? ah_error_memory(reading->err) : shape_fail(reading, text.data);
    ah_buffer_release(&text);
    return rc;
}

/* Refuses other versions than the kind's, such as "1.7", with a message about versions. Format 1.0 of a kind that has a
 * later one is upgraded. */
static int check_version(struct reading *reading, const struct ah_kind *kind, cJSON *tree)
{
    unsigned major, minor;
    int end = 0;
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(tree, "format_version");
    const char *newest = ah_field_find(kind->table, "format_version")->words[0];
    char what[160];
    snprintf(what, sizeof what, "is a number, not the text \"%s\"; put it in quotes", newest);
    if (cJSON_IsNumber(version))
        return shape_fail_value(reading, "format_version", version, what);
    if (!cJSON_IsString(version) || strcmp(version->valuestring, newest) == 0)
        return AH_OK; /* the table refuses anything else */
    if (kind->upgrade && !strcmp(version->valuestring, ah_field_version[0])) {
        reading->document.outdated = true;
        return kind->upgrade(tree, reading->err);
    }
    if (sscanf(version->valuestring, "%4u.%4u%n", &major, &minor, &end) != 2 || version->valuestring[end])
        return AH_OK;
    const bool older = major < (unsigned)(newest[0] - '0');
    if (older)
        snprintf(what, sizeof what, "is older than %s%s", newest,
                 kind->upgrade ? "; of older ones, this autohete reads 1.0"
                               : ", the only version that this autohete reads");
    else
        snprintf(what, sizeof what,
                 "is newer than %s, the newest that this autohete reads; use a newer autohete", newest);
    return shape_fail_value(reading, "format_version", version, what);
}

/* Finds the kind that the tree names, which must be the expected one. */
static int find_kind(struct reading *reading, const cJSON *tree, enum ah_document_kind *ret_kind)
{
    if (!cJSON_IsObject(tree))
        return shape_fail(reading, "the document is not a JSON object; if this is data, convert it to token "
                                   "files with 'autohete tokenize'");
    const cJSON *word = cJSON_GetObjectItemCaseSensitive(tree, "kind");
    if (!word)
        return shape_fail(reading,
                          "kind: is missing; a document needs its kind, a Hugging Face config its "
                          "model_type; if this is data, convert it to token files with 'autohete tokenize'");
    enum ah_document_kind kind =
        cJSON_IsString(word) ? ah_document_kind_of(word->valuestring) : AH_DOCUMENT_ANY;
    if (kind == AH_DOCUMENT_ANY)
        return shape_fail_value(reading, "kind", word,
                                "is not one of model, machine, cluster, plan, cluster-plan, inventory, "
                                "moves, runlog, checkpoint, resume, status");
    if (reading->expected != AH_DOCUMENT_ANY && kind != reading->expected) {
        char what[64];
        snprintf(what, sizeof what, "where a %s is expected", ah_document_word(reading->expected));
        return shape_fail_value(reading, "kind", word, what);
    }
    *ret_kind = kind;
    return AH_OK;
}

static int allocate_body(struct reading *reading, enum ah_document_kind kind)
{
    reading->document.kind = kind;
    reading->document.body.any = ah_arena_alloc(&reading->document.arena, kind_rows[kind].kind->table->bytes);
    return reading->document.body.any ? AH_OK : ah_error_memory(reading->err);
}

/* Checks the meaning. `config` (optional): the Hugging Face config from which the model was made. */
static int check_meaning(struct reading *reading, const cJSON *config)
{
    const struct ah_document *document = &reading->document;
    int rc = ah_meaning_check(kind_rows[document->kind].kind->table, document->body.any, reading->err);
    if (!rc || rc == AH_E_MEMORY)
        return rc;
    reading->document.fault = AH_FAULT_MEANING;
    if (config)
        ah_huggingface_rename(document->body.model, config, reading->err);
    return ah_error_prefix(reading->err, rc, "%s", reading->source.name);
}

static int read_tree(struct reading *reading, cJSON *tree)
{
    struct ah_document *document = &reading->document;
    enum ah_document_kind kind = AH_DOCUMENT_MODEL;
    struct ah_reader reader = {&document->arena, reading->source.name, reading->err, NULL, NULL};
    bool foreign = (reading->expected == AH_DOCUMENT_ANY || reading->expected == AH_DOCUMENT_MODEL) &&
                   ah_huggingface_recognises(tree);
    int rc = foreign ? AH_OK : find_kind(reading, tree, &kind);
    if (!rc && kind == AH_DOCUMENT_RUNLOG)
        rc = shape_fail(reading, "a run log has one JSON object per line; this is one object over several "
                                 "lines");
    if (!rc && !foreign)
        rc = check_version(reading, kind_rows[kind].kind, tree);
    if (!rc)
        rc = allocate_body(reading, kind);
    if (rc)
        return rc;
    document->fault = AH_FAULT_SHAPE;
    if (foreign)
        rc = ah_huggingface_read(&document->arena, reading->source.name, tree, document->body.model,
                                 &document->warnings, &document->n_warnings, reading->err);
    else
        rc = ah_reader_group(&reader, NULL, kind_rows[kind].kind->table, tree, document->body.any);
    return rc ? rc : check_meaning(reading, foreign ? tree : NULL);
}

static int read_lines(struct reading *reading)
{
    struct ah_document *document = &reading->document;
    struct ah_reader reader = {&document->arena, reading->source.name, reading->err, NULL, NULL};
    int rc = allocate_body(reading, AH_DOCUMENT_RUNLOG);
    if (!rc)
        rc = ah_kind_runlog.parse(&reader, &reading->source, document->body.any, &document->fault);
    return rc ? rc : check_meaning(reading, NULL);
}

/* Sets `ret_is` if the first line that is not blank is a JSON object of kind runlog. The text is then read line by
 * line. AH_E_MEMORY. */
static int begins_runlog(const struct ah_json_source *source, bool *ret_is, struct ah_error *err)
{
    struct ah_json_source line = *source;
    while (line.size && memchr(" \t\r\n", *line.text, 4)) {
        line.text++;
        line.size--;
    }
    const char *newline = memchr(line.text, '\n', line.size);
    enum ah_document_fault fault;
    cJSON *tree = NULL;
    *ret_is = false;
    if (newline)
        line.size = (size_t)(newline - line.text);
    if (line.size > FIRST_LINE_MAX)
        return AH_OK;
    if (ah_json_parse(&line, &tree, &fault, NULL) == AH_E_MEMORY)
        return ah_error_memory(err);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(tree, "kind");
    *ret_is = cJSON_IsString(kind) && strcmp(kind->valuestring, "runlog") == 0;
    cJSON_Delete(tree);
    return AH_OK;
}

static int read_text(struct reading *reading)
{
    bool lines = reading->expected == AH_DOCUMENT_RUNLOG;
    int rc = AH_OK;
    if (reading->expected == AH_DOCUMENT_ANY)
        rc = begins_runlog(&reading->source, &lines, reading->err);
    if (rc)
        return rc;
    size_t limit = lines ? AH_KIND_RUNLOG_LIMIT_BYTES : AH_KIND_LIMIT_BYTES;
    if (reading->source.size > limit) {
        reading->document.fault = AH_FAULT_FILE;
        return ah_error_set(reading->err, AH_E_DOCUMENT,
                            "%s: is larger than %zu MiB, the most such a document may be",
                            reading->source.name, limit >> 20);
    }
    if (lines)
        return read_lines(reading);
    cJSON *tree = NULL;
    rc = ah_json_parse(&reading->source, &tree, &reading->document.fault, reading->err);
    if (!rc)
        rc = read_tree(reading, tree);
    cJSON_Delete(tree);
    return rc;
}

const char *ah_document_short_name(const char *name, char out[AH_DOCUMENT_NAME_MAX])
{
    size_t length = strlen(name);
    if (strcmp(name, "-") == 0)
        return "standard input";
    if (length < AH_DOCUMENT_NAME_MAX)
        return name;
    size_t head = 120;
    const char *tail = name + length - (AH_DOCUMENT_NAME_MAX - 140);
    while (((unsigned char)name[head] & 0xC0) == 0x80)
        head--;
    while (((unsigned char)*tail & 0xC0) == 0x80)
        tail++;
    snprintf(out, AH_DOCUMENT_NAME_MAX, "%.*s...%s", (int)head, name, tail);
    return out;
}

/* Adds to the message that the file is not a JSON document, unless its first character could begin one. */
static void say_no_json(const char *text, size_t size, struct ah_error *err)
{
    size_t at = 0;
    while (at < size && strchr(" \t\r\n", text[at]))
        at++;
    if (!err || at >= size || strchr("{[\"-0123456789", text[at]))
        return;
    const size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "; this is not a JSON document");
}

int ah_document_parse(struct ah_document *ret_document, const char *name, const char *text, size_t size,
                      enum ah_document_kind expected, struct ah_error *err)
{
    char shortened[AH_DOCUMENT_NAME_MAX];
    struct reading reading = {
        .source = {ah_document_short_name(name, shortened), text, size, 1}, .expected = expected, .err = err};
    int rc = read_text(&reading);
    if (!rc) {
        reading.document.fault = AH_FAULT_NONE;
        *ret_document = reading.document;
        return AH_OK;
    }
    if (rc == AH_E_DOCUMENT)
        say_no_json(text, size, err);
    ah_arena_release(&reading.document.arena);
    *ret_document = (struct ah_document){.fault = rc == AH_E_MEMORY ? AH_FAULT_NONE : reading.document.fault};
    return rc;
}

int ah_document_load(struct ah_document *ret_document, const char *path, enum ah_document_kind expected,
                     struct ah_error *err)
{
    struct ah_buffer text = {0};
    int rc = ah_file_read(path, AH_KIND_RUNLOG_LIMIT_BYTES, &text, err);
    if (!rc)
        rc = ah_document_parse(ret_document, path, text.data ? text.data : "", text.size, expected, err);
    else
        *ret_document = (struct ah_document){.fault = rc == AH_E_MEMORY ? AH_FAULT_NONE : AH_FAULT_FILE};
    ah_buffer_release(&text);
    return rc;
}

int ah_document_print(const struct ah_document *document, struct ah_buffer *out, struct ah_error *err)
{
    const struct ah_kind *kind = ah_document_kind(document->kind);
    if (!kind)
        return ah_error_set(err, AH_E_USAGE, "an empty document cannot be printed");
    if (kind->print)
        return kind->print(document->body.any, out, err);
    struct ah_buffer compact = {0};
    int rc = ah_writer_group(kind->table, document->body.any, &compact, err);
    if (!rc)
        ah_json_layout(out, compact.data);
    ah_buffer_release(&compact);
    return !rc && out->failed ? ah_error_memory(err) : rc;
}

int ah_document_save(const struct ah_document *document, const char *path, struct ah_error *err)
{
    struct ah_buffer text = {0};
    int rc = ah_document_print(document, &text, err);
    if (!rc)
        rc = ah_file_write(path, text.data, text.size, err);
    ah_buffer_release(&text);
    return rc;
}

int ah_document_digest(const struct ah_document *document, char ret_digest[AH_DOCUMENT_DIGEST_MAX],
                       struct ah_error *err)
{
    const struct ah_kind *kind = ah_document_kind(document->kind);
    struct ah_buffer compact = {0};
    if (!kind)
        return ah_error_set(err, AH_E_USAGE, "an empty document has no digest");
    int rc = ah_writer_group_without(kind->table, document->body.any, AH_FIELD_ASIDE | AH_FIELD_LABEL,
                                     &compact, err);
    if (!rc) {
        struct ah_sha256 hash;
        unsigned char digest[AH_SHA256_BYTES];
        ah_sha256_init(&hash);
        ah_sha256_update(&hash, compact.data, compact.size);
        ah_sha256_finish(&hash, digest);
        ah_sha256_hex(digest, ret_digest);
    }
    ah_buffer_release(&compact);
    return rc;
}

int ah_document_check_model(const struct ah_model *model, const char *stated_sha256, struct ah_error *err)
{
    struct ah_model copy = *model;
    const struct ah_document document = {.kind = AH_DOCUMENT_MODEL, .body = {.model = &copy}};
    char digest[AH_DOCUMENT_DIGEST_MAX];
    int rc = ah_document_digest(&document, digest, err);
    if (rc || !strcmp(digest, stated_sha256))
        return rc;
    return ah_error_set(err, AH_E_MISMATCH,
                        "model: its sha256 is %s, but inputs.model.sha256 says %s; it was edited: plan again",
                        digest, stated_sha256);
}

int ah_document_schema(enum ah_document_kind kind, struct ah_buffer *out, struct ah_error *err)
{
    const struct ah_kind *row = ah_document_kind(kind);
    if (!row)
        return ah_error_set(err, AH_E_USAGE, "a schema needs one kind of document");
    struct ah_buffer compact = {0};
    ah_schema_put(ah_document_word(kind), row->alternatives, &compact);
    if (!compact.failed)
        ah_json_layout(out, compact.data);
    bool failed = compact.failed || out->failed;
    ah_buffer_release(&compact);
    return failed ? ah_error_memory(err) : AH_OK;
}

void ah_document_release(struct ah_document *document)
{
    if (!document)
        return;
    ah_arena_release(&document->arena);
    *document = (struct ah_document){0};
}
