/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded: collects the spans of all ranks' lanes in some steps at rank 0, on its clock, when nothing runs.
 *
 *     options.recorded = (struct ah_recorded_steps){.first = 5, .n = 4};     // for each rank's trainer
 *     ... ah_trainer_run() ...
 *     rc = ah_recorded_collect(trainer, &arena, by_rank, err);
 *
 * Memory is allocated at open. The primitive ops of an item are one span.
 */
#ifndef AH_RUNTIME_TRAIN_RECORDED_H
#define AH_RUNTIME_TRAIN_RECORDED_H

#include "base/arena.h"
#include "runtime/train/trainer.h"

#define AH_RECORDED_NO_OP UINT32_MAX

/* A span of work. It is sent between ranks as raw memory. */
struct ah_recorded_span {
    uint64_t step; /* step of its iteration; for an op that no plan mentions, the round that reported it */
    uint32_t lane; /* enum ah_device_lane */
    /* An op of the rank's program. AH_RECORDED_NO_OP: data or, on lanes of messages, a receive, or sums. */
    uint32_t op;
    uint32_t tile; /* for a receive: its micro-batch */
    uint32_t reserved;
    int64_t start_ns, end_ns;
};

struct ah_recorded {
    struct ah_recorded_span *spans; /* in the arena; spans of one lane are in order */
    size_t n;
    uint64_t lost;    /* number of spans without room */
    int64_t clock_ns; /* how far this rank's clock is ahead of rank 0's; already subtracted from the spans */
    int64_t clock_within_ns; /* largest error of `clock_ns` */
};

/* Collects the spans of all ranks. Rank 0 calls it at a drained point. `ret_recorded` has room for all ranks, in order.
 * After an error of a message the world is lost. AH_E_MEMORY. */
int ah_recorded_collect(struct ah_trainer *trainer, struct ah_arena *arena, struct ah_recorded *ret_recorded,
                        struct ah_error *err);

#endif
