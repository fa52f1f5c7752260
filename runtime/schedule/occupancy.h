/* SPDX-License-Identifier: Apache-2.0
 *
 * Occupancy: what a plan document's device arena holds at every compute position, by class.
 *
 * A tensor's class follows from its label. Gaps are bytes below the end of the highest live tensor that no live tensor
 * covers. Sizes are rounded up to the layout's alignment.
 *
 *     struct ah_occupancy occupancy;
 *     rc = ah_occupancy_measure(plan, &arena, &occupancy, err);
 *     occupancy.bytes[AH_CLASS_WEIGHTS][position] ...
 */
#ifndef AH_RUNTIME_SCHEDULE_OCCUPANCY_H
#define AH_RUNTIME_SCHEDULE_OCCUPANCY_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/schedule/layout.h"
#include "schemas/plan.h"

#include <stddef.h>
#include <stdint.h>

/* The classes of enum ah_layout_class, and one more. */
enum ah_occupancy_part { AH_OCCUPANCY_GAPS = AH_CLASSES, AH_OCCUPANCY_PARTS };

/* "weights", ..., "gaps". */
extern const char *const ah_words_occupancy[AH_OCCUPANCY_PARTS];

struct ah_occupancy {
    size_t positions;
    uint64_t *bytes[AH_OCCUPANCY_PARTS]; /* by position; in the arena */
    uint64_t *top_bytes;                 /* end of the highest live tensor, by position; in the arena */
    uint64_t peak_bytes;                 /* the largest of `top_bytes` */
};

/* Measures a checked plan (schemas/document.h), in time linear in tensors and positions. AH_E_MEMORY. */
int ah_occupancy_measure(const struct ah_plan *plan, struct ah_arena *arena,
                         struct ah_occupancy *ret_occupancy, struct ah_error *err);

#endif
