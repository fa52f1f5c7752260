/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts: what `sample` gives a model to read, and where it stops.
 *
 * With a known chat template, a prompt is what the user says, and the text ends where the assistant's answer begins.
 * Otherwise the prompt is the beginning of the text.
 *
 *     rc = ah_prompts_open(&prompts, &options, err);
 *     rc = ah_prompts_encode(&prompts, "Hello", &ids, err);
 *     if (ah_prompts_stops(&prompts, token)) ...
 *     ah_prompts_close(&prompts);
 */
#ifndef AH_CLI_SAMPLE_PROMPTS_H
#define AH_CLI_SAMPLE_PROMPTS_H

#include "base/error.h"
#include "runtime/text/chat.h"
#include "runtime/text/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { AH_PROMPTS_STOPS_MAX = 64 };

struct ah_prompts_options {
    const char *folder; /* the model's */
    const char *system; /* (optional) what the system says first */
    const char *date;   /* for templates that write the day */
    bool raw;           /* no chat template */
    bool any_template;  /* an unknown one is no error; prompts are then beginnings of texts */
};

struct ah_prompts {
    struct ah_prompts_options options;
    struct ah_text_tokenizer *tokenizer;
    struct ah_chat_model *chat; /* NULL: prompts are beginnings of texts */
    uint32_t stops[AH_PROMPTS_STOPS_MAX];
    size_t n_stops;
};

/* Reads the tokenizer, the chat template, and the tokens that end a text: the end of an assistant's turn, and
 * 'eos_token_id' of generation_config.json, else of config.json. AH_E_UNSUPPORTED: an unknown template; the text says
 * what to do. AH_E_USAGE: `system` without a template. Errors of ah_text_tokenizer_open(). */
int ah_prompts_open(struct ah_prompts *ret_prompts, const struct ah_prompts_options *options,
                    struct ah_error *err);
void ah_prompts_close(struct ah_prompts *prompts);

/* Appends the tokens of the whole text that the prompt begins. Without a chat template, the tokenizer's special token
 * comes first, if it puts one before a text. */
int ah_prompts_encode(const struct ah_prompts *prompts, const char *prompt, struct ah_text_ids *ids,
                      struct ah_error *err);

bool ah_prompts_stops(const struct ah_prompts *prompts, uint32_t token);

#endif
