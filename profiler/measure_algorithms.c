/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses, for each of a model's matrix products, the fastest algorithm that the device's library offers.
 *
 * Algorithms are chosen once. While the library is the same, a product in the machine's table keeps its algorithm, even
 * if blocks are measured again, so older plans stay valid. The library's first offer wins unless another one is faster
 * by more than WORTH, because a choice decided by noise would differ between profiles.
 *
 * A device reads its algorithms when products are prepared. So one device is opened for all first offers (RANK 0),
 * another for all second offers (RANK 1), and so on. On each device, all products are measured in the same rounds.
 * Operands are as op.h requires: aligned, with the product's strides.
 */
#include "profiler/lanes_internal.h"
#include "profiler/measure_internal.h"
#include "runtime/device/algorithm.h"
#include "runtime/schedule/products.h"

#include <stdlib.h>
#include <string.h>

#define WORTH 0.02

enum { OFFERS = 8, SAMPLES = 5, BLOCKS = 3, PLACE_UNIT = 4096 };

struct candidate {
    struct ah_algorithm entry;
    struct ah_op op;
    struct ah_lanes_work work;
    struct ah_device_algorithm offers[OFFERS];
    struct ah_sampler_series series[OFFERS];
    size_t n_offers;
};

/* The products with an offer of some rank, and that offer. */
struct ranked {
    struct ah_device_algorithm table[AH_SAMPLER_WIDTH_MAX];
    struct ah_op ops[AH_SAMPLER_WIDTH_MAX];
    size_t n;
};

struct choosing {
    struct ah_measure *measure;
    struct candidate *items; /* owned */
    size_t n;
    size_t ranks;         /* largest number of offers of a product */
    uint64_t place_bytes; /* size of each of the four places for operands */
    struct ah_device *device;
    struct ranked *ranked; /* owned; the device borrows the table in it */
};

/* ---- collecting ---- */

/* Collects the job's products without an algorithm. */
static int collect_products(struct choosing *choosing, struct ah_error *err)
{
    struct ah_measure *measure = choosing->measure;
    struct ah_algorithm *products = NULL;
    size_t n = 0;
    int rc = ah_products_list(measure->options->job, &measure->document->arena, &products, &n, err);
    for (size_t i = 0; i < n && choosing->n < AH_SAMPLER_WIDTH_MAX && !rc; i++)
        if (!ah_algorithms_find(measure->machine->algorithms, &products[i]))
            choosing->items[choosing->n++].entry = products[i];
    return rc;
}

/* Gives each operand as much memory as the largest operand needs. */
static int place_operands(struct choosing *choosing, struct ah_error *err)
{
    for (size_t i = 0; i < choosing->n; i++) {
        struct ah_operand operands[AH_OP_ARGS];
        choosing->items[i].op = ah_device_algorithm_op(&choosing->items[i].entry);
        int rc = ah_op_operands(&choosing->items[i].op, operands, err);
        if (rc)
            return rc;
        for (size_t j = 0; j < 4; j++)
            if (operands[j].role != AH_ROLE_NONE && operands[j].bytes > choosing->place_bytes)
                choosing->place_bytes = operands[j].bytes;
    }
    choosing->place_bytes = (choosing->place_bytes + PLACE_UNIT - 1) / PLACE_UNIT * PLACE_UNIT;
    for (size_t i = 0; i < choosing->n; i++)
        for (uint64_t j = 0; j < 4; j++)
            choosing->items[i].op.arg[j].offset_bytes = j * choosing->place_bytes;
    return AH_OK;
}

static int list_offers(struct choosing *choosing, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < choosing->n && !rc; i++) {
        struct candidate *item = &choosing->items[i];
        rc = ah_device_algorithms(choosing->device, &item->op, item->offers, OFFERS, &item->n_offers, err);
        if (item->n_offers > choosing->ranks)
            choosing->ranks = item->n_offers;
    }
    return rc;
}

/* ---- measuring ---- */

static int open_device(struct choosing *choosing, const struct ranked *ranked, struct ah_error *err)
{
    const struct ah_device_options options = {.index = choosing->measure->options->device_index,
                                              .algorithms = ranked->table,
                                              .n_algorithms = ranked->n,
                                              .queue = AH_LANES_REPEATS_MAX,
                                              .spans = AH_LANES_REPEATS_MAX,
                                              .watch = choosing->measure->options->watch};
    const uint64_t bytes = 4 * choosing->place_bytes;
    const struct ah_ref all = {AH_ARENA_DEVICE, AH_BF16, 0, 0};
    const struct ah_ref stage = {AH_ARENA_PINNED, AH_BF16, 0, 0};
    int rc = ah_device_open(&choosing->device, choosing->measure->driver, &options, err);
    rc = rc ? rc : ah_device_prepare(choosing->device, ranked->ops, ranked->n, err);
    rc = rc ? rc
            : ah_device_reserve(choosing->device,
                                (uint64_t[AH_ARENA_KINDS]){
                                    [AH_ARENA_DEVICE] = bytes, [AH_ARENA_PINNED] = AH_LANES_STAGE_BYTES},
                                err);
    return rc ? rc : ah_lanes_fill(choosing->device, all, bytes, stage, err);
}

/* Opens a device whose table has each product's offer of this rank. */
static int open_rank(struct choosing *choosing, size_t rank, struct ah_error *err)
{
    struct ranked *ranked = choosing->ranked = calloc(1, sizeof *ranked);
    if (!ranked)
        return ah_error_memory(err);
    for (size_t i = 0; i < choosing->n; i++)
        if (rank < choosing->items[i].n_offers) {
            ranked->ops[ranked->n] = choosing->items[i].op;
            ranked->table[ranked->n++] = choosing->items[i].offers[rank];
        }
    return open_device(choosing, ranked, err);
}

static int measure_rank(struct choosing *choosing, size_t rank, struct ah_error *err)
{
    struct ah_sampler_work works[AH_SAMPLER_WIDTH_MAX];
    struct ah_sampler_series *series = calloc(AH_SAMPLER_WIDTH_MAX, sizeof *series);
    struct ah_sampler sampler = ah_measure_sampler(choosing->measure, "algorithms of products, %zu of %zu",
                                                   rank + 1, choosing->ranks);
    size_t n = 0;
    if (!series)
        return ah_error_memory(err);
    sampler.samples_min = sampler.samples_max = SAMPLES;
    sampler.blocks = BLOCKS;
    int rc = open_rank(choosing, rank, err);
    for (size_t i = 0; i < choosing->n; i++) {
        struct candidate *item = &choosing->items[i];
        item->work = (struct ah_lanes_work){choosing->device, AH_LANE_COMPUTE, &item->op, 1, 0};
        if (rank < item->n_offers)
            works[n++] = ah_lanes_sampler_work(&item->work);
    }
    rc = rc ? rc : ah_sampler_measure(&sampler, works, n, series, err);
    for (size_t i = 0, at = 0; i < choosing->n && !rc; i++)
        if (rank < choosing->items[i].n_offers)
            choosing->items[i].series[rank] = series[at++];
    ah_device_close(choosing->device);
    choosing->device = NULL;
    free(choosing->ranked);
    choosing->ranked = NULL;
    free(series);
    return rc;
}

/* ---- storing ---- */

static size_t fastest(const struct candidate *item)
{
    size_t best = 0;
    double best_s = ah_sampler_metric(&item->series[0], 1).median * (1 - WORTH);
    for (size_t i = 1; i < item->n_offers; i++) {
        double seconds = ah_sampler_metric(&item->series[i], 1).median;
        if (seconds < best_s) {
            best = i;
            best_s = seconds;
        }
    }
    return best;
}

static int keep_one(struct ah_arena *arena, const struct candidate *item, struct ah_algorithm *entry,
                    struct ah_error *err)
{
    char digits[AH_ALGORITHM_DIGITS + 1];
    size_t best = fastest(item);
    ah_device_algorithm_print(item->offers[best].words, digits);
    *entry = item->entry;
    entry->words = ah_arena_strdup(arena, digits);
    entry->us = ah_arena_alloc(arena, sizeof *entry->us);
    entry->first_us = ah_arena_alloc(arena, sizeof *entry->first_us);
    if (!entry->words || !entry->us || !entry->first_us)
        return ah_error_memory(err);
    *entry->us = ah_sampler_metric(&item->series[best], 1e6);
    *entry->first_us = ah_sampler_metric(&item->series[0], 1e6);
    return AH_OK;
}

/* Stores the old entries, followed by the new ones. */
static int store_entries(struct choosing *choosing, struct ah_error *err)
{
    struct ah_arena *arena = &choosing->measure->document->arena;
    struct ah_algorithms *algorithms = choosing->measure->machine->algorithms;
    size_t n = algorithms->n_products;
    struct ah_algorithm *products = ah_arena_array(arena, n + choosing->n, sizeof *products);
    int rc = AH_OK;
    if (!products)
        return ah_error_memory(err);
    if (n)
        memcpy(products, algorithms->products, n * sizeof *products);
    for (size_t i = 0; i < choosing->n && n < AH_ALGORITHMS_MAX && !rc; i++)
        if (choosing->items[i].n_offers > 0)
            rc = keep_one(arena, &choosing->items[i], &products[n++], err);
    if (rc)
        return rc;
    algorithms->products = products;
    algorithms->n_products = n;
    return AH_OK;
}

/* ---- the table ---- */

/* Keeps the document's table if it belongs to this library; otherwise begins a new one. */
static int find_table(struct ah_measure *measure, const char *library, struct ah_error *err)
{
    struct ah_arena *arena = &measure->document->arena;
    const struct ah_algorithms *there = measure->machine->algorithms;
    if (there && strcmp(there->library, library) == 0)
        return AH_OK;
    struct ah_algorithms *algorithms = ah_arena_alloc(arena, sizeof *algorithms);
    if (!algorithms || !(algorithms->library = ah_arena_strdup(arena, library)))
        return ah_error_memory(err);
    if (there)
        ah_measure_note(measure,
                        "algorithms: those chosen with '%s' were dropped, because this machine now "
                        "has '%s'",
                        there->library, library);
    measure->machine->algorithms = algorithms;
    return AH_OK;
}

int ah_algorithms_adopt(struct ah_measure *measure, const struct ah_device *device, struct ah_error *err)
{
    return device->info.library[0] ? find_table(measure, device->info.library, err) : AH_OK;
}

static int choose_algorithms(struct choosing *choosing, struct ah_error *err)
{
    int rc = place_operands(choosing, err);
    rc = rc ? rc : list_offers(choosing, err);
    ah_device_close(choosing->device);
    choosing->device = NULL;
    ah_measure_sets(choosing->measure, (unsigned)choosing->ranks + 1);
    for (size_t rank = 0; rank < choosing->ranks && !rc; rank++)
        rc = measure_rank(choosing, rank, err);
    return rc ? rc : store_entries(choosing, err);
}

int ah_algorithms_measure(struct ah_measure *measure, struct ah_error *err)
{
    struct choosing choosing = {.measure = measure};
    int rc = ah_measure_open(measure, measure->compute_threads, measure->host_threads, false,
                             &choosing.device, err);
    rc = rc ? rc : ah_algorithms_adopt(measure, choosing.device, err);
    if (rc || !choosing.device->info.library[0]) {
        ah_device_close(choosing.device);
        return rc;
    }
    choosing.items = calloc(AH_SAMPLER_WIDTH_MAX, sizeof *choosing.items);
    rc = choosing.items ? collect_products(&choosing, err) : ah_error_memory(err);
    if (!rc && choosing.n > 0)
        rc = choose_algorithms(&choosing, err);
    ah_device_close(choosing.device);
    free(choosing.items);
    return rc;
}
