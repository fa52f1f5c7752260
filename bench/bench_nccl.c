/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between GPUs by NCCL, through the device's lanes as in training. scripts/gpu-check runs it.
 *
 *     bench_nccl RANKS [one-gpu]
 *
 * Ranks are threads; rank r has GPU r, or all have GPU 0. Each fills memory on its compute lane, sends it to the next
 * rank, gets that of the rank before, and adds its own on the lane `sums`. What arrives is checked. A world of one rank
 * only adds.
 *
 * Prints a line of JSON for each size: "ok", bytes, the median time of a turn in us, and GB/s; "why" if it is not ok.
 * Exit status 1: not ok.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/comm/loop/loop.h"
#include "runtime/comm/nccl.h"
#include "runtime/device/device_plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 16, TURNS = 12, SIZES = 4 };

#define MIB UINT64_C(1048576)

static const uint64_t sizes[SIZES] = {4096, MIB, 16 * MIB, 64 * MIB};

struct rank {
    pthread_t thread;
    struct ah_comm_nccl nccl;
    struct ah_comm_options options;
    struct ah_comm *comm;
    struct ah_device *device;
    struct ah_comm_moved together[2];
    size_t n_together;
    double us[SIZES];
    int rc;
    struct ah_error err;
};

static struct ah_comm_hub *hub;
static pthread_barrier_t opened;
static const struct ah_device_driver *gpus;
static struct rank ranks[RANKS_MAX];

/* Moves a message, with the one before if that has `more` set. */
static int move(void *context, const struct ah_op_moved *moved, struct ah_error *err)
{
    struct rank *rank = context;
    rank->together[rank->n_together++] = (struct ah_comm_moved){moved->channel, moved->data, moved->bytes};
    if (moved->more)
        return AH_OK;
    const size_t n = rank->n_together;
    rank->n_together = 0;
    return ah_comm_move_together(rank->comm, rank->together, n, err);
}

static struct ah_ref there(uint64_t offset)
{
    return (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, offset, 0};
}

static struct ah_op fill(uint64_t offset, uint64_t bytes, float value)
{
    return (struct ah_op){
        .kind = AH_OP_FILL, .arg = {there(offset)}, .u.elements = {bytes / sizeof(float), value, 0}};
}

static struct ah_op add(uint64_t bytes)
{
    return (struct ah_op){.kind = AH_OP_ACCUMULATE,
                          .arg = {there(64 * MIB), there(0)},
                          .u.elements = {bytes / sizeof(float), 0, 0}};
}

static struct ah_op message(struct rank *rank, enum ah_op_kind kind, uint64_t bytes)
{
    const bool sends = kind == AH_OP_SEND;
    return (struct ah_op){.kind = kind,
                          .arg = {there(sends ? 0 : 64 * MIB)},
                          .u.message = {move, rank, bytes, sends ? 0 : 1, sends}};
}

static int submit(struct rank *rank, uint32_t lane, const struct ah_op *op, struct ah_wait wait,
                  uint64_t *ret_ticket, struct ah_error *err)
{
    const struct ah_submission submission = {
        .lane = lane, .n_waits = wait.ticket ? 1 : 0, .waits = &wait, .op = op};
    return ah_device_submit(rank->device, &submission, 1, ret_ticket, err);
}

static float value_of(uint32_t rank, unsigned turn)
{
    return (float)(rank + 1) + 100.0F * (float)turn;
}

/* Fills, sends and receives, adds, and copies to the host. The host then sees the sum of two ranks' values. */
static int take_turn(struct rank *rank, uint64_t bytes, unsigned turn, struct ah_error *err)
{
    const uint32_t own = rank->options.rank, n = rank->options.ranks;
    const struct ah_op fills[] = {fill(0, bytes, value_of(own, turn)), fill(64 * MIB, bytes, 0)};
    const struct ah_op send = message(rank, AH_OP_SEND, bytes), receive = message(rank, AH_OP_RECEIVE, bytes);
    const struct ah_op sum = add(bytes);
    const struct ah_op copy = {
        .kind = AH_OP_COPY, .arg = {{AH_ARENA_PINNED, AH_FP32, 0, 0}, there(64 * MIB)}, .u.copy = {bytes}};
    uint64_t filled = 0, summed = 0, copied = 0;
    int rc = submit(rank, AH_LANE_COMPUTE, &fills[0], (struct ah_wait){0}, &filled, err);
    rc = rc ? rc : submit(rank, AH_LANE_COMPUTE, &fills[1], (struct ah_wait){0}, &filled, err);
    const struct ah_wait after = {AH_LANE_COMPUTE, filled};
    if (n > 1) {
        rc = rc ? rc : submit(rank, AH_LANE_SUMS, &send, after, NULL, err);
        rc = rc ? rc : submit(rank, AH_LANE_SUMS, &receive, (struct ah_wait){0}, NULL, err);
    }
    rc = rc ? rc : submit(rank, AH_LANE_SUMS, &sum, after, &summed, err);
    rc = rc ? rc : submit(rank, AH_LANE_D2H, &copy, (struct ah_wait){AH_LANE_SUMS, summed}, &copied, err);
    rc = rc ? rc : ah_device_wait(rank->device, AH_LANE_D2H, copied, err);
    if (rc)
        return rc;
    const float *got = ah_device_pointer(rank->device, (struct ah_ref){AH_ARENA_PINNED, AH_FP32, 0, 0});
    const float expected = value_of(own, turn) + (n > 1 ? value_of((own + n - 1) % n, turn) : 0);
    for (uint64_t i = 0; i < bytes / sizeof(float); i++)
        if (got[i] < expected || got[i] > expected)
            return ah_error_set(err, AH_E_FAILED,
                                "turn %u of %llu bytes: value %llu is %g, not %g; a message or sum is wrong",
                                turn, (unsigned long long)bytes, (unsigned long long)i, (double)got[i],
                                (double)expected);
    return AH_OK;
}

static int measure(struct rank *rank, struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t size = 0; size < SIZES && !rc; size++) {
        double us[TURNS];
        for (unsigned turn = 0; turn < TURNS && !rc; turn++) {
            struct ah_span_reader reader = ah_device_newest(rank->device, AH_LANE_SUMS, 0);
            struct ah_span spans[4];
            rc = take_turn(rank, sizes[size], turn, err);
            const size_t n = ah_device_spans(rank->device, &reader, spans, 4);
            us[turn] = n ? (double)(spans[n - 1].end_ns - spans[0].start_ns) * 1e-3 : 0;
        }
        rank->us[size] = ah_stats_of(us, TURNS).median;
    }
    return rc;
}

static int open_rank(struct rank *rank, struct ah_error *err)
{
    const uint32_t own = rank->options.rank, n = rank->options.ranks;
    const struct ah_comm_channel channels[] = {{(own + 1) % n, 0, true, sizes[SIZES - 1]},
                                               {(own + n - 1) % n, 0, false, sizes[SIZES - 1]}};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 128 * MIB, 64 * MIB, 4096};
    const struct ah_op ops[] = {fill(0, MIB, 1), fill(0, 4096, 1), add(MIB), add(4096)};
    int rc = ah_comm_open(&rank->comm, &rank->options, err);
    rc = rc ? rc : ah_comm_channels(rank->comm, channels, n > 1 ? 2 : 0, err);
    if (!rc)
        rc = ah_device_open(&rank->device, gpus,
                            &(struct ah_device_options){.index = rank->nccl.gpu, .messages = true}, err);
    rc = rc ? rc : ah_device_prepare(rank->device, ops, sizeof ops / sizeof *ops, err);
    return rc ? rc : ah_device_reserve(rank->device, arena_bytes, err);
}

static void *live(void *context)
{
    struct rank *rank = context;
    rank->rc = open_rank(rank, &rank->err);
    pthread_barrier_wait(&opened); /* no rank allocates while a message waits on another GPU */
    rank->rc = rank->rc ? rank->rc : measure(rank, &rank->err);
    if (rank->rc && rank->comm)
        ah_comm_revoke(rank->comm, &rank->err);
    ah_device_close(rank->device);
    ah_comm_close(rank->comm);
    return NULL;
}

/* Prints the error as JSON. Replaces characters that would end the string. */
static int refuse(struct ah_error *err)
{
    for (char *at = err->text; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '\'';
    printf("{\"ok\": false, \"why\": \"%s\"}\n", err->text);
    return 1;
}

static int run(uint32_t n, bool one_gpu, const struct ah_comm_driver *nccl, const char *library)
{
    struct ah_error err = {0};
    if (ah_comm_hub_new(&hub, n, NULL, &err))
        return refuse(&err);
    pthread_barrier_init(&opened, NULL, n);
    for (uint32_t i = 0; i < n; i++) {
        ranks[i].nccl = (struct ah_comm_nccl){ah_comm_loop(), hub, 1, one_gpu ? 0 : i, 0};
        ranks[i].options = (struct ah_comm_options){nccl, i, n, &ranks[i].nccl, 20};
        if (pthread_create(&ranks[i].thread, NULL, live, &ranks[i]))
            return 1;
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    ah_comm_hub_free(hub);
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i].rc && ranks[i].rc != AH_E_PEER)
            return refuse(&ranks[i].err);
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i].rc)
            return refuse(&ranks[i].err);
    for (size_t size = 0; size < SIZES; size++)
        printf("{\"ok\": true, \"library\": \"%s\", \"ranks\": %u, \"bytes\": %llu, \"us\": %.1f, "
               "\"gb_per_s\": %.2f}\n",
               library, n, (unsigned long long)sizes[size], ranks[0].us[size],
               (double)sizes[size] / ranks[0].us[size] * 1e-3);
    return 0;
}

int main(int argc, char **argv)
{
    const struct ah_comm_driver *nccl = NULL;
    struct ah_error err = {0};
    char library[128] = "";
    const unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (n < 1 || n > RANKS_MAX || argc > 3 || (argc == 3 && strcmp(argv[2], "one-gpu") != 0)) {
        fprintf(stderr, "usage: bench_nccl RANKS [one-gpu]\n");
        return 2;
    }
    int rc = ah_plugin_load("cuda", &gpus, &err);
    rc = rc ? rc : ah_comm_load("nccl", &nccl, &err);
    rc = rc ? rc : nccl->probe(library, sizeof library, &err);
    return rc ? refuse(&err) : run((uint32_t)n, argc == 3, nccl, library);
}
