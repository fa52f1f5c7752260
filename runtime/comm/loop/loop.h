/* SPDX-License-Identifier: Apache-2.0
 *
 * Loop: ranks that are threads of one process. A hub is the world; each rank gives it as `boot` and borrows it until its end
 * is closed. A message is one copy from its sender's place to its receiver's, at the first moment that both are posted: the
 * earliest that any transport may write there.
 *
 * For tests the hub makes the world as bad as it may be: a receive's place is full of 0xFF from its post on, copies and
 * completions come late and in another order, a rank dies, and messages of a rank wait for each other.
 *
 *     ah_comm_hub_new(&hub, 4, &(struct ah_comm_hub_options){0}, err);
 *     ... on four threads: ah_comm_open(&comm, &(struct ah_comm_options){ah_comm_loop(), rank, 4, hub}, err) ...
 *     ah_comm_hub_free(hub);
 */
#ifndef AH_RUNTIME_COMM_LOOP_LOOP_H
#define AH_RUNTIME_COMM_LOOP_LOOP_H

#include "runtime/comm/driver.h"

struct ah_comm_hub;

/* Zeros: the fastest world. */
struct ah_comm_hub_options {
    bool poisons; /* a receive fills its place with 0xFF bytes when it is posted */
    uint32_t
        most_delay_us; /* every other copy and completion is late by up to this; so channels overtake each other */
    uint64_t seed;    /* of the delays */
    uint64_t dies_at; /* the message, counted from 1, at whose post `dying_rank` is lost; 0: none */
    uint32_t dying_rank;

    /* Messages of a rank progress one at a time, in the order of their posts, but for those that are moved together: the worst
     * that NCCL allows. Where ranks wait for each other for ever then, the world is lost and the reason names them. */
    bool is_serial;
    uint32_t serial_purposes; /* of channels that take turns: those below it; 0: all */
};

/* *Owned* by the caller; `options` may be NULL. AH_E_USAGE: no rank; AH_E_MEMORY. */
int ah_comm_hub_new(struct ah_comm_hub **ret_hub, uint32_t ranks, const struct ah_comm_hub_options *options,
                    struct ah_error *err);

/* When all ends are closed. NULL is fine. */
void ah_comm_hub_free(struct ah_comm_hub *hub);

const struct ah_comm_driver *ah_comm_loop(void);

#endif
