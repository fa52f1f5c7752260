/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete finetune MODEL DATA... -o OUT: trains a model on data by the verbs that one could have typed. Each is a
 * process of its own and is printed before it runs. OUT/commands.sh has those that are done, so the same line goes on
 * where it was interrupted.
 */
#include "base/file.h"
#include "cli/frame/cache.h"
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/frame/interrupt.h"
#include "cli/verbs.h"
#include "runtime/run/devices.h"
#include "schemas/model.h"
#include "schemas/plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct finetune_options {
    const char *output, *machine, *lora, *loss, *date;
    struct ah_option_list lora_on, train;
    struct ah_option_integer seq, batch, steps, samples, device_memory, host_memory;
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
    {"val", 0, AH_OPTION_REAL, "SHARE", NULL, FIELD(val), "held out of the data (default 0.05; 0: nothing)"},
    {"samples", 0, AH_OPTION_COUNT, "N", NULL, FIELD(samples),
     "answers to show before and after training, to beginnings of the held-out documents (default 2)"},
    {"loss", 0, AH_OPTION_TEXT, "WORD", NULL, FIELD(loss), "as of 'tokenize'"},
    {"date", 0, AH_OPTION_TEXT, "DATE", NULL, FIELD(date), "as of 'tokenize'"},
    {"machine", 0, AH_OPTION_FILE, "MACHINE", NULL, FIELD(machine),
     "as of 'plan' (default: this machine, as measured)"},
    {"device-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, FIELD(device_memory), "as of 'plan'"},
    {"host-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, FIELD(host_memory), "as of 'plan'"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

enum { WORDS_MAX = 4160, BATCH_MOST = 16, STEPS_WANTED = 50, SAMPLES = 2, COMMANDS_BYTES_MAX = 1 << 22 };

/* A command line that is being put together. Texts are in the arena. */
struct command {
    struct ah_arena *arena;
    const char *words[WORDS_MAX + 1];
    size_t n;
    bool failed;
};

struct finetuning {
    struct ah_cli *cli;
    const struct finetune_options *options;
    struct ah_buffer done; /* commands.sh: lines that are done */
    size_t at;             /* in `done`: the next line */
    struct command command;
    struct ah_error *err;
    int status; /* of the command that ended the work */
};

/* ---- command lines ---- */

static void add(struct command *command, const char *format, ...) AH_PRINTF(2, 3);
static void add(struct command *command, const char *format, ...)
{
    char word[PATH_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(word, sizeof word, format, arguments);
    va_end(arguments);
    const char *kept = size < (int)sizeof word ? ah_arena_strdup(command->arena, word) : NULL;
    command->failed |= !kept || command->n >= WORDS_MAX;
    if (!command->failed)
        command->words[command->n++] = kept;
}

static void begin(struct finetuning *tuning, const char *verb)
{
    tuning->command.n = 0;
    tuning->command.failed = false;
    tuning->command.arena = &tuning->cli->arena;
    add(&tuning->command, "autohete");
    add(&tuning->command, "%s", verb);
}

static void add_text(struct command *command, const char *option, const char *value)
{
    if (!value)
        return;
    add(command, "--%s", option);
    add(command, "%s", value);
}

static void add_list(struct command *command, const char *option, const struct ah_option_list *values)
{
    for (size_t i = 0; i < values->n; i++)
        add_text(command, option, values->items[i]);
}

static void add_count(struct command *command, const char *option, const struct ah_option_integer *value)
{
    if (!value->given)
        return;
    add(command, "--%s", option);
    add(command, "%" PRIu64, value->value);
}

static void add_real(struct command *command, const char *option, const struct ah_option_real *value)
{
    if (!value->given)
        return;
    add(command, "--%s", option);
    add(command, "%.10g", value->value);
}

/* Prints the words as a shell reads them. */
static void print_command(const struct command *command, struct ah_buffer *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
    for (size_t i = 0; i < command->n; i++) {
        const char *word = command->words[i];
        ah_buffer_puts(out, i ? " " : "");
        if (*word && !word[strspn(word, plain)]) {
            ah_buffer_puts(out, word);
            continue;
        }
        ah_buffer_puts(out, "'");
        for (; *word; word++)
            ah_buffer_printf(out, *word == '\'' ? "'\\%c'" : "%c", *word);
        ah_buffer_puts(out, "'");
    }
    ah_buffer_puts(out, "\n");
}

/* ---- running them ---- */

/* Waits for the process. If this one is asked to stop, it asks the process, too; a terminal has asked it already, and
 * SIGUSR1 never ends it at once. */
static int wait_for(pid_t child, const atomic_int *stop)
{
    const struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
    int state = 0;
    bool asked = false;
    pid_t ended;
    while ((ended = waitpid(child, &state, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (atomic_load(stop) && !asked)
            kill(child, SIGUSR1);
        asked = atomic_load(stop);
        nanosleep(&nap, NULL);
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/* Runs the command as a process. AH_E_FAILED: it cannot be started, or it failed: then `status` is not 0. */
static int run_process(struct finetuning *tuning)
{
    struct command *command = &tuning->command;
    const atomic_int *stop = ah_interrupt_catch();
    const bool silent = tuning->cli->json || tuning->cli->arguments.quiet;
    posix_spawn_file_actions_t files;
    pid_t child = 0;
    int rc = posix_spawn_file_actions_init(&files);
    command->words[command->n] = NULL;
    if (!rc && silent)
        rc = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    rc = rc ? rc
            : posix_spawn(&child, "/proc/self/exe", &files, NULL, (char *const *)(uintptr_t)command->words,
                          environ);
    posix_spawn_file_actions_destroy(&files);
    if (rc)
        return ah_error_set(tuning->err, AH_E_FAILED, "'autohete %s' cannot be started: %s",
                            command->words[1], strerror(rc));
    tuning->status = wait_for(child, stop);
    return tuning->status ? AH_E_FAILED : AH_OK;
}

static int show_command(struct finetuning *tuning, const char *line, const char *begin_text)
{
    struct ah_cli *cli = tuning->cli;
    if (cli->json || cli->arguments.quiet)
        return AH_OK;
    ah_buffer_printf(&cli->out, "%s%s", begin_text, line);
    return ah_cli_flush(cli, tuning->err);
}

/* Appends the line to commands.sh. */
static int record(struct finetuning *tuning, const char *line)
{
    char path[PATH_MAX];
    if (!tuning->done.size)
        ah_buffer_puts(&tuning->done, "#!/bin/sh\n");
    ah_buffer_puts(&tuning->done, line);
    if (snprintf(path, sizeof path, "%s/commands.sh", tuning->options->output) >= (int)sizeof path ||
        tuning->done.failed)
        return ah_error_memory(tuning->err);
    return ah_file_write(path, tuning->done.data, tuning->done.size, tuning->err);
}

/* Returns whether the next line that is done is this one. AH_E_USAGE: it is another. */
static int check_done(struct finetuning *tuning, const char *line, bool *ret_done)
{
    const char *next = tuning->done.data ? tuning->done.data + tuning->at : "";
    *ret_done = tuning->at < tuning->done.size;
    if (!*ret_done)
        return AH_OK;
    if (!strncmp(next, line, strlen(line))) {
        tuning->at += strlen(line);
        return AH_OK;
    }
    return ah_error_set(
        tuning->err, AH_E_USAGE,
        "'%s' was begun with '%.*s', and this would be '%.*s'; give the same options, or another folder",
        tuning->options->output, (int)strcspn(next, "\n"), next, (int)strcspn(line, "\n"), line);
}

/* Runs the command, unless it is done. */
static int do_command(struct finetuning *tuning)
{
    struct ah_buffer line = {0};
    bool done = false;
    print_command(&tuning->command, &line);
    int rc = tuning->command.failed || line.failed ? ah_error_memory(tuning->err) : AH_OK;
    rc = rc ? rc : check_done(tuning, line.data, &done);
    rc = rc ? rc : show_command(tuning, line.data, done ? "done: " : "$ ");
    if (!rc && !done) {
        rc = run_process(tuning);
        rc = rc ? rc : record(tuning, line.data);
        tuning->at = tuning->done.size;
    }
    ah_buffer_release(&line);
    return rc;
}

/* ---- the parts ---- */

static int tokenize(struct finetuning *tuning)
{
    const struct finetune_options *options = tuning->options;
    const struct ah_arguments *arguments = &tuning->cli->arguments;
    struct command *command = &tuning->command;
    begin(tuning, "tokenize");
    for (size_t i = 1; i < arguments->n_operands; i++)
        add(command, "%s", arguments->operands[i]);
    add_text(command, "model", arguments->operands[0]);
    add(command, "-o");
    add(command, "%s/data", options->output);
    add(command, "--align");
    if (options->seq.given && !options->seq.word)
        add(command, "%" PRIu64, options->seq.value);
    else
        add(command, "auto");
    if (!options->val.given || options->val.value > 0) {
        add(command, "--val");
        add(command, "%.10g", options->val.given ? options->val.value : 0.05);
    }
    add_text(command, "loss", options->loss);
    add_text(command, "date", options->date);
    return do_command(tuning);
}

/* Reads what the token files say: the length of sequences, and how many there are. */
static int read_data(struct finetuning *tuning, uint64_t *ret_seq, uint64_t *ret_sequences)
{
    *ret_seq = *ret_sequences = 0;
    for (unsigned file = 0;; file++) {
        char path[PATH_MAX];
        unsigned char header[40];
        uint64_t tokens = 0, align = 0;
        if (snprintf(path, sizeof path, "%s/data/train-%05u.bin", tuning->options->output, file) >=
            (int)sizeof path)
            return ah_error_memory(tuning->err);
        FILE *in = fopen(path, "re");
        if (!in)
            break;
        const bool good = fread(header, sizeof header, 1, in) == 1;
        fclose(in);
        for (size_t i = 0; i < 8 && good; i++) {
            tokens |= (uint64_t)header[16 + i] << 8 * i;
            align |= (uint64_t)header[32 + i] << 8 * i;
        }
        if (!good || !align)
            return ah_error_set(tuning->err, AH_E_DOCUMENT,
                                "%s: is no file of sequences; remove '%s' and begin again", path,
                                tuning->options->output);
        *ret_seq = align;
        *ret_sequences += tokens / align;
    }
    return *ret_seq ? AH_OK
                    : ah_error_set(tuning->err, AH_E_IO,
                                   "'%s/data' has no token files; remove '%s' and begin again",
                                   tuning->options->output, tuning->options->output);
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
    if (tuning->options->machine || !ah_cache_find(&tuning->cli->arena, &path, &err))
        return AH_OK;
    begin(tuning, "profile");
    add(&tuning->command, "--quick");
    add_text(&tuning->command, "device", has_gpu() ? "cuda" : NULL);
    struct ah_buffer line = {0};
    print_command(&tuning->command, &line);
    int rc = line.failed ? ah_error_memory(tuning->err) : show_command(tuning, line.data, "$ ");
    rc = rc ? rc : run_process(tuning); /* not recorded: it is done when the profile is there */
    ah_buffer_release(&line);
    return rc;
}

static int plan(struct finetuning *tuning, uint64_t seq, uint64_t batch)
{
    const struct finetune_options *options = tuning->options;
    struct command *command = &tuning->command;
    begin(tuning, "plan");
    add(command, "%s", tuning->cli->arguments.operands[0]);
    add(command, "--batch");
    add(command, "%" PRIu64, batch);
    add(command, "--micro-batches");
    add(command, "auto");
    add(command, "--seq");
    add(command, "%" PRIu64, seq);
    add_text(command, "machine", options->machine);
    add_text(command, "lora", options->lora);
    add_list(command, "lora-on", &options->lora_on);
    add_list(command, "train", &options->train);
    add_count(command, "device-memory", &options->device_memory);
    add_count(command, "host-memory", &options->host_memory);
    add(command, "-o");
    add(command, "%s/plan.json", options->output);
    return do_command(tuning);
}

static bool exists(const struct finetuning *tuning, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", tuning->options->output, name) < (int)sizeof path &&
           !access(path, F_OK);
}

/* Trains, or goes on with a training that was interrupted. What is recorded is the line that begins it. */
static int train(struct finetuning *tuning)
{
    const struct finetune_options *options = tuning->options;
    struct command *command = &tuning->command;
    struct ah_buffer line = {0}, resume = {0};
    bool done = false;
    begin(tuning, "run");
    add(command, "%s/plan.json", options->output);
    add_text(command, "weights", tuning->cli->arguments.operands[0]);
    add(command, "--data");
    add(command, "%s/data/train-*.bin", options->output);
    if (exists(tuning, "data/val-00000.bin")) {
        add(command, "--valid");
        add(command, "%s/data/val-*.bin", options->output);
    }
    add_count(command, "steps", &options->steps);
    if (!options->steps.given) {
        add(command, "--epochs");
        add(command, "%.10g", options->epochs.given ? options->epochs.value : 1);
    }
    add_real(command, "lr", &options->lr);
    add(command, "--save");
    add(command, "%s/checkpoints", options->output);
    add(command, "--log");
    add(command, "%s/run.ndjson", options->output);
    add(command, "--force");
    print_command(command, &line);
    int rc = command->failed || line.failed ? ah_error_memory(tuning->err) : AH_OK;
    rc = rc ? rc : check_done(tuning, line.data, &done);
    if (!rc && !done && exists(tuning, "checkpoints/resume.json")) {
        begin(tuning, "run");
        add(command, "%s/plan.json", options->output);
        add(command, "--resume");
        add(command, "%s/checkpoints", options->output);
        add(command, "--log");
        add(command, "%s/run.ndjson", options->output);
    }
    print_command(command, &resume);
    rc = rc ? rc : show_command(tuning, done ? line.data : resume.data, done ? "done: " : "$ ");
    if (!rc && !done) {
        rc = run_process(tuning);
        rc = rc ? rc : record(tuning, line.data);
        tuning->at = tuning->done.size;
    }
    ah_buffer_release(&line);
    ah_buffer_release(&resume);
    return rc;
}

/* ---- samples ---- */

/* Writes the path of the newest checkpoint. Returns false if there is none. */
static bool find_newest(const struct finetuning *tuning, char ret_path[PATH_MAX])
{
    char folder[PATH_MAX];
    unsigned long long newest = 0, step;
    snprintf(folder, sizeof folder, "%s/checkpoints", tuning->options->output);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        int end = 0;
        if (sscanf(entry->d_name, "step-%llu%n", &step, &end) == 1 && !entry->d_name[end] && step > newest)
            newest = step;
    }
    if (entries)
        closedir(entries);
    return newest && snprintf(ret_path, PATH_MAX, "%s/step-%08llu", folder, newest) < PATH_MAX;
}

/* Names the plan's device, unless that is the CPU. */
static int add_device(struct finetuning *tuning)
{
    struct ah_document plan;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/plan.json", tuning->options->output);
    const int rc = ah_document_load(&plan, path, AH_DOCUMENT_PLAN, tuning->err);
    if (rc)
        return rc;
    const enum ah_device_kind kind = plan.body.plan->numeric_signature.device;
    if (kind != AH_DEVICE_CPU)
        add_text(&tuning->command, "device", ah_words_device_kind[kind]);
    ah_document_release(&plan);
    return AH_OK;
}

/* Shows what the model says: the base, or with `newest` the trained one. If it cannot, training goes on without. */
static int show_samples(struct finetuning *tuning, const char *newest)
{
    const struct finetune_options *options = tuning->options;
    const char *base = tuning->cli->arguments.operands[0];
    const char *set = exists(tuning, "data/val-00000.bin") ? "val" : "train";
    const uint64_t count = options->samples.given ? options->samples.value : SAMPLES;
    struct command *command = &tuning->command;
    if (!count)
        return AH_OK;
    begin(tuning, "sample");
    add(command, "%s", newest && !options->lora ? newest : base);
    if (newest && options->lora)
        add_text(command, "adapter", newest);
    add(command, "--data");
    add(command, "%s/data/%s-*.bin", options->output, set);
    add(command, "--count");
    add(command, "%" PRIu64, count);
    add(command, "--max-tokens");
    add(command, "48");
    int rc = add_device(tuning);
    rc = rc ? rc : do_command(tuning);
    if (!rc || !tuning->status || tuning->status >= 128)
        return rc;
    ah_cli_tell(tuning->cli, AH_CLI_NOTE, "there are no samples, as 'autohete sample' ended with %d",
                tuning->status);
    tuning->status = 0;
    struct ah_buffer line = {0};
    print_command(command, &line);
    rc = line.failed ? ah_error_memory(tuning->err) : record(tuning, line.data);
    tuning->at = tuning->done.size;
    ah_buffer_release(&line);
    return rc;
}

/* ---- the whole ---- */

static int check_options(const struct ah_cli *cli, const struct finetune_options *options,
                         struct ah_error *err)
{
    if (!options->output)
        return ah_error_set(err, AH_E_USAGE,
                            "'-o' OUT is missing, the folder for data, plan and checkpoints");
    if (options->steps.given && options->epochs.given)
        return ah_error_set(err, AH_E_USAGE, "'--steps' and '--epochs' both say how long; leave one out");
    struct ah_document model;
    const int rc = ah_input_load(&model, cli->arguments.operands[0], AH_DOCUMENT_MODEL, err);
    if (!rc)
        ah_document_release(&model);
    return rc;
}

static int open_folder(struct finetuning *tuning)
{
    const char *folder = tuning->options->output;
    char path[PATH_MAX];
    if (mkdir(folder, 0777) && errno != EEXIST)
        return ah_error_set(tuning->err, AH_E_IO, "%s: cannot be made: %s", folder, strerror(errno));
    if (!exists(tuning, "commands.sh"))
        return AH_OK;
    snprintf(path, sizeof path, "%s/commands.sh", folder);
    const int rc = ah_file_read(path, COMMANDS_BYTES_MAX, &tuning->done, tuning->err);
    tuning->at = rc ? 0 : strcspn(tuning->done.data, "\n") + 1;
    return rc;
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
    uint64_t seq = 0, sequences = 0;
    char newest[PATH_MAX];
    int rc = open_folder(tuning);
    rc = rc ? rc : tokenize(tuning);
    rc = rc ? rc : read_data(tuning, &seq, &sequences);
    rc = rc ? rc : profile(tuning);
    rc = rc ? rc : plan(tuning, seq, choose_batch(tuning->options, sequences));
    rc = rc ? rc : show_samples(tuning, NULL);
    rc = rc ? rc : train(tuning);
    return rc || !find_newest(tuning, newest) ? rc : show_samples(tuning, newest);
}

static void report(struct finetuning *tuning)
{
    struct ah_cli *cli = tuning->cli;
    const char *folder = tuning->options->output;
    struct ah_emit emit = {.out = cli->json ? &cli->out : NULL};
    if (!cli->json)
        ah_buffer_printf(
            &cli->out,
            "%s/checkpoints has the result; 'autohete report %s/run.ndjson' says where the time went, and "
            "%s/commands.sh how to do it again\n",
            ah_cli_clean(cli, folder), ah_cli_clean(cli, folder), ah_cli_clean(cli, folder));
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "folder", folder);
    ah_emit_open(&emit, "commands", '[');
    for (char *at = strchr(tuning->done.data, '\n') + 1; *at; at = strchr(at, '\n') + 1) {
        const char *line = ah_arena_strndup(&cli->arena, at, strcspn(at, "\n"));
        ah_emit_text(&emit, NULL, line);
    }
    ah_emit_close(&emit);
    ah_emit_close(&emit);
}

static int finetune_run(struct ah_cli *cli, const void *given)
{
    struct ah_error err = {0};
    struct finetuning tuning = {.cli = cli, .options = given, .err = &err};
    int rc = check_options(cli, given, &err);
    if (rc)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : ah_cli_fail(cli, &err);
    rc = finetune(&tuning);
    if (!rc)
        report(&tuning);
    ah_buffer_release(&tuning.done);
    if (!rc || !tuning.status)
        return rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
    ah_cli_tell(cli, AH_CLI_NOTE, "'autohete %s' ended with %d; the same 'finetune' goes on from here",
                tuning.command.words[1], tuning.status);
    return tuning.status;
}

const struct ah_verb ah_verb_finetune = {
    .name = "finetune",
    .summary = "train a model on data, from one line",
    .description =
        "MODEL is a folder with config.json, safetensors and a tokenizer.json, DATA are text or JSON as for "
        "'tokenize'. The work is done by the verbs 'tokenize', 'profile' (if this machine has no profile), "
        "'plan', 'sample' and 'run'. Each is printed as one could have typed it, and OUT/commands.sh keeps "
        "those that "
        "are done.\n\n"
        "Sequences are as long as 99 of 100 documents with a prompt need. A twentieth of the documents is "
        "held out; its loss is measured before the first step and at the end.\n\n"
        "If it is interrupted, or a part fails, the same line goes on where it ended. With other options it "
        "is refused, since OUT has what the first ones made.",
    .syntax = {.options = finetune_table, .operands = {AH_OPERAND_FILE, "MODEL DATA", 2, 4096, NULL}},
    .options_bytes = sizeof(struct finetune_options),
    .examples = {{"finetune Qwen2.5-0.5B-Instruct chats.jsonl -o out", "train all weights, on this machine"},
                 {"finetune Qwen2.5-7B-Instruct chats.jsonl -o out --lora rank=16 --device-memory 12GiB",
                  "train adapters, within 12 GiB"}},
    .run = finetune_run,
};
