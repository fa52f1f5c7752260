/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete finetune MODEL DATA... -o OUT: trains a model on data by the verbs that one could have typed. Each is a
 * process of its own and is printed before it runs. OUT/commands.sh has those that are done, so the same line goes on
 * where it was interrupted.
 */
#include "cli/frame/cache.h"
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/frame/lines.h"
#include "cli/run/run_samples.h"
#include "cli/verbs.h"
#include "runtime/run/devices.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/data/dataset.h"
#include "schemas/model.h"
#include "schemas/plan.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct finetune_options {
    const char *output, *machine, *lora, *loss, *date;
    struct ah_option_list lora_on, train, weights;
    struct ah_option_integer seq, batch, steps, save_every, samples, device_memory, host_memory;
    struct ah_option_real epochs, lr, val;
};

#define FIELD(name) offsetof(struct finetune_options, name)

static const char *const automatic[] = {"auto", NULL};

static const struct ah_option finetune_table[] = {
    {"output", 'o', AH_OPTION_FOLDER, "OUT", NULL, FIELD(output),
     "put data, plan, log and checkpoints into this folder"},
    {"lora", 0, AH_OPTION_TEXT, "rank=R,alpha=A", NULL, FIELD(lora),
     "train adapters beside the frozen model (default: the model itself)"},
    {"lora-on", 0, AH_OPTION_TEXTS, "PATTERN", NULL, FIELD(lora_on), "as of 'plan'"},
    {"train", 0, AH_OPTION_TEXTS, "PATTERN", NULL, FIELD(train), "as of 'plan'"},
    {"seq", 0, AH_OPTION_COUNT, "N|auto", automatic, FIELD(seq),
     "tokens of a sequence (default auto, from the data)"},
    {"batch", 0, AH_OPTION_COUNT, "N|auto", automatic, FIELD(batch),
     "sequences of a step (default auto: 50 steps an epoch if the data allow, at most 16)"},
    {"epochs", 0, AH_OPTION_REAL, "X", NULL, FIELD(epochs), "passes through the data (default 1)"},
    {"steps", 0, AH_OPTION_COUNT, "N", NULL, FIELD(steps), "steps, instead of --epochs"},
    {"lr", 0, AH_OPTION_REAL, "X", NULL, FIELD(lr), "as of 'run'"},
    {"save-every", 0, AH_OPTION_COUNT, "N", NULL, FIELD(save_every),
     "save every this many steps, so that a run that is killed goes on from there (default: ten times, but "
     "not more "
     "often than every 50 steps; 0: only at the end)"},
    {"val", 0, AH_OPTION_REAL, "SHARE", NULL, FIELD(val), "held out of the data (default 0.05; 0: nothing)"},
    {"samples", 0, AH_OPTION_COUNT, "N", NULL, FIELD(samples),
     "answers to show before and after training, to beginnings of the held-out documents (default 2)"},
    {"weight", 0, AH_OPTION_TEXTS, "DATA=W", NULL, FIELD(weights), "as of 'tokenize'"},
    {"loss", 0, AH_OPTION_TEXT, "WORD", NULL, FIELD(loss), "as of 'tokenize'"},
    {"date", 0, AH_OPTION_TEXT, "DATE", NULL, FIELD(date), "as of 'tokenize'"},
    {"machine", 0, AH_OPTION_FILE, "MACHINE", NULL, FIELD(machine),
     "as of 'plan' (default: this machine, as measured)"},
    {"device-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, FIELD(device_memory), "as of 'plan'"},
    {"host-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, FIELD(host_memory), "as of 'plan'"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

/* in OUT: what the model says before and after the training */
#define BEFORE "samples-before.json"
#define AFTER  "samples-after.json"

enum {
    BATCH_MOST = 16,
    STEPS_WANTED = 50,
    SAMPLES = 2,
    SAMPLES_MOST = 256,
    SAVES = 10,
    SAVE_STEPS_LEAST = 50
};

struct finetuning {
    const struct finetune_options *options;
    const char *model; /* the operand */
    struct ah_lines lines;
    char newest[PATH_MAX]; /* the checkpoint that is the result */
};

/* ---- the parts ---- */

/* Warns of data that are newer than what was made of them, which is not made again. */
static void check_age(const struct finetuning *tuning)
{
    const struct ah_arguments *arguments = &tuning->lines.cli->arguments;
    char made[PATH_MAX];
    struct stat of_made, of_data;
    snprintf(made, sizeof made, "%s/data/train-00000.bin", tuning->options->output);
    for (size_t i = 1; i < arguments->n_operands && !stat(made, &of_made); i++)
        if (!stat(arguments->operands[i], &of_data) && of_data.st_mtime > of_made.st_mtime)
            ah_cli_tell(tuning->lines.cli, AH_CLI_WARNING,
                        "'%s' was changed after '%s/data' was made of it, and this training goes on without "
                        "the changes; "
                        "name another folder to train on them",
                        arguments->operands[i], tuning->options->output);
}

static int tokenize(struct finetuning *tuning)
{
    const struct finetune_options *options = tuning->options;
    const struct ah_arguments *arguments = &tuning->lines.cli->arguments;
    struct ah_lines *lines = &tuning->lines;
    ah_lines_begin(lines, "tokenize");
    for (size_t i = 1; i < arguments->n_operands; i++)
        ah_lines_add(lines, "%s", arguments->operands[i]);
    ah_lines_list(lines, "weight", &options->weights);
    ah_lines_text(lines, "model", arguments->operands[0]);
    ah_lines_add(lines, "-o");
    ah_lines_add(lines, "%s/data", options->output);
    ah_lines_add(lines, "--align");
    if (options->seq.given && !options->seq.word)
        ah_lines_add(lines, "%" PRIu64, options->seq.value);
    else
        ah_lines_add(lines, "auto");
    if (!options->val.given || options->val.value > 0) {
        ah_lines_add(lines, "--val");
        ah_lines_add(lines, "%.10g", options->val.given ? options->val.value : 0.05);
    }
    ah_lines_text(lines, "loss", options->loss);
    ah_lines_text(lines, "date", options->date);
    check_age(tuning);
    return ah_lines_do(lines);
}

/* Reads what the token files say: the length of sequences, and how many there are. */
static int read_data(struct finetuning *tuning, uint64_t *ret_seq, uint64_t *ret_sequences)
{
    char pattern[PATH_MAX];
    const char *path = pattern;
    struct ah_dataset *data;
    const struct ah_dataset_options options = {.paths = &path, .n_paths = 1, .vocabulary = UINT32_MAX};
    if (snprintf(pattern, sizeof pattern, "%s/data/train-*.bin", tuning->options->output) >=
        (int)sizeof pattern)
        return ah_error_memory(tuning->lines.err);
    const int rc = ah_dataset_open(&data, &options, tuning->lines.err);
    if (rc)
        return rc;
    const struct ah_dataset_facts *facts = ah_dataset_facts(data);
    const uint64_t align = facts->align, tokens = facts->tokens;
    ah_dataset_close(data);
    if (!align)
        return ah_error_set(tuning->lines.err, AH_E_DOCUMENT,
                            "'%s' has no sequences of one length; remove '%s' and begin again", pattern,
                            tuning->options->output);
    *ret_seq = align;
    *ret_sequences = tokens / align;
    return AH_OK;
}

static bool has_gpu(void)
{
    const struct ah_device_driver *driver;
    struct ah_device_info info;
    struct ah_error err = {0};
    uint32_t index;
    size_t n = 0;
    return !ah_devices_find("cuda", &driver, &index, &err) && !driver->probe(&info, 1, &n, &err) && n;
}

static int profile(struct finetuning *tuning)
{
    struct ah_error err = {0};
    const char *path;
    if (tuning->options->machine || !ah_cache_find(&tuning->lines.cli->arena, &path, &err))
        return AH_OK;
    ah_lines_begin(&tuning->lines, "profile");
    ah_lines_add(&tuning->lines, "--quick");
    ah_lines_text(&tuning->lines, "device", has_gpu() ? "cuda" : NULL);
    return ah_lines_run(&tuning->lines);
}

static int plan(struct finetuning *tuning, uint64_t seq, uint64_t batch)
{
    const struct finetune_options *options = tuning->options;
    struct ah_lines *lines = &tuning->lines;
    ah_lines_begin(lines, "plan");
    ah_lines_add(lines, "%s", tuning->model);
    ah_lines_add(lines, "--batch");
    ah_lines_add(lines, "%" PRIu64, batch);
    ah_lines_add(lines, "--micro-batches");
    ah_lines_add(lines, "auto");
    ah_lines_add(lines, "--seq");
    ah_lines_add(lines, "%" PRIu64, seq);
    ah_lines_text(lines, "machine", options->machine);
    ah_lines_text(lines, "lora", options->lora);
    ah_lines_list(lines, "lora-on", &options->lora_on);
    ah_lines_list(lines, "train", &options->train);
    ah_lines_count(lines, "device-memory", &options->device_memory);
    ah_lines_count(lines, "host-memory", &options->host_memory);
    ah_lines_add(lines, "-o");
    ah_lines_add(lines, "%s/plan.json", options->output);
    return ah_lines_do(lines);
}

/* Writes the folder of the newest whole checkpoint; "" if nothing was saved yet. AH_E_IO, AH_E_DOCUMENT: there are only
 * broken ones. */
static int find_newest(struct finetuning *tuning, char ret_path[PATH_MAX])
{
    struct ah_checkpoints_found found;
    struct ah_error err = {0};
    char folder[PATH_MAX];
    *ret_path = '\0';
    if (!ah_lines_has(&tuning->lines, "checkpoints"))
        return AH_OK;
    if (snprintf(folder, sizeof folder, "%s/checkpoints", tuning->options->output) >= (int)sizeof folder)
        return ah_error_memory(tuning->lines.err);
    const int rc = ah_checkpoints_find(folder, &found, &err);
    if (rc)
        return ah_error_set(tuning->lines.err, rc, "%s; remove '%s' to begin the training again", err.text,
                            folder);
    memcpy(ret_path, found.path, sizeof found.path);
    return AH_OK;
}

static uint64_t save_every(const struct finetune_options *options, uint64_t sequences, uint64_t batch)
{
    const double epochs = options->epochs.given ? options->epochs.value : 1;
    const double steps = options->steps.given ? (double)options->steps.value
                                              : ceil(epochs * (double)sequences / (double)batch);
    if (options->save_every.given)
        return options->save_every.value;
    return (uint64_t)fmin(fmax(ceil(steps / SAVES), SAVE_STEPS_LEAST), 1e9);
}

/* Trains, or goes on with a training that was interrupted. What is recorded is the line that begins it. */
static int train(struct finetuning *tuning, uint64_t every)
{
    const struct finetune_options *options = tuning->options;
    struct ah_lines *lines = &tuning->lines;
    char newest[PATH_MAX];
    bool done;
    int rc = find_newest(tuning, newest);
    if (rc)
        return rc;
    ah_lines_begin(lines, "run");
    ah_lines_add(lines, "%s/plan.json", options->output);
    ah_lines_text(lines, "weights", tuning->model);
    ah_lines_add(lines, "--data");
    ah_lines_add(lines, "%s/data/train-*.bin", options->output);
    if (ah_lines_has(lines, "data/val-00000.bin")) {
        ah_lines_add(lines, "--valid");
        ah_lines_add(lines, "%s/data/val-*.bin", options->output);
    }
    ah_lines_count(lines, "steps", &options->steps);
    if (!options->steps.given) {
        ah_lines_add(lines, "--epochs");
        ah_lines_add(lines, "%.10g", options->epochs.given ? options->epochs.value : 1);
    }
    ah_lines_real(lines, "lr", &options->lr);
    ah_lines_add(lines, "--save");
    ah_lines_add(lines, "%s/checkpoints", options->output);
    if (every) {
        ah_lines_add(lines, "--save-every");
        ah_lines_add(lines, "%" PRIu64, every);
    }
    ah_lines_add(lines, "--keep");
    ah_lines_add(lines, "1");
    ah_lines_add(lines, "--log");
    ah_lines_add(lines, "%s/run.ndjson", options->output);
    ah_lines_add(lines, "--force");
    rc = ah_lines_goes_on(lines, *newest, &done);
    if (rc)
        return rc;
    if (!done && *newest) {
        ah_lines_begin(lines, "run");
        ah_lines_add(lines, "%s/plan.json", options->output);
        ah_lines_add(lines, "--resume");
        ah_lines_add(lines, "%s/checkpoints", options->output);
        ah_lines_add(lines, "--log");
        ah_lines_add(lines, "%s/run.ndjson", options->output);
    }
    return ah_lines_do(lines);
}

/* ---- samples ---- */

/* Names the plan's device and the memory that it may take, unless it is the CPU. */
static int add_device(struct finetuning *tuning)
{
    struct ah_document plan;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/plan.json", tuning->options->output);
    const int rc = ah_document_load(&plan, path, AH_DOCUMENT_PLAN, tuning->lines.err);
    if (rc)
        return rc;
    const enum ah_device_kind kind = plan.body.plan->numeric_signature.device;
    if (kind != AH_DEVICE_CPU) {
        ah_lines_text(&tuning->lines, "device", ah_words_device_kind[kind]);
        ah_lines_count(&tuning->lines, "device-memory", &tuning->options->device_memory);
    }
    ah_document_release(&plan);
    return AH_OK;
}

/* Shows what the model says: the base, or with `newest` the trained one. If it cannot, training goes on without. */
static int show_samples(struct finetuning *tuning, const char *newest)
{
    const struct finetune_options *options = tuning->options;
    const char *base = tuning->model;
    const char *set = ah_lines_has(&tuning->lines, "data/val-00000.bin") ? "val" : "train";
    const uint64_t count = options->samples.given ? options->samples.value : SAMPLES;
    struct ah_lines *lines = &tuning->lines;
    if (!count)
        return AH_OK;
    ah_lines_begin(lines, "sample");
    ah_lines_add(lines, "%s", newest && !options->lora ? newest : base);
    if (newest && options->lora)
        ah_lines_text(lines, "adapter", newest);
    ah_lines_add(lines, "--data");
    ah_lines_add(lines, "%s/data/%s-*.bin", options->output, set);
    ah_lines_add(lines, "--count");
    ah_lines_add(lines, "%" PRIu64, count);
    ah_lines_add(lines, "--max-tokens");
    ah_lines_add(lines, "48");
    ah_lines_add(lines, "-o");
    ah_lines_add(lines, "%s/%s", options->output, newest ? AFTER : BEFORE);
    const int rc = add_device(tuning);
    return rc ? rc : ah_lines_try(lines);
}

/* Adds what was said before and after the training to its log. */
static void log_samples(struct finetuning *tuning)
{
    static const struct {
        const char *name;
        uint64_t step;
    } rows[] = {{BEFORE, 0}, {AFTER, UINT64_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char log[PATH_MAX], answers[PATH_MAX];
        struct ah_error err = {0};
        snprintf(log, sizeof log, "%s/run.ndjson", tuning->options->output);
        snprintf(answers, sizeof answers, "%s/%s", tuning->options->output, rows[i].name);
        if (ah_lines_has(&tuning->lines, rows[i].name) &&
            ah_run_samples_add(tuning->lines.cli, log, answers, rows[i].step, &err))
            ah_cli_tell(tuning->lines.cli, AH_CLI_WARNING, "the log lacks samples: %s", err.text);
    }
}

/* ---- the whole ---- */

static int check_options(const struct ah_cli *cli, const struct finetune_options *options,
                         struct ah_error *err)
{
    if (!options->output)
        return ah_error_set(err, AH_E_USAGE,
                            "'-o' OUT is missing, the folder for data, plan and checkpoints");
    if (strpbrk(options->output, "*?["))
        return ah_error_set(
            err, AH_E_USAGE,
            "'-o' '%s' has '*', '?' or '[', which mean something in patterns of files; give another name",
            options->output);
    if (*options->output == '-')
        return ah_error_set(err, AH_E_USAGE, "'-o' '%s' begins with '-'; write './%s'", options->output,
                            options->output);
    if ((options->steps.given && !options->steps.value) ||
        (options->epochs.given && !(options->epochs.value > 0)))
        return ah_error_set(err, AH_E_USAGE, "'--%s' must be above 0",
                            options->steps.given ? "steps" : "epochs");
    if (options->samples.given && options->samples.value > SAMPLES_MOST)
        return ah_error_set(err, AH_E_USAGE, "'--samples' is at most %d", (int)SAMPLES_MOST);
    if (options->steps.given && options->epochs.given)
        return ah_error_set(err, AH_E_USAGE, "'--steps' and '--epochs' both say how long; leave one out");
    const char *folder = cli->arguments.operands[0];
    struct stat about;
    struct ah_document model;
    const int rc = ah_input_load(&model, folder, AH_DOCUMENT_MODEL, err);
    if (rc) {
        ah_input_add_hub(folder, err);
        return rc;
    }
    ah_document_release(&model);
    if (stat(folder, &about) || !S_ISDIR(about.st_mode))
        return ah_error_set(err, AH_E_USAGE,
                            "'%s' is no folder; give a model's folder, with config.json, safetensors and a "
                            "tokenizer.json",
                            folder);
    struct stat output;
    if (!stat(options->output, &output) && output.st_dev == about.st_dev && output.st_ino == about.st_ino)
        return ah_error_set(err, AH_E_USAGE, "'-o' '%s' is the model's own folder; name a new one",
                            options->output);
    return AH_OK;
}

static uint64_t choose_batch(const struct finetune_options *options, uint64_t sequences)
{
    uint64_t batch = 1;
    if (options->batch.given && !options->batch.word)
        return options->batch.value;
    while (2 * batch <= BATCH_MOST && 2 * batch * STEPS_WANTED <= sequences)
        batch *= 2;
    return batch;
}

static int finetune(struct finetuning *tuning)
{
    uint64_t seq = 0, sequences = 0, batch = 0;
    int rc = tokenize(tuning);
    rc = rc ? rc : read_data(tuning, &seq, &sequences);
    if (!rc)
        batch = choose_batch(tuning->options, sequences);
    rc = rc ? rc : profile(tuning);
    rc = rc ? rc : plan(tuning, seq, batch);
    rc = rc ? rc : show_samples(tuning, NULL);
    rc = rc ? rc : train(tuning, save_every(tuning->options, sequences, batch));
    rc = rc ? rc : find_newest(tuning, tuning->newest);
    rc = rc || !*tuning->newest ? rc : show_samples(tuning, tuning->newest);
    if (!rc)
        log_samples(tuning);
    return rc;
}

static void report(struct finetuning *tuning)
{
    struct ah_cli *cli = tuning->lines.cli;
    const char *folder = tuning->options->output;
    struct ah_emit emit = {.out = cli->json ? &cli->out : NULL};
    if (!cli->json)
        ah_buffer_printf(&cli->out,
                         "%s is the result; 'autohete report %s/run.ndjson' says where the time went, and "
                         "%s/commands.sh how to "
                         "do it again\n",
                         ah_cli_clean(cli, tuning->newest), ah_cli_clean(cli, folder),
                         ah_cli_clean(cli, folder));
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "folder", folder);
    ah_emit_text(&emit, "result", tuning->newest);
    ah_emit_open(&emit, "commands", '[');
    for (char *at = strchr(tuning->lines.done.data, '\n') + 1; *at; at = strchr(at, '\n') + 1) {
        const char *line = ah_arena_strndup(&cli->arena, at, strcspn(at, "\n"));
        ah_emit_text(&emit, NULL, line);
    }
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static int finetune_run(struct ah_cli *cli, const void *given)
{
    struct ah_error err = {0};
    struct finetuning tuning = {.options = given, .model = cli->arguments.operands[0]};
    int rc = check_options(cli, given, &err);
    rc = rc ? rc : ah_lines_open(&tuning.lines, cli, tuning.options->output, &err);
    rc = rc ? rc : finetune(&tuning);
    if (!rc)
        report(&tuning);
    const int status = tuning.lines.status;
    if (rc && status)
        ah_cli_tell(
            cli, AH_CLI_NOTE,
            status >= AH_LINES_SIGNALLED
                ? "'autohete %s' ended with %d; 'finetune' goes on from here, with the same line"
                : "'autohete %s' ended with %d; what is done before is kept. When this is mended, the same "
                  "line goes on from here; other options need another folder",
            tuning.lines.words[1], status);
    ah_lines_close(&tuning.lines);
    if (!rc || status)
        return status;
    return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
}

const struct ah_verb ah_verb_finetune = {
    .name = "finetune",
    .summary = "train a model on data, from one line",
    .description =
        "MODEL is a folder with config.json, safetensors and a tokenizer.json, DATA are text or JSON as for "
        "'tokenize'. The work is done by the verbs 'tokenize', 'profile' (if this machine has no profile), "
        "'plan', 'sample' and 'run'. Each is printed as one could have typed it, and OUT/commands.sh keeps "
        "those that are done.\n\n"
        "Sequences are as long as 99 of 100 documents with a prompt need. A twentieth of the documents is "
        "held out; its loss is measured before the first step and at the end.\n\n"
        "If it is interrupted, or a part fails, the same line goes on where it ended; if it is killed, from "
        "the last "
        "checkpoint. With other options it is refused, since OUT has what the first ones made.",
    .syntax = {.options = finetune_table, .operands = {AH_OPERAND_FILE, "MODEL DATA", 2, 4096, NULL}},
    .options_bytes = sizeof(struct finetune_options),
    .examples = {{"finetune Qwen2.5-0.5B-Instruct chats.jsonl -o out", "train all weights, on this machine"},
                 {"finetune Qwen2.5-7B-Instruct chats.jsonl -o out --lora rank=16 --device-memory 12GiB",
                  "train adapters, within 12 GiB"}},
    .run = finetune_run,
};
