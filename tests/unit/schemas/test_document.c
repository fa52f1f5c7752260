/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading documents: what is accepted, how each error is named, lookup and diff.
 */
#include "base/file.h"
#include "schemas/checkpoint.h"
#include "schemas/document.h"
#include "schemas/machine.h"
#include "schemas/model.h"
#include "schemas/plan.h"
#include "schemas/runlog.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "tests/golden/schemas/documents/"
#define HEAD   "\"format_version\":\"1.0\",\"generator\":\"test\""

static struct ah_document loaded(const char *path)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_OK(ah_document_load(&document, path, AH_DOCUMENT_ANY, &err), err);
    return document;
}

static char *read_text(const char *path)
{
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_file_read(path, 1 << 20, &text, &err), err);
    return text.data;
}

/* Replaces the first `from` in `path` with `to`. Reading must fail with `fault` and a message containing `part`. */
static void check_refused(const char *path, const char *from, const char *to, enum ah_document_fault fault,
                          const char *part)
{
    char *text = read_text(path);
    char *at = strstr(text, from);
    if (!at)
        fail_msg("'%s' is not in %s", from, path);
    struct ah_buffer changed = {0};
    ah_buffer_append(&changed, text, (size_t)(at - text));
    ah_buffer_puts(&changed, to);
    ah_buffer_puts(&changed, at + strlen(from));
    struct ah_document document;
    struct ah_error err = {0};
    int rc = ah_document_parse(&document, "file.json", changed.data, changed.size, AH_DOCUMENT_ANY, &err);
    if (rc != AH_E_DOCUMENT)
        fail_msg("'%s' -> '%s' in %s: %s", from, to, path, rc ? err.text : "accepted");
    check_text_has(err.text, part);
    assert_int_equal(strncmp(err.text, "file.json", 9), 0);
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(document.fault, fault);
    assert_null(document.body.any);
    ah_buffer_release(&changed);
    free(text);
}

struct refusal {
    const char *file, *from, *to;
    enum ah_document_fault fault;
    const char *part;
};

static const struct refusal refusals[] = {
    {"plan.json", "\"optimizer\": \"host\"", "\"optimizer\": \"gpu\"", AH_FAULT_SHAPE,
     "file.json: blocks[1].optimizer: \"gpu\" is not one of device, host, streamed, none"},
    {"plan.json", "\"optimizer\": \"host\"", "\"optimizer\": \"device\"", AH_FAULT_SHAPE,
     "file.json: blocks[1].optimizer: must not be device where the weights are on the host"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 8, \"batch\": 8,", AH_FAULT_SYNTAX,
     "file.json: training.batch: appears twice"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 8, \"b\\u0061tch\": 8,", AH_FAULT_SYNTAX,
     "training.batch: appears twice"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 8, \"colour\": 8,", AH_FAULT_SHAPE,
     "file.json: training.colour: is not a known field"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 8, \"two\\nlines\": 8,", AH_FAULT_SHAPE,
     "file.json: training.two\\nlines: is not a known field"},
    {"plan.json", "\"label\": \"weights\"", "\"label\": \"two\\nlines\"", AH_FAULT_SHAPE,
     "file.json: arena.tensors[0].label: \"two\\nlines\" is not one of weights, fetched, "},
    {"plan.json", "\"weights\", \"block\": 0", "\"weights\"", AH_FAULT_SHAPE,
     "arena.tensors[0].block: is missing; such a tensor belongs to a block"},
    {"plan.json", "\"weights\", \"block\": 0", "\"tokens\", \"block\": 0", AH_FAULT_SHAPE,
     "arena.tensors[0].block: does not go with a tensor of all blocks"},
    {"plan.json", "\"weights\", \"block\": 0", "\"weights\", \"block\": 9", AH_FAULT_MEANING,
     "arena.tensors[0].block: there is no block 9"},
    {"plan.json", "\"batch\": 8,", "", AH_FAULT_SHAPE, "file.json: training.batch: is missing"},
    {"plan.json", "\"batch\": 8,", "\"batch\": null,", AH_FAULT_SHAPE,
     "file.json: training.batch: null is not an integer from 1 to 16777216"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 8.5,", AH_FAULT_SHAPE,
     "training.batch: 8.5 is not an integer"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 1e400,", AH_FAULT_SYNTAX,
     "training.batch: the number is too large"},
    {"plan.json", "\"batch\": 8,", "\"batch\": NaN,", AH_FAULT_SYNTAX, "NaN"},
    {"plan.json", "\"batch\": 8,", "\"batch\": 9007199254740993,", AH_FAULT_SHAPE,
     "training.batch: 9007199254740992 is not"},
    {"plan.json", "\"micro_batches\": 2", "\"micro_batches\": 3", AH_FAULT_MEANING,
     "file.json: training.micro_batches: 3 does not divide batch 8"},
    {"plan.json", "\"seq\": 1024", "\"seq\": 512", AH_FAULT_MEANING, "numeric_signature.seq: differs from"},
    {"plan.json", "\"device_bytes\": 268435456", "\"device_bytes\": 536870912", AH_FAULT_MEANING,
     "file.json: memory.device_bytes: 536870912"},
    {"plan.json", "\"bound_us\": 1900", "\"bound_us\": 2001", AH_FAULT_MEANING,
     "file.json: solver.bound_us: "},
    {"plan.json", "[14, 15, 16]", "[14, 15, 17]", AH_FAULT_MEANING,
     "file.json: lanes.h2d[2]: op 17 is not an op of this lane"},
    {"plan.json", "[14, 15, 16]", "[14, 15, 15]", AH_FAULT_MEANING,
     "ops[15].tiles: is 1; lanes list the op 2 times"},
    {"plan.json", "[14, 15, 16]", "[14, 15]", AH_FAULT_MEANING,
     "ops[16].tiles: is 1; lanes list the op 0 times"},
    {"plan.json", "[14, 15, 16]", "[14, 15, 99]", AH_FAULT_MEANING, "lanes.h2d[2]: op 99"},
    {"plan.json", "\"index\": 1", "\"index\": 2", AH_FAULT_MEANING, "blocks[1].index: 2 is not 1"},
    {"cluster.json", "\"name\": \"a100-80g\"", "\"name\": \"rtx4090\"", AH_FAULT_MEANING,
     "gpus[1].name: 'rtx4090' appears twice"},
    {"cluster.json", "\"b\": \"n1\"", "\"b\": \"n0\"", AH_FAULT_MEANING,
     "pairs[0]: 'n0' is paired with itself"},
    {"cluster.json", "\"pairs\": [",
     "\"pairs\": [{\"a\": \"n1\", \"b\": \"n0\", \"bytes_per_s\": 1, \"latency_us\": 1}, ", AH_FAULT_MEANING,
     "pairs[1]: 'n0' to 'n1' appears twice"},
    {"inventory.json", "\"node\": \"desktop-3090\"", "\"node\": \"desktop-3080\"", AH_FAULT_MEANING,
     "holdings[0].node: 'desktop-3080' is the id of no entry in nodes"},
    {"inventory.json", "\"gpu\": 0", "\"gpu\": 1", AH_FAULT_MEANING, "holdings[0].gpu: 1 does not exist"},
    {"inventory.json", "\"blocks\": 13", "\"blocks\": 39", AH_FAULT_MEANING,
     "holdings[0].blocks: goes beyond the model's 38"},
    {"inventory.json", "\"first_slice\": 1", "\"first_slice\": 2", AH_FAULT_MEANING,
     "holdings[5].slices: goes beyond the 2 into which blocks are cut"},
    {"inventory.json", "\"step\": 1150", "\"step\": 1201", AH_FAULT_MEANING,
     "holdings[1].step: 1201 is after the last one, 1200"},
    {"inventory.json", "\"medium\": \"storage\"", "\"medium\": \"host\"", AH_FAULT_SHAPE,
     "holdings[4].node: "},
    {"moves.json", "\"storage\": 10836421120", "\"storage\": 10836421121", AH_FAULT_MEANING,
     "bytes.storage: 10836421121 is not the sum of its moves"},
    {"moves.json", "\"kept\": 0", "\"kept\": 1", AH_FAULT_MEANING, "bytes.needed: "},
    {"model.json", "\"format_version\": \"1.0\"", "\"format_version\": 1", AH_FAULT_SHAPE,
     "format_version: 1 is a number, not the text \"1.0\"; put it in quotes"},
    {"model.json", "\"kv_heads\"", "\"kvheads\"", AH_FAULT_SHAPE,
     "kvheads: is not a known field; did you mean 'kv_heads'?"},
    {"plan.json", "\"kind\": \"plan\"", "\"kind\": \"poem\"", AH_FAULT_SHAPE,
     "file.json: kind: \"poem\" is not one of model, machine, cluster, plan, cluster-plan, inventory, moves, "
     "runlog, checkpoint"},
    {"plan.json", "\"kind\": \"plan\",", "", AH_FAULT_SHAPE, "file.json: kind: is missing"},
    {"plan.json", "\"2.0\"", "\"1.1\"", AH_FAULT_SHAPE,
     "format_version: \"1.1\" is older than 2.0; of older ones, this autohete reads 1.0"},
    {"plan.json", "\"2.0\"", "\"2.1\"", AH_FAULT_SHAPE, "format_version: \"2.1\" is newer than 2.0"},
    {"plan.json", "\"2.0\"", "\"0.9\"", AH_FAULT_SHAPE, "format_version: \"0.9\" is older"},
    {"plan.json", "\"2.0\"", "2.0", AH_FAULT_SHAPE, "format_version: 2 is a number"},
    {"cluster.json", "\"1.0\"", "\"1.1\"", AH_FAULT_SHAPE, "format_version: \"1.1\" is newer than 1.0"},
    {"cluster.json", "\"1.0\"", "\"0.9\"", AH_FAULT_SHAPE,
     "format_version: \"0.9\" is older than 1.0, the only version that this autohete reads"},
    {"plan.json", "\"optimal\"", "\"optimal\nx\"", AH_FAULT_SYNTAX, "file.json:52:21: a control character"},
    {"plan.json", "\"why\": \"a plan made by hand, for tests\"", "\"why\": 3", AH_FAULT_SHAPE,
     "file.json: annotations.why: 3 is not text"},
    {"plan.json", "\"step_us\": 3100.5", "\"x\": 1", AH_FAULT_SHAPE,
     "alternatives[1].x: is not a known field"},
    {"plan.json", ", \"step_us\": 3100.5", "", AH_FAULT_SHAPE, "alternatives[1].step_us: is missing"},
    {"machine.json", "\"links\": [", "\"links\": [3, ", AH_FAULT_SHAPE, "links: has 3 items, not 0 to 2"},
    {"machine.json", "\"direction\": \"d2h\"", "\"direction\": \"h2d\"", AH_FAULT_MEANING,
     "links[1].direction: h2d appears twice"},
    {"machine.json", "\"reserve_bytes\": 268435456", "\"reserve_bytes\": 8589934592", AH_FAULT_MEANING,
     "file.json: device.reserve_bytes: leaves nothing"},
    {"machine.json", "\"min\": 58200000000", "\"min\": 61000000000", AH_FAULT_MEANING,
     "file.json: memory[0].bytes_per_s.min: 61000000000 is above the median"},
    {"machine.json", "\"beside\": \"h2d\"", "\"beside\": \"compute\"", AH_FAULT_MEANING,
     "beside[1].beside: a part"},
    {"model.json", "\"kv_heads\": 2", "\"kv_heads\": 3", AH_FAULT_MEANING,
     "kv_heads: 3 does not divide the 4 heads"},
    {"model.json", "\"head_dim\": 32", "\"head_dim\": 31", AH_FAULT_MEANING, "head_dim: 31 is odd"},
    {"model.json", "[1, 3]", "[1, 4]", AH_FAULT_MEANING, "window_layers[1]: 4 is not a layer"},
    {"model.json", "\"layers\": 4", "\"layers\": 4, \"padding_token\": 256", AH_FAULT_MEANING,
     "padding_token: 256 is not a token; the last one is 255"},
    {"model.json", "\"layers\": 4", "\"layers\": 4, \"padding_token\": 0", AH_FAULT_NONE, ""},
    {"model.json", "[1, 3]", "[]", AH_FAULT_NONE, ""},
    {"model.json", "\"window\": 64,", "", AH_FAULT_SHAPE, "window: is missing"},
    {"model.json", "\"layers\": 4", "\"layers\": 1e999", AH_FAULT_SYNTAX, "layers: the number is too large"},
    {"cluster.json", "\"gpu\": \"rtx4090\"", "\"gpu\": \"rtx4080\"", AH_FAULT_MEANING,
     "nodes[0].gpu: 'rtx4080' is the name of no entry in gpus"},
    {"cluster.json", "\"id\": \"n1\"", "\"id\": \"n0\"", AH_FAULT_MEANING, "nodes[1].id: 'n0' appears twice"},
    {"checkpoint.json", "\"name\": \"states.bin\"", "\"name\": \"../states.bin\"", AH_FAULT_SHAPE,
     "files[1].name: "},
    {"checkpoint.json", "\"v_offset_bytes\": 2951424", "\"v_offset_bytes\": 5900000", AH_FAULT_MEANING,
     "states[1].v_offset_bytes: extends beyond the end of 'states.bin'"},
    {"runlog.ndjson", "{\"line\":\"end\"", "{\"line\":\"finis\"", AH_FAULT_SHAPE,
     "line 10: line: is not one of step"},
    {"runlog.ndjson", "{\"line\":\"end\"", "{\"line\":\"end\"}\n{\"line\":\"end\"", AH_FAULT_SHAPE,
     "line 10.step: is missing"},
    {"runlog.ndjson", "\"step\":5,\"loss\":", "\"step\":6,\"loss\":", AH_FAULT_MEANING,
     "line 3: step: 6 appears where 5 is expected"},
    {"runlog.ndjson", "\"step\":5,\"loss\":", "\"step\":5,\"loss\"", AH_FAULT_SYNTAX,
     "file.json:3:31: '4' where ':'"},
    {"runlog.ndjson", "\n{\"line\":\"save\"", "\n\n{\"line\":\"save\"", AH_FAULT_SYNTAX, "line 6: is blank"},
};

TEST(document, refuses_with_file_and_path)
{
    char path[256];
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].fault == AH_FAULT_NONE)
            continue;
        snprintf(path, sizeof path, FOLDER "%s", refusals[i].file);
        check_refused(path, refusals[i].from, refusals[i].to, refusals[i].fault, refusals[i].part);
    }
}

static void check_text(const char *text, enum ah_document_kind expected, enum ah_document_fault fault,
                       const char *part)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_FAILS(ah_document_parse(&document, "f", text, strlen(text), expected, &err), err, AH_E_DOCUMENT,
                part);
    assert_int_equal(document.fault, fault);
}

TEST(document, refuses_what_is_no_document)
{
    check_text("", AH_DOCUMENT_ANY, AH_FAULT_SYNTAX, "f: is empty");
    check_text("", AH_DOCUMENT_RUNLOG, AH_FAULT_SYNTAX, "f: is empty");
    check_text("[1]", AH_DOCUMENT_ANY, AH_FAULT_SHAPE,
               "f: the document is not a JSON object; if this is data, convert it to token files with "
               "'autohete tokenize'");
    check_text("{}", AH_DOCUMENT_ANY, AH_FAULT_SHAPE, "f: kind: is missing");
    check_text("{\"kind\":7}", AH_DOCUMENT_ANY, AH_FAULT_SHAPE, "f: kind: 7 is not one of");
    check_text("{\"kind\":\"plan\"}", AH_DOCUMENT_MODEL, AH_FAULT_SHAPE,
               "f: kind: \"plan\" where a model is expected");
    check_text("{\"kind\":\"plan\"}", AH_DOCUMENT_ANY, AH_FAULT_SHAPE, "f: format_version: is missing");
    check_text("{\"model_type\":\"gpt2\"}", AH_DOCUMENT_PLAN, AH_FAULT_SHAPE, "f: kind: is missing");
    check_text("{\"kind\":\"runlog\"," HEAD "}", AH_DOCUMENT_ANY, AH_FAULT_SHAPE,
               "f: line 1.plan_sha256: is missing");
    check_text("3", AH_DOCUMENT_RUNLOG, AH_FAULT_SHAPE, "f: line 1: 3 is not an object");
}

TEST(document, refuses_files_that_cannot_be_read)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_FAILS(ah_document_load(&document, "/nowhere/x.json", AH_DOCUMENT_ANY, &err), err, AH_E_IO,
                "/nowhere/x.json: cannot be read");
    assert_int_equal(document.fault, AH_FAULT_FILE);
    assert_int_equal(err.code, AH_E_IO);
    CHECK_FAILS(ah_document_load(&document, "schemas", AH_DOCUMENT_ANY, &err), err, AH_E_IO,
                "schemas: is a folder");
    assert_int_equal(document.fault, AH_FAULT_FILE);
    CHECK_FAILS(ah_document_load(&document, "/dev/null", AH_DOCUMENT_ANY, &err), err, AH_E_DOCUMENT,
                "/dev/null: is empty");
}

TEST(document, keeps_the_reason_behind_a_long_name)
{
    char name[4000];
    struct ah_document document;
    struct ah_error err = {0};
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    strcpy(name + sizeof name - 12, "/model.json");
    CHECK_FAILS(ah_document_parse(&document, name, "{}", 2, AH_DOCUMENT_ANY, &err), err, AH_E_DOCUMENT,
                "/model.json: kind: is missing");
    check_text_has(err.text, "\xc3\xa9...\xc3\xa9");
}

/* A text over 16 MiB that is no run log is refused unread. */
TEST(document, refuses_what_is_too_large)
{
    size_t size = (16u << 20) + 1;
    char *text = malloc(size);
    struct ah_document document;
    struct ah_error err = {0};
    assert_non_null(text);
    memset(text, ' ', size);
    CHECK_FAILS(ah_document_parse(&document, "big", text, size, AH_DOCUMENT_ANY, &err), err, AH_E_DOCUMENT,
                "big: is larger than 16 MiB");
    assert_int_equal(document.fault, AH_FAULT_FILE);
    free(text);
}

static const char *const names[] = {"model.json",      "machine.json",  "cluster.json", "plan.json",
                                    "checkpoint.json", "runlog.ndjson", "moves.json",   "inventory.json"};

TEST(document, saves_what_it_loads)
{
    char path[64] = "/tmp/ah_document_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char from[128];
        struct ah_error err = {0};
        snprintf(from, sizeof from, FOLDER "%s", names[i]);
        struct ah_document document = loaded(from);
        CHECK_OK(ah_document_save(&document, path, &err), err);
        char *a = read_text(from);
        char *b = read_text(path);
        assert_string_equal(a, b);
        struct ah_document again = loaded(path);
        assert_int_equal(again.kind, document.kind);
        assert_int_equal(ah_document_diff(&document, &again, NULL, NULL), 0);
        free(a);
        free(b);
        ah_document_release(&again);
        ah_document_release(&document);
    }
    unlink(path);
}

TEST(document, refuses_to_write_what_it_would_not_read)
{
    struct ah_document document = loaded(FOLDER "plan.json");
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    double step_us = document.body.plan->time.step_us;
    document.body.plan->time.step_us = NAN;
    CHECK_FAILS(ah_document_print(&document, &out, &err), err, AH_E_DOCUMENT, "step_us: nan is not a number");
    document.body.plan->time.step_us = INFINITY;
    CHECK_FAILS(ah_document_print(&document, &out, &err), err, AH_E_DOCUMENT, "step_us: inf");
    document.body.plan->time.step_us = step_us;
    document.body.plan->training.batch = UINT64_C(1) << 53;
    CHECK_FAILS(ah_document_print(&document, &out, &err), err, AH_E_DOCUMENT, "batch: 9007199254740992");
    document.body.plan->training.batch = 8;
    document.body.plan->policy = (enum ah_policy)99;
    CHECK_FAILS(ah_document_print(&document, &out, &err), err, AH_E_DOCUMENT, "policy: its value");
    document.body.plan->policy = AH_POLICY_OPTIMAL;
    document.body.plan->blocks[1].name = "\xff";
    CHECK_FAILS(ah_document_print(&document, &out, &err), err, AH_E_DOCUMENT, "blocks[1]: name: its text");
    document.body.plan->blocks[1].name = NULL;
    CHECK_FAILS(ah_document_print(&document, &out, &err), err, AH_E_DOCUMENT, "blocks[1]: name: nothing");
    ah_buffer_release(&out);
    ah_document_release(&document);
}

TEST(document, reads_integers_as_json_schema_does)
{
    static const char *const same[] = {"8", "8.0", "8e0", "0.8e1", "800E-2"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        char text[1024];
        struct ah_document document;
        struct ah_error err = {0};
        snprintf(text, sizeof text,
                 "{\"kind\":\"model\"," HEAD
                 ",\"name\":\"m\",\"family\":\"llama\",\"layers\":%s,\"width\":64,"
                 "\"heads\":2,\"kv_heads\":2,\"head_dim\":32,\"mlp_width\":64,\"vocabulary\":256,\"max_"
                 "positions\":64,"
                 "\"position\":\"rope\",\"rope\":{\"theta\":1e4},\"norm\":\"rms\",\"norm_epsilon\":1e-5,"
                 "\"activation\":\"silu_gated\"}",
                 same[i]);
        CHECK_OK(ah_document_parse(&document, "m", text, strlen(text), AH_DOCUMENT_MODEL, &err), err);
        assert_int_equal(document.body.model->layers, 8);
        ah_document_release(&document);
    }
}

static void check_lookup(const struct ah_document *document, const char *path, struct ah_value expected)
{
    struct ah_value value = {.kind = AH_VALUE_ABSENT};
    struct ah_error err = {0};
    CHECK_OK(ah_document_lookup(document, path, &value, &err), err);
    if (value.kind != expected.kind)
        fail_msg("%s: kind %d, expected %d", path, (int)value.kind, (int)expected.kind);
    check_near(value.number, expected.number, 0);
    if (expected.text)
        assert_string_equal(value.text, expected.text);
}

TEST(document, looks_up_paths)
{
    struct ah_document plan = loaded(FOLDER "plan.json");
    struct ah_document runlog = loaded(FOLDER "runlog.ndjson");
    struct ah_document machine = loaded(FOLDER "machine.json");
    check_lookup(&plan, "kind", (struct ah_value){AH_VALUE_TEXT, 0, "plan"});
    check_lookup(&plan, "time.step_us", (struct ah_value){AH_VALUE_NUMBER, 2000.25, NULL});
    check_lookup(&plan, "time.estimated", (struct ah_value){AH_VALUE_BOOL, 1, NULL});
    check_lookup(&plan, "time.exposed_us.host", (struct ah_value){AH_VALUE_NUMBER, 141.25, NULL});
    check_lookup(&plan, "blocks[1].optimizer", (struct ah_value){AH_VALUE_TEXT, 0, "host"});
    check_lookup(&plan, "blocks", (struct ah_value){AH_VALUE_GROUP, 3, NULL});
    check_lookup(&plan, "blocks[2]", (struct ah_value){AH_VALUE_GROUP, 0, NULL});
    check_lookup(&plan, "lanes.h2d[2]", (struct ah_value){AH_VALUE_NUMBER, 16, NULL});
    check_lookup(&plan, "training.trainable[0]", (struct ah_value){AH_VALUE_TEXT, 0, "*"});
    check_lookup(&plan, "annotations.why",
                 (struct ah_value){AH_VALUE_TEXT, 0, "a plan made by hand, for tests"});
    check_lookup(&plan, "annotations.nothing", (struct ah_value){AH_VALUE_ABSENT, 0, NULL});
    check_lookup(&plan, "numeric_signature.run.seed", (struct ah_value){AH_VALUE_ABSENT, 0, NULL});
    check_lookup(&plan, "numeric_signature.matmul_sha256", (struct ah_value){AH_VALUE_ABSENT, 0, NULL});
    check_lookup(&runlog, "steps[2].loss", (struct ah_value){AH_VALUE_NUMBER, 4.375, NULL});
    check_lookup(&runlog, "end.reason", (struct ah_value){AH_VALUE_TEXT, 0, "failed"});
    check_lookup(&machine, "links[0].points[1].us.median", (struct ah_value){AH_VALUE_NUMBER, 132, NULL});
    ah_document_release(&machine);
    ah_document_release(&runlog);
    ah_document_release(&plan);
}

/* An absent optional field has its default value, or is absent if it has none. The internal marker is never seen. */
TEST(document, looks_up_absent_fields)
{
    static const struct ah_value absent = {AH_VALUE_ABSENT, 0, NULL};
    struct ah_document plan = loaded(FOLDER "plan.json");
    struct ah_document runlog = loaded(FOLDER "runlog.ndjson");
    struct ah_document model = loaded("examples/models/llama-2-7b.json");
    plan.body.plan->alternatives[0].step_us = 0;
    plan.body.plan->ops[0].position = AH_PLAN_NOWHERE;
    check_lookup(&plan, "alternatives[0].step_us", absent);
    check_lookup(&plan, "ops[0].position", absent);
    check_lookup(&plan, "ops[0].issue_after", absent);
    check_lookup(&plan, "ops[0].due_before", absent);
    check_lookup(&plan, "ops[0].micro_batch", (struct ah_value){AH_VALUE_NUMBER, 0, NULL});
    runlog.body.runlog->steps[0].grad_norm = 0;
    check_lookup(&runlog, "steps[0].grad_norm", (struct ah_value){AH_VALUE_NUMBER, 0, NULL});
    runlog.body.runlog->steps[0].grad_norm = AH_RUNLOG_NO_NORM;
    check_lookup(&runlog, "steps[0].grad_norm", absent);
    check_lookup(&model, "rope.factor", absent);
    check_lookup(&model, "rope.low_freq_factor", absent);
    check_lookup(&model, "rope.high_freq_factor", absent);
    check_lookup(&model, "rope.original_positions", absent);
    check_lookup(&model, "rope.kind", (struct ah_value){AH_VALUE_TEXT, 0, "default"});
    check_lookup(&model, "window", (struct ah_value){AH_VALUE_NUMBER, 0, NULL});
    check_lookup(&model, "tied", (struct ah_value){AH_VALUE_BOOL, 0, NULL});
    ah_document_release(&model);
    ah_document_release(&runlog);
    ah_document_release(&plan);
}

TEST(document, names_the_part_of_a_path_that_is_wrong)
{
    static const char *const wrong[][2] = {
        {"", "the document has no ''; there is kind, format_version, "},
        {"tyme.step_us", "the document has no 'tyme'; did you mean 'time'?"},
        {"step_us", "the document has no 'step_us'; did you mean 'time.step_us'?"},
        {"optimizer", "did you mean 'blocks[0].optimizer'?"},
        {"time.h2d", "there is no 'h2d' in 'time'; did you mean 'time.exposed_us.h2d'? there is step_us, "},
        {"foo", "the document has no 'foo'; there is kind, format_version, "},
        {"time.step_u", "did you mean 'step_us'? there is step_us, compute_us"},
        {"time.steps", "there is no 'steps' in 'time'; did you mean 'step_us'? there is step_us, compute_us"},
        {"blocks[9].index", "'blocks' has 3 items, [0] to [2]"},
        {"blocks[-1]", "is not an index"},
        {"blocks[1", "is not an index"},
        {"blocks[]", "is not an index"},
        {"blocks[99999999999999999999]", "'blocks' has 3 items"},
        {"blocks.index", "'blocks' is a list; name an item of it, as in 'blocks[0].index'"},
        {"time[0]", "nothing is inside 'time'"},
        {"tokens_per_s.x", "nothing is inside 'tokens_per_s'"},
        {"time.", "there is no '' in 'time'"},
        {"time.step_us.", "nothing is inside"},
        {"blocks[0]index", "nothing is inside"},
    };
    struct ah_document plan = loaded(FOLDER "plan.json");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ah_value value;
        struct ah_error err = {0};
        CHECK_FAILS(ah_document_lookup(&plan, wrong[i][0], &value, &err), err, AH_E_USAGE, wrong[i][1]);
    }
    ah_document_release(&plan);
}

static void collect(void *context, const char *path, const char *a, const char *b)
{
    ah_buffer_printf(context, "%s %s|%s\n", path, a, b);
}

TEST(document, diffs_in_the_order_of_fields)
{
    struct ah_document a = loaded(FOLDER "plan.json");
    struct ah_document b = loaded(FOLDER "plan.json");
    struct ah_buffer found = {0};
    b.body.plan->annotations[0].value = "another note does not count";
    b.body.plan->generator = "another program";
    assert_int_equal(ah_document_diff(&a, &b, collect, &found), 0);
    b.body.plan->n_ops = 19;
    b.body.plan->alternatives[1].feasible = false;
    b.body.plan->training.clip = 0.5;
    b.body.plan->blocks[2].optimizer = AH_OPTIMIZER_HOST;
    b.body.plan->time.estimated = false;
    b.body.plan->numeric_signature.matmul_sha256 = "abc";
    b.body.plan->numeric_signature.matmul_sha256 =
        "0000000000000000000000000000000000000000000000000000000000000000";
    assert_int_equal(ah_document_diff(&a, &b, collect, &found), 6);
    assert_string_equal(found.data, "training.clip 1|0.5\n"
                                    "numeric_signature.matmul_sha256 "
                                    "|\"0000000000000000000000000000000000000000000000000000000000000000\"\n"
                                    "blocks[2].optimizer \"streamed\"|\"host\"\n"
                                    "time.estimated true|\n"
                                    "alternatives[1].feasible true|false\n"
                                    "ops[19] "
                                    "{\"op\":\"host_adam\",\"lane\":\"host\",\"block\":1,\"issue_after\":11,"
                                    "\"due_before\":1,\"us\":400}|\n");
    ah_buffer_release(&found);
    ah_document_release(&a);
    ah_document_release(&b);
}

static void digest(const struct ah_document *document, char ret_digest[AH_DOCUMENT_DIGEST_MAX])
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_digest(document, ret_digest, &err), err);
    assert_int_equal(strlen(ret_digest), 64);
}

TEST(document, digests_what_it_says)
{
    char a[AH_DOCUMENT_DIGEST_MAX], b[AH_DOCUMENT_DIGEST_MAX];
    struct ah_document model = loaded("examples/models/llama-2-7b.json"), again;
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_document_print(&model, &text, &err), err);
    CHECK_OK(ah_document_parse(&again, "ours", text.data, text.size, AH_DOCUMENT_MODEL, &err), err);
    again.body.model->name = "another-name";
    again.body.model->generator = "another program";
    digest(&model, a);
    digest(&again, b);
    assert_string_equal(a, b);
    again.body.model->norm_epsilon = 1e-6;
    digest(&again, b);
    assert_string_not_equal(a, b);
    CHECK_FAILS(ah_document_digest(&(struct ah_document){0}, a, &err), err, AH_E_USAGE, "no digest");
    ah_buffer_release(&text);
    ah_document_release(&model);
    ah_document_release(&again);
}

TEST(document, knows_its_kinds)
{
    for (int kind = AH_DOCUMENT_ANY + 1; kind < AH_DOCUMENT_KINDS; kind++)
        assert_int_equal(ah_document_kind_of(ah_document_word((enum ah_document_kind)kind)), kind);
    assert_int_equal(ah_document_kind_of("poem"), AH_DOCUMENT_ANY);
    assert_null(ah_document_word(AH_DOCUMENT_ANY));
    ah_document_release(NULL);
}

TEST(document, takes_rates_from_a_machine)
{
    struct ah_document document = loaded(FOLDER "machine.json");
    const struct ah_machine *machine = document.body.machine;
    check_near(ah_machine_matmul_flops_per_s(machine, AH_BF16), 2.2e11, 0);
    check_near(ah_machine_matmul_flops_per_s(machine, AH_FP32), 0, 0);
    check_near(ah_machine_link_bytes_per_s(machine, AH_D2H), 8.1e9, 0);
    check_near(ah_machine_adam_params_per_s(machine, AH_HOST, AH_BF16), 1.9e9, 0);
    check_near(ah_machine_adam_params_per_s(machine, AH_DEVICE, AH_BF16), 0, 0);
    check_near(ah_machine_kept(machine, AH_PART_H2D, AH_PART_HOST_ADAM), 0.9, 0);
    check_near(ah_machine_kept(machine, AH_PART_HOST_ADAM, AH_PART_H2D), 1, 0);
    ah_document_release(&document);
}
