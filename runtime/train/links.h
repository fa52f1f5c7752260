/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: opens the channels of one rank, and passes messages through rank 0 before and during training.
 *
 *     place.comm = comm;
 *     rc = ah_links_open(&links, &place, program, err);          // collective
 *     rc = ah_links_share(&links, &settings, sizeof settings, err);
 *     place.links = &links;                                      // for the trainer
 *
 * A trainer whose place has no links opens its own.
 */
#ifndef AH_RUNTIME_TRAIN_LINKS_H
#define AH_RUNTIME_TRAIN_LINKS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "runtime/comm/comm.h"
#include "runtime/schedule/messages.h"
#include "runtime/train/trainer.h"

/* What a channel is for; both ends use one number. A device's transport may carry data channels, which come first. */
enum ah_links_purpose {
    AH_LINKS_OUTPUT,
    AH_LINKS_GRADIENT,
    AH_LINKS_PARTIAL, /* a rank's part of a sum over pipelines, for the owner of the piece; scatters, squares */
    AH_LINKS_TOTAL,   /* the total of a piece, back from its owner; gathered weights */
    AH_LINKS_CONTROL, /* channels from here on are in host memory, and independent of each other */
    AH_LINKS_GATE_UP = AH_LINKS_CONTROL,
    AH_LINKS_GATE_DOWN,
    AH_LINKS_UP,
    AH_LINKS_DOWN,
    AH_LINKS_BEAT_UP, /* beats.c */
    AH_LINKS_BEAT_DOWN
};

/* The most bytes that a channel to or from rank 0 carries: those of a piece of weights. */
enum { AH_LINKS_PIECE_BYTES = AH_WEIGHTS_PIECE_MAX * sizeof(float) };

enum { AH_LINKS_BEAT_BYTES = 16 + sizeof(struct ah_trainer_beat) };

/* The two channels between a rank that collects reports and another rank: up to the collector, and down from it. */
struct ah_links_pair {
    uint32_t up, down;
};

struct ah_links {
    const struct ah_trainer_rank *place; /* borrowed */
    struct ah_arena arena;
    uint32_t channel[AH_CHANNELS]; /* to and from neighbours, if the program has such messages */
    struct ah_links_pair *gate, *other,
        /* Indexed by rank if this rank collects reports; otherwise only the first is used. */
        *beat;
    uint32_t *sums;      /* by ah_bind_sum_channel() - AH_CHANNELS */
    bool *trains;        /* by rank: true if it trains anything */
    uint32_t gatekeeper; /* the first rank that trains; it collects the sums for the norm */
};

/* Opens the channels of this rank. Collective: all ranks of the world call it, each with its program. Errors of
 * ah_comm_channels(); AH_E_MEMORY. After a failure the world is lost. */
int ah_links_open(struct ah_links *ret_links, const struct ah_trainer_rank *place,
                  const struct ah_plan *program, struct ah_error *err);

/* Copies `bytes` of `data`, at most AH_LINKS_PIECE_BYTES, from rank 0 to all other ranks. */
int ah_links_share(const struct ah_links *links, void *data, uint64_t bytes, struct ah_error *err);

/* Collects `bytes` from each rank at rank 0, in the order of ranks. `ret_all` is used at rank 0 only. */
int ah_links_collect(const struct ah_links *links, void *mine, uint64_t bytes, void *ret_all,
                     struct ah_error *err);

/* Sends or receives one message of a channel. */
static inline int ah_links_move(const struct ah_links *links, uint32_t channel, void *data, uint64_t bytes,
                                struct ah_error *err)
{
    return ah_comm_move(links->place->comm, channel, data, bytes, err);
}

/* Ends the run on all ranks after this rank failed. Returns the code of the world's first failure. `err` names the rank
 * that failed first, unless that is rank 0. */
int ah_links_fail(const struct ah_trainer_rank *place, int rc, struct ah_error *err);

/* Returns how many messages are sent for one between neighbours. A paced run also sends a word and a time. */
static inline uint64_t ah_links_each(const struct ah_trainer_rank *place)
{
    return place->nics ? 3 : 1;
}

/* Sets "rank 1 on host 'b': why" and returns `code`. */
int ah_links_say(const struct ah_trainer_rank *place, uint32_t rank, int code, const char *why,
                 struct ah_error *err);

/* Appends what this rank waits for, or waited for when the world was lost: "the output of micro-batch 5 from rank 1";
 * nothing if it waits for nobody. `out` must be empty. `each`: ah_links_each(). Any thread, while `comm` is open. */
void ah_links_waits(struct ah_comm *comm, uint64_t micro_batches, uint64_t each, struct ah_buffer *out);

void ah_links_release(struct ah_links *links);

#endif
