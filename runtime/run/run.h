/* SPDX-License-Identifier: Apache-2.0
 *
 * Run: trains as a plan says, for the verbs `run` and `compare --measured`.
 *
 *     struct ah_run run;
 *     rc = ah_run_open(&run, &host, plan, &options, err);  // data, device, weights or a checkpoint: all checks
 *     rc = ah_run_train(&run, &listener, err);             // steps, evaluations, saves
 *     ah_run_close(&run);                                  // in every case
 *
 * A run is divided into stretches. Between two stretches the trainer is drained, held-out loss is measured, and
 * checkpoints are saved. An interrupt ends the stretch after the steps that have begun; then the run saves.
 */
#ifndef AH_RUN_RUN_H
#define AH_RUN_RUN_H

#include "base/option_value.h"
#include "runtime/run/run_host.h"
#include "runtime/run/utilisation.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/divergence.h"
#include "runtime/train/recorded.h"
#include "runtime/train/tally.h"
#include "runtime/train/trainer.h"
#include "schemas/document.h"
#include "schemas/plan.h"
#include "schemas/resume.h"

struct ah_run_options {
    struct ah_option_list data;
    struct ah_option_list valid;
    const char *data_format;
    struct ah_option_integer steps;
    struct ah_option_real epochs; /* given instead of steps */
    struct ah_option_real lr;
    const char *schedule;
    struct ah_option_integer warmup;
    const char *betas;
    struct ah_option_real epsilon;
    struct ah_option_real weight_decay;
    struct ah_option_integer seed;
    const char *weights;
    const char *adapter; /* folder of adapters to begin with */
    const char *tokenizer;
    const char *save;
    bool no_save, keep_best;
    const char *log;
    const char *on_divergence;
    struct ah_option_integer save_every;
    struct ah_option_integer valid_every;
    struct ah_option_integer keep;
    const char *resume;
    const char *device;
    const char *emulate;
    const struct ah_machine *emulated; /* (optional) the machine to emulate; replaces the file `emulate` */
    const struct ah_machine *machine;  /* (optional) the plan's, for the utilisation; borrowed */
    bool other_device;
    bool traces;                        /* ranks record their ops in ah_run_traced_steps() */
    struct ah_device_watch watch;       /* what happens when the device stalls */
    struct ah_device_keep *keep_pinned; /* (optional) reused by consecutive runs; borrowed */
    /* (optional) For a cluster plan, whose rank 0 is this run (run_ranks.h); borrowed. */
    struct ah_run_ranks *ranks;
};

extern const char *const ah_run_words_schedule[];
extern const char *const ah_run_words_divergence[];
extern const char *const ah_run_words_format[];

/* The settings of a run, with all defaults filled in. */
struct ah_run_settings {
    uint64_t steps; /* of the whole run, also before a resume */
    struct ah_rate rate;
    double beta1, beta2, epsilon, weight_decay;
    uint64_t seed;
    uint64_t save_every, valid_every; /* 0: only at the end */
    uint64_t keep;
};

/* Callbacks for events of a run. Those that are NULL are skipped. */
struct ah_run_listener {
    void (*step)(void *context, const struct ah_step_record *record, double step_us);
    void (*op)(void *context, const struct ah_op_record *record);
    void (*evaluated)(void *context, uint64_t step, double loss, uint64_t tokens);
    void (*saved)(void *context, uint64_t step, double us, const struct ah_checkpoints_saved *saved);
    void *context;
};

struct ah_run {
    const struct ah_run_host *host;
    const struct ah_run_options *options;
    const struct ah_plan *plan;   /* borrowed */
    struct ah_plan_training step; /* the training of a whole step, over all ranks; its texts are borrowed */
    struct ah_run_settings settings;
    const char *save; /* folder of checkpoints; NULL: the run saves nothing */
    struct ah_signature signature;
    struct ah_signature_run signature_run;
    char base_sha256[AH_SHA256_HEX_MAX]; /* "": no adapters, or initial weights */
    struct ah_document from;             /* manifest of the checkpoint from which the run resumes */
    /* the settings with which the run resumes that no manifest has (run_resume.h) */
    struct ah_document resumed;
    struct ah_resume resume;     /* settings for a later run that resumes this one */
    struct ah_resume_best *best; /* best checkpoint by held-out loss; NULL: none yet */
    struct ah_divergence divergence;
    bool diverged, stopped;  /* a divergence was reported; it stopped the run */
    uint64_t kept_step;      /* step of the last checkpoint before the divergence; 0: none */
    uint64_t evaluated_step; /* step of the latest evaluation; UINT64_MAX: none in this run */
    double evaluated_loss;
    struct ah_resume_best best_place;
    struct ah_utilisation utilisation; /* zeroes for several ranks, and on another device than the plan's */
    struct ah_document emulated;
    struct ah_device_throttle throttle;
    const struct ah_device_driver *driver;
    uint32_t device_index;
    struct ah_dataset *data, *held_out;
    struct ah_batches batches, held_out_batches;
    struct ah_trainer *trainer;
    struct ah_tally *tally; /* sums over all steps */
    /* each rank's measurements, after the end of the run; in the host's arena */
    struct ah_runlog_rank *ranks;
    size_t n_ranks;
    struct ah_run_status *status;    /* NULL: no status file is written */
    struct ah_buffer config;         /* the config.json to be saved with weights */
    struct ah_companions companions; /* other files to be saved with weights */
    struct ah_checkpoint_job job;
    struct ah_checkpoints *checkpoints; /* NULL: nothing is saved */
    struct ah_checkpoints_room room;    /* disk space that future checkpoints need */
    struct ah_checkpoint_position position;
    struct ah_checkpoints_found found; /* the checkpoint from which the run resumes; zeroed for a new run */
    /* Remarks for the log, on a damaged checkpoint and on the device; in the host's arena. */
    struct ah_text_pair remarks[4];
    size_t n_remarks;
    uint64_t resumed_step; /* step of the checkpoint from which the run resumes; 0 for a new run */
    uint64_t saved_step;   /* step of the latest save; UINT64_MAX: none in this run */
    char saved_path[PATH_MAX];
};

/* Opens everything named by the options. `plan` is proven (proof.h), or was made in this process. Texts are in
 * host->arena. AH_E_MISMATCH: plan, data, device and checkpoint do not fit together. Close `ret_run` even after a
 * failure; it must not move. */
int ah_run_open(struct ah_run *ret_run, const struct ah_run_host *host, const struct ah_plan *plan,
                const struct ah_run_options *options, struct ah_error *err);

/* Trains to the last step. AH_E_INTERRUPTED: the run was asked to stop, and has saved if it saves at all. */
int ah_run_train(struct ah_run *run, const struct ah_run_listener *listener, struct ah_error *err);

void ah_run_close(struct ah_run *run);

/* Returns the steps of an open run that a trace shows. They are steady if the run has enough steps. */
struct ah_recorded_steps ah_run_traced_steps(const struct ah_run *run);

/* run_settings.c: sets settings and signature from options, else the checkpoint, else defaults. Data must be open. */
int ah_run_settle(struct ah_run *run, struct ah_error *err);

#endif
