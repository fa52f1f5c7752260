/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: samples of a data set in the order of training, written where the caller wants them.
 *
 * A SAMPLE is seq+1 consecutive tokens: sample i begins at token i * seq of the stream, so that its last token is the
 * first of the next, and every token but the first of the stream is a target once an epoch. Tokens behind the last
 * whole sample, fewer than seq, are left out of training.
 *
 * THE CURSOR is one integer: sequences consumed since the run began. Place c is sample permutation(c mod n) of epoch
 * c / n, n samples an epoch (permutation.h). A batch is the places cursor..cursor+batch-1, row by row, whatever the
 * number of micro-batches, and may reach into the next epoch. Nothing else is kept: whoever has the cursor, the seed
 * and the data has the rest of the run.
 *
 * A ROW is one position of one sequence:
 *
 *     tokens     the token
 *     targets    the one that follows it
 *     mask       1 if predicting the target bears loss: it is not masked and no document begins with it
 *     docs       place in the sequence where the token's document begins; 0 if it began earlier
 *     positions  place - docs: positions begin again with every document
 *
 * THE LOSS of a batch is the sum over the rows with mask 1 over their number; ah_batches_loss_scale() is the 1 / number
 * that ops multiply by. Where no row of a batch bears loss, the scale is 0: loss and gradients of that step are 0, and
 * it is otherwise a step like any other. A data set in which nothing bears loss is refused.
 *
 * HELD-OUT data are read in order, once: n also counts the last, shorter sample, and rows behind the end are
 * padding (mask 0, token and target 0, valid positions), so that each of its tokens is predicted exactly once and any
 * amount of it is enough.
 *
 * ALIGNED DATA (ah_dataset_facts.align) hold whole sequences, each with whole examples and padding. So the last
 * sequence is a sample too, with one row of padding where the next one would begin; seq must be a multiple of align.
 *
 *     struct ah_batches batches;
 *     rc = ah_batches_init(&batches, &(struct ah_batches_options){.data = data, .seq = 1024, .batch = 32, .seed = 1}, err);
 *     for (micro-batch m of rows sequences)
 *         rc = ah_batches_fill(&batches, cursor + m * rows, rows, &into[m], &bearing[m], err);
 *     cursor += 32;
 *     ah_batches_release(&batches);
 *
 * One thread at a time uses batches of one data set.
 */
#ifndef AH_RUNTIME_TRAIN_DATA_BATCHES_H
#define AH_RUNTIME_TRAIN_DATA_BATCHES_H

#include "base/error.h"
#include "runtime/train/data/dataset.h"

#include <stdbool.h>
#include <stdint.h>

struct ah_batches_options {
    struct ah_dataset *data; /* borrowed until release */
    uint64_t seq;
    uint64_t batch; /* sequences of a step */
    uint64_t seed;  /* of the order; nothing with held_out */
    bool held_out;  /* in order and padded, instead of shuffled */
};

struct ah_batches {
    struct ah_batches_options options;
    uint64_t samples; /* n: of an epoch */
    uint32_t *tokens; /* owned; (seq+1) of the sample being made */
    uint8_t *bears;   /* owned; (seq+1) */
    uint8_t *begins;  /* owned; (seq+1) */
};

/* Where rows go: arrays of the caller, (sequences, seq) each. */
struct ah_batches_rows {
    uint32_t *tokens;
    uint32_t *targets;
    uint8_t *mask;
    uint32_t *positions; /* (optional) */
    uint32_t *docs;      /* (optional) */
};

/* Samples of an epoch, for a seq of at least 1. */
uint64_t ah_batches_samples(const struct ah_dataset *data, uint64_t seq, bool held_out);

/* AH_E_USAGE: a seq or batch of 0, or of 2^32 rows or more, or not the one that the data are aligned to; data shorter than one batch, with the tokens there are and
 * those a batch needs; held-out data of fewer than 2 tokens. AH_E_DOCUMENT: nothing in the data bears loss.
 * AH_E_MEMORY. Nothing is allocated afterwards. */
int ah_batches_init(struct ah_batches *ret_batches, const struct ah_batches_options *options,
                    struct ah_error *err);

/* Fills the rows of `sequences` places from `cursor` on and counts those that bear loss. Equal cursors give equal rows,
 * however they are cut into calls. The errors of ah_dataset_read(). */
int ah_batches_fill(struct ah_batches *batches, uint64_t cursor, uint64_t sequences,
                    const struct ah_batches_rows *into, uint64_t *ret_bearing, struct ah_error *err);

/* Steps that one pass takes: n / batch, rounded up; with held_out the last one may have padding. */
uint64_t ah_batches_steps(const struct ah_batches *batches);

/* 1 / bearing in fp32, rounded once; 0 for 0. */
float ah_batches_loss_scale(uint64_t bearing);

/* NULL and half-built batches are fine. */
void ah_batches_release(struct ah_batches *batches);

#endif
