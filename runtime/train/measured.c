/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/measured.h"

#include "base/threads.h"
#include "runtime/train/trainer_internal.h"

static bool on_step(void *context, const struct ah_step_record *record)
{
    struct ah_trainer *t = context;
    ah_tally_step(t->ranks.tally, record);
    return true;
}

static void on_op(void *context, const struct ah_op_record *record)
{
    struct ah_trainer *t = context;
    ah_tally_op(t->ranks.tally, record);
}

int ah_ranks_run(struct ah_trainer *t, uint64_t steps, struct ah_error *err)
{
    const struct ah_observer observer = {.step = on_step, .op = on_op, .context = t};
    ah_tally_begin(t->ranks.tally, ah_threads_now_ns());
    return ah_trainer_run(t, steps, &observer, err);
}

/* Returns this rank's numbers. Its bytes are the sum over all bound sends, since each step does every send once. */
static struct ah_measured own(const struct ah_trainer *t, struct ah_tally *tally)
{
    const struct ah_trainer_facts facts = ah_trainer_facts(t);
    struct ah_measured own = {.device_bytes = facts.touched_bytes[AH_ARENA_DEVICE],
                              .host_bytes = facts.touched_bytes[AH_ARENA_PINNED] +
                                            facts.touched_bytes[AH_ARENA_PAGEABLE]};
    ah_tally_rank(tally, &own.times);
    for (size_t i = 0; i < t->bound.n_ops; i++) {
        const struct ah_op *op = &t->bound.ops[i].op;
        if (op->kind == AH_OP_SEND)
            *(op->u.message.channel < AH_CHANNELS ? &own.sent_bytes : &own.summed_bytes) +=
                op->u.message.bytes;
    }
    return own;
}

int ah_ranks_tell_measured(struct ah_trainer *t, struct ah_error *err)
{
    struct ah_measured mine = own(t, t->ranks.tally);
    return ah_links_collect(t->ranks.links, &mine, sizeof mine, NULL, err);
}

int ah_measured_collect(struct ah_trainer *t, struct ah_tally *tally, struct ah_measured *ret_measured,
                        struct ah_error *err)
{
    struct ah_measured mine = own(t, tally);
    int rc = ah_ranks_order(t, &(struct ranks_order){.kind = RANKS_MEASURED}, err);
    rc = rc ? rc : ah_links_collect(t->ranks.links, &mine, sizeof mine, ret_measured, err);
    return ah_ranks_fail(t, rc, err);
}
