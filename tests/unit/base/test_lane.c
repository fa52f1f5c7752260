/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests lanes. Jobs write memory without atomics, so the thread sanitizer notices jobs that a ticket fails to order.
 */
#include "base/lane.h"

#include "base/threads.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct ah_lane *new_lane_with_bell(const char *name, size_t queue, size_t spans,
                                          struct ah_lane_bell *bell)
{
    struct ah_error err = {0};
    struct ah_lane *lane = NULL;
    struct ah_lane_options options = {.name = name, .cpu = -1, .queue = queue, .spans = spans, .bell = bell};
    CHECK_OK(ah_lane_new(&lane, &options, &err), err);
    return lane;
}

static struct ah_lane *new_lane(const char *name, size_t queue, size_t spans)
{
    return new_lane_with_bell(name, queue, spans, NULL);
}

struct append {
    int *list; /* list[0] is the number of values behind it */
    int value;
};

static void run_append(void *payload)
{
    struct append *append = payload;
    append->list[++append->list[0]] = append->value;
}

static uint64_t submit_append(struct ah_lane *lane, int *list, int value)
{
    struct append append = {list, value};
    struct ah_lane_job job = {
        .run = run_append, .payload = &append, .payload_bytes = sizeof append, .tag = (uint64_t)value};
    uint64_t ticket = 0;
    assert_int_equal(ah_lane_submit(lane, &job, &ticket), AH_OK);
    return ticket;
}

TEST(lane, jobs_run_in_order_and_tickets_count)
{
    int list[1001] = {0};
    struct ah_lane *lane = new_lane("order", 0, 0);
    assert_int_equal(ah_lane_done(lane), 0);
    ah_lane_wait(lane, 0);
    for (int i = 1; i <= 1000; i++)
        assert_int_equal(submit_append(lane, list, i), i);
    ah_lane_wait(lane, 500);
    assert_true(ah_lane_done(lane) >= 500);
    assert_int_equal(list[500], 500);
    ah_lane_drain(lane);
    assert_int_equal(ah_lane_done(lane), 1000);
    for (int i = 0; i <= 1000; i++)
        assert_int_equal(list[i], i ? i : 1000);
    ah_lane_free(lane);
    ah_lane_free(NULL);
}

TEST(lane, free_finishes_the_queue)
{
    int list[101] = {0};
    struct ah_lane *lane = new_lane("free", 0, 0);
    for (int i = 1; i <= 100; i++)
        submit_append(lane, list, i);
    ah_lane_free(lane);
    assert_int_equal(list[0], 100);
}

static void run_sleep(void *payload)
{
    uint64_t ns;
    memcpy(&ns, payload, sizeof ns);
    ah_threads_sleep_until_ns(ah_threads_now_ns() + ns);
}

static uint64_t submit_sleep(struct ah_lane *lane, uint64_t ns, const struct ah_lane_wait *waits,
                             size_t n_waits)
{
    struct ah_lane_job job = {
        .run = run_sleep, .payload = &ns, .payload_bytes = sizeof ns, .waits = waits, .n_waits = n_waits};
    uint64_t ticket = 0;
    assert_int_equal(ah_lane_submit(lane, &job, &ticket), AH_OK);
    return ticket;
}

TEST(lane, a_full_queue_makes_submit_wait)
{
    int list[201] = {0};
    struct ah_lane *lane = new_lane("full", 2, 0);
    submit_sleep(lane, 5000000, NULL, 0);
    for (int i = 1; i <= 200; i++) {
        uint64_t ticket = submit_append(lane, list, i);
        assert_true(ticket - ah_lane_done(lane) <= 2);
    }
    ah_lane_drain(lane);
    for (int i = 1; i <= 200; i++)
        assert_int_equal(list[i], i);
    ah_lane_free(lane);
}

TEST(lane, waits_for_tickets_not_yet_submitted)
{
    int list[3] = {0};
    struct ah_lane *first = new_lane("first", 0, 0), *second = new_lane("second", 0, 0);
    struct append append = {list, 2};
    struct ah_lane_wait wait = {first, 1};
    struct ah_lane_job job = {
        .run = run_append, .payload = &append, .payload_bytes = sizeof append, .waits = &wait, .n_waits = 1};
    assert_int_equal(ah_lane_submit(second, &job, NULL), AH_OK);
    ah_threads_sleep_until_ns(ah_threads_now_ns() + 5000000);
    assert_int_equal(ah_lane_done(second), 0);
    submit_append(first, list, 1);
    ah_lane_wait(second, 1);
    assert_true(list[0] == 2 && list[1] == 1 && list[2] == 2);
    ah_lane_free(second);
    ah_lane_free(first);
}

TEST(lane, refuses_what_cannot_be)
{
    int list[3] = {0};
    struct ah_lane *lane = new_lane("refuse", 0, 0);
    unsigned char big[AH_LANE_PAYLOAD_MAX + 1] = {0};
    struct ah_lane_wait waits[AH_LANE_WAITS_MAX + 1] = {{lane, 1}};
    uint64_t ticket = 77;
    struct ah_lane_job job = {.run = run_append, .payload = big, .payload_bytes = sizeof big};
    assert_int_equal(ah_lane_submit(lane, &job, &ticket), AH_E_USAGE);
    job = (struct ah_lane_job){.run = run_append, .waits = waits, .n_waits = AH_LANE_WAITS_MAX + 1};
    assert_int_equal(ah_lane_submit(lane, &job, &ticket), AH_E_USAGE);
    job.n_waits = 1; /* a job that would wait for itself */
    assert_int_equal(ah_lane_submit(lane, &job, &ticket), AH_E_USAGE);
    assert_int_equal(ticket, 77);
    assert_int_equal(submit_append(lane, list, 1), 1); /* ticket 1: the refused jobs were not queued */
    ah_lane_drain(lane);
    ah_lane_free(lane);
}

struct wide {
    unsigned char bytes[AH_LANE_PAYLOAD_MAX - 8];
    int *ok;
};

static void run_wide(void *payload)
{
    struct wide *wide = payload;
    *wide->ok = (uintptr_t)payload % 64 == 0;
    for (size_t i = 0; i < sizeof wide->bytes; i++)
        *wide->ok &= wide->bytes[i] == (i & 255);
}

TEST(lane, payload_is_a_copy)
{
    int ok = 0;
    struct wide wide = {.ok = &ok};
    struct ah_lane *lane = new_lane("payload", 0, 0);
    for (size_t i = 0; i < sizeof wide.bytes; i++)
        wide.bytes[i] = (unsigned char)i;
    submit_sleep(lane, 2000000, NULL, 0);
    struct ah_lane_job job = {.run = run_wide, .payload = &wide, .payload_bytes = sizeof wide};
    assert_int_equal(ah_lane_submit(lane, &job, NULL), AH_OK);
    memset(wide.bytes, 0, sizeof wide.bytes); /* before the job has run */
    ah_lane_drain(lane);
    assert_true(ok);
    ah_lane_free(lane);
}

TEST(lane, spans_are_the_newest_jobs)
{
    int list[32] = {0};
    struct ah_lane_span spans[8];
    struct ah_lane *lane = new_lane("spans", 0, 4), *slow = new_lane("slow", 0, 0);
    assert_int_equal(ah_lane_spans(lane, 0, spans, 8), 0);
    uint64_t begin = ah_threads_now_ns();
    submit_append(lane, list, 101);
    submit_append(lane, list, 102);
    ah_lane_drain(lane);
    assert_int_equal(ah_lane_spans(lane, 0, spans, 8), 2);
    assert_int_equal(spans[1].tag, 102);
    for (int i = 3; i <= 9; i++)
        submit_append(lane, list, 100 + i);
    struct ah_lane_wait wait = {slow, submit_sleep(slow, 3000000, NULL, 0)};
    submit_sleep(lane, 2000000, &wait, 1);
    ah_lane_drain(lane);
    assert_int_equal(ah_lane_spans(lane, 0, spans, 8), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(spans[i].ticket, 7 + i);
        assert_true(begin <= spans[i].ready_ns && spans[i].ready_ns <= spans[i].start_ns);
        assert_true(spans[i].start_ns <= spans[i].end_ns && spans[i].end_ns <= ah_threads_now_ns());
        assert_true(i == 0 || spans[i].ready_ns >= spans[i - 1].end_ns);
    }
    assert_true(spans[3].end_ns - spans[3].start_ns >= 2000000); /* the job slept that long after its wait */
    struct ah_lane_span other;
    assert_int_equal(ah_lane_spans(slow, 0, &other, 1), 1);
    assert_true(spans[3].start_ns >= other.end_ns);
    assert_int_equal(ah_lane_spans(lane, 0, spans, 2), 2);
    assert_int_equal(spans[0].ticket, 7); /* the oldest span still kept is the first */
    assert_int_equal(ah_lane_spans(lane, 8, spans, 8), 2);
    assert_int_equal(spans[0].ticket, 9);
    assert_int_equal(spans[1].ticket, 10);
    assert_int_equal(ah_lane_spans(lane, 10, spans, 8), 0);
    assert_int_equal(ah_lane_spans(lane, 11, spans, 8), 0);
    ah_lane_free(lane);
    ah_lane_free(slow);
}

struct gate {
    atomic_int inside, open;
};

static void run_gate(void *payload)
{
    struct gate *gate;
    memcpy(&gate, payload, sizeof gate);
    atomic_store(&gate->inside, 1);
    while (!atomic_load(&gate->open))
        sched_yield();
}

TEST(lane, busy_while_a_job_runs)
{
    struct gate gate = {0}, *at = &gate;
    struct ah_lane *lane = new_lane("busy", 0, 0);
    assert_false(ah_lane_busy(lane));
    struct ah_lane_job job = {.run = run_gate, .payload = &at, .payload_bytes = sizeof at};
    assert_int_equal(ah_lane_submit(lane, &job, NULL), AH_OK);
    while (!atomic_load(&gate.inside))
        sched_yield();
    assert_true(ah_lane_busy(lane));
    atomic_store(&gate.open, 1);
    ah_lane_drain(lane);
    assert_false(ah_lane_busy(lane));
    ah_lane_free(lane);
}

static void run_nothing(void *payload)
{
    (void)payload;
}

/* While a job waits, its lane is not busy; its span begins after the wait. */
TEST(lane, awaits_before_a_job)
{
    struct gate gate = {0}, *at = &gate;
    struct ah_lane_span span;
    struct ah_lane *lane = new_lane("await", 0, 0);
    struct ah_lane_job job = {
        .await = run_gate, .run = run_nothing, .payload = &at, .payload_bytes = sizeof at};
    assert_int_equal(ah_lane_submit(lane, &job, NULL), AH_OK);
    while (!atomic_load(&gate.inside))
        sched_yield();
    assert_false(ah_lane_busy(lane));
    assert_int_equal(ah_lane_done(lane), 0);
    uint64_t opened = ah_threads_now_ns();
    atomic_store(&gate.open, 1);
    ah_lane_drain(lane);
    assert_int_equal(ah_lane_spans(lane, 0, &span, 1), 1);
    assert_true(span.ready_ns <= opened && span.start_ns >= opened);
    ah_lane_free(lane);
}

TEST(lane, names_the_processor_it_cannot_have)
{
    struct ah_error err = {0};
    struct ah_lane *lane = NULL;
    CHECK_FAILS(ah_lane_new(&lane, &(struct ah_lane_options){.name = "far", .cpu = 8000}, &err), err,
                AH_E_FAILED, "'far' on processor 8000");
    assert_null(lane);
}

static double cpu_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Idle lanes fall asleep after a while. On a busy machine this takes longer, so the test tries several times. */
TEST(lane, idle_lanes_use_no_processor)
{
    struct ah_lane *waiting = new_lane("waiting", 0, 0), *idle = new_lane("idle", 0, 0);
    struct gate gate = {0}, *at = &gate;
    struct ah_lane_wait wait = {idle, 1};
    submit_sleep(waiting, 0, &wait, 1); /* the job waits for a ticket of the idle lane */
    double used = 1;
    for (int i = 0; i < 100 && used >= 0.015; i++) {
        double before = cpu_seconds();
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 100000000);
        used = cpu_seconds() - before;
    }
    assert_true(used < 0.015);
    atomic_store(&gate.open, 1);
    struct ah_lane_job job = {.run = run_gate, .payload = &at, .payload_bytes = sizeof at};
    assert_int_equal(ah_lane_submit(idle, &job, NULL), AH_OK);
    ah_lane_free(waiting);
    ah_lane_free(idle);
}

/* The stress test: jobs 0..JOBS-1 have one global order. Each job is on a random lane and waits for some earlier jobs.
 * One thread per lane submits the lane's jobs through a small queue. Each job checks that its predecessor on the lane
 * and all jobs that it waits for have run. The values read are not atomic, so only tickets order these reads. */
enum { LANES = 4, JOBS = 4000, STRESS_WAITS = 4 };

struct stress_job {
    int lane;
    uint64_t ticket;
    int before[STRESS_WAITS]; /* jobs that this job waits for; -1: none */
    int previous;             /* the previous job on the same lane; -1: none */
    int ran;
};

struct stress {
    struct ah_lane_bell *bell;
    struct ah_lane *lanes[LANES];
    struct stress_job jobs[JOBS];
    int by_ticket[LANES][JOBS + 1];
    int last[LANES];
    atomic_int wrong, finished;
};

struct stress_payload {
    struct stress *stress;
    int job;
};

static void run_stress(void *payload)
{
    struct stress_payload *at = payload;
    struct stress_job *job = &at->stress->jobs[at->job];
    for (int i = 0; i < STRESS_WAITS; i++)
        if (job->before[i] >= 0 && !at->stress->jobs[job->before[i]].ran)
            atomic_fetch_add(&at->stress->wrong, 1);
    if (job->previous >= 0 && !at->stress->jobs[job->previous].ran)
        atomic_fetch_add(&at->stress->wrong, 1);
    job->ran++;
}

struct submitter {
    struct stress *stress;
    int lane;
    uint64_t seed;
};

static void *submit_stress(void *context)
{
    struct submitter *self = context;
    struct stress *stress = self->stress;
    for (int i = 0; i < JOBS; i++) {
        struct stress_job *job = &stress->jobs[i];
        if (job->lane != self->lane)
            continue;
        struct ah_lane_wait waits[STRESS_WAITS];
        size_t n_waits = 0;
        for (int k = 0; k < STRESS_WAITS; k++)
            if (job->before[k] >= 0) {
                const struct stress_job *before = &stress->jobs[job->before[k]];
                waits[n_waits++] = (struct ah_lane_wait){stress->lanes[before->lane], before->ticket};
            }
        struct stress_payload payload = {stress, i};
        struct ah_lane_job submitted = {.run = run_stress,
                                        .payload = &payload,
                                        .payload_bytes = sizeof payload,
                                        .waits = waits,
                                        .n_waits = n_waits};
        uint64_t ticket = 0;
        if (ah_lane_submit(stress->lanes[self->lane], &submitted, &ticket) || ticket != job->ticket)
            atomic_fetch_add(&stress->wrong, 1);
        if (check_random(&self->seed) % 64 == 0)
            ah_threads_sleep_until_ns(ah_threads_now_ns() + check_random(&self->seed) % 100000);
    }
    return NULL;
}

/* Polls the `done` counts. Checks that the counts only grow, and that every job counted as done has run. */
static void *watch_stress(void *context)
{
    struct stress *stress = context;
    uint64_t seen[LANES] = {0};
    while (!atomic_load(&stress->finished)) {
        for (int lane = 0; lane < LANES; lane++) {
            uint64_t done = ah_lane_done(stress->lanes[lane]);
            int wrong = done < seen[lane];
            for (uint64_t ticket = seen[lane] + 1; ticket <= done; ticket++)
                wrong |= !stress->jobs[stress->by_ticket[lane][ticket]].ran;
            if (wrong)
                atomic_fetch_add(&stress->wrong, 1);
            seen[lane] = done;
        }
        sched_yield();
    }
    return NULL;
}

/* Waits for one more job of any lane, and so on until all jobs are done. A lost wake-up would hang here. */
static void *follow_stress(void *context)
{
    struct stress *stress = context;
    uint64_t seen[LANES] = {0};
    for (;;) {
        struct ah_lane_wait waits[LANES];
        int lanes[LANES];
        size_t n = 0;
        for (int lane = 0; lane < LANES; lane++)
            if (seen[lane] < stress->jobs[stress->last[lane]].ticket) {
                lanes[n] = lane;
                waits[n++] = (struct ah_lane_wait){stress->lanes[lane], seen[lane] + 1};
            }
        if (n == 0)
            return NULL;
        int lane = lanes[ah_lane_wait_any(stress->bell, waits, n)];
        if (!stress->jobs[stress->by_ticket[lane][++seen[lane]]].ran)
            atomic_fetch_add(&stress->wrong, 1);
    }
}

static void plan_stress(struct stress *stress, uint64_t *seed)
{
    uint64_t tickets[LANES] = {0};
    for (int lane = 0; lane < LANES; lane++)
        stress->last[lane] = -1;
    for (int i = 0; i < JOBS; i++) {
        struct stress_job *job = &stress->jobs[i];
        job->lane = (int)(check_random(seed) % LANES);
        job->ticket = ++tickets[job->lane];
        job->previous = stress->last[job->lane];
        stress->last[job->lane] = i;
        stress->by_ticket[job->lane][job->ticket] = i;
        for (int k = 0; k < STRESS_WAITS; k++) {
            int back = 1 + (int)(check_random(seed) % 12);
            job->before[k] = check_random(seed) % 2 && back <= i ? i - back : -1;
        }
    }
}

TEST(lane, random_graphs_keep_their_order)
{
    uint64_t seed = check_seed(51);
    for (int round = 0; round < 4; round++) {
        struct stress *stress = calloc(1, sizeof *stress);
        plan_stress(stress, &seed);
        assert_int_equal(ah_lane_bell_new(&stress->bell, NULL), AH_OK);
        for (int lane = 0; lane < LANES; lane++)
            stress->lanes[lane] = new_lane_with_bell("stress", 1 + (size_t)(round * 5), 0, stress->bell);
        pthread_t threads[LANES], watcher, follower;
        struct submitter submitters[LANES];
        pthread_create(&watcher, NULL, watch_stress, stress);
        pthread_create(&follower, NULL, follow_stress, stress);
        for (int lane = 0; lane < LANES; lane++) {
            submitters[lane] = (struct submitter){stress, lane, check_random(&seed) | 1};
            pthread_create(&threads[lane], NULL, submit_stress, &submitters[lane]);
        }
        for (int lane = 0; lane < LANES; lane++)
            pthread_join(threads[lane], NULL);
        for (int lane = 0; lane < LANES; lane++)
            ah_lane_drain(stress->lanes[lane]);
        pthread_join(follower, NULL);
        atomic_store(&stress->finished, 1);
        pthread_join(watcher, NULL);
        assert_int_equal(atomic_load(&stress->wrong), 0);
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(stress->jobs[i].ran, 1);
        for (int lane = 0; lane < LANES; lane++)
            ah_lane_free(stress->lanes[lane]);
        ah_lane_bell_free(stress->bell);
        free(stress);
    }
}
