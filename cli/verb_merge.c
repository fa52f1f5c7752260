/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete merge BASE ADAPTER -o DIR: makes a whole model of a base model and an adapter.
 */
#include "base/units.h"
#include "cli/frame/emit.h"
#include "cli/frame/input.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/terminal.h"
#include "cli/verbs.h"
#include "runtime/run/merge.h"

#include <inttypes.h>

struct merge_options {
    const char *output;
};

static const struct ah_option merge_table[] = {{"output", 'o', AH_OPTION_FOLDER, "DIR", NULL,
                                                offsetof(struct merge_options, output),
                                                "write the model to this folder, which must not exist"},
                                               {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct merging {
    struct ah_progress progress;
    const atomic_int *stop;
};

static bool show(void *context, double share)
{
    struct merging *merging = context;
    ah_terminal_draw(&merging->progress, share, "merging");
    return !atomic_load(merging->stop);
}

static void report(struct ah_cli *cli, const struct ah_merged *merged, const char *folder)
{
    char bytes[AH_UNITS_TEXT_MAX];
    struct ah_emit emit = {.out = &cli->out};
    if (!cli->json) {
        ah_buffer_printf(&cli->out, "%s: %" PRIu64 " adapter%s merged, %" PRIu64 " tensor%s replaced, %s\n",
                         ah_cli_clean(cli, folder), merged->adapters, merged->adapters == 1 ? "" : "s",
                         merged->replaced, merged->replaced == 1 ? "" : "s",
                         ah_units_print_bytes(bytes, merged->bytes));
        return;
    }
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "folder", folder);
    ah_emit_integer(&emit, "adapters", merged->adapters);
    ah_emit_integer(&emit, "replaced", merged->replaced);
    ah_emit_integer(&emit, "bytes", merged->bytes);
    ah_emit_close(&emit);
}

static int merge_run(struct ah_cli *cli, const void *given)
{
    const struct merge_options *options = given;
    const char *base = cli->arguments.operands[0];
    struct merging merging = {.progress = ah_terminal_progress(), .stop = ah_interrupt_catch()};
    struct ah_document model = {0};
    struct ah_merged merged;
    struct ah_error err = {0};
    if (!options->output) {
        ah_error_set(&err, AH_E_USAGE, "'-o' DIR is missing: the folder for the whole model");
        return ah_cli_fail_usage(cli, &err);
    }
    int rc = ah_input_load(&model, base, AH_DOCUMENT_MODEL, &err);
    rc = rc ? rc : ah_input_check_base(cli, cli->arguments.operands[1], base, &err);
    if (!rc) {
        const struct ah_merge_options merge = {.model = model.body.model,
                                               .base = base,
                                               .adapter = cli->arguments.operands[1],
                                               .progress = show,
                                               .context = &merging};
        rc = ah_merge(&merge, options->output, &merged, &err);
    }
    ah_terminal_erase(&merging.progress);
    if (!rc)
        report(cli, &merged, options->output);
    ah_document_release(&model);
    return rc ? ah_cli_fail(cli, &err) : 0;
}

const struct ah_verb ah_verb_merge = {
    .name = "merge",
    .summary = "make a whole model of a base model and an adapter",
    .description =
        "BASE is a folder with config.json and safetensors, ADAPTER one with adapter_config.json and "
        "adapter_model.safetensors: a checkpoint of 'run' under a plan with adapters, or what peft saved. "
        "Each "
        "matrix with an adapter becomes W + s B A, computed in fp32 and rounded once; a file has BF16 if all "
        "its "
        "tensors in the base are BF16, else F32; a tensor that was trained whole is the adapter's; all "
        "others are copied. Tokenizer, "
        "chat template and config.json are the base's.\n\nDIR appears whole or not at all. Exit status: 0 "
        "written, 6 the adapter is not one of this base.",
    .syntax = {.options = merge_table, .operands = {AH_OPERAND_FILE, "BASE ADAPTER", 2, 2, NULL}},
    .options_bytes = sizeof(struct merge_options),
    .examples = {{"merge llama-3-8b out/step-00000500 -o tuned",
                  "a model for any program that knows its family"}},
    .run = merge_run,
};
