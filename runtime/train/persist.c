/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/persist.h"

#include "base/bf16.h"
#include "runtime/train/trainer_internal.h"

#include <string.h>

enum { NARROW_MAX = 4096 }; /* numbers that are widened or narrowed at a time */

/* The common elements of a piece and a tensor, as a piece for the trainer, and their offset in the first piece. */
struct part {
    struct ah_weights_piece piece;
    uint64_t at;
};

static bool find_part(const struct ah_flat *flat, size_t index, const struct ah_checkpoint_piece *piece,
                      struct part *ret_part)
{
    const struct ah_flat_tensor *tensor = &flat->tensors[index];
    uint64_t first = tensor->trained_first, end = first + tensor->elements;
    first = first > piece->first ? first : piece->first;
    end = end < piece->first + piece->n ? end : piece->first + piece->n;
    if (!tensor->trained || first >= end)
        return false;
    uint64_t inside = first - tensor->trained_first;
    *ret_part = (struct part){.piece = {.block = piece->block,
                                        .tensor = index,
                                        .first = inside,
                                        .element = tensor->first + inside,
                                        .n = end - first},
                              .at = first - piece->first};
    return true;
}

static enum ah_trainer_vector vector_of(const struct ah_checkpoint_piece *piece)
{
    static const enum ah_trainer_vector vectors[] = {[AH_CHECKPOINT_MASTER] = AH_TRAINER_WEIGHTS,
                                                     [AH_CHECKPOINT_M] = AH_TRAINER_M,
                                                     [AH_CHECKPOINT_V] = AH_TRAINER_V};
    return vectors[piece->vector];
}

static const struct ah_flat *flat_of(const struct ah_trainer *t, const struct ah_checkpoint_piece *piece)
{
    return ah_state_flat(t, piece->block);
}

/* ---- giving ---- */

static int give_narrow(struct ah_trainer *t, enum ah_trainer_vector vector, struct ah_weights_piece piece,
                       uint16_t *ret_values, struct ah_error *err)
{
    float wide[NARROW_MAX];
    uint64_t left = piece.n;
    for (; left; left -= piece.n, piece.first += piece.n, piece.element += piece.n, ret_values += piece.n) {
        piece.n = left < NARROW_MAX ? left : NARROW_MAX;
        int rc = ah_trainer_read(t, vector, &piece, wide, err);
        if (rc)
            return rc;
        for (uint64_t i = 0; i < piece.n; i++)
            ret_values[i] = ah_bf16_from_fp32(wide[i]);
    }
    return AH_OK;
}

static int read_piece(void *context, const struct ah_checkpoint_piece *piece, void *ret_values,
                      struct ah_error *err)
{
    struct ah_trainer *t = context;
    const struct ah_flat *flat = flat_of(t, piece);
    struct part part;
    int rc = AH_OK;
    memset(ret_values, 0, piece->n * ah_dtype_bytes(piece->dtype));
    for (size_t i = 0; i < flat->n && !rc; i++) {
        if (!find_part(flat, i, piece, &part))
            continue;
        if (piece->dtype == AH_FP32)
            rc = ah_trainer_read(t, vector_of(piece), &part.piece, (float *)ret_values + part.at, err);
        else
            rc = give_narrow(t, vector_of(piece), part.piece, (uint16_t *)ret_values + part.at, err);
    }
    return rc;
}

/* ---- taking ---- */

/* A function that writes a piece: to all ranks that want it, or to this rank only. */
typedef int write_piece(struct ah_trainer *t, enum ah_trainer_vector vector,
                        const struct ah_weights_piece *piece, const float *values, struct ah_error *err);

static int take_narrow(struct ah_trainer *t, write_piece *write, enum ah_trainer_vector vector,
                       struct ah_weights_piece piece, const uint16_t *values, struct ah_error *err)
{
    float wide[NARROW_MAX];
    uint64_t left = piece.n;
    for (; left; left -= piece.n, piece.first += piece.n, piece.element += piece.n, values += piece.n) {
        piece.n = left < NARROW_MAX ? left : NARROW_MAX;
        for (uint64_t i = 0; i < piece.n; i++)
            wide[i] = ah_bf16_to_fp32(values[i]);
        int rc = write(t, vector, &piece, wide, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}

static int take_by(struct ah_trainer *t, write_piece *write, const struct ah_checkpoint_piece *piece,
                   const void *values, struct ah_error *err)
{
    const struct ah_flat *flat = flat_of(t, piece);
    struct part part;
    int rc = AH_OK;
    for (size_t i = 0; i < flat->n && !rc; i++) {
        if (!find_part(flat, i, piece, &part))
            continue;
        if (piece->dtype == AH_FP32)
            rc = write(t, vector_of(piece), &part.piece, (const float *)values + part.at, err);
        else
            rc = take_narrow(t, write, vector_of(piece), part.piece, (const uint16_t *)values + part.at, err);
    }
    return rc;
}

static int store_piece(void *context, const struct ah_checkpoint_piece *piece, const void *values,
                       struct ah_error *err)
{
    return take_by(context, ah_trainer_write, piece, values, err);
}

static int take_own(void *context, const struct ah_checkpoint_piece *piece, const void *values,
                    struct ah_error *err)
{
    return take_by(context, ah_state_write, piece, values, err);
}

static int take_frozen_by(struct ah_trainer *t, write_piece *write, const struct ah_weights_piece *piece,
                          const float *values, struct ah_error *err)
{
    if (ah_state_flat(t, piece->block)->tensors[piece->tensor].trained)
        return AH_OK;
    return write(t, AH_TRAINER_WEIGHTS, piece, values, err);
}

static int take_frozen(void *context, const struct ah_weights_piece *piece, const float *values,
                       struct ah_error *err)
{
    return take_frozen_by(context, ah_trainer_write, piece, values, err);
}

static int take_own_frozen(void *context, const struct ah_weights_piece *piece, const float *values,
                           struct ah_error *err)
{
    return take_frozen_by(context, ah_state_write, piece, values, err);
}

static bool wants_own(const void *context, uint64_t block)
{
    return ah_state_block(context, block) != NULL;
}

struct ah_checkpoint_source ah_persist_own_source(struct ah_trainer *t)
{
    return (struct ah_checkpoint_source){.weights = {ah_trainer_give, t}, .give = read_piece, .context = t};
}

struct ah_checkpoint_sink ah_persist_own_sink(struct ah_trainer *t)
{
    return (struct ah_checkpoint_sink){.weights = {.take = take_own_frozen, .context = t, .wants = wants_own},
                                       .take = take_own,
                                       .context = t};
}

struct ah_checkpoint_source ah_persist_source(struct ah_trainer *trainer)
{
    struct ah_checkpoint_source source = ah_persist_own_source(trainer);
    source.together = ah_together_saving(trainer);
    return source;
}

struct ah_checkpoint_sink ah_persist_sink(struct ah_trainer *trainer)
{
    return (struct ah_checkpoint_sink){.weights = {.take = take_frozen, .context = trainer},
                                       .take = store_piece,
                                       .context = trainer,
                                       .together = ah_together_loading(trainer)};
}
