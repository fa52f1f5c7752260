/* SPDX-License-Identifier: Apache-2.0
 *
 * What all devices share: the checks that do not depend on a driver, and a table with a row per lane. A row says which
 * ops a lane may run and which arenas they may use (device.h, REACH).
 */
#include "runtime/device/device.h"

#include "base/units.h"
#include "runtime/device/watch.h"

#include <string.h>

#define BIT(value) (1u << (value))

_Static_assert((int)AH_DEVICE_LANES_ALL <= (int)AH_DEVICE_LANES_MAX, "a device has room for every lane");
_Static_assert(AH_OP_KINDS <= 64, "info.supports holds every kind");

enum {
    DEVICE_SIDE = BIT(AH_ARENA_DEVICE),
    LINK_SIDE = BIT(AH_ARENA_PINNED),
    HOST_SIDE = BIT(AH_ARENA_PINNED) | BIT(AH_ARENA_PAGEABLE)
};

#define KIND(kind) (UINT64_C(1) << (kind))
#define EVERY_KIND (~(KIND(AH_OP_SEND) | KIND(AH_OP_RECEIVE)))
#define PRODUCTS   (KIND(AH_OP_MATMUL) | KIND(AH_OP_ATTENTION) | KIND(AH_OP_ATTENTION_BACKWARD))

/* What a lane may do: the arenas its ops may write, the arenas they may read, and the kinds of ops. */
struct lane_row {
    const char *name;
    uint32_t written;
    uint32_t read;
    uint64_t kinds;
};

static const struct lane_row lane_rows[AH_DEVICE_LANES_ALL] = {
    [AH_LANE_COMPUTE] = {"compute", DEVICE_SIDE, DEVICE_SIDE, EVERY_KIND & ~KIND(AH_OP_CALL)},
    [AH_LANE_H2D] = {"h2d", DEVICE_SIDE, LINK_SIDE, KIND(AH_OP_COPY)},
    [AH_LANE_D2H] = {"d2h", LINK_SIDE, DEVICE_SIDE, KIND(AH_OP_COPY)},
    [AH_LANE_HOST] = {"host", HOST_SIDE, HOST_SIDE, EVERY_KIND & ~PRODUCTS},
    [AH_LANE_SEND] = {"send", 0, DEVICE_SIDE, KIND(AH_OP_SEND)},
    [AH_LANE_RECEIVE_BEFORE] = {"receive_before", DEVICE_SIDE, 0, KIND(AH_OP_RECEIVE)},
    [AH_LANE_RECEIVE_BEHIND] = {"receive_behind", DEVICE_SIDE, 0, KIND(AH_OP_RECEIVE)},
    [AH_LANE_SUMS] = {"sums", DEVICE_SIDE | HOST_SIDE, DEVICE_SIDE | HOST_SIDE,
                      KIND(AH_OP_SEND) | KIND(AH_OP_RECEIVE) | KIND(AH_OP_COPY) | KIND(AH_OP_CAST) |
                          KIND(AH_OP_ACCUMULATE) | KIND(AH_OP_SUM_SQUARES)},
};

const char *const ah_words_product_form[] = {
    [AH_PRODUCT_FMA] = "fma", [AH_PRODUCT_DOT] = "dot", [AH_PRODUCT_AMX] = "amx"};

const char *ah_device_lane_name(uint32_t lane)
{
    return lane < AH_DEVICE_LANES_ALL ? lane_rows[lane].name : "?";
}

int ah_device_check_driver(const struct ah_device_driver *driver, const char *origin, struct ah_error *err)
{
    if (driver->abi != AH_DEVICE_ABI)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "driver '%s' has device interface %u, but this program has %d; install both from one build",
            origin, driver->abi, AH_DEVICE_ABI);
    if (driver->layout != AH_DEVICE_LAYOUT)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "driver '%s' has struct layout %08x, but this program has %08x; install both from one build",
            origin, driver->layout, AH_DEVICE_LAYOUT);
    return AH_OK;
}

int ah_device_open(struct ah_device **ret_device, const struct ah_device_driver *driver,
                   const struct ah_device_options *options, struct ah_error *err)
{
    int rc = ah_device_check_driver(driver, driver->name, err);
    if (rc)
        return rc;
    if (options->pace.begin && !driver->messages)
        return ah_error_set(err, AH_E_UNSUPPORTED, "device '%s' cannot be paced", driver->name);
    if (options->messages && !driver->messages)
        return ah_error_set(err, AH_E_UNSUPPORTED, "device '%s' has no lanes for messages to other ranks",
                            driver->name);
    struct ah_device *device;
    rc = driver->open(&device, options, err);
    if (rc)
        return rc;
    device->lanes = options->messages ? AH_DEVICE_LANES_ALL : AH_DEVICE_LANES;
    device->memory_bytes = options->memory_bytes;
    rc = ah_device_watcher_new(device, &options->watch, err);
    if (rc) {
        driver->close(device);
        return rc;
    }
    *ret_device = device;
    return AH_OK;
}

/* Checks that arena and reserve together fit the memory that the options allow. */
static int check_memory(const struct ah_device *device, uint64_t arena_bytes, struct ah_error *err)
{
    char arena[AH_UNITS_TEXT_MAX], reserve[AH_UNITS_TEXT_MAX], given[AH_UNITS_TEXT_MAX];
    uint64_t bytes;
    if (device->memory_bytes == 0)
        return AH_OK;
    if (!__builtin_add_overflow(arena_bytes, device->reserve_bytes, &bytes) && bytes <= device->memory_bytes)
        return AH_OK;
    return ah_error_set(
        err, AH_E_CAPACITY,
        "device '%s': an arena of %s plus %s for its ops exceed the %s of device memory given; plan for "
        "less, or give more",
        device->driver->name, ah_units_print_bytes(arena, arena_bytes),
        ah_units_print_bytes(reserve, device->reserve_bytes),
        ah_units_print_bytes(given, device->memory_bytes));
}

int ah_device_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                      struct ah_error *err)
{
    if (device->is_reserved)
        return ah_error_set(err, AH_E_USAGE, "device '%s': its arenas are already reserved",
                            device->driver->name);
    int rc = check_memory(device, arena_bytes[AH_ARENA_DEVICE], err);
    if (!rc)
        rc = device->driver->reserve(device, arena_bytes, err);
    if (rc)
        return rc;
    for (size_t i = AH_ARENA_DEVICE; i < AH_ARENA_KINDS; i++)
        device->arena_bytes[i] = arena_bytes[i];
    device->is_reserved = true;
    return AH_OK;
}

uint64_t ah_device_outside_bytes(const struct ah_device *device)
{
    const uint64_t measured = device->info.outside_bytes;
    return measured > device->reserve_bytes ? measured : device->reserve_bytes;
}

static int check_supported(const struct ah_device *device, const struct ah_op *op, struct ah_error *err)
{
    if ((unsigned)op->kind < AH_OP_KINDS && !device->info.supports[op->kind])
        return ah_error_set(err, AH_E_UNSUPPORTED, "device '%s' cannot do op '%s'", device->driver->name,
                            ah_op_name(op->kind));
    return AH_OK;
}

int ah_device_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct ah_operand operands[AH_OP_ARGS];
        int rc = ah_op_operands(&ops[i], operands, err);
        if (!rc)
            rc = check_supported(device, &ops[i], err);
        if (rc)
            return rc;
    }
    int rc = ah_device_drain(device, err);
    if (rc || !device->driver->prepare)
        return rc;
    rc = device->driver->prepare(device, ops, n, err);
    return rc ? rc : check_memory(device, device->arena_bytes[AH_ARENA_DEVICE], err);
}

int ah_device_algorithms(struct ah_device *device, const struct ah_op *product,
                         struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                         struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS];
    int rc = ah_op_operands(product, operands, err);
    if (!rc && product->kind != AH_OP_MATMUL)
        rc = ah_error_set(err, AH_E_USAGE, "op '%s' is not a matrix product and has no algorithms",
                          ah_op_name(product->kind));
    if (!rc)
        rc = check_supported(device, product, err);
    if (rc)
        return rc;
    *ret_n = 0;
    return device->driver->algorithms
               ? device->driver->algorithms(device, product, ret_algorithms, max, ret_n, err)
               : AH_OK;
}

static int check_lane(const struct ah_device *device, const struct ah_submission *submission,
                      struct ah_error *err)
{
    enum ah_op_kind kind = submission->op->kind;
    if (submission->lane >= device->lanes)
        return ah_error_set(err, AH_E_USAGE, "op '%s': there is no lane %u", ah_op_name(kind),
                            submission->lane);
    if (!(lane_rows[submission->lane].kinds & KIND(kind)))
        return ah_error_set(err, AH_E_USAGE, "op '%s' does not run on lane '%s'", ah_op_name(kind),
                            ah_device_lane_name(submission->lane));
    return AH_OK;
}

/* Checks kind and arenas of an op. Call it after ah_op_check(), so that ah_op_operands() cannot fail. */
static int check_reach(const struct ah_submission *submission, struct ah_error *err)
{
    const struct ah_op *op = submission->op;
    const struct lane_row *row = &lane_rows[submission->lane];
    struct ah_operand operands[AH_OP_ARGS];
    int rc = ah_op_operands(op, operands, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        uint32_t reach = operands[i].role == AH_ROLE_IN ? row->read : row->written;
        if (operands[i].role != AH_ROLE_NONE && !(reach & BIT(op->arg[i].arena)))
            return ah_error_set(err, AH_E_USAGE, "op '%s': lane '%s' cannot access the arena of '%s'",
                                ah_op_name(op->kind), row->name, operands[i].name);
    }
    return AH_OK;
}

uint64_t ah_device_submitted(const struct ah_device *device, uint32_t lane)
{
    return lane < device->lanes ? __atomic_load_n(&device->submitted[lane], __ATOMIC_ACQUIRE) : 0;
}

/* Checks the waits of a submission. `last`: each lane's last ticket before it. */
static int check_waits(const struct ah_device *device, const struct ah_submission *submission,
                       const uint64_t last[AH_DEVICE_LANES_ALL], struct ah_error *err)
{
    const char *op = ah_op_name(submission->op->kind);
    if (submission->n_waits > AH_DEVICE_WAITS_MAX)
        return ah_error_set(err, AH_E_USAGE, "op '%s': it has %u waits, but at most %d are possible", op,
                            submission->n_waits, AH_DEVICE_WAITS_MAX);
    for (uint32_t i = 0; i < submission->n_waits; i++) {
        struct ah_wait wait = submission->waits[i];
        if (wait.lane >= device->lanes || wait.ticket > last[wait.lane])
            return ah_error_set(err, AH_E_USAGE,
                                "op '%s': waits for ticket %llu of lane '%s', which was not submitted yet",
                                op, (unsigned long long)wait.ticket, ah_device_lane_name(wait.lane));
    }
    return AH_OK;
}

static int check_submission(const struct ah_device *device, const struct ah_submission *submission,
                            const uint64_t last[AH_DEVICE_LANES_ALL], struct ah_error *err)
{
    int rc = ah_op_check(submission->op, device->arena_bytes, err);
    if (!rc)
        rc = check_supported(device, submission->op, err);
    if (!rc)
        rc = check_lane(device, submission, err);
    if (!rc)
        rc = check_reach(submission, err);
    return rc ? rc : check_waits(device, submission, last, err);
}

/* Checks that an op that joins is followed by one of its lane and tag, without waits: the first records no end. */
static int check_joins(const struct ah_submission *submission, const struct ah_submission *next,
                       struct ah_error *err)
{
    if (!submission->joins ||
        (next && next->lane == submission->lane && next->tag == submission->tag && !next->n_waits))
        return AH_OK;
    return ah_error_set(
        err, AH_E_USAGE,
        "op '%s': must be followed by an op of the same lane and tag, without waits, that it can join",
        ah_op_name(submission->op->kind));
}

static void last_tickets(const struct ah_device *device, uint64_t ret_last[AH_DEVICE_LANES_ALL])
{
    for (uint32_t lane = 0; lane < device->lanes; lane++)
        ret_last[lane] = ah_device_submitted(device, lane);
}

int ah_device_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                     uint64_t *ret_tickets, struct ah_error *err)
{
    uint64_t last[AH_DEVICE_LANES_ALL];
    last_tickets(device, last);
    for (size_t i = 0; i < n; i++) {
        int rc = check_submission(device, &submissions[i], last, err);
        rc = rc ? rc : check_joins(&submissions[i], i + 1 < n ? &submissions[i + 1] : NULL, err);
        if (rc)
            return n == 1 ? rc : ah_error_prefix(err, rc, "submission %zu of %zu", i + 1, n);
        last[submissions[i].lane]++;
    }
    ah_device_watch_enter(device, AH_WAITING_TO_SUBMIT, 0, n);
    int rc = n ? device->driver->submit(device, submissions, n, err) : AH_OK;
    ah_device_watch_leave(device);
    if (rc)
        return rc;
    last_tickets(device, last);
    for (size_t i = 0; i < n; i++) {
        uint64_t ticket = ++last[submissions[i].lane];
        if (ret_tickets)
            ret_tickets[i] = ticket;
    }
    for (uint32_t lane = 0; lane < device->lanes; lane++)
        __atomic_store_n(&device->submitted[lane], last[lane], __ATOMIC_RELEASE);
    return AH_OK;
}

static int check_given(const struct ah_device *device, struct ah_wait wait, struct ah_error *err)
{
    if (wait.lane < device->lanes && wait.ticket <= ah_device_submitted(device, wait.lane))
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE, "ticket %llu of lane '%s' was never given",
                        (unsigned long long)wait.ticket, ah_device_lane_name(wait.lane));
}

static int wait_watched(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    ah_device_watch_enter(device, AH_WAITING_FOR_TICKET, lane, ticket);
    int rc = device->driver->wait(device, lane, ticket, err);
    ah_device_watch_leave(device);
    return rc;
}

int ah_device_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    int rc = check_given(device, (struct ah_wait){lane, ticket}, err);
    return rc ? rc : wait_watched(device, lane, ticket, err);
}

int ah_device_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                       struct ah_error *err)
{
    if (n == 0 || n > AH_DEVICE_LANES_MAX)
        return ah_error_set(err, AH_E_USAGE, "cannot wait for any of %zu tickets; 1 to %d are possible", n,
                            AH_DEVICE_LANES_MAX);
    for (size_t i = 0; i < n; i++) {
        int rc = check_given(device, waits[i], err);
        if (rc)
            return rc;
    }
    ah_device_watch_enter(device, AH_WAITING_FOR_ANY, waits[0].lane, n);
    int rc = device->driver->wait_any(device, waits, n, ret_met, err);
    ah_device_watch_leave(device);
    return rc;
}

int ah_device_drain(struct ah_device *device, struct ah_error *err)
{
    int first = AH_OK;
    for (uint32_t lane = 0; lane < device->lanes; lane++) {
        int rc = wait_watched(device, lane, ah_device_submitted(device, lane), first ? NULL : err);
        first = first ? first : rc;
    }
    return first;
}

struct ah_device_failed ah_device_failed(const struct ah_device *device)
{
    return device->failed;
}

size_t ah_device_spans(struct ah_device *device, struct ah_span_reader *reader, struct ah_span *ret_spans,
                       size_t max)
{
    if (reader->lane >= device->lanes || max == 0)
        return 0;
    size_t n = device->driver->spans(device, reader->lane, reader->seen, ret_spans, max);
    if (n == 0)
        return 0;
    uint64_t joined = n;
    for (size_t i = 0; i < n; i++)
        joined += ret_spans[i].joined;
    const uint64_t passed = ret_spans[n - 1].ticket - reader->seen;
    reader->lost += passed > joined ? passed - joined
                                    : 0; /* passed < joined: the reader began inside a span of joined ops */
    reader->seen = ret_spans[n - 1].ticket;
    return n;
}

struct ah_span_reader ah_device_newest(struct ah_device *device, uint32_t lane, uint64_t n)
{
    uint64_t done = ah_device_done(device, lane);
    return (struct ah_span_reader){.lane = lane, .seen = done > n ? done - n : 0};
}

uint64_t ah_device_done(struct ah_device *device, uint32_t lane)
{
    return lane < device->lanes ? device->driver->done(device, lane) : 0;
}

static int cannot_record(const struct ah_device *device, struct ah_error *err)
{
    return ah_error_set(err, AH_E_UNSUPPORTED,
                        "device '%s' does not record its hardware; the spans of its lanes show when ops ran",
                        device->driver->name);
}

int ah_device_record(struct ah_device *device, struct ah_error *err)
{
    if (!device->driver->record)
        return cannot_record(device, err);
    ah_device_watch_enter(device, AH_WAITING_TO_RECORD, 0, 0);
    int rc = device->driver->record(device, err);
    ah_device_watch_leave(device);
    return rc;
}

int ah_device_recorded(struct ah_device *device, struct ah_device_recording *ret_recording,
                       struct ah_error *err)
{
    if (!device->driver->recorded)
        return cannot_record(device, err);
    ah_device_watch_enter(device, AH_WAITING_TO_RECORD, 0, 0);
    int rc = device->driver->recorded(device, ret_recording, err);
    ah_device_watch_leave(device);
    return rc;
}

void *ah_device_pointer(struct ah_device *device, struct ah_ref ref)
{
    if (ref.arena == AH_ARENA_NONE || ref.arena >= AH_ARENA_KINDS ||
        ref.offset_bytes >= device->arena_bytes[ref.arena])
        return NULL;
    char *base = device->driver->address(device, (enum ah_arena_kind)ref.arena);
    return base ? base + ref.offset_bytes : NULL;
}

void ah_device_close(struct ah_device *device)
{
    if (!device)
        return;
    if (device->watcher) {
        ah_device_watch_enter(device, AH_WAITING_TO_CLOSE, 0, 0);
        device->driver->drain(device);
        ah_device_watch_leave(device);
        ah_device_watcher_free(device);
    }
    device->driver->close(device);
}

void ah_device_keep_release(struct ah_device_keep *keep)
{
    if (keep->memory)
        keep->release(keep->memory);
    *keep = (struct ah_device_keep){0};
}
