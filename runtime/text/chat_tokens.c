/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation becomes one text, and one document. Learned is what the assistant says, with the end of its turn.
 *
 * Some templates write an answer, or what is before it, differently inside a conversation than where a model answers:
 * they drop its reasoning, or leave out the system's message. Then each answer has a document of its own: the prompt
 * that the template makes for it, and the answer.
 *
 * Tokens must not cross the beginning or the end of an answer, because a model begins to answer after whole tokens. If
 * one does, the parts are encoded apart where that is the same as encoding a prompt and what follows it.
 */
#include "runtime/text/text_internal.h"
#include "runtime/text/token_files_internal.h"

#include <stdlib.h>
#include <string.h>

/* A conversation as text, or its beginning. */
struct rendered {
    struct ah_buffer text;
    struct ah_chat_span *spans; /* (messages) owned */
    size_t n;
};

struct chatting {
    const struct ah_token_files_options *options;
    const struct ah_chat_message *messages;
    size_t n, last; /* messages; the last answer */
    struct ah_made_tokens *made;
    struct ah_chat_counts *counts;
    struct ah_error *err;
};

int ah_made_tokens_add(const struct ah_text_tokenizer *tokenizer, const char *text, size_t size, bool learned,
                       struct ah_made_tokens *made, struct ah_error *err)
{
    const size_t had = made->ids.n;
    const int rc = ah_text_encode(tokenizer, text, size, &made->ids, err);
    const size_t n = made->ids.n - had;
    if (rc)
        return rc;
    if (!ah_buffer_reserve(&made->learned, n))
        return ah_error_memory(err);
    if (n)
        memset(made->learned.data + had, learned, n);
    made->learned.size += n;
    return AH_OK;
}

int ah_made_tokens_end(struct ah_made_tokens *made, struct ah_error *err)
{
    if (made->ids.n > UINT32_MAX)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "has %zu tokens, more than a document may have; split it into several",
                            made->ids.n);
    return ah_text_ids_add(&made->ends, (uint32_t)made->ids.n) ? AH_OK : ah_error_memory(err);
}

static void release(struct rendered *rendered)
{
    ah_buffer_release(&rendered->text);
    free(rendered->spans);
}

/* Writes the first `n` messages, and with `prompt` the beginning of an answer. */
static int render(const struct chatting *chatting, size_t n, bool prompt, struct rendered *ret)
{
    *ret = (struct rendered){.spans = calloc(n + 1, sizeof *ret->spans), .n = n};
    if (!ret->spans)
        return ah_error_memory(chatting->err);
    const struct ah_chat_options options = {
        .date = chatting->options->date, .prompt = prompt, .spans = ret->spans};
    return ah_chat_render(chatting->options->chat, chatting->messages, n, &options, &ret->text,
                          chatting->err);
}

static bool is_answer(const struct chatting *chatting, size_t i)
{
    return chatting->messages[i].role == AH_CHAT_ASSISTANT;
}

/* True for an answer that is learned in a document whose only learned one is `only`; SIZE_MAX: any may be. */
static bool is_learned(const struct chatting *chatting, size_t i, size_t only)
{
    const bool last = chatting->options->loss == AH_CHAT_LOSS_LAST;
    return is_answer(chatting, i) && (only == SIZE_MAX || i == only) && (!last || i == chatting->last);
}

static void forget(struct ah_made_tokens *made, size_t n)
{
    made->ids.n = made->learned.size = n;
}

/* Encodes the parts between the borders of learned answers one after another. */
static int encode_parts(struct chatting *chatting, const struct rendered *rendered, size_t only)
{
    const struct ah_text_tokenizer *tokenizer = chatting->options->tokenizer;
    const char *text = rendered->text.data;
    size_t at = 0;
    int rc = AH_OK;
    for (size_t i = 0; i < rendered->n && !rc; i++) {
        const struct ah_chat_span *span = &rendered->spans[i];
        if (!is_learned(chatting, i, only) || span->begin == span->end)
            continue;
        rc = ah_made_tokens_add(tokenizer, text + at, span->begin - at, false, chatting->made, chatting->err);
        rc = rc ? rc
                : ah_made_tokens_add(tokenizer, text + span->begin, span->end - span->begin, true,
                                     chatting->made, chatting->err);
        at = span->end;
    }
    return rc ? rc
              : ah_made_tokens_add(tokenizer, text + at, rendered->text.size - at, false, chatting->made,
                                   chatting->err);
}

/* Returns how many tokens the first `size` bytes have; SIZE_MAX if they are no beginning of the whole text's. */
static int count_tokens(const struct chatting *chatting, const struct rendered *rendered, size_t size,
                        const uint32_t *ids, size_t n, size_t *ret_n)
{
    struct ah_text_ids begin = {0};
    const int rc =
        ah_text_encode(chatting->options->tokenizer, rendered->text.data, size, &begin, chatting->err);
    const bool same = begin.n <= n && (!begin.n || !memcmp(begin.items, ids, begin.n * sizeof *ids));
    *ret_n = same ? begin.n : SIZE_MAX;
    ah_text_ids_release(&begin);
    return rc;
}

/* Marks the learned tokens of the whole text's, where the parts have others. */
static int mark_whole(struct chatting *chatting, const struct rendered *rendered, size_t only, size_t had)
{
    struct ah_made_tokens *made = chatting->made;
    for (size_t i = 0; i < rendered->n; i++) {
        size_t begin, end;
        if (!is_learned(chatting, i, only))
            continue;
        const uint32_t *ids = made->ids.items + had;
        const size_t n = made->ids.n - had;
        int rc = count_tokens(chatting, rendered, rendered->spans[i].begin, ids, n, &begin);
        rc = rc ? rc : count_tokens(chatting, rendered, rendered->spans[i].end, ids, n, &end);
        if (rc)
            return rc;
        if (begin == SIZE_MAX || end == SIZE_MAX || begin > end)
            return ah_error_set(
                chatting->err, AH_E_UNSUPPORTED,
                "an answer begins or ends within a token, so it is not known which tokens are the "
                "assistant's; write the record as prompt and completion");
        memset(made->learned.data + had + begin, 1, end - begin);
    }
    return AH_OK;
}

/* Appends a document. */
static int add_document(struct chatting *chatting, const struct rendered *rendered, size_t only)
{
    const struct ah_token_files_options *options = chatting->options;
    struct ah_made_tokens *made = chatting->made;
    const size_t had = made->ids.n;
    struct ah_text_ids whole = {0};
    int rc = encode_parts(chatting, rendered, only);
    rc = rc ? rc
            : ah_text_encode(options->tokenizer, rendered->text.data, rendered->text.size, &whole,
                             chatting->err);
    const bool same =
        !rc && whole.n == made->ids.n - had &&
        (!whole.n || !memcmp(whole.items, made->ids.items + had, whole.n * sizeof *whole.items));
    if (!rc && !same && !options->tokenizer->on_bytes) {
        forget(made, had);
        rc = ah_made_tokens_add(options->tokenizer, rendered->text.data, rendered->text.size, false, made,
                                chatting->err);
        rc = rc ? rc : mark_whole(chatting, rendered, only, had);
    } else if (!rc) {
        chatting->counts->apart += !same;
    }
    ah_text_ids_release(&whole);
    return rc ? rc : ah_made_tokens_end(made, chatting->err);
}

static bool begins_with(const struct ah_buffer *whole, const struct ah_buffer *begin, size_t size)
{
    return size <= whole->size && size <= begin->size && (!size || !memcmp(begin->data, whole->data, size));
}

/* Writes an answer's prompt and the answer as it is when it is the last message. An answer without messages before it
 * has no prompt. */
static int render_answer(const struct chatting *chatting, size_t i, struct rendered *ret_prompt,
                         struct rendered *ret_answer)
{
    *ret_prompt = *ret_answer = (struct rendered){0};
    const int rc = i ? render(chatting, i, true, ret_prompt) : AH_OK;
    return rc ? rc : render(chatting, i + 1, false, ret_answer);
}

/* Sets `ret_same` to whether the whole text has each learned answer, and all before it, as when the model answers. */
static int compare(const struct chatting *chatting, const struct rendered *whole, bool *ret_same)
{
    int rc = AH_OK;
    *ret_same = true;
    for (size_t i = 0; i < chatting->n && *ret_same && !rc; i++) {
        struct rendered prompt, answer;
        if (!is_learned(chatting, i, SIZE_MAX))
            continue;
        rc = render_answer(chatting, i, &prompt, &answer);
        *ret_same = !rc && begins_with(&whole->text, &prompt.text, prompt.text.size) &&
                    begins_with(&whole->text, &answer.text, answer.spans[i].end) &&
                    (!i || whole->spans[i].begin == prompt.text.size);
        release(&prompt);
        release(&answer);
    }
    return rc;
}

/* Puts the answer behind its prompt, where the template leaves something out before it. */
static int join(const struct chatting *chatting, size_t i, const struct rendered *prompt,
                struct rendered *answer)
{
    const struct ah_chat_span span = answer->spans[i];
    if (!i || begins_with(&answer->text, &prompt->text, prompt->text.size))
        return AH_OK;
    struct ah_buffer text = {0};
    ah_buffer_append(&text, prompt->text.data, prompt->text.size);
    ah_buffer_append(&text, answer->text.data + span.begin, span.end - span.begin);
    ah_buffer_release(&answer->text);
    answer->text = text;
    answer->spans[i] = (struct ah_chat_span){prompt->text.size, text.size};
    return text.failed ? ah_error_memory(chatting->err) : AH_OK;
}

/* Appends a document for each answer. */
static int split(struct chatting *chatting)
{
    int rc = AH_OK;
    for (size_t i = 0; i < chatting->n && !rc; i++) {
        struct rendered prompt, answer;
        if (!is_learned(chatting, i, SIZE_MAX))
            continue;
        rc = render_answer(chatting, i, &prompt, &answer);
        rc = rc ? rc : join(chatting, i, &prompt, &answer);
        rc = rc ? rc : add_document(chatting, &answer, i);
        release(&prompt);
        release(&answer);
    }
    chatting->counts->split++;
    return rc;
}

static void count_special(const struct chatting *chatting)
{
    for (size_t i = 0; i < chatting->n; i++) {
        const struct ah_text_piece text = {chatting->messages[i].text, chatting->messages[i].size};
        chatting->counts->special +=
            ah_text_added_find(chatting->options->tokenizer, text, 0, false).token != NULL;
    }
}

static int add_all(struct chatting *chatting, const struct rendered *whole)
{
    const int rc = ah_made_tokens_add(chatting->options->tokenizer, whole->text.data, whole->text.size, true,
                                      chatting->made, chatting->err);
    return rc ? rc : ah_made_tokens_end(chatting->made, chatting->err);
}

int ah_chat_tokens(const struct ah_token_files_options *options, const struct ah_chat_message *messages,
                   size_t n, struct ah_made_tokens *made, struct ah_chat_counts *counts, struct ah_error *err)
{
    struct chatting chatting = {
        .options = options, .messages = messages, .n = n, .made = made, .counts = counts, .err = err};
    struct rendered whole;
    bool same = true;
    for (size_t i = 0; i < n; i++)
        chatting.last = is_answer(&chatting, i) ? i : chatting.last;
    counts->conversations++;
    count_special(&chatting);
    int rc = render(&chatting, n, false, &whole);
    if (!rc && options->loss == AH_CHAT_LOSS_ALL) {
        rc = add_all(&chatting, &whole);
    } else {
        rc = rc ? rc : compare(&chatting, &whole, &same);
        rc = rc ? rc : same ? add_document(&chatting, &whole, SIZE_MAX) : split(&chatting);
    }
    release(&whole);
    return rc;
}
