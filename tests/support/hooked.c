/* SPDX-License-Identifier: Apache-2.0
 *
 * 1. Ticket n of a lane is ticket PARTS * n of the inner lane.
 * 2. A place in `places` is free before it is reused, because a lane's queue has room for fewer ops than PLACES.
 */
#include "tests/support/hooked.h"

#include <stdlib.h>

enum { PARTS = 3, PLACES = 1024, QUEUE = 512 * PARTS };

struct place {
    struct hooked_device *device;
    struct hooked_op seen;
    struct ah_op op;
};

struct hooked_device {
    struct ah_device common; /* must be first, because callers have a pointer to it */
    struct ah_device *inner; /* owned */
    struct hooked_hooks hooks;
    unsigned char *arenas[AH_ARENA_KINDS];
    uint64_t tickets[AH_DEVICE_LANES_ALL]; /* number of tickets given out, by lane */
    struct place places[AH_DEVICE_LANES_ALL][PLACES];
};

static struct hooked_hooks hooks_of_next;

void hooked_set(const struct hooked_hooks *hooks)
{
    hooks_of_next = *hooks;
}

static struct hooked_device *hooked_of(struct ah_device *device)
{
    return (struct hooked_device *)device;
}

static int call_before(void *context, struct ah_error *err)
{
    const struct place *place = context;
    const struct hooked_hooks *hooks = &place->device->hooks;
    if (hooks->before)
        hooks->before(hooks->context, &place->seen);
    return hooks->fail ? hooks->fail(hooks->context, &place->seen, err) : AH_OK;
}

static int call_after(void *context, struct ah_error *err)
{
    const struct place *place = context;
    (void)err;
    if (place->device->hooks.after)
        place->device->hooks.after(place->device->hooks.context, &place->seen);
    return AH_OK;
}

static int submit_op(struct hooked_device *device, const struct ah_submission *it, struct ah_error *err)
{
    uint64_t ticket = ++device->tickets[it->lane];
    struct place *place = &device->places[it->lane][ticket % PLACES];
    struct ah_wait waits[AH_DEVICE_WAITS_MAX];
    *place = (struct place){device, {it->lane, ticket, it->tag, &place->op, device->arenas}, *it->op};
    for (uint32_t w = 0; w < it->n_waits; w++)
        waits[w] = (struct ah_wait){it->waits[w].lane, PARTS * it->waits[w].ticket};
    const struct ah_op before = {.kind = AH_OP_CALL, .u.call = {call_before, place}};
    const struct ah_op after = {.kind = AH_OP_CALL, .u.call = {call_after, place}};
    const struct ah_submission parts[PARTS] = {
        {.lane = it->lane, .n_waits = it->n_waits, .waits = waits, .op = &before, .tag = it->tag},
        {.lane = it->lane, .op = it->op, .tag = it->tag},
        {.lane = it->lane, .op = &after, .tag = it->tag}};
    if (device->hooks.submit)
        device->hooks.submit(device->hooks.context, &place->seen);
    return device->inner->driver->submit(device->inner, parts, PARTS, err);
}

static int hooked_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                         struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = submit_op(hooked_of(device), &submissions[i], err);
    return rc;
}

static int hooked_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    struct ah_device *inner = hooked_of(device)->inner;
    return inner->driver->wait(inner, lane, PARTS * ticket, err);
}

static int hooked_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                           struct ah_error *err)
{
    struct ah_device *inner = hooked_of(device)->inner;
    struct ah_wait of_inner[AH_DEVICE_LANES_MAX];
    for (size_t i = 0; i < n; i++)
        of_inner[i] = (struct ah_wait){waits[i].lane, PARTS * waits[i].ticket};
    return inner->driver->wait_any(inner, of_inner, n, ret_met, err);
}

static uint64_t hooked_done(struct ah_device *device, uint32_t lane)
{
    struct ah_device *inner = hooked_of(device)->inner;
    return inner->driver->done(inner, lane) / PARTS;
}

/* Returns spans of ops. An op is left out if the inner device no longer has the spans of all its parts. */
static size_t hooked_spans(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                           size_t max)
{
    struct ah_device *inner = hooked_of(device)->inner;
    struct ah_span parts[PARTS];
    size_t n = 0;
    while (n < max && inner->driver->spans(inner, lane, PARTS * after, parts, PARTS) == PARTS) {
        bool whole = parts[0].ticket % PARTS == 1;
        after = (parts[0].ticket + PARTS - 2) / PARTS + (whole ? 1 : 0);
        if (whole)
            ret_spans[n++] = (struct ah_span){
                after, parts[0].tag, parts[0].ready_ns, parts[0].start_ns, parts[PARTS - 1].end_ns, 0};
    }
    return n;
}

/* Returns the inner device's pulse, which shows the same progress. */
static uint64_t hooked_pulse(struct ah_device *device)
{
    struct ah_device *inner = hooked_of(device)->inner;
    return inner->driver->pulse(inner);
}

static void hooked_head(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head)
{
    struct ah_device *inner = hooked_of(device)->inner;
    inner->driver->head(inner, lane, ret_head);
}

static void hooked_drain(struct ah_device *device)
{
    struct ah_device *inner = hooked_of(device)->inner;
    inner->driver->drain(inner);
}

static void hooked_close(struct ah_device *device)
{
    ah_device_close(hooked_of(device)->inner);
    free(device);
}

static int hooked_open(struct ah_device **ret_device, const struct ah_device_options *options,
                       struct ah_error *err)
{
    struct ah_device_options of_inner = *options;
    struct hooked_device *device = calloc(1, sizeof *device);
    if (!device)
        return ah_error_memory(err);
    of_inner.watch = (struct ah_device_watch){0};
    of_inner.queue = QUEUE;
    of_inner.spans = PARTS * (options->spans ? options->spans : 1024);
    int rc = ah_device_open(&device->inner, ah_device_cpu(), &of_inner, err);
    if (rc) {
        free(device);
        return rc;
    }
    device->hooks = hooks_of_next;
    device->common.driver = hooked_driver();
    device->common.info = device->inner->info;
    *ret_device = &device->common;
    return AH_OK;
}

static int hooked_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    int rc = ah_device_prepare(hooked_of(device)->inner, ops, n, err);
    device->reserve_bytes = hooked_of(device)->inner->reserve_bytes;
    return rc;
}

static int hooked_reserve(struct ah_device *common, const uint64_t arena_bytes[AH_ARENA_KINDS],
                          struct ah_error *err)
{
    struct hooked_device *device = hooked_of(common);
    int rc = ah_device_reserve(device->inner, arena_bytes, err);
    for (unsigned arena = AH_ARENA_DEVICE; arena < AH_ARENA_KINDS && !rc; arena++)
        device->arenas[arena] = ah_device_pointer(device->inner, (struct ah_ref){.arena = arena});
    return rc;
}

static void *hooked_address(struct ah_device *device, enum ah_arena_kind arena)
{
    return hooked_of(device)->arenas[arena];
}

const struct ah_device_driver *hooked_driver(void)
{
    static const struct ah_device_driver driver = {
        .abi = AH_DEVICE_ABI,
        .layout = AH_DEVICE_LAYOUT,
        .name = "hooked",
        .messages = true,
        .open = hooked_open,
        .close = hooked_close,
        .prepare = hooked_prepare,
        .reserve = hooked_reserve,
        .submit = hooked_submit,
        .wait = hooked_wait,
        .wait_any = hooked_wait_any,
        .done = hooked_done,
        .spans = hooked_spans,
        .pulse = hooked_pulse,
        .head = hooked_head,
        .drain = hooked_drain,
        .address = hooked_address,
    };
    return &driver;
}
