/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares random data sets of several files, kinds, masks and documents with rows built naively from the whole stream.
 */
#include "runtime/train/data/batches.h"
#include "runtime/train/data/permutation.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 150, FILES_MOST = 5, TOKENS_MOST = 400, STREAM_MOST = FILES_MOST * TOKENS_MOST };

struct stream {
    uint32_t tokens[STREAM_MOST];
    uint8_t mask[STREAM_MOST];
    bool begins[STREAM_MOST];
    size_t n;
    char paths[FILES_MOST][PATH_MAX + 64];
    const char *list[FILES_MOST];
    size_t files;
    bool text;
};

static size_t write_tokens(char *bytes, const uint32_t *tokens, size_t n, int kind)
{
    size_t header = kind >= 2 ? 1024 : 0, width = kind == 0 ? 1 : kind == 3 ? 4 : 2;
    const int32_t words[] = {kind == 3 ? 20240801 : 20240520, kind == 3 ? 7 : 1, (int32_t)n};
    memset(bytes, 0, 1024);
    memcpy(bytes, words, header ? sizeof words : 0);
    for (size_t i = 0; i < n; i++)
        memcpy(bytes + header + i * width, &tokens[i], width);
    return header + n * width;
}

/* Adds a file. Kind 0 is text, which never mixes with the others. Kind 1 is raw, and kinds 2 and 3 are shards. */
static void add_file(struct stream *stream, const char *root, uint64_t *random, bool has_mask, bool has_docs)
{
    static const char *const endings[] = {".txt", ".u16", ".bin", ""};
    char bytes[1024 + 4 * TOKENS_MOST], path[64];
    uint64_t docs[TOKENS_MOST];
    int kind = stream->text ? 0 : 1 + (int)(check_random(random) % 3);
    size_t n = 1 + check_random(random) % TOKENS_MOST, n_docs = 0, at = stream->n;
    uint64_t rarity = 1 + check_random(random) % 60;
    for (size_t i = 0; i < n; i++) {
        stream->tokens[at + i] = (uint32_t)(check_random(random) % (kind ? 60000 : 256));
        stream->mask[at + i] = !has_mask || check_random(random) % 3 > 0;
        bool begins = has_docs && check_random(random) % rarity == 0;
        if (begins)
            docs[n_docs++] = i;
        stream->begins[at + i] = begins || (i == 0 && (kind == 0 || at == 0));
    }
    snprintf(path, sizeof path, "%zu%s", stream->files, endings[kind]);
    root_put_bytes(root, path, bytes, write_tokens(bytes, stream->tokens + at, n, kind));
    snprintf(stream->paths[stream->files], PATH_MAX + 64, "%s/%s", root, path);
    stream->list[stream->files] = stream->paths[stream->files];
    stream->files++;
    stream->n += n;
    size_t length = strlen(path);
    snprintf(path + length, 8, ".mask");
    if (has_mask)
        root_put_bytes(root, path, stream->mask + at, n);
    snprintf(path + length, 8, ".docs");
    if (has_docs)
        root_put_bytes(root, path, docs, n_docs * sizeof *docs);
}

/* Checks row `place` of sample `sample` by the definition. Beyond the stream or the last sample, there is padding. */
static void check_row(const struct stream *stream, size_t seq, uint64_t sample, size_t place,
                      const struct ah_batches_rows *rows, size_t row)
{
    const size_t first = (size_t)sample * seq, at = first + place;
    const size_t end = first + 1 < stream->n ? stream->n : 0; /* a sample without a target is padding */
    const bool real = at < end, has_target = at + 1 < end;
    size_t start = place;
    while (start > 0 && !(first + start < end && stream->begins[first + start]))
        start--;
    assert_int_equal(rows->tokens[row], real ? stream->tokens[at] : 0);
    assert_int_equal(rows->targets[row], has_target ? stream->tokens[at + 1] : 0);
    assert_int_equal(rows->mask[row], has_target && stream->mask[at + 1] && !stream->begins[at + 1]);
    assert_int_equal(rows->docs[row], start);
    assert_int_equal(rows->positions[row], place - start);
}

static void check_batches(const struct stream *stream, struct ah_dataset *data, bool held_out,
                          uint64_t *random)
{
    struct ah_error err = {0};
    struct ah_batches batches;
    size_t seq = 1 + check_random(random) % (stream->n < 90 ? stream->n : 90);
    uint64_t batch = 1 + check_random(random) % 4, seed = check_random(random), bearing;
    int rc = ah_batches_init(&batches, &(struct ah_batches_options){data, seq, batch, seed, held_out}, &err);
    uint64_t n = (stream->n - 1) / seq;
    if (!held_out && n < batch) {
        assert_int_equal(rc, AH_E_USAGE);
        return;
    }
    if (stream->n < 2 || rc == AH_E_DOCUMENT)
        return;
    CHECK_OK(rc, err);
    n += held_out && (stream->n - 1) % seq;
    assert_int_equal(batches.samples, n);
    uint32_t numbers[4][4 * 90];
    uint8_t mask[4 * 90];
    const struct ah_batches_rows rows = {numbers[0], numbers[1], mask, numbers[2], numbers[3]};
    for (int round = 0; round < 8; round++) {
        uint64_t cursor = check_random(random) % (held_out ? n : 3 * n), counted = 0;
        CHECK_OK(ah_batches_fill(&batches, cursor, batch, &rows, &bearing, &err), err);
        for (uint64_t i = 0; i < batch; i++) {
            uint64_t place = cursor + i;
            uint64_t sample = held_out ? place : ah_permutation_at(seed, place / n, n, place % n);
            for (size_t k = 0; k < seq; k++) {
                check_row(stream, seq, sample, k, &rows, (size_t)i * seq + k);
                counted += mask[i * seq + k];
            }
        }
        assert_int_equal(counted, bearing);
    }
    ah_batches_release(&batches);
}

TEST_IN(batches, equal_the_definition, root_make, root_remove)
{
    uint64_t random = check_seed(81);
    static struct stream stream;
    for (int i = 0; i < CASES; i++) {
        char folder[PATH_MAX];
        struct ah_error err = {0};
        struct ah_dataset *data = NULL;
        bool has_mask = check_random(&random) % 2, has_docs = check_random(&random) % 2;
        stream.n = stream.files = 0;
        stream.text = check_random(&random) % 4 == 0;
        snprintf(folder, sizeof folder, "%s/%d", (char *)*state, i);
        for (uint64_t files = 1 + check_random(&random) % FILES_MOST; files; files--)
            add_file(&stream, folder, &random, has_mask, has_docs);
        const struct ah_dataset_options options = {.paths = stream.list,
                                                   .n_paths = stream.files,
                                                   .vocabulary = 60000,
                                                   .format =
                                                       stream.text ? AH_DATASET_BYTES : AH_DATASET_AUTO};
        CHECK_OK(ah_dataset_open(&data, &options, &err), err);
        uint64_t documents = 0, unmasked = 0;
        for (size_t k = 0; k < stream.n; k++) {
            documents += stream.begins[k];
            unmasked += stream.mask[k];
        }
        const struct ah_dataset_facts *facts = ah_dataset_facts(data);
        assert_int_equal(facts->tokens, stream.n);
        assert_int_equal(facts->documents, documents);
        assert_int_equal(facts->unmasked, unmasked);
        check_batches(&stream, data, false, &random);
        check_batches(&stream, data, true, &random);
        ah_dataset_close(data);
    }
}
