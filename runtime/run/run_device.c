/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes remarks on a run's device before the first step, on the terminal and in the log.
 */
#include "runtime/run/run_device.h"

#include "base/units.h"
#include "runtime/device/tryout.h"
#include "runtime/run/run_ranks.h"

#include <stdio.h>

static int add_remark(struct ah_run *run, const char *key, const char *text, struct ah_error *err)
{
    const char *kept = ah_arena_strdup(run->host->arena, text);
    if (!kept)
        return ah_error_memory(err);
    run->remarks[run->n_remarks++] = (struct ah_text_pair){key, kept};
    ah_run_tell(run->host, AH_RUN_WARNING, "%s", kept);
    return AH_OK;
}

/* Returns the bytes outside the arena that the plan may use. */
static uint64_t left_bytes(const struct ah_run *run)
{
    const struct ah_trainer_facts facts = ah_trainer_facts(run->trainer);
    const uint64_t capacity_bytes = run->plan->memory.device_capacity_bytes;
    const uint64_t arena_bytes = facts.arena_bytes[AH_ARENA_DEVICE];
    return capacity_bytes > arena_bytes ? capacity_bytes - arena_bytes : 0;
}

static int remark_memory(struct ah_run *run, const struct ah_device_info *info, struct ah_error *err)
{
    char outside[AH_UNITS_TEXT_MAX], left[AH_UNITS_TEXT_MAX], capacity[AH_UNITS_TEXT_MAX],
        text[AH_ERROR_TEXT_MAX];
    if (info->outside_bytes <= left_bytes(run))
        return AH_OK;
    snprintf(
        text, sizeof text,
        "the GPU needs %s outside the arena (context, code, workspace, page tables), but the plan leaves "
        "only %s of its %s: on a GPU with exactly that memory the run would not fit; measure again with "
        "'autohete profile', then plan again",
        ah_units_print_bytes(outside, info->outside_bytes), ah_units_print_bytes(left, left_bytes(run)),
        ah_units_print_bytes(capacity, run->plan->memory.device_capacity_bytes));
    return add_remark(run, "memory", text, err);
}

int ah_run_device_remark(struct ah_run *run, struct ah_error *err)
{
    const struct ah_device_info *info = &ah_trainer_device(run->trainer)->info;
    char text[AH_TRYOUT_TEXT_MAX];
    const struct ah_run_ranks *ranks = run->options->ranks;
    char forms[AH_ERROR_TEXT_MAX];
    int rc = info->products.in_steps ? add_remark(run, "products", ah_device_print_products(info, text), err)
                                     : AH_OK;
    if (!rc && ranks && ah_run_ranks_products(ranks, forms, sizeof forms))
        rc = add_remark(run, "product_form", forms, err);
    return rc ? rc : remark_memory(run, info, err);
}
