/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured: collects at rank 0, when nothing runs, what each rank measured of its own steps.
 *
 *     ... ah_trainer_run(trainer, ...), its ops and steps reported to a tally ...
 *     rc = ah_measured_collect(trainer, tally, by_rank, err);
 */
#ifndef AH_RUNTIME_TRAIN_MEASURED_H
#define AH_RUNTIME_TRAIN_MEASURED_H

#include "runtime/train/tally.h"

/* The numbers of one rank. They are sent between ranks as raw memory. */
struct ah_measured {
    struct ah_tally_rank times;
    uint64_t sent_bytes;   /* bytes sent to neighbours per step */
    uint64_t summed_bytes; /* bytes of sums sent to other pipelines per step */
    uint64_t device_bytes; /* highest end of an operand in the arena */
    uint64_t host_bytes;
};

/* Collects the numbers of all ranks. Rank 0 calls it with its own tally, at a drained point. `ret_measured` has room
 * for all ranks, in order. After an error of a message the world is lost. */
int ah_measured_collect(struct ah_trainer *trainer, struct ah_tally *tally, struct ah_measured *ret_measured,
                        struct ah_error *err);

#endif
