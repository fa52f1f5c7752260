/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for chat templates: any bytes as tokenizer_config.json (the first byte is even) or chat_template.jinja. A
 * folder that can be read names special tokens with which each known template writes a conversation; a refusal has
 * a sentence, in which quoted names may have any bytes.
 */
#include "runtime/text/chat_internal.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH = 96 };

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_text_chat: %s\n", what);
        abort();
    }
}

static void render(const struct ah_chat_model *model)
{
    static const struct ah_chat_message messages[] = {
        {AH_CHAT_SYSTEM, " s ", 3}, {AH_CHAT_USER, "u", 1}, {AH_CHAT_ASSISTANT, "<think>a</think>b", 17}};
    struct ah_chat_span spans[3];
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    const struct ah_chat_options options = {.spans = spans};
    const int rc = ah_chat_render(model, messages, 3, &options, &out, &err);
    require(!rc || err.text[0], "a refusal without a sentence");
    for (size_t i = 0; i < 3 && !rc; i++)
        require(spans[i].begin <= spans[i].end && spans[i].end <= out.size, "a span beyond the text");
    ah_buffer_release(&out);
}

static void use(const struct ah_chat_folder *folder)
{
    static const char *const names[] = {"chatml", "qwen3", "mistral-v3", "gemma",
                                        "zephyr", "phi-3", "olmo-2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ah_chat_model *model = NULL;
        struct ah_error err = {0};
        const struct ah_chat *chat = ah_chat_named(names[i]);
        const int rc = chat ? ah_chat_model_new(&model, chat, folder, "folder", &err) : AH_OK;
        require(!rc || err.text[0], "a refusal without a sentence");
        if (model)
            render(model);
        ah_chat_close(model);
    }
}

static void read_folder(const char *path)
{
    struct ah_chat_folder folder = {0};
    struct ah_chat_model *model = NULL;
    struct ah_error err = {0};
    const int rc = ah_chat_folder_read(&folder, path, &err);
    require(!rc || err.text[0], "a refusal without a sentence");
    if (!rc)
        use(&folder);
    ah_chat_folder_release(&folder);
    err = (struct ah_error){0};
    require(!ah_chat_open(&model, path, &err) || err.text[0], "a refusal without a sentence");
    ah_chat_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char in_memory[] = "/dev/shm/autohete-fuzz-XXXXXX", on_disk[] = "/tmp/autohete-fuzz-XXXXXX";
    const char *folder = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
    char path[PATH];
    require(folder != NULL, "no folder could be made");
    snprintf(path, sizeof path, "%s/%s", folder,
             size && data[0] % 2 ? "chat_template.jinja" : "tokenizer_config.json");
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && (!size || write(fd, data + 1, size - 1) == (ssize_t)size - 1),
            "no file could be written");
    close(fd);
    read_folder(folder);
    unlink(path);
    rmdir(folder);
    return 0;
}
