/* SPDX-License-Identifier: Apache-2.0
 *
 * Best fit: a document goes into the fullest open sequence that has room for it. A sequence is written when it is full;
 * when too many are open, the fullest is written with padding.
 */
#include "runtime/text/token_files_internal.h"

#include <stdlib.h>
#include <string.h>

/* Open sequences: as many as tokens of 64 Mi hold, within these. scripts/tokenize has the same numbers. */
enum { OPEN_MOST = 1024, OPEN_LEAST = 16, OPEN_TOKENS = 1 << 26 };

struct ah_sequence {
    uint32_t *ids;
    unsigned char *learned;
    size_t n;      /* tokens */
    size_t *sizes; /* owned; of its documents */
    size_t n_documents, room_documents;
};

int ah_align_init(struct ah_align *align, struct ah_shards *shards, struct ah_error *err)
{
    const size_t seq = shards->options->align, fit = OPEN_TOKENS / seq;
    *align = (struct ah_align){.shards = shards, .seq = seq};
    align->most = fit > OPEN_MOST ? OPEN_MOST : fit < OPEN_LEAST ? OPEN_LEAST : fit;
    align->open = malloc((align->most + 1) * sizeof(struct ah_sequence *));
    return align->open ? AH_OK : ah_error_memory(err);
}

static void free_sequence(struct ah_sequence *sequence)
{
    if (!sequence)
        return;
    free(sequence->ids);
    free(sequence->learned);
    free(sequence->sizes);
    free(sequence);
}

static struct ah_sequence *new_sequence(size_t seq)
{
    struct ah_sequence *sequence = calloc(1, sizeof *sequence);
    if (!sequence)
        return NULL;
    sequence->ids = malloc(seq * sizeof *sequence->ids);
    sequence->learned = malloc(seq);
    if (sequence->ids && sequence->learned)
        return sequence;
    free_sequence(sequence);
    return NULL;
}

void ah_align_release(struct ah_align *align)
{
    for (size_t i = 0; i < align->n; i++)
        free_sequence(align->open[i]);
    free(align->open);
    *align = (struct ah_align){0};
}

static size_t room_of(const struct ah_align *align, const struct ah_sequence *sequence)
{
    return align->seq - sequence->n;
}

/* Returns the first open sequence that has room for `n` tokens; align->n: none. */
static size_t find_room(const struct ah_align *align, size_t n)
{
    size_t low = 0, high = align->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (room_of(align, align->open[middle]) < n)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct ah_sequence *take_out(struct ah_align *align, size_t i)
{
    struct ah_sequence *sequence = align->open[i];
    memmove(&align->open[i], &align->open[i + 1], (--align->n - i) * sizeof *align->open);
    return sequence;
}

static void put_in(struct ah_align *align, struct ah_sequence *sequence)
{
    const size_t i = find_room(align, room_of(align, sequence));
    memmove(&align->open[i + 1], &align->open[i], (align->n++ - i) * sizeof *align->open);
    align->open[i] = sequence;
}

static int write_fullest(struct ah_align *align, struct ah_error *err)
{
    struct ah_sequence *sequence = take_out(align, 0);
    struct ah_document_tokens *documents = malloc(sequence->n_documents * sizeof *documents);
    int rc = documents ? AH_OK : ah_error_memory(err);
    for (size_t i = 0, at = 0; i < sequence->n_documents && !rc; at += sequence->sizes[i++])
        documents[i] =
            (struct ah_document_tokens){sequence->ids + at, sequence->learned + at, sequence->sizes[i]};
    const size_t padding = room_of(align, sequence);
    rc = rc ? rc : ah_shards_add_sequence(align->shards, documents, sequence->n_documents, padding, err);
    align->shards->counts.padding += padding;
    free(documents);
    free_sequence(sequence);
    return rc;
}

static bool append(struct ah_sequence *sequence, const struct ah_document_tokens *document)
{
    if (sequence->n_documents == sequence->room_documents) {
        const size_t room = 2 * sequence->room_documents + 4;
        size_t *grown = realloc(sequence->sizes, room * sizeof *grown);
        if (!grown)
            return false;
        sequence->sizes = grown;
        sequence->room_documents = room;
    }
    memcpy(sequence->ids + sequence->n, document->ids, document->n * sizeof *document->ids);
    memcpy(sequence->learned + sequence->n, document->learned, document->n);
    sequence->n += document->n;
    sequence->sizes[sequence->n_documents++] = document->n;
    return true;
}

static int place(struct ah_align *align, const struct ah_document_tokens *document, struct ah_error *err)
{
    if (!document->n)
        return AH_OK;
    const size_t i = find_room(align, document->n);
    struct ah_sequence *sequence = i < align->n ? take_out(align, i) : new_sequence(align->seq);
    if (!sequence || !append(sequence, document)) {
        free_sequence(sequence);
        return ah_error_memory(err);
    }
    put_in(align, sequence);
    align->added.documents++;
    align->added.tokens += document->n;
    const bool full = !room_of(align, align->open[0]);
    return full || align->n > align->most ? write_fullest(align, err) : AH_OK;
}

/* Returns how many tokens have a loss: nothing predicts a document's first. */
static size_t learned_of(const struct ah_document_tokens *document)
{
    size_t n = 0;
    for (size_t i = 1; i < document->n; i++)
        n += document->learned[i];
    return n;
}

/* A text goes on where it was cut: the last token is the next piece's first, which nothing predicts. */
static int place_pieces(struct ah_align *align, const struct ah_document_tokens *document,
                        struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t at = 0; at + 1 < document->n && !rc; at += align->seq - 1) {
        const size_t left = document->n - at, n = left < align->seq ? left : align->seq;
        rc = place(align, &(struct ah_document_tokens){document->ids + at, document->learned + at, n}, err);
    }
    return rc;
}

int ah_align_add(struct ah_align *align, const struct ah_document_tokens *document, struct ah_error *err)
{
    if (document->n <= align->seq)
        return place(align, document, err);
    if (!memchr(document->learned, 0, document->n))
        return place_pieces(align, document, err);
    const struct ah_document_tokens kept = {document->ids, document->learned, align->seq};
    const size_t learned = learned_of(&kept);
    align->shards->counts.lost += learned_of(document) - learned;
    align->shards->counts.cut += learned > 0;
    align->shards->counts.dropped += !learned;
    return learned ? place(align, &kept, err) : AH_OK;
}

int ah_align_finish(struct ah_align *align, struct ah_error *err)
{
    int rc = AH_OK;
    while (align->n && !rc)
        rc = write_fullest(align, err);
    return rc;
}
