/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates a device (fake_device.h) from one completion to the next. In between, busy lanes work at constant speed.
 */
#include "tests/unit/profiler/fake_device.h"

#include "runtime/device/algorithm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE = 8192 };

struct fake_job {
    double late_s;    /* delay before the job starts */
    double work_s;    /* time the job takes on an idle device, after its latency */
    double latency_s; /* remaining time that is not stretched by other lanes, including late_s */
    double left_s;    /* remaining part of work_s */
    uint64_t tag;
    struct ah_wait wait; /* the op for which the job waits; ticket 0: none */
    bool stalls;         /* while it stands still, it does not slow other lanes */
};

struct fake_lane {
    struct fake_job *queue; /* room for QUEUE jobs */
    struct ah_span *spans;  /* room for QUEUE spans */
    size_t queued, taken;   /* numbers of jobs since the lane was last empty */
    uint64_t submitted;
    size_t n_spans; /* number of ops done */
    double ready_s;
};

struct fake_device {
    struct ah_device base;
    struct ah_device_options options;
    struct fake_lane lanes[AH_DEVICE_LANES];
    void *arenas[AH_ARENA_KINDS];
    double now_s;
    uint64_t host_waits; /* number of waits for host ops */
};

static struct fake_rates *world;
static int open_count;
static int submits;

static const enum ah_part part_of[AH_DEVICE_LANES] = {
    [AH_LANE_COMPUTE] = AH_PART_COMPUTE,
    [AH_LANE_H2D] = AH_PART_H2D,
    [AH_LANE_D2H] = AH_PART_D2H,
    [AH_LANE_HOST] = AH_PART_HOST_ADAM,
};

int fake_device_open_count(void)
{
    return open_count;
}

static void describe(struct ah_device_info *info)
{
    info->kind = world->kind;
    strcpy(info->name, "Fake(R) Device 9000");
    info->memory_bytes = UINT64_C(8) << 30;
    info->free_bytes = UINT64_C(7) << 30;
    info->bf16 = !world->no_bf16;
    memset(info->supports, 1, sizeof info->supports);
}

static int fake_probe(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err)
{
    (void)err;
    if (max > 0)
        describe(&ret_infos[0]);
    *ret_n = 1;
    return AH_OK;
}

static void fake_close(struct ah_device *base)
{
    struct fake_device *device = (struct fake_device *)base;
    for (int i = 0; i < AH_ARENA_KINDS; i++)
        free(device->arenas[i]);
    for (int i = 0; i < AH_DEVICE_LANES; i++) {
        free(device->lanes[i].queue);
        free(device->lanes[i].spans);
    }
    free(device);
    open_count--;
}

static int fake_open(struct ah_device **ret_device, const struct ah_device_options *options,
                     struct ah_error *err)
{
    if (world->fail_open)
        return ah_error_set(err, world->fail_open, "the fake device does not open");
    struct fake_device *device = calloc(1, sizeof *device);
    if (!device)
        return ah_error_memory(err);
    open_count++;
    describe(&device->base.info);
    device->base.driver = fake_device_driver(world);
    device->options = *options;
    device->base.reserve_bytes = UINT64_C(300) << 20;
    strcpy(device->base.info.library, world->library ? world->library : "");
    bool complete = true;
    for (int i = 0; i < AH_DEVICE_LANES; i++) {
        device->lanes[i].queue = calloc(QUEUE, sizeof *device->lanes[i].queue);
        device->lanes[i].spans = calloc(QUEUE, sizeof *device->lanes[i].spans);
        complete = complete && device->lanes[i].queue && device->lanes[i].spans;
    }
    if (!complete) {
        fake_close(&device->base);
        return ah_error_memory(err);
    }
    *ret_device = &device->base;
    return AH_OK;
}

static int fake_reserve(struct ah_device *base, const uint64_t arena_bytes[AH_ARENA_KINDS],
                        struct ah_error *err)
{
    struct fake_device *device = (struct fake_device *)base;
    bool complete = true;
    for (int i = 0; i < AH_ARENA_KINDS; i++) {
        device->arenas[i] = calloc(1, arena_bytes[i] + 1);
        complete = complete && device->arenas[i];
    }
    return complete ? AH_OK : ah_error_memory(err);
}

static bool is_copy(uint32_t lane)
{
    return lane == AH_LANE_H2D || lane == AH_LANE_D2H;
}

static double copy_seconds(const struct fake_device *device, uint32_t lane, double bytes,
                           double *ret_latency_s)
{
    const struct ah_device_throttle *throttle = &device->options.throttle;
    if (!is_copy(lane))
        return bytes / world->device_copy_bytes_per_s;
    int direction = lane == AH_LANE_H2D ? AH_H2D : AH_D2H;
    double limit = lane == AH_LANE_H2D ? throttle->h2d_bytes_per_s : throttle->d2h_bytes_per_s;
    double noise_s = bytes < 4 << 20 ? world->noise_s : 0;
    double seconds = bytes / world->link_bytes_per_s[direction] + noise_s;
    *ret_latency_s = world->link_latency_s[direction];
    if (limit > 0 && throttle->copy_latency_us * 1e-6 + bytes / limit > *ret_latency_s + seconds) {
        *ret_latency_s = throttle->copy_latency_us * 1e-6;
        seconds = bytes / limit;
    }
    return seconds;
}

/* Returns the number of threads of a lane: 1 on a GPU, otherwise the requested number. */
static double number_of(uint32_t threads)
{
    return threads ? threads : 1;
}

static double adam_seconds(const struct fake_device *device, uint32_t lane, const struct ah_op *op)
{
    bool bf16 = op->arg[4].arena != AH_ARENA_NONE;
    bool host = lane == AH_LANE_HOST;
    double limit = host ? device->options.throttle.host_adam_params_per_s : 0;
    double threads = number_of(host ? device->options.host_threads : device->options.compute_threads);
    double rate = world->adam_params_per_s[bf16 ? AH_BF16 : AH_FP32] * threads;
    return (double)op->u.adamw.count / (limit > 0 ? fmin(limit, rate) : rate);
}

/* Returns the speedup of a product with its algorithm from the table or, if it has none, with the first algorithm. */
static double offer_of(const struct fake_device *device, const struct ah_op *op)
{
    struct ah_algorithm product, entry;
    if (!world->library || !ah_device_algorithm_entry(op, &product))
        return 1;
    for (size_t i = 0; i < device->options.n_algorithms; i++)
        if (ah_device_algorithm_entry(&device->options.algorithms[i].product, &entry) &&
            ah_algorithm_same_product(&entry, &product))
            return world->offers[device->options.algorithms[i].words[0]];
    return world->offers[0];
}

static double op_seconds(const struct fake_device *device, uint32_t lane, const struct ah_op *op,
                         double *ret_latency_s)
{
    const struct ah_op_matmul *product = &op->u.matmul;
    if (op->kind == AH_OP_COPY)
        return copy_seconds(device, lane, (double)op->u.copy.bytes, ret_latency_s);
    if (op->kind == AH_OP_ADAMW)
        return adam_seconds(device, lane, op);
    if (op->kind == AH_OP_MATMUL)
        return 2.0 * (double)product->m * (double)product->n * (double)product->k /
               (world->matmul_flops_per_s[op->arg[0].dtype] * number_of(device->options.compute_threads) *
                offer_of(device, op));
    return 1e-6;
}

static bool others_have_work(const struct fake_device *device, uint32_t lane)
{
    bool found = false;
    for (uint32_t other = 0; other < AH_DEVICE_LANES; other++)
        found = found || (other != lane && device->lanes[other].queued);
    return found;
}

static int submit_one(struct fake_device *device, const struct ah_submission *submission,
                      struct ah_error *err)
{
    struct fake_lane *lane = &device->lanes[submission->lane];
    if (world->fail_submit && ++submits == world->fail_submit)
        return ah_error_set(err, AH_E_FAILED, "the fake device refuses an op");
    if (lane->queued == QUEUE)
        return ah_error_set(err, AH_E_FAILED, "the fake lane is full");
    double latency_s = 0;
    double seconds = op_seconds(device, submission->lane, submission->op, &latency_s);
    struct ah_wait wait = submission->n_waits ? submission->waits[0] : (struct ah_wait){0, 0};
    bool late =
        submission->lane == AH_LANE_HOST && lane->queued == 1 && others_have_work(device, submission->lane);
    double late_s = late ? world->late_s : 0;
    lane->queue[lane->queued++] =
        (struct fake_job){late_s, seconds, latency_s + late_s, seconds, submission->tag, wait, false};
    lane->submitted++;
    return AH_OK;
}

static int fake_submit(struct ah_device *base, const struct ah_submission *submissions, size_t n,
                       struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = submit_one((struct fake_device *)base, &submissions[i], err);
    return rc;
}

static bool is_running(const struct fake_device *device, uint32_t lane)
{
    const struct fake_lane *of = &device->lanes[lane];
    if (of->taken == of->queued)
        return false;
    struct ah_wait wait = of->queue[of->taken].wait;
    return device->lanes[wait.lane].n_spans >= wait.ticket;
}

static bool is_stalled(const struct fake_lane *lane)
{
    const struct fake_job *head = &lane->queue[lane->taken];
    return head->stalls && head->latency_s > 0;
}

/* Returns the speed of a lane's head, slowed by the running heads of other lanes. */
static double speed_of(const struct fake_device *device, uint32_t lane)
{
    double speed = 1;
    for (uint32_t other = 0; other < AH_DEVICE_LANES; other++) {
        double kept = world->kept[part_of[lane]][part_of[other]];
        if (other == lane || !is_running(device, other) || is_stalled(&device->lanes[other]))
            continue;
        if (is_copy(lane) && is_copy(other) && device->options.throttle.both_kept > 0)
            kept = device->options.throttle.both_kept;
        speed *= kept > 0 ? kept : 1;
    }
    return speed;
}

static void finish_head(struct fake_device *device, struct fake_lane *lane)
{
    const struct fake_job *job = &lane->queue[lane->taken];
    lane->spans[lane->n_spans % QUEUE] = (struct ah_span){
        .ticket = lane->n_spans + 1,
        .tag = job->tag,
        .ready_ns = (uint64_t)llround(lane->ready_s * 1e9),
        .start_ns = (uint64_t)llround((lane->ready_s + job->late_s) * 1e9),
        .end_ns = (uint64_t)llround(device->now_s * 1e9),
    };
    lane->n_spans++;
    lane->taken++;
    lane->ready_s = device->now_s;
}

static double to_next_phase(const struct fake_job *job, double speed)
{
    return job->latency_s > 0 ? job->latency_s : job->left_s / speed;
}

/* Works on the job for `step_s`, but not beyond its current phase. Returns true if the job is done. */
static bool work_on(struct fake_job *job, double step_s, double speed)
{
    if (job->latency_s > 0) {
        job->latency_s = job->latency_s - step_s > 1e-15 ? job->latency_s - step_s : 0;
        return false;
    }
    job->left_s -= step_s * speed;
    return job->left_s <= 1e-12 * job->work_s;
}

/* Simulates until a job or the latency of a job ends. Returns false if nothing is queued. */
static bool advance(struct fake_device *device)
{
    double speeds[AH_DEVICE_LANES];
    double step_s = HUGE_VAL;
    for (uint32_t i = 0; i < AH_DEVICE_LANES; i++) {
        const struct fake_lane *lane = &device->lanes[i];
        speeds[i] = speed_of(device, i);
        if (is_running(device, i))
            step_s = fmin(step_s, to_next_phase(&lane->queue[lane->taken], speeds[i]));
    }
    if (isinf(step_s))
        return false;
    device->now_s += step_s;
    bool done[AH_DEVICE_LANES] = {false};
    bool waited[AH_DEVICE_LANES];
    for (uint32_t i = 0; i < AH_DEVICE_LANES; i++) {
        struct fake_lane *lane = &device->lanes[i];
        waited[i] = !is_running(device, i);
        if (waited[i])
            continue;
        done[i] = work_on(&lane->queue[lane->taken], step_s, speeds[i]);
    }
    for (uint32_t i = 0; i < AH_DEVICE_LANES; i++)
        if (done[i])
            finish_head(device, &device->lanes[i]);
    for (uint32_t i = 0; i < AH_DEVICE_LANES; i++)
        if (waited[i] && is_running(device, i))
            device->lanes[i].ready_s = device->now_s;
    return true;
}

static void stall(struct fake_device *device)
{
    struct fake_lane *host = &device->lanes[AH_LANE_HOST];
    if (!world->stall_s || !host->queued || ++device->host_waits % 3 == 0)
        return;
    for (uint64_t i = 0; i < host->queued; i++) {
        host->queue[i].latency_s += world->stall_s;
        host->queue[i].stalls = true;
    }
}

static int fake_wait(struct ah_device *base, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    struct fake_device *device = (struct fake_device *)base;
    (void)lane, (void)ticket, (void)err;
    stall(device);
    for (int i = 0; i < AH_DEVICE_LANES; i++)
        if (device->lanes[i].taken == 0)
            device->lanes[i].ready_s = device->now_s;
    while (advance(device))
        ;
    for (int i = 0; i < AH_DEVICE_LANES; i++)
        device->lanes[i].queued = device->lanes[i].taken = 0;
    return AH_OK;
}

static int fake_wait_any(struct ah_device *base, const struct ah_wait *waits, size_t n, size_t *ret_met,
                         struct ah_error *err)
{
    (void)n;
    *ret_met = 0;
    return fake_wait(base, waits[0].lane, waits[0].ticket, err);
}

static uint64_t fake_done(struct ah_device *base, uint32_t lane)
{
    return ((struct fake_device *)base)->lanes[lane].submitted;
}

static size_t fake_spans(struct ah_device *base, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                         size_t max)
{
    const struct fake_lane *from = &((struct fake_device *)base)->lanes[lane];
    size_t n = 0;
    for (; n < max && after + n < from->n_spans; n++)
        ret_spans[n] = from->spans[(after + n) % QUEUE];
    return n;
}

/* Offers algorithms. Each has its number as its first word. */
static int fake_algorithms(struct ah_device *base, const struct ah_op *product,
                           struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                           struct ah_error *err)
{
    size_t n = 0;
    (void)base, (void)err;
    for (; n < max && n < FAKE_OFFERS_MAX && world->offers[n] > 0; n++)
        ret_algorithms[n] = (struct ah_device_algorithm){.product = *product, .words = {n, 0xabcdef}};
    *ret_n = n;
    return AH_OK;
}

static void *fake_address(struct ah_device *base, enum ah_arena_kind arena)
{
    struct fake_device *device = (struct fake_device *)base;
    bool hidden = world->kind == AH_DEVICE_CUDA && arena == AH_ARENA_DEVICE;
    return hidden ? NULL : device->arenas[arena];
}

const struct ah_device_driver *fake_device_driver(struct fake_rates *rates)
{
    static const struct ah_device_driver driver = {
        .abi = AH_DEVICE_ABI,
        .layout = AH_DEVICE_LAYOUT,
        .name = "fake",
        .probe = fake_probe,
        .open = fake_open,
        .close = fake_close,
        .reserve = fake_reserve,
        .submit = fake_submit,
        .wait = fake_wait,
        .wait_any = fake_wait_any,
        .done = fake_done,
        .spans = fake_spans,
        .algorithms = fake_algorithms,
        .address = fake_address,
    };
    world = rates;
    submits = 0;
    return &driver;
}
