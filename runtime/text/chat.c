/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of known templates, whose texts were read from public places:
 *
 *     chatml               examples/chat/chatml.jinja, for base models                  here
 *     llama-3              Meta-Llama-3-*-Instruct                                     trl
 *     llama-3.1            Llama-3.1-*-Instruct, Llama-3.3-70B-Instruct                trl, llama.cpp
 *     llama-3.2            Llama-3.2-*-Instruct                                        trl, llama.cpp
 *     qwen2                Qwen2-*-Instruct                                            quoted by users of the model
 *     qwen2.5              Qwen2.5-*-Instruct                                          trl, llama.cpp
 *     qwen3                Qwen3-*, as first published and as changed since            llama.cpp, trl
 *     qwen3-instruct-2507  Qwen3-*-Instruct-2507                                       trl
 *     phi-3                Phi-3-mini-*-instruct                                       trl
 *     phi-3.5              Phi-3.5-mini-instruct                                       trl, llama.cpp
 *     phi-4                phi-4                                                       unsloth
 *     phi-4-mini           Phi-4-mini-instruct                                         onnxruntime-extensions
 *     gemma                gemma-*-it, gemma-2-*-it                                    trl, llama.cpp
 *     gemma-3              gemma-3-*-it                                                trl
 *     zephyr               zephyr-7b-beta, TinyLlama-1.1B-Chat-v1.0                    alignment handbook
 *     mistral-v1           Mistral-7B-Instruct-v0.2                                    llama.cpp, its tests
 *     mistral-v3           Mistral-7B-Instruct-v0.3, Mistral-Large-Instruct-2407       llama.cpp, its tests
 *     mistral-nemo         Mistral-Nemo-Instruct-2407                                  llama.cpp
 *     olmo-2               OLMo-2-*-Instruct                                           a copy of the model's files
 *     smollm3              SmolLM3-3B                                                  huggingface.js, its tests
 *
 * trl: trl/chat_templates of huggingface/trl; llama.cpp: its models/templates, made by scripts/get_chat_template.py.
 */
#include "runtime/text/chat_internal.h"

#include "base/sha256.h"

#include <string.h>

#define LLAMA_3                                                                                              \
    .needs_bos = true,                                                                                       \
    .head = {"<|start_header_id|>system<|end_header_id|>\n\n",                                               \
             "<|start_header_id|>user<|end_header_id|>\n\n",                                                 \
             "<|start_header_id|>assistant<|end_header_id|>\n\n"},                                           \
    .tail = "<|eot_id|>", .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n", .trims = true
#define CHATML                                                                                               \
    .head = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},                       \
    .tail = "<|im_end|>\n", .prompt = "<|im_start|>assistant\n"
#define PHI                                                                                                  \
    .write = ah_chat_write_turns, .needs_eos = true,                                                         \
    .head = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, .tail = "<|end|>\n",                          \
    .prompt = "<|assistant|>\n", .ends_in_eos = true
#define GEMMA                                                                                                \
    .write = ah_chat_write_alternating, .needs_bos = true,                                                   \
    .head = {"<start_of_turn>system\n", "<start_of_turn>user\n", "<start_of_turn>model\n"},                  \
    .tail = "<end_of_turn>\n", .prompt = "<start_of_turn>model\n", .trims = true
#define MISTRAL .write = ah_chat_write_inst, .needs_bos = true, .needs_eos = true

static const struct ah_chat chats[] = {
    {.name = "chatml",
     .digests = {"c2c8cbd97c032563ae696aaf79e94f3e285d513c774c13027b9714a0bc35f1fc"},
     .write = ah_chat_write_turns,
     CHATML},
    {.name = "llama-3",
     .digests = {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122"},
     .write = ah_chat_write_turns,
     LLAMA_3},
    {.name = "llama-3.1",
     .digests = {"93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7"},
     .write = ah_chat_write_dated,
     LLAMA_3},
    {.name = "llama-3.2",
     .digests = {"d82792f95932f1c9cef5c4bd992f171225e3bf8c7b609b4557c9e1ec96be819f"},
     .write = ah_chat_write_dated,
     .has_date = true,
     LLAMA_3},
    {.name = "qwen2",
     .digests = {"793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb"},
     .write = ah_chat_write_turns,
     .system = "You are a helpful assistant.",
     CHATML},
    {.name = "qwen2.5",
     .digests = {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a"},
     .write = ah_chat_write_turns,
     .system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     CHATML},
    {.name = "qwen3",
     .digests = {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
                 "87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5"},
     .write = ah_chat_write_thinking,
     CHATML},
    {.name = "qwen3-instruct-2507",
     .digests = {"64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326"},
     .write = ah_chat_write_turns,
     CHATML},
    {.name = "phi-3", .digests = {"dcaee66df77bfbb789ec541fe713218da30225a526f1db97138fc39ee6dc56aa"}, PHI},
    {.name = "phi-3.5",
     .digests = {"78d976a442bcde2f0be15aafbb8e3050e1104f86732266f68403251b89982a90"},
     .skips_empty_system = true,
     PHI},
    {.name = "phi-4",
     .digests = {"fe4120415a3858b873955c92ce3a103a95bc97c2cb00b72e62659aaf0f891ee5"},
     .write = ah_chat_write_turns,
     .head = {"<|im_start|>system<|im_sep|>", "<|im_start|>user<|im_sep|>",
              "<|im_start|>assistant<|im_sep|>"},
     .tail = "<|im_end|>",
     .prompt = "<|im_start|>assistant<|im_sep|>"},
    {.name = "phi-4-mini",
     .digests = {"febf589225c9728ab791f52e8897d7607a823d45368f0a4c92fa68997b40cce9"},
     .write = ah_chat_write_turns,
     .needs_eos = true,
     .head = {"<|system|>", "<|user|>", "<|assistant|>"},
     .tail = "<|end|>",
     .prompt = "<|assistant|>",
     .ends_in_eos = true},
    {.name = "gemma", .digests = {"ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6"}, GEMMA},
    {.name = "gemma-3",
     .digests = {"8d9e3a3c114fb2053ec500184677af4f7e5f8ec2582443cd535834e68b3ade29"},
     .takes_system = true,
     GEMMA},
    {.name = "zephyr",
     .digests = {"66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362"},
     .write = ah_chat_write_turns,
     .needs_eos = true,
     .head = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .turns_end_in_eos = true,
     .tail = "\n",
     .prompt = "<|assistant|>\n"},
    {.name = "mistral-v1",
     .digests = {"bbc58aad99454df60138be9530c9601a0adfe3d8932cda975e1f10b2410ddc51"},
     MISTRAL,
     .head = {NULL, " [INST] ", " "},
     .tail = " [/INST]"},
    {.name = "mistral-v3",
     .digests = {"cafb64e0e9e5fd2503054b3479593fae39cbdfd52338ce8af9bb4664a8eb05bd"},
     MISTRAL,
     .head = {NULL, "[INST] ", " "},
     .tail = "[/INST]",
     .trims = true,
     .system_comes_last = true},
    {.name = "mistral-nemo",
     .digests = {"e7deee034838db2bfc7487788a3013d8a307ab69f72f3c54a85f06fd76007d4e"},
     MISTRAL,
     .head = {NULL, "[INST]", ""},
     .tail = "[/INST]",
     .system_comes_last = true},
    {.name = "olmo-2",
     .digests = {"a3fff33b9c6fb5c804dab4d85d06d33452e646ec1e038b1b29f170569e2f0380"},
     .write = ah_chat_write_joined,
     .needs_bos = true,
     .needs_eos = true,
     .head = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .tail = "\n",
     .prompt = "<|assistant|>\n"},
    {.name = "smollm3",
     .digests = {"3e0e275a527f249670056e0078e474eadbdd007c134b4fdfae5a7b3089702814"},
     .write = ah_chat_write_modes,
     .has_date = true,
     .passage_at = 1366,
     .passage_size = 1162,
     .system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
     .head = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
     .tail = "<|im_end|>\n"},
};
enum { CHATS = sizeof chats / sizeof *chats };

const struct ah_chat *ah_chat_named(const char *name)
{
    for (size_t i = 0; i < CHATS; i++)
        if (!strcmp(chats[i].name, name))
            return &chats[i];
    return NULL;
}

static bool has_digest(const struct ah_chat *chat, const char *digest)
{
    for (size_t i = 0; i < AH_CHAT_DIGESTS_MAX; i++)
        if (chat->digests[i] && !strcmp(chat->digests[i], digest))
            return true;
    return false;
}

static int refuse_unknown(const char *path, struct ah_error *err)
{
    struct ah_buffer names = {0};
    for (size_t i = 0; i < CHATS; i++)
        ah_buffer_printf(&names, "%s%s", i ? ", " : "", chats[i].name);
    const int rc =
        names.failed
            ? ah_error_memory(err)
            : ah_error_set(err, AH_E_UNSUPPORTED,
                           "the chat template of '%.300s' is not one of those that 'tokenize' knows (%s); "
                           "'autohete-tokenize' applies any template",
                           path, names.data);
    ah_buffer_release(&names);
    return rc;
}

int ah_chat_find(const struct ah_chat **ret_chat, const char *text, size_t size, const char *path,
                 struct ah_error *err)
{
    struct ah_sha256 hash;
    unsigned char digest[AH_SHA256_BYTES];
    char hex[AH_SHA256_HEX_MAX];
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, text, size - (size && text[size - 1] == '\n'));
    ah_sha256_finish(&hash, digest);
    ah_sha256_hex(digest, hex);
    for (size_t i = 0; i < CHATS; i++)
        if (has_digest(&chats[i], hex)) {
            *ret_chat = &chats[i];
            return AH_OK;
        }
    return refuse_unknown(path, err);
}

const char *ah_chat_name(const struct ah_chat *chat)
{
    return chat->name;
}

bool ah_chat_has_date(const struct ah_chat *chat)
{
    return chat->has_date;
}

int ah_chat_render(const struct ah_chat_model *model, const struct ah_chat_message *messages, size_t n,
                   const struct ah_chat_options *options, struct ah_buffer *out, struct ah_error *err)
{
    const struct ah_chat_rendering rendering = {model, messages, n, options, out, err};
    const size_t before = out->size;
    if (!n)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "a conversation without messages has no text; leave it out");
    if (options->spans)
        memset(options->spans, 0, n * sizeof *options->spans);
    int rc = model->chat->write(&rendering);
    if (!rc && out->failed)
        rc = ah_error_memory(err);
    if (rc && out->data) {
        out->size = before;
        out->data[before] = '\0';
    }
    return rc;
}
