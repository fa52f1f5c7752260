/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: the channels of one rank, and what goes over rank 0 before and beside training.
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

/* What channels are for, as both ends number it: first those of data, which a transport of devices may carry. */
enum ah_links_purpose {
    AH_LINKS_OUTPUT,
    AH_LINKS_GRADIENT,
    AH_LINKS_PARTIAL, /* sums of one pipeline */
    AH_LINKS_TOTAL,   /* of all */
    AH_LINKS_CONTROL, /* from here on: in host memory, and independent of each other */
    AH_LINKS_GATE_UP = AH_LINKS_CONTROL,
    AH_LINKS_GATE_DOWN,
    AH_LINKS_UP,
    AH_LINKS_DOWN,
    AH_LINKS_BEAT_UP, /* beats.c */
    AH_LINKS_BEAT_DOWN
};

/* The most that a channel to or from rank 0 carries: a piece of weights. */
enum { AH_LINKS_PIECE_BYTES = AH_WEIGHTS_PIECE_MAX * sizeof(float) };

enum { AH_LINKS_BEAT_BYTES = 16 + sizeof(struct ah_trainer_beat) };

/* Channels of a rank over which something goes, and another: to it, and from it. */
struct ah_links_pair {
    uint32_t up, down;
};

struct ah_links {
    const struct ah_trainer_rank *place; /* borrowed */
    struct ah_arena arena;
    uint32_t channel[AH_CHANNELS];             /* to and from neighbours; those that the program has */
    struct ah_links_pair *gate, *other, *beat; /* by rank where all go over this one, else the first alone */
    uint32_t *sums;                            /* by ah_bind_sum_channel() - AH_CHANNELS */
    bool *trains;                              /* by rank: anything */
    uint32_t gatekeeper; /* the first rank that trains: over it goes what the norm needs */
};

/* Collective: all ranks of the world, each with its program. Errors of ah_comm_channels(); AH_E_MEMORY. Whoever fails loses
 * the world. */
int ah_links_open(struct ah_links *ret_links, const struct ah_trainer_rank *place,
                  const struct ah_plan *program, struct ah_error *err);

/* From rank 0 to all others; at most AH_LINKS_PIECE_BYTES. */
int ah_links_share(const struct ah_links *links, void *data, uint64_t bytes, struct ah_error *err);

/* The same number of bytes from each rank, in their order, at rank 0; `ret_all` is rank 0's. */
int ah_links_collect(const struct ah_links *links, void *mine, uint64_t bytes, void *ret_all,
                     struct ah_error *err);

/* One message of a channel. */
static inline int ah_links_move(const struct ah_links *links, uint32_t channel, void *data, uint64_t bytes,
                                struct ah_error *err)
{
    return ah_comm_move(links->place->comm, channel, data, bytes, err);
}

/* After a failure of this rank: the others end, too. Returns the code of the first failure of all, and says whose it was, where
 * it was not rank 0's own. */
int ah_links_fail(const struct ah_trainer_rank *place, int rc, struct ah_error *err);

/* Messages of the world for one between neighbours: of a pace's there are a word and a time before it. */
static inline uint64_t ah_links_each(const struct ah_trainer_rank *place)
{
    return place->ways ? 3 : 1;
}

/* Sets "rank 1 on host 'b': why" and returns `code`. */
int ah_links_say(const struct ah_trainer_rank *place, uint32_t rank, int code, const char *why,
                 struct ah_error *err);

/* What this rank waits for, or waited for when the world was lost: "the output of micro-batch 5 from rank 1"; nothing where it
 * waits for nobody. While the end is open; any thread. `each`: ah_links_each(). `out` is empty before. */
void ah_links_waits(struct ah_comm *comm, uint64_t micro_batches, uint64_t each, struct ah_buffer *out);

void ah_links_release(struct ah_links *links);

#endif
