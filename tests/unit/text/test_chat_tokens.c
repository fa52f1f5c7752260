/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which tokens and documents conversations become: one document with its answers learned, or a document for each
 * answer where the template writes it differently inside a conversation.
 */
#include "runtime/text/chat_internal.h"
#include "runtime/text/token_files_internal.h"

#include "tests/support/check.h"

#include <string.h>

struct chats {
    struct ah_text_tokenizer *tokenizer;
    struct ah_chat_model model;
    struct ah_token_files_options options;
    struct ah_made_tokens made;
    struct ah_chat_counts counts;
};

static void begin(struct chats *chats, const char *tokenizer, const char *template)
{
    char path[64];
    struct ah_error err = {0};
    static char bos[] = "<s>", eos[] = "</s>";
    *chats = (struct chats){.model = {ah_chat_named(template), bos, eos}};
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s", tokenizer);
    CHECK_OK(ah_text_tokenizer_open(&chats->tokenizer, path, &err), err);
    chats->options = (struct ah_token_files_options){.tokenizer = chats->tokenizer, .chat = &chats->model};
}

static void end(struct chats *chats)
{
    ah_text_ids_release(&chats->made.ids);
    ah_text_ids_release(&chats->made.ends);
    ah_buffer_release(&chats->made.learned);
    ah_text_tokenizer_close(chats->tokenizer);
}

/* Makes tokens of a conversation: "s", "u" and "a" in `roles`, and a text for each. */
static void make(struct chats *chats, const char *roles, const char *const *texts)
{
    struct ah_chat_message messages[8];
    struct ah_error err = {0};
    const size_t n = strlen(roles);
    for (size_t i = 0; i < n; i++) {
        const enum ah_chat_role role = roles[i] == 's'   ? AH_CHAT_SYSTEM
                                       : roles[i] == 'u' ? AH_CHAT_USER
                                                         : AH_CHAT_ASSISTANT;
        messages[i] = (struct ah_chat_message){role, texts[i], strlen(texts[i])};
    }
    CHECK_OK(ah_chat_tokens(&chats->options, messages, n, &chats->made, &chats->counts, &err), err);
}

/* Checks a document: the tokens of `parts`, NULL at their end, each encoded alone; every second one is learned. */
static void expect(const struct chats *chats, size_t document, const char *const *parts)
{
    struct ah_text_ids ids = {0};
    struct ah_error err = {0};
    const size_t from = document ? chats->made.ends.items[document - 1] : 0;
    const size_t to = chats->made.ends.items[document];
    for (size_t part = 0, at = from; parts[part]; part++) {
        CHECK_OK(ah_text_encode(chats->tokenizer, parts[part], strlen(parts[part]), &ids, &err), err);
        for (; at < from + ids.n; at++)
            if (at >= to || chats->made.learned.data[at] != (char)(part & 1))
                fail_msg("token %zu of part '%s' of document %zu is not %s", at - from, parts[part], document,
                         part & 1 ? "learned" : "masked");
    }
    assert_int_equal(ids.n, to - from);
    assert_memory_equal(ids.items, chats->made.ids.items + from, ids.n * sizeof *ids.items);
    ah_text_ids_release(&ids);
}

static const char *const turns[] = {"Hi", "Hello.", "Why?", "So."};

TEST(chat_tokens, are_one_document)
{
    struct chats chats;
    begin(&chats, "qwen2", "chatml");
    make(&chats, "uaua", turns);
    expect(&chats, 0,
           (const char *[]){"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "Hello.<|im_end|>\n",
                            "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n", "So.<|im_end|>\n",
                            NULL});
    chats.options.loss = AH_CHAT_LOSS_LAST;
    make(&chats, "uaua", turns);
    expect(&chats, 1,
           (const char *[]){
               "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n"
               "Why?<|im_end|>\n<|im_start|>assistant\n",
               "So.<|im_end|>\n", NULL});
    chats.options.loss = AH_CHAT_LOSS_ALL;
    make(&chats, "ua", turns);
    expect(&chats, 2,
           (const char *[]){"", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n",
                            NULL});
    assert_int_equal(chats.counts.conversations, 3);
    assert_int_equal(chats.counts.split + chats.counts.apart + chats.counts.special, 0);
    end(&chats);
}

/* Qwen3 drops the reasoning of earlier answers, so the first answer has a document in which it has its own. */
TEST(chat_tokens, are_a_document_for_each_answer_with_reasoning)
{
    const char *const texts[] = {"Hi", "<think>\nhm\n</think>\n\nHello.", "Why?", "So."};
    struct chats chats;
    begin(&chats, "qwen2", "qwen3");
    make(&chats, "uaua", texts);
    assert_int_equal(chats.counts.split, 1);
    assert_int_equal(chats.made.ends.n, 2);
    expect(&chats, 0,
           (const char *[]){"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
                            "<think>\nhm\n</think>\n\nHello.<|im_end|>\n", NULL});
    expect(&chats, 1,
           (const char *[]){"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
                            "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n",
                            "<think>\n\n</think>\n\nSo.<|im_end|>\n", NULL});
    end(&chats);
}

/* Mistral's template writes the system's message only where the model answers. It must not be lost. */
TEST(chat_tokens, keep_the_message_of_the_system)
{
    const char *const texts[] = {"Be brief.", "Hi", "Hello."};
    struct chats chats;
    begin(&chats, "qwen2", "mistral-nemo");
    make(&chats, "sua", texts);
    assert_int_equal(chats.counts.split, 1);
    expect(&chats, 0, (const char *[]){"<s>[INST]Be brief.\n\nHi[/INST]", "Hello.</s>", NULL});
    end(&chats);
}

/* "\n" and "\n" are one token, which would cross the beginning of the answer. */
TEST(chat_tokens, do_not_cross_the_beginning_of_an_answer)
{
    const char *const texts[] = {"Hi <|im_start|>", "\nHello."};
    struct chats chats;
    begin(&chats, "qwen2", "chatml");
    make(&chats, "ua", texts);
    assert_int_equal(chats.counts.apart, 1);
    assert_int_equal(chats.counts.special, 1);
    expect(&chats, 0,
           (const char *[]){"<|im_start|>user\nHi <|im_start|><|im_end|>\n<|im_start|>assistant\n",
                            "\nHello.<|im_end|>\n", NULL});
    end(&chats);
}

/* A tokenizer that puts a space before each text: its tokens are those of the whole text. */
TEST(chat_tokens, are_those_of_the_whole_text_on_letters)
{
    struct ah_text_ids whole = {0};
    struct ah_error err = {0};
    struct chats chats;
    const char text[] = "<|user|>\nHi</s>\n<|assistant|>\nHello.</s>\n";
    size_t learned = 0;
    begin(&chats, "llama2", "zephyr");
    make(&chats, "ua", turns);
    CHECK_OK(ah_text_encode(chats.tokenizer, text, strlen(text), &whole, &err), err);
    assert_int_equal(whole.n, chats.made.ids.n);
    assert_memory_equal(whole.items, chats.made.ids.items, whole.n * sizeof *whole.items);
    whole.n = 0;
    CHECK_OK(ah_text_encode(chats.tokenizer, text, strlen(text) - strlen("Hello.</s>\n"), &whole, &err), err);
    for (size_t i = 0; i < chats.made.ids.n; i++) {
        learned += chats.made.learned.data[i] == 1;
        assert_int_equal(chats.made.learned.data[i], i >= whole.n);
    }
    assert_int_equal(learned, chats.made.ids.n - whole.n);
    ah_text_ids_release(&whole);
    end(&chats);
}
