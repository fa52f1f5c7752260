/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a model's folder, as transformers does: chat_template.jinja goes before tokenizer_config.json, and of several
 * templates the one named 'default' is taken.
 */
#include "runtime/text/chat_internal.h"

#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/json.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 64 << 20 };

struct reading {
    struct ah_chat_folder *folder;
    char path[PATH_MAX]; /* of the file in hand */
    struct ah_error *err;
};

/* ---- values ---- */

static int broken(const struct reading *reading, const char *what)
{
    return ah_error_set(reading->err, AH_E_DOCUMENT, "%s: %s", reading->path, what);
}

/* Reads the text at the cursor, and moves past it. */
static int read_text(const struct reading *reading, struct ah_cursor *cursor, const char **ret_text)
{
    const char *text = ah_cursor_text(cursor, &reading->folder->arena);
    if (!text)
        return ah_error_memory(reading->err);
    *ret_text = text;
    return AH_OK;
}

/* Reads the texts of `n` keys of the object at the cursor, and moves past it. */
static int read_texts(const struct reading *reading, struct ah_cursor *cursor, const char *const *keys,
                      const char **texts, size_t n)
{
    int rc = AH_OK;
    ah_cursor_enter(cursor, '{');
    while (!rc && ah_cursor_next(cursor, '}')) {
        size_t at = 0;
        const char *key = ah_cursor_key(cursor, &reading->folder->arena);
        if (!key)
            return ah_error_memory(reading->err);
        while (at < n && strcmp(keys[at], key) != 0)
            at++;
        if (at < n && ah_cursor_peek(cursor) == '"')
            rc = read_text(reading, cursor, &texts[at]);
        else
            ah_cursor_skip(cursor);
    }
    return rc;
}

/* Reads a special token: a text, an object with 'content', or null. */
static int read_token(const struct reading *reading, struct ah_cursor *cursor, const char **ret_token)
{
    static const char *const content[] = {"content"};
    const char kind = ah_cursor_peek(cursor);
    if (kind == '"')
        return read_text(reading, cursor, ret_token);
    if (kind == '{')
        return read_texts(reading, cursor, content, ret_token, 1);
    if (kind != 'n')
        return broken(reading, "'bos_token' or 'eos_token' is neither a text nor an object");
    ah_cursor_skip(cursor);
    return AH_OK;
}

/* ---- the template ---- */

static int keep_template(const struct reading *reading, const char *text, size_t size)
{
    reading->folder->template_text = text;
    reading->folder->template_size = size;
    reading->folder->template_path = ah_arena_strdup(&reading->folder->arena, reading->path);
    return reading->folder->template_path ? AH_OK : ah_error_memory(reading->err);
}

/* Reads an object with 'name' and 'template', and keeps the template named 'default'. */
static int read_named(const struct reading *reading, struct ah_cursor *cursor)
{
    static const char *const keys[] = {"name", "template"};
    const char *texts[2] = {NULL, NULL};
    if (ah_cursor_peek(cursor) != '{')
        return broken(reading, "'chat_template' has an entry that is no object");
    const int rc = read_texts(reading, cursor, keys, texts, 2);
    if (rc)
        return rc;
    if (!texts[0] || !texts[1])
        return broken(reading, "'chat_template' has an entry without name or template");
    return strcmp(texts[0], "default") != 0 ? AH_OK : keep_template(reading, texts[1], strlen(texts[1]));
}

/* Reads 'chat_template', unless chat_template.jinja was there. */
static int read_template(const struct reading *reading, struct ah_cursor *cursor)
{
    const char kind = ah_cursor_peek(cursor);
    const char *text = NULL;
    int rc = AH_OK;
    if (reading->folder->template_text || kind == 'n') {
        ah_cursor_skip(cursor);
        return AH_OK;
    }
    if (kind == '"') {
        rc = read_text(reading, cursor, &text);
        return rc ? rc : keep_template(reading, text, strlen(text));
    }
    if (!ah_cursor_enter(cursor, '['))
        return broken(reading, "'chat_template' is neither a text nor a list");
    while (!rc && ah_cursor_next(cursor, ']'))
        rc = read_named(reading, cursor);
    return rc;
}

/* ---- files ---- */

static int read_config(const struct reading *reading, const char *text, size_t size)
{
    const struct ah_json_source source = {reading->path, text, size, 1};
    struct ah_cursor cursor = {text, text + size};
    int rc = ah_json_scan(&source, reading->err);
    if (rc)
        return rc;
    if (!ah_cursor_enter(&cursor, '{'))
        return broken(reading, "is no JSON object");
    while (!rc && ah_cursor_next(&cursor, '}')) {
        const char *key = ah_cursor_key(&cursor, &reading->folder->arena);
        if (!key)
            return ah_error_memory(reading->err);
        if (!strcmp(key, "chat_template"))
            rc = read_template(reading, &cursor);
        else if (!strcmp(key, "bos_token"))
            rc = read_token(reading, &cursor, &reading->folder->bos);
        else if (!strcmp(key, "eos_token"))
            rc = read_token(reading, &cursor, &reading->folder->eos);
        else
            ah_cursor_skip(&cursor);
    }
    return rc;
}

/* Reads a file of the folder. `ret_there` is false if the folder exists and has no such file. */
static int read_file(struct reading *reading, const char *folder, const char *name,
                     struct ah_buffer *ret_text, bool *ret_there)
{
    if (snprintf(reading->path, sizeof reading->path, "%s/%s", folder, name) >= PATH_MAX)
        return ah_error_set(reading->err, AH_E_IO, "%.200s: the name is too long", folder);
    *ret_there = access(reading->path, F_OK) == 0 || errno != ENOENT || access(folder, F_OK) != 0;
    if (!*ret_there)
        return AH_OK;
    const int rc = ah_file_check_regular(reading->path, reading->err);
    return rc ? rc : ah_file_read(reading->path, FILE_MAX_BYTES, ret_text, reading->err);
}

static int read_jinja(struct reading *reading, const char *folder)
{
    struct ah_buffer text = {0};
    bool there = false;
    int rc = read_file(reading, folder, "chat_template.jinja", &text, &there);
    if (!rc && there) {
        const char *kept = ah_arena_strndup(&reading->folder->arena, text.data ? text.data : "", text.size);
        rc = kept ? keep_template(reading, kept, text.size) : ah_error_memory(reading->err);
    }
    ah_buffer_release(&text);
    return rc;
}

int ah_chat_folder_read(struct ah_chat_folder *folder, const char *path, struct ah_error *err)
{
    struct reading reading = {.folder = folder, .err = err};
    struct ah_buffer text = {0};
    bool there = false;
    int rc = read_jinja(&reading, path);
    rc = rc ? rc : read_file(&reading, path, "tokenizer_config.json", &text, &there);
    if (!rc && there)
        rc = read_config(&reading, text.data ? text.data : "", text.size);
    ah_buffer_release(&text);
    return rc;
}

void ah_chat_folder_release(struct ah_chat_folder *folder)
{
    ah_arena_release(&folder->arena);
}

/* ---- the model ---- */

int ah_chat_model_new(struct ah_chat_model **ret_model, const struct ah_chat *chat,
                      const struct ah_chat_folder *folder, const char *path, struct ah_error *err)
{
    const bool no_bos = chat->needs_bos && !folder->bos, no_eos = chat->needs_eos && !folder->eos;
    if (no_bos || no_eos)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "'%.300s' does not name the special token that its chat template '%s' writes; "
                            "add '%s' to its tokenizer_config.json",
                            path, chat->name, no_bos ? "bos_token" : "eos_token");
    const bool has_passage = chat->passage_size != 0;
    assert(!has_passage || chat->passage_at + chat->passage_size <= folder->template_size);
    struct ah_chat_model *model = calloc(1, sizeof *model);
    if (!model)
        return ah_error_memory(err);
    model->chat = chat;
    model->bos = folder->bos ? strdup(folder->bos) : NULL;
    model->eos = folder->eos ? strdup(folder->eos) : NULL;
    model->passage = has_passage ? calloc(chat->passage_size + 1, 1) : NULL;
    if ((folder->bos && !model->bos) || (folder->eos && !model->eos) || (has_passage && !model->passage)) {
        ah_chat_close(model);
        return ah_error_memory(err);
    }
    if (has_passage)
        memcpy(model->passage, folder->template_text + chat->passage_at, chat->passage_size);
    *ret_model = model;
    return AH_OK;
}

int ah_chat_open(struct ah_chat_model **ret_model, const char *folder, struct ah_error *err)
{
    struct ah_chat_folder says = {0};
    const struct ah_chat *chat = NULL;
    int rc = ah_chat_folder_read(&says, folder, err);
    if (!rc && !says.template_text)
        rc = ah_error_set(err, AH_E_UNSUPPORTED,
                          "'%.300s' has no chat template; use the folder of a model that was taught to chat, "
                          "or write the conversations as 'prompt' and 'completion'",
                          folder);
    rc = rc ? rc : ah_chat_find(&chat, says.template_text, says.template_size, says.template_path, err);
    rc = rc ? rc : ah_chat_model_new(ret_model, chat, &says, folder, err);
    ah_chat_folder_release(&says);
    return rc;
}

int ah_chat_end_token(uint32_t *ret_token, const struct ah_text_tokenizer *tokenizer, const char *path,
                      struct ah_error *err)
{
    struct ah_chat_folder says = {0};
    struct stat about;
    char folder[PATH_MAX];
    const bool is_folder = !stat(path, &about) && S_ISDIR(about.st_mode);
    const char *slash = strrchr(path, '/');
    const int length = is_folder ? (int)strlen(path) : slash ? (int)(slash - path) + 1 : 1;
    if (snprintf(folder, sizeof folder, "%.*s", length, is_folder || slash ? path : ".") >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", path);
    const int rc = ah_chat_folder_read(&says, folder, err);
    *ret_token = !rc && says.eos ? ah_text_tokenizer_id(tokenizer, says.eos) : UINT32_MAX;
    ah_chat_folder_release(&says);
    return rc;
}

void ah_chat_close(struct ah_chat_model *model)
{
    if (!model)
        return;
    free(model->bos);
    free(model->eos);
    free(model->passage);
    free(model);
}
