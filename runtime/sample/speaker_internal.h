/* SPDX-License-Identifier: Apache-2.0
 *
 * A speaker: what it computes, where everything lies, and which tickets are due.
 *
 * INVARIANTS
 *   1. Rows [0, past) of every cache belong to the tokens that were fed. Rows above are written before they are read.
 *   2. A slot is filled only after the last op that read it, and read only after it is filled.
 *   3. Words of the text are written once and stay, so no op of an earlier piece can read others.
 */
#ifndef AH_RUNTIME_SAMPLE_SPEAKER_INTERNAL_H
#define AH_RUNTIME_SAMPLE_SPEAKER_INTERNAL_H

#include "base/arena.h"
#include "runtime/sample/speaker.h"
#include "runtime/schedule/flat.h"
#include "runtime/schedule/job.h"
#include "runtime/schedule/program.h"

/* A pass takes one row, or a piece of a text. */
enum ah_speaker_size { AH_SPEAKER_ONE, AH_SPEAKER_PIECE, AH_SPEAKER_SIZES };

enum { AH_SPEAKER_SLOTS = 2 };

/* The weights of a block. On the host, they are copied to a slot in each pass; the embedding's are never copied. */
struct ah_speaker_vector {
    uint64_t elements, bytes;
    struct ah_ref ref;
};

struct ah_speaker_slot {
    struct ah_ref ref;
    uint64_t read; /* ticket of the last compute op that read it */
};

struct ah_speaker {
    struct ah_speaker_options options;
    struct ah_arena arena;
    struct ah_model untied; /* a tied head has its own table here */
    const char *trained;    /* pattern of trained tensors, for the jobs */
    struct ah_job job[AH_SPEAKER_SIZES];
    struct ah_program *program[AH_SPEAKER_SIZES]; /* by group */
    size_t n_blocks;
    uint32_t rows[AH_SPEAKER_SIZES]; /* of a pass; learned positions may be fewer than AH_SPEAKER_ROWS */
    struct ah_device *device;
    struct ah_speaker_facts facts;

    /* On the device. The stream is where blocks read and write rows, in turn. */
    struct ah_ref stream[2], scratch, angles, iota, positions, gathered_rows, position_rows;
    struct ah_ref keys, values; /* (layers, positions + AH_SPEAKER_ROWS, kv_heads * head_dim) */
    struct ah_speaker_vector *vectors;
    struct ah_speaker_slot slots[AH_SPEAKER_SLOTS];
    unsigned next_slot;

    /* On the host. */
    struct ah_ref words, position_words, host_rows, host_position_rows, logits, staging;

    uint32_t past;                                /* tokens in the caches */
    uint64_t compute, gathered, copied, embedded; /* last tickets: of compute; of the embedding's ops */
    struct ah_error *err;
};

/* Returns the bytes of a row of `elements`. */
static inline uint64_t ah_speaker_bytes(const struct ah_speaker *s, uint64_t elements)
{
    return elements * ah_dtype_bytes(s->options.dtype);
}

static inline uint64_t ah_speaker_kv_width(const struct ah_speaker *s)
{
    return s->options.model->kv_heads * s->options.model->head_dim;
}

/* Binds the op of a block's program for this size; weights and stream are those of `at`. */
struct ah_speaker_place {
    enum ah_speaker_size size;
    size_t block;
    struct ah_ref weights, input, output;
};
struct ah_op ah_speaker_bind(const struct ah_speaker *s, const struct ah_speaker_place *at, size_t op);

/* Binds attention further: it reads the caches, after the ops of `ret_keep` put the new keys and values there. */
enum { AH_SPEAKER_KEPT = 2 };
void ah_speaker_attend(const struct ah_speaker *s, const struct ah_speaker_place *at, struct ah_op *attention,
                       struct ah_op ret_keep[AH_SPEAKER_KEPT]);

/* Computes the next `rows` tokens, whose words are there, in one pass; with `logits`, those after the last one. */
int ah_speaker_pass(struct ah_speaker *s, enum ah_speaker_size size, uint32_t rows, bool logits);

#endif
