/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical reduction (reduce.h): a pool sums leaves, a window at a time; the caller adds the leaf sums in order.
 */
#include "runtime/device/host/reduce.h"

#include "base/pool.h"
#include "runtime/device/host/kernels_internal.h"

enum {
    WINDOW = 8192, /* leaves of a window: their sums take 32 KiB of stack, their elements 128 MiB of fp32 */
    CHUNK = 64     /* leaves that a thread sums at a time */
};

struct window {
    enum ah_isa isa;
    const struct ah_reduce_input *input;
    uint64_t begin;
    uint64_t end;
    float sums[WINDOW];
};

uint64_t ah_reduce_leaf_count(uint64_t count)
{
    return count / AH_REDUCE_LEAF + (count % AH_REDUCE_LEAF != 0);
}

void ah_reduce_leaves(enum ah_isa isa, const struct ah_reduce_input *input, uint64_t begin, uint64_t end,
                      float *ret_sums)
{
    ah_kernels_leaf *leaf = ah_kernels_of(isa)->leaf[input->kind][input->dtype];
    const size_t bytes = ah_dtype_bytes(input->dtype);
    for (uint64_t i = begin; i < end; i++) {
        uint64_t first = i * AH_REDUCE_LEAF;
        uint64_t n = input->count - first < AH_REDUCE_LEAF ? input->count - first : AH_REDUCE_LEAF;
        ret_sums[i - begin] = leaf((const char *)input->data + first * bytes, n);
    }
}

double ah_reduce_add(double total, const float *sums, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        total += (double)sums[i];
    return total;
}

static void window_chunk(void *context, size_t chunk, unsigned worker)
{
    struct window *w = context;
    uint64_t begin = w->begin + chunk * CHUNK;
    uint64_t end = w->end - begin < CHUNK ? w->end : begin + CHUNK;
    (void)worker;
    ah_reduce_leaves(w->isa, w->input, begin, end, w->sums + (begin - w->begin));
}

double ah_reduce_run(enum ah_isa isa, struct ah_pool *pool, const struct ah_reduce_input *input, double total)
{
    struct window w = {.isa = isa, .input = input};
    const uint64_t leaves = ah_reduce_leaf_count(input->count);
    for (; w.begin < leaves; w.begin = w.end) {
        w.end = leaves - w.begin < WINDOW ? leaves : w.begin + WINDOW;
        ah_pool_run(pool, window_chunk, &w, (w.end - w.begin + CHUNK - 1) / CHUNK);
        total = ah_reduce_add(total, w.sums, w.end - w.begin);
    }
    return total;
}
