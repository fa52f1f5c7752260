/* SPDX-License-Identifier: Apache-2.0
 *
 * Known templates, and the steps of rendering.
 *
 *     chat.c            a template's text or name -> the template; the table of all
 *     chat_open.c       a model's folder -> template and special tokens
 *     chat_templates.c  messages -> text, a function for each family of templates
 */
#ifndef AH_RUNTIME_TEXT_CHAT_INTERNAL_H
#define AH_RUNTIME_TEXT_CHAT_INTERNAL_H

#include "base/arena.h"
#include "runtime/text/chat.h"

/* A conversation being rendered. */
struct ah_chat_rendering {
    const struct ah_chat_model *model;
    const struct ah_chat_message *messages;
    size_t n; /* at least 1 */
    const struct ah_chat_options *options;
    struct ah_buffer *out;
    struct ah_error *err;
};

typedef int ah_chat_writer(const struct ah_chat_rendering *rendering);

enum { AH_CHAT_DIGESTS_MAX = 2, AH_CHAT_ROLES = 3 };

/* A known template. */
struct ah_chat {
    const char *name;
    /* SHA-256 of the texts that are rendered alike, each without one line feed at its end. Jinja drops that line feed,
     * and copies of a template differ in it. */
    const char *digests[AH_CHAT_DIGESTS_MAX];
    ah_chat_writer *write;
    bool needs_bos, needs_eos; /* writes the token */
    bool has_date;

    /* What the family's function writes. */
    const char *system;              /* without a system message; NULL: nothing */
    const char *head[AH_CHAT_ROLES]; /* before a message, by role */
    const char *tail;                /* after a message */
    const char *prompt;              /* before an answer */
    bool trims;                      /* messages, at both ends */
    bool turns_end_in_eos;           /* before the tail */
    bool ends_in_eos;                /* a conversation without prompt */
    bool skips_empty_system;
    bool takes_system;      /* alternating: a first system message is not refused */
    bool system_comes_last; /* inst: it stands in the last message, not in the first */

    /* Where the template's text has a long passage that it writes. It is read there: this program has no copy. */
    size_t passage_at, passage_size; /* in bytes; no size: there is none */
};

/* Returns the template with this name; NULL if there is none. */
const struct ah_chat *ah_chat_named(const char *name);

/* ---- chat_open.c ---- */

/* What a model's folder says. Its texts are in `arena`; NULL: it does not say. */
struct ah_chat_folder {
    struct ah_arena arena;
    const char *template_text, *template_path;
    size_t template_size;
    const char *bos, *eos;
};

/* Reads the folder. The errors of ah_chat_open(); release it in either case. */
int ah_chat_folder_read(struct ah_chat_folder *folder, const char *path, struct ah_error *err);
void ah_chat_folder_release(struct ah_chat_folder *folder);

/* Makes the model of a folder with this template. */
int ah_chat_model_new(struct ah_chat_model **ret_model, const struct ah_chat *chat,
                      const struct ah_chat_folder *folder, const char *path, struct ah_error *err);

/* ---- chat_templates.c ---- */

ah_chat_writer ah_chat_write_turns, ah_chat_write_dated, ah_chat_write_thinking, ah_chat_write_alternating,
    ah_chat_write_inst, ah_chat_write_joined, ah_chat_write_modes;

#endif
