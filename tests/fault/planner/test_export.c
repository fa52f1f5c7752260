/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of an export once: expects an error and no leak, never success with a truncated text.
 */
#include "planner/export/export.h"

#include "tests/support/documents.h"
#include "tests/support/fault.h"

#define PATH "tests/cli/documents/plan.json"

struct job {
    const struct ah_plan *plan;
    enum ah_export_target target;
};

static int export_and_print(void *context, struct ah_error *err)
{
    const struct job *job = context;
    struct ah_arena arena = {0};
    struct ah_buffer text = {0};
    struct ah_buffer settings = {0};
    struct ah_export export;
    int rc = ah_export_plan(job->plan, "digest", job->target, &arena, &export, err);
    if (!rc) {
        ah_export_print(&export, &text);
        ah_export_print_settings(&export, &settings);
        if (text.failed || settings.failed)
            rc = ah_error_memory(err);
    }
    ah_buffer_release(&text);
    ah_buffer_release(&settings);
    ah_arena_release(&arena);
    return rc;
}

TEST(export, survives_every_failing_allocation)
{
    struct ah_document document;
    load_document(&document, PATH, AH_DOCUMENT_PLAN);
    for (unsigned target = 0; ah_words_export_target[target]; target++) {
        struct job job = {document.body.plan, (enum ah_export_target)target};
        assert_true(fault_sweep(export_and_print, &job, 0) > 4);
    }
    ah_document_release(&document);
}
