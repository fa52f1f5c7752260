/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how plans of format 1.0 are read. plan-1.0.json and examples/plans/tiny.json are the same plan in both formats.
 */
#include "base/file.h"
#include "schemas/cluster_plan.h"
#include "schemas/document.h"
#include "schemas/plan.h"
#include "tests/support/check.h"
#include "tests/support/documents.h"

#include <string.h>

/* Counts the differences that format 1.0 cannot express; fails at any other. */
static void expect_unstated(void *context, const char *path, const char *a, const char *b)
{
    size_t *n = context;
    (*n)++;
    if (strncmp(path, "knobs.", 6) != 0 && !(strstr(path, "arena.tensors[") && strstr(path, "].micro_batch")))
        fail_msg("%s: %s is not %s", path, a, b);
}

TEST(plan_upgrade, reads_the_same_plan)
{
    struct ah_document old, now;
    size_t n = 0;
    load_document(&old, "tests/cli/documents/plan-1.0.json", AH_DOCUMENT_PLAN);
    load_document(&now, "examples/plans/tiny.json", AH_DOCUMENT_PLAN);
    assert_true(old.outdated && !now.outdated);
    (void)ah_document_diff(&old, &now, expect_unstated, &n);
    assert_true(n > 0);
    const struct ah_plan_arena *arena = &now.body.plan->arena;
    for (size_t i = 0; i < arena->n_tensors; i++) {
        const bool position =
            arena->tensors[i].label == AH_TENSOR_FETCHED || arena->tensors[i].label == AH_TENSOR_SCRATCH;
        assert_true(position || old.body.plan->arena.tensors[i].micro_batch == arena->tensors[i].micro_batch);
    }
    ah_document_release(&old);
    ah_document_release(&now);
}

TEST(plan_upgrade, reads_programs_of_a_cluster_plan)
{
    struct ah_document old;
    load_document(&old, "tests/cli/documents/cluster-plan-1.0.json", AH_DOCUMENT_CLUSTER_PLAN);
    const struct ah_cluster_plan *plan = old.body.cluster_plan;
    assert_true(old.outdated && plan->n_programs > 0);
    for (size_t p = 0; p < plan->n_programs; p++) {
        const struct ah_plan *program = &plan->programs[p];
        const struct ah_plan_tensor *tensor = &program->arena.tensors[0];
        assert_true(tensor->label == AH_TENSOR_WEIGHTS && tensor->block == 0);
    }
    ah_document_release(&old);
}

/* Reads the old plan after one text of it was replaced; it must be refused with a message that contains `part`. */
static void refused(const char *from, const char *to, const char *part)
{
    struct ah_buffer text = {0}, changed = {0};
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_OK(ah_file_read("tests/cli/documents/plan-1.0.json", 1 << 20, &text, &err), err);
    const char *at = strstr(text.data, from);
    assert_non_null(at);
    ah_buffer_printf(&changed, "%.*s%s%s", (int)(at - text.data), text.data, to, at + strlen(from));
    CHECK_FAILS(ah_document_parse(&document, "old.json", changed.data, changed.size, AH_DOCUMENT_ANY, &err),
                err, AH_E_DOCUMENT, part);
    ah_buffer_release(&text);
    ah_buffer_release(&changed);
}

TEST(plan_upgrade, refuses_what_no_tensor_is_called)
{
    static const char *const names[] = {"",
                                        ".",
                                        "layer",
                                        "layer.",
                                        "layer.3",
                                        "layer.3.",
                                        "head.weight",
                                        "layer.x.weights",
                                        "layer.-1.saved.0",
                                        "state_rings",
                                        "layer.0weights"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char to[64];
        snprintf(to, sizeof to, "\"name\": \"%s\"", names[i]);
        refused("\"name\": \"embedding.weights\"", to, "arena.tensors[0]");
    }
    refused("\"name\": \"embedding.weights\"", "\"name\": \"weights\"", "arena.tensors[0].block: is missing");
    refused("\"name\": \"embedding.weights\"", "\"name\": \"head.tokens\"",
            "arena.tensors[0].block: does not go");
    refused("\"name\": \"embedding.weights\"", "\"name\": \"layer.99.weights\"", "there is no block 100");
    refused("\"name\": \"embedding.weights\"", "\"name\": 7", "arena.tensors[0].label: is missing");
    refused("\"name\": \"embedding.weights\"", "\"label\": \"weights\"",
            "arena.tensors[0].block: is missing");
}
