/* SPDX-License-Identifier: Apache-2.0
 *
 * First contact with a GPU: checks that need no training. scripts/gpu-check runs this program.
 *
 *     bench_contact about              the device, its memory, the library that multiplies; then whether it works
 *     bench_contact pin BYTES          lock BYTES of the host's memory, and copy 64 MiB from it and to it
 *     bench_contact queue [SECONDS]    fill every lane behind a host op that does not end, look at the lanes, let
 *                                      it end; after SECONDS (15) a watchdog prints what each lane submitted and did
 *
 * Prints lines of JSON: "ok", and "why" if not. Exit status 1: not ok.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "runtime/device/device_plugin.h"
#include "runtime/device/tryout.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB UINT64_C(1048576)

enum { COPIES = 8, LOOKS = 200, SUBMISSIONS = 400, WATCHDOG_S = 15 };

static const uint64_t COPY_BYTES = 64 * MIB, STILL_NS = 300000000;

/* Prints the error as JSON. Characters that would end the string are replaced. */
static int refuse(struct ah_error *err)
{
    for (char *at = err->text; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
            *at = '\'';
    printf("{\"ok\": false, \"why\": \"%s\"}\n", err->text);
    return 1;
}

static int open_device(struct ah_device **ret_device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                       struct ah_error *err)
{
    const struct ah_device_driver *driver = NULL;
    const struct ah_op fill = {
        .kind = AH_OP_FILL, .arg = {{AH_ARENA_DEVICE, AH_FP32, 0, 0}}, .u.elements = {1025, 0, 0}};
    int rc = ah_plugin_load("cuda", &driver, err);
    rc = rc ? rc : ah_device_open(ret_device, driver, &(struct ah_device_options){.queue = 1024}, err);
    rc = rc || !arena_bytes ? rc : ah_device_prepare(*ret_device, &fill, 1, err);
    return rc || !arena_bytes ? rc : ah_device_reserve(*ret_device, arena_bytes, err);
}

/* Prints two lines, so the device is described even if trying to use it fails. */
static int about(void)
{
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    char products[AH_TRYOUT_TEXT_MAX];
    int rc = open_device(&device, NULL, &err);
    if (rc)
        return refuse(&err);
    printf("{\"ok\": true, \"device\": \"%s\", \"memory_bytes\": %llu, \"free_bytes\": %llu, \"library\": "
           "\"%s\", \"address\": \"%s\"}\n",
           device->info.name, (unsigned long long)device->info.memory_bytes,
           (unsigned long long)device->info.free_bytes, device->info.library, device->info.address);
    fflush(stdout);
    rc = ah_device_tryout(device, &err);
    if (!rc)
        printf("{\"ok\": true, \"beside_bytes\": %llu, \"products\": \"%s\"}\n",
               (unsigned long long)device->info.outside_bytes,
               ah_device_print_products(&device->info, products));
    ah_device_close(device);
    return rc ? refuse(&err) : 0;
}

/* Measures the bytes per second of copies in one direction: the median over copies at both ends of the pinned arena. */
static int copy_rate(struct ah_device *device, uint32_t lane, uint64_t pinned_bytes, double *ret_rate,
                     struct ah_error *err)
{
    struct ah_span spans[COPIES];
    double rates[COPIES];
    const uint64_t bytes = pinned_bytes < COPY_BYTES ? pinned_bytes : COPY_BYTES;
    int rc = AH_OK;
    for (unsigned i = 0; i < COPIES && !rc; i++) {
        const struct ah_ref there = {AH_ARENA_DEVICE, AH_FP32, 0, 0};
        const struct ah_ref here = {AH_ARENA_PINNED, AH_FP32, i % 2 ? pinned_bytes - bytes : 0, 0};
        const bool up = lane == AH_LANE_H2D;
        const struct ah_op op = {
            .kind = AH_OP_COPY, .arg = {up ? there : here, up ? here : there}, .u.copy = {bytes}};
        rc = ah_device_submit(device, &(struct ah_submission){.lane = lane, .op = &op}, 1, NULL, err);
    }
    rc = rc ? rc : ah_device_drain(device, err);
    if (rc)
        return rc;
    struct ah_span_reader reader = {.lane = lane};
    const size_t n = ah_device_spans(device, &reader, spans, COPIES);
    for (size_t i = 0; i < n; i++)
        rates[i] = (double)bytes * 1e9 / (double)(spans[i].end_ns - spans[i].start_ns);
    *ret_rate = ah_stats_of(rates, n).median;
    return AH_OK;
}

static int pin(const char *text)
{
    const uint64_t bytes = strtoull(text, NULL, 10);
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, COPY_BYTES, bytes, 4096};
    struct ah_error err = {0};
    struct ah_device *device = NULL;
    double up = 0, down = 0;
    int rc = open_device(&device, NULL, &err);
    const uint64_t opened_ns = ah_threads_now_ns();
    rc = rc ? rc : ah_device_reserve(device, arena_bytes, &err);
    const uint64_t reserved_ns = ah_threads_now_ns();
    rc = rc ? rc : copy_rate(device, AH_LANE_H2D, bytes, &up, &err);
    rc = rc ? rc : copy_rate(device, AH_LANE_D2H, bytes, &down, &err);
    const uint64_t copied_ns = ah_threads_now_ns();
    const uint64_t locked_bytes = device ? device->info.locked_bytes : 0;
    ah_device_close(device);
    if (rc)
        return refuse(&err);
    printf("{\"ok\": true, \"locked_bytes\": %llu, \"reserve_s\": %.3f, \"close_s\": %.3f, \"h2d_gb_per_s\": "
           "%.2f, \"d2h_gb_per_s\": %.2f}\n",
           (unsigned long long)locked_bytes, (double)(reserved_ns - opened_ns) / 1e9,
           (double)(ah_threads_now_ns() - copied_ns) / 1e9, up / 1e9, down / 1e9);
    return 0;
}

struct contact {
    struct ah_device *device;
    atomic_bool opened; /* the device is open */
    atomic_bool gate;   /* when open, the host's op may end */
    atomic_int rc;      /* result of the submitting thread */
    struct ah_error err;
    double seconds;
};

static int pass_gate(void *context, struct ah_error *err)
{
    struct contact *contact = context;
    (void)err;
    while (!atomic_load(&contact->gate))
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 1000000);
    return AH_OK;
}

static void print_lanes(const struct contact *contact, const char *what)
{
    printf("%s", what);
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES; lane++)
        printf("%s%s %llu submitted, %llu done", lane ? "; " : "", ah_device_lane_name(lane),
               (unsigned long long)ah_device_submitted(contact->device, lane),
               (unsigned long long)ah_device_done(contact->device, lane));
}

static void *watch(void *context)
{
    struct contact *contact = context;
    ah_threads_sleep_until_ns(ah_threads_now_ns() + (uint64_t)(contact->seconds * 1e9));
    printf("{\"ok\": false, \"why\": \"hangs: after %.1f s the device is %s, the gate is %s",
           contact->seconds, atomic_load(&contact->opened) ? "open" : "not open yet",
           atomic_load(&contact->gate) ? "open" : "closed");
    /* Counts the submitted ops without asking the driver, because the driver may also hang. */
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES && atomic_load(&contact->opened); lane++)
        printf("; %s %llu submitted", ah_device_lane_name(lane),
               (unsigned long long)ah_device_submitted(contact->device, lane));
    printf("\"}\n");
    (void)fflush(stdout);
    _exit(1);
}

/* Submits a copy up, a fill and a copy down. Each waits for the op before it and for the host's op. */
static int submit_round(const struct contact *contact, uint64_t i, struct ah_error *err)
{
    const struct ah_ref there = {AH_ARENA_DEVICE, AH_FP32, 0, 0}, here = {AH_ARENA_PINNED, AH_FP32, 0, 0};
    const struct ah_op up = {.kind = AH_OP_COPY, .arg = {there, here}, .u.copy = {4096}};
    const struct ah_op fill = {.kind = AH_OP_FILL, .arg = {there}, .u.elements = {1025, (float)i, 0}};
    const struct ah_op down = {.kind = AH_OP_COPY, .arg = {here, there}, .u.copy = {4096}};
    const struct ah_wait host = {AH_LANE_HOST, 1};
    const struct ah_wait after_up[] = {{AH_LANE_H2D, i}, host}, after_fill[] = {{AH_LANE_COMPUTE, i}, host};
    const struct ah_wait after_down[] = {{AH_LANE_D2H, i - 1}, host};
    const struct ah_submission all[] = {
        {.lane = AH_LANE_H2D, .n_waits = 2, .waits = after_down, .op = &up},
        {.lane = AH_LANE_COMPUTE, .n_waits = 2, .waits = after_up, .op = &fill},
        {.lane = AH_LANE_D2H, .n_waits = 2, .waits = after_fill, .op = &down}};
    return ah_device_submit(contact->device, all, 3, NULL, err);
}

static void *submit_all(void *context)
{
    struct contact *contact = context;
    const struct ah_op call = {.kind = AH_OP_CALL, .u.call = {pass_gate, contact}};
    int rc = ah_device_submit(contact->device, &(struct ah_submission){.lane = AH_LANE_HOST, .op = &call}, 1,
                              NULL, &contact->err);
    for (uint64_t i = 1; i <= SUBMISSIONS && !rc; i++)
        rc = submit_round(contact, i, &contact->err);
    atomic_store(&contact->rc, rc);
    return NULL;
}

/* Waits until nothing more is submitted. Returns the number of ops in the lanes. */
static uint64_t wait_until_full(const struct contact *contact)
{
    uint64_t before = 0, now = 0, since_ns = ah_threads_now_ns();
    while (now != before || now == 0 || ah_threads_now_ns() - since_ns < STILL_NS) {
        since_ns = now != before || now == 0 ? ah_threads_now_ns() : since_ns;
        before = now;
        ah_threads_sleep_until_ns(ah_threads_now_ns() + 10000000);
        now = 0;
        for (uint32_t lane = 0; lane < AH_LANE_HOST; lane++)
            now += ah_device_submitted(contact->device, lane);
    }
    return now;
}

/* Returns the longest time of a query of a full lane. A query must not wait for the lane. */
static double look(const struct contact *contact)
{
    uint64_t longest_ns = 0;
    for (unsigned i = 0; i < LOOKS; i++) {
        const uint64_t begun_ns = ah_threads_now_ns();
        (void)ah_device_done(contact->device, i % AH_LANE_HOST);
        const uint64_t took_ns = ah_threads_now_ns() - begun_ns;
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
    }
    return (double)longest_ns / 1e3;
}

static int queue(double seconds)
{
    static const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, 4 * MIB, 4 * MIB, 4096};
    struct contact contact = {.seconds = seconds};
    pthread_t watchdog, submitter;
    if (pthread_create(&watchdog, NULL, watch, &contact))
        return 1;
    if (open_device(&contact.device, arena_bytes, &contact.err))
        return refuse(&contact.err);
    atomic_store(&contact.opened, true);
    if (pthread_create(&submitter, NULL, submit_all, &contact))
        return 1;
    const uint64_t held = wait_until_full(&contact);
    const double looked_us = look(&contact);
    const uint64_t opened_ns = ah_threads_now_ns();
    atomic_store(&contact.gate, true);
    pthread_join(submitter, NULL);
    int rc = atomic_load(&contact.rc);
    rc = rc ? rc : ah_device_drain(contact.device, &contact.err);
    if (rc)
        return refuse(&contact.err);
    printf("{\"ok\": true, \"held_ops\": %llu, \"longest_look_us\": %.1f, \"ops_per_s\": %.0f, ",
           (unsigned long long)held, looked_us,
           3.0 * SUBMISSIONS * 1e9 / (double)(ah_threads_now_ns() - opened_ns));
    print_lanes(&contact, "\"lanes\": \"");
    printf("\"}\n");
    ah_device_close(contact.device);
    return 0;
}

int main(int n, char **arguments)
{
    const char *what = n > 1 ? arguments[1] : "";
    if (strcmp(what, "about") == 0 && n == 2)
        return about();
    if (strcmp(what, "pin") == 0 && n == 3)
        return pin(arguments[2]);
    if (strcmp(what, "queue") == 0 && n <= 3)
        return queue(n == 3 ? strtod(arguments[2], NULL) : WATCHDOG_S);
    fprintf(stderr, "usage: bench_contact about | pin BYTES | queue [SECONDS]\n");
    return 2;
}
