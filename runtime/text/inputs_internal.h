/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: documents of input files, as parts of text that are learned or not.
 */
#ifndef AH_RUNTIME_TEXT_INPUTS_INTERNAL_H
#define AH_RUNTIME_TEXT_INPUTS_INTERNAL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_record_part {
    const char *text;
    size_t size;
    bool learned;
};

struct ah_record {
    struct ah_record_part parts[2];
    size_t n;
    bool is_text; /* a whole file of text, which may be cut in two */
};

struct ah_records {
    /* Takes a document, borrowed until it returns; `bytes` of the file are read. */
    int (*take)(void *context, const struct ah_record *record, uint64_t bytes, struct ah_error *err);
    void *context;
    uint64_t replaced; /* counts places that were not UTF-8 */
};

/* Reads the documents of a file. AH_E_IO, AH_E_DOCUMENT, AH_E_UNSUPPORTED, AH_E_MEMORY; errors of `take`. */
int ah_records_read(struct ah_records *records, const char *path, struct ah_error *err);

#endif
