/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_options.h"

#include "cli/frame/input.h"
#include "cli/inspect/plan_summary.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Refuses a what-if plan: its machine does not exist. */
static int check_what_if(const struct ah_plan *plan, struct ah_error *err)
{
    static const char *const options[AH_WHAT_IFS] = {"'--device-memory'", "'--host-memory'"};
    struct ah_buffer text = {0};
    if (!plan->n_what_if)
        return AH_OK;
    ah_plan_put_what_if(&text, plan);
    int rc =
        text.failed
            ? ah_error_memory(err)
            : ah_error_set(err, AH_E_MISMATCH,
                           "the plan answers '%s' and cannot run; plan again without %s%s%s for the machine "
                           "as it is, or with '--machine' for one that has that much",
                           text.data, options[plan->what_if[0].field], plan->n_what_if > 1 ? " and " : "",
                           plan->n_what_if > 1 ? options[plan->what_if[1].field] : "");
    ah_buffer_release(&text);
    return rc;
}

static int check_adapter(const struct ah_run_options *options, const struct ah_plan *plan,
                         struct ah_error *err)
{
    if (!options->adapter)
        return AH_OK;
    if (!plan->model.lora)
        return ah_error_set(
            err, AH_E_USAGE,
            "'--adapter' is for plans with adapters ('--lora' of 'plan'); to train all weights "
            "of a model with an adapter, first make it whole: 'autohete merge'");
    if (options->resume)
        return ah_error_set(err, AH_E_USAGE,
                            "'--adapter' and '--resume' both set what to begin with; leave one out");
    if (!options->weights)
        return ah_error_set(err, AH_E_USAGE, "'--adapter' needs '--weights', the base model's");
    return AH_OK;
}

static int check_words(const struct ah_run_options *options, const struct ah_plan *plan, struct ah_error *err)
{
    if (!options->data.n && !options->resume)
        return ah_error_set(err, AH_E_USAGE, "'--data' is missing: a file of tokens to train on");
    if (options->weights && options->resume && !plan->model.lora)
        return ah_error_set(err, AH_E_USAGE,
                            "'--weights' and '--resume' both set what to begin with; leave one out");
    if (options->steps.given && options->epochs.given)
        return ah_error_set(err, AH_E_USAGE,
                            "'--steps' and '--epochs' both set the length of the run; leave one out");
    if (options->save && options->no_save)
        return ah_error_set(err, AH_E_USAGE, "'--save' and '--no-save' contradict each other; leave one out");
    if (options->weights && !options->save && !options->no_save && !options->resume)
        return ah_error_set(
            err, AH_E_USAGE,
            "a run with '--weights' must say where its result goes: give '--save' DIR, or '--no-save' to "
            "keep nothing");
    if (!options->save && (!options->resume || options->no_save) &&
        (options->save_every.given || options->keep.given || options->keep_best || options->tokenizer))
        return ah_error_set(err, AH_E_USAGE, "'--%s' needs '--save' DIR, where checkpoints go",
                            options->save_every.given ? "save-every"
                            : options->keep.given     ? "keep"
                            : options->keep_best      ? "keep-best"
                                                      : "tokenizer");
    if (!options->valid.n && !options->resume && (options->valid_every.given || options->keep_best))
        return ah_error_set(err, AH_E_USAGE, "'--%s' needs '--valid' FILE, the data held out",
                            options->keep_best ? "keep-best" : "valid-every");
    return AH_OK;
}

/* Checks '--weights'. For a folder of checkpoints, says which one to give; for a name on the hub, how to fetch it. */
static int check_weights(const char *folder, struct ah_error *err)
{
    struct stat about;
    char shown[AH_DOCUMENT_NAME_MAX];
    if (!folder || !stat(folder, &about))
        return folder && ah_input_is_checkpoints(folder, err) ? AH_E_IO : AH_OK;
    int rc = ah_error_set(err, AH_E_IO, "%s: cannot be read: %s", ah_document_short_name(folder, shown),
                          strerror(errno));
    ah_input_add_hub(folder, err);
    return rc;
}

int ah_run_options_check(const struct ah_run_options *options, const struct ah_plan *plan,
                         struct ah_error *err)
{
    int rc = check_what_if(plan, err);
    rc = rc ? rc : check_words(options, plan, err);
    rc = rc ? rc : check_adapter(options, plan, err);
    return rc ? rc : check_weights(options->weights, err);
}
