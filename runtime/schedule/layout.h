/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout: the offset of each tensor in the device arena.
 *
 * A tensor lives over an interval [from, to] of compute positions, both included, on the circle 0 to positions - 1
 * (from > to: past the end). Two tensors whose intervals overlap must not share bytes. A persistent tensor lives over
 * the whole circle. The layout is a pure function of the intervals and sizes.
 *
 * Saved activations nest: the last one made is the first one freed. So they form a stack without holes. Persistent
 * tensors come first, then the stack, then other tensors, in gaps between each other and above the stack. Of these
 * other tensors, a few fixed orders are tried and repaired. If stacked tensors do not nest, the stack has holes.
 *
 * `live` is a lower bound for every layout: the largest sum of bytes live at one position. All sizes are rounded up to
 * AH_LAYOUT_ALIGN first.
 *
 *     struct ah_layout layout = {0};
 *     rc = ah_layout_reserve(&layout, n, positions, err);                    // allocates
 *     ah_layout_place(&layout, tensors, n, positions, &result);              // allocates nothing; may be repeated
 *     ah_layout_release(&layout);
 *
 * One thread at a time per layout.
 */
#ifndef AH_RUNTIME_SCHEDULE_LAYOUT_H
#define AH_RUNTIME_SCHEDULE_LAYOUT_H

#include "base/error.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_LAYOUT_ALIGN = 256 };

enum ah_layout_class {
    AH_CLASS_WEIGHTS,
    AH_CLASS_GRADIENTS,
    AH_CLASS_OPTIMIZER,
    AH_CLASS_ACTIVATIONS,
    AH_CLASS_STAGING,
    AH_CLASS_WORKSPACE,
    AH_CLASSES
};

struct ah_layout_tensor {
    uint64_t bytes; /* > 0; the layout rounds up to AH_LAYOUT_ALIGN */
    uint32_t from, to;
    uint8_t layout_class; /* enum ah_layout_class */
    bool persistent;      /* its lifetime is [0, positions - 1] */
    bool stacked;         /* part of the stack */
    uint64_t offset;      /* result */
};

struct ah_layout_memory;

struct ah_layout {
    struct ah_layout_memory *memory; /* owned; NULL before the first reserve */

    /* (optional) The search stops at the first layout whose peak is at most `enough_bytes`. If that is 0, or no layout
     * is that low, the lowest layout found is used. */
    uint64_t enough_bytes;
};

struct ah_layout_result {
    uint64_t peak_bytes; /* highest end of a tensor */
    uint64_t live_bytes; /* the lower bound: the largest sum of live bytes */
    /* live bytes of each class at `peak_position`, the first position where their sum is largest */
    uint64_t by_class[AH_CLASSES];
    uint32_t peak_position;
};

/* Makes room for `n_tensors` and `n_positions`, each below 2^20 (else AH_E_USAGE). Memory never shrinks. On AH_E_MEMORY
 * and AH_E_USAGE the layout is unchanged. */
int ah_layout_reserve(struct ah_layout *layout, size_t n_tensors, size_t n_positions, struct ah_error *err);

/* Sets live_bytes, by_class and peak_position, and peak_bytes to live_bytes. Allocates nothing; takes linear time. */
void ah_layout_live(struct ah_layout *layout, const struct ah_layout_tensor *tensors, size_t n,
                    size_t positions, struct ah_layout_result *ret_result);

/* Sets the offset of every tensor. Allocates nothing and cannot fail; the caller compares the peak with its memory.
 * Tensors that sum to a PiB or more are not placed: offsets mean nothing, live_bytes and peak_bytes are a PiB. */
void ah_layout_place(struct ah_layout *layout, struct ah_layout_tensor *tensors, size_t n, size_t positions,
                     struct ah_layout_result *ret_result);

void ah_layout_release(struct ah_layout *layout);

#endif
