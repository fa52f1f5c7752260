/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete tokenize INPUT... --model DIR -o FOLDER: makes token files for 'run'.
 */
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/terminal.h"
#include "cli/inspect/inspect_inputs.h"
#include "cli/verbs.h"
#include "runtime/text/token_files.h"
#include "schemas/model.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct tokenize_options {
    const char *model;
    const char *output;
    struct ah_option_real val;
    const char *begin, *end, *loss, *date;
    struct ah_option_integer shard_tokens, align, seed;
    struct ah_option_list weights;
};

/* Lengths of sequences: at most; if no document has a prompt; up to this, long enough for four, so little is padded */
enum { DATE_MAX = 32, ALIGN_MOST = 4096, ALIGN_TEXT = 1024, ALIGN_ROOMY = 512 };

/* The share of what is to be learned whose loss is told as a warning. */
static const double lost_much = 0.05;
#define SHARD_TOKENS      100000000
#define SHARD_TOKENS_MOST INT32_MAX
#define FIELD(name)       offsetof(struct tokenize_options, name)

/* In the order of ah_chat_loss. */
static const char *const losses[] = {"completion", "last", "all", NULL};

static const char *const automatic[] = {"auto", NULL};

static const struct ah_option tokenize_table[] = {
    {"model", 0, AH_OPTION_FILE, "DIR", NULL, FIELD(model),
     "the model's folder with its tokenizer.json, or that file"},
    {"output", 'o', AH_OPTION_FOLDER, "FOLDER", NULL, FIELD(output),
     "write train-00000.bin and its companions here; made if it is missing"},
    {"val", 0, AH_OPTION_REAL, "SHARE", NULL, FIELD(val),
     "hold out this share of the documents, or of the end of each text, 0 to 0.5 (default 0), in "
     "val-00000.bin"},
    {"begin", 0, AH_OPTION_TEXT, "TOKEN", NULL, FIELD(begin),
     "begin each document with this token, by text or number, or with 'none' (default: the tokenizer's own)"},
    {"end", 0, AH_OPTION_TEXT, "TOKEN", NULL, FIELD(end),
     "end each document with this token, by text or number, or with 'none' (default: the tokenizer's own)"},
    {"loss", 0, AH_OPTION_WORD, "WORD", losses, FIELD(loss),
     "learn this of a conversation: what the assistant says (completion), its last answer, or all (default "
     "completion)"},
    {"date", 0, AH_OPTION_TEXT, "DATE", NULL, FIELD(date),
     "the day that a chat template writes, as '26 Jul 2024' (default: today)"},
    {"align", 0, AH_OPTION_COUNT, "SEQ|auto", automatic, FIELD(align),
     "put whole documents into sequences of SEQ tokens, the plan's --seq, and pad them; auto: enough for 99 "
     "of 100 documents that have a prompt, at most 4,096 and the model's positions"},
    {"weight", 0, AH_OPTION_TEXTS, "INPUT=W", NULL, FIELD(weights),
     "take the documents of this INPUT W times: 2.5 takes each twice and half of them once more, 0.5 half of "
     "them "
     "(default 1)"},
    {"seed", 0, AH_OPTION_COUNT, "N", NULL, FIELD(seed),
     "decides which documents the fraction of a weight takes (default 0)"},
    {"shard-tokens", 0, AH_OPTION_COUNT, "N", NULL, FIELD(shard_tokens),
     "begin another file after this many tokens (default 100M)"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* Reads the value of '--begin' or '--end'; UINT32_MAX: none. */
static int read_token(const struct ah_text_tokenizer *tokenizer, const char *option, const char *word,
                      uint32_t *ret_token, struct ah_error *err)
{
    *ret_token = UINT32_MAX;
    if (!strcmp(word, "none"))
        return AH_OK;
    const uint64_t vocabulary = ah_text_tokenizer_vocabulary(tokenizer);
    const bool is_number = *word && word[strspn(word, "0123456789")] == '\0';
    const uint64_t number = is_number ? strtoull(word, NULL, 10) : ah_text_tokenizer_id(tokenizer, word);
    if (number >= vocabulary)
        return ah_error_set(err, AH_E_USAGE,
                            "'%s' '%s' is no token of a vocabulary of %" PRIu64 "; '%s none' adds none",
                            option, word, vocabulary, option);
    *ret_token = (uint32_t)number;
    return AH_OK;
}

/* Finds what stands before and after each document: what was asked for, else the tokenizer's own. A tokenizer without a
 * tokenizer_config.json has one of a few names for its end. */
static int find_ends(const struct ah_text_tokenizer *tokenizer, const struct tokenize_options *options,
                     struct ah_token_files_options *files, struct ah_error *err)
{
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
    int rc = AH_OK;
    files->begin = ah_text_tokenizer_first(tokenizer);
    if (options->begin)
        rc = read_token(tokenizer, "--begin", options->begin, &files->begin, err);
    if (!rc && options->end)
        return read_token(tokenizer, "--end", options->end, &files->end, err);
    rc = rc ? rc : ah_chat_end_token(&files->end, tokenizer, options->model, err);
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !rc && files->end == UINT32_MAX; i++)
        files->end = ah_text_tokenizer_id(tokenizer, ends[i]);
    return rc;
}

static int check_options(const struct ah_cli *cli, const struct tokenize_options *options,
                         struct ah_error *err)
{
    (void)cli;
    if (!options->model)
        return ah_error_set(err, AH_E_USAGE,
                            "'--model' DIR is missing: the folder with the model's tokenizer.json");
    if (!options->output)
        return ah_error_set(err, AH_E_USAGE, "'-o' FOLDER is missing, where the token files go");
    if (options->val.given && options->val.value > 0.5)
        return ah_error_set(err, AH_E_USAGE, "'--val' %g is out of range; give a share from 0 to 0.5",
                            options->val.value);
    const uint64_t shard = options->shard_tokens.given ? options->shard_tokens.value : SHARD_TOKENS;
    if (!shard || shard > SHARD_TOKENS_MOST)
        return ah_error_set(err, AH_E_USAGE,
                            "'--shard-tokens' %" PRIu64 " is out of range; give 1 to %" PRIu64, shard,
                            (uint64_t)SHARD_TOKENS_MOST);
    if (options->align.given && !options->align.word &&
        (options->align.value < 2 || options->align.value > shard))
        return ah_error_set(err, AH_E_USAGE,
                            "'--align' %" PRIu64 " is out of range; give 2 to %" PRIu64
                            ", the tokens of a file",
                            options->align.value, shard);
    return AH_OK;
}

struct tokenizing {
    struct ah_progress progress;
    const atomic_int *stop;
};

static bool show(void *context, uint64_t done_bytes, uint64_t all_bytes)
{
    struct tokenizing *tokenizing = context;
    ah_terminal_draw(&tokenizing->progress, all_bytes ? (double)done_bytes / (double)all_bytes : 1,
                     "tokenizing");
    return !atomic_load(tokenizing->stop);
}

static void say_alignment(struct ah_cli *cli, const char *name, uint64_t seq,
                          const struct ah_token_files_set *set)
{
    ah_buffer_printf(&cli->out, "%s: aligned to %" PRIu64 ": %.1f %% padding", name, seq,
                     100 * (double)set->padding / (double)set->tokens);
    if (set->cut || set->dropped)
        ah_buffer_printf(
            &cli->out,
            "; %" PRIu64 " longer example%s cut, %" PRIu64 " dropped, %" PRIu64 " learned token%s lost",
            set->cut, set->cut == 1 ? "" : "s", set->dropped, set->lost, set->lost == 1 ? "" : "s");
    ah_buffer_puts(&cli->out, "\n");
}

static void put_set(struct ah_cli *cli, struct ah_emit *emit, const struct ah_token_files_options *files,
                    const char *name, const struct ah_token_files_set *set, uint64_t vocabulary)
{
    if (!set->tokens)
        return;
    if (!cli->json) {
        ah_buffer_printf(&cli->out,
                         "%s: %" PRIu64 " tokens, %" PRIu64 " of them learned, %" PRIu64
                         " document%s, vocabulary %" PRIu64 ": %s/%s-*.bin\n",
                         name, set->tokens, set->learned, set->documents, set->documents == 1 ? "" : "s",
                         vocabulary, ah_cli_clean(cli, files->folder), name);
        if (files->align)
            say_alignment(cli, name, files->align, set);
        return;
    }
    ah_emit_open(emit, name, '{');
    ah_emit_integer(emit, "tokens", set->tokens);
    ah_emit_integer(emit, "learned", set->learned);
    ah_emit_integer(emit, "documents", set->documents);
    ah_emit_integer(emit, "files", set->files);
    if (files->align) {
        ah_emit_integer(emit, "padding", set->padding);
        ah_emit_integer(emit, "cut", set->cut);
        ah_emit_integer(emit, "dropped", set->dropped);
        ah_emit_integer(emit, "lost", set->lost);
    }
    ah_emit_close(emit);
}

/* Says what of conversations was unusual. */
static void report_chats(struct ah_cli *cli, struct ah_emit *emit, const struct ah_token_files_options *files,
                         const struct ah_chat_counts *chats)
{
    if (!chats->conversations)
        return;
    const char *name = ah_chat_name(files->chat->chat);
    const char *date = ah_chat_has_date(files->chat->chat) ? files->date : NULL;
    ah_emit_text(emit, "chat_template", name);
    if (date)
        ah_emit_text(emit, "date", date);
    ah_emit_integer(emit, "conversations", chats->conversations);
    ah_emit_integer(emit, "split", chats->split);
    if (!cli->json)
        ah_buffer_printf(&cli->out, "%" PRIu64 " conversation%s, with the chat template '%s'%s%s\n",
                         chats->conversations, chats->conversations == 1 ? "" : "s", name,
                         date ? " and the date " : "", date ? date : "");
    if (chats->split && !cli->json)
        ah_buffer_printf(&cli->out,
                         "%" PRIu64 " of them became a document for each answer, because the template writes "
                         "earlier answers differently\n",
                         chats->split);
    if (chats->special)
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "%" PRIu64 " message%s the text of a special token, which is read as that token",
                    chats->special, chats->special == 1 ? " contains" : "s contain");
    if (chats->apart)
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "%" PRIu64
                    " conversation%s an answer that begins within a token of the whole text; prompt "
                    "and answer were encoded apart, as when the model answers",
                    chats->apart, chats->apart == 1 ? " has" : "s have");
}

static void report_inputs(struct ah_cli *cli, struct ah_emit *emit, const struct ah_mix *mix)
{
    if (cli->json)
        ah_inspect_inputs_json(emit, mix);
    else
        ah_inspect_inputs(cli, mix);
    for (size_t i = 0; i < mix->n; i++)
        if (!mix->inputs[i].train.documents)
            ah_cli_tell(cli, AH_CLI_WARNING, "nothing of '%s' is among the data to train on",
                        mix->inputs[i].path);
}

static void report(struct ah_cli *cli, const struct tokenize_options *options,
                   const struct ah_token_files_options *files, const struct ah_token_files_made *made)
{
    struct ah_emit emit = {.out = cli->json ? &cli->out : NULL};
    const uint64_t vocabulary = ah_text_tokenizer_vocabulary(files->tokenizer);
    if (made->replaced)
        ah_cli_tell(cli, AH_CLI_WARNING, "%" PRIu64 " place%s not UTF-8, and became U+FFFD", made->replaced,
                    made->replaced == 1 ? " was" : "s were");
    if ((double)made->train.lost > lost_much * (double)(made->train.lost + made->train.learned))
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "%.0f %% of the tokens to be learned are lost, since their examples are longer than a "
                    "sequence of "
                    "%" PRIu64 " tokens",
                    100 * (double)made->train.lost / (double)(made->train.lost + made->train.learned),
                    files->align);
    if (made->silent)
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "nothing is learned from %" PRIu64
                    " document%s: without a completion, or without an answer",
                    made->silent, made->silent == 1 ? "" : "s");
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "folder", options->output);
    ah_emit_integer(&emit, "vocabulary", vocabulary);
    if (files->align)
        ah_emit_integer(&emit, "aligned_to", files->align);
    if (files->mix)
        report_inputs(cli, &emit, files->mix);
    report_chats(cli, &emit, files, &made->chats);
    put_set(cli, &emit, files, "train", &made->train, vocabulary);
    put_set(cli, &emit, files, "val", &made->held_out, vocabulary);
    ah_emit_close(&emit);
}

/* Writes today as templates do: "26 Jul 2024". */
static void write_today(char ret_date[DATE_MAX])
{
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t now = time(NULL);
    struct tm today = {0};
    localtime_r(&now, &today);
    snprintf(ret_date, DATE_MAX, "%02d %s %d", today.tm_mday, months[today.tm_mon], today.tm_year + 1900);
}

/* Returns the positions of the model whose config.json is in the folder; UINT64_MAX if there is none. */
static uint64_t positions_of(const char *folder)
{
    struct ah_document model;
    struct ah_error err = {0};
    if (ah_input_load(&model, folder, AH_DOCUMENT_MODEL, &err))
        return UINT64_MAX;
    const uint64_t positions = model.body.model->max_positions;
    ah_document_release(&model);
    return positions;
}

/* Chooses the length of sequences for the inputs. */
static int choose_align(const struct tokenize_options *options, struct ah_token_files_options *files,
                        struct ah_error *err)
{
    struct ah_token_lengths lengths;
    const uint64_t positions = positions_of(options->model);
    const uint64_t most = positions < ALIGN_MOST ? positions : ALIGN_MOST;
    const int rc = ah_token_files_measure(files, &lengths, err);
    uint64_t steps = 0, fit = 0;
    while (steps < AH_LENGTHS - 1 && (double)fit < 0.99 * (double)lengths.documents)
        fit += lengths.by_length[steps++];
    const uint64_t needed = steps * AH_LENGTH_STEP,
                   roomy = 4 * needed < ALIGN_ROOMY ? 4 * needed : ALIGN_ROOMY;
    files->align = !lengths.documents ? ALIGN_TEXT : needed > roomy ? needed : roomy;
    files->align = files->align < most ? files->align : most;
    return rc;
}

/* Sets the weight of an input that the text INPUT=W names. `weighted`: inputs whose weights were given. */
static int read_weight(const char *text, struct ah_mix *mix, bool *weighted, struct ah_error *err)
{
    const char *sign = strrchr(text, '=');
    const size_t length = sign ? (size_t)(sign - text) : 0;
    char *end = NULL;
    if (!length)
        return ah_error_set(err, AH_E_USAGE, "'--weight' '%s' is not INPUT=W, such as 'chats.jsonl=2'", text);
    const bool plain = sign[1] && !sign[1 + strspn(sign + 1, "0123456789.")];
    const double weight = strtod(sign + 1, &end);
    if (!plain || *end || weight > AH_MIX_WEIGHT_MOST)
        return ah_error_set(err, AH_E_USAGE, "'--weight' '%s': '%s' is no number above 0, up to %d", text,
                            sign + 1, AH_MIX_WEIGHT_MOST);
    if (!(weight > 0))
        return ah_error_set(err, AH_E_USAGE,
                            "'--weight' '%s' would take nothing of that INPUT; leave the INPUT out", text);
    bool found = false;
    for (size_t i = 0; i < mix->n; i++) {
        const char *path = mix->inputs[i].path;
        if (strlen(path) != length || memcmp(path, text, length) != 0)
            continue;
        if (weighted[i])
            return ah_error_set(err, AH_E_USAGE, "'--weight' '%s': this INPUT has a weight already", text);
        weighted[i] = found = true;
        mix->inputs[i].weight = weight;
    }
    return found ? AH_OK
                 : ah_error_set(err, AH_E_USAGE,
                                "'--weight' '%s': no INPUT is '%.*s'; write it as among the INPUTs", text,
                                (int)length, text);
}

/* Refuses a file that is given twice, such as by its name and by a pattern: its documents would count twice. */
static int check_inputs(struct ah_cli *cli, struct ah_error *err)
{
    const size_t n = cli->arguments.n_operands;
    struct stat *about = ah_arena_array(&cli->arena, n, sizeof *about);
    if (!about)
        return ah_error_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *path = cli->arguments.operands[i];
        if (stat(path, &about[i]))
            about[i] = (struct stat){0};
        for (size_t j = 0; j < i && S_ISREG(about[i].st_mode); j++)
            if (about[j].st_ino == about[i].st_ino && about[j].st_dev == about[i].st_dev)
                return ah_error_set(err, AH_E_USAGE,
                                    "'%s' is given twice; leave one out, or take its documents twice with "
                                    "'--weight %s=2'",
                                    path, path);
    }
    return AH_OK;
}

/* Reads the weights of all inputs. */
static int read_weights(struct ah_cli *cli, const struct tokenize_options *options, struct ah_mix *ret_mix,
                        struct ah_error *err)
{
    const size_t n = cli->arguments.n_operands;
    struct ah_mix_input *inputs = ah_arena_array(&cli->arena, n, sizeof *inputs);
    bool *weighted = ah_arena_array(&cli->arena, n, sizeof *weighted);
    if (!inputs || !weighted)
        return ah_error_memory(err);
    *ret_mix = (struct ah_mix){options->seed.value, inputs, n};
    for (size_t i = 0; i < n; i++) {
        inputs[i] = (struct ah_mix_input){.path = cli->arguments.operands[i], .weight = 1};
        weighted[i] = false;
    }
    int rc = AH_OK;
    for (size_t i = 0; i < options->weights.n && !rc; i++)
        rc = read_weight(options->weights.items[i], ret_mix, weighted, err);
    return rc;
}

static int tokenize(struct ah_cli *cli, const struct tokenize_options *options, struct ah_mix *mix,
                    struct ah_error *err)
{
    struct tokenizing tokenizing = {.progress = ah_terminal_progress(), .stop = ah_interrupt_catch()};
    struct ah_text_tokenizer *tokenizer = NULL;
    struct ah_chat_model *chat = NULL;
    struct ah_error no_chat = {0};
    struct ah_token_files_made made;
    char today[DATE_MAX];
    int rc = ah_text_tokenizer_open(&tokenizer, options->model, err);
    if (rc)
        return rc;
    write_today(today);
    (void)ah_chat_open(&chat, options->model, &no_chat); /* an error only if there is a conversation */
    struct ah_token_files_options files = {.tokenizer = tokenizer,
                                           .inputs = cli->arguments.operands,
                                           .n_inputs = cli->arguments.n_operands,
                                           .folder = options->output,
                                           .held_out = options->val.value,
                                           .shard_tokens = options->shard_tokens.value,
                                           .align = options->align.value,
                                           .chat = chat,
                                           .no_chat = no_chat.text,
                                           .date = options->date ? options->date : today,
                                           .mix = mix->n > 1 || options->weights.n ? mix : NULL,
                                           .progress = show,
                                           .context = &tokenizing};
    for (int i = 0; options->loss && losses[i]; i++)
        if (!strcmp(options->loss, losses[i]))
            files.loss = (enum ah_chat_loss)i;
    rc = find_ends(tokenizer, options, &files, err);
    files.padding = files.end == UINT32_MAX ? 0 : files.end;
    if (!rc && options->align.word)
        rc = choose_align(options, &files, err);
    rc = rc ? rc : ah_token_files_make(&files, &made, err);
    ah_terminal_erase(&tokenizing.progress);
    if (!rc)
        report(cli, options, &files, &made);
    ah_chat_close(chat);
    ah_text_tokenizer_close(tokenizer);
    return rc;
}

static int tokenize_run(struct ah_cli *cli, const void *given)
{
    const struct tokenize_options *options = given;
    struct ah_error err = {0};
    struct ah_mix mix;
    int rc = check_options(cli, options, &err);
    rc = rc ? rc : check_inputs(cli, &err);
    rc = rc ? rc : read_weights(cli, options, &mix, &err);
    if (rc)
        return ah_cli_fail_usage(cli, &err);
    rc = tokenize(cli, options, &mix, &err);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_tokenize = {
    .name = "tokenize",
    .summary = "make token files out of text or JSON",
    .description =
        "An INPUT that ends in .jsonl, .ndjson or .json has a JSON object a line, or is one array "
        "of objects. Each is a document: 'text', all of which is learned; 'prompt' and "
        "'completion', or Alpaca's 'instruction', 'input' and 'output', where the completion or "
        "output is learned; 'messages' of 'role' and 'content', or ShareGPT's 'conversations' of "
        "'from' and 'value', where what the assistant says is learned, with the end of its turn. Any "
        "other INPUT is text and one document.\n\n"
        "Conversations are written as the model's chat template does. There is no Jinja here: known "
        "templates are found by their digest, and others are refused.\n\n"
        "With --align no answer is trained without its prompt. Text that is longer than SEQ goes on "
        "in further sequences; a longer prompt with its completion is cut, or dropped if nothing "
        "learned is left, and both are counted.\n\n"
        "--weight mixes inputs. W takes every document of an INPUT as often as its whole part says, and its "
        "fraction is the share that is taken once more; below 1, the others are left out. Seed, place of the "
        "INPUT in "
        "the line and number of the document decide which ones, so every run takes the same. A text is one "
        "document; the fraction takes its beginning. What --val holds out is among the documents that are "
        "taken, "
        "and is taken once. With weights or several INPUTs, a table shows what became of each. "
        "FOLDER/inputs.json "
        "keeps it, and 'inspect FOLDER' shows it (with --val: 'inspect FOLDER/train*', in quotes).\n\n"
        "The tokenizer.json must be byte-pair encoding as GPT-2, Llama, Mistral and Qwen have it; "
        "the ids are those of the tokenizers library. Other tokenizers are refused by name; "
        "'autohete-tokenize', which needs Python, reads them, and applies any chat template.\n\n"
        "Files appear only when all are written.",
    .syntax = {.options = tokenize_table, .operands = {AH_OPERAND_FILE, "INPUT", 1, 4096, NULL}},
    .options_bytes = sizeof(struct tokenize_options),
    .examples = {{"tokenize corpus.jsonl --model Qwen2.5-0.5B -o data --val 0.01",
                  "token files, a hundredth held out"},
                 {"tokenize chats.jsonl --model Qwen2.5-0.5B-Instruct -o data --align 1024",
                  "conversations, with the model's chat template"},
                 {"tokenize answers.jsonl --model Qwen2.5-0.5B -o data --align 1024",
                  "whole examples in sequences of 1,024 tokens"},
                 {"tokenize chats.jsonl web.jsonl --weight web.jsonl=0.1 --model Qwen2.5-0.5B -o data",
                  "all chats, and a tenth of the other documents"},
                 {"tokenize book.txt --model llama-3-8b/tokenizer.json -o data --end none",
                  "text, without an end"}},
    .run = tokenize_run,
};
