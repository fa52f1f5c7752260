/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that conversations have the bytes that transformers renders (tests/tools/oracle_chats.py makes the cases), and
 * that anything else is refused by name. No test has a real template: their texts are not in this repository.
 */
#include "runtime/text/chat_internal.h"

#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/json.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES_MAX = 8 };

static char bos[] = "<bos>", eos[] = "<eos>", passage[] = "<passage>";

static struct ah_chat_model model_of(const char *name)
{
    const struct ah_chat_model model = {ah_chat_named(name), bos, eos, passage};
    if (!model.chat)
        fail_msg("there is no template '%s'", name);
    return model;
}

/* A conversation of letters for roles, and what it should become. */
struct conversation {
    const char *roles, *date, *result;
    const char *texts[MESSAGES_MAX];
    bool prompt;
};

static size_t messages_of(const struct conversation *conversation, struct ah_chat_message *messages)
{
    static const char letters[] = "sua";
    const size_t n = strlen(conversation->roles);
    for (size_t i = 0; i < n; i++)
        messages[i] =
            (struct ah_chat_message){(enum ah_chat_role)(strchr(letters, conversation->roles[i]) - letters),
                                     conversation->texts[i], strlen(conversation->texts[i])};
    return n;
}

/* Checks that spans follow each other, and that an assistant's follows the beginning of an answer. */
static void check_spans(const struct ah_chat_message *messages, const struct ah_chat_span *spans, size_t n,
                        const struct ah_buffer *out, const char *prompt)
{
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].begin == spans[i].end)
            continue;
        assert_true(spans[i].begin >= end && spans[i].begin < spans[i].end && spans[i].end <= out->size);
        end = spans[i].end;
        if (messages[i].role == AH_CHAT_ASSISTANT && prompt) {
            assert_true(spans[i].begin >= strlen(prompt));
            assert_memory_equal(out->data + spans[i].begin - strlen(prompt), prompt, strlen(prompt));
        }
    }
}

static void check_conversation(const struct ah_chat_model *model, const struct conversation *conversation)
{
    struct ah_chat_message messages[MESSAGES_MAX];
    struct ah_chat_span spans[MESSAGES_MAX];
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    const struct ah_chat_options options = {conversation->date, conversation->prompt, spans};
    const size_t n = messages_of(conversation, messages);
    const int rc = ah_chat_render(model, messages, n, &options, &out, &err);
    assert_int_equal(rc, conversation->result ? AH_OK : AH_E_UNSUPPORTED);
    if (conversation->result) {
        assert_string_equal(out.data, conversation->result);
        assert_int_equal(out.size, strlen(conversation->result));
        check_spans(messages, spans, n, &out, model->chat->prompt);
    } else {
        assert_int_equal(out.size, 0);
    }
    ah_buffer_release(&out);
}

/* Returns the text at the cursor; NULL for null. */
static const char *text_at(struct ah_cursor *cursor, struct ah_arena *arena)
{
    if (ah_cursor_peek(cursor) == '"')
        return ah_cursor_text(cursor, arena);
    ah_cursor_skip(cursor);
    return NULL;
}

static void read_conversation(struct ah_cursor cursor, struct ah_arena *arena,
                              struct conversation *conversation)
{
    ah_cursor_enter(&cursor, '{');
    while (ah_cursor_next(&cursor, '}')) {
        const char *key = ah_cursor_key(&cursor, arena);
        if (!strcmp(key, "roles")) {
            conversation->roles = text_at(&cursor, arena);
        } else if (!strcmp(key, "date")) {
            conversation->date = text_at(&cursor, arena);
        } else if (!strcmp(key, "result")) {
            conversation->result = text_at(&cursor, arena);
        } else if (!strcmp(key, "prompt")) {
            conversation->prompt = ah_cursor_peek(&cursor) == 't';
            ah_cursor_skip(&cursor);
        } else {
            ah_cursor_enter(&cursor, '[');
            for (size_t i = 0; ah_cursor_next(&cursor, ']'); i++)
                conversation->texts[i] = text_at(&cursor, arena);
        }
    }
}

static void check_golden(const char *name)
{
    const struct ah_chat_model model = model_of(name);
    struct ah_buffer cases = {0};
    struct ah_error err = {0};
    char path[128];
    size_t lines = 0;
    snprintf(path, sizeof path, "tests/golden/chats/%s/cases.jsonl", name);
    CHECK_OK(ah_file_read(path, 1 << 24, &cases, &err), err);
    for (char *line = strtok(cases.data, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        const struct ah_json_source source = {path, line, strlen(line), lines + 1};
        struct ah_arena arena = {0};
        struct conversation conversation = {0};
        CHECK_OK(ah_json_scan(&source, &err), err);
        read_conversation((struct ah_cursor){line, line + source.size}, &arena, &conversation);
        check_conversation(&model, &conversation);
        ah_arena_release(&arena);
    }
    assert_int_equal(lines, 60);
    ah_buffer_release(&cases);
}

TEST(chat, renders_llama_as_transformers_does)
{
    check_golden("llama-3");
    check_golden("llama-3.1");
    check_golden("llama-3.2");
}

TEST(chat, renders_qwen_as_transformers_does)
{
    check_golden("qwen2");
    check_golden("qwen2.5");
    check_golden("qwen3");
    check_golden("qwen3-instruct-2507");
}

TEST(chat, renders_other_families_as_transformers_does)
{
    check_golden("chatml");
    check_golden("phi-3");
    check_golden("phi-3.5");
    check_golden("phi-4");
    check_golden("phi-4-mini");
    check_golden("gemma");
    check_golden("gemma-3");
    check_golden("zephyr");
    check_golden("mistral-v1");
    check_golden("mistral-v3");
    check_golden("mistral-nemo");
    check_golden("olmo-2");
    check_golden("smollm3");
}

/* ---- spans ---- */

/* Checks what stands in the span of message `i`. */
static void check_span(const char *name, const struct conversation *conversation, size_t i, const char *says)
{
    const struct ah_chat_model model = model_of(name);
    struct ah_chat_message messages[MESSAGES_MAX];
    struct ah_chat_span spans[MESSAGES_MAX];
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    const size_t n = messages_of(conversation, messages);
    const struct ah_chat_options options = {.date = conversation->date, .spans = spans};
    CHECK_OK(ah_chat_render(&model, messages, n, &options, &out, &err), err);
    assert_int_equal(spans[i].end - spans[i].begin, strlen(says));
    assert_memory_equal(out.data + spans[i].begin, says, strlen(says));
    ah_buffer_release(&out);
}

TEST(chat, knows_where_each_message_stands)
{
    const struct conversation talk = {
        .roles = "suaua", .texts = {"S", " one ", "<think>x</think>A", "two", "<think>y</think>B"}};
    check_span("llama-3", &talk, 0, "S<|eot_id|>");
    check_span("llama-3.2", &talk, 0, "S<|eot_id|>");
    check_span("llama-3.2", &talk, 1, "one<|eot_id|>");
    check_span("qwen2.5", &talk, 4, "<think>y</think>B<|im_end|>\n");
    check_span("qwen3", &talk, 2, "A<|im_end|>\n");
    check_span("qwen3", &talk, 4, "<think>\ny\n</think>\n\nB<|im_end|>\n");
    check_span("qwen3",
               &(struct conversation){.roles = "ua", .texts = {"?", "\n<think>\n\ny \n\n</think>\n\nB\n"}}, 1,
               "<think>\ny \n</think>\n\nB\n<|im_end|>\n");
    check_span("qwen3",
               &(struct conversation){.roles = "ua", .texts = {"?", "a</think>b<think>c</think>\n\nd"}}, 1,
               "<think>\na\n</think>\n\nd<|im_end|>\n");
    check_span("phi-3", &talk, 4, "<think>y</think>B<|end|>\n");
    check_span("gemma-3", &talk, 0, "");
    check_span("gemma-3", &talk, 1, "S\n\none<end_of_turn>\n");
    check_span("zephyr", &talk, 3, "two<eos>\n");
    check_span("mistral-v1", &talk, 1, "S\n\n one  [/INST]");
    check_span("mistral-v3", &talk, 4, " <think>y</think>B<eos>");
    check_span("mistral-nemo", &talk, 1, " one [/INST]");
    check_span("mistral-nemo", &talk, 2, "<think>x</think>A<eos>");
    check_span("olmo-2", &talk, 0, "S\n");
    check_span("olmo-2", &talk, 2, "<think>x</think>A<eos>");
    check_span("olmo-2", &talk, 4, "<think>y</think>B<eos>");
}

TEST(chat, knows_where_each_message_of_smollm_stands)
{
    const struct conversation thinks = {.roles = "suaus",
                                        .date = "05 Mar 2026",
                                        .texts = {"S /think \n", " one ", "\n\nA", "/no_think", "T"}};
    const struct conversation answers = {
        .roles = "sua", .date = "05 Mar 2026", .texts = {"/no_think S/system_override", "?", "A"}};
    check_span("smollm3", &thinks, 0, "S\n\n");
    check_span("smollm3", &thinks, 1, " one <|im_end|>\n");
    check_span("smollm3", &thinks, 2, "A<|im_end|>\n");
    check_span("smollm3", &thinks, 4, "");
    check_span("smollm3", &answers, 0, " S<|im_end|>\n");
    check_span("smollm3", &answers, 2, "A<|im_end|>\n");
    check_span("smollm3", &(struct conversation){.roles = "su", .date = "", .texts = {"", "?"}}, 0, "");
}

/* Checks how smollm3 writes a date, before a passage that it reads in the model's template. */
static void check_day(const char *date, const char *written)
{
    struct ah_buffer result = {0};
    ah_buffer_printf(&result,
                     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: %s\n"
                     "Reasoning Mode: /think\n\n## Custom Instructions\n\n<passage>\n\n<|im_start|>user\n?"
                     "<|im_end|>\n",
                     written);
    const struct ah_chat_model model = model_of("smollm3");
    check_conversation(
        &model, &(struct conversation){.roles = "u", .date = date, .result = result.data, .texts = {"?"}});
    ah_buffer_release(&result);
}

TEST(chat, writes_the_month_in_full)
{
    check_day("28 Nov 2026", "28 November 2026");
    check_day("01 May 2026", "01 May 2026");
    check_day("1 March 2026", "1 March 2026");
    check_day("28 Nox 2026", "28 Nox 2026");
    check_day("28 Nov ", "28 Nov ");
    check_day("", "");
}

/* The place of the passage is that of the real template, which has the digest. */
TEST(chat, reads_the_passage_in_the_template)
{
    const struct ah_chat *chat = ah_chat_named("smollm3");
    const size_t size = chat->passage_at + chat->passage_size;
    struct ah_chat_model *model = NULL;
    struct ah_error err = {0};
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    memset(text + chat->passage_at, 'p', chat->passage_size);
    const struct ah_chat_folder folder = {.template_text = text, .template_size = size};
    CHECK_OK(ah_chat_model_new(&model, chat, &folder, "here", &err), err);
    assert_int_equal(strlen(model->passage), chat->passage_size);
    assert_int_equal(strspn(model->passage, "p"), chat->passage_size);
    ah_chat_close(model);
    free(text);
}

TEST(chat, appends)
{
    const struct ah_chat_model model = model_of("gemma");
    const struct ah_chat_message messages[] = {{AH_CHAT_USER, "a", 1}, {AH_CHAT_USER, "b", 1}};
    struct ah_chat_span spans[2];
    const struct ah_chat_options options = {.spans = spans};
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    ah_buffer_puts(&out, "before");
    CHECK_FAILS(ah_chat_render(&model, messages, 2, &options, &out, &err), err, AH_E_UNSUPPORTED,
                "the chat template 'gemma' refuses a conversation: roles must alternate");
    assert_string_equal(out.data, "before");
    CHECK_OK(ah_chat_render(&model, messages, 1, &options, &out, &err), err);
    assert_string_equal(out.data, "before<bos><start_of_turn>user\na<end_of_turn>\n");
    assert_int_equal(spans[0].begin, strlen("before<bos><start_of_turn>user\n"));
    ah_buffer_release(&out);
}

/* ---- what is refused ---- */

static void check_refused(const char *name, const char *roles, const char *says)
{
    const struct ah_chat_model model = model_of(name);
    const struct conversation conversation = {.roles = roles, .texts = {"", "", "", ""}};
    struct ah_chat_message messages[MESSAGES_MAX];
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    const size_t n = messages_of(&conversation, messages);
    CHECK_FAILS(ah_chat_render(&model, messages, n, &(struct ah_chat_options){0}, &out, &err), err,
                AH_E_UNSUPPORTED, says);
    assert_int_equal(out.size, 0);
    ah_buffer_release(&out);
}

TEST(chat, refuses_what_a_template_refuses)
{
    check_refused("llama-3", "", "a conversation without messages");
    check_refused("gemma", "su", "it has no system messages");
    check_refused("gemma", "au", "roles must alternate");
    check_refused("gemma-3", "suu", "roles must alternate");
    check_refused("mistral-nemo", "sau", "roles must alternate");
    check_refused("mistral-nemo", "us", "only the first message may be the system's");
    check_refused("smollm3", "ua", "it writes the day, and none is given (--date)");
}

TEST(chat, refuses_unknown_templates)
{
    const struct ah_chat *chat = NULL;
    struct ah_error err = {0};
    CHECK_FAILS(
        ah_chat_find(&chat, "{{ x }}", 7, "here", &err), err, AH_E_UNSUPPORTED,
        "the chat template of 'here' is not one of those that 'tokenize' knows (chatml, llama-3, llama-3.1");
    check_text_has(err.text, "smollm3); 'autohete-tokenize' applies any template");
    CHECK_FAILS(ah_chat_find(&chat, "", 0, "here", &err), err, AH_E_UNSUPPORTED, "here");
    CHECK_FAILS(ah_chat_find(&chat, "\n", 1, "here", &err), err, AH_E_UNSUPPORTED, "here");
    assert_null(chat);
    assert_null(ah_chat_named("llama"));
}

TEST(chat, knows_which_templates_write_the_day)
{
    assert_true(ah_chat_has_date(ah_chat_named("llama-3.2")));
    assert_true(ah_chat_has_date(ah_chat_named("smollm3")));
    assert_false(ah_chat_has_date(ah_chat_named("llama-3.1")));
    assert_false(ah_chat_has_date(ah_chat_named("qwen3")));
    assert_string_equal(ah_chat_name(ah_chat_named("qwen3")), "qwen3");
}

/* ---- folders ---- */

static int make_folder(void **state)
{
    char *path = strdup("/tmp/ah-chat-XXXXXX");
    *state = path;
    return path && mkdtemp(path) ? 0 : -1;
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (text)
        CHECK_OK(ah_file_write(path, text, strlen(text), &err), err);
    else
        remove(path);
}

static int remove_folder(void **state)
{
    put_file(*state, "chat_template.jinja", NULL);
    put_file(*state, "tokenizer_config.json", NULL);
    rmdir(*state);
    free(*state);
    return 0;
}

/* Checks what a folder with this config says; an `expected` of NULL is a thing that it does not say. */
static void check_folder(const char *path, const char *config, const struct ah_chat_folder *expected)
{
    struct ah_chat_folder folder = {0};
    struct ah_error err = {0};
    put_file(path, "tokenizer_config.json", config);
    CHECK_OK(ah_chat_folder_read(&folder, path, &err), err);
    const char *const got[] = {folder.template_text, folder.bos, folder.eos}, *const wanted[] = {
                                                                                  expected->template_text,
                                                                                  expected->bos,
                                                                                  expected->eos};
    for (size_t i = 0; i < 3; i++)
        if (!got[i] != !wanted[i] || (got[i] && strcmp(got[i], wanted[i]) != 0))
            fail_msg("%s: '%s' is not '%s'", config, got[i] ? got[i] : "-", wanted[i] ? wanted[i] : "-");
    if (folder.template_text)
        assert_int_equal(folder.template_size, strlen(folder.template_text));
    ah_chat_folder_release(&folder);
}

TEST_IN(chat, reads_a_folder, make_folder, remove_folder)
{
    check_folder(*state, NULL, &(struct ah_chat_folder){0});
    check_folder(*state, "{\"chat_template\": null, \"bos_token\": null}", &(struct ah_chat_folder){0});
    check_folder(*state,
                 "{\"x\": [1, {\"chat_template\": \"no\"}], \"chat_template\": \"a\\nb\", \"bos_token\": "
                 "\"<s>\", \"eos_token\": {\"__type\": \"AddedToken\", \"content\": \"</s>\"}}",
                 &(struct ah_chat_folder){.template_text = "a\nb", .bos = "<s>", .eos = "</s>"});
    check_folder(*state,
                 "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"}, {\"template\": \"d\", "
                 "\"name\": \"default\"}, {\"name\": \"rag\", \"template\": \"r\"}]}",
                 &(struct ah_chat_folder){.template_text = "d"});
    check_folder(*state, "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}]}",
                 &(struct ah_chat_folder){0});
    put_file(*state, "chat_template.jinja", "j\n");
    check_folder(*state, "{\"eos_token\": \"</s>\", \"chat_template\": \"a\"}",
                 &(struct ah_chat_folder){.template_text = "j\n", .eos = "</s>"});
    check_folder(*state, NULL, &(struct ah_chat_folder){.template_text = "j\n"});
}

static void check_not_opened(const char *path, const char *config, int code, const char *says)
{
    struct ah_chat_model *model = NULL;
    struct ah_error err = {0};
    put_file(path, "tokenizer_config.json", config);
    CHECK_FAILS(ah_chat_open(&model, path, &err), err, code, says);
    assert_null(model);
}

TEST_IN(chat, refuses_folders_by_name, make_folder, remove_folder)
{
    struct ah_chat_model *model = NULL;
    struct ah_error err = {0};
    CHECK_FAILS(ah_chat_open(&model, "/nowhere/at/all", &err), err, AH_E_IO, "/nowhere/at/all");
    check_not_opened(*state, NULL, AH_E_UNSUPPORTED, "has no chat template; ");
    check_not_opened(*state, "{}", AH_E_UNSUPPORTED, "has no chat template; ");
    check_not_opened(*state, "{\"chat_template\": \"{{ x }}\"}", AH_E_UNSUPPORTED,
                     "tokenizer_config.json' is not one of those");
    check_not_opened(*state, "", AH_E_DOCUMENT, "tokenizer_config.json");
    check_not_opened(*state, "[]", AH_E_DOCUMENT, "is no JSON object");
    check_not_opened(*state, "{\"chat_template\": ", AH_E_DOCUMENT, "tokenizer_config.json:1:");
    check_not_opened(*state, "{\"chat_template\": 3}", AH_E_DOCUMENT, "neither a text nor a list");
    check_not_opened(*state, "{\"chat_template\": [3]}", AH_E_DOCUMENT, "an entry that is no object");
    check_not_opened(*state, "{\"chat_template\": [{\"name\": \"default\"}]}", AH_E_DOCUMENT,
                     "without name or template");
    check_not_opened(*state, "{\"bos_token\": []}", AH_E_DOCUMENT, "'bos_token' or 'eos_token' is neither");
    put_file(*state, "chat_template.jinja", "{{ x }}");
    check_not_opened(*state, NULL, AH_E_UNSUPPORTED, "chat_template.jinja' is not one of those");
}

TEST(chat, needs_the_special_tokens_that_it_writes)
{
    struct ah_chat_model *model = NULL;
    struct ah_error err = {0};
    const struct ah_chat_folder only_bos = {.bos = bos}, neither = {0};
    CHECK_FAILS(ah_chat_model_new(&model, ah_chat_named("mistral-nemo"), &only_bos, "here", &err), err,
                AH_E_UNSUPPORTED, "add 'eos_token'");
    CHECK_FAILS(ah_chat_model_new(&model, ah_chat_named("llama-3"), &neither, "here", &err), err,
                AH_E_UNSUPPORTED,
                "'here' does not name the special token that its chat template 'llama-3' writes");
    CHECK_OK(ah_chat_model_new(&model, ah_chat_named("llama-3"), &only_bos, "here", &err), err);
    assert_string_equal(model->bos, bos);
    assert_null(model->eos);
    ah_chat_close(model);
    CHECK_OK(ah_chat_model_new(&model, ah_chat_named("qwen3"), &neither, "here", &err), err);
    ah_chat_close(model);
    ah_chat_close(NULL);
}

/* ---- hostile texts ---- */

TEST(chat, survives_any_bytes)
{
    static const char *const names[] = {"llama-3", "llama-3.1",  "qwen3",  "phi-3.5", "gemma-3",
                                        "zephyr",  "mistral-v3", "olmo-2", "smollm3"};
    static const char *const parts[] = {"\n",      "</think>", "<think>", "\xC2", "\x85",     "\xE2\x80",
                                        "\xA8",    "\x80",     "\xE3",    " ",    "\xF0\x9F", "x",
                                        "</think", "\xFF",     "/think",  "/no_"};
    uint64_t random = check_seed(20261128);
    for (size_t tries = check_scaled(20000); tries; tries--) {
        char text[64] = "";
        for (uint64_t n = check_draw(&random, 8); n; n--)
            strcat(text, parts[check_draw(&random, sizeof parts / sizeof *parts)]);
        const size_t size = strlen(text);
        char *exact = malloc(size ? size : 1); /* so that a sanitizer sees each byte read beyond it */
        assert_non_null(exact);
        memcpy(exact, text, size);
        const struct ah_chat_model model = model_of(names[check_draw(&random, sizeof names / sizeof *names)]);
        const bool modes = model.chat->passage_size != 0; /* the system's message chooses the mode */
        const struct ah_chat_message messages[] = {{modes ? AH_CHAT_SYSTEM : AH_CHAT_USER, exact, size},
                                                   {AH_CHAT_ASSISTANT, exact, size}};
        const struct ah_chat_options options = {.date = modes ? "28 Nov 2026" : NULL};
        struct ah_buffer out = {0};
        struct ah_error err = {0};
        CHECK_OK(ah_chat_render(&model, messages, 2, &options, &out, &err), err);
        ah_buffer_release(&out);
        free(exact);
    }
}
