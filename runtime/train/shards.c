/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/shards.h"

struct listing {
    struct ah_shards_run *runs;
    size_t n;
    struct ah_stretch of_part;
};

/* Adds the common elements of the listing and of a run, which continues the last run if both are contiguous. */
static void add_run(struct listing *listing, struct ah_shards_run run)
{
    const uint64_t first = run.at > listing->of_part.first ? run.at : listing->of_part.first;
    const uint64_t end = run.at + run.n < listing->of_part.end ? run.at + run.n : listing->of_part.end;
    struct ah_shards_run *last = listing->n ? &listing->runs[listing->n - 1] : NULL;
    if (first >= end)
        return;
    run = (struct ah_shards_run){first, run.full + (first - run.at), end - first};
    if (last && last->at + last->n == run.at && last->full + last->n == run.full)
        last->n += run.n;
    else
        listing->runs[listing->n++] = run;
}

static struct ah_stretch common(struct ah_stretch a, struct ah_stretch b)
{
    const struct ah_stretch both = {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
    return both.first < both.end ? both : (struct ah_stretch){0, 0};
}

/* Returns the elements of a tensor in the whole vector, with the padding after it. */
static struct ah_stretch padded(const struct ah_flat *flat, size_t tensor)
{
    return (struct ah_stretch){flat->tensors[tensor].first,
                               tensor + 1 < flat->n ? flat->tensors[tensor + 1].first : flat->elements};
}

uint64_t ah_shards_frozen_first(const struct ah_flat *flat, size_t tensor)
{
    uint64_t first = 0;
    for (size_t i = 0; i < tensor; i++) {
        const struct ah_stretch all = padded(flat, i);
        first += flat->tensors[i].trained ? 0 : all.end - all.first;
    }
    return first;
}

static struct ah_stretch frozen_shard(const struct ah_flat *flat, uint64_t shards, uint64_t rank)
{
    return ah_flat_shard(flat->elements - flat->trained_elements, shards, rank);
}

size_t ah_shards_runs(const struct ah_addresses_block *block, uint64_t shards, uint64_t rank,
                      struct ah_stretch of_part, struct ah_shards_run ret_runs[AH_MODEL_TENSORS_MAX])
{
    const struct ah_flat *flat = &block->flat;
    const struct ah_stretch own = ah_flat_shard(flat->trained_elements, shards, rank);
    const struct ah_stretch frozen = frozen_shard(flat, shards, rank);
    struct listing listing = {.runs = ret_runs, .of_part = of_part};
    for (size_t i = 0; i < block->n_runs; i++) {
        const struct ah_run_of_elements *run = &block->runs[i];
        const struct ah_stretch some = common(own, (struct ah_stretch){run->first, run->end});
        if (some.end)
            add_run(&listing, (struct ah_shards_run){some.first - own.first,
                                                     run->full_first + (some.first - run->first),
                                                     some.end - some.first});
    }
    for (size_t i = 0; i < flat->n; i++) {
        const struct ah_stretch all = padded(flat, i);
        const uint64_t first = ah_shards_frozen_first(flat, i);
        const struct ah_stretch some =
            common(frozen, (struct ah_stretch){first, first + (all.end - all.first)});
        if (!flat->tensors[i].trained && some.end)
            add_run(&listing,
                    (struct ah_shards_run){block->group->own_trained_elements + some.first - frozen.first,
                                           all.first + (some.first - first), some.end - some.first});
    }
    return listing.n;
}

struct ah_stretch ah_shards_of_tensor(const struct ah_flat *flat, size_t tensor, uint64_t shards,
                                      uint64_t rank, uint64_t first, uint64_t n)
{
    const struct ah_flat_tensor *it = &flat->tensors[tensor];
    const uint64_t begin = it->trained ? it->trained_first : ah_shards_frozen_first(flat, tensor);
    const struct ah_stretch own =
        it->trained ? ah_flat_shard(flat->trained_elements, shards, rank) : frozen_shard(flat, shards, rank);
    const struct ah_stretch some = common(own, (struct ah_stretch){begin + first, begin + first + n});
    return some.end ? (struct ah_stretch){some.first - begin, some.end - begin} : some;
}
