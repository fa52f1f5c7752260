/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete profile: measures the machine, then saves and shows the document.
 *
 * The document is written to `-o FILE`, `-o -` (standard output), the file of `--onto`, or otherwise the cache
 * (cache.h). A profile that emulates another machine does not describe this machine, so it is saved only with -o.
 * Before measuring for minutes, the verb checks that the file can be written and that the training is possible.
 *
 * `--model` adds blocks to a profile: to that of `--onto`, to that in the cache if it would be written, or otherwise to
 * a new profile.
 */
#include "cli/frame/cache.h"
#include "cli/frame/input.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/outputs.h"
#include "cli/inspect/inspect.h"
#include "cli/plan/request.h"
#include "cli/profile/profile_hosts.h"
#include "cli/run/stall.h"
#include "cli/verbs.h"
#include "profiler/processor_load.h"
#include "profiler/profiler.h"
#include "runtime/run/devices.h"

#include <string.h>
#include <unistd.h>

struct profile_options {
    struct ah_request_options training; /* batch, micro-batches, seq, dtype, freeze */
    const char *model;
    const char *onto;
    const char *output;
    bool force;
    const char *device;
    const char *emulate;
    bool quick;
    bool verbose;
    const char *hosts;
    bool node;
    struct ah_option_real stall_after;
};

static const char *const replaced_machines[] = {"machine", "cluster", NULL};

static const struct ah_option profile_table[] = {
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", replaced_machines, offsetof(struct profile_options, output),
     "write the document here, not into the cache ('-': to standard output); an existing profile is "
     "replaced"},
    AH_OUTPUT_FORCE_ROW(struct profile_options),
    {"device", 0, AH_OPTION_TEXT, "DEVICE", ah_devices_words, offsetof(struct profile_options, device),
     "the device to measure (default cpu), with an index if there are several (cuda:1)"},
    {"emulate", 0, AH_OPTION_FILE, "MACHINE", ah_input_machines, offsetof(struct profile_options, emulate),
     "slow the copy and host lanes to the ratios of this machine: a document, or built in"},
    {"quick", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct profile_options, quick),
     "fewer shapes and samples: under 20 seconds instead of under 3 minutes"},
    {"verbose", 'v', AH_OPTION_FLAG, NULL, NULL, offsetof(struct profile_options, verbose),
     "show every measurement, as 'inspect' does"},
    {"model", 0, AH_OPTION_FILE, "MODEL", NULL, offsetof(struct profile_options, model),
     "also measure the blocks of this model as training steps run them, and add them to the kept profile"},
    {"onto", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(struct profile_options, onto),
     "with --model: add the blocks to this profile of this machine instead"},
    {"batch", 0, AH_OPTION_COUNT, "N", NULL, AH_REQUEST_FIELD(batch), "with --model: as in 'plan'"},
    {"micro-batches", 0, AH_OPTION_COUNT, "N", NULL, AH_REQUEST_FIELD(micro_batches),
     "with --model: as in 'plan'"},
    {"seq", 0, AH_OPTION_COUNT, "N", NULL, AH_REQUEST_FIELD(seq), "with --model: as in 'plan'"},
    {"dtype", 0, AH_OPTION_WORD, "DTYPE", ah_words_dtype, AH_REQUEST_FIELD(dtype),
     "with --model: as in 'plan'"},
    {"freeze", 0, AH_OPTION_TEXTS, "PATTERNS", NULL, AH_REQUEST_FIELD(freeze), "with --model: as in 'plan'"},
    {"lora", 0, AH_OPTION_TEXT, "rank=N,alpha=X", NULL, AH_REQUEST_FIELD(lora), "with --model: as in 'plan'"},
    {"lora-on", 0, AH_OPTION_TEXTS, "PATTERNS", NULL, AH_REQUEST_FIELD(lora_on),
     "with --model: as in 'plan'"},
    {"train", 0, AH_OPTION_TEXTS, "PATTERNS", NULL, AH_REQUEST_FIELD(train), "with --model: as in 'plan'"},
    {"hosts", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(struct profile_options, hosts),
     "measure these machines (one a line: name slots=N) and the links between them; writes a cluster "
     "document"},
    {"node", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct profile_options, node),
     "internal: what '--hosts' starts on each host through mpirun"},
    AH_STALL_OPTION(offsetof(struct profile_options, stall_after)),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct profile {
    struct ah_cli *cli;
    const struct profile_options *options;
    const struct ah_device_driver *driver;
    uint32_t index;
    const char *path; /* file to write; NULL: none */
    const char *base; /* profile to add blocks to; NULL: a new one */
    struct ah_document emulated;
    struct ah_document measured;
    ah_profiler_progress *progress; /* NULL: progress is a line on the terminal */
    void *progress_context;
    struct ah_request request; /* for the model's training */
    struct ah_job job;
};

static bool to_stdout(const struct profile_options *options)
{
    return options->output && !strcmp(options->output, "-");
}

static int check_options(const struct profile_options *options, struct ah_error *err)
{
    const struct ah_request_options *training = &options->training;
    bool of_training = training->batch.given || training->micro_batches.given || training->seq.given ||
                       training->dtype || training->freeze.n || training->lora || training->lora_on.n ||
                       training->train.n || options->onto;
    if (!options->model && of_training)
        return ah_error_set(err, AH_E_USAGE,
                            "'--onto', '--batch', '--micro-batches', '--seq', '--dtype', '--freeze', "
                            "'--lora', '--lora-on' and "
                            "'--train' apply to the blocks of a model: name it with '--model'");
    if ((options->hosts || options->node) && (options->model || options->verbose))
        return ah_error_set(err, AH_E_USAGE,
                            "'--hosts' writes a cluster document, which holds no blocks or single "
                            "measurements; leave '--%s' out",
                            options->model ? "model" : "verbose");
    if (options->node && (options->hosts || options->output))
        return ah_error_set(err, AH_E_USAGE, "'--node' is used by '--hosts' internally; leave it out");
    if (options->onto && options->emulate)
        return ah_error_set(err, AH_E_USAGE,
                            "'--onto' cannot be combined with '--emulate'; leave '--emulate' out");
    return AH_OK;
}

static int choose_cached(struct profile *profile, struct ah_error *err)
{
    int rc = ah_cache_path(profile->options->device, &profile->cli->arena, &profile->path, err);
    if (!rc && profile->options->model && access(profile->path, F_OK) == 0)
        profile->base = profile->path;
    return rc ? rc : ah_cache_make_folder(profile->path, err);
}

static int choose_path(struct profile *profile, struct ah_error *err)
{
    const struct profile_options *options = profile->options;
    int rc = AH_OK;
    profile->base = options->onto;
    if (to_stdout(options) || (options->emulate && !options->output))
        return AH_OK;
    if (options->output)
        profile->path = options->output;
    else if (options->onto)
        profile->path = options->onto;
    else
        rc = choose_cached(profile, err);
    return rc ? rc : ah_outputs_check_writable(profile->path, err);
}

static void show_progress(void *context, double fraction, const char *what)
{
    ah_terminal_draw(context, fraction, what);
}

/* Reads the training of the blocks to measure (sizes, types, trained tensors), for the profiled device. */
static int read_job(struct profile *profile, struct ah_error *err)
{
    enum { DEVICES_MAX = 64 };
    struct ah_device_info infos[DEVICES_MAX] = {0};
    struct ah_request *request = &profile->request;
    size_t n = 0;
    int rc = ah_input_load(&request->model, profile->options->model, AH_DOCUMENT_MODEL, err);
    rc = rc ? rc : profile->driver->probe(infos, DEVICES_MAX, &n, err);
    if (rc)
        return rc;
    const struct ah_device_info *info = &infos[profile->index < DEVICES_MAX ? profile->index : 0];
    struct ah_machine machine = {.device = {.name = info->name, .bf16 = info->bf16}};
    request->machine.body.machine = &machine;
    rc = ah_request_training(request, profile->cli, &profile->options->training, err);
    request->machine.body.machine = NULL;
    return rc ? rc
              : ah_job_init(&profile->job, request->model.body.model, &request->planner.training,
                            &profile->cli->arena, err);
}

static int measure_machine(struct profile *profile, struct ah_error *err)
{
    struct ah_progress progress = ah_terminal_progress();
    struct ah_profiler_options options = {
        .driver = profile->driver,
        .device_index = profile->index,
        .quick = profile->options->quick,
        .emulate = profile->emulated.body.machine,
        .job = &profile->job,
        .progress = profile->progress ? profile->progress : show_progress,
        .progress_context = profile->progress ? profile->progress_context : &progress,
        .watch = ah_stall_watch(profile->cli, &profile->options->stall_after),
        .cancel = ah_interrupt_catch()};
    int rc = profile->base ? ah_document_load(&profile->measured, profile->base, AH_DOCUMENT_MACHINE, err)
                           : ah_profiler_run(&profile->measured, &options, err);
    if (!rc && profile->options->model)
        rc = ah_profiler_extend(&profile->measured, &options, err);
    ah_terminal_erase(&progress);
    return rc;
}

/* ---- several machines ---- */

/* Measures this machine as one of several hosts, and appends its document to `out`. */
static int measure_node(void *context, ah_profiler_progress *progress, void *progress_context,
                        struct ah_buffer *out, struct ah_error *err)
{
    struct profile *profile = context;
    const struct profile_options *options = profile->options;
    profile->progress = progress;
    profile->progress_context = progress_context;
    int rc = ah_devices_find(options->device, &profile->driver, &profile->index, err);
    if (!rc && options->emulate)
        rc = ah_input_load(&profile->emulated, options->emulate, AH_DOCUMENT_MACHINE, err);
    rc = rc ? rc : measure_machine(profile, err);
    return rc ? rc : ah_document_print(&profile->measured, out, err);
}

static int run_node(struct profile *profile, struct ah_error *err)
{
    const struct ah_profile_hosts_measure measuring = {measure_node, profile, profile->options->quick};
    int rc = check_options(profile->options, err);
    return rc ? rc : ah_profile_hosts_join(&measuring, err);
}

static int run_hosts(struct profile *profile, struct ah_error *err)
{
    const struct profile_options *given = profile->options;
    const struct ah_profile_hosts_options options = {.hosts = given->hosts,
                                                     .output = given->output,
                                                     .device = given->device,
                                                     .emulate = given->emulate,
                                                     .quick = given->quick,
                                                     .stall_after = given->stall_after};
    int rc = check_options(given, err);
    return rc ? rc : ah_profile_hosts_run(profile->cli, &options, err);
}

/* ---- this machine ---- */

static int make_profile(struct profile *profile, struct ah_error *err)
{
    const struct profile_options *options = profile->options;
    int rc = check_options(options, err);
    rc = rc ? rc : ah_devices_find(options->device, &profile->driver, &profile->index, err);
    if (!rc && options->emulate)
        rc = ah_input_load(&profile->emulated, options->emulate, AH_DOCUMENT_MACHINE, err);
    if (!rc && options->model)
        rc = read_job(profile, err);
    if (!rc)
        rc = choose_path(profile, err);
    if (!rc)
        rc = measure_machine(profile, err);
    if (!rc && profile->path)
        rc = ah_document_save(&profile->measured, profile->path, err);
    return rc;
}

/* Warns of other load on the machine: constant load does not show in spreads. */
static void warn_of_load(struct ah_cli *cli, const struct ah_machine *machine)
{
    double taken;
    unsigned processors;
    if (ah_load_disturbed(machine->noise, machine->n_noise, &taken, &processors))
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "other programs or the hypervisor took up to %.1f of %u processors during the "
                    "measurement, so plans made from it will predict slower steps than real ones; profile "
                    "again without them",
                    taken, processors);
}

static int show_profile(struct profile *profile, struct ah_error *err)
{
    struct ah_cli *cli = profile->cli;
    if (cli->json || to_stdout(profile->options))
        return ah_document_print(&profile->measured, &cli->out, err);
    if (profile->options->verbose)
        ah_inspect_machine_text(cli, &profile->measured);
    else if (!cli->arguments.quiet || !profile->path)
        ah_inspect_machine_summary(cli, &profile->measured);
    if (profile->path)
        ah_cli_tell(cli, AH_CLI_WROTE, "%s", profile->path);
    else
        ah_cli_tell(cli, AH_CLI_NOTE,
                    "the profile is not kept because it emulates another machine; -o FILE "
                    "keeps it");
    warn_of_load(cli, profile->measured.body.machine);
    return AH_OK;
}

static int profile_run(struct ah_cli *cli, const void *options)
{
    struct profile profile = {.cli = cli, .options = options};
    struct ah_error err = {0};
    const bool alone = !profile.options->hosts && !profile.options->node;
    int rc = alone                   ? make_profile(&profile, &err)
             : profile.options->node ? run_node(&profile, &err)
                                     : run_hosts(&profile, &err);
    if (!rc && alone)
        rc = show_profile(&profile, &err);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    int status = rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
    ah_document_release(&profile.emulated);
    ah_document_release(&profile.measured);
    ah_request_release(&profile.request);
    return status;
}

const struct ah_verb ah_verb_profile = {
    .name = "profile",
    .summary = "measure this machine and write a machine document",
    .description =
        "Measures matrix products, host memory, copies each way, AdamW on the host, all of these at the same "
        "time, launches of small ops, and the disk, and writes a machine document, from which plans are "
        "computed. Every number is a median with its spread; noisy numbers are reported. Close other "
        "programs first: their processor time lowers every rate, and causes a warning.\n\nWithout -o the "
        "document is kept in ~/.cache/autohete, where other verbs find it. With --json the document is "
        "printed too, instead of tables.\n\nWith --model the blocks of that model are measured, too: forward "
        "and backward of each group, with every way to keep activations, in iterations like those of a run. "
        "Plans with the same micro-batches, sequences and types then use measured times instead of "
        "estimates. The blocks are added to the kept profile, or to that of --onto, without measuring it "
        "again; with -o alone, to a new one.\n\nWith --hosts several machines are measured, at the same "
        "time, and then the links between them, one after another: mpirun starts one process on each host of "
        "the file, a line each, 'name slots=N', and a cluster document is written to -o, or to standard "
        "output: a node for each host, with a rank for each slot. Hosts on one machine take turns and share "
        "it. 'plan --cluster' then plans for that document, and 'run --hosts' trains with the same hosts "
        "file. Nothing is written if a host fails.",
    .syntax = {.options = profile_table},
    .options_bytes = sizeof(struct profile_options),
    .examples = {{"profile", "measure, keep, show"},
                 {"profile --quick -o machine.json", "a rough profile into a file"},
                 {"profile --hosts hosts.txt -o cluster.json", "measure several machines and their links"},
                 {"profile --emulate a100-40g-epyc7713 -o slow.json", "behave like a scaled-down A100 node"},
                 {"profile --model tiny --batch 8 --seq 256",
                  "add the blocks of a model to the kept profile"}},
    .run = profile_run,
};
