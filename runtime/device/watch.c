/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches a device for stalls (watch.h). The watching thread is a lane with one job (base/lane.h). `stopping` changes
 * under the mutex.
 */
#include "runtime/device/watch.h"

#include "base/threads.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    LOOKS = 16,
    DEFERS = 4,
    LOOK_MOST_NS = 1000 * 1000 * 1000,
    LOOK_LEAST_NS = 1000 * 1000,
    NAME_MAX_BYTES = 96
};

struct ah_device_watcher {
    struct ah_device *device; /* borrowed */
    struct ah_device_watch watch;
    struct ah_lane *thread; /* owned */
    uint64_t patience_ns, look_ns;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool stopping;
};

/* ---- the sentence ---- */

struct sentence {
    char text[AH_ERROR_TEXT_MAX];
    size_t used;
};

AH_PRINTF(2, 3) static void say(struct sentence *sentence, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(sentence->text + sentence->used, sizeof sentence->text - sentence->used, format, args);
    va_end(args);
    if (n > 0)
        sentence->used += (size_t)n;
    if (sentence->used >= sizeof sentence->text)
        sentence->used = sizeof sentence->text - 1;
}

static void say_what_waits(struct sentence *sentence, uint64_t what)
{
    const unsigned long long number = what & ((UINT64_C(1) << 48) - 1);
    const char *lane = ah_device_lane_name((uint32_t)(what >> 48 & 255));
    switch ((enum ah_device_waiting)(what >> 56)) {
    case AH_WAITING_FOR_TICKET:
        say(sentence, "waits for op %llu of lane '%s'", number, lane);
        break;
    case AH_WAITING_FOR_ANY:
        say(sentence, "waits for any of %llu ops", number);
        break;
    case AH_WAITING_TO_SUBMIT:
        say(sentence, "submits %llu op%s", number, number == 1 ? "" : "s");
        break;
    case AH_WAITING_TO_RECORD:
        say(sentence, "waits for all lanes, to record the hardware");
        break;
    case AH_WAITING_TO_WARM:
        say(sentence, "tries op '%s' on zeros", ah_op_name((enum ah_op_kind)number));
        break;
    case AH_WAITING_TO_CLOSE:
        say(sentence, "waits for all lanes, to close the device");
        break;
    }
}

/* Prints the unmet waits of `head`, given the `done` of every lane in `heads`. Returns true if there are any. */
static bool say_waits(struct sentence *sentence, const struct ah_device_head *head,
                      const struct ah_device_head heads[AH_DEVICE_LANES_ALL])
{
    bool any = false;
    for (uint32_t i = 0; i < head->n_waits; i++) {
        const struct ah_wait *wait = &head->waits[i];
        if (heads[wait->lane].done >= wait->ticket)
            continue;
        say(sentence, "%s op %llu of %s", any ? " and" : " waits for", (unsigned long long)wait->ticket,
            ah_device_lane_name(wait->lane));
        any = true;
    }
    return any;
}

static void say_lane(struct sentence *sentence, const struct ah_device_watch *watch, uint32_t lane,
                     const struct ah_device_head heads[AH_DEVICE_LANES_ALL])
{
    const struct ah_device_head *head = &heads[lane];
    const unsigned long long done = head->done, submitted = head->submitted;
    char name[NAME_MAX_BYTES] = "";
    say(sentence, "; %s: %llu of %llu done", ah_device_lane_name(lane), done, submitted);
    if (head->any && watch->name)
        watch->name(watch->name_context, head->tag, name, sizeof name);
    if (head->any) {
        say(sentence, ", op %llu '%s'%s%s", done + 1, ah_op_name(head->kind), name[0] ? " of " : "", name);
        if (!say_waits(sentence, head, heads))
            say(sentence, " has started but not finished");
    }
    if (head->note)
        say(sentence, "%s%s", head->any ? ": " : ", ", head->note);
}

static void say_other_waits(struct sentence *sentence, const struct ah_device_watch *watch)
{
    char text[AH_ERROR_TEXT_MAX / 2] = "";
    if (watch->other_waits)
        (void)watch->other_waits(watch->name_context, text, sizeof text);
    if (text[0])
        say(sentence, "; %s", text);
}

static void print_stall(const struct ah_device_watcher *watcher, struct ah_error *ret_why)
{
    struct ah_device *device = watcher->device;
    struct ah_device_head heads[AH_DEVICE_LANES_ALL] = {{0}};
    struct sentence sentence = {{0}, 0};
    for (uint32_t lane = 0; lane < device->lanes; lane++)
        device->driver->head(device, lane, &heads[lane]);
    say(&sentence, "device '%s' has completed nothing for %.3g s, while the program ", device->driver->name,
        watcher->watch.patience_s);
    say_what_waits(&sentence, __atomic_load_n(&device->wait_what, __ATOMIC_RELAXED));
    say_other_waits(&sentence, &watcher->watch);
    for (uint32_t lane = 0; lane < device->lanes; lane++)
        say_lane(&sentence, &watcher->watch, lane, heads);
    (void)ah_error_set(ret_why, AH_E_STALLED, "%s", sentence.text);
}

/* ---- the thread ---- */

/* Sleeps until the next look; returns false if the watch ends. */
static bool sleep_on(struct ah_device_watcher *watcher, uint64_t until_ns)
{
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&watcher->mutex);
    int rc = 0;
    while (!watcher->stopping && !rc)
        rc = pthread_cond_timedwait(&watcher->stop, &watcher->mutex, &until);
    bool is_running = !watcher->stopping;
    pthread_mutex_unlock(&watcher->mutex);
    return is_running;
}

struct look {
    uint64_t waited, pulse;
    bool waiting;
};

static struct look look_at(struct ah_device *device, const struct ah_device_watch *watch)
{
    struct look now = {.waiting = __atomic_load_n(&device->waiting, __ATOMIC_ACQUIRE) > 0};
    now.waited = __atomic_load_n(&device->waited, __ATOMIC_RELAXED);
    now.pulse = now.waiting ? device->driver->pulse(device) : 0;
    now.pulse += now.waiting && watch->pulse ? watch->pulse(watch->name_context) : 0;
    return now;
}

/* True if an op of the device's own lanes has begun. The host lane is left out, as its op may wait for ranks. */
static bool has_begun(struct ah_device *device)
{
    struct ah_device_head heads[AH_DEVICE_LANES_ALL] = {{0}};
    struct sentence unused = {{0}, 0};
    for (uint32_t lane = 0; lane < device->lanes; lane++)
        device->driver->head(device, lane, &heads[lane]);
    for (uint32_t lane = 0; lane < AH_LANE_HOST; lane++)
        if (heads[lane].any && !say_waits(&unused, &heads[lane], heads))
            return true;
    return false;
}

/* True if the program waits for other ranks, which know the cause better and may report first. */
static bool waits_for_ranks(const struct ah_device_watcher *watcher)
{
    char text[AH_ERROR_TEXT_MAX / 2];
    if (has_begun(watcher->device))
        return false;
    return watcher->watch.other_waits &&
           watcher->watch.other_waits(watcher->watch.name_context, text, sizeof text);
}

static void run_watch(void *payload)
{
    struct ah_device_watcher *watcher = *(struct ah_device_watcher **)payload;
    struct look last = {0};
    uint64_t still_ns = 0, last_ns = ah_threads_now_ns();
    while (still_ns < watcher->patience_ns ||
           (still_ns < watcher->patience_ns + watcher->patience_ns / DEFERS && waits_for_ranks(watcher))) {
        if (!sleep_on(watcher, last_ns + watcher->look_ns))
            return;
        const uint64_t now_ns = ah_threads_now_ns(), passed_ns = now_ns - last_ns;
        const struct look now = look_at(watcher->device, &watcher->watch);
        const bool still =
            now.waiting && last.waiting && now.waited == last.waited && now.pulse == last.pulse;
        if (!still)
            still_ns = 0;
        else
            still_ns += passed_ns < 2 * watcher->look_ns ? passed_ns : 2 * watcher->look_ns;
        last = now;
        last_ns = now_ns;
    }
    struct ah_error why = {0};
    print_stall(watcher, &why);
    watcher->watch.stalled(watcher->watch.context, &why);
}

static void free_watcher(struct ah_device_watcher *watcher)
{
    ah_lane_free(watcher->thread);
    pthread_cond_destroy(&watcher->stop);
    pthread_mutex_destroy(&watcher->mutex);
    free(watcher);
}

static struct ah_device_watcher *new_watcher(struct ah_device *device, const struct ah_device_watch *asked)
{
    struct ah_device_watcher *watcher = calloc(1, sizeof *watcher);
    pthread_condattr_t attributes;
    if (!watcher)
        return NULL;
    pthread_mutex_init(&watcher->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watcher->stop, &attributes);
    pthread_condattr_destroy(&attributes);
    watcher->device = device;
    watcher->watch = *asked;
    watcher->patience_ns = (uint64_t)(asked->patience_s * 1e9);
    const uint64_t look_ns = watcher->patience_ns / LOOKS;
    watcher->look_ns = look_ns < LOOK_LEAST_NS  ? LOOK_LEAST_NS
                       : look_ns > LOOK_MOST_NS ? LOOK_MOST_NS
                                                : look_ns;
    return watcher;
}

int ah_device_watcher_new(struct ah_device *device, const struct ah_device_watch *asked, struct ah_error *err)
{
    enum { PATIENCE_MOST_S = 1000 * 1000 * 1000 };
    const struct ah_lane_options thread = {.name = "watch", .cpu = -1, .queue = 1, .spans = 1};
    if (asked->patience_s == 0 || !asked->stalled || !device->driver->head)
        return AH_OK;
    if (!(asked->patience_s > 0 && asked->patience_s <= PATIENCE_MOST_S))
        return ah_error_set(err, AH_E_USAGE,
                            "the time limit for a stalled device is %g s; give 0 (forever) "
                            "to %d s",
                            asked->patience_s, PATIENCE_MOST_S);
    struct ah_device_watcher *watcher = new_watcher(device, asked);
    if (!watcher)
        return ah_error_memory(err);
    int rc = ah_lane_new(&watcher->thread, &thread, err);
    if (rc) {
        free_watcher(watcher);
        return rc;
    }
    const struct ah_lane_job job = {.run = run_watch, .payload = &watcher, .payload_bytes = sizeof(void *)};
    device->watcher = watcher;
    (void)ah_lane_submit(watcher->thread, &job, NULL);
    return AH_OK;
}

void ah_device_watcher_free(struct ah_device *device)
{
    struct ah_device_watcher *watcher = device->watcher;
    if (!watcher)
        return;
    pthread_mutex_lock(&watcher->mutex);
    watcher->stopping = true;
    pthread_cond_signal(&watcher->stop);
    pthread_mutex_unlock(&watcher->mutex);
    device->watcher = NULL;
    free_watcher(watcher);
}
