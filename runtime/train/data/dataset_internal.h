/* SPDX-License-Identifier: Apache-2.0
 *
 * Data set, internal: its files with their companions, and the memory that reading needs.
 *
 * dataset.c opens and closes, dataset_check.c checks every element once, dataset_read.c reads.
 */
#ifndef AH_RUNTIME_TRAIN_DATA_DATASET_INTERNAL_H
#define AH_RUNTIME_TRAIN_DATA_DATASET_INTERNAL_H

#include "base/arena.h"
#include "runtime/train/data/dataset.h"
#include "runtime/train/data/source_internal.h"

#include <stdbool.h>
#include <stdint.h>

/* A file and its companions. */
enum ah_dataset_part { AH_DATASET_TOKENS, AH_DATASET_MASK, AH_DATASET_DOCS, AH_DATASET_PARTS };

struct ah_dataset_entry {
    struct ah_dataset_file file;
    struct ah_source parts[AH_DATASET_PARTS]; /* path NULL: no such companion */
    uint64_t offset_bytes;                    /* of the first token */
    uint64_t n_docs;                          /* number of documents in .docs */
    bool begins;    /* a document begins at the first token, even if .docs does not say so */
    bool only_text; /* ah_format.only_text */
};

enum { AH_DATASET_RAW_WORDS = 8192 };

struct ah_dataset {
    struct ah_arena arena;
    struct ah_dataset_facts facts;
    uint64_t vocabulary;
    struct ah_dataset_entry *entries; /* facts.files; in the arena */
    struct ah_file_sources sources;
    uint64_t raw[AH_DATASET_RAW_WORDS]; /* elements being converted */
};

/* Scans every part of every file. Sets the facts that follow from the content, and the identity. */
int ah_dataset_check(struct ah_dataset *data, const struct ah_dataset_options *options, struct ah_error *err);

#endif
