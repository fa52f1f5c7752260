/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes token files while each allocation fails once: expects the error of memory, no file left, and no leak.
 */
#include "runtime/text/chat_internal.h"
#include "runtime/text/mix.h"
#include "runtime/text/token_files.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"
#include "tests/support/root.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct inputs {
    char rows[PATH_MAX], text[PATH_MAX], folder[PATH_MAX];
    const struct ah_text_tokenizer *tokenizer;
    const struct ah_chat_model *chat;
};

/* Removes the files of the folder. Returns their number. */
static size_t empty(const char *folder)
{
    char path[PATH_MAX];
    size_t n = 0;
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        snprintf(path, sizeof path, "%.2000s/%.255s", folder, entry->d_name);
        n += entry->d_name[0] != '.' && !unlink(path);
    }
    if (all)
        closedir(all);
    return n;
}

static int make(void *context, struct ah_error *err)
{
    const struct inputs *inputs = context;
    const char *const paths[] = {inputs->rows, inputs->text};
    struct ah_mix_input parts[] = {{.path = paths[0], .weight = 2.5}, {.path = paths[1], .weight = 1}};
    struct ah_mix mix = {.inputs = parts, .n = 2};
    struct ah_token_files_made made;
    struct ah_arena arena = {0};
    const struct ah_token_files_options options = {.tokenizer = inputs->tokenizer,
                                                   .inputs = paths,
                                                   .n_inputs = 2,
                                                   .folder = inputs->folder,
                                                   .held_out = 0.25,
                                                   .begin = 1,
                                                   .end = 2,
                                                   .align = 32,
                                                   .chat = inputs->chat,
                                                   .mix = &mix,
                                                   .threads = 1};
    int rc = ah_token_files_make(&options, &made, err);
    if (rc)
        assert_int_equal(empty(inputs->folder), 0);
    rc = rc ? rc : ah_mix_load(&mix, inputs->folder, &arena, err);
    if (!rc)
        assert_int_equal(mix.n, 2);
    if (rc && rc != AH_E_MEMORY)
        fail_msg("not an out of memory: %s", err->text);
    ah_arena_release(&arena);
    empty(inputs->folder);
    return rc;
}

TEST_IN(tokenize, survives_every_failing_allocation, root_make, root_remove)
{
    static const char rows[] = "{\"text\": \"one\"}\n{\"prompt\": \"two\", \"completion\": \" three\"}\n"
                               "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"},"
                               " {\"role\": \"assistant\", \"content\": \"Hello\"}]}\n"
                               "{\"instruction\": \"do\", \"input\": \"it\", \"output\": \"done\"}\n";
    static const char text[] = "a line\nand another\nand a third, which is longer than the others\n";
    const char *root = *state;
    struct inputs inputs;
    struct ah_text_tokenizer *tokenizer = NULL;
    const struct ah_chat_model chat = {.chat = ah_chat_named("chatml")};
    struct ah_error err = {0};
    root_put_bytes(root, "rows.jsonl", rows, strlen(rows));
    root_put_bytes(root, "text.txt", text, strlen(text));
    snprintf(inputs.rows, sizeof inputs.rows, "%s/rows.jsonl", root);
    snprintf(inputs.text, sizeof inputs.text, "%s/text.txt", root);
    snprintf(inputs.folder, sizeof inputs.folder, "%s/made", root);
    CHECK_OK(ah_text_tokenizer_open(&tokenizer, "tests/golden/tokenizers/qwen2", &err), err);
    inputs.tokenizer = tokenizer;
    inputs.chat = &chat;
    const size_t n = fault_sweep(make, &inputs, 0);
    print_message("%zu allocations\n", n);
    assert_true(n > 50);
    ah_text_tokenizer_close(tokenizer);
}

static int open_tokenizer(void *context, struct ah_error *err)
{
    struct ah_text_tokenizer *tokenizer = NULL;
    const int rc = ah_text_tokenizer_open(&tokenizer, context, err);
    if (rc && rc != AH_E_MEMORY)
        fail_msg("not an out of memory: %s", err->text);
    ah_text_tokenizer_close(tokenizer);
    return rc;
}

TEST(tokenize, survives_them_while_a_tokenizer_is_opened)
{
    static char names[][40] = {"tests/golden/tokenizers/qwen2", "tests/golden/tokenizers/gemma",
                               "tests/golden/tokenizers/gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = fault_sweep(open_tokenizer, names[i], 0);
        print_message("%s: %zu allocations\n", names[i], n);
        assert_true(n > 10);
    }
}
