/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete sample DIR PROMPT...: shows what a model says.
 */
#include "base/file.h"
#include "base/philox.h"
#include "base/units.h"
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/outputs.h"
#include "cli/sample/documents.h"
#include "cli/sample/prompts.h"
#include "cli/verbs.h"
#include "runtime/model/adapter.h"
#include "runtime/model/tokenizer.h"
#include "runtime/run/devices.h"
#include "runtime/sample/pick.h"
#include "runtime/sample/speaker.h"
#include "schemas/json.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

struct sample_options {
    const char *adapter, *system, *date, *device, *dtype, *output;
    struct ah_option_list data;
    struct ah_option_integer max_tokens, device_memory, seed, count;
    struct ah_option_real temperature, top_p;
    bool raw, force;
};

enum { MAX_TOKENS = 128, COUNT = 3, COUNT_MOST = 256, PROMPT_SHOWN = 400 };
#define FIELD(name) offsetof(struct sample_options, name)

static const char *const replaced_answers[] = {AH_OUTPUT_ANSWERS, NULL};

static const struct ah_option sample_table[] = {
    {"adapter", 0, AH_OPTION_FILE, "DIR", NULL, FIELD(adapter), "an adapter of this model, as peft saves it"},
    {"data", 0, AH_OPTION_FILES, "FILE", NULL, FIELD(data),
     "instead of PROMPT: beginnings of documents of token files, up to what is learned"},
    {"count", 0, AH_OPTION_COUNT, "N", NULL, FIELD(count), "with --data: the first N documents (default 3)"},
    {"max-tokens", 0, AH_OPTION_COUNT, "N", NULL, FIELD(max_tokens),
     "the most tokens of an answer (default 128)"},
    {"temperature", 0, AH_OPTION_REAL, "X", NULL, FIELD(temperature),
     "divides logits before a token is drawn (default 0: always the most probable token)"},
    {"top-p", 0, AH_OPTION_REAL, "X", NULL, FIELD(top_p),
     "draw from the most probable tokens that have this probability together (default 1)"},
    {"seed", 0, AH_OPTION_COUNT, "N", NULL, FIELD(seed), "of what is drawn (default 0)"},
    {"system", 0, AH_OPTION_TEXT, "TEXT", NULL, FIELD(system), "what the system says before the prompt"},
    {"raw", 0, AH_OPTION_FLAG, NULL, NULL, FIELD(raw),
     "continue the prompt as it is, without the chat template"},
    {"date", 0, AH_OPTION_TEXT, "DATE", NULL, FIELD(date),
     "the day that a chat template writes, as '26 Jul 2024'"},
    {"device", 0, AH_OPTION_TEXT, "DEVICE", ah_devices_words, FIELD(device),
     "run on this device (default cpu)"},
    {"device-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, FIELD(device_memory),
     "use at most this much device memory; weights that do not fit stay on the host"},
    {"dtype", 0, AH_OPTION_WORD, "DTYPE", ah_words_dtype, FIELD(dtype),
     "compute in bf16 or fp32 (default bf16 if the device has it)"},
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", replaced_answers, FIELD(output),
     "also write to this file what --json prints"},
    AH_OUTPUT_FORCE_ROW(struct sample_options),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* An answer, as far as it is known. */
struct answer {
    const char *prompt;
    struct ah_text_ids read, said;
    struct ah_text_ids learned; /* with --data: what the document says */
    bool ended;                 /* by a token that ends a text */
};

struct sampling {
    struct ah_cli *cli;
    const struct sample_options *options;
    struct ah_document model;
    struct ah_adapter_found adapter;
    struct ah_prompts prompts;
    struct ah_tokenizer texts;
    struct ah_speaker *speaker;
    struct answer *answers; /* by operand, in the arena */
    size_t n;
    uint64_t tokens; /* that were said */
    double seconds;  /* for that */
    struct ah_pick pick;
    const atomic_int *stop;
    unsigned char last_byte; /* of the answer */
    uint64_t line_breaks;    /* at the end of the answer */
    struct ah_error *err;
};

/* ---- what is read ---- */

static uint64_t most_said(const struct sampling *sampling)
{
    return sampling->options->max_tokens.given ? sampling->options->max_tokens.value : MAX_TOKENS;
}

/* Appends the texts of tokens. */
static void put_texts(const struct sampling *sampling, const struct ah_text_ids *ids, struct ah_buffer *out)
{
    for (size_t i = 0; i < ids->n; i++) {
        const char *text = ah_tokenizer_text(&sampling->texts, ids->items[i]);
        ah_buffer_puts(out, text ? text : "");
    }
}

static const char *text_of(const struct sampling *sampling, const struct ah_text_ids *ids)
{
    struct ah_buffer text = {0};
    ah_buffer_puts(&text, "");
    put_texts(sampling, ids, &text);
    const char *kept = text.failed ? NULL : ah_arena_strndup(&sampling->cli->arena, text.data, text.size);
    ah_buffer_release(&text);
    return kept ? kept : "";
}

static int encode_prompts(struct sampling *sampling)
{
    const char *system = sampling->options->system;
    int rc = AH_OK;
    if (system && !ah_json_is_utf8(system))
        return ah_error_set(sampling->err, AH_E_USAGE,
                            "'--system' is not UTF-8; check the terminal's encoding");
    for (size_t i = 0; i < sampling->n && !rc; i++) {
        struct answer *answer = &sampling->answers[i];
        answer->prompt = sampling->cli->arguments.operands[i + 1];
        if (!ah_json_is_utf8(answer->prompt))
            return ah_error_set(sampling->err, AH_E_USAGE,
                                "prompt %zu is not UTF-8; check the terminal's encoding", i + 1);
        rc = ah_prompts_encode(&sampling->prompts, answer->prompt, &answer->read, sampling->err);
    }
    return rc;
}

/* The prompts are beginnings of documents. */
static int read_documents(struct sampling *sampling)
{
    const struct ah_option_list *data = &sampling->options->data;
    struct ah_documents_prompt *prompts = ah_arena_array(&sampling->cli->arena, sampling->n, sizeof *prompts);
    if (!prompts)
        return ah_error_memory(sampling->err);
    const int rc = ah_documents_find(data->items, data->n, sampling->model.body.model->vocabulary, prompts,
                                     sampling->n, &sampling->n, sampling->err);
    for (size_t i = 0; i < sampling->n; i++) {
        struct answer *answer = &sampling->answers[i];
        answer->read = prompts[i].prompt;
        answer->learned = prompts[i].learned;
        answer->prompt = text_of(sampling, &answer->read);
    }
    return rc;
}

/* Checks the prompts, and finds the most positions that a text may have. */
static int measure_prompts(struct sampling *sampling, uint32_t *ret_positions)
{
    const struct ah_model *model = sampling->model.body.model;
    const uint64_t positions = model->max_positions;
    uint64_t longest = 0;
    for (size_t i = 0; i < sampling->n; i++) {
        struct answer *answer = &sampling->answers[i];
        if (!answer->read.n)
            return ah_error_set(sampling->err, AH_E_USAGE, "prompt %zu has no token; give it some text",
                                i + 1);
        if (answer->read.n >= positions)
            return ah_error_set(sampling->err, AH_E_USAGE,
                                "prompt %zu has %zu tokens, and '%s' has %" PRIu64
                                " positions for prompt and answer; shorten it",
                                i + 1, answer->read.n, model->name, positions);
        longest = answer->read.n > longest ? answer->read.n : longest;
    }
    const uint64_t wanted = longest + most_said(sampling);
    *ret_positions = (uint32_t)(wanted < positions ? wanted : positions);
    return AH_OK;
}

/* ---- what is said ---- */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Shows a byte of an answer. Controls are not shown, nor, with --data, line breaks after two. */
static void show_byte(struct sampling *sampling, unsigned char byte)
{
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F ||
                         (sampling->last_byte == 0xC2 && byte >= 0x80 && byte < 0xA0);
    sampling->line_breaks = byte == '\n' ? sampling->line_breaks + 1 : 0;
    sampling->last_byte = byte;
    if (!sampling->options->data.n || sampling->line_breaks <= 2)
        ah_buffer_printf(&sampling->cli->out, "%c", control ? '?' : byte);
}

/* Shows a token's text at once. Characters may consist of several tokens. */
static int show_token(struct sampling *sampling, uint32_t token)
{
    const char *text = ah_tokenizer_text(&sampling->texts, token);
    if (sampling->cli->json || !text)
        return AH_OK;
    for (; *text; text++)
        show_byte(sampling, (unsigned char)*text);
    return ah_cli_flush(sampling->cli, sampling->err);
}

static double draw(const struct sampling *sampling, size_t prompt, size_t token)
{
    const struct ah_philox_name name = {
        .seed = sampling->options->seed.value, .purpose = AH_PHILOX_SAMPLE, .step = token, .element = prompt};
    uint32_t bits[4];
    ah_philox_draw(&name, bits);
    return (double)(((uint64_t)bits[0] << 32 | bits[1]) >> 11) * 0x1p-53; /* never rounded to 1 */
}

static int answer_prompt(struct sampling *sampling, size_t i)
{
    struct answer *answer = &sampling->answers[i];
    const uint64_t positions = sampling->model.body.model->max_positions;
    const float *logits;
    ah_speaker_restart(sampling->speaker);
    int rc = ah_speaker_feed(sampling->speaker, answer->read.items, answer->read.n, &logits, sampling->err);
    const double begin = now_s();
    while (!rc && !atomic_load(sampling->stop)) {
        const uint32_t token = ah_pick(&sampling->pick, logits, draw(sampling, i, answer->said.n));
        answer->ended = ah_prompts_stops(&sampling->prompts, token);
        if (answer->ended)
            break;
        if (!ah_text_ids_add(&answer->said, token))
            return ah_error_memory(sampling->err);
        rc = show_token(sampling, token);
        if (answer->said.n >= most_said(sampling) || answer->read.n + answer->said.n >= positions)
            break;
        rc = rc ? rc : ah_speaker_feed(sampling->speaker, &token, 1, &logits, sampling->err);
    }
    sampling->tokens += answer->said.n;
    sampling->seconds += now_s() - begin;
    return rc;
}

/* ---- the report ---- */

/* True if the model has no position for another token of an answer that may be longer. */
static bool is_out_of_positions(const struct sampling *sampling, const struct answer *answer)
{
    return !answer->ended && answer->said.n && answer->said.n < most_said(sampling) &&
           answer->read.n + answer->said.n >= sampling->model.body.model->max_positions;
}

static void put_ids(struct ah_emit *emit, const char *key, const struct ah_text_ids *ids)
{
    ah_emit_open(emit, key, '[');
    for (size_t i = 0; i < ids->n; i++)
        ah_emit_integer(emit, NULL, ids->items[i]);
    ah_emit_close(emit);
}

static void put_answer(const struct sampling *sampling, struct ah_emit *emit, const struct answer *answer)
{
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "prompt", answer->prompt);
    ah_emit_text(emit, "text", text_of(sampling, &answer->said));
    if (answer->learned.n)
        ah_emit_text(emit, "data", text_of(sampling, &answer->learned));
    ah_emit_text(emit, "ended_by",
                 answer->ended                           ? "token"
                 : is_out_of_positions(sampling, answer) ? "positions"
                                                         : "length");
    put_ids(emit, "prompt_tokens", &answer->read);
    put_ids(emit, "tokens", &answer->said);
    ah_emit_close(emit);
}

static void put_answers(const struct sampling *sampling, double speed, struct ah_buffer *out)
{
    struct ah_emit emit = {.out = out};
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "model", sampling->model.body.model->name);
    ah_emit_number(&emit, "tokens_per_s", speed);
    ah_emit_open(&emit, "answers", '[');
    for (size_t i = 0; i < sampling->n; i++)
        put_answer(sampling, &emit, &sampling->answers[i]);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static void tell_of_positions(const struct sampling *sampling)
{
    size_t n = 0;
    for (size_t i = 0; i < sampling->n; i++)
        n += is_out_of_positions(sampling, &sampling->answers[i]);
    if (n)
        ah_cli_tell(sampling->cli, AH_CLI_NOTE,
                    "%zu answer%s where the model has no position left: prompt and answer share %" PRIu64, n,
                    n == 1 ? " ends" : "s end", sampling->model.body.model->max_positions);
}

static int report(struct sampling *sampling)
{
    struct ah_cli *cli = sampling->cli;
    const char *path = sampling->options->output;
    const double speed = sampling->seconds > 0 ? (double)sampling->tokens / sampling->seconds : 0;
    char rate[AH_UNITS_TEXT_MAX];
    struct ah_buffer text = {0};
    if (cli->json || path)
        put_answers(sampling, speed, &text);
    if (cli->json && text.data)
        ah_buffer_append(&cli->out, text.data, text.size);
    int rc = text.failed ? ah_error_memory(sampling->err) : ah_cli_flush(cli, sampling->err);
    if (!rc && path)
        rc = ah_file_write(path, text.data, text.size, sampling->err);
    ah_buffer_release(&text);
    tell_of_positions(sampling);
    ah_cli_tell(cli, AH_CLI_NOTE, "%" PRIu64 " token%s, %s a second", sampling->tokens,
                sampling->tokens == 1 ? "" : "s", ah_units_print_count(rate, speed));
    return rc;
}

/* Shows a text, of a long one the end, with a mark before each line. */
static void show_lines(struct ah_cli *cli, const char *mark, const char *text)
{
    size_t size = strlen(text);
    const char *at = text + (size > PROMPT_SHOWN ? size - PROMPT_SHOWN : 0);
    while (((unsigned char)*at & 0xC0) == 0x80) /* inside a character */
        at++;
    while (*at) {
        const size_t line = strcspn(at, "\n");
        const char *words = ah_arena_strndup(&cli->arena, at, line);
        ah_buffer_printf(&cli->out, "%s%s\n", mark, ah_cli_clean(cli, words ? words : ""));
        at += line + (at[line] == '\n');
    }
}

/* Answers all prompts, with a line between them if there are several. */
static int answer_all(struct sampling *sampling)
{
    struct ah_cli *cli = sampling->cli;
    int rc = AH_OK;
    for (size_t i = 0; i < sampling->n && !rc && !atomic_load(sampling->stop); i++) {
        const struct answer *answer = &sampling->answers[i];
        if (!cli->json && i)
            ah_buffer_puts(&cli->out, "\n");
        if (!cli->json && (sampling->n > 1 || sampling->options->data.n))
            show_lines(cli, "> ", answer->prompt);
        rc = answer_prompt(sampling, i);
        if (!cli->json)
            ah_buffer_puts(&cli->out, "\n");
        if (!cli->json && answer->learned.n)
            show_lines(cli, "= ", text_of(sampling, &answer->learned));
    }
    if (!rc && atomic_load(sampling->stop))
        rc = ah_error_set(sampling->err, AH_E_INTERRUPTED, "sampling was interrupted");
    return rc;
}

/* ---- the whole ---- */

static int check_options(const struct ah_cli *cli, const struct sample_options *options, struct ah_error *err)
{
    if (cli->arguments.n_operands < 2 && !options->data.n)
        return ah_error_set(err, AH_E_USAGE, "a PROMPT is missing: what the model answers; or '--data' FILE");
    if (cli->arguments.n_operands > 1 && options->data.n)
        return ah_error_set(err, AH_E_USAGE, "a PROMPT and '--data' exclude each other");
    if (options->count.given &&
        (!options->data.n || !options->count.value || options->count.value > COUNT_MOST))
        return ah_error_set(err, AH_E_USAGE, "'--count' needs '--data', and is from 1 to %d", COUNT_MOST);
    if (options->top_p.given && !(options->top_p.value > 0 && options->top_p.value <= 1))
        return ah_error_set(err, AH_E_USAGE, "'--top-p' %g is out of range; give a number above 0, at most 1",
                            options->top_p.value);
    if (options->max_tokens.given && !options->max_tokens.value)
        return ah_error_set(err, AH_E_USAGE, "'--max-tokens' is 0; give at least 1");
    if (options->temperature.given && options->temperature.value > 100)
        return ah_error_set(err, AH_E_USAGE, "'--temperature' %g is out of range; give 0 to 100",
                            options->temperature.value);
    return AH_OK;
}

static int open_speaker(struct sampling *sampling)
{
    const struct sample_options *options = sampling->options;
    struct ah_speaker_options speaker = {.model = sampling->model.body.model,
                                         .weights = sampling->cli->arguments.operands[0],
                                         .adapter = options->adapter,
                                         .adapter_of = sampling->adapter.trained,
                                         .memory_bytes = options->device_memory.value};
    struct ah_device_info info;
    size_t n;
    int rc = sampling->options->data.n ? read_documents(sampling) : encode_prompts(sampling);
    rc = rc ? rc : measure_prompts(sampling, &speaker.positions);
    rc = rc ? rc : ah_devices_find(options->device, &speaker.driver, &speaker.device, sampling->err);
    rc = rc ? rc : speaker.driver->probe(&info, 1, &n, sampling->err);
    if (rc)
        return rc;
    speaker.dtype = n && info.bf16 ? AH_BF16 : AH_FP32;
    if (options->dtype)
        speaker.dtype = strcmp(options->dtype, ah_words_dtype[AH_BF16]) ? AH_FP32 : AH_BF16;
    sampling->pick = (struct ah_pick){.vocabulary = speaker.model->vocabulary,
                                      .temperature = options->temperature.value,
                                      .top_p = options->top_p.given ? options->top_p.value : 1};
    sampling->pick.room =
        ah_arena_array(&sampling->cli->arena, speaker.model->vocabulary, sizeof *sampling->pick.room);
    if (!sampling->pick.room)
        return ah_error_memory(sampling->err);
    rc = ah_speaker_open(&sampling->speaker, &speaker, sampling->err);
    if (!rc && ah_speaker_facts(sampling->speaker).streamed)
        ah_cli_tell(sampling->cli, AH_CLI_NOTE,
                    "weights of %" PRIu64 " of %" PRIu64 " blocks stay on the host",
                    ah_speaker_facts(sampling->speaker).streamed, ah_model_blocks(speaker.model));
    return rc;
}

static int open_model(struct sampling *sampling)
{
    const char *adapter = sampling->options->adapter;
    int rc = ah_input_load(&sampling->model, sampling->cli->arguments.operands[0], AH_DOCUMENT_MODEL,
                           sampling->err);
    if (rc || !adapter)
        return rc;
    rc = ah_input_check_base(sampling->cli, adapter, sampling->cli->arguments.operands[0], sampling->err);
    if (rc)
        return rc;
    rc = ah_adapter_find(sampling->model.body.model, adapter, &sampling->cli->arena, &sampling->adapter,
                         sampling->err);
    if (!rc)
        sampling->model.body.model->lora = &sampling->adapter.lora;
    return rc;
}

static int sample(struct sampling *sampling)
{
    const struct sample_options *options = sampling->options;
    const char *folder = sampling->cli->arguments.operands[0];
    const struct ah_prompts_options prompts = {folder, options->system, options->date, options->raw,
                                               options->data.n > 0};
    sampling->answers = ah_arena_array(&sampling->cli->arena, sampling->n, sizeof *sampling->answers);
    if (!sampling->answers)
        return ah_error_memory(sampling->err);
    int rc = open_model(sampling);
    rc = rc ? rc : ah_prompts_open(&sampling->prompts, &prompts, sampling->err);
    rc = rc ? rc : ah_tokenizer_load(&sampling->texts, folder, sampling->err);
    rc = rc ? rc : open_speaker(sampling);
    rc = rc ? rc : answer_all(sampling);
    return rc ? rc : report(sampling);
}

static size_t prompts_of(const struct ah_cli *cli, const struct sample_options *options)
{
    if (!options->data.n)
        return cli->arguments.n_operands - 1;
    return options->count.given ? options->count.value : COUNT;
}

static int sample_run(struct ah_cli *cli, const void *given)
{
    struct ah_error err = {0};
    struct sampling sampling = {
        .cli = cli, .options = given, .n = prompts_of(cli, given), .stop = ah_interrupt_catch(), .err = &err};
    int rc = check_options(cli, given, &err);
    if (rc)
        return ah_cli_fail_usage(cli, &err);
    rc = sample(&sampling);
    ah_speaker_close(sampling.speaker);
    ah_tokenizer_release(&sampling.texts);
    ah_prompts_close(&sampling.prompts);
    for (size_t i = 0; i < sampling.n && sampling.answers; i++) {
        ah_text_ids_release(&sampling.answers[i].read);
        ah_text_ids_release(&sampling.answers[i].said);
        ah_text_ids_release(&sampling.answers[i].learned);
    }
    if (sampling.model.body.model)
        sampling.model.body.model->lora = NULL;
    ah_document_release(&sampling.model);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_sample = {
    .name = "sample",
    .summary = "show what a model says",
    .description =
        "DIR is a folder with config.json, safetensors and a tokenizer.json, such as a checkpoint of 'run'. "
        "If "
        "it has a chat template that is known, each PROMPT is what the user says, and the model answers. "
        "Otherwise, and with --raw, the model continues the PROMPT.\n\n"
        "With --data prompts are beginnings of documents, and below each answer is what the document "
        "says.\n\n"
        "An answer ends with the end of the assistant's turn, an 'eos_token_id' of generation_config.json or "
        "config.json, or --max-tokens. Without --temperature, the same prompt always has the same answer.\n\n"
        "Keys and values of earlier tokens are kept. On a GPU with too little memory, layers that do not fit "
        "stay on the host and are copied for each token.",
    .syntax = {.options = sample_table, .operands = {AH_OPERAND_FILE, "DIR PROMPT", 1, 256, NULL}},
    .options_bytes = sizeof(struct sample_options),
    .examples = {{"sample out/checkpoints/step-00000100 'What is 2 plus 2?'", "ask a model that was trained"},
                 {"sample Qwen2.5-0.5B 'Once upon a time' --raw --temperature 0.8 --top-p 0.95",
                  "let a model tell something"}},
    .run = sample_run,
};
