/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete profile: measures the machine, keeps the document, shows it.
 *
 * Where the document goes: `-o FILE`, `-o -` (standard output), else the cache (cache.h); a profile that emulates
 * another machine is not this machine's and is kept only with -o. That the place can be written is checked
 * before minutes are spent on measuring.
 */
#include "cli/cache.h"
#include "cli/devices.h"
#include "cli/inspect.h"
#include "cli/interrupt.h"
#include "cli/verbs.h"
#include "profiler/profiler.h"

#include <string.h>

struct profile_options {
    const char *output;
    const char *device;
    const char *emulate;
    bool quick;
};

static const struct ah_option profile_table[] = {
    {"output", 'o', AH_OPTION_FILE, "FILE", NULL, offsetof(struct profile_options, output),
     "write the document here, not into the cache ('-': to standard output)"},
    {"device", 0, AH_OPTION_TEXT, "DEVICE", ah_devices_words, offsetof(struct profile_options, device),
     "the device to measure, with an index where there are several (cuda:1)"},
    {"emulate", 0, AH_OPTION_FILE, "MACHINE", NULL, offsetof(struct profile_options, emulate),
     "slow the copy lanes and the host lane to the ratios of this machine document"},
    {"quick", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct profile_options, quick),
     "fewer shapes and samples: under 20 seconds instead of under 3 minutes"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct profile {
    struct ah_cli *cli;
    const struct profile_options *options;
    const char *path; /* of the file to write; NULL: none */
    struct ah_document emulated;
    struct ah_document measured;
};

static bool to_stdout(const struct profile_options *options)
{
    return options->output && !strcmp(options->output, "-");
}

static int choose_path(struct profile *profile, struct ah_error *err)
{
    const struct profile_options *options = profile->options;
    if (to_stdout(options) || (options->emulate && !options->output))
        return AH_OK;
    int rc = AH_OK;
    if (options->output) {
        profile->path = options->output;
    } else {
        rc = ah_cache_path(options->device, &profile->cli->arena, &profile->path, err);
        if (!rc)
            rc = ah_cache_make_folder(profile->path, err);
    }
    return rc ? rc : ah_cli_check_writable(profile->path, err);
}

static void show_progress(void *context, double fraction, const char *what)
{
    ah_terminal_draw(context, fraction, what);
}

static int measure(struct profile *profile, const struct ah_device_driver *driver, uint32_t index,
                   struct ah_error *err)
{
    struct ah_progress progress = ah_terminal_progress();
    struct ah_profiler_options options = {.driver = driver,
                                          .device_index = index,
                                          .quick = profile->options->quick,
                                          .emulate = profile->emulated.body.machine,
                                          .progress = show_progress,
                                          .progress_context = &progress,
                                          .cancel = ah_interrupt_catch()};
    int rc = ah_profiler_run(&profile->measured, &options, err);
    ah_terminal_erase(&progress);
    return rc;
}

static int run(struct profile *profile, struct ah_error *err)
{
    const struct profile_options *options = profile->options;
    const struct ah_device_driver *driver = NULL;
    uint32_t index = 0;
    int rc = ah_devices_find(options->device, &driver, &index, err);
    if (!rc && options->emulate)
        rc = ah_document_load(&profile->emulated, options->emulate, AH_DOCUMENT_MACHINE, err);
    if (!rc)
        rc = choose_path(profile, err);
    if (!rc)
        rc = measure(profile, driver, index, err);
    if (!rc && profile->path)
        rc = ah_document_save(&profile->measured, profile->path, err);
    return rc;
}

static int show(struct profile *profile, struct ah_error *err)
{
    struct ah_cli *cli = profile->cli;
    if (cli->json || to_stdout(profile->options))
        return ah_document_print(&profile->measured, &cli->out, err);
    ah_inspect_machine_text(cli, &profile->measured);
    if (profile->path)
        ah_cli_note(cli, "written to %s", profile->path);
    else
        ah_cli_note(cli, "not kept, since it emulates another machine; -o FILE keeps it");
    return AH_OK;
}

static int profile_run(struct ah_cli *cli, const void *options)
{
    struct profile profile = {.cli = cli, .options = options};
    struct ah_error err = {0};
    int rc = run(&profile, &err);
    if (!rc)
        rc = show(&profile, &err);
    if (rc == AH_E_INTERRUPTED)
        ah_cli_nothing_written(&err);
    int status = rc == AH_E_USAGE ? ah_cli_fail_usage(cli, &err) : rc ? ah_cli_fail(cli, &err) : 0;
    ah_document_release(&profile.emulated);
    ah_document_release(&profile.measured);
    return status;
}

const struct ah_verb ah_verb_profile = {
    .name = "profile",
    .summary = "measure this machine and write a machine document",
    .description =
        "Measures matrix products, host memory, copies each way, AdamW on the host, all of these beside each "
        "other, and the disk, and writes a machine document: what plans are computed from. Every number is a "
        "median with its spread; what was noisy is said. Close other programs first.\n\n"
        "Without -o the document is kept in ~/.cache/autohete, where other verbs find it. With --json the "
        "document "
        "is printed too, instead of tables.",
    .syntax = {.options = profile_table},
    .options_bytes = sizeof(struct profile_options),
    .examples = {{"profile", "measure, keep, show"},
                 {"profile --quick -o machine.json", "a rough profile into a file"},
                 {"profile --emulate examples/machines/a100-40g-epyc7713.json -o slow.json",
                  "behave like an A100 node in small"}},
    .run = profile_run,
};
