/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of two plans: the facts of each and, in "diff", the output of diff --json.
 */
#include "cli/compare/diff_plan.h"
#include "cli/page/page.h"
#include "cli/page/page_internal.h"

static void put_side(struct ah_emit *emit, const char *key, const char *file, const struct ah_plan *plan)
{
    char name[AH_DOCUMENT_NAME_MAX];
    ah_emit_open(emit, key, '{');
    ah_emit_text(emit, "file", ah_document_short_name(file, name));
    page_put_plan(emit, plan);
    page_put_classes(emit, &plan->memory);
    page_put_lanes(emit, plan);
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
