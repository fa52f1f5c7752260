/* SPDX-License-Identifier: Apache-2.0
 *
 * Beats: tell each rank's watch (runtime/device/watch.h) whether any rank makes progress. A rank whose neighbour
 * computes for minutes is not stalled, but its own counters do not show that.
 *
 * When asked, a thread of each rank reports its device's progress to rank 0, and gets the sum over all ranks. A changed
 * sum means that some rank makes progress. A rank also counts as making progress if its program works outside the
 * device and waits for nobody. If a rank does not answer, the beats of all ranks stop, and so does the sum. A beat also
 * tells people what the rank is doing (whereabouts.c). A single trainer has the thread only if options.tells is set.
 */
#include "base/lane.h"
#include "base/threads.h"
#include "runtime/train/trainer_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { BEATS = 16, BEAT_MOST_NS = 1000 * 1000 * 1000, UNDER_WAY_MAX = 64 };

struct beats {
    struct ah_trainer *t;        /* borrowed */
    struct ah_lane *lane;        /* owned */
    struct ah_trainer_beat *at;  /* rank 0, owned: the latest beat of each rank */
    struct ah_trainer_beat last; /* the latest beat of this rank */
    uint64_t last_since_ns;      /* when this rank began to wait for the message of `last` */
    uint64_t period_ns, ticks, beaten;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool stopping; /* rank 0: tells the thread to end; guarded by the mutex */
};

struct beat {
    uint64_t pulse;
    bool over;
    struct ah_trainer_beat at;
};

_Static_assert(sizeof(struct beat) == AH_LINKS_BEAT_BYTES, "what the channels carry");

/* True if the program itself, rather than its device, waits for a report or an order of another rank. */
static bool waits_for_word(const struct ah_trainer *t)
{
    struct ah_comm_under_way messages[UNDER_WAY_MAX];
    if (!ah_ranks_several(&t->ranks))
        return false;
    const size_t n = ah_comm_under_way(t->options.rank->comm, messages, UNDER_WAY_MAX);
    for (size_t i = 0; i < n; i++)
        if (messages[i].channel.purpose == AH_LINKS_UP || messages[i].channel.purpose == AH_LINKS_DOWN)
            return true;
    return false;
}

static uint64_t own_pulse(struct beats *beats)
{
    struct ah_device *device = beats->t->device;
    if (!__atomic_load_n(&device->waiting, __ATOMIC_ACQUIRE) && !waits_for_word(beats->t))
        beats->ticks++;
    return beats->ticks + (device->driver->pulse ? device->driver->pulse(device) : 0);
}

static bool same_wait(const struct ah_trainer_beat *a, const struct ah_trainer_beat *b)
{
    return a->waits && b->waits && a->step == b->step && a->peer == b->peer && a->purpose == b->purpose &&
           a->sends == b->sends && a->message == b->message;
}

static struct ah_trainer_beat whereabouts(struct beats *beats)
{
    const uint64_t now_ns = ah_threads_now_ns();
    struct ah_trainer_beat at;
    ah_whereabouts_read(beats->t, &at);
    if (!same_wait(&at, &beats->last))
        beats->last_since_ns = now_ns;
    beats->last = at;
    at.waits_ns = now_ns - beats->last_since_ns;
    return at;
}

/* Sleeps until the next beat. Returns false if beats must end. */
static bool sleep_on(struct beats *beats)
{
    const uint64_t until_ns = ah_threads_now_ns() + beats->period_ns;
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&beats->mutex);
    int rc = 0;
    while (!beats->stopping && !rc)
        rc = pthread_cond_timedwait(&beats->stop, &beats->mutex, &until);
    const bool is_running = !beats->stopping;
    pthread_mutex_unlock(&beats->mutex);
    return is_running;
}

/* Exchanges a beat's message. Reports whom it asks first, so the last rank reported is the one that does not answer. */
static int exchange(const struct ah_trainer *t, uint32_t rank, uint32_t channel, struct beat *beat)
{
    if (t->options.asked)
        t->options.asked(t->options.heard_context, rank);
    return ah_links_move(t->ranks.links, channel, beat, sizeof *beat, NULL);
}

/* Does one beat of rank 0 and sends the sum of the previous beat. The first beat comes without a pause. */
static int lead(struct beats *beats, struct beat *beat)
{
    const struct ah_trainer *t = beats->t;
    const uint32_t ranks = t->options.rank ? t->options.rank->ranks : 1;
    int rc = AH_OK;
    beat->over = beats->beaten++ && !sleep_on(beats);
    for (uint32_t rank = 1; rank < ranks && !rc; rank++)
        rc = exchange(t, rank, t->ranks.links->beat[rank].down, beat);
    beat->pulse = own_pulse(beats);
    beats->at[0] = whereabouts(beats);
    for (uint32_t rank = 1; rank < ranks && !rc; rank++) {
        struct beat one;
        rc = exchange(t, rank, t->ranks.links->beat[rank].up, &one);
        beat->pulse += rc ? 0 : one.pulse;
        beats->at[rank] = rc ? beats->at[rank] : one.at;
    }
    if (!rc && t->options.heard)
        t->options.heard(t->options.heard_context, beats->at, ranks);
    return rc;
}

/* Does one beat of another rank. It waits until rank 0 asks, so that all ranks report the same moment. */
static int answer_beat(struct beats *beats, struct beat *beat)
{
    const struct ah_links *links = beats->t->ranks.links;
    int rc = ah_links_move(links, links->beat[0].down, beat, sizeof *beat, NULL);
    struct beat own = {.pulse = own_pulse(beats), .at = whereabouts(beats)};
    return rc ? rc : ah_links_move(links, links->beat[0].up, &own, sizeof own, NULL);
}

static bool leads(const struct ah_trainer *t)
{
    return !t->options.rank || !t->options.rank->rank;
}

static void run_beats(void *payload)
{
    struct beats *beats = *(struct beats **)payload;
    struct beat beat = {0};
    while (!beat.over && !(leads(beats->t) ? lead(beats, &beat) : answer_beat(beats, &beat)))
        __atomic_store_n(&beats->t->ranks.heard, beat.pulse, __ATOMIC_RELAXED);
}

static void free_beats(struct beats *beats)
{
    ah_lane_free(beats->lane);
    pthread_cond_destroy(&beats->stop);
    pthread_mutex_destroy(&beats->mutex);
    free(beats->at);
    free(beats);
}

static struct beats *new_beats(struct ah_trainer *t)
{
    struct beats *beats = calloc(1, sizeof *beats);
    pthread_condattr_t attributes;
    if (!beats)
        return NULL;
    beats->at = calloc(t->options.rank ? t->options.rank->ranks : 1, sizeof *beats->at);
    if (!beats->at) {
        free(beats);
        return NULL;
    }
    pthread_mutex_init(&beats->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&beats->stop, &attributes);
    pthread_condattr_destroy(&attributes);
    const double period_ns = t->options.device.watch.patience_s * 1e9 / BEATS;
    beats->t = t;
    beats->period_ns = period_ns > 0 && period_ns < BEAT_MOST_NS ? (uint64_t)period_ns : BEAT_MOST_NS;
    return beats;
}

int ah_beats_start(struct ah_trainer *t, struct ah_error *err)
{
    const struct ah_lane_options options = {.name = "beats", .cpu = -1, .queue = 1, .spans = 1};
    const bool watched = ah_ranks_several(&t->ranks) && t->options.device.watch.patience_s > 0;
    if (!watched && !t->options.tells) /* all ranks decide the same */
        return AH_OK;
    struct beats *beats = new_beats(t);
    if (!beats)
        return ah_error_memory(err);
    int rc = ah_lane_new(&beats->lane, &options, err);
    if (rc) {
        free_beats(beats);
        return rc;
    }
    const struct ah_lane_job job = {.run = run_beats, .payload = &beats, .payload_bytes = sizeof(void *)};
    t->ranks.beats = beats;
    (void)ah_lane_submit(beats->lane, &job, NULL);
    return AH_OK;
}

void ah_beats_stop(struct ah_trainer *t)
{
    struct beats *beats = t->ranks.beats;
    if (!beats)
        return;
    pthread_mutex_lock(&beats->mutex);
    beats->stopping = true;
    pthread_cond_signal(&beats->stop);
    pthread_mutex_unlock(&beats->mutex);
    free_beats(beats);
    t->ranks.beats = NULL;
}
