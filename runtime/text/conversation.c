/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads conversations: `messages` of `role` and `content`, or ShareGPT's `conversations` of `from` and `value`. A
 * content is text, or a list of parts of text. What would change the training and is not supported is refused by name.
 */
#include "runtime/text/inputs_internal.h"

#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

struct speaker {
    const char *name;
    enum ah_chat_role role;
};
static const struct speaker speakers[] = {
    {"system", AH_CHAT_SYSTEM},       {"user", AH_CHAT_USER},     {"human", AH_CHAT_USER},
    {"assistant", AH_CHAT_ASSISTANT}, {"gpt", AH_CHAT_ASSISTANT},
};

/* Fields of a message that are refused unless they are null, false, or empty. */
static const char *const refused[] = {"tool_calls", "function_call", "tool_call_id", "reasoning_content",
                                      "thinking",   "weight",        "train"};

struct message {
    const char *role, *content;
};

static int refuse(const struct ah_record_source *source, const char *name)
{
    return ah_records_fail(
        source, AH_E_UNSUPPORTED,
        "has a message with '%s', which 'tokenize' does not support; remove it, or write the "
        "record as prompt and completion",
        name);
}

/* True for null, false, "", [] and {}. */
static bool is_nothing(struct ah_cursor cursor)
{
    const char begin = ah_cursor_peek(&cursor);
    if (begin == '"')
        return cursor.at[1] == '"';
    if (begin == '[' || begin == '{')
        return ah_cursor_enter(&cursor, begin) && !ah_cursor_next(&cursor, begin == '[' ? ']' : '}');
    return begin == 'n' || begin == 'f';
}

/* Appends the text of a part: {"type": "text", "text": ...}. */
static int read_part(const struct ah_record_source *source, struct ah_cursor cursor, struct ah_buffer *out)
{
    const char *text = NULL, *type = "text";
    if (!ah_cursor_enter(&cursor, '{'))
        return ah_records_fail(source, AH_E_DOCUMENT, "has a part of a 'content' that is no object");
    while (ah_cursor_next(&cursor, '}')) {
        const char *key = ah_cursor_key(&cursor, source->arena);
        const bool is_text = ah_cursor_peek(&cursor) == '"';
        const char *value = key && is_text ? ah_cursor_text(&cursor, source->arena) : NULL;
        if (!key || (is_text && !value))
            return ah_error_memory(source->err);
        if (!is_text)
            ah_cursor_skip(&cursor);
        if (!strcmp(key, "type"))
            type = value;
        else if (!strcmp(key, "text"))
            text = value;
    }
    if (!type || strcmp(type, "text") != 0 || !text)
        return ah_records_fail(source, AH_E_UNSUPPORTED, "has a part of a 'content' that is no text");
    ah_buffer_puts(out, text);
    return AH_OK;
}

static int read_content(const struct ah_record_source *source, struct ah_cursor *cursor,
                        const char **ret_text)
{
    struct ah_buffer joined = {0};
    int rc = AH_OK;
    if (ah_cursor_peek(cursor) == '"') {
        *ret_text = ah_cursor_text(cursor, source->arena);
        return *ret_text ? AH_OK : ah_error_memory(source->err);
    }
    if (!ah_cursor_enter(cursor, '['))
        return ah_records_fail(source, AH_E_DOCUMENT, "has a message whose 'content' is no text");
    while (!rc && ah_cursor_next(cursor, ']')) {
        rc = read_part(source, *cursor, &joined);
        ah_cursor_skip(cursor);
    }
    *ret_text = ah_arena_strdup(source->arena, joined.data ? joined.data : "");
    if (!rc && (joined.failed || !*ret_text))
        rc = ah_error_memory(source->err);
    ah_buffer_release(&joined);
    return rc;
}

static int read_field(const struct ah_record_source *source, struct ah_cursor *cursor,
                      struct message *message)
{
    const char *key = ah_cursor_key(cursor, source->arena);
    if (!key)
        return ah_error_memory(source->err);
    if (!strcmp(key, "content") || !strcmp(key, "value"))
        return read_content(source, cursor, &message->content);
    if ((!strcmp(key, "role") || !strcmp(key, "from")) && ah_cursor_peek(cursor) == '"') {
        message->role = ah_cursor_text(cursor, source->arena);
        return message->role ? AH_OK : ah_error_memory(source->err);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!strcmp(key, refused[i]) && !is_nothing(*cursor))
            return refuse(source, key);
    ah_cursor_skip(cursor);
    return AH_OK;
}

static int read_message(const struct ah_record_source *source, struct ah_cursor cursor,
                        struct ah_chat_message *ret)
{
    struct message message = {NULL, NULL};
    int rc = AH_OK;
    if (!ah_cursor_enter(&cursor, '{'))
        return ah_records_fail(source, AH_E_DOCUMENT, "has a message that is no object");
    while (!rc && ah_cursor_next(&cursor, '}'))
        rc = read_field(source, &cursor, &message);
    if (rc)
        return rc;
    if (!message.role || !message.content)
        return ah_records_fail(source, AH_E_DOCUMENT,
                               "has a message without 'role' or without 'content'; each is {\"role\": ..., "
                               "\"content\": ...}");
    for (size_t i = 0; i < sizeof speakers / sizeof *speakers; i++)
        if (!strcmp(speakers[i].name, message.role)) {
            *ret = (struct ah_chat_message){speakers[i].role, message.content, strlen(message.content)};
            return AH_OK;
        }
    return ah_records_fail(
        source, AH_E_UNSUPPORTED,
        "has a message from '%.60s', which 'tokenize' does not support; known are 'system', 'user' and "
        "'assistant'",
        message.role);
}

int ah_conversation_read(const struct ah_record_source *source, struct ah_cursor cursor, const char *system,
                         struct ah_record *ret_record)
{
    struct ah_cursor counting = cursor;
    size_t n = 0;
    int rc = AH_OK;
    if (!ah_cursor_enter(&counting, '['))
        return ah_records_fail(source, AH_E_DOCUMENT, "has a conversation that is no list of messages");
    for (; ah_cursor_next(&counting, ']'); n++)
        ah_cursor_skip(&counting);
    struct ah_chat_message *messages = ah_arena_array(source->arena, n + 1, sizeof *messages);
    if (!messages)
        return ah_error_memory(source->err);
    n = 0;
    if (system && *system)
        messages[n++] = (struct ah_chat_message){AH_CHAT_SYSTEM, system, strlen(system)};
    ah_cursor_enter(&cursor, '[');
    for (; !rc && ah_cursor_next(&cursor, ']'); n++) {
        rc = read_message(source, cursor, &messages[n]);
        ah_cursor_skip(&cursor);
    }
    *ret_record = (struct ah_record){.messages = messages, .n_messages = n};
    return rc;
}
