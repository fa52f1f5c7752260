/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the document readers. The input may be any bytes. It must be possible to print an accepted document.
 * Reading the printed text must give the same document, which prints as the same bytes.
 *
 * libFuzzer (AUTOHETE_FUZZ=ON, clang) calls LLVMFuzzerTestOneInput; in other builds driver.c calls it.
 */
#include "schemas/document.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_document: %s\n", what);
        abort();
    }
}

static void look_around(const struct ah_document *document)
{
    static const char *const paths[] = {"kind",
                                        "blocks[0].optimizer",
                                        "links[1].points[0].us.median",
                                        "annotations.a",
                                        "steps[0].loss",
                                        "numeric_signature.run.seed",
                                        "rope.theta",
                                        "nodes[0]"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct ah_value value;
        struct ah_error err = {0};
        int rc = ah_document_lookup(document, paths[i], &value, &err);
        require(!rc || err.text[0], "a failed lookup without a sentence");
    }
}

static void check_round_trip(const struct ah_document *document)
{
    struct ah_document again = {0};
    struct ah_buffer first = {0}, second = {0};
    struct ah_error err = {0};
    require(ah_document_print(document, &first, &err) == AH_OK, err.text);
    require(ah_document_parse(&again, "printed", first.data, first.size, document->kind, &err) == AH_OK,
            err.text);
    require(ah_document_print(&again, &second, &err) == AH_OK, err.text);
    require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0,
            "not a fixed point");
    require(ah_document_diff(document, &again, NULL, NULL) == 0, "differs from itself");
    ah_buffer_release(&first);
    ah_buffer_release(&second);
    ah_document_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ah_document document = {0};
    struct ah_error err = {0};
    char *text = malloc(size ? size : 1); /* exactly this size, so that a sanitizer notices reads beyond it */
    require(text != NULL, "out of memory");
    memcpy(text, data, size);
    int rc = ah_document_parse(&document, "fuzz", text, size, AH_DOCUMENT_ANY, &err);
    if (rc == AH_OK) {
        look_around(&document);
        check_round_trip(&document);
    } else {
        require(err.text[0] && !strchr(err.text, '\n'), "not one sentence");
        require(document.body.any == NULL, "a refused document has a body");
    }
    ah_document_release(&document);
    free(text);
    return 0;
}
