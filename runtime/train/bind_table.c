/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: binds ops for a tied head with a copy of the embedding's table (job.h). Table and copy are updated from one
 * total, as the same elements, so they stay equal bit by bit. The norm and checkpoints use the table only.
 *
 * The copy is the last tensor of the head, and the table the first tensor of the embedding. So the copy does not change
 * the offset of any other tensor.
 */
#include "runtime/train/bind_internal.h"

static bool has_copy(const struct ah_binder *binder, uint64_t block)
{
    return binder->job->copies_table && ah_job_is_head(binder->job, block);
}

struct ah_stretch ah_bind_table(const struct ah_binder *binder, uint64_t block)
{
    const struct ah_flat *flat = &binder->addresses->blocks[block].flat;
    return ah_flat_stretch(flat, has_copy(binder, block) ? flat->n - 1 : 0);
}

struct ah_stretch ah_bind_counted(const struct ah_binder *binder, uint64_t block)
{
    const uint64_t all = binder->addresses->blocks[block].group->trained_elements;
    const bool copy = has_copy(binder, block) && binder->job->table_trained;
    return (struct ah_stretch){0, copy ? ah_bind_table(binder, block).first : all};
}

bool ah_bind_is_copy(const struct ah_binder *binder, uint64_t block, struct ah_stretch part)
{
    return part.first >= ah_bind_counted(binder, block).end;
}

int ah_bind_join(struct ah_binder *binder, uint64_t position)
{
    const uint64_t head = binder->job->n_blocks - 1;
    const struct ah_stretch copy = ah_bind_table(binder, head);
    const uint64_t n = copy.end - copy.first;
    struct ah_ref of_table, of_copy;
    int rc = ah_bind_gradient_sum(binder, 0, position, &of_table);
    rc = rc ? rc : ah_bind_gradient_sum(binder, head, position, &of_copy);
    of_copy.offset_bytes += copy.first * sizeof(float);
    rc = rc ? rc : ah_bind_elements(binder, AH_OP_ACCUMULATE, of_table, of_copy, AH_OFFSET_NONE, n);
    return rc ? rc : ah_bind_elements(binder, AH_OP_CAST, of_copy, of_table, AH_OFFSET_NONE, n);
}
