/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat: writes a conversation as the text that a model was taught to read.
 *
 *     rc = ah_chat_open(&model, "llama-3.2-1b-instruct", err);                   // a model's folder
 *     rc = ah_chat_render(model, messages, n, &(struct ah_chat_options){0}, &out, err);
 *     ah_chat_close(model);
 *
 * A model's folder says in Jinja how this is done. There is no Jinja here: known templates are written in C, and are
 * found by the SHA-256 of the model's text. The result has the bytes of apply_chat_template(messages, tokenize = False)
 * of transformers. Any other template is refused. Tools and tool calls have no place in a message.
 *
 * A template writes special tokens as text, so encode the result without adding any. A message may contain their names,
 * too; the caller decides whether that is allowed.
 *
 * To find the bytes that an assistant said, ask for `spans`. Do not compare the text of a conversation with that of its
 * beginning, because some templates change what they wrote when a conversation goes on. 'qwen3' drops the reasoning of
 * earlier answers. 'mistral-v3' and 'mistral-nemo' write the system message only if the last message is the user's, and
 * so never when the conversation ends with an answer.
 *
 * All functions may be called by several threads at once.
 */
#ifndef AH_RUNTIME_TEXT_CHAT_H
#define AH_RUNTIME_TEXT_CHAT_H

#include "base/buffer.h"
#include "base/error.h"
#include "runtime/text/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_chat_role { AH_CHAT_SYSTEM, AH_CHAT_USER, AH_CHAT_ASSISTANT };

struct ah_chat_message {
    enum ah_chat_role role;
    const char *text; /* borrowed; UTF-8, without a NUL at its end */
    size_t size;
};

struct ah_chat; /* a known template; constant, never freed */

/* A model's template, and what it writes: special tokens, and a passage of its text. */
struct ah_chat_model {
    const struct ah_chat *chat;
    char *bos, *eos; /* owned; NULL: the tokenizer has none */
    char *passage;   /* owned; NULL: the template has none */
};

/* Where a message stands in the text: what it says, and the end of its turn, but not the head with its role. So an
 * assistant's span is what a model has to write after the prompt. */
struct ah_chat_span {
    size_t begin, end; /* in bytes; equal for a message that has no turn of its own */
};

/* The zero value is the default of apply_chat_template(). */
struct ah_chat_options {
    /* What templates with a date write, in the form of strftime("%d %b %Y"). 'smollm3' writes the month in full, and
     * refuses NULL. For the others NULL is "26 Jul 2024", their own default.
     * transformers gives the day of the call to templates for which ah_chat_has_date() is true, so they need the same
     * date for the same bytes. For others give NULL, unless the user asked for a date (`date_string` there). */
    const char *date;
    bool prompt;                /* with the beginning of the assistant's answer: add_generation_prompt */
    struct ah_chat_span *spans; /* (messages); borrowed, filled unless NULL; undefined after a failure */
};

/* Finds the known template with this text. `path` is for messages. AH_E_UNSUPPORTED: none has it. */
int ah_chat_find(const struct ah_chat **ret_chat, const char *text, size_t size, const char *path,
                 struct ah_error *err);

/* Returns the template's name, which is for people. */
const char *ah_chat_name(const struct ah_chat *chat);

/* Returns whether the template writes the day on which it is rendered. */
bool ah_chat_has_date(const struct ah_chat *chat);

/* Reads the template of a model's folder: chat_template.jinja, else 'chat_template' of tokenizer_config.json. *Owned*
 * by the caller. AH_E_IO: a file cannot be read; AH_E_DOCUMENT: tokenizer_config.json breaks its format;
 * AH_E_UNSUPPORTED: there is no template, it is unknown, or it needs a special token that the folder does not name. */
int ah_chat_open(struct ah_chat_model **ret_model, const char *folder, struct ah_error *err);

/* Finds the token that ends a document, with or without a template: the 'eos_token' of tokenizer_config.json in the
 * folder, or beside the file, of the tokenizer. UINT32_MAX: it names none of the tokenizer's. The errors of
 * ah_chat_open(), but for AH_E_UNSUPPORTED. */
int ah_chat_end_token(uint32_t *ret_token, const struct ah_text_tokenizer *tokenizer, const char *path,
                      struct ah_error *err);
void ah_chat_close(struct ah_chat_model *model);

/* Appends the conversation to `out`, which is unchanged on failure. AH_E_UNSUPPORTED: there are no messages, or the
 * template refuses them, for example because roles do not alternate. AH_E_MEMORY. */
int ah_chat_render(const struct ah_chat_model *model, const struct ah_chat_message *messages, size_t n,
                   const struct ah_chat_options *options, struct ah_buffer *out, struct ah_error *err);

#endif
