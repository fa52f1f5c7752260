/* SPDX-License-Identifier: Apache-2.0
 *
 * Scan: one parallel pass over the elements of a file. It finds the first element that breaks a rule, and hashes all.
 *
 * The content is divided into leaves of AH_SCAN_LEAF_BYTES. The digests of the leaves are added to the caller's hash in
 * order, so the result does not depend on the number of threads.
 *
 *     struct ah_scan scan = {.source = &file->mask, .bytes = n, .element_bytes = 1, .rule = AH_SCAN_MASK};
 *     rc = ah_scan_run(&scan, &sources, &scanner, &hash, err);
 *     if (!rc && scan.bad != AH_SCAN_NONE) ...
 */
#ifndef AH_RUNTIME_TRAIN_DATA_SCAN_INTERNAL_H
#define AH_RUNTIME_TRAIN_DATA_SCAN_INTERNAL_H

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/train/data/dataset.h"
#include "runtime/train/data/source_internal.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_SCAN_LEAF_BYTES = 1 << 20 };

#define AH_SCAN_NONE UINT64_MAX

enum ah_scan_rule {
    AH_SCAN_TOKENS, /* each is below `limit` */
    AH_SCAN_TEXT,   /* bytes below `limit`, none of them 0 */
    AH_SCAN_MASK,   /* 0 or 1; the ones are counted */
    AH_SCAN_OFFSETS /* increasing, below `limit` */
};

struct ah_scan {
    struct ah_source *source;
    uint64_t offset_bytes; /* where the elements begin */
    uint64_t bytes;        /* a multiple of element_bytes */
    unsigned element_bytes;
    enum ah_scan_rule rule;
    uint64_t limit;
    uint64_t bad;  /* result: the first element that breaks the rule, or AH_SCAN_NONE */
    uint64_t ones; /* result of AH_SCAN_MASK */
};

/* State shared by several scans. */
struct ah_scanner {
    struct ah_pool *pool;  /* borrowed */
    unsigned char *leaves; /* owned; a buffer of one leaf for each thread of the pool */
    ah_dataset_progress_fn *progress;
    void *context;
    uint64_t total_bytes; /* sum over all scans to be run */
    atomic_uint_least64_t done_bytes;
};

int ah_scan_init(struct ah_scanner *ret_scanner, const struct ah_dataset_options *options,
                 uint64_t total_bytes, struct ah_error *err);

/* Scans and hashes the elements. A broken rule is a result, no error. AH_E_IO, AH_E_MISMATCH (the file has shrunk),
 * AH_E_INTERRUPTED, AH_E_MEMORY. */
int ah_scan_run(struct ah_scan *scan, struct ah_file_sources *sources, struct ah_scanner *scanner,
                struct ah_sha256 *hash, struct ah_error *err);

void ah_scan_release(struct ah_scanner *scanner);

#endif
