/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares channels over MPI with plain MPI between the same two ranks, one after the other in each round.
 *
 *     mpirun -n 2 bench_messages [--rounds N] [--mib N] [--idle-ms N] [PART ...]      without PART, all parts
 *
 * rate    four messages outstanding, one way; channels: a thread each; MPI: MPI_Isend and MPI_Irecv, MPI_Waitany
 * pong    half the time of a round trip
 * sums    a vector of each rank, added up on both in pieces, as two pipelines do (bind_shares.c); MPI: MPI_Allreduce
 * idle    share of a core that a waiting rank uses, with 1 and 4 receives posted
 * late    time from the send of a message to the return of its receive, which was posted before
 *
 * The engine's thread initialised MPI, so it must make all calls of plain MPI. The benchmark therefore uses a copy of
 * the driver's table, changed so that posting to channel JOB runs a job on that thread instead of sending a message.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "bench/options.h"
#include "runtime/comm/driver.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { ROUNDS_MAX = 100, WINDOW = 4, BACK = WINDOW, BACK_TOTAL, JOB, CHANNELS, PIECE = 1 << 18 };

#define MIB  UINT64_C(1048576)
#define MOST (64 * MIB)

struct bench {
    struct ah_comm *comm;
    bool is_first; /* rank 0, which sends and prints */
    size_t rounds, total_bytes;
    uint64_t idle_us;
    unsigned char *data; /* WINDOW times MOST */
    uint64_t bytes;      /* of a message */
    size_t repeats;
};

/* Returns another place for each round's message: in training, the data of a message are not in a cache. */
static unsigned char *place(const struct bench *bench, size_t window, size_t round)
{
    const size_t places = MOST / bench->bytes;
    return bench->data + window * MOST + round % places * bench->bytes;
}

/* ---- jobs on the engine's thread ---- */

static const struct ah_comm_driver *mpi;
static MPI_Comm raw = MPI_COMM_NULL;
static bool is_job_done;

struct job {
    void (*run)(const struct bench *bench);
    const struct bench *bench;
};

static void post(struct ah_comm_end *end, const struct ah_comm_message *messages, size_t n)
{
    if (messages[0].channel != JOB) {
        mpi->post(end, messages, n);
        return;
    }
    const struct job *job = messages[0].data;
    if (raw == MPI_COMM_NULL)
        MPI_Comm_dup(MPI_COMM_WORLD, &raw);
    job->run(job->bench);
    is_job_done = true;
}

static size_t poll(struct ah_comm_end *end, struct ah_comm_done *ret_done, size_t max)
{
    if (!is_job_done)
        return mpi->poll(end, ret_done, max);
    is_job_done = false;
    *ret_done = (struct ah_comm_done){JOB, AH_OK};
    return 1;
}

static void raw_begin(const struct bench *bench, int window, size_t round, MPI_Request *request)
{
    unsigned char *data = place(bench, (size_t)window, round);
    if (bench->is_first)
        MPI_Isend(data, (int)bench->bytes, MPI_BYTE, 1, window, raw, request);
    else
        MPI_Irecv(data, (int)bench->bytes, MPI_BYTE, 0, window, raw, request);
}

static void raw_rate(const struct bench *bench)
{
    MPI_Request requests[WINDOW];
    size_t begun[WINDOW];
    int done = 0;
    for (int i = 0; i < WINDOW; i++) {
        raw_begin(bench, i, 0, &requests[i]);
        begun[i] = 1;
    }
    for (MPI_Waitany(WINDOW, requests, &done, MPI_STATUS_IGNORE); done != MPI_UNDEFINED;
         MPI_Waitany(WINDOW, requests, &done, MPI_STATUS_IGNORE))
        if (begun[done] < bench->repeats)
            raw_begin(bench, done, begun[done]++, &requests[done]);
}

static void raw_pong(const struct bench *bench)
{
    const int peer = bench->is_first ? 1 : 0, bytes = (int)bench->bytes;
    for (size_t r = 0; r < bench->repeats * 2; r++) {
        if ((r % 2 == 0) == bench->is_first)
            MPI_Send(bench->data, bytes, MPI_BYTE, peer, 0, raw);
        else
            MPI_Recv(bench->data, bytes, MPI_BYTE, peer, 0, raw, MPI_STATUS_IGNORE);
    }
}

static void raw_sums(const struct bench *bench)
{
    for (size_t r = 0; r < bench->repeats; r++)
        MPI_Allreduce(MPI_IN_PLACE, bench->data, (int)(bench->bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
                      raw);
}

/* ---- the same through channels ---- */

static void check(int rc, const struct ah_error *err)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_messages: %s\n", err->text);
    exit(1);
}

static void move(const struct bench *bench, uint32_t channel, void *data, uint64_t bytes)
{
    struct ah_error err = {0};
    check(ah_comm_move(bench->comm, channel, data, bytes, &err), &err);
}

struct mover {
    const struct bench *bench;
    uint32_t channel;
};

static void *move_all(void *context)
{
    const struct mover *mover = context;
    const struct bench *bench = mover->bench;
    for (size_t r = 0; r < bench->repeats; r++)
        move(bench, mover->channel, place(bench, mover->channel, r), bench->bytes);
    return NULL;
}

/* Moves messages with one thread for each channel. In training, a lane moves a channel's messages. */
static void channels_rate(const struct bench *bench)
{
    pthread_t threads[WINDOW];
    struct mover movers[WINDOW];
    for (uint32_t i = 0; i < WINDOW; i++) {
        movers[i] = (struct mover){bench, i};
        if (pthread_create(&threads[i], NULL, move_all, &movers[i]))
            exit(1);
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        pthread_join(threads[i], NULL);
}

static void channels_pong(const struct bench *bench)
{
    for (size_t r = 0; r < bench->repeats * 2; r++)
        move(bench, r % 2 ? BACK : 0, bench->data, bench->bytes);
}

static void add(float *to, const float *from)
{
    for (size_t i = 0; i < PIECE; i++)
        to[i] += from[i];
}

/* Adds up a vector. Each rank owns every other piece: it adds the peer's piece, and returns the total next turn. */
static void channels_sums(const struct bench *bench)
{
    static float partial[PIECE];
    float *data = (float *)(void *)bench->data;
    const uint32_t there = bench->is_first ? 0 : BACK, back = bench->is_first ? BACK : 0;
    const uint32_t total_there = bench->is_first ? 1 : BACK_TOTAL,
                   total_back = bench->is_first ? BACK_TOTAL : 1;
    const size_t turns = bench->bytes / sizeof(float) / (2 * PIECE), own = bench->is_first ? 0 : 1;
    const uint64_t bytes = PIECE * sizeof(float);
    struct ah_error err = {0};
    for (size_t r = 0; r < bench->repeats; r++)
        for (size_t turn = 0; turn <= turns; turn++) {
            float *here = data + (2 * turn + own) * PIECE, *other = data + (2 * turn + 1 - own) * PIECE;
            const struct ah_comm_moved moved[] = {{there, other, bytes},
                                                  {back, partial, bytes},
                                                  {total_there, here - 2 * PIECE, bytes},
                                                  {total_back, other - 2 * PIECE, bytes}};
            const size_t first = turn < turns ? 0 : 2, n = (turn ? 4 : 2) - first;
            check(ah_comm_move_together(bench->comm, moved + first, n, &err), &err);
            if (turn < turns)
                add(here, partial);
        }
}

static void as_job(const struct bench *bench, void (*run)(const struct bench *bench))
{
    struct job job = {run, bench};
    move(bench, JOB, &job, 0);
}

/* Waits until both ranks have called it. */
static void meet(const struct bench *bench)
{
    move(bench, 0, NULL, 0);
    move(bench, BACK, NULL, 0);
}

/* ---- measurements ---- */

typedef void what_fn(const struct bench *bench);

static double seconds_of(const struct bench *bench, what_fn *what, bool is_raw)
{
    meet(bench);
    const uint64_t begin_ns = ah_threads_now_ns();
    if (is_raw)
        as_job(bench, what);
    else
        what(bench);
    return (double)(ah_threads_now_ns() - begin_ns) * 1e-9 / (double)bench->repeats;
}

/* Measures plain MPI and channels alternately. The ratio is plain MPI's time divided by the channels' time. */
static void compare(struct bench *bench, what_fn *raw_what, what_fn *what, uint64_t bytes,
                    struct ah_stats ret[3])
{
    double samples[3][ROUNDS_MAX];
    bench->bytes = bytes;
    for (size_t i = 0; i <= bench->rounds; i++) {
        const size_t at = i ? i - 1 : 0; /* the first round is a warm-up */
        const bool raw_first = i % 2;
        const double first = seconds_of(bench, raw_first ? raw_what : what, raw_first);
        const double second = seconds_of(bench, raw_first ? what : raw_what, !raw_first);
        samples[0][at] = raw_first ? first : second;
        samples[1][at] = raw_first ? second : first;
        samples[2][at] = samples[0][at] / samples[1][at];
    }
    for (int i = 0; i < 3; i++)
        ret[i] = ah_stats_of(samples[i], bench->rounds);
}

static void measure_rate(struct bench *bench)
{
    static const uint64_t sizes_mib[] = {1, 4, 16, 64};
    if (bench->is_first)
        printf("\n%-10s %14s %18s %16s\n", "rate", "MPI GB/s", "channels GB/s", "ratio");
    for (size_t i = 0; i < sizeof sizes_mib / sizeof sizes_mib[0]; i++) {
        struct ah_stats s[3];
        const uint64_t bytes = sizes_mib[i] * MIB, all = bytes * WINDOW;
        bench->repeats = bench->total_bytes / all ? bench->total_bytes / all : 1;
        compare(bench, raw_rate, channels_rate, bytes, s);
        if (bench->is_first)
            printf("%5llu MiB  %14.2f %18.2f %10.3f (%.3f)\n", (unsigned long long)sizes_mib[i],
                   (double)all / s[0].median * 1e-9, (double)all / s[1].median * 1e-9, s[2].median, s[2].mad);
    }
}

static void measure_sums(struct bench *bench)
{
    static const uint64_t sizes_mib[] = {4, 32, 256};
    if (bench->is_first)
        printf("\n%-10s %14s %18s %16s\n", "sums", "MPI GB/s", "channels GB/s", "ratio");
    for (size_t i = 0; i < sizeof sizes_mib / sizeof sizes_mib[0]; i++) {
        struct ah_stats s[3];
        const uint64_t bytes = sizes_mib[i] * MIB;
        bench->repeats = bench->total_bytes / bytes ? bench->total_bytes / bytes : 1;
        compare(bench, raw_sums, channels_sums, bytes, s);
        if (bench->is_first)
            printf("%5llu MiB  %14.2f %18.2f %10.3f (%.3f)\n", (unsigned long long)sizes_mib[i],
                   (double)bytes / s[0].median * 1e-9, (double)bytes / s[1].median * 1e-9, s[2].median,
                   s[2].mad);
    }
}

static void measure_pong(struct bench *bench)
{
    static const uint64_t sizes[] = {0, 4 << 10, 64 << 10, 1 << 20};
    if (bench->is_first)
        printf("\n%-10s %14s %18s\n", "pong", "MPI us (mad)", "channels us (mad)");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ah_stats s[3];
        bench->repeats = 200;
        compare(bench, raw_pong, channels_pong, sizes[i], s);
        if (bench->is_first)
            printf("%5llu KiB  %7.1f (%.1f) %11.1f (%.1f)\n", (unsigned long long)sizes[i] >> 10,
                   s[0].median * 5e5, s[0].mad * 5e5, s[1].median * 5e5, s[1].mad * 5e5);
    }
}

static void sleep_us(uint64_t us)
{
    nanosleep(&(const struct timespec){(time_t)(us / 1000000), (long)(us % 1000000) * 1000}, NULL);
}

static double used_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Returns the fraction of a core used by rank 1 while it waits for `n` messages that rank 0 sends late. */
static double idle_share(struct bench *bench, uint32_t n, uint64_t bytes)
{
    struct ah_error err = {0};
    struct ah_comm_moved moved[WINDOW];
    double share = 0;
    for (uint32_t i = 0; i < n; i++)
        moved[i] = (struct ah_comm_moved){i, bench->data + i * bytes, bytes};
    meet(bench);
    const double begin_s = used_s();
    const uint64_t begin_ns = ah_threads_now_ns();
    if (bench->is_first)
        sleep_us(bench->idle_us);
    check(ah_comm_move_together(bench->comm, moved, n, &err), &err);
    share = (used_s() - begin_s) / ((double)(ah_threads_now_ns() - begin_ns) * 1e-9);
    move(bench, BACK, &share, sizeof share);
    return share;
}

static void measure_idle(struct bench *bench)
{
    static const struct {
        uint32_t n;
        uint64_t bytes;
    } cases[] = {{1, 4096}, {WINDOW, 4096}, {1, 4 * MIB}, {WINDOW, 4 * MIB}};
    if (bench->is_first)
        printf("\n%-28s %s\n", "idle", "% of a core (mad), most");
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        double samples[ROUNDS_MAX];
        for (size_t i = 0; i < bench->rounds; i++)
            samples[i] = 100 * idle_share(bench, cases[c].n, cases[c].bytes);
        struct ah_stats s = ah_stats_of(samples, bench->rounds);
        if (bench->is_first)
            printf("%u x %4llu KiB                 %5.2f (%.2f) %5.2f\n", cases[c].n,
                   (unsigned long long)cases[c].bytes >> 10, s.median, s.mad, s.max);
    }
}

/* Returns the time from the send on rank 0 to the receive's return on rank 1. Both ranks share a machine's clock. */
static double late_us(struct bench *bench, uint64_t waited_us, uint64_t bytes)
{
    uint64_t sent_ns = 0;
    double late = 0;
    meet(bench);
    if (bench->is_first) {
        sleep_us(waited_us);
        sent_ns = ah_threads_now_ns();
        memcpy(bench->data, &sent_ns, sizeof sent_ns);
    }
    move(bench, 0, bench->data, bytes);
    if (!bench->is_first) {
        memcpy(&sent_ns, bench->data, sizeof sent_ns);
        late = (double)(ah_threads_now_ns() - sent_ns) * 1e-3;
    }
    move(bench, BACK, &late, sizeof late);
    return late;
}

static void measure_late(struct bench *bench)
{
    static const uint64_t waits_us[] = {100, 1000, 10000, 100000, 1000000}, sizes[] = {4096, MIB};
    if (bench->is_first)
        printf("\n%-16s %s\n", "late", "us (mad), most: of 4 KiB; of 1 MiB");
    for (size_t w = 0; w < sizeof waits_us / sizeof waits_us[0]; w++) {
        struct ah_stats s[2];
        for (int b = 0; b < 2; b++) {
            double samples[ROUNDS_MAX];
            for (size_t i = 0; i < bench->rounds; i++)
                samples[i] = late_us(bench, waits_us[w], sizes[b]);
            s[b] = ah_stats_of(samples, bench->rounds);
        }
        if (bench->is_first)
            printf("after %7.1f ms   %7.1f (%.1f) %7.1f; %7.1f (%.1f) %7.1f\n", (double)waits_us[w] * 1e-3,
                   s[0].median, s[0].mad, s[0].max, s[1].median, s[1].mad, s[1].max);
    }
}

static void open_world(struct bench *bench)
{
    static struct ah_comm_driver driver;
    struct ah_comm_options options = {.driver = &driver};
    struct ah_error err = {0};
    struct ah_comm_channel channels[CHANNELS];
    check(ah_comm_load("mpi", &mpi, &err), &err);
    driver = *mpi;
    driver.post = post;
    driver.poll = poll;
    check(ah_comm_open(&bench->comm, &options, &err), &err);
    if (ah_comm_ranks(bench->comm) != 2)
        check(ah_error_set(&err, AH_E_USAGE, "it takes two ranks: mpirun -n 2 bench_messages"), &err);
    bench->is_first = ah_comm_rank(bench->comm) == 0;
    for (uint32_t i = 0; i < CHANNELS; i++)
        channels[i] = (struct ah_comm_channel){bench->is_first ? 1 : 0, i,
                                               bench->is_first != (i == BACK || i == BACK_TOTAL), MOST};
    check(ah_comm_channels(bench->comm, channels, CHANNELS, &err), &err);
}

static const struct {
    const char *name;
    void (*measure)(struct bench *bench);
} parts[] = {{"rate", measure_rate},
             {"pong", measure_pong},
             {"sums", measure_sums},
             {"idle", measure_idle},
             {"late", measure_late}};

enum { PARTS = sizeof parts / sizeof parts[0] };

/* True if the command line names this part, or no part. */
static bool is_wanted(int argc, char **argv, const char *part)
{
    bool is_named = false, are_any = false;
    for (int i = 1; i < argc; i++)
        for (size_t p = 0; p < PARTS; p++) {
            are_any = are_any || !strcmp(argv[i], parts[p].name);
            is_named = is_named || !strcmp(argv[i], part);
        }
    return is_named || !are_any;
}

int main(int argc, char **argv)
{
    struct bench bench = {.rounds = bench_option(argc, argv, "--rounds", 9, ROUNDS_MAX),
                          .total_bytes = bench_option(argc, argv, "--mib", 512, 1 << 20) * MIB,
                          .idle_us = bench_option(argc, argv, "--idle-ms", 1000, 100000) * 1000};
    char version[128] = "";
    struct ah_error err = {0};
    bench.data = malloc(WINDOW * MOST);
    if (!bench.data)
        check(ah_error_memory(&err), &err);
    memset(bench.data, 1, WINDOW * MOST);
    open_world(&bench);
    (void)mpi->probe(version, sizeof version, &err);
    if (bench.is_first)
        printf("%s, %zu rounds\n", version, bench.rounds);
    for (size_t p = 0; p < PARTS; p++)
        if (is_wanted(argc, argv, parts[p].name))
            parts[p].measure(&bench);
    ah_comm_close(bench.comm);
    free(bench.data);
    return 0;
}
