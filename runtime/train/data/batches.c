/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/data/batches.h"

#include "runtime/train/data/permutation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int check_options(const struct ah_batches_options *options, struct ah_error *err)
{
    uint64_t rows;
    if (!options->seq || !options->batch)
        return ah_error_set(err, AH_E_USAGE, "'%s' is 0; it must be 1 or more",
                            options->seq ? "batch" : "seq");
    if (__builtin_mul_overflow(options->seq, options->batch, &rows) || rows > UINT32_MAX)
        return ah_error_set(err, AH_E_USAGE,
                            "a batch of %" PRIu64 " sequences of %" PRIu64 " tokens has 2^32 tokens or more; "
                            "use fewer",
                            options->batch, options->seq);
    return AH_OK;
}

/* Fails if there are too few data. Messages name the first file, since most data sets have only one. */
static int check_enough(const struct ah_batches_options *options, uint64_t samples, struct ah_error *err)
{
    const struct ah_dataset_facts *facts = ah_dataset_facts(options->data);
    const char *path = ah_dataset_file(options->data, 0)->path;
    if (options->held_out && !samples)
        return ah_error_set(err, AH_E_USAGE,
                            "%s: has one token and nothing to predict; held-out data need at least two",
                            path);
    if (!options->held_out && samples < options->batch)
        return ah_error_set(err, AH_E_USAGE,
                            "%s: the data have %" PRIu64 " tokens in %zu %s, but a batch of %" PRIu64
                            " sequences of %" PRIu64 " needs %" PRIu64
                            "; give more data, or a smaller batch or sequence",
                            path, facts->tokens, facts->files, facts->files == 1 ? "file" : "files",
                            options->batch, options->seq, options->batch * options->seq + 1);
    if (facts->align && options->seq % facts->align)
        return ah_error_set(err, AH_E_USAGE,
                            "%s: its examples are aligned to sequences of %" PRIu64 " tokens, but the plan's "
                            "have %" PRIu64 "; plan with '--seq %" PRIu64 "', or remake the data with "
                            "'--align %" PRIu64 "'",
                            path, facts->align, options->seq, facts->align, options->seq);
    if (!facts->unmasked)
        return ah_error_set(err, AH_E_DOCUMENT,
                            "%s.mask: no token bears loss because all entries are 0; 1 marks a token to "
                            "learn",
                            path);
    return AH_OK;
}

uint64_t ah_batches_samples(const struct ah_dataset *data, uint64_t seq, bool held_out)
{
    const struct ah_dataset_facts *facts = ah_dataset_facts(data);
    const uint64_t targets = facts->tokens - 1;
    return targets / seq + ((held_out || facts->align) && targets % seq);
}

int ah_batches_init(struct ah_batches *ret_batches, const struct ah_batches_options *options,
                    struct ah_error *err)
{
    int rc = check_options(options, err);
    if (rc)
        return rc;
    struct ah_batches batches = {
        .options = *options, .samples = ah_batches_samples(options->data, options->seq, options->held_out)};
    rc = check_enough(options, batches.samples, err);
    if (rc)
        return rc;
    size_t count = (size_t)options->seq + 1;
    batches.tokens = malloc(count * sizeof *batches.tokens);
    batches.bears = malloc(count);
    batches.begins = malloc(count);
    if (!batches.tokens || !batches.bears || !batches.begins) {
        ah_batches_release(&batches);
        return ah_error_memory(err);
    }
    *ret_batches = batches;
    return AH_OK;
}

/* Reads a sample's seq+1 tokens. At the end of held-out or aligned data there are fewer, and the rest is padding. */
static int read_sample(struct ah_batches *batches, uint64_t sample, struct ah_error *err)
{
    const size_t wanted = (size_t)batches->options.seq + 1;
    const uint64_t tokens = ah_dataset_facts(batches->options.data)->tokens;
    size_t count = 0;
    if (sample < batches->samples) {
        const uint64_t first = sample * batches->options.seq;
        const struct ah_dataset_span into = {batches->tokens, batches->bears, batches->begins};
        count = tokens - first < wanted ? (size_t)(tokens - first) : wanted;
        int rc = ah_dataset_read(batches->options.data, first, count, &into, err);
        if (rc)
            return rc;
    }
    memset(batches->tokens + count, 0, (wanted - count) * sizeof *batches->tokens);
    memset(batches->bears + count, 0, wanted - count);
    memset(batches->begins + count, 0, wanted - count);
    return AH_OK;
}

/* Writes the rows of the sample just read. Returns how many of them bear loss. */
static uint64_t write_rows(const struct ah_batches *batches, const struct ah_batches_rows *into, size_t row)
{
    const size_t seq = (size_t)batches->options.seq;
    uint64_t bearing = 0;
    memcpy(into->tokens + row, batches->tokens, seq * sizeof *into->tokens);
    memcpy(into->targets + row, batches->tokens + 1, seq * sizeof *into->targets);
    memcpy(into->mask + row, batches->bears + 1, seq);
    for (size_t i = 0; i < seq; i++)
        bearing += batches->bears[i + 1];
    for (size_t i = 0, start = 0; i < seq; i++) {
        start = batches->begins[i] ? i : start;
        if (into->docs)
            into->docs[row + i] = (uint32_t)start;
        if (into->positions)
            into->positions[row + i] = (uint32_t)(i - start);
    }
    return bearing;
}

static uint64_t sample_at(const struct ah_batches *batches, uint64_t place)
{
    const uint64_t n = batches->samples;
    if (batches->options.held_out)
        return place;
    return ah_permutation_at(batches->options.seed, place / n, n, place % n);
}

int ah_batches_fill(struct ah_batches *batches, uint64_t cursor, uint64_t sequences,
                    const struct ah_batches_rows *into, uint64_t *ret_bearing, struct ah_error *err)
{
    uint64_t bearing = 0;
    for (uint64_t i = 0; i < sequences; i++) {
        int rc = read_sample(batches, sample_at(batches, cursor + i), err);
        if (rc)
            return rc;
        bearing += write_rows(batches, into, (size_t)(i * batches->options.seq));
    }
    *ret_bearing = bearing;
    return AH_OK;
}

uint64_t ah_batches_steps(const struct ah_batches *batches)
{
    return batches->samples / batches->options.batch + (batches->samples % batches->options.batch != 0);
}

float ah_batches_loss_scale(uint64_t bearing)
{
    return bearing ? (float)(1.0 / (double)bearing) : 0.0f;
}

void ah_batches_release(struct ah_batches *batches)
{
    if (!batches)
        return;
    free(batches->tokens);
    free(batches->bears);
    free(batches->begins);
    *batches = (struct ah_batches){0};
}
