/* SPDX-License-Identifier: Apache-2.0
 *
 * Walk: visits parts and bands of weights in the common order.
 */
#include "runtime/model/walk_internal.h"

#include "base/error.h"
#include "runtime/schedule/flat.h"

#include <stdio.h>

typedef int visit_step(void *context, const struct ah_walk_step *step);

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct ah_weights_piece ah_walk_piece(const struct ah_walk_step *step, uint64_t at)
{
    struct ah_weights_piece piece = step->band;
    piece.first += at;
    piece.element += at;
    piece.n = least(step->band.n - at, AH_WEIGHTS_PIECE_MAX);
    return piece;
}

/* Visits the bands of step->part, whose tensor begins at element `first` of the block's flat vector. */
static int walk_part(struct ah_walk_step *step, uint64_t first, visit_step *visit, void *context)
{
    const struct ah_names_part *part = step->part;
    uint64_t wide = least(AH_WALK_ROWS_MIN * part->cols, AH_WALK_BAND_MAX);
    uint64_t most = !part->transposed ? AH_WEIGHTS_PIECE_MAX : wide > AH_WALK_BAND ? wide : AH_WALK_BAND;
    uint64_t cols = least(part->cols, most);
    uint64_t rows = least(most / cols, part->transposed ? AH_WALK_ROWS_MAX : most);
    if (cols < part->cols)
        rows = 1;
    for (step->row = 0; step->row < part->rows; step->row += rows)
        for (step->col = 0; step->col < part->cols; step->col += cols) {
            step->rows = least(rows, part->rows - step->row);
            step->cols = least(cols, part->cols - step->col);
            step->band.first = (part->row + step->row) * part->cols + step->col;
            step->band.element = first + step->band.first;
            step->band.n = step->rows * step->cols;
            int rc = visit(context, step);
            if (rc)
                return rc;
        }
    return AH_OK;
}

/* True if the tensor is a trained table that a tied head uses, too, and such a table is visited twice. */
static bool is_copied(const struct ah_walk *walk, uint64_t block, size_t tensor)
{
    return walk->copies_table && walk->trained && walk->model->tied && !block && !tensor;
}

static bool is_visited(const struct ah_walk *walk, uint64_t block, size_t tensor, bool adapter)
{
    return (adapter ? walk->adapters : walk->base) && (!walk->trained || walk->trained[block] >> tensor & 1);
}

struct walking {
    const struct ah_walk *walk;
    visit_step *visit;
    void *context;
    bool bands;
    struct ah_walk_step step;
};

static int visit_part(struct walking *walking, uint64_t block, const struct ah_names_part *part,
                      uint64_t first)
{
    struct ah_walk_step *step = &walking->step;
    step->part = part;
    step->band = (struct ah_weights_piece){.block = block, .tensor = part->tensor};
    const int rc = walking->bands ? walk_part(step, first, walking->visit, walking->context)
                                  : walking->visit(walking->context, step);
    step->ordinal++;
    return rc;
}

/* Visits a part of the tensor, if the walk has it; a table perhaps twice. */
static int visit_part_of(struct walking *walking, uint64_t block, struct ah_names_part *part,
                         const struct ah_flat_tensor *tensor)
{
    const struct ah_walk *walk = walking->walk;
    if (!is_visited(walk, block, part->tensor, tensor->tensor.adapter))
        return AH_OK;
    if (walk->trained && !tensor->tensor.adapter)
        ah_names_in_adapter(walk->model, part);
    int rc = visit_part(walking, block, part, tensor->first);
    if (rc || !is_copied(walk, block, part->tensor))
        return rc;
    snprintf(part->name, sizeof part->name, "%s", ah_names_head());
    ah_names_in_adapter(walk->model, part);
    return visit_part(walking, block, part, tensor->first);
}

static int walk_steps(const struct ah_walk *walk, bool bands, visit_step *visit, void *context)
{
    struct walking walking = {.walk = walk, .visit = visit, .context = context, .bands = bands};
    struct ah_names_part parts[AH_NAMES_PARTS_MAX];
    int rc = AH_OK;
    for (uint64_t block = 0; block < ah_model_blocks(walk->model); block++) {
        const struct ah_flat flat = ah_flat_of(walk->model, ah_model_block_kind(walk->model, block), 0);
        const size_t n = ah_names_parts(walk->model, block, parts);
        for (size_t i = 0; i < n && !rc; i++)
            rc = visit_part_of(&walking, block, &parts[i], &flat.tensors[parts[i].tensor]);
    }
    return rc;
}

int ah_walk_bands(const struct ah_walk *walk, visit_step *visit, void *context)
{
    return walk_steps(walk, true, visit, context);
}

int ah_walk_parts(const struct ah_walk *walk, visit_step *visit, void *context)
{
    return walk_steps(walk, false, visit, context);
}
