/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by layout.c, for persistent tensors, the stack and live bytes, and layout_fit.c, for other tensors. All sizes
 * and offsets here are in units of AH_LAYOUT_ALIGN bytes.
 */
#ifndef AH_RUNTIME_SCHEDULE_LAYOUT_INTERNAL_H
#define AH_RUNTIME_SCHEDULE_LAYOUT_INTERNAL_H

#include "runtime/schedule/layout.h"

enum { LAYOUT_INDEX_BITS = 20, LAYOUT_INDEX_MASK = (1 << LAYOUT_INDEX_BITS) - 1, LAYOUT_CHUNK = 32 };

/* A tensor that is neither persistent nor stacked and whose lifetime has several positions. */
struct layout_span {
    uint32_t tensor;
    uint32_t from, to;
    uint32_t length; /* positions */
    uint64_t units;
    uint64_t floor; /* the highest `top` of its positions */
    uint64_t offset;
};

/* Number of ways to place spans (layout_fit.c). */
enum { LAYOUT_WAYS = 6 };

/* The arrays of a layout, indexed by tensor unless said otherwise. Working arrays keep nothing between calls. */
struct ah_layout_memory {
    size_t max_tensors, max_positions;
    uint64_t *units; /* size */
    uint64_t *best;  /* offset in the best layout so far */
    uint64_t *at;    /* offset in the layout being tried */

    struct layout_span *spans; /* in order of `from` */
    size_t n_spans;
    /* tensors alive at a single position, sorted by position; also a working array of the stack */
    uint32_t *moments;
    size_t n_moments;

    uint64_t *top;         /* by position: the end of the persistent and stacked tensors alive there */
    uint64_t *chunk_top;   /* by LAYOUT_CHUNK positions: the highest `top` among them */
    uint64_t *live;        /* by position: a row of bits; bit i is set if span i is alive there */
    uint32_t *span_first;  /* by position: the first span that begins there or later */
    uint32_t *ending;      /* by position: a span that ends there, or n_spans */
    uint32_t *ending_next; /* by span: the next span that ends at the same position, or n_spans */

    uint32_t *placed; /* spans that have an offset in the layout being tried, lowest first */
    size_t n_placed;
    uint64_t *has_place; /* bit i is set if span i is among them */
    uint32_t *busy;      /* the placed spans that the current tensor must not overlap, lowest first */
    size_t n_busy;
    uint64_t *row; /* bit i is set if span i overlaps the current span */

    uint32_t *orders; /* for each of LAYOUT_WAYS ways: the spans in the order in which they are placed */
    uint32_t *order;  /* the order being tried */
    size_t culprit;   /* index in `order` of the span that makes the current layout too high */
    size_t culprits[LAYOUT_WAYS];

    uint64_t *keys, *sums;            /* working arrays */
    uint32_t *sorted, *stack, *first; /* working arrays; `first` and `sums` are indexed by position */
};

/* Returns how many positions `position` comes after `cut` on the circle. */
static inline uint32_t layout_turn(uint32_t position, uint32_t cut, size_t positions)
{
    return (uint32_t)(position >= cut ? position - cut : position + positions - cut);
}

/* Returns the first position p with the least sum of units of tensors alive at both p - 1 and p. */
uint32_t ah_layout_cut(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors,
                       const uint32_t *indices, size_t n, size_t positions);

void ah_layout_sort(uint64_t *keys, size_t n);

/* Heights in units. No layout is lower than `live`. A layout no higher than `enough` is not improved. */
struct layout_heights {
    uint64_t live;
    uint64_t enough;
};

/* Sets `best` for the spans and moments listed by layout.c. `top` and the offsets of all other tensors must be set. */
void ah_layout_fit(struct ah_layout_memory *memory, const struct ah_layout_tensor *tensors, size_t positions,
                   struct layout_heights heights);

#endif
