/* SPDX-License-Identifier: Apache-2.0
 *
 * Fails each allocation of every reader and writer once: expects an error, no leak, no crash, never a wrong success.
 */
#include "tests/support/documents.h"
#include "tests/support/fault.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const paths[] = {
    "tests/golden/schemas/documents/model.json",
    "tests/golden/schemas/documents/machine.json",
    "tests/golden/schemas/documents/cluster.json",
    "tests/golden/schemas/documents/plan.json",
    "tests/golden/schemas/documents/cluster-plan.json",
    "tests/golden/schemas/documents/inventory.json",
    "tests/golden/schemas/documents/moves.json",
    "tests/golden/schemas/documents/checkpoint.json",
    "tests/golden/schemas/documents/resume.json",
    "tests/golden/schemas/documents/status.json",
    "tests/golden/schemas/documents/runlog.ndjson",
    "examples/models/gpt2-124m.json",
    "examples/models/llama-2-7b.json",
    "examples/models/qwen3-0.6b.json",
};

static int round_trip(void *context, struct ah_error *err)
{
    struct ah_document document = {0}, again = {0};
    struct ah_buffer out = {0};
    int rc = ah_document_load(&document, context, AH_DOCUMENT_ANY, err);
    if (!rc)
        rc = ah_document_print(&document, &out, err);
    if (!rc)
        rc = ah_document_parse(&again, "printed", out.data, out.size, document.kind, err);
    char digest[AH_DOCUMENT_DIGEST_MAX];
    if (!rc)
        rc = ah_document_digest(&document, digest, err);
    if (!rc && ah_document_diff(&document, &again, NULL, NULL) == SIZE_MAX)
        rc = ah_error_memory(err);
    if (rc && rc != AH_E_MEMORY)
        fail_msg("not an out of memory: %s", err->text);
    ah_buffer_release(&out);
    ah_document_release(&document);
    ah_document_release(&again);
    return rc;
}

TEST(document, survives_every_failing_allocation)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s", paths[i]);
        size_t n = fault_sweep(round_trip, path, 0);
        print_message("%s: %zu allocations\n", path, n);
        assert_true(n > 10);
    }
}

static int schema(void *context, struct ah_error *err)
{
    struct ah_buffer out = {0};
    int rc = ah_document_schema(*(enum ah_document_kind *)context, &out, err);
    ah_buffer_release(&out);
    return rc;
}

TEST(document, survives_them_in_schemas)
{
    for (int i = AH_DOCUMENT_ANY + 1; i < AH_DOCUMENT_KINDS; i++) {
        enum ah_document_kind kind = (enum ah_document_kind)i;
        assert_true(fault_sweep(schema, &kind, 0) > 2);
    }
}

/* Reads a bad document. It must be refused for the old reason, or for lack of memory. */
static int refused(void *context, struct ah_error *err)
{
    struct ah_document document;
    const char *text = context;
    int rc = ah_document_parse(&document, "refused", text, strlen(text), AH_DOCUMENT_ANY, err);
    if (!rc)
        fail_msg("accepted: %s", text);
    if (rc == AH_E_MEMORY)
        assert_int_equal(document.fault, AH_FAULT_NONE);
    return rc == AH_E_DOCUMENT ? AH_OK : rc;
}

TEST(document, survives_them_while_refusing)
{
    static const char *const texts[] = {
        "{\"kind\":\"plan\",\"kind\":\"plan\"}",
        "{\"kind\":\"plan\",\"format_version\":\"7.0\"}",
        "{\"kind\":\"poem\"}",
        "{\"kind\":\"plan\",\"format_version\":\"1.0\",\"generator\":7}",
        "{\"kind\":\"model\",\"format_version\":\"1.0\",\"generator\":\"x\",\"layers\":0}",
        "{\"kind\":\"plan\",\"format_version\":\"1.0\",\"annotations\":{\"a\":1}}",
        "{\"kind\":\"runlog\",\"format_version\":\"1.0\"}\n{\"line\":\"step\"}\n",
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"what\":1,\"rope_scaling\":{\"type\":\"yarn\"}}",
        "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,"
        "\"m\":1,\"n\":1,"
        "\"o\":1,\"p\":1,\"q\":1,\"q\":1}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s", texts[i]);
        fault_sweep(refused, text, 1);
    }
}

static int look_up(void *context, struct ah_error *err)
{
    struct ah_value value;
    int rc = ah_document_lookup(context, "time.nothing", &value, err);
    return rc == AH_E_USAGE ? AH_OK : rc;
}

TEST(document, survives_them_in_lookup)
{
    struct ah_document plan;
    load_document(&plan, "tests/golden/schemas/documents/plan.json", AH_DOCUMENT_PLAN);
    fault_sweep(look_up, &plan, 1);
    ah_document_release(&plan);
}
