/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation once while the adapter of a golden case is found.
 */
#include "runtime/model/adapter.h"

#include "tests/support/documents.h"
#include "tests/support/fault.h"

static int find(void *context, struct ah_error *err)
{
    const struct ah_document *model = context;
    struct ah_adapter_found found;
    struct ah_arena arena = {0};
    const int rc = ah_adapter_find(model->body.model, "tests/golden/train/gpt2-lora", &arena, &found, err);
    ah_arena_release(&arena);
    return rc;
}

TEST(adapter, survives_every_failing_allocation)
{
    struct ah_document model;
    load_document(&model, "tests/golden/train/gpt2-lora/config.json", AH_DOCUMENT_MODEL);
    assert_true(fault_sweep(find, &model, 0) > 5);
    ah_document_release(&model);
}
