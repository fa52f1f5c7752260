/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how long a layout takes, and how far its peak exceeds the live bytes, a lower bound. The plans have 96
 * blocks. They differ in the lifetimes of gradients, in whether weights are fetched, and in the order of micro-batches.
 *
 *     bench_layout [--blocks N] [--rounds N]
 */
#include "base/stats.h"
#include "base/threads.h"
#include "bench/options.h"
#include "tests/property/schedule/lifetimes.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS_MAX = 1000 };

static void measure(struct ah_layout *layout, const struct lifetimes *it, size_t rounds)
{
    static const char *const names[LIFETIMES_GRADIENTS] = {"at once", "to the end", "sent", "into forward"};
    static struct lifetimes_set set;
    static double ns[ROUNDS_MAX], live_ns[ROUNDS_MAX];
    struct ah_layout_result result;
    struct ah_error err = {0};
    lifetimes_fill(it, &set);
    if (ah_layout_reserve(layout, set.n, set.positions, &err)) {
        fprintf(stderr, "bench_layout: %s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < rounds; i++) {
        uint64_t begin = ah_threads_now_ns();
        ah_layout_place(layout, set.tensors, set.n, set.positions, &result);
        ns[i] = (double)(ah_threads_now_ns() - begin);
        begin = ah_threads_now_ns();
        struct ah_layout_result live;
        ah_layout_live(layout, set.tensors, set.n, set.positions, &live);
        live_ns[i] = (double)(ah_threads_now_ns() - begin);
    }
    struct ah_stats stats = ah_stats_of(ns, rounds);
    printf("%-13s %-7s %2u micro-batches %3u fetched %3u recomputed: %5zu tensors %5u positions  %7.1f us "
           "(MAD %4.1f)  "
           "live %5.1f us  peak/live %.4f\n",
           names[it->gradients], it->block_major ? "blocks" : "batches", it->micro_batches, it->fetched,
           it->recomputed, set.n, set.positions, stats.median / 1e3, stats.mad / 1e3,
           ah_stats_of(live_ns, rounds).median / 1e3, (double)result.peak_bytes / (double)result.live_bytes);
}

int main(int argc, char **argv)
{
    static const uint32_t shares[][2] = {{0, 0}, {2, 2}, {4, 4}, {2, 4}};
    struct ah_layout layout = {0};
    uint32_t blocks = (uint32_t)bench_option(argc, argv, "--blocks", 96, 256);
    size_t rounds = bench_option(argc, argv, "--rounds", 100, ROUNDS_MAX);
    for (uint32_t micro_batches = 1; micro_batches <= 4; micro_batches += 3)
        for (int block_major = 0; block_major < (micro_batches > 1 ? 2 : 1); block_major++)
            for (int gradients = 0; gradients < LIFETIMES_GRADIENTS; gradients++)
                for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
                    const struct lifetimes it = {.blocks = blocks,
                                                 .micro_batches = micro_batches,
                                                 .block_major = block_major,
                                                 .gradients = (enum lifetimes_gradients)gradients,
                                                 .sent_for = 4,
                                                 .fetched = blocks * shares[s][0] / 4,
                                                 .ahead = 3,
                                                 .recomputed = blocks * shares[s][1] / 4,
                                                 .activation = 300 << 20,
                                                 .gradient = 96 << 20,
                                                 .weight = 96 << 20,
                                                 .residual = 17 << 20,
                                                 .work = 70 << 20};
                    measure(&layout, &it, rounds);
                }
    ah_layout_release(&layout);
    return 0;
}
