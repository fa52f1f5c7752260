/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of a run. Each setting is that of its option, else that of the resumed run, else a default. So `--resume
 * DIR` needs no other option.
 */
#include "runtime/model/safetensors.h"
#include "runtime/run/run.h"
#include "schemas/checkpoint.h"
#include "schemas/field.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_DEFAULT = 100, KEEP_DEFAULT = 2 };

/* Defaults for runs from new weights, from given weights, and of adapters; docs/running.md says why they differ. */
static const struct defaults {
    double lr, weight_decay;
    uint64_t warmup_percent, warmup_most;
} from_fresh = {3e-4, 0.1, 10, 100}, fine_tuning = {1e-5, 0, 3, UINT64_MAX},
  adapters = {2e-4, 0, 3, UINT64_MAX};

#define BETA1_DEFAULT   0.9
#define BETA2_DEFAULT   0.95
#define EPSILON_DEFAULT 1e-8
#define FLOOR           0.1

const char *const ah_run_words_schedule[] = {
    [AH_RATE_CONSTANT] = "constant", [AH_RATE_COSINE] = "cosine", NULL};
const char *const ah_run_words_divergence[] = {"warn", "stop", NULL};
const char *const ah_run_words_format[] = {
#define FORMAT_WORD(value, word, text) word,
    AH_DATASET_FORMATS(FORMAT_WORD)
#undef FORMAT_WORD
        NULL};

static double real_of(const struct ah_option_real *given, double otherwise)
{
    return given->given ? given->value : otherwise;
}

static uint64_t count_of(const struct ah_option_integer *given, uint64_t otherwise)
{
    return given->given ? given->value : otherwise;
}

/* True if a beta is usable. In fp32, the precision of updates, a beta that rounds to 1 would keep the moments at 0. */
static bool is_decay(double beta)
{
    return beta >= 0 && (float)beta < 1;
}

/* Reads two betas, such as "0.9,0.95". */
static int read_betas(const char *text, struct ah_run_settings *settings, struct ah_error *err)
{
    char *end = NULL;
    double beta1 = strtod(text, &end), beta2 = -1;
    if (*end == ',')
        beta2 = strtod(end + 1, &end);
    if (*end || !is_decay(beta1) || !is_decay(beta2))
        return ah_error_set(
            err, AH_E_USAGE,
            "'--betas' '%s': give two numbers from 0 to below 1, as fp32, for example 0.9,0.95", text);
    settings->beta1 = beta1;
    settings->beta2 = beta2;
    return AH_OK;
}

/* Checks that numbers are small enough for checkpoints and run logs. */
static int check_counts(const struct ah_run_settings *settings, struct ah_error *err)
{
    const struct {
        const char *option;
        uint64_t value;
    } counts[] = {
        {"steps", settings->steps}, {"warmup", settings->rate.warmup_steps}, {"seed", settings->seed}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if ((double)counts[i].value > AH_FIELD_COUNT_MAX)
            return ah_error_set(err, AH_E_USAGE, "'--%s' %" PRIu64 " is out of range; give less than 2^53",
                                counts[i].option, counts[i].value);
    return AH_OK;
}

/* Checks the warm-up of a new run. That of a resumed run was checked before, and the run may now end earlier. */
static int check_warmup(const struct ah_run_settings *settings, struct ah_error *err)
{
    if (settings->rate.warmup_steps > settings->steps)
        return ah_error_set(err, AH_E_USAGE,
                            "the warm-up of %" PRIu64 " steps is longer than the run of %" PRIu64 ", so its "
                            "full rate would never be reached; give a shorter '--warmup'",
                            settings->rate.warmup_steps, settings->steps);
    return AH_OK;
}

static int check_settings(const struct ah_run_settings *settings, struct ah_error *err)
{
    if (!settings->steps)
        return ah_error_set(err, AH_E_USAGE, "'--steps' 0 trains nothing; give at least 1");
    if (settings->rate.lr > 1000)
        return ah_error_set(err, AH_E_USAGE, "'--lr' %g is above 1000; common rates are 1e-5 to 1e-3",
                            settings->rate.lr);
    if (!((float)settings->epsilon > 0) || settings->epsilon > 1)
        return ah_error_set(err, AH_E_USAGE, "'--epsilon' %g must be above 0 in fp32 and at most 1",
                            settings->epsilon);
    if (settings->weight_decay > 1000)
        return ah_error_set(err, AH_E_USAGE, "'--weight-decay' %g is above 1000", settings->weight_decay);
    return AH_OK;
}

/* Returns the default warm-up: at least one step for fine-tuning, but none for a short run from new weights. */
static uint64_t default_warmup(const struct defaults *defaults, uint64_t steps)
{
    uint64_t warmup = (steps / 100) * defaults->warmup_percent + steps % 100 * defaults->warmup_percent / 100;
    if (defaults != &from_fresh && steps > 1 && !warmup)
        return 1;
    return warmup < defaults->warmup_most ? warmup : defaults->warmup_most;
}

/* Sets the number of steps for the given epochs, rounded up: the last batch may extend beyond the last epoch. */
static int read_epochs(const struct ah_run *run, struct ah_run_settings *settings, struct ah_error *err)
{
    const double epochs = run->options->epochs.value;
    const uint64_t samples = ah_batches_samples(run->data, run->plan->training.seq, false);
    const double steps = ceil(epochs * (double)samples / (double)run->step.batch);
    if (!(epochs > 0) || steps > AH_FIELD_COUNT_MAX)
        return ah_error_set(err, AH_E_USAGE, "'--epochs' %g is out of range; give a number above 0", epochs);
    settings->steps = steps > 1 ? (uint64_t)steps : 1;
    return AH_OK;
}

/* Sets the numbers. Those without an option keep their earlier values. settings->steps must be set. */
static void read_numbers(const struct ah_run_options *options, const struct defaults *defaults,
                         const struct ah_signature_run *before, struct ah_run_settings *settings)
{
    bool cosine = options->schedule ? !strcmp(options->schedule, "cosine")
                                    : !before || !strcmp(before->schedule, "cosine");
    uint64_t warmup = default_warmup(defaults, settings->steps);
    settings->rate =
        (struct ah_rate){.schedule = cosine ? AH_RATE_COSINE : AH_RATE_CONSTANT,
                         .lr = real_of(&options->lr, before ? before->lr : defaults->lr),
                         .floor = FLOOR,
                         .warmup_steps = count_of(&options->warmup, before ? before->warmup_steps : warmup),
                         .steps = settings->steps};
    settings->beta1 = before ? before->beta1 : BETA1_DEFAULT;
    settings->beta2 = before ? before->beta2 : BETA2_DEFAULT;
    settings->epsilon = real_of(&options->epsilon, before ? before->epsilon : EPSILON_DEFAULT);
    settings->weight_decay =
        real_of(&options->weight_decay, before ? before->weight_decay : defaults->weight_decay);
    settings->seed = count_of(&options->seed, before ? before->seed : 0);
    settings->save_every = count_of(&options->save_every, 0);
    settings->valid_every = count_of(&options->valid_every, 0);
    settings->keep = count_of(&options->keep, KEEP_DEFAULT);
}

/* Fills the signature. A constant rate does not depend on the number of steps, so such a run may be extended. */
static void sign(struct ah_run *run)
{
    const struct ah_run_settings *settings = &run->settings;
    bool cosine = settings->rate.schedule == AH_RATE_COSINE;
    run->signature_run =
        (struct ah_signature_run){.seed = settings->seed,
                                  .data_sha256 = ah_dataset_facts(run->data)->sha256,
                                  .base_sha256 = run->base_sha256[0] ? run->base_sha256 : NULL,
                                  .schedule = ah_run_words_schedule[settings->rate.schedule],
                                  .lr = settings->rate.lr,
                                  .beta1 = settings->beta1,
                                  .beta2 = settings->beta2,
                                  .epsilon = settings->epsilon,
                                  .weight_decay = settings->weight_decay,
                                  .warmup_steps = settings->rate.warmup_steps,
                                  .steps = cosine ? settings->steps : 0};
    run->signature = run->plan->numeric_signature;
    run->signature.batch = run->step.batch;
    run->signature.micro_batches = run->step.micro_batches;
    run->signature.sums = run->step.sums;
    run->signature.n_sums = run->step.n_sums;
    run->signature.tied = run->step.tied;
    run->signature.device = run->driver == ah_device_cpu() ? AH_DEVICE_CPU : AH_DEVICE_CUDA;
    if (run->signature.device != run->plan->numeric_signature.device)
        run->signature.matmul_sha256 = NULL; /* the algorithms are those of another device's library */
    run->signature.run = &run->signature_run;
}

/* Computes the identity of the base of adapters, which a resumed run finds where it was. */
static int digest_base(struct ah_run *run, struct ah_error *err)
{
    const int rc = ah_safetensors_digest(run->options->weights, run->base_sha256, err);
    return rc && run->options->resume
               ? ah_error_prefix(err, rc,
                                 "the base model of this run, which '--weights' names if it was moved")
               : rc;
}

int ah_run_settle(struct ah_run *run, struct ah_error *err)
{
    const struct ah_checkpoint *from = run->from.body.checkpoint;
    const struct ah_signature_run *before = from ? from->numeric_signature.run : NULL;
    const struct ah_run_options *options = run->options;
    run->settings.steps = count_of(&options->steps, before && before->steps ? before->steps : STEPS_DEFAULT);
    int rc = options->epochs.given ? read_epochs(run, &run->settings, err) : AH_OK;
    if (rc)
        return rc;
    const struct defaults *defaults = run->plan->model.lora ? &adapters
                                      : options->weights    ? &fine_tuning
                                                            : &from_fresh;
    read_numbers(options, defaults, before, &run->settings);
    if (from && !before->steps && !options->schedule && !options->steps.given && !options->epochs.given)
        return ah_error_set(err, AH_E_USAGE,
                            "'--steps' is missing: a run with a constant rate needs the total number of "
                            "steps");
    rc = options->betas ? read_betas(options->betas, &run->settings, err) : AH_OK;
    if (!rc)
        rc = check_counts(&run->settings, err);
    if (!rc)
        rc = check_settings(&run->settings, err);
    if (!rc && (!before || options->warmup.given))
        rc = check_warmup(&run->settings, err);
    if (!rc && run->plan->model.lora && options->weights)
        rc = digest_base(run, err);
    if (!rc)
        sign(run);
    return rc;
}
