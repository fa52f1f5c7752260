/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded: the work of all ranks' lanes in some steps, collected at rank 0 when nothing runs, on rank 0's clock.
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

/* Sent between ranks as raw memory. */
struct ah_recorded_span {
    uint64_t step; /* its iteration; for an op that no plan mentions, the round that reported it */
    uint32_t lane; /* enum ah_device_lane */
    uint32_t
        op; /* of the rank's program; AH_RECORDED_NO_OP: data, or on lanes of messages: an arriving one, or sums */
    uint32_t tile; /* for a message that arrives: its micro-batch */
    uint32_t reserved;
    int64_t start_ns, end_ns;
};

struct ah_recorded {
    struct ah_recorded_span *spans; /* in the arena; spans of one lane are in order */
    size_t n;
    uint64_t lost;    /* spans for which there was no room */
    int64_t clock_ns; /* how far the rank's clock is ahead of rank 0's; already subtracted from spans */
    int64_t clock_within_ns; /* largest error of `clock_ns` */
};

/* Rank 0 calls it at a drained point. `ret_recorded` has room for all ranks, in order. After an error of a
 * message the world is lost. AH_E_MEMORY. */
int ah_recorded_collect(struct ah_trainer *trainer, struct ah_arena *arena, struct ah_recorded *ret_recorded,
                        struct ah_error *err);

#endif
