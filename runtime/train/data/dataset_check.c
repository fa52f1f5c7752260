/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity is the sha256 of the following; all integers are u64, little-endian:
 *
 *     "autohete data 1\n", number of files, .mask exists (0, 1), .docs exists (0, 1)
 *     for each file: bytes of a token, a document begins at its start (0, 1), tokens, offsets in .docs,
 *         then the digests of its leaves (scan_internal.h): tokens without header, .mask, .docs
 *     if examples are aligned: their sequence length, since an epoch then has one more sample
 */
#include "runtime/train/data/dataset_internal.h"
#include "runtime/train/data/scan_internal.h"

#include <inttypes.h>
#include <string.h>

static const char preamble[] = "autohete data 1\n";

static struct ah_scan scan_of(const struct ah_dataset *data, struct ah_dataset_entry *entry,
                              enum ah_dataset_part part)
{
    struct ah_scan scan = {.source = &entry->parts[part]};
    switch (part) {
    case AH_DATASET_TOKENS:
        scan.offset_bytes = entry->offset_bytes;
        scan.element_bytes = entry->file.token_bytes;
        scan.bytes = entry->file.tokens * entry->file.token_bytes;
        scan.rule = entry->only_text ? AH_SCAN_TEXT : AH_SCAN_TOKENS;
        scan.limit = data->vocabulary;
        break;
    case AH_DATASET_MASK:
        scan.element_bytes = 1;
        scan.bytes = entry->file.tokens;
        scan.rule = AH_SCAN_MASK;
        break;
    case AH_DATASET_DOCS:
    case AH_DATASET_PARTS:
        scan.element_bytes = sizeof(uint64_t);
        scan.bytes = entry->n_docs * sizeof(uint64_t);
        scan.rule = AH_SCAN_OFFSETS;
        scan.limit = entry->file.tokens;
        break;
    }
    return scan;
}

/* Sets the error for element `scan->bad`, whose value is `value`. */
static int refuse_element(const struct ah_dataset *data, const struct ah_dataset_entry *entry,
                          const struct ah_scan *scan, uint64_t value, struct ah_error *err)
{
    const char *path = scan->source->path;
    if (scan->rule == AH_SCAN_TEXT && !value)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: byte %" PRIu64 " is 0, so it is not plain text, and its name does not tell "
                            "its format; give '--data-format u16', 'u32' or 'bytes'",
                            path, scan->bad);
    if (scan->rule == AH_SCAN_MASK)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: byte %" PRIu64 " is %" PRIu64 ", but a mask may hold only 0 (no loss) and 1",
                            path, scan->bad, value);
    if (scan->rule == AH_SCAN_OFFSETS && value >= scan->limit)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: offset %" PRIu64 " is %" PRIu64 ", but '%s' has %" PRIu64 " tokens", path,
                            scan->bad, value, entry->file.path, entry->file.tokens);
    if (scan->rule == AH_SCAN_OFFSETS)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s: offset %" PRIu64 " is %" PRIu64 ", which is not above the previous one; "
                            "offsets must increase",
                            path, scan->bad, value);
    return ah_error_set(err, AH_E_DOCUMENT,
                        "%s: token %" PRIu64 " is %" PRIu64 ", but the vocabulary of the model is %" PRIu64
                        "; use the model that these tokens were made for, or make the data with the model's "
                        "tokenizer",
                        path, scan->bad, value, data->vocabulary);
}

static int check_part(struct ah_dataset *data, struct ah_dataset_entry *entry, enum ah_dataset_part part,
                      struct ah_scanner *scanner, struct ah_sha256 *hash, struct ah_error *err)
{
    if (!entry->parts[part].path)
        return AH_OK;
    struct ah_scan scan = scan_of(data, entry, part);
    int rc = ah_scan_run(&scan, &data->sources, scanner, hash, err);
    if (!rc && scan.bad != AH_SCAN_NONE) {
        uint64_t value = 0;
        rc = ah_source_read(&data->sources, scan.source, scan.offset_bytes + scan.bad * scan.element_bytes,
                            &value, scan.element_bytes, err);
        rc = rc ? rc : refuse_element(data, entry, &scan, value, err);
    }
    data->facts.unmasked += scan.ones;
    return rc;
}

/* Adds the number of documents that begin in the file to the facts. */
static int count_documents(struct ah_dataset *data, struct ah_dataset_entry *entry, struct ah_error *err)
{
    uint64_t first = 0;
    data->facts.documents += entry->n_docs;
    if (!entry->begins)
        return AH_OK;
    int rc = entry->n_docs ? ah_source_read(&data->sources, &entry->parts[AH_DATASET_DOCS], 0, &first,
                                            sizeof first, err)
                           : AH_OK;
    data->facts.documents += !entry->n_docs || first > 0;
    return rc;
}

static int check_entry(struct ah_dataset *data, struct ah_dataset_entry *entry, struct ah_scanner *scanner,
                       struct ah_sha256 *hash, struct ah_error *err)
{
    const uint64_t words[] = {entry->file.token_bytes, entry->begins, entry->file.tokens, entry->n_docs};
    int rc = AH_OK;
    ah_sha256_update(hash, words, sizeof words);
    for (int part = 0; part < AH_DATASET_PARTS && !rc; part++)
        rc = check_part(data, entry, (enum ah_dataset_part)part, scanner, hash, err);
    return rc ? rc : count_documents(data, entry, err);
}

static uint64_t total_bytes(const struct ah_dataset *data)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < data->facts.files; i++) {
        const struct ah_dataset_entry *entry = &data->entries[i];
        for (int part = 0; part < AH_DATASET_PARTS; part++)
            bytes += entry->parts[part].bytes;
        bytes -= entry->offset_bytes;
    }
    return bytes;
}

int ah_dataset_check(struct ah_dataset *data, const struct ah_dataset_options *options, struct ah_error *err)
{
    const struct ah_dataset_entry *first = &data->entries[0];
    const bool has_mask = first->parts[AH_DATASET_MASK].path, has_docs = first->parts[AH_DATASET_DOCS].path;
    const uint64_t words[] = {data->facts.files, has_mask, has_docs};
    unsigned char digest[AH_SHA256_BYTES];
    struct ah_scanner scanner;
    struct ah_sha256 hash;
    int rc = ah_scan_init(&scanner, options, total_bytes(data), err);
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, preamble, strlen(preamble));
    ah_sha256_update(&hash, words, sizeof words);
    for (size_t i = 0; i < data->facts.files && !rc; i++)
        rc = check_entry(data, &data->entries[i], &scanner, &hash, err);
    ah_scan_release(&scanner);
    if (rc)
        return rc;
    if (!has_mask)
        data->facts.unmasked = data->facts.tokens;
    data->facts.has_mask = data->facts.unmasked < data->facts.tokens;
    data->facts.has_docs = data->facts.documents > 1;
    if (data->facts.align)
        ah_sha256_update(&hash, &data->facts.align, sizeof data->facts.align);
    ah_sha256_finish(&hash, digest);
    ah_sha256_hex(digest, data->facts.sha256);
    return AH_OK;
}
