/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a run. Cheap checks come first, so that errors show before weights are made or a long file is read.
 */
#include "base/file.h"
#include "base/topology.h"
#include "planner/planner.h"
#include "profiler/profiler.h"
#include "runtime/device/algorithm.h"
#include "runtime/device/emulate.h"
#include "runtime/model/adapter.h"
#include "runtime/model/config.h"
#include "runtime/run/devices.h"
#include "runtime/run/run.h"
#include "runtime/run/run_device.h"
#include "runtime/run/run_ranks.h"
#include "runtime/run/run_resume.h"
#include "runtime/run/run_room.h"
#include "runtime/run/run_status.h"
#include "runtime/run/run_untaught.h"
#include "runtime/schedule/trainable.h"
#include "runtime/train/persist.h"
#include "schemas/checkpoint.h"
#include "schemas/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 24 };

/* ---- the device ---- */

static int find_device(struct ah_run *run, struct ah_error *err)
{
    const char *planned = ah_words_device_kind[run->plan->numeric_signature.device];
    const char *name = run->options->device         ? run->options->device
                       : run->options->other_device ? NULL
                                                    : planned;
    int rc = ah_devices_find(name, &run->driver, &run->device_index, err);
    if (!rc && run->options->ranks && run->device_index)
        return ah_error_set(err, AH_E_USAGE,
                            "'--device %s' names one GPU, but each rank has its own; choose them with "
                            "CUDA_VISIBLE_DEVICES",
                            name);
    if (rc || !strcmp(run->driver->name, planned) || run->options->other_device)
        return rc;
    return ah_error_set(err, AH_E_MISMATCH,
                        "the plan is for a %s device, not for '%s'; plan for this machine, or run it anyway "
                        "with --other-device",
                        planned, name);
}

static void set_rates(struct ah_run *run, const struct ah_plan_emulated *emulated)
{
    run->throttle = (struct ah_device_throttle){.h2d_bytes_per_s = emulated->h2d_bytes_per_s,
                                                .d2h_bytes_per_s = emulated->d2h_bytes_per_s,
                                                .copy_latency_us = emulated->copy_latency_us,
                                                .both_kept = emulated->both_kept,
                                                .host_adam_params_per_s = emulated->host_adam_params_per_s,
                                                .host_bytes_per_s = 28 * emulated->host_adam_params_per_s};
}

/* If the profile belongs to an emulated machine, copies the rates to which the device was slowed. */
static int take_rates(struct ah_run *run, const struct ah_machine *machine, struct ah_error *err)
{
    struct ah_plan_emulated *emulated = NULL;
    int rc = ah_planner_emulated(machine, run->plan->training.dtype, run->host->arena, &emulated, err);
    if (!rc && emulated)
        set_rates(run, emulated);
    return rc;
}

/* Measures matrix products here, and sets the throttle with which this machine has the ratios of `machine`. */
static int measure_ratios(struct ah_run *run, const struct ah_machine *machine, struct ah_error *err)
{
    struct ah_document here = {0};
    enum ah_dtype dtype;
    const struct ah_profiler_options options = {.driver = run->driver,
                                                .device_index = run->device_index,
                                                .quick = true,
                                                .parts = 1u << AH_PROFILER_MATMUL,
                                                .watch = run->options->watch,
                                                .cancel = run->host->stop};
    int rc = ah_profiler_run(&here, &options, err);
    if (!rc)
        rc = ah_emulate_dtype(machine, here.body.machine->device.bf16, &dtype, err);
    if (!rc)
        rc = ah_emulate_throttle(machine, dtype, ah_machine_matmul_flops_per_s(here.body.machine, dtype),
                                 &run->throttle, err);
    ah_document_release(&here);
    return rc;
}

static int read_emulated(struct ah_run *run, struct ah_error *err)
{
    const char *path = run->options->emulate;
    const struct ah_plan_emulated *planned = run->plan->inputs.emulated;
    if (run->options->emulated)
        return take_rates(run, run->options->emulated, err);
    if (!path && planned)
        ah_run_tell(
            run->host, AH_RUN_WARNING,
            "the plan is for a machine that emulates '%s'; without '--emulate %s' lanes run at full speed "
            "and the prediction does not apply",
            planned->name, planned->name);
    if (!path)
        return AH_OK;
    int rc = run->host->load(&run->emulated, path, AH_DOCUMENT_MACHINE, err);
    if (rc)
        return rc;
    const struct ah_machine *machine = run->emulated.body.machine;
    if (machine->emulates)
        return take_rates(run, machine, err);
    if (planned && !strcmp(planned->name, machine->name)) {
        set_rates(run, planned);
        return AH_OK;
    }
    ah_run_tell(
        run->host, AH_RUN_WARNING,
        "'--emulate' %s: the plan is for %s%s%s, so its prediction does not apply; plan with a profile made "
        "by 'autohete profile --emulate %s -o FILE'",
        path, planned ? "a machine that emulates '" : "a machine that emulates none",
        planned ? planned->name : "", planned ? "'" : "", path);
    return measure_ratios(run, machine, err);
}

/* ---- data ---- */

static bool show_data(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    const struct ah_run_host *host = context;
    if (host->checking)
        host->checking(host->context, total_bytes ? (double)done_bytes / (double)total_bytes : 1);
    return !ah_run_is_stopped(host);
}

static int open_data(const struct ah_run *run, const struct ah_option_list *paths,
                     struct ah_dataset **ret_data, struct ah_error *err)
{
    struct ah_run_host host = *run->host;
    const char *format = run->options->data_format;
    const struct ah_dataset_options options = {.paths = paths->items,
                                               .n_paths = paths->n,
                                               .format =
                                                   format ? ah_dataset_format_of(format) : AH_DATASET_AUTO,
                                               .vocabulary = run->plan->model.vocabulary,
                                               .progress = show_data,
                                               .context = &host};
    int rc = ah_dataset_open(ret_data, &options, err);
    if (host.checking)
        host.checking(host.context, -1);
    return rc;
}

static int open_batches(struct ah_run *run, struct ah_error *err)
{
    struct ah_batches_options options = {.data = run->data,
                                         .seq = run->plan->training.seq,
                                         .batch = run->step.batch,
                                         .seed = run->settings.seed};
    int rc = ah_batches_init(&run->batches, &options, err);
    if (rc || !run->held_out)
        return rc;
    options.data = run->held_out;
    options.held_out = true;
    return ah_batches_init(&run->held_out_batches, &options, err);
}

/* Opens data. If an earlier run gave the path instead of an option, an error's message says so. */
static int open_kept_data(struct ah_run *run, bool kept, const char *option,
                          const struct ah_option_list *paths, struct ah_dataset **ret_data,
                          struct ah_error *err)
{
    int rc = open_data(run, paths, ret_data, err);
    if (rc != AH_E_IO || !kept)
        return rc;
    const struct ah_error why = *err;
    return ah_error_set(err, rc, "%.700s; the run used it before: give '--%s' again", why.text, option);
}

/* Warns if a held-out file is also trained on, whatever its names are. */
static void tell_shared_file(const struct ah_run *run)
{
    const size_t n = ah_dataset_facts(run->data)->files, n_held_out = ah_dataset_facts(run->held_out)->files;
    for (size_t i = 0; i < n_held_out; i++)
        for (size_t k = 0; k < n; k++) {
            const char *path = ah_dataset_file(run->held_out, i)->path;
            if (!ah_file_same(path, ah_dataset_file(run->data, k)->path))
                continue;
            ah_run_tell(run->host, AH_RUN_WARNING,
                        "'%s' is in '--data' and in '--valid': its loss does not show what the model makes "
                        "of new text",
                        path);
            return;
        }
}

static int open_all_data(struct ah_run *run, struct ah_error *err)
{
    const struct ah_run_options *options = run->options;
    const struct ah_resume *before = run->resumed.body.resume;
    int rc = open_kept_data(run, before && options->data.items == before->data, "data", &options->data,
                            &run->data, err);
    if (!rc && options->valid.n)
        rc = open_kept_data(run, before && options->valid.items == before->valid, "valid", &options->valid,
                            &run->held_out, err);
    if (!rc && run->held_out)
        tell_shared_file(run);
    return rc;
}

/* ---- checkpoints ---- */

/* Sets the error for a folder without checkpoints. It names weights that were saved there for lack of room. */
static int say_no_checkpoint(const char *folder, struct ah_error *err)
{
    char path[PATH_MAX], shown[AH_DOCUMENT_NAME_MAX];
    snprintf(path, sizeof path, "%s/" AH_WEIGHTS_ADAPTER_CONFIG, folder);
    if (!access(path, F_OK))
        return ah_error_set(
            err, AH_E_IO,
            "'%s' has only adapters, without the optimizer's states needed to resume; begin a new run from "
            "them with '--weights BASE --adapter %s'",
            folder, folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (!access(path, F_OK))
        return ah_error_set(
            err, AH_E_IO,
            "'%s' has only weights, without the optimizer's states needed to resume; begin a new run from "
            "them with '--weights %s'",
            folder, folder);
    const uint64_t step = ah_checkpoints_weights_alone(folder, path);
    if (!step)
        return ah_error_set(err, AH_E_IO, "'%s' has no checkpoint yet; leave out --resume to begin", folder);
    return ah_error_set(err, AH_E_IO,
                        "'%s' has no checkpoint, only the weights of step %" PRIu64
                        "; begin a new run from them with '--weights %s'",
                        folder, step, ah_document_short_name(path, shown));
}

static void tell_of_weights_alone(const struct ah_run *run)
{
    const struct ah_checkpoints_found *found = &run->found;
    char path[PATH_MAX], shown[AH_DOCUMENT_NAME_MAX];
    const uint64_t step = found->folder[0] ? ah_checkpoints_weights_alone(found->folder, path) : 0;
    if (step > found->step)
        ah_run_tell(run->host, AH_RUN_NOTE,
                    "'%s' has the weights of step %" PRIu64 " alone; this run resumes from step %" PRIu64 ", "
                    "the newest complete checkpoint",
                    ah_document_short_name(path, shown), step, found->step);
}

/* Reads the manifest of the checkpoint from which the run resumes. Finds the checkpoint first, unless it is known. */
static int read_manifest(struct ah_run *run, struct ah_error *err)
{
    struct ah_checkpoints_found *found = &run->found;
    char *manifest = NULL;
    struct ah_buffer name = {0};
    if (!run->options->resume)
        return AH_OK;
    int rc = found->path[0] ? AH_OK : ah_checkpoints_find(run->options->resume, found, err);
    if (!rc && !found->path[0])
        rc = say_no_checkpoint(run->options->resume, err);
    if (rc)
        return rc;
    tell_of_weights_alone(run);
    ah_buffer_printf(&name, "%s/" AH_CHECKPOINT_MANIFEST, found->path);
    manifest = name.failed ? NULL : ah_arena_strdup(run->host->arena, name.data);
    ah_buffer_release(&name);
    return manifest ? ah_document_load(&run->from, manifest, AH_DOCUMENT_CHECKPOINT, err)
                    : ah_error_memory(err);
}

/* Sets an error that names the option to change, for common differences. For others, `err` is unchanged. */
static int say_what_differs(const struct ah_run *run, struct ah_error *err)
{
    const struct ah_signature *before = &run->from.body.checkpoint->numeric_signature;
    char field[AH_SIGNATURE_PATH_MAX], shown[AH_DOCUMENT_NAME_MAX];
    const char *path = ah_document_short_name(run->found.path, shown);
    if (!ah_signature_differs(before, &run->signature, field))
        return AH_E_MISMATCH;
    if (!strcmp(field, "run.data_sha256"))
        return ah_error_set(
            err, AH_E_MISMATCH,
            "%s: was not trained on '%s'; name its data with --data, or begin a new run from its weights: "
            "--weights %s%s",
            path, run->options->data.items[0], run->plan->model.lora ? "BASE --adapter " : "", path);
    if (!strcmp(field, "run.base_sha256") && !before->run->base_sha256)
        return ah_error_set(err, AH_E_MISMATCH,
                            "%s: its adapters were trained beside initial weights; leave out --weights",
                            path);
    if (!strcmp(field, "run.base_sha256") && !run->options->weights)
        return ah_error_set(err, AH_E_MISMATCH,
                            "%s: its adapters were trained beside a base model; name it with --weights",
                            path);
    if (!strcmp(field, "run.base_sha256"))
        return ah_error_set(err, AH_E_MISMATCH,
                            "%s: its adapters were trained beside other weights than '%s'; name their base "
                            "model with --weights",
                            path, run->options->weights);
    if (!strcmp(field, "run.steps") && before->run->steps)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "%s: belongs to a run of %" PRIu64 " steps, which set its learning-rate schedule, and cannot "
            "become a run of %" PRIu64 "; leave out --steps and --epochs, or begin a new run from its "
            "weights: --weights %s%s",
            path, before->run->steps, run->settings.steps, run->plan->model.lora ? "BASE --adapter " : "",
            path);
    return AH_E_MISMATCH;
}

static int check_resumed(struct ah_run *run, struct ah_error *err)
{
    if (!run->from.body.checkpoint)
        return AH_OK;
    run->resumed_step = run->from.body.checkpoint->step;
    int rc = ah_checkpoint_check_signature(&run->from, run->found.path, &run->signature, err);
    return rc == AH_E_MISMATCH ? say_what_differs(run, err) : rc;
}

/* Makes the adapter_config.json to be saved with adapters. */
static int make_adapter_config(struct ah_run *run, struct ah_error *err)
{
    const struct ah_model *model = &run->plan->model;
    const struct ah_signature *signature = &run->signature;
    const char *weights = run->options->weights;
    uint32_t *trained = ah_arena_array(run->host->arena, ah_model_blocks(model), sizeof *trained);
    if (!trained)
        return ah_error_memory(err);
    int rc = ah_trainable_match(model, signature->trainable, signature->n_trainable, trained, err);
    return rc ? rc
              : ah_adapter_print(model, trained, weights ? ah_run_resume_absolute(run, weights) : NULL,
                                 &run->config, err);
}

/* Makes the config.json to be saved with weights: from that of the given weights, with the plan's dtype; else a copy of
 * the checkpoint's, unchecked because ah_checkpoints_resume() looks for damage; else from the model. The text part of a
 * model that reads images is saved as a model of its own, so it is always from the model. */
static int make_config(struct ah_run *run, struct ah_error *err)
{
    const struct ah_model *model = &run->plan->model;
    const enum ah_dtype dtype = run->plan->training.dtype;
    const char *folder = run->options->weights ? run->options->weights : run->found.path;
    struct ah_buffer path = {0};
    int rc = AH_OK;
    if (model->lora)
        return make_adapter_config(run, err);
    ah_buffer_printf(&path, "%s/config.json", folder);
    if (path.failed)
        rc = ah_error_memory(err);
    else if (!folder[0] || model->multimodal || access(path.data, R_OK) != 0)
        rc = ah_config_print(model, dtype, &run->config, err);
    else if (run->options->weights)
        rc = ah_config_adopt(model, path.data, dtype, &run->config, err);
    else if (!(rc = ah_file_check_regular(path.data, err)))
        rc = ah_file_read(path.data, CONFIG_BYTES_MAX, &run->config, err);
    ah_buffer_release(&path);
    return rc;
}

/* Reads the other files to be saved with weights: from the folder of --tokenizer, else of the weights, else of the
 * checkpoint. So interrupted and uninterrupted runs save the same files. */
static int read_companions(struct ah_run *run, struct ah_error *err)
{
    const struct ah_run_options *options = run->options;
    const char *folder = options->tokenizer ? options->tokenizer
                         : options->weights ? options->weights
                         : options->resume  ? run->found.path
                                            : NULL;
    if (!run->save)
        return AH_OK;
    int rc = make_config(run, err);
    if (!rc && folder)
        rc = ah_companions_read(&run->companions, folder, err);
    if (!rc && options->tokenizer && !ah_companions_has_tokenizer(&run->companions))
        rc = ah_error_set(err, AH_E_IO,
                          "'--tokenizer' '%s' has no tokenizer; name a folder with a tokenizer.json", folder);
    return rc;
}

static int open_checkpoints(struct ah_run *run, struct ah_error *err)
{
    run->job = (struct ah_checkpoint_job){.model = &run->plan->model,
                                          .signature = &run->signature,
                                          .config = run->config.data,
                                          .companions = &run->companions};
    run->saved_step = run->evaluated_step = UINT64_MAX;
    if (!run->save)
        return AH_OK;
    run->found.step = run->resumed_step;
    return ah_checkpoints_open(&run->checkpoints, &run->job, run->save, &run->found, err);
}

/* ---- the trainer ---- */

/* Sets the device's options. The plan's algorithms apply only to the plan's kind of device. */
static int device_options(struct ah_run *run, struct ah_device_options *ret_options, struct ah_error *err)
{
    const struct ah_plan *plan = run->plan;
    bool planned = run->signature.device == plan->numeric_signature.device;
    *ret_options =
        (struct ah_device_options){.index = run->device_index,
                                   .memory_bytes = plan->memory.device_capacity_bytes,
                                   .compute_threads = plan->threads ? (uint32_t)plan->threads->compute : 0,
                                   .host_threads = plan->threads ? (uint32_t)plan->threads->host : 0,
                                   .throttle = run->throttle,
                                   .keep = run->options->keep_pinned,
                                   .watch = run->options->watch};
    return ah_device_algorithm_table(planned ? plan->algorithms : NULL, run->host->arena, ret_options, err);
}

static int open_trainer(struct ah_run *run, struct ah_error *err)
{
    const struct ah_plan *plan = run->plan;
    const struct ah_run_settings *settings = &run->settings;
    struct ah_pool *pool = NULL;
    struct ah_trainer_options options = {
        .model = &plan->model,
        .plan = plan,
        .driver = run->driver,
        .batches = &run->batches,
        .documents = run->held_out && ah_dataset_facts(run->held_out)->has_docs,
        .rate = settings->rate,
        .beta1 = settings->beta1,
        .beta2 = settings->beta2,
        .epsilon = settings->epsilon,
        .weight_decay = settings->weight_decay,
        .seed = settings->seed,
        .weights = run->options->weights,
        .adapter = run->options->adapter,
        .steps_before = run->resumed_step,
        .recorded = run->options->ranks && run->options->traces ? ah_run_traced_steps(run)
                                                                : (struct ah_recorded_steps){0}};
    int rc = device_options(run, &options.device, err);
    rc = rc ? rc : ah_pool_new(&pool, &(struct ah_pool_options){0}, err);
    if (rc)
        return rc;
    options.pool = pool;
    rc = ah_run_status_new(&run->status, run, &options, err);
    if (!rc && run->options->ranks)
        rc = ah_run_ranks_start(run->options->ranks, run, &options, err);
    rc = rc ? rc : ah_trainer_open(&run->trainer, &options, err);
    ah_pool_free(pool);
    if (rc == AH_E_CAPACITY) /* the plan was edited, or is for a machine with other memory or threads */
        rc = ah_error_prefix(err, AH_E_MISMATCH, "the plan does not fit this device; plan again here");
    return rc;
}

static int open_tally(struct ah_run *run, struct ah_error *err)
{
    return ah_tally_new(&run->tally, run->plan, err);
}

static int resume(struct ah_run *run, struct ah_error *err)
{
    if (!run->options->resume)
        return AH_OK;
    const struct ah_checkpoint_sink sink = ah_persist_sink(run->trainer);
    int rc = ah_checkpoints_resume(&run->job, &sink, &run->found, &run->position, err);
    if (!rc && run->position.step != run->resumed_step)
        rc = ah_error_set(err, AH_E_MISMATCH,
                          "'%s' was replaced by another checkpoint in the meantime; run "
                          "again",
                          run->found.path);
    return rc;
}

/* Warns on the terminal and in the log that steps must be trained again. */
static void warn_of_damage(struct ah_run *run)
{
    const struct ah_checkpoints_found *found = &run->found;
    char shown[AH_DOCUMENT_NAME_MAX], text[AH_ERROR_TEXT_MAX];
    uint64_t lost = found->newest_step - run->resumed_step;
    snprintf(text, sizeof text,
             "%.500s; resuming from '%s', the newest complete one: %" PRIu64 " step%s must be trained again",
             found->damaged.text, ah_document_short_name(found->path, shown), lost, lost == 1 ? "" : "s");
    const char *kept = ah_arena_strdup(run->host->arena, text);
    if (kept)
        run->remarks[run->n_remarks++] = (struct ah_text_pair){"warning", kept};
    ah_run_tell(run->host, AH_RUN_WARNING, "%s", text);
}

/* Opens everything or, if not `all`, what comes before the trainer. */
static int open_parts(struct ah_run *run, bool all, struct ah_error *err)
{
    static int (*const parts[])(struct ah_run *, struct ah_error *) = {
        find_device,       read_manifest,           ah_run_resume_read, open_all_data, ah_run_settle,
        open_batches,      check_resumed,           read_companions,    read_emulated, open_checkpoints,
        ah_run_check_room, ah_run_warn_of_untaught, open_trainer,       resume,        open_tally};
    enum { ALL = sizeof parts / sizeof *parts, BEFORE_TRAINER = ALL - 4 };
    int rc = AH_OK;
    run->step = run->options->ranks ? *ah_run_ranks_step(run->options->ranks) : run->plan->training;
    for (size_t i = 0; i < (all ? ALL : BEFORE_TRAINER) && !rc; i++)
        rc = ah_run_is_stopped(run->host)
                 ? ah_error_set(err, AH_E_INTERRUPTED, "interrupted; nothing was trained")
                 : parts[i](run, err);
    return rc;
}

struct ah_recorded_steps ah_run_traced_steps(const struct ah_run *run)
{
    enum { STEPS = 4, AFTER = 4 };
    const bool enough = run->settings.steps >= run->resumed_step + AFTER + STEPS;
    return (struct ah_recorded_steps){run->resumed_step + 1 + (enough ? AFTER : 0), STEPS};
}

/* Ranks that are processes have ended. Renames the damaged checkpoint, so that they may start again as before; if the
 * run saves elsewhere, names the older one. */
static int end_for_older(struct ah_run *run, struct ah_error *err)
{
    const struct ah_checkpoints_found found = run->found;
    char shown[AH_DOCUMENT_NAME_MAX];
    int rc = open_parts(run, false, err);
    if (rc)
        return rc;
    if (run->save && ah_run_resume_same_folder(run->save, found.folder))
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%.600s, and was renamed; run the same command again to resume from '%s'",
                            found.damaged.text, ah_document_short_name(found.path, shown));
    return ah_error_set(err, AH_E_DOCUMENT, "%.600s; resume from the newest before it: '--resume %s'",
                        found.damaged.text, ah_document_short_name(found.path, shown));
}

/* The newest checkpoint is damaged. The older one is at a different step, so opens everything once more. */
static int open_older(struct ah_run *run, const struct ah_run_options *options, struct ah_error *err)
{
    const struct ah_run again = {
        .host = run->host, .options = options, .plan = run->plan, .found = run->found, .save = options->save};
    ah_run_close(run);
    *run = again;
    const int renewed = options->ranks ? ah_run_ranks_renew(options->ranks, err) : AH_OK;
    if (renewed == AH_E_UNSUPPORTED)
        return end_for_older(run, err);
    return renewed ? renewed : open_parts(run, true, err);
}

int ah_run_open(struct ah_run *ret_run, const struct ah_run_host *host, const struct ah_plan *plan,
                const struct ah_run_options *options, struct ah_error *err)
{
    *ret_run = (struct ah_run){.host = host, .options = options, .plan = plan, .save = options->save};
    int rc = open_parts(ret_run, true, err);
    if (rc == AH_E_DOCUMENT && ret_run->found.again)
        rc = open_older(ret_run, options, err);
    if (!rc && ret_run->found.damaged.code)
        warn_of_damage(ret_run);
    if (!rc && !options->ranks && !options->other_device)
        rc = ah_utilisation_init(&ret_run->utilisation, plan, options->machine, err);
    return rc ? rc : ah_run_device_remark(ret_run, err);
}

void ah_run_close(struct ah_run *run)
{
    ah_tally_free(run->tally);
    ah_trainer_close(run->trainer);
    ah_run_status_free(run->status);
    ah_run_ranks_end(run->options ? run->options->ranks : NULL);
    ah_checkpoints_close(run->checkpoints);
    ah_batches_release(&run->held_out_batches);
    ah_batches_release(&run->batches);
    ah_dataset_close(run->held_out);
    ah_dataset_close(run->data);
    ah_buffer_release(&run->config);
    ah_companions_release(&run->companions);
    ah_document_release(&run->emulated);
    ah_document_release(&run->from);
    ah_document_release(&run->resumed);
}
