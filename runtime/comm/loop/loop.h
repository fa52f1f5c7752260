/* SPDX-License-Identifier: Apache-2.0
 *
 * Loop: connects ranks that are threads of one process. A hub is the world; each rank passes it as `boot` and borrows
 * it until its end is closed. A message is one copy from the sender's memory to the receiver's, as soon as send and
 * receive are posted. No transport may write to the receiver's memory earlier.
 *
 * For tests, the hub can behave as badly as the contract allows. It can fill a posted receive with 0xFF, delay and
 * reorder copies and completions, kill a rank, or make messages of a rank wait for each other.
 *
 *     ah_comm_hub_new(&hub, 4, &(struct ah_comm_hub_options){0}, err);
 *     ... on four threads: ah_comm_open(&comm, &(struct ah_comm_options){ah_comm_loop(), rank, 4, hub}, err) ...
 *     ah_comm_hub_free(hub);
 */
#ifndef AH_RUNTIME_COMM_LOOP_LOOP_H
#define AH_RUNTIME_COMM_LOOP_LOOP_H

#include "runtime/comm/driver.h"

struct ah_comm_hub;

/* All zeros: no delays, no failures. */
struct ah_comm_hub_options {
    bool poisons; /* a receive fills its memory with 0xFF bytes when it is posted */
    uint32_t
        /* half of all copies and completions are late by up to this time, so channels overtake each other */
        most_delay_us;
    uint64_t seed;    /* for the delays */
    uint64_t dies_at; /* `dying_rank` dies when it posts its message of this number, from 1; 0: never */
    uint32_t dying_rank;

    /* Messages of a rank progress one at a time, in the order of posts, except those moved together: the worst that
     * NCCL allows. If ranks then wait for each other forever, the world is lost and the reason names them. */
    bool is_serial;
    uint32_t serial_purposes; /* only channels with purposes below this number are serial; 0: all */
};

/* Makes a hub, *owned* by the caller; `options` may be NULL. AH_E_USAGE: `ranks` is 0; AH_E_MEMORY. */
int ah_comm_hub_new(struct ah_comm_hub **ret_hub, uint32_t ranks, const struct ah_comm_hub_options *options,
                    struct ah_error *err);

/* Frees the hub, once all ends are closed. NULL is fine. */
void ah_comm_hub_free(struct ah_comm_hub *hub);

const struct ah_comm_driver *ah_comm_loop(void);

#endif
