/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs ops on lanes as measured work (lanes_internal.h). Memory for spans is allocated before ops are submitted, so
 * nothing is allocated during a measurement.
 */
#include "profiler/lanes_internal.h"

#include <stdlib.h>

#include <string.h>

/* Submits the next op of the list, after `wait` (NULL: no wait). */
static int submit_next(struct ah_lanes_work *work, const struct ah_wait *wait, uint64_t *ret_ticket,
                       struct ah_error *err)
{
    struct ah_submission submission = {
        .lane = work->lane, .op = &work->ops[work->next], .waits = wait, .n_waits = wait != NULL};
    int rc = ah_device_submit(work->device, &submission, 1, ret_ticket, err);
    if (rc == AH_OK)
        work->next = (work->next + 1) % work->n;
    return rc;
}

/* Reads the spans of the newest `repeats` ops. */
static int read_spans(struct ah_lanes_work *work, uint64_t repeats, struct ah_span *ret_spans,
                      struct ah_error *err)
{
    struct ah_span_reader reader = ah_device_newest(work->device, work->lane, repeats);
    size_t n = ah_device_spans(work->device, &reader, ret_spans, (size_t)repeats);
    if (n != repeats)
        return ah_error_set(err, AH_E_FAILED, "lane '%s' recorded %zu of %llu ops",
                            ah_device_lane_name(work->lane), n, (unsigned long long)repeats);
    return AH_OK;
}

static int check_repeats(uint64_t repeats, struct ah_error *err)
{
    if (repeats >= 1 && repeats <= AH_LANES_REPEATS_MAX)
        return AH_OK;
    return ah_error_set(err, AH_E_FAILED, "%llu ops at once are too many for a lane",
                        (unsigned long long)repeats);
}

int ah_lanes_run(void *context, uint64_t repeats, double *ret_seconds, struct ah_error *err)
{
    struct ah_lanes_work *work = context;
    uint64_t ticket = 0;
    int rc = check_repeats(repeats, err);
    struct ah_span *spans = rc ? NULL : malloc(repeats * sizeof *spans);
    if (!rc && !spans)
        rc = ah_error_memory(err);
    for (uint64_t i = 0; rc == AH_OK && i < repeats; i++)
        rc = submit_next(work, NULL, &ticket, err);
    if (rc == AH_OK)
        rc = ah_device_wait(work->device, work->lane, ticket, err);
    if (rc == AH_OK)
        rc = read_spans(work, repeats, spans, err);
    if (rc == AH_OK)
        *ret_seconds = (double)(spans[repeats - 1].end_ns - spans[0].start_ns) * 1e-9;
    free(spans);
    return rc;
}

struct ah_sampler_work ah_lanes_sampler_work(struct ah_lanes_work *work)
{
    return (struct ah_sampler_work){
        .run = ah_lanes_run, .context = work, .repeats_max = AH_LANES_REPEATS_MAX};
}

double ah_lanes_done_between(const struct ah_span *spans, size_t n, uint64_t begin_ns, uint64_t end_ns)
{
    double done = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = i == 0 ? spans[0].start_ns : spans[i - 1].end_ns;
        uint64_t end = spans[i].end_ns;
        uint64_t from = begin > begin_ns ? begin : begin_ns;
        uint64_t to = end < end_ns ? end : end_ns;
        if (to > from)
            done += (double)(to - from) / (double)(end - begin);
    }
    return done;
}

/* Runs one op on each lane before the measurement, so that neither lane starts before both are awake. The second lane's
 * op waits for the first lane's, and the first lane's next op waits for the second lane's, through `ret_wait`. */
static int start_together(struct ah_lanes_work *const works[2], struct ah_wait *ret_wait,
                          struct ah_error *err)
{
    struct ah_wait first = {.lane = works[0]->lane};
    ret_wait->lane = works[1]->lane;
    int rc = submit_next(works[0], NULL, &first.ticket, err);
    return rc ? rc : submit_next(works[1], &first, &ret_wait->ticket, err);
}

static int submit_both(struct ah_lanes_work *const works[2], const uint64_t repeats[2],
                       uint64_t ret_tickets[2], struct ah_error *err)
{
    uint64_t most = repeats[0] > repeats[1] ? repeats[0] : repeats[1];
    uint64_t submitted[2] = {0, 0};
    struct ah_wait met;
    int rc = start_together(works, &met, err);
    for (uint64_t i = 1; i <= most; i++)
        for (int lane = 0; lane < 2; lane++)
            while (rc == AH_OK && submitted[lane] * most < i * repeats[lane]) { /* both lanes evenly */
                bool waits = lane == 0 && submitted[lane] == 0;
                rc = submit_next(works[lane], waits ? &met : NULL, &ret_tickets[lane], err);
                submitted[lane]++;
            }
    return rc;
}

/* Computes each lane's time per op while both lanes worked. */
static int judge_both(struct ah_span *const spans[2], const uint64_t repeats[2], double ret_seconds_each[2],
                      struct ah_error *err)
{
    uint64_t begin_ns = 0;
    uint64_t end_ns = UINT64_MAX;
    for (int lane = 0; lane < 2; lane++) {
        uint64_t first = spans[lane][0].start_ns;
        uint64_t last = spans[lane][repeats[lane] - 1].end_ns;
        begin_ns = first > begin_ns ? first : begin_ns;
        end_ns = last < end_ns ? last : end_ns;
    }
    for (int lane = 0; lane < 2; lane++) {
        double done = ah_lanes_done_between(spans[lane], (size_t)repeats[lane], begin_ns, end_ns);
        if (!(done > 0))
            return ah_error_set(err, AH_E_FAILED, "the two lanes never worked at the same time");
        ret_seconds_each[lane] = (double)(end_ns - begin_ns) * 1e-9 / done;
    }
    return AH_OK;
}

int ah_lanes_run_both(struct ah_lanes_work *const works[2], const uint64_t repeats[2],
                      double ret_seconds_each[2], struct ah_error *err)
{
    uint64_t tickets[2] = {0, 0};
    int rc = check_repeats(repeats[0], err);
    if (rc == AH_OK)
        rc = check_repeats(repeats[1], err);
    struct ah_span *all = rc ? NULL : malloc((repeats[0] + repeats[1]) * sizeof *all);
    if (rc == AH_OK && !all)
        rc = ah_error_memory(err);
    if (rc != AH_OK)
        return rc;
    struct ah_span *const spans[2] = {all, all + repeats[0]};
    rc = submit_both(works, repeats, tickets, err);
    for (int lane = 0; lane < 2 && rc == AH_OK; lane++)
        rc = ah_device_wait(works[lane]->device, works[lane]->lane, tickets[lane], err);
    for (int lane = 0; lane < 2 && rc == AH_OK; lane++)
        rc = read_spans(works[lane], repeats[lane], spans[lane], err); /* without those of start_together() */
    if (rc == AH_OK)
        rc = judge_both(spans, repeats, ret_seconds_each, err);
    free(all);
    return rc;
}

/* Fills in bf16 numbers of magnitude 2^-8 to 1 with random signs and mantissas. Two of them, read as one fp32 number,
 * are also such a number, so the pattern serves both types. */
static void fill_pattern(uint16_t *to, uint64_t count, uint64_t *state)
{
    for (uint64_t i = 0; i < count; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t bits = (uint32_t)(*state >> 33);
        uint32_t exponent = 119 + (bits >> 8) % 8; /* 2^-8 .. 2^-1 */
        to[i] = (uint16_t)((bits & 0x80u) << 8 | exponent << 7 | (bits & 0x7fu));
    }
}

/* Fills memory with the pattern, once, and then with copies of it. */
static void fill_host(unsigned char *to, uint64_t bytes, uint64_t *state)
{
    uint64_t first = bytes < AH_LANES_STAGE_BYTES ? bytes : AH_LANES_STAGE_BYTES;
    fill_pattern((void *)to, first / 2, state);
    for (uint64_t done = first; done < bytes; done += first)
        memcpy(to + done, to, bytes - done < first ? bytes - done : first);
}

int ah_lanes_fill(struct ah_device *device, struct ah_ref ref, uint64_t bytes, struct ah_ref stage,
                  struct ah_error *err)
{
    uint64_t state = ref.offset_bytes + 1;
    void *host = ah_device_pointer(device, ref);
    if (host) {
        fill_host(host, bytes, &state);
        return AH_OK;
    }
    fill_pattern(ah_device_pointer(device, stage), AH_LANES_STAGE_BYTES / 2, &state);
    for (uint64_t done = 0; done < bytes; done += AH_LANES_STAGE_BYTES) {
        uint64_t left = bytes - done;
        struct ah_op copy = {.kind = AH_OP_COPY, .arg = {ref, stage}};
        struct ah_lanes_work work = {device, AH_LANE_H2D, &copy, 1, 0};
        double seconds;
        copy.arg[0].offset_bytes += done;
        copy.u.copy.bytes = left < AH_LANES_STAGE_BYTES ? left : AH_LANES_STAGE_BYTES;
        int rc = ah_lanes_run(&work, 1, &seconds, err);
        if (rc)
            return rc;
    }
    return AH_OK;
}
