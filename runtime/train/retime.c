/* SPDX-License-Identifier: Apache-2.0
 *
 * Retime: the rounds are read again, with other orders. Items and all that is bound to them have the same numbers.
 */
#include "runtime/schedule/retime.h"

#include "runtime/train/trainer_internal.h"

/* The plan with other lists, and times, in `arena`. */
static int read_rounds(const struct ah_trainer *t, const struct ah_retimed *retimed, struct ah_arena *arena,
                       struct ah_rounds *ret_rounds, struct sums *ret_sums, struct ah_error *err)
{
    struct ah_plan plan = *t->options.plan;
    plan.lanes = retimed->lanes;
    plan.ops = ah_arena_array(arena, plan.n_ops, sizeof *plan.ops);
    if (!plan.ops)
        return ah_error_memory(err);
    for (size_t op = 0; op < plan.n_ops; op++) {
        plan.ops[op] = t->options.plan->ops[op];
        plan.ops[op].us = retimed->op_us[op];
    }
    int rc = ah_rounds_read(&plan, arena, ret_rounds, err);
    return rc ? rc : ah_sums_place(ret_rounds, &plan, ret_sums, err);
}

int ah_trainer_retime(struct ah_trainer *t, const double *op_us, struct ah_trainer_retimed *ret_retimed,
                      struct ah_error *err)
{
    struct ah_plan plan = *t->options.plan;
    struct ah_arena arena = {0};
    struct ah_retimed retimed;
    struct ah_rounds rounds;
    struct sums sums;
    plan.lanes = t->lanes;
    int rc = ah_retime(&plan, op_us, &arena, &retimed, err);
    bool taken = !rc && (t->dynamic || retimed.after_us < retimed.before_us);
    if (taken)
        rc = read_rounds(t, &retimed, &arena, &rounds, &sums, err);
    if (!rc)
        *ret_retimed = (struct ah_trainer_retimed){retimed.before_us, retimed.after_us, taken};
    if (rc || !taken) {
        ah_arena_release(&arena);
        return rc;
    }
    ah_arena_release(&t->retimed);
    t->retimed = arena;
    t->rounds = rounds;
    t->sums = sums;
    if (!t->dynamic) /* else its lists say nothing */
        t->lanes = retimed.lanes;
    return AH_OK;
}
