/* SPDX-License-Identifier: Apache-2.0
 *
 * What the concert's files share: programs as they are read (concert_score.c), stages that play them (concert_stage.c).
 *
 * A SCORE is a program with what its items mean to others. A PLAYER is a stage. Messages between stages keep their
 * order, so a count identifies each: the k-th output, gradient or freed place, over all steps.
 */
#ifndef AH_PLANNER_CLUSTER_CONCERT_INTERNAL_H
#define AH_PLANNER_CLUSTER_CONCERT_INTERNAL_H

#include "base/arena.h"
#include "planner/cluster/concert.h"
#include "planner/cluster/nics.h"
#include "planner/cluster/race.h"
#include "runtime/schedule/messages.h"
#include "runtime/schedule/rounds.h"

enum { CONCERT_SETS = 1 << AH_ROUNDS_LANES, CONCERT_WAITING = 2, CONCERT_NONE = UINT32_MAX };

/* What an item means to others, as bits. */
enum {
    MARK_INPUT = 1,        /* waits for the output of the stage before */
    MARK_GRADIENT = 2,     /* waits for the gradient, or the word, of the stage behind */
    MARK_SENDS_OUTPUT = 4, /* which has arrived when it ends */
    MARK_SENDS_GRADIENT = 8,
    MARK_PLACE = 16,       /* waits for a place at the stage before */
    MARK_FREES_PLACE = 32, /* the last use of the gradient that was sent here */
    MARK_BEFORE_GATE = 64, /* the gate waits for it */
    MARK_BEHIND_GATE = 128,
    MARK_ENDS_STEP = 256, /* the last of the compute lane: then the next step's inputs may arrive */
    MARK_NEXT_STEP = 512  /* for the step after its own */
};

struct score {
    const struct ah_plan *plan;
    struct ah_rounds rounds;
    struct ah_messages messages;
    double *duration_us; /* by item, at full speed */
    uint16_t *marks;     /* by item */
    uint32_t
        *first_final; /* by item: the first block whose gradients are final at its end; CONCERT_NONE: none */
    uint32_t *next_final; /* by block: the next one at the same item */
    uint64_t before_gate; /* items of a step */
    uint64_t counted;     /* items of a step that belong to it */
    uint64_t micro_batches;
    bool frees_places;
    double speeds[CONCERT_SETS][AH_ROUNDS_LANES]; /* by the set of lanes that work */
};

struct concert_lane {
    size_t at;      /* in the order of the lane */
    uint32_t round; /* of the order; round 0 begins before the first step */
    bool done, works, held;
    uint32_t item, step; /* at `at` */
    uint32_t waits_for;  /* an item that must have ended ... */
    uint32_t times;      /* ... this many times before this one can start */
    double start_us, since_us, left_us, speed, end_us;
};

struct player {
    const struct score *score;
    const struct ah_cluster_plan_stage *stage;
    size_t node; /* counted by their first stage */
    struct concert_lane lanes[AH_ROUNDS_LANES];
    uint32_t *ended; /* by item: how often it has ended */
    uint64_t taken[AH_ROUNDS_RINGS], given[AH_ROUNDS_RINGS];
    uint64_t outputs, gradients, places; /* sent, sent, freed */
    uint32_t *segments;                  /* that it owns, in the order of the plan */
    size_t n_segments, front;            /* front: the next of them */
};

struct sum {
    const struct ah_cluster_plan_segment *segment;
    uint32_t *owners; /* players */
    size_t n_owners;
    double volume_bytes;             /* through each owner's NIC; 0: it stays inside a node */
    uint64_t left[AH_CONCERT_STEPS]; /* blocks of its owners whose gradients are not final */
    uint32_t step;
    bool works;
    double start_us, end_us;
};

/* The race numbers its things in this order: ends of players, ends of sums, starts of players, starts of sums. */
struct concert {
    const struct ah_cluster_plan *plan;
    const struct ah_concert_listener *listener;
    struct ah_arena *arena;
    struct score *scores;
    struct player *players;
    size_t n_players;
    struct sum *sums;
    size_t n_sums;
    uint32_t *sum_of; /* by block of the model: the sum of its gradients; CONCERT_NONE: none */
    uint32_t tied;    /* the sum of the tied table; CONCERT_NONE: none */
    double boundary_bytes;
    struct ah_nics nics;
    struct ah_race race;
    double now_us;
    uint64_t gate[AH_CONCERT_STEPS]; /* how many items and sums it still waits for */
    double ends_us[AH_CONCERT_STEPS];
    uint64_t left; /* items and sums of all steps */
    uint64_t held;
};

/* concert_score.c. Everything in `arena`; AH_E_DOCUMENT, AH_E_MEMORY. */
int ah_concert_read(const struct ah_plan *program, struct ah_arena *arena, struct score *ret_score,
                    struct ah_error *err);

/* concert_stage.c: what ends, and what can start, at `now_us`. */
int ah_concert_begin(struct concert *c, size_t player, struct ah_error *err);
void ah_concert_end_items(struct concert *c, size_t player);
void ah_concert_start_items(struct concert *c, size_t player);

/* concert.c: a player may have something to start now. */
void ah_concert_wake(struct concert *c, size_t player);
void ah_concert_gradient_is_final(struct concert *c, size_t player, uint32_t block, uint32_t step);
void ah_concert_is_before_gate(struct concert *c, uint32_t step); /* one such item or sum is done */

#endif
