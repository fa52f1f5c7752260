/* SPDX-License-Identifier: Apache-2.0
 *
 * Region: the memory of one device arena.
 *
 * Mapped, made of huge pages where the system has them, and touched at once: a page fault in the step loop
 * costs more than the work on the page.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_REGION_H
#define AH_RUNTIME_DEVICE_CPU_REGION_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Every region starts at a multiple of this: a huge page. */
#define AH_REGION_ALIGN_BYTES (UINT64_C(1) << 21)

struct ah_region {
    unsigned char *data; /* owned; zeros at first; NULL while empty */
    uint64_t bytes;
    void *mapping; /* what to unmap */
    uint64_t mapping_bytes;
    uint64_t locked_bytes; /* held in memory by mlock(2) */
};

/* `lock` asks for mlock(2); a refusal is no failure, `locked_bytes` tells. 0 bytes: an empty region.
 * AH_E_MEMORY where the system has no address space or pages for it. */
int ah_region_init(struct ah_region *region, uint64_t bytes, bool lock, struct ah_error *err);
void ah_region_release(struct ah_region *region);

#endif
