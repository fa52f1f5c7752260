/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of two plans: what each says, and in "diff" what diff --json says of both.
 */
#include "cli/diff_plan.h"
#include "cli/page.h"
#include "cli/page_internal.h"
#include "cli/plan_summary.h"

static void put_classes(struct ah_emit *emit, const struct ah_plan_memory *memory)
{
    const struct ah_plan_by_class *by_class = &memory->by_class;
    uint64_t classes = by_class->weights + by_class->gradients + by_class->optimizer + by_class->activations +
                       by_class->staging + by_class->workspace;
    ah_emit_open(emit, "classes", '{');
    ah_emit_integer(emit, "weights", by_class->weights);
    ah_emit_integer(emit, "gradients", by_class->gradients);
    ah_emit_integer(emit, "optimizer", by_class->optimizer);
    ah_emit_integer(emit, "activations", by_class->activations);
    ah_emit_integer(emit, "staging", by_class->staging);
    ah_emit_integer(emit, "workspace", by_class->workspace);
    ah_emit_integer(emit, "gaps", memory->device_bytes > classes ? memory->device_bytes - classes : 0);
    ah_emit_integer(emit, "reserve", memory->reserved_bytes);
    ah_emit_close(emit);
}

/* [lane, works, compute waits for it] */
static void put_lanes(struct ah_emit *emit, const struct ah_plan *plan)
{
    const struct ah_plan_lane_times times = ah_plan_lane_times(plan);
    ah_emit_open(emit, "lanes", '[');
    for (int lane = 0; lane < AH_PLAN_LANES; lane++) {
        ah_emit_open(emit, NULL, '[');
        ah_emit_text(emit, NULL, ah_words_plan_lane[lane]);
        ah_emit_number(emit, NULL, times.busy_us[lane]);
        ah_emit_number(emit, NULL, times.exposed_us[lane]);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

static void put_side(struct ah_emit *emit, const char *key, const char *file, const struct ah_plan *plan)
{
    char name[AH_DOCUMENT_NAME_MAX];
    ah_emit_open(emit, key, '{');
    ah_emit_text(emit, "file", ah_document_short_name(file, name));
    page_put_plan(emit, plan);
    put_classes(emit, &plan->memory);
    put_lanes(emit, plan);
    ah_emit_close(emit);
}

int ah_page_write_diff(struct ah_cli *cli, const char *path, const struct ah_plan *a, const struct ah_plan *b,
                       struct ah_error *err)
{
    struct ah_buffer json = {0};
    struct ah_emit emit = {.out = &json, .one_line = true};
    ah_emit_open(&emit, NULL, '{');
    put_side(&emit, "a", cli->arguments.operands[0], a);
    put_side(&emit, "b", cli->arguments.operands[1], b);
    ah_emit_open(&emit, "diff", '{');
    ah_diff_plan_json(&emit, a, b);
    ah_emit_close(&emit);
    ah_emit_close(&emit);
    int rc = json.failed ? ah_error_memory(err)
                         : page_write_text(cli, path, page_diff, page_diff_bytes, &json, err);
    ah_buffer_release(&json);
    return rc;
}
