/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of pages: fixed texts, and the data inserted into them.
 */
#ifndef AH_CLI_PAGE_PAGE_INTERNAL_H
#define AH_CLI_PAGE_PAGE_INTERNAL_H

#include "cli/frame/emit.h"
#include "cli/plan/plan_prospects.h"
#include "runtime/schedule/occupancy.h"
#include "runtime/schedule/replay.h"

/* the pages without their data, embedded by page/embed.cmake */
extern const unsigned char page_plan[], page_cluster[], page_diff[], page_report[];
extern const size_t page_plan_bytes, page_cluster_bytes, page_diff_bytes, page_report_bytes;

/* Writes the page `text` with its data to a file or, for `-`, to standard output. */
int page_write_text(struct ah_cli *cli, const char *path, const unsigned char *text, size_t bytes,
                    const struct ah_buffer *json, struct ah_error *err);

struct page {
    const struct ah_plan *plan;
    const struct ah_plan_prospects *prospects; /* (optional) */
    struct ah_replay replay;
    size_t iterations; /* number of iterations in the replay */
    struct ah_occupancy occupancy;
    struct ah_arena *arena;
    struct ah_emit emit;
};

/* Adds the plan's own statements: inputs, training, times, memory, blocks. */
void page_put_plan(struct ah_emit *emit, const struct ah_plan *plan);

/* Adds "classes": device bytes at the peak, by class, with the gaps between tensors and the reserve. */
void page_put_classes(struct ah_emit *emit, const struct ah_plan_memory *memory);

/* Adds "lanes": rows [lane, its busy time, the time that compute waits for it]. */
void page_put_lanes(struct ah_emit *emit, const struct ah_plan *plan);

/* Adds "facts": everything except the timeline. */
void page_put_facts(struct page *page);

/* Adds "timeline": the bars of two steady iterations, and those of neighbouring iterations that overlap them. */
int page_put_timeline(struct page *page, struct ah_error *err);

#endif
