/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: gives samples of a data set in the order of training, in arrays of the caller.
 *
 * A SAMPLE is seq+1 consecutive tokens. Sample i begins at token i * seq of the stream, so its last token is the first
 * of the next sample. Each token except the first of the stream is a target once per epoch. Up to seq - 1 tokens after
 * the last whole sample are not used.
 *
 * THE CURSOR is one integer: the number of sequences consumed since the run began. With n samples per epoch, cursor c
 * means sample permutation(c mod n) of epoch c / n (permutation.h). A batch has the cursors c to c+batch-1, in this
 * order for any number of micro-batches, and may reach into the next epoch. Nothing else is kept.
 *
 * A ROW is one position of one sequence:
 *
 *     tokens     the token
 *     targets    the token that follows it
 *     mask       1 if predicting the target bears loss: the target is not masked and begins no document
 *     docs       index in the sequence where the token's document begins; 0 if it began earlier
 *     positions  index - docs: positions restart with every document
 *
 * THE LOSS of a batch is the sum over the rows with mask 1, divided by their number. Ops multiply by
 * ah_batches_loss_scale(), which is 1 / number. If no row of a batch bears loss, the scale, loss and gradients are 0 in
 * an otherwise normal step. A data set without any loss-bearing token is refused.
 *
 * HELD-OUT data are read in order, once. Then n also counts the last, shorter sample, whose missing rows are padding
 * (mask 0, token and target 0, valid positions). So each token is predicted once, and any amount of data is enough.
 *
 * ALIGNED DATA (ah_dataset_facts.align) consist of whole sequences, each with whole examples and padding. So the last
 * sequence is a sample, too; its last row is padding, since no token follows. seq must be a multiple of align.
 *
 *     struct ah_batches batches;
 *     rc = ah_batches_init(&batches, &(struct ah_batches_options){.data = data, .seq = 1024, .batch = 32, .seed = 1},
 *                          err);
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
    uint64_t batch; /* number of sequences in a step */
    uint64_t seed;  /* seed of the order; unused with held_out */
    bool held_out;  /* true: samples in order, with padding; false: shuffled */
};

struct ah_batches {
    struct ah_batches_options options;
    uint64_t samples; /* number of samples in an epoch (n) */
    uint32_t *tokens; /* owned; (seq+1) tokens of the sample being made */
    uint8_t *bears;   /* owned; (seq+1) */
    uint8_t *begins;  /* owned; (seq+1) */
};

/* The caller's arrays for rows, each (sequences, seq). */
struct ah_batches_rows {
    uint32_t *tokens;
    uint32_t *targets;
    uint8_t *mask;
    uint32_t *positions; /* (optional) */
    uint32_t *docs;      /* (optional) */
};

/* Returns the number of samples in an epoch. `seq` must be at least 1. */
uint64_t ah_batches_samples(const struct ah_dataset *data, uint64_t seq, bool held_out);

/* Checks the options and the amount of data. AH_E_USAGE: seq or batch is 0, a batch has 2^32 rows or more, or seq does
 * not fit the data's align; data shorter than one batch (the text says how many tokens it needs); held-out data of
 * fewer than 2 tokens. AH_E_DOCUMENT: no token bears loss. AH_E_MEMORY. Nothing is allocated after this call. */
int ah_batches_init(struct ah_batches *ret_batches, const struct ah_batches_options *options,
                    struct ah_error *err);

/* Fills the rows of `sequences` sequences from `cursor` on, and counts the rows that bear loss. Equal cursors give
 * equal rows, however they are divided into calls. Has the errors of ah_dataset_read(). */
int ah_batches_fill(struct ah_batches *batches, uint64_t cursor, uint64_t sequences,
                    const struct ah_batches_rows *into, uint64_t *ret_bearing, struct ah_error *err);

/* Returns the steps of one pass over the data: n / batch, rounded up. With held_out, the last step may have padding. */
uint64_t ah_batches_steps(const struct ah_batches *batches);

/* Returns 1 / bearing in fp32, rounded once; 0 if bearing is 0. */
float ah_batches_loss_scale(uint64_t bearing);

/* NULL and half-built batches are fine. */
void ah_batches_release(struct ah_batches *batches);

#endif
