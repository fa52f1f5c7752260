/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements mirror.h. The mirror is in the inner device's pinned arena, behind the outer device's pinned arena.
 */
#include "tests/support/mirror.h"

#include <stdlib.h>

struct mirror {
    struct ah_device common;
    struct ah_device *inner;
    uint64_t at; /* offset of the mirror in the inner pinned arena */
    uint64_t bytes;
    uint64_t done[AH_DEVICE_LANES];
};

static const struct ah_device_driver *inner_driver;

static struct mirror *mirror_of(struct ah_device *device)
{
    return (struct mirror *)device;
}

static int mirror_probe(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err)
{
    return inner_driver->probe(ret_infos, max, ret_n, err);
}

static void take_facts(struct mirror *m)
{
    m->common.info = m->inner->info;
    m->common.reserve_bytes = m->inner->reserve_bytes;
}

static int mirror_open(struct ah_device **ret_device, const struct ah_device_options *options,
                       struct ah_error *err)
{
    struct mirror *m = calloc(1, sizeof *m);
    if (!m)
        return ah_error_memory(err);
    int rc = ah_device_open(&m->inner, inner_driver, options, err);
    if (rc) {
        free(m);
        return rc;
    }
    m->common.driver = mirror_driver(inner_driver);
    take_facts(m);
    *ret_device = &m->common;
    return AH_OK;
}

static void mirror_close(struct ah_device *device)
{
    ah_device_close(mirror_of(device)->inner);
    free(device);
}

static int mirror_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    struct mirror *m = mirror_of(device);
    int rc = ah_device_prepare(m->inner, ops, n, err);
    take_facts(m);
    return rc;
}

static int mirror_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                          struct ah_error *err)
{
    struct mirror *m = mirror_of(device);
    uint64_t inner_bytes[AH_ARENA_KINDS];
    for (int arena = 0; arena < AH_ARENA_KINDS; arena++)
        inner_bytes[arena] = arena_bytes[arena];
    m->at = (arena_bytes[AH_ARENA_PINNED] + 4095) / 4096 * 4096;
    m->bytes = arena_bytes[AH_ARENA_DEVICE];
    if (m->bytes < UINT64_MAX / 2)
        inner_bytes[AH_ARENA_PINNED] = m->at + m->bytes;
    int rc = ah_device_reserve(m->inner, inner_bytes, err);
    take_facts(m);
    return rc;
}

static int run_one(struct mirror *m, uint32_t lane, const struct ah_op *op, struct ah_error *err)
{
    const struct ah_submission submission = {.lane = lane, .op = op};
    uint64_t ticket;
    int rc = ah_device_submit(m->inner, &submission, 1, &ticket, err);
    if (!rc)
        (void)ah_device_wait(m->inner, lane, ticket, NULL); /* a later wait reports the failure */
    return rc;
}

static int copy_all(struct mirror *m, uint32_t lane)
{
    struct ah_op copy = {.kind = AH_OP_COPY, .u.copy = {m->bytes}};
    copy.arg[lane == AH_LANE_D2H] = (struct ah_ref){.arena = AH_ARENA_DEVICE};
    copy.arg[lane != AH_LANE_D2H] = (struct ah_ref){.arena = AH_ARENA_PINNED, .offset_bytes = m->at};
    return run_one(m, lane, &copy, NULL);
}

static int run_there(struct mirror *m, const struct ah_submission *submission, struct ah_error *err)
{
    for (uint32_t i = 0; i < submission->n_waits; i++)
        if (submission->waits[i].lane == AH_LANE_HOST)
            (void)ah_device_wait(m->inner, AH_LANE_HOST, submission->waits[i].ticket, NULL);
    int rc = copy_all(m, AH_LANE_H2D);
    if (!rc)
        rc = run_one(m, submission->lane, submission->op, err);
    if (!rc)
        rc = copy_all(m, AH_LANE_D2H);
    m->done[submission->lane] += !rc;
    return rc;
}

static int run_here(struct mirror *m, const struct ah_submission *submission, struct ah_error *err)
{
    struct ah_wait waits[AH_DEVICE_WAITS_MAX];
    struct ah_submission here = *submission;
    here.n_waits = 0;
    here.waits = waits;
    for (uint32_t i = 0; i < submission->n_waits; i++)
        if (submission->waits[i].lane == AH_LANE_HOST)
            waits[here.n_waits++] = submission->waits[i];
    return ah_device_submit(m->inner, &here, 1, NULL, err);
}

static int mirror_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                         struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = submissions[i].lane == AH_LANE_HOST ? run_here(mirror_of(device), &submissions[i], err)
                                                 : run_there(mirror_of(device), &submissions[i], err);
    return rc;
}

static int mirror_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    return ah_device_wait(mirror_of(device)->inner, lane, lane == AH_LANE_HOST ? ticket : 0, err);
}

static int mirror_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                           struct ah_error *err)
{
    int rc = n ? mirror_wait(device, waits[0].lane, waits[0].ticket, err) : AH_OK;
    if (!rc)
        *ret_met = 0;
    return rc;
}

static uint64_t mirror_done(struct ah_device *device, uint32_t lane)
{
    struct mirror *m = mirror_of(device);
    return lane == AH_LANE_HOST ? ah_device_done(m->inner, lane) : m->done[lane];
}

/* Returns no spans, because the times of a mirror mean nothing. */
static size_t mirror_spans(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                           size_t max)
{
    (void)device, (void)lane, (void)after, (void)ret_spans, (void)max;
    return 0;
}

static void *mirror_address(struct ah_device *device, enum ah_arena_kind arena)
{
    struct mirror *m = mirror_of(device);
    struct ah_ref ref = {.arena = arena};
    if (arena == AH_ARENA_DEVICE)
        ref = (struct ah_ref){.arena = AH_ARENA_PINNED, .offset_bytes = m->at};
    return ah_device_pointer(m->inner, ref);
}

const struct ah_device_driver *mirror_driver(const struct ah_device_driver *inner)
{
    static const struct ah_device_driver driver = {
        .abi = AH_DEVICE_ABI,
        .layout = AH_DEVICE_LAYOUT,
        .name = "mirror",
        .probe = mirror_probe,
        .open = mirror_open,
        .close = mirror_close,
        .prepare = mirror_prepare,
        .reserve = mirror_reserve,
        .submit = mirror_submit,
        .wait = mirror_wait,
        .wait_any = mirror_wait_any,
        .done = mirror_done,
        .spans = mirror_spans,
        .address = mirror_address,
    };
    inner_driver = inner;
    return &driver;
}
