/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts: renders and encodes what the user says, and finds the tokens that end an answer.
 */
#include "cli/sample/prompts.h"

#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/json.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

static void add_stop(struct ah_prompts *prompts, uint64_t token)
{
    if (token < UINT32_MAX && prompts->n_stops < AH_PROMPTS_STOPS_MAX &&
        !ah_prompts_stops(prompts, (uint32_t)token))
        prompts->stops[prompts->n_stops++] = (uint32_t)token;
}

/* Reads a number, or the numbers of a list. */
static void read_stops(struct ah_prompts *prompts, struct ah_cursor *cursor)
{
    uint64_t token;
    if (!ah_cursor_enter(cursor, '[')) {
        if (ah_cursor_count(cursor, &token))
            add_stop(prompts, token);
        else
            ah_cursor_skip(cursor);
        return;
    }
    while (ah_cursor_next(cursor, ']'))
        if (ah_cursor_count(cursor, &token))
            add_stop(prompts, token);
        else
            ah_cursor_skip(cursor);
}

/* Reads 'eos_token_id' of a file in the model's folder, if both are there. */
static int read_config(struct ah_prompts *prompts, const char *name, struct ah_error *err)
{
    struct ah_buffer text = {0};
    struct ah_arena arena = {0};
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", prompts->options.folder, name) >= (int)sizeof path ||
        access(path, F_OK))
        return AH_OK;
    int rc = ah_file_read(path, CONFIG_BYTES_MAX, &text, err);
    rc = rc ? rc : ah_json_scan(&(struct ah_json_source){path, text.data, text.size, 1}, err);
    struct ah_cursor cursor = {text.data, text.data + text.size};
    if (!rc && ah_cursor_enter(&cursor, '{'))
        while (!rc && ah_cursor_next(&cursor, '}')) {
            const char *key = ah_cursor_key(&cursor, &arena);
            if (!key)
                rc = ah_error_memory(err);
            else if (!strcmp(key, "eos_token_id"))
                read_stops(prompts, &cursor);
            else
                ah_cursor_skip(&cursor);
        }
    ah_arena_release(&arena);
    ah_buffer_release(&text);
    return rc;
}

/* Renders a conversation of the prompt, and of an answer if there is one. */
static int render(const struct ah_prompts *prompts, const char *prompt, const char *answer,
                  struct ah_chat_span spans[3], struct ah_buffer *out, struct ah_error *err)
{
    const char *system = prompts->options.system, *date = prompts->options.date;
    struct ah_chat_message messages[3];
    size_t n = 0;
    if (system)
        messages[n++] = (struct ah_chat_message){AH_CHAT_SYSTEM, system, strlen(system)};
    messages[n++] = (struct ah_chat_message){AH_CHAT_USER, prompt, strlen(prompt)};
    if (answer)
        messages[n++] = (struct ah_chat_message){AH_CHAT_ASSISTANT, answer, strlen(answer)};
    const struct ah_chat_options options = {
        .date = ah_chat_has_date(prompts->chat->chat) ? date : NULL, .prompt = !answer, .spans = spans};
    return ah_chat_render(prompts->chat, messages, n, &options, out, err);
}

/* The assistant's turn ends with the first token after what it says. */
static int find_end_of_turn(struct ah_prompts *prompts, struct ah_error *err)
{
    static const char said[] = "Yes";
    struct ah_buffer text = {0};
    struct ah_text_ids ids = {0};
    struct ah_chat_span spans[3];
    int rc = render(prompts, "Well?", said, spans, &text, err);
    if (!rc) {
        const struct ah_chat_span *answer = &spans[prompts->options.system ? 2 : 1];
        const char *begin = text.data + answer->begin, *at = strstr(begin, said);
        const size_t end = at ? (size_t)(at - text.data) + strlen(said) : answer->end;
        if (end < answer->end)
            rc = ah_text_encode(prompts->tokenizer, text.data + end, answer->end - end, &ids, err);
    }
    if (!rc && ids.n)
        add_stop(prompts, ids.items[0]);
    ah_text_ids_release(&ids);
    ah_buffer_release(&text);
    return rc;
}

static bool has_template(const char *folder)
{
    char path[PATH_MAX];
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    bool has = !access(path, F_OK);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (!has && !access(path, F_OK) && !ah_file_read(path, CONFIG_BYTES_MAX, &text, &err))
        has = strstr(text.data, "\"chat_template\"");
    ah_buffer_release(&text);
    return has;
}

static int open_chat(struct ah_prompts *prompts, struct ah_error *err)
{
    const struct ah_prompts_options *options = &prompts->options;
    const bool has = has_template(options->folder);
    if (options->system && (options->raw || !has))
        return ah_error_set(err, AH_E_USAGE, "'--system' needs the chat template, which %s%s",
                            options->raw ? "'--raw' leaves out" : options->folder,
                            options->raw ? "" : " lacks");
    if (options->raw || !has)
        return AH_OK;
    const int rc = ah_chat_open(&prompts->chat, options->folder, err);
    if (rc == AH_E_UNSUPPORTED && options->any_template)
        return AH_OK;
    if (rc == AH_E_UNSUPPORTED) {
        struct ah_error why = *err;
        return ah_error_set(err, rc, "%s; or continue prompts as they are, with '--raw'", why.text);
    }
    return rc ? rc : find_end_of_turn(prompts, err);
}

int ah_prompts_open(struct ah_prompts *ret_prompts, const struct ah_prompts_options *options,
                    struct ah_error *err)
{
    *ret_prompts = (struct ah_prompts){.options = *options};
    int rc = ah_text_tokenizer_open(&ret_prompts->tokenizer, options->folder, err);
    rc = rc ? rc : open_chat(ret_prompts, err);
    rc = rc ? rc : read_config(ret_prompts, "generation_config.json", err);
    if (!rc && ret_prompts->n_stops == (ret_prompts->chat ? 1 : 0))
        rc = read_config(ret_prompts, "config.json", err);
    if (rc)
        ah_prompts_close(ret_prompts);
    return rc;
}

void ah_prompts_close(struct ah_prompts *prompts)
{
    ah_chat_close(prompts->chat);
    ah_text_tokenizer_close(prompts->tokenizer);
    *prompts = (struct ah_prompts){0};
}

int ah_prompts_encode(const struct ah_prompts *prompts, const char *prompt, struct ah_text_ids *ids,
                      struct ah_error *err)
{
    struct ah_buffer text = {0};
    struct ah_chat_span spans[3];
    const uint32_t first = ah_text_tokenizer_first(prompts->tokenizer);
    if (!prompts->chat && first != UINT32_MAX && !ah_text_ids_add(ids, first))
        return ah_error_memory(err);
    if (!prompts->chat)
        return ah_text_encode(prompts->tokenizer, prompt, strlen(prompt), ids, err);
    int rc = render(prompts, prompt, NULL, spans, &text, err);
    rc = rc ? rc : ah_text_encode(prompts->tokenizer, text.data, text.size, ids, err);
    ah_buffer_release(&text);
    return rc;
}

bool ah_prompts_stops(const struct ah_prompts *prompts, uint32_t token)
{
    for (size_t i = 0; i < prompts->n_stops; i++)
        if (prompts->stops[i] == token)
            return true;
    return false;
}
