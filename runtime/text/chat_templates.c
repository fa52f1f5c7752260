/* SPDX-License-Identifier: Apache-2.0
 *
 * What each family of templates writes. White space at the ends of a text is what str.strip() of Python takes away:
 * Jinja's filter 'trim' calls it.
 */
#include "runtime/text/chat_internal.h"
#include "runtime/text/text_internal.h"

#include <string.h>

/* ---- texts ---- */

/* Returns the bytes of the white space that the text begins with; 0 if it begins with something else. */
static size_t space_at(const char *at, size_t size)
{
    const unsigned char *byte = (const unsigned char *)at;
    if (size >= 1 && ((byte[0] >= 0x09 && byte[0] <= 0x0D) || (byte[0] >= 0x1C && byte[0] <= 0x20)))
        return 1;
    if (size >= 2 && byte[0] == 0xC2 && (byte[1] == 0x85 || byte[1] == 0xA0))
        return 2;
    if (size < 3 || (byte[1] & 0xC0) != 0x80 || (byte[2] & 0xC0) != 0x80 || (byte[0] & 0xF0) != 0xE0)
        return 0;
    const unsigned letter = (byte[0] & 0x0Fu) << 12 | (byte[1] & 0x3Fu) << 6 | (byte[2] & 0x3Fu);
    const bool space = letter == 0x1680 || (letter >= 0x2000 && letter <= 0x200A) || letter == 0x2028 ||
                       letter == 0x2029 || letter == 0x202F || letter == 0x205F || letter == 0x3000;
    return space ? 3 : 0;
}

/* Returns the bytes of the white space that the text ends with. */
static size_t space_before_end(struct ah_text_piece text)
{
    for (size_t n = 1; n <= 3 && n <= text.size; n++)
        if (space_at(text.at + text.size - n, n) == n)
            return n;
    return 0;
}

static struct ah_text_piece strip_right(struct ah_text_piece text)
{
    size_t n;
    while ((n = space_before_end(text)) != 0)
        text.size -= n;
    return text;
}

static struct ah_text_piece strip(struct ah_text_piece text)
{
    size_t n;
    while ((n = space_at(text.at, text.size)) != 0)
        text = (struct ah_text_piece){text.at + n, text.size - n};
    return strip_right(text);
}

static struct ah_text_piece strip_feeds_left(struct ah_text_piece text)
{
    while (text.size && *text.at == '\n')
        text = (struct ah_text_piece){text.at + 1, text.size - 1};
    return text;
}

static struct ah_text_piece strip_feeds_right(struct ah_text_piece text)
{
    while (text.size && text.at[text.size - 1] == '\n')
        text.size--;
    return text;
}

static bool begins_with(struct ah_text_piece text, const char *with)
{
    const size_t size = strlen(with);
    return text.size >= size && !memcmp(text.at, with, size);
}

static bool ends_with(struct ah_text_piece text, const char *with)
{
    const size_t size = strlen(with);
    return text.size >= size && !memcmp(text.at + text.size - size, with, size);
}

/* Returns what stands before the first `mark`: all if there is none. */
static struct ah_text_piece before_first(struct ah_text_piece text, const char *mark)
{
    const char *found = text.size ? memmem(text.at, text.size, mark, strlen(mark)) : NULL;
    return (struct ah_text_piece){text.at, found ? (size_t)(found - text.at) : text.size};
}

/* Returns what stands after the last `mark`: all if there is none. */
static struct ah_text_piece after_last(struct ah_text_piece text, const char *mark)
{
    for (;;) {
        const size_t before = before_first(text, mark).size;
        if (before == text.size)
            return text;
        const size_t end = before + strlen(mark);
        text = (struct ah_text_piece){text.at + end, text.size - end};
    }
}

static bool contains(struct ah_text_piece text, const char *mark)
{
    return before_first(text, mark).size < text.size;
}

/* Appends the text without any `mark`. */
static void put_without(struct ah_buffer *out, struct ah_text_piece text, const char *mark)
{
    for (;;) {
        const size_t before = before_first(text, mark).size;
        ah_buffer_append(out, text.at, before);
        if (before == text.size)
            return;
        const size_t end = before + strlen(mark);
        text = (struct ah_text_piece){text.at + end, text.size - end};
    }
}

/* ---- messages ---- */

static int refuse(const struct ah_chat_rendering *rendering, const char *what)
{
    return ah_error_set(rendering->err, AH_E_UNSUPPORTED, "the chat template '%s' refuses a conversation: %s",
                        rendering->model->chat->name, what);
}

static struct ah_text_piece text_of(const struct ah_chat_message *message)
{
    return (struct ah_text_piece){message->size ? message->text : "", message->size};
}

static void put(const struct ah_chat_rendering *rendering, const char *text)
{
    ah_buffer_puts(rendering->out, text ? text : "");
}

static void put_piece(const struct ah_chat_rendering *rendering, struct ah_text_piece text)
{
    ah_buffer_append(rendering->out, text.at, text.size);
}

/* Notes that message `i` stands between `begin` and the end of the output. */
static void keep_span(const struct ah_chat_rendering *rendering, size_t i, size_t begin)
{
    if (rendering->options->spans)
        rendering->options->spans[i] = (struct ah_chat_span){begin, rendering->out->size};
}

/* Puts a text between the head of its role and the tail. Returns where the text begins. */
static size_t put_text(const struct ah_chat_rendering *rendering, enum ah_chat_role role,
                       struct ah_text_piece text)
{
    const struct ah_chat *chat = rendering->model->chat;
    put(rendering, chat->head[role]);
    const size_t begin = rendering->out->size;
    put_piece(rendering, chat->trims ? strip(text) : text);
    if (chat->turns_end_in_eos)
        put(rendering, rendering->model->eos);
    put(rendering, chat->tail);
    return begin;
}

static void put_turn(const struct ah_chat_rendering *rendering, size_t i)
{
    const struct ah_chat_message *message = &rendering->messages[i];
    keep_span(rendering, i, put_text(rendering, message->role, text_of(message)));
}

static void put_begin(const struct ah_chat_rendering *rendering)
{
    if (rendering->model->chat->needs_bos)
        put(rendering, rendering->model->bos);
}

static void put_end(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    if (rendering->options->prompt)
        put(rendering, chat->prompt);
    else if (chat->ends_in_eos)
        put(rendering, rendering->model->eos);
}

/* Returns 1 if the first message is the system's, else 0: the first of the other messages. */
static size_t after_system(const struct ah_chat_rendering *rendering)
{
    return rendering->messages[0].role == AH_CHAT_SYSTEM;
}

/* ---- families ---- */

/* Each message alike, in any order. */
int ah_chat_write_turns(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    put_begin(rendering);
    if (chat->system && !after_system(rendering))
        put_text(rendering, AH_CHAT_SYSTEM, (struct ah_text_piece){chat->system, strlen(chat->system)});
    for (size_t i = 0; i < rendering->n; i++) {
        const struct ah_chat_message *message = &rendering->messages[i];
        if (message->role != AH_CHAT_SYSTEM || message->size || !chat->skips_empty_system)
            put_turn(rendering, i);
    }
    put_end(rendering);
    return AH_OK;
}

/* Llama 3.1 and 3.2: a system message always, with dates. */
int ah_chat_write_dated(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    const char *date = rendering->options->date;
    const size_t first = after_system(rendering);
    put_begin(rendering);
    put(rendering, chat->head[AH_CHAT_SYSTEM]);
    put(rendering, "Cutting Knowledge Date: December 2023\nToday Date: ");
    put(rendering, date ? date : "26 Jul 2024");
    put(rendering, "\n\n");
    const size_t begin = rendering->out->size;
    if (first)
        put_piece(rendering, strip(text_of(&rendering->messages[0])));
    put(rendering, chat->tail);
    if (first)
        keep_span(rendering, 0, begin);
    for (size_t i = first; i < rendering->n; i++)
        put_turn(rendering, i);
    put_end(rendering);
    return AH_OK;
}

/* Returns the place of the last message of the user that is not the result of a tool; the last message's if there is
 * none. */
static size_t last_query(const struct ah_chat_rendering *rendering)
{
    for (size_t i = rendering->n; i-- > 0;) {
        const struct ah_text_piece text = text_of(&rendering->messages[i]);
        if (rendering->messages[i].role == AH_CHAT_USER &&
            !(begins_with(text, "<tool_response>") && ends_with(text, "</tool_response>")))
            return i;
    }
    return rendering->n - 1;
}

/* Puts an answer of Qwen3. Reasoning stands before the first "</think>"; what is said, after the last. An answer after
 * the last question keeps its reasoning, and the last message gets the marks of reasoning even without any. */
static void put_answer(const struct ah_chat_rendering *rendering, size_t i, bool asked)
{
    const struct ah_chat *chat = rendering->model->chat;
    const bool last = i + 1 == rendering->n;
    struct ah_text_piece text = text_of(&rendering->messages[i]);
    struct ah_text_piece reasoning = {"", 0};
    const struct ah_text_piece before = before_first(text, "</think>");
    if (before.size < text.size) {
        reasoning = strip_feeds_left(after_last(strip_feeds_right(before), "<think>"));
        text = strip_feeds_left(after_last(text, "</think>"));
    }
    put(rendering, chat->head[AH_CHAT_ASSISTANT]);
    const size_t begin = rendering->out->size;
    if (asked && (last || reasoning.size)) {
        put(rendering, "<think>\n");
        put_piece(rendering, strip_feeds_right(reasoning));
        put(rendering, "\n</think>\n\n");
        text = strip_feeds_left(text);
    }
    put_piece(rendering, text);
    put(rendering, chat->tail);
    keep_span(rendering, i, begin);
}

/* Qwen3: answers with reasoning. */
int ah_chat_write_thinking(const struct ah_chat_rendering *rendering)
{
    const size_t query = last_query(rendering);
    for (size_t i = 0; i < rendering->n; i++) {
        if (rendering->messages[i].role == AH_CHAT_ASSISTANT)
            put_answer(rendering, i, i > query);
        else
            put_turn(rendering, i);
    }
    put_end(rendering);
    return AH_OK;
}

/* Gemma: users speak at even places, others at odd ones. A first system message is refused, or put before what the
 * user says first. */
int ah_chat_write_alternating(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    const size_t first = after_system(rendering);
    if (first && !chat->takes_system)
        return refuse(rendering, "it has no system messages");
    put_begin(rendering);
    for (size_t i = first; i < rendering->n; i++) {
        const struct ah_chat_message *message = &rendering->messages[i];
        if ((message->role == AH_CHAT_USER) != ((i - first) % 2 == 0))
            return refuse(rendering, "roles must alternate, user and assistant");
        put(rendering, chat->head[message->role]);
        const size_t begin = rendering->out->size;
        if (first && i == first) {
            put_piece(rendering, text_of(&rendering->messages[0]));
            put(rendering, "\n\n");
        }
        put_piece(rendering, strip(text_of(message)));
        put(rendering, chat->tail);
        keep_span(rendering, i, begin);
    }
    put_end(rendering);
    return AH_OK;
}

/* Returns whether the system's message stands in message `i`, which is the user's. */
static bool has_system(const struct ah_chat_rendering *rendering, size_t i)
{
    return after_system(rendering) &&
           (rendering->model->chat->system_comes_last ? i + 1 == rendering->n : i == 1);
}

/* Mistral: users speak at even places, others at odd ones. The system's message stands in the first or the last message
 * of the conversation; if that is not the user's, it is left out. There is no prompt, so an answer begins right after
 * the tail of the user's message. */
int ah_chat_write_inst(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    const size_t first = after_system(rendering);
    put_begin(rendering);
    for (size_t i = first; i < rendering->n; i++) {
        const struct ah_chat_message *message = &rendering->messages[i];
        const bool user = message->role == AH_CHAT_USER;
        if (user != ((i - first) % 2 == 0))
            return refuse(rendering,
                          "roles must alternate, user and assistant, after a first system message");
        if (message->role == AH_CHAT_SYSTEM)
            return refuse(rendering, "only the first message may be the system's");
        put(rendering, user ? chat->head[AH_CHAT_USER] : "");
        const size_t begin = rendering->out->size;
        put(rendering, user ? "" : chat->head[AH_CHAT_ASSISTANT]);
        if (user && has_system(rendering, i)) {
            put_piece(rendering, text_of(&rendering->messages[0]));
            put(rendering, "\n\n");
        }
        put_piece(rendering, chat->trims && !user ? strip(text_of(message)) : text_of(message));
        put(rendering, user ? chat->tail : rendering->model->eos);
        keep_span(rendering, i, begin);
    }
    return AH_OK;
}

/* OLMo 2: an answer ends in the end token. The line feed after it stands only before another message, so it is no part
 * of the answer. */
int ah_chat_write_joined(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    put_begin(rendering);
    for (size_t i = 0; i < rendering->n; i++) {
        if (rendering->messages[i].role != AH_CHAT_ASSISTANT) {
            put_turn(rendering, i);
            continue;
        }
        put(rendering, chat->head[AH_CHAT_ASSISTANT]);
        const size_t begin = rendering->out->size;
        put_piece(rendering, text_of(&rendering->messages[i]));
        put(rendering, rendering->model->eos);
        keep_span(rendering, i, begin);
        put(rendering, i + 1 < rendering->n ? chat->tail : "");
    }
    put_end(rendering);
    return AH_OK;
}

/* Puts a date in the form of strftime("%d %b %Y") with the month in full; any other text as it is. */
static void put_long_date(const struct ah_chat_rendering *rendering, const char *date)
{
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const char *full = NULL;
    if (strlen(date) > 7 && date[2] == ' ' && date[6] == ' ')
        for (size_t i = 0; i < sizeof months / sizeof *months; i++)
            if (!memcmp(date + 3, months[i], 3))
                full = months[i];
    put_piece(rendering, (struct ah_text_piece){date, full ? 3 : strlen(date)});
    put(rendering, full);
    put(rendering, full ? date + 6 : "");
}

/* Puts the system's turn of SmolLM 3: metadata, and instructions, which are the system's message without the words that
 * choose the mode. If it says "/system_override", it is all there is. Only then the turn has an end. */
static void put_instructions(const struct ah_chat_rendering *rendering, struct ah_text_piece message,
                             bool thinks)
{
    const struct ah_chat_model *model = rendering->model;
    const bool overrides = contains(message, "/system_override");
    struct ah_buffer left[3] = {{0}, {0}, {0}};
    put_without(&left[0], message, "/no_think");
    put_without(&left[1], (struct ah_text_piece){left[0].data, left[0].size}, "/think");
    struct ah_text_piece says = strip_right((struct ah_text_piece){left[1].data, left[1].size});
    put(rendering, model->chat->head[AH_CHAT_SYSTEM]);
    if (overrides) {
        put_without(&left[2], says, "/system_override");
        says = strip_right((struct ah_text_piece){left[2].data, left[2].size});
    } else {
        put(rendering, "## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: ");
        put_long_date(rendering, rendering->options->date);
        put(rendering, thinks ? "\nReasoning Mode: /think" : "\nReasoning Mode: /no_think");
        put(rendering, "\n\n## Custom Instructions\n\n");
    }
    const size_t begin = rendering->out->size;
    put_piece(rendering, says);
    if (!overrides && !says.size)
        put(rendering, thinks ? model->passage : model->chat->system);
    put(rendering, overrides ? model->chat->tail : "\n\n");
    if (says.size)
        keep_span(rendering, 0, begin);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        rendering->out->failed |= left[i].failed;
        ah_buffer_release(&left[i]);
    }
}

/* SmolLM 3: answers with reasoning, or, if the system's message says "/no_think", without. Only a first message of the
 * system is written. */
int ah_chat_write_modes(const struct ah_chat_rendering *rendering)
{
    const struct ah_chat *chat = rendering->model->chat;
    const struct ah_text_piece none = {"", 0};
    const struct ah_text_piece message = after_system(rendering) ? text_of(&rendering->messages[0]) : none;
    const bool thinks = !contains(message, "/no_think");
    const char *reasoning = thinks ? "" : "<think>\n\n</think>\n";
    if (!rendering->options->date)
        return refuse(rendering, "it writes the day, and none is given (--date)");
    put_instructions(rendering, message, thinks);
    for (size_t i = 0; i < rendering->n; i++) {
        if (rendering->messages[i].role == AH_CHAT_USER)
            put_turn(rendering, i);
        if (rendering->messages[i].role != AH_CHAT_ASSISTANT)
            continue;
        put(rendering, chat->head[AH_CHAT_ASSISTANT]);
        put(rendering, reasoning);
        const size_t begin = rendering->out->size;
        put_piece(rendering, strip_feeds_left(text_of(&rendering->messages[i])));
        put(rendering, chat->tail);
        keep_span(rendering, i, begin);
    }
    if (rendering->options->prompt) {
        put(rendering, chat->head[AH_CHAT_ASSISTANT]);
        put(rendering, reasoning);
    }
    return AH_OK;
}
