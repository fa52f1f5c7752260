/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the inputs of 'tokenize': any bytes as a file of JSON lines, an array, or text. The first byte
 * selects which, the tokenizer, the chat template, and sequences. After success the headers have as many tokens as were
 * counted; after a refusal, which has a sentence, no file remains.
 */
#include "runtime/text/chat_internal.h"
#include "runtime/text/token_files.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH = 96, KINDS = 3, HEADER_BYTES = 64 };

static const char *const inputs[KINDS] = {"a.jsonl", "a.json", "a.txt"};
static const char *const templates[] = {"chatml",     "llama-3.2", "gemma",  "qwen3",
                                        "mistral-v3", "olmo-2",    "smollm3"};
static const char *const endings[] = {"", ".mask", ".docs", ".tmp", ".mask.tmp", ".docs.tmp"};

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_text_records: %s\n", what);
        abort();
    }
}

static struct ah_text_tokenizer *open_tokenizer(unsigned which)
{
    static const char *const names[] = {"gpt2", "llama2"};
    static struct ah_text_tokenizer *opened[2]; /* for the life of the program */
    char path[PATH];
    struct ah_error err = {0};
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s", names[which]);
    require(opened[which] || !ah_text_tokenizer_open(&opened[which], path, &err), "no tokenizer");
    return opened[which];
}

static void put(const char *path, const uint8_t *data, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file could be written");
    close(fd);
}

static uint64_t tokens_of(const char *path)
{
    unsigned char header[HEADER_BYTES] = {0};
    uint64_t n = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    require(fd >= 0 && read(fd, header, sizeof header) == HEADER_BYTES, "a file without a header");
    close(fd);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | header[16 + i];
    return n;
}

/* Checks the files that were made, removes them, and then removes their folder. */
static void check_files(const char *folder, int rc, const struct ah_token_files_made *made)
{
    char path[PATH + 64];
    uint64_t tokens = 0;
    for (uint64_t number = 0; !rc && number < made->train.files; number++)
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
            snprintf(path, sizeof path, "%s/train-%05llu.bin%s", folder, (unsigned long long)number,
                     endings[i]);
            require(i < 3 || access(path, F_OK), "a temporary file remains");
            tokens += i ? 0 : tokens_of(path);
            unlink(path);
        }
    require(rc || tokens == made->train.tokens, "another number of tokens than was counted");
    require(rc ? access(folder, F_OK) : !rmdir(folder), "files remain");
}

static void make(const char *input, const char *folder, unsigned choice)
{
    static char bos[] = "<s>", eos[] = "</s>", passage[] = "passage";
    const size_t n = sizeof templates / sizeof *templates;
    struct ah_chat_model model = {ah_chat_named(templates[choice / 12 % n]), bos, eos, passage};
    struct ah_token_files_made made;
    struct ah_error err = {0};
    const struct ah_token_files_options options = {.tokenizer = open_tokenizer(choice / 3 % 2),
                                                   .inputs = &input,
                                                   .n_inputs = 1,
                                                   .folder = folder,
                                                   .begin = choice % 5 ? UINT32_MAX : 1,
                                                   .end = UINT32_MAX,
                                                   .shard_tokens = 400,
                                                   .align = choice / 6 % 2 ? 64 : 0,
                                                   .chat = model.chat ? &model : NULL,
                                                   .no_chat = "there is no template",
                                                   .date = "28 Nov 2026",
                                                   .threads = 1};
    const int rc = ah_token_files_make(&options, &made, &err);
    require(!rc || err.text[0], "a refusal without a sentence");
    check_files(folder, rc, &made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char in_memory[] = "/dev/shm/autohete-fuzz-XXXXXX", on_disk[] = "/tmp/autohete-fuzz-XXXXXX";
    const char *folder = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
    char input[PATH], made[PATH];
    require(folder != NULL, "no folder could be made");
    if (size) {
        snprintf(input, sizeof input, "%s/%s", folder, inputs[data[0] % KINDS]);
        snprintf(made, sizeof made, "%s/made", folder);
        put(input, data + 1, size - 1);
        make(input, made, data[0]);
        unlink(input);
    }
    require(!rmdir(folder), "files remain beside the input");
    return 0;
}
