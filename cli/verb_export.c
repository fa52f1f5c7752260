/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete export PLAN --to TARGET: prints a plan as another system's configuration, and reports what is lost.
 *
 * The configuration goes to standard output or to a file. The report goes to standard error, one line per loss. With
 * --json, one object {target, version, plan_sha256, config, lost, notes} contains both. With --strict, a loss is an
 * error and nothing is written.
 */
#include "base/file.h"
#include "cli/frame/emit.h"
#include "cli/frame/outputs.h"
#include "cli/verbs.h"
#include "planner/export/export.h"
#include "schemas/document.h"

#include <string.h>

struct export_options {
    const char *to;
    const char *output;
    bool force;
    bool strict;
};

static const char *const replaced_exports[] = {AH_OUTPUT_EXPORT, NULL};

static const struct ah_option export_table[] = {
    {"to", 0, AH_OPTION_WORD, "TARGET", ah_words_export_target, offsetof(struct export_options, to),
     "the system whose configuration to write"},
    {"strict", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct export_options, strict),
     "fail (exit 1) and write nothing if the target cannot follow the whole plan"},
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", replaced_exports, offsetof(struct export_options, output),
     "write the configuration to this file ('-': to standard output); an earlier export is replaced"},
    AH_OUTPUT_FORCE_ROW(struct export_options),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static int find_target(const char *word, enum ah_export_target *ret_target, struct ah_error *err)
{
    if (!word)
        return ah_error_set(err, AH_E_USAGE,
                            "name the system whose configuration to write: '--to' deepspeed, megatron or "
                            "torchtitan");
    for (size_t i = 0; ah_words_export_target[i]; i++)
        if (!strcmp(word, ah_words_export_target[i]))
            *ret_target = (enum ah_export_target)i;
    return AH_OK;
}

static void emit_losses(struct ah_emit *emit, const struct ah_export *export)
{
    ah_emit_open(emit, "lost", '[');
    for (size_t i = 0; i < export->n_losses; i++) {
        ah_emit_open(emit, NULL, '{');
        ah_emit_text(emit, "effect", ah_words_export_effect[export->losses[i].effect]);
        ah_emit_text(emit, "field", export->losses[i].field);
        ah_emit_text(emit, "blocks", export->losses[i].blocks);
        ah_emit_text(emit, "plan", export->losses[i].plan);
        ah_emit_text(emit, "instead", export->losses[i].instead);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

static int emit_all(struct ah_buffer *out, const struct ah_export *export, struct ah_error *err)
{
    struct ah_emit emit = {.out = out};
    struct ah_buffer config = {0};
    ah_export_print_settings(export, &config);
    if (config.failed)
        return ah_error_memory(err);
    ah_emit_open(&emit, NULL, '{');
    ah_emit_text(&emit, "target", ah_words_export_target[export->target]);
    ah_emit_text(&emit, "version", export->version);
    ah_emit_text(&emit, "plan_sha256", export->plan_sha256);
    ah_emit_json(&emit, "config", config.data);
    emit_losses(&emit, export);
    ah_emit_open(&emit, "notes", '[');
    for (size_t i = 0; i < export->n_notes; i++)
        ah_emit_text(&emit, NULL, export->notes[i]);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
    ah_buffer_release(&config);
    return AH_OK;
}

/* Prints the line as a note and releases it. */
static void print_note(struct ah_cli *cli, struct ah_buffer *line)
{
    if (!line->failed)
        ah_cli_tell(cli, AH_CLI_NOTE, "%s", line->data);
    ah_buffer_release(line);
}

static void print_export_notes(struct ah_cli *cli, const struct ah_export *export)
{
    struct ah_buffer line = {0};
    for (size_t i = 0; i < export->n_losses; i++) {
        ah_export_print_loss(&export->losses[i], &line);
        print_note(cli, &line);
    }
    for (size_t i = 0; i < export->n_notes; i++)
        ah_cli_tell(cli, AH_CLI_NOTE, "%s", export->notes[i]);
    ah_export_print_origin(export, &line);
    print_note(cli, &line);
}

/* Writes the configuration to the file `path` or, without a path, to standard output. */
static int write_config(struct ah_cli *cli, const struct ah_export *export, const char *path,
                        struct ah_error *err)
{
    struct ah_buffer text = {0};
    bool to_file = path && strcmp(path, "-") != 0;
    int rc = AH_OK;
    ah_export_print(export, &text);
    if (text.failed)
        rc = ah_error_memory(err);
    else if (to_file)
        rc = ah_file_write(path, text.data, text.size, err);
    else if (!cli->json)
        ah_buffer_append(&cli->out, text.data, text.size);
    if (!rc && cli->json)
        rc = emit_all(&cli->out, export, err);
    ah_buffer_release(&text);
    return rc;
}

static int export_plan(struct ah_cli *cli, const struct export_options *options,
                       const struct ah_document *document, enum ah_export_target target, struct ah_error *err)
{
    struct ah_export export;
    char digest[AH_DOCUMENT_DIGEST_MAX];
    int rc = ah_document_digest(document, digest, err);
    rc = rc ? rc : ah_export_plan(document->body.plan, digest, target, &cli->arena, &export, err);
    if (rc)
        return rc;
    print_export_notes(cli, &export);
    if (options->strict && export.n_losses)
        return ah_error_set(err, AH_E_FAILED,
                            "%zu %s of the plan cannot be expressed for '%s'; without '--strict' the rest is "
                            "written",
                            export.n_losses, export.n_losses == 1 ? "decision" : "decisions",
                            ah_words_export_target[target]);
    return write_config(cli, &export, options->output, err);
}

static int export_run(struct ah_cli *cli, const void *given)
{
    const struct export_options *options = given;
    enum ah_export_target target = AH_EXPORT_DEEPSPEED;
    struct ah_document document = {0};
    struct ah_error err = {0};
    int rc = find_target(options->to, &target, &err);
    if (rc)
        return ah_cli_fail_usage(cli, &err);
    rc = ah_document_load(&document, cli->arguments.operands[0], AH_DOCUMENT_PLAN, &err);
    if (!rc)
        rc = export_plan(cli, options, &document, target, &err);
    int status = rc ? ah_cli_fail(cli, &err) : 0;
    ah_document_release(&document);
    return status;
}

const struct ah_verb ah_verb_export = {
    .name = "export",
    .summary = "write a plan as the configuration of another system",
    .description =
        "Writes as much of a plan as DeepSpeed (JSON), Megatron (a bash array of arguments) or torchtitan "
        "(TOML) can express. They have one switch or one share where a plan decides for every block, so most "
        "of a plan is rounded, to a setting that needs no more device memory if the target has one.\n\nEvery "
        "decision that the target will not follow is a line on standard error, with its blocks, what the "
        "target does instead and what that changes; it is also a comment in the configuration if the format "
        "has comments. The losses that decide whether the configuration is useful come first: it may not fit "
        "(the target needs more memory than the plan); then different results, different speed, and no "
        "memory limit. Notes name what a plan does not hold (learning rate, data, the model's shape), the "
        "target's version that the settings were checked against, and the plan's digest.\n\nExit status: 0 "
        "written, 1 with --strict and a loss, 3 not a plan for one machine.",
    .syntax = {.options = export_table, .operands = {AH_OPERAND_FILE, "PLAN", 1, 1, NULL}},
    .options_bytes = sizeof(struct export_options),
    .examples = {{"export plan.json --to deepspeed -o ds_config.json", "train with DeepSpeed"},
                 {"export plan.json --to megatron", "which arguments, and what they lose"},
                 {"export plan.json --to torchtitan --strict >train.toml", "only if nothing is lost"}},
    .run = export_run,
};
