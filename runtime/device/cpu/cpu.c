/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU device: the reference for every other device, and the fallback where there is no accelerator.
 *
 * The compute lane's thread and its pool play the accelerator, on separate cores. Each copy lane is one thread; the
 * host lane has a pool. placement.h says which cores they use. All arenas are host memory; only the checks in device.c
 * separate the device arena from the host's.
 *
 * 1. After reserve and prepare, no op allocates memory.
 * 2. `failed` is set after `failure` is complete; each is set only once.
 */
#include "base/host_memory.h"
#include "base/topology.h"
#include "base/units.h"
#include "runtime/device/cpu/cpu_internal.h"

#include <stdlib.h>
#include <string.h>

static struct ah_cpu_device *cpu_of(struct ah_device *device)
{
    return (struct ah_cpu_device *)device;
}

static enum ah_product_form form_of(enum ah_tile_level level)
{
    return level == AH_TILE_AMX           ? AH_PRODUCT_AMX
           : level == AH_TILE_AVX512_BF16 ? AH_PRODUCT_DOT
                                          : AH_PRODUCT_FMA;
}

/* Returns the fastest instruction level whose form of bf16 products (tile.h) is among the first `forms`; 0: all. */
static enum ah_tile_level choose_level(uint32_t forms)
{
    static const enum ah_tile_level most[] = {[AH_PRODUCT_FMA] = AH_TILE_AVX512,
                                              [AH_PRODUCT_DOT] = AH_TILE_AVX512_BF16,
                                              [AH_PRODUCT_AMX] = AH_TILE_AMX};
    const enum ah_tile_level level = ah_tile_choose();
    return forms && forms <= (uint32_t)form_of(level) ? most[forms - 1] : level;
}

static void fill_info(struct ah_device_info *ret_info, const struct ah_topology *topology,
                      const struct ah_host_memory *memory)
{
    *ret_info = (struct ah_device_info){.kind = AH_DEVICE_CPU};
    memcpy(ret_info->name, topology->cpu_model, sizeof ret_info->name - 1);
    ret_info->memory_bytes = memory->usable_bytes;
    ret_info->free_bytes = memory->available_bytes;
    ret_info->bf16 = true;
    ret_info->product_form = form_of(ah_tile_choose());
    for (unsigned kind = 0; kind < AH_OP_KINDS; kind++)
        ret_info->supports[kind] = ah_cpu_supports((enum ah_op_kind)kind);
}

static int cpu_probe(struct ah_device_info *ret_infos, size_t max, size_t *ret_n, struct ah_error *err)
{
    struct ah_topology topology = {0};
    struct ah_host_memory memory;
    int rc = ah_topology_init(&topology, NULL, err);
    if (!rc)
        rc = ah_host_memory_read(&memory, NULL, err);
    if (!rc && max > 0)
        fill_info(&ret_infos[0], &topology, &memory);
    if (!rc)
        *ret_n = 1;
    ah_topology_release(&topology);
    return rc;
}

/* Refuses arenas larger than free memory, because the system itself would map them. */
static int check_capacity(const uint64_t arena_bytes[AH_ARENA_KINDS], struct ah_error *err)
{
    struct ah_host_memory memory;
    uint64_t bytes = 0;
    for (unsigned arena = AH_ARENA_DEVICE; arena < AH_ARENA_KINDS; arena++)
        if (__builtin_add_overflow(bytes, arena_bytes[arena], &bytes))
            bytes = UINT64_MAX;
    int rc = ah_host_memory_read(&memory, NULL, err);
    if (rc)
        return rc;
    if (bytes > memory.available_bytes) {
        char asked[AH_UNITS_TEXT_MAX];
        char has[AH_UNITS_TEXT_MAX];
        return ah_error_set(
            err, AH_E_CAPACITY, "device 'cpu': arenas need %s, but this machine has only %s free",
            ah_units_print_bytes(asked, bytes), ah_units_print_bytes(has, memory.available_bytes));
    }
    return AH_OK;
}

/* Maps the arenas without touching their memory. fill_arenas() touches it once the pools exist. */
static int map_arenas(struct ah_cpu_device *cpu, const uint64_t arena_bytes[AH_ARENA_KINDS],
                      struct ah_error *err)
{
    int rc = AH_OK;
    for (unsigned arena = AH_ARENA_DEVICE; arena < AH_ARENA_KINDS && !rc; arena++)
        rc = ah_region_map(&cpu->arenas[arena], arena_bytes[arena], err);
    return rc;
}

static int fill_arenas(struct ah_cpu_device *cpu, struct ah_error *err)
{
    const struct ah_placement *placement = &cpu->placement;
    int rc = ah_region_fill(&cpu->arenas[AH_ARENA_DEVICE], cpu->lanes[AH_LANE_COMPUTE].pool,
                            placement->compute[0], err);
    for (unsigned arena = AH_ARENA_DEVICE + 1; arena < AH_ARENA_KINDS && !rc; arena++)
        rc = ah_region_fill(&cpu->arenas[arena], cpu->lanes[AH_LANE_HOST].pool, placement->host[0], err);
    if (rc)
        return rc;
    ah_region_lock(&cpu->arenas[AH_ARENA_PINNED]);
    cpu->common.info.locked_bytes = cpu->arenas[AH_ARENA_PINNED].locked_bytes;
    return AH_OK;
}

static void set_up_host(const struct ah_cpu_device *cpu, struct ah_cpu_lane *lane)
{
    lane->host = (struct ah_host){.isa = ah_isa_detect(), .pool = lane->pool};
    for (unsigned arena = AH_ARENA_DEVICE; arena < AH_ARENA_KINDS; arena++)
        lane->host.arenas[arena] = cpu->arenas[arena].data;
}

static int cpu_reserve(struct ah_device *device, const uint64_t arena_bytes[AH_ARENA_KINDS],
                       struct ah_error *err)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    int rc = check_capacity(arena_bytes, err);
    if (!rc)
        rc = map_arenas(cpu, arena_bytes, err);
    if (!rc)
        rc = fill_arenas(cpu, err);
    for (unsigned arena = AH_ARENA_DEVICE; arena < AH_ARENA_KINDS && rc; arena++)
        ah_region_release(&cpu->arenas[arena]);
    for (unsigned lane = 0; lane < AH_DEVICE_LANES_ALL && !rc; lane++)
        set_up_host(cpu, &cpu->lanes[lane]);
    cpu->lanes[AH_LANE_COMPUTE].host.workspace = &cpu->workspace;
    return rc;
}

static struct ah_lane_options lane_options(const struct ah_cpu_device *cpu, const char *name, int processor,
                                           const struct ah_device_options *options)
{
    return (struct ah_lane_options){
        .name = name, .cpu = processor, .queue = options->queue, .spans = options->spans, .bell = cpu->bell};
}

/* Opens a lane and its pool; the lane's thread is the pool's first participant. */
static int open_pooled_lane(struct ah_cpu_lane *lane, const struct ah_lane_options *options,
                            const int *processors, unsigned threads, struct ah_error *err)
{
    struct ah_pool_options pool_options = {.threads = threads, .cpus = processors};
    int rc = ah_lane_new(&lane->lane, options, err);
    return rc ? rc : ah_pool_new(&lane->pool, &pool_options, err);
}

static int open_copy_lanes(struct ah_cpu_device *cpu, const struct ah_device_options *options,
                           struct ah_error *err)
{
    struct ah_cpu_lane *h2d = &cpu->lanes[AH_LANE_H2D];
    struct ah_cpu_lane *d2h = &cpu->lanes[AH_LANE_D2H];
    struct ah_lane_options up = lane_options(cpu, "h2d", -1, options);
    struct ah_lane_options down = lane_options(cpu, "d2h", -1, options);
    struct ah_placement_mask before;
    ah_placement_enter_copy(&cpu->placement, &before);
    int rc = ah_lane_new(&h2d->lane, &up, err);
    if (!rc)
        rc = ah_lane_new(&d2h->lane, &down, err);
    ah_placement_leave_copy(&before);
    h2d->opposite = d2h->lane;
    d2h->opposite = h2d->lane;
    return rc;
}

/* Opens the message lanes, if the options ask for them. They mostly sleep, so they may run on any processor. */
static int open_message_lanes(struct ah_cpu_device *cpu, const struct ah_device_options *options,
                              struct ah_error *err)
{
    static const char *const names[] = {"send", "receive-before", "receive-behind", "sums"};
    int rc = AH_OK;
    for (unsigned i = 0; i < sizeof names / sizeof *names && options->messages && !rc; i++) {
        const struct ah_lane_options lane = lane_options(cpu, names[i], -1, options);
        rc = ah_lane_new(&cpu->lanes[AH_LANE_SEND + i].lane, &lane, err);
    }
    return rc;
}

static void open_throttles(struct ah_cpu_device *cpu, const struct ah_device_throttle *throttle)
{
    double kept = throttle->both_kept > 0 ? throttle->both_kept : 1;
    cpu->lanes[AH_LANE_H2D].throttle.work_per_s = throttle->h2d_bytes_per_s;
    cpu->lanes[AH_LANE_D2H].throttle.work_per_s = throttle->d2h_bytes_per_s;
    cpu->lanes[AH_LANE_H2D].throttle.latency_ns = throttle->copy_latency_us * 1e3;
    cpu->lanes[AH_LANE_D2H].throttle.latency_ns = throttle->copy_latency_us * 1e3;
    cpu->lanes[AH_LANE_H2D].both_kept = kept;
    cpu->lanes[AH_LANE_D2H].both_kept = kept;
    cpu->lanes[AH_LANE_HOST].throttle.work_per_s = throttle->host_adam_params_per_s;
    cpu->lanes[AH_LANE_HOST].bytes_per_s = throttle->host_bytes_per_s;
}

static int open_lanes(struct ah_cpu_device *cpu, const struct ah_device_options *options,
                      struct ah_error *err)
{
    const struct ah_placement *placement = &cpu->placement;
    int rc = ah_lane_bell_new(&cpu->bell, err);
    if (rc)
        return rc;
    struct ah_lane_options compute = lane_options(cpu, "compute", placement->compute[0], options);
    struct ah_lane_options host = lane_options(cpu, "host", placement->host[0], options);
    rc = open_pooled_lane(&cpu->lanes[AH_LANE_COMPUTE], &compute, placement->compute, placement->n_compute,
                          err);
    if (!rc)
        rc = open_pooled_lane(&cpu->lanes[AH_LANE_HOST], &host, placement->host, placement->n_host, err);
    if (!rc)
        rc = open_copy_lanes(cpu, options, err);
    if (!rc)
        rc = open_message_lanes(cpu, options, err);
    cpu->workspace =
        (struct ah_workspace){.level = choose_level(options->product_forms), .threads = placement->n_compute};
    if (!rc)
        rc = ah_matmul_new_at(&cpu->matmul, placement->n_compute, cpu->workspace.level, err);
    return rc;
}

static int open_parts(struct ah_cpu_device *cpu, const struct ah_device_options *options,
                      struct ah_error *err)
{
    struct ah_topology topology = {0};
    struct ah_host_memory memory;
    int rc = ah_topology_init(&topology, NULL, err);
    if (!rc)
        rc = ah_host_memory_read(&memory, NULL, err);
    if (!rc) {
        ah_placement_choose(&cpu->placement, &topology, options->compute_threads, options->host_threads);
        if (options->shared)
            ah_placement_untie(&cpu->placement);
        fill_info(&cpu->common.info, &topology, &memory);
        rc = open_lanes(cpu, options, err);
    }
    ah_topology_release(&topology);
    return rc;
}

static void cpu_drain(struct ah_device *device)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    for (unsigned lane = 0; lane < AH_DEVICE_LANES_ALL; lane++)
        if (cpu->lanes[lane].lane)
            ah_lane_drain(cpu->lanes[lane].lane);
}

static void cpu_close(struct ah_device *device)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    cpu_drain(device); /* lanes wait for each other's tickets, so all must be empty before one ends */
    for (unsigned lane = 0; lane < AH_DEVICE_LANES_ALL; lane++) {
        ah_lane_free(cpu->lanes[lane].lane);
        ah_pool_free(cpu->lanes[lane].pool);
    }
    ah_matmul_free(cpu->matmul);
    ah_workspace_release(&cpu->workspace);
    ah_lane_bell_free(cpu->bell);
    for (unsigned arena = 0; arena < AH_ARENA_KINDS; arena++)
        ah_region_release(&cpu->arenas[arena]);
    pthread_mutex_destroy(&cpu->failure_lock);
    free(cpu);
}

static int cpu_open(struct ah_device **ret_device, const struct ah_device_options *options,
                    struct ah_error *err)
{
    if (options->index != 0)
        return ah_error_set(err, AH_E_MISSING, "there is only one device 'cpu', but number %u was requested",
                            options->index);
    if (options->n_algorithms)
        return ah_error_set(
            err, AH_E_USAGE,
            "device 'cpu' has no use for a table of algorithms; its products depend only on the shape");
    struct ah_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return ah_error_memory(err);
    pthread_mutex_init(&cpu->failure_lock, NULL);
    cpu->common.driver = ah_device_cpu();
    cpu->pace = options->pace;
    cpu->on_failure = options->failed;
    cpu->on_failure_context = options->failed_context;
    open_throttles(cpu, &options->throttle);
    int rc = open_parts(cpu, options, err);
    if (rc) {
        cpu_close(&cpu->common);
        return rc;
    }
    *ret_device = &cpu->common;
    return AH_OK;
}

/* Checks the epilogue of a matmul. `supports` does not cover it, because it is not an op kind. */
static int check_matmul(const struct ah_op *op, struct ah_error *err)
{
    if (op->u.matmul.epilogue == AH_EPILOGUE_BIAS_GELU)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "device 'cpu' cannot fuse gelu into op 'matmul'; use matmul and activation");
    return AH_OK;
}

static int prepare_matmul(struct ah_cpu_device *cpu, const struct ah_op *op, struct ah_error *err)
{
    struct ah_matmul_shape shape = ah_blocking_shape(op);
    int rc = check_matmul(op, err);
    return rc ? rc : ah_matmul_prepare(cpu->matmul, &shape, err);
}

static int cpu_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = ops[i].kind == AH_OP_MATMUL ? prepare_matmul(cpu, &ops[i], err)
                                         : ah_workspace_prepare(&cpu->workspace, &ops[i], err);
    device->reserve_bytes = ah_matmul_workspace_bytes(cpu->matmul) + cpu->workspace.region.bytes;
    return rc;
}

static void store_failure(struct ah_cpu_task *task, int rc, struct ah_error *why)
{
    struct ah_cpu_device *cpu = task->device;
    uint32_t lane = (uint32_t)(task->lane - cpu->lanes);
    ah_error_prefix(why, rc, "op '%s' on lane '%s'", ah_op_name(task->op.kind), ah_device_lane_name(lane));
    pthread_mutex_lock(&cpu->failure_lock);
    const bool first = !atomic_load(&cpu->failed);
    if (first) {
        cpu->failure = *why;
        cpu->common.failed = (struct ah_device_failed){true, lane, task->tag};
        atomic_store(&cpu->failed, true);
    }
    pthread_mutex_unlock(&cpu->failure_lock);
    if (first && cpu->on_failure)
        cpu->on_failure(cpu->on_failure_context, why);
}

static void run_task(void *payload)
{
    struct ah_cpu_task *task = payload;
    struct ah_error why = {0};
    if (atomic_load(&task->device->failed))
        return;
    const struct ah_device_pace *pace = &task->device->pace;
    const uint32_t lane = (uint32_t)(task->lane - task->device->lanes);
    int rc = task->pace & AH_PACE_BEGINS ? pace->begin(pace->context, lane, task->tag, &why) : AH_OK;
    rc = rc ? rc : ah_cpu_dispatch(task, &why);
    if (rc)
        store_failure(task, rc, &why);
    else if (task->pace & AH_PACE_ENDS)
        pace->end(pace->context, lane, task->tag);
}

/* Finds the prepared product of a matmul; NULL for other ops. AH_E_USAGE if the op's shape was not prepared. */
static int find_product(const struct ah_cpu_device *cpu, const struct ah_op *op,
                        struct ah_matmul_product **ret_product, struct ah_error *err)
{
    struct ah_matmul_product *product = NULL;
    if (op->kind == AH_OP_MATMUL) {
        struct ah_matmul_shape shape = ah_blocking_shape(op);
        int rc = check_matmul(op, err);
        if (rc)
            return rc;
        product = ah_matmul_find(cpu->matmul, &shape);
        if (!product)
            return ah_error_set(err, AH_E_USAGE, "op 'matmul': this shape was not prepared");
    }
    if (!ah_workspace_holds(&cpu->workspace, op))
        return ah_error_set(err, AH_E_USAGE, "op '%s': this shape was not prepared", ah_op_name(op->kind));
    *ret_product = product;
    return AH_OK;
}

static int queue_op(struct ah_cpu_device *cpu, const struct ah_submission *submission, struct ah_error *err)
{
    struct ah_cpu_lane *lane = &cpu->lanes[submission->lane];
    struct ah_cpu_task task = {.device = cpu,
                               .lane = lane,
                               .tag = submission->tag,
                               .pace = cpu->pace.begin ? submission->pace : 0,
                               .op = *submission->op};
    struct ah_lane_wait waits[AH_DEVICE_WAITS_MAX];
    int rc = find_product(cpu, submission->op, &task.product, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < submission->n_waits; i++)
        waits[i] =
            (struct ah_lane_wait){cpu->lanes[submission->waits[i].lane].lane, submission->waits[i].ticket};
    struct ah_lane_job job = {.run = run_task,
                              .payload = &task,
                              .payload_bytes = sizeof task,
                              .waits = waits,
                              .n_waits = submission->n_waits,
                              .tag = submission->tag};
    rc = ah_lane_submit(lane->lane, &job, NULL);
    return rc ? ah_error_set(err, rc, "op '%s' could not be queued", ah_op_name(task.op.kind)) : AH_OK;
}

static int cpu_submit(struct ah_device *device, const struct ah_submission *submissions, size_t n,
                      struct ah_error *err)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    struct ah_matmul_product *product;
    int rc = AH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = find_product(cpu, submissions[i].op, &product, err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = queue_op(cpu, &submissions[i], err);
    return rc;
}

static int first_failure(struct ah_cpu_device *cpu, struct ah_error *err)
{
    if (!atomic_load(&cpu->failed))
        return AH_OK;
    pthread_mutex_lock(&cpu->failure_lock);
    int rc = cpu->failure.code;
    if (err)
        *err = cpu->failure;
    pthread_mutex_unlock(&cpu->failure_lock);
    return rc;
}

static int cpu_wait(struct ah_device *device, uint32_t lane, uint64_t ticket, struct ah_error *err)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    ah_lane_wait(cpu->lanes[lane].lane, ticket);
    return first_failure(cpu, err);
}

static int cpu_wait_any(struct ah_device *device, const struct ah_wait *waits, size_t n, size_t *ret_met,
                        struct ah_error *err)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    struct ah_lane_wait of_lanes[AH_DEVICE_LANES_MAX];
    for (size_t i = 0; i < n; i++)
        of_lanes[i] = (struct ah_lane_wait){cpu->lanes[waits[i].lane].lane, waits[i].ticket};
    size_t met = ah_lane_wait_any(cpu->bell, of_lanes, n);
    int rc = first_failure(cpu, err);
    if (!rc)
        *ret_met = met;
    return rc;
}

static uint64_t cpu_done(struct ah_device *device, uint32_t lane)
{
    return ah_lane_done(cpu_of(device)->lanes[lane].lane);
}

static size_t cpu_spans(struct ah_device *device, uint32_t lane, uint64_t after, struct ah_span *ret_spans,
                        size_t max)
{
    enum { AT_ONCE = 64 };
    struct ah_lane_span some[AT_ONCE];
    size_t n = 0, found = AT_ONCE;
    while (n < max && found == AT_ONCE) {
        found = ah_lane_spans(cpu_of(device)->lanes[lane].lane, after, some,
                              max - n < AT_ONCE ? max - n : AT_ONCE);
        for (size_t i = 0; i < found; i++, n++)
            ret_spans[n] = (struct ah_span){some[i].ticket,   some[i].tag,    some[i].ready_ns,
                                            some[i].start_ns, some[i].end_ns, 0};
        if (n)
            after = ret_spans[n - 1].ticket;
    }
    return n;
}

/* Returns a number that changes with progress. A slowed lane also sleeps, so passing time counts as its progress. */
static uint64_t cpu_pulse(struct ah_device *device)
{
    uint64_t pulse = 0;
    for (unsigned i = 0; i < device->lanes; i++) {
        const struct ah_cpu_lane *lane = &cpu_of(device)->lanes[i];
        const bool slowed =
            lane->throttle.work_per_s > 0 || lane->throttle.latency_ns > 0 || lane->bytes_per_s > 0;
        pulse += ah_lane_done(lane->lane);
        if (ah_lane_busy(lane->lane))
            pulse += slowed ? ah_threads_now_ns() : ah_lane_cpu_ns(lane->lane) + ah_pool_cpu_ns(lane->pool);
    }
    return pulse;
}

static void cpu_head(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head)
{
    struct ah_cpu_device *cpu = cpu_of(device);
    struct ah_lane_head head;
    struct ah_cpu_task task;
    ah_lane_head(cpu->lanes[lane].lane, &head, &task, sizeof task);
    *ret_head = (struct ah_device_head){.submitted = head.submitted, .done = head.done, .any = head.any};
    if (!head.any)
        return;
    ret_head->kind = task.op.kind;
    ret_head->tag = task.tag;
    for (size_t i = 0; i < head.n_waits; i++)
        for (uint32_t other = 0; other < device->lanes; other++)
            if (cpu->lanes[other].lane == head.waits[i].lane)
                ret_head->waits[ret_head->n_waits++] = (struct ah_wait){other, head.waits[i].ticket};
}

static void *cpu_address(struct ah_device *device, enum ah_arena_kind arena)
{
    return cpu_of(device)->arenas[arena].data;
}

const struct ah_device_driver *ah_device_cpu(void)
{
    static const struct ah_device_driver driver = {
        .abi = AH_DEVICE_ABI,
        .layout = AH_DEVICE_LAYOUT,
        .name = "cpu",
        .messages = true,
        .probe = cpu_probe,
        .open = cpu_open,
        .close = cpu_close,
        .prepare = cpu_prepare,
        .reserve = cpu_reserve,
        .submit = cpu_submit,
        .wait = cpu_wait,
        .wait_any = cpu_wait_any,
        .done = cpu_done,
        .spans = cpu_spans,
        .pulse = cpu_pulse,
        .head = cpu_head,
        .drain = cpu_drain,
        .address = cpu_address,
    };
    return &driver;
}
