/* SPDX-License-Identifier: Apache-2.0
 *
 * Scan: each leaf is read into memory of a thread, and is checked and hashed while it is in the cache. A check first
 * finds the largest element, which compiles to vector code. Only if the largest element breaks the rule, the check
 * searches for the first one that does.
 */
#include "runtime/train/data/scan_internal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "token files are little-endian and read as they are");

/* Memory before the elements of a leaf: it ends with the previous element, and keeps the elements aligned. */
enum { LEAD_BYTES = 64, ROOM_BYTES = LEAD_BYTES + AH_SCAN_LEAF_BYTES };

struct pass {
    struct ah_scan *scan;
    struct ah_scanner *scanner;
    int fd;
    unsigned char *digests; /* (leaves, AH_SHA256_BYTES) */
    atomic_uint_least64_t bad;
    atomic_uint_least64_t ones;
    atomic_int reason; /* reason of a failed read; 0: none failed */
    atomic_bool stopped;
};

struct leaf {
    const unsigned char *elements;
    size_t count;
    uint64_t first; /* index of its first element */
};

/* ---- rules: each returns the leaf's first element that breaks it, or the number of elements ---- */

static uint64_t element_at(const struct leaf *leaf, unsigned bytes, size_t i)
{
    uint64_t value = 0;
    memcpy(&value, leaf->elements + i * bytes, bytes);
    return value;
}

static uint32_t largest_u8(const unsigned char *elements, size_t count)
{
    unsigned char most = 0;
    for (size_t i = 0; i < count; i++)
        most = elements[i] > most ? elements[i] : most;
    return most;
}

static uint32_t largest_u16(const unsigned char *elements, size_t count)
{
    const uint16_t *values = (const void *)elements;
    uint16_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static uint32_t largest_u32(const unsigned char *elements, size_t count)
{
    const uint32_t *values = (const void *)elements;
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static size_t check_tokens(const struct ah_scan *scan, const struct leaf *leaf)
{
    const unsigned bytes = scan->element_bytes;
    uint32_t (*largest)(const unsigned char *, size_t) = bytes == 1   ? largest_u8
                                                         : bytes == 2 ? largest_u16
                                                                      : largest_u32;
    if (scan->limit > UINT32_MAX >> (32 - 8 * bytes) || largest(leaf->elements, leaf->count) < scan->limit)
        return leaf->count;
    size_t i = 0;
    while (element_at(leaf, bytes, i) < scan->limit)
        i++;
    return i;
}

static size_t check_text(const struct ah_scan *scan, const struct leaf *leaf)
{
    const unsigned char *zero = memchr(leaf->elements, 0, leaf->count);
    struct leaf before = *leaf;
    before.count = zero ? (size_t)(zero - leaf->elements) : leaf->count;
    return check_tokens(scan, &before);
}

static size_t check_mask(const struct ah_scan *scan, const struct leaf *leaf)
{
    (void)scan;
    size_t i = 0;
    if (largest_u8(leaf->elements, leaf->count) <= 1)
        return leaf->count;
    while (leaf->elements[i] <= 1)
        i++;
    return i;
}

/* Checks increasing offsets. The element before the leaf, if any, is stored just before the leaf's elements. */
static size_t check_offsets(const struct ah_scan *scan, const struct leaf *leaf)
{
    const uint64_t *offsets = (const void *)leaf->elements;
    for (size_t i = 0; i < leaf->count; i++)
        if (offsets[i] >= scan->limit || (leaf->first + i > 0 && *(offsets + i - 1) >= offsets[i]))
            return i;
    return leaf->count;
}

static uint64_t count_ones(const struct leaf *leaf)
{
    uint64_t ones = 0;
    for (size_t i = 0; i < leaf->count; i++)
        ones += leaf->elements[i];
    return ones;
}

static size_t (*const checks[])(const struct ah_scan *, const struct leaf *) = {
    [AH_SCAN_TOKENS] = check_tokens,
    [AH_SCAN_TEXT] = check_text,
    [AH_SCAN_MASK] = check_mask,
    [AH_SCAN_OFFSETS] = check_offsets,
};

/* ---- the pass ---- */

static void lower_to(atomic_uint_least64_t *least, uint64_t value)
{
    uint64_t seen = atomic_load(least);
    while (value < seen && !atomic_compare_exchange_weak(least, &seen, value)) {
    }
}

static void hash_leaf(const unsigned char *elements, size_t bytes, unsigned char *ret_digest)
{
    struct ah_sha256 hash;
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, elements, bytes);
    ah_sha256_finish(&hash, ret_digest);
}

/* Reports progress if this is the calling thread, which is worker 0. Returns false if the scan must stop. */
static bool report_progress(struct ah_scanner *scanner, size_t bytes, unsigned worker)
{
    uint64_t done = atomic_fetch_add(&scanner->done_bytes, bytes) + bytes;
    return worker || !scanner->progress || scanner->progress(scanner->context, done, scanner->total_bytes);
}

static void scan_leaf(void *context, size_t chunk, unsigned worker)
{
    struct pass *pass = context;
    const struct ah_scan *scan = pass->scan;
    uint64_t begin = (uint64_t)chunk * AH_SCAN_LEAF_BYTES, rest = scan->bytes - begin;
    size_t bytes = rest < AH_SCAN_LEAF_BYTES ? (size_t)rest : AH_SCAN_LEAF_BYTES;
    size_t before = begin ? scan->element_bytes : 0;
    unsigned char *elements = pass->scanner->leaves + (size_t)worker * ROOM_BYTES + LEAD_BYTES;
    struct leaf leaf = {elements, bytes / scan->element_bytes, begin / scan->element_bytes};
    if (atomic_load(&pass->reason) || atomic_load(&pass->stopped) || atomic_load(&pass->bad) < leaf.first)
        return;
    int reason =
        ah_source_pread(pass->fd, scan->offset_bytes + begin - before, elements - before, bytes + before);
    if (reason) {
        atomic_store(&pass->reason, reason);
        return;
    }
    size_t bad = checks[scan->rule](scan, &leaf);
    if (bad < leaf.count)
        lower_to(&pass->bad, leaf.first + bad);
    else if (scan->rule == AH_SCAN_MASK)
        atomic_fetch_add(&pass->ones, count_ones(&leaf));
    hash_leaf(elements, bytes, pass->digests + chunk * AH_SHA256_BYTES);
    if (!report_progress(pass->scanner, bytes, worker))
        atomic_store(&pass->stopped, true);
}

int ah_scan_init(struct ah_scanner *ret_scanner, const struct ah_dataset_options *options,
                 uint64_t total_bytes, struct ah_error *err)
{
    *ret_scanner = (struct ah_scanner){
        .pool = options->pool,
        .leaves = aligned_alloc(LEAD_BYTES, (size_t)ah_pool_threads(options->pool) * ROOM_BYTES),
        .progress = options->progress,
        .context = options->context,
        .total_bytes = total_bytes};
    atomic_init(&ret_scanner->done_bytes, 0);
    return ret_scanner->leaves ? AH_OK : ah_error_memory(err);
}

int ah_scan_run(struct ah_scan *scan, struct ah_file_sources *sources, struct ah_scanner *scanner,
                struct ah_sha256 *hash, struct ah_error *err)
{
    size_t leaves = (size_t)((scan->bytes + AH_SCAN_LEAF_BYTES - 1) / AH_SCAN_LEAF_BYTES);
    struct pass pass = {.scan = scan, .scanner = scanner};
    atomic_init(&pass.bad, AH_SCAN_NONE);
    atomic_init(&pass.ones, 0);
    atomic_init(&pass.reason, 0);
    atomic_init(&pass.stopped, false);
    int rc = ah_source_use(sources, scan->source, &pass.fd, err);
    if (rc)
        return rc;
    pass.digests = calloc(leaves + 1, AH_SHA256_BYTES);
    if (!pass.digests)
        return ah_error_memory(err);
    ah_pool_run(scanner->pool, scan_leaf, &pass, leaves);
    int reason = atomic_load(&pass.reason);
    if (reason)
        rc = ah_source_fail(scan->source, reason, err);
    else if (atomic_load(&pass.stopped))
        rc = ah_error_set(err, AH_E_INTERRUPTED, "%s: checking it was interrupted", scan->source->path);
    else
        ah_sha256_update(hash, pass.digests, leaves * AH_SHA256_BYTES);
    scan->bad = atomic_load(&pass.bad);
    scan->ones = atomic_load(&pass.ones);
    free(pass.digests);
    return rc;
}

void ah_scan_release(struct ah_scanner *scanner)
{
    free(scanner->leaves);
    scanner->leaves = NULL;
}
