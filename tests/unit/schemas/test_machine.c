/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests blocks in a machine document. A block is found by its program and threads, and occurs only once.
 */
#include "schemas/document.h"
#include "schemas/machine.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

#define DIGEST_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST_B "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define METRIC   "{\"n\": 3, \"median\": 20, \"mad\": 1, \"min\": 19, \"max\": 22}"

static const char head[] =
    "{\"kind\": \"machine\", \"format_version\": \"1.0\", \"generator\": \"test\", \"name\": \"desk\","
    "\"origin\": \"measured\", \"host\": {\"cpu_model\": \"c\", \"isa\": \"avx2\", \"sockets\": 1, "
    "\"numa_nodes\": 1,"
    "\"cores\": 2, \"threads\": 2, \"memory_bytes\": 1000, \"memlock_bytes\": 1000},"
    "\"device\": {\"kind\": \"cpu\", \"name\": \"c\", \"memory_bytes\": 1000, \"reserve_bytes\": 0, "
    "\"bf16\": true}";

/* Parses a document with these entries of `blocks`, or without the field if NULL. */
static int parse(const char *blocks, struct ah_document *ret_document, struct ah_error *err)
{
    char text[4096];
    if (blocks)
        snprintf(text, sizeof text, "%s, \"blocks\": [%s]}", head, blocks);
    else
        snprintf(text, sizeof text, "%s}", head);
    return ah_document_parse(ret_document, "machine.json", text, strlen(text), AH_DOCUMENT_MACHINE, err);
}

#define BLOCK(digest, threads, backward)                                                                     \
    "{\"group\": \"layer\", \"program_sha256\": \"" digest "\", \"dtype\": \"fp32\", \"sequences\": 4, "     \
    "\"seq\": 128, \"threads\": " threads ", \"forward_us\": " METRIC ", \"backward\": [" backward "]}"
#define KEEP "{\"activations\": \"keep\", \"us\": " METRIC "}"

TEST(machine, finds_blocks)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_OK(parse(BLOCK(DIGEST_A, "1", KEEP) "," BLOCK(DIGEST_A, "2", KEEP) "," BLOCK(DIGEST_B, "1", ""),
                   &document, &err),
             err);
    const struct ah_machine *machine = document.body.machine;
    assert_ptr_equal(ah_machine_find_block(machine, DIGEST_A, 2), &machine->blocks[1]);
    assert_ptr_equal(ah_machine_find_block(machine, DIGEST_B, 1), &machine->blocks[2]);
    assert_null(ah_machine_find_block(machine, DIGEST_B, 2));
    assert_int_equal(machine->blocks[2].n_backward, 0);
    assert_int_equal(machine->blocks[0].backward[0].activations, AH_ACTIVATIONS_KEEP);
    ah_document_release(&document);
}

TEST(machine, needs_no_blocks)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_OK(parse(NULL, &document, &err), err);
    assert_int_equal(document.body.machine->n_blocks, 0);
    ah_document_release(&document);
}

/* Profiles have no launches if they were made before launches were measured. */
TEST(machine, needs_no_launches)
{
    struct ah_document document;
    struct ah_error err = {0};
    char text[4096];
    CHECK_OK(parse(NULL, &document, &err), err);
    assert_null(document.body.machine->launch_us);
    ah_document_release(&document);
    snprintf(text, sizeof text, "%s, \"launch_us\": " METRIC "}", head);
    CHECK_OK(ah_document_parse(&document, "machine.json", text, strlen(text), AH_DOCUMENT_MACHINE, &err),
             err);
    assert_true(document.body.machine->launch_us->median == 20);
    ah_document_release(&document);
}

TEST(machine, refuses_blocks_that_stand_twice)
{
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_FAILS(parse(BLOCK(DIGEST_A, "1", KEEP) "," BLOCK(DIGEST_A, "1", ""), &document, &err), err,
                AH_E_DOCUMENT, "blocks[1].program_sha256");
    CHECK_FAILS(parse(BLOCK(DIGEST_A, "1", KEEP "," KEEP), &document, &err), err, AH_E_DOCUMENT,
                "blocks[0].backward[1].activations: keep appears twice");
    CHECK_FAILS(parse(BLOCK("12", "1", KEEP), &document, &err), err, AH_E_DOCUMENT,
                "blocks[0].program_sha256");
}
