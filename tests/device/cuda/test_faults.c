/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens, uses and closes a device with all lanes, while each call of the CUDA runtime fails: once with an error of only
 * that call, and once with an error that loses the GPU. The device must report the error, unless it did not need the
 * call. Every wait ends, everything is given back, and hardware would punish nothing.
 */
#include "tests/device/cuda/open.h"

enum { LOOPS = 3, CALLS_MAX = 128 };
/* Scales runs, which take 100 times longer under the thread sanitizer and 10 times under the address sanitizer. */
#if defined(__SANITIZE_THREAD__)
enum { OF_EACH = 1 };
#elif defined(__SANITIZE_ADDRESS__)
enum { OF_EACH = 3 };
#else
enum { OF_EACH = 6 };
#endif

static struct ah_op product_op(void)
{
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 32, .n = 32, .k = 32}};
    for (uint64_t i = 0; i < 3; i++)
        op.arg[i] = (struct ah_ref){AH_ARENA_DEVICE, AH_FP32, i * 8192, 0};
    return op;
}

/* Submits a ring of ops through all lanes. It is longer than the lanes' queues. */
static int work(struct ah_device *device, struct ah_error *err)
{
    const struct ah_op host = fill_op(AH_ARENA_PINNED, 0, 2048, 2),
                       up = copy_op(AH_ARENA_DEVICE, AH_ARENA_PINNED, 0, 8192);
    const struct ah_op product = product_op(), down = copy_op(AH_ARENA_PINNED, AH_ARENA_DEVICE, 8192, 4096);
    int rc = AH_OK;
    for (uint64_t i = 0; i < LOOPS && !rc; i++) {
        const struct ah_wait waits[] = {
            {AH_LANE_D2H, i}, {AH_LANE_HOST, i + 1}, {AH_LANE_H2D, i + 1}, {AH_LANE_COMPUTE, i + 1}};
        const struct ah_submission loop[] = {
            {.lane = AH_LANE_HOST, .op = &host, .waits = &waits[0], .n_waits = 1},
            {.lane = AH_LANE_H2D, .op = &up, .waits = &waits[1], .n_waits = 1},
            {.lane = AH_LANE_COMPUTE, .op = &product, .waits = &waits[2], .n_waits = 1},
            {.lane = AH_LANE_D2H, .op = &down, .waits = &waits[3], .n_waits = 1}};
        rc = ah_device_submit(device, loop, 4, NULL, err);
    }
    return rc ? rc : ah_device_drain(device, err);
}

static void read_spans(struct ah_device *device)
{
    struct ah_span spans[LOOPS];
    for (uint32_t lane = 0; lane < AH_DEVICE_LANES; lane++) {
        struct ah_span_reader reader = {.lane = lane};
        size_t n = ah_device_spans(device, &reader, spans, LOOPS);
        for (size_t i = 0; i < n; i++)
            assert_true(spans[i].ready_ns <= spans[i].start_ns && spans[i].start_ns <= spans[i].end_ns);
    }
}

static int live(struct ah_error *err)
{
    const struct ah_device_options options = {.queue = 2, .host_threads = 1};
    const uint64_t arena_bytes[AH_ARENA_KINDS] = {0, MIB, MIB, 4096};
    const struct ah_op product = product_op();
    struct ah_device_info info;
    struct ah_device *device;
    size_t n;
    int rc = ah_plugin_driver()->probe(&info, 1, &n, err);
    if (!rc)
        rc = ah_device_open(&device, ah_plugin_driver(), &options, err);
    if (rc)
        return rc;
    rc = ah_device_prepare(device, &product, 1, err);
    if (!rc)
        rc = ah_device_reserve(device, arena_bytes, err);
    if (!rc)
        rc = work(device, err);
    read_spans(device);
    ah_device_close(device);
    return rc;
}

static void be_plain(void)
{
    const struct cuda_double settings = cuda_double_default();
    cuda_double_set(&settings);
}

/* True if the call frees something. If such a call fails, what it should have freed stays allocated. */
static bool gives_back(const char *call)
{
    static const char *const calls[] = {"cudaFree", "cudaFreeHost", "cudaStreamDestroy"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(call, calls[i]) == 0)
            return true;
    return false;
}

/* Makes one call fail. Returns true if the device reported the fault. */
static bool fail_one(const char *call, uint64_t nth, cudaError_t code)
{
    const struct cuda_double_alive before = cuda_double_alive();
    struct ah_error err = {0};
    if (strcmp(call, "cudaHostUnregister") == 0) /* its failure keeps memory locked */
        return true;
    be_plain();
    cuda_double_fail(call, nth, code);
    const int rc = live(&err);
    const struct cuda_double_alive after = cuda_double_alive();
    if (rc && (err.code != rc || strlen(err.text) <= 20))
        fail_msg("call %d of %s: code %d, '%s'", (int)nth, call, err.code, err.text);
    if (!gives_back(call) && memcmp(&before, &after, sizeof before) != 0)
        fail_msg("call %d of %s leaves %zu bytes, %zu pinned, %zu streams, %zu events behind", (int)nth, call,
                 after.device_bytes - before.device_bytes, after.pinned_ranges - before.pinned_ranges,
                 after.streams - before.streams, after.events - before.events);
    if (cuda_double_misuses()) {
        char report[CUDA_DOUBLE_REPORT_MAX];
        cuda_double_report(report);
        fail_msg("call %d of %s: %s", (int)nth, call, report);
    }
    return rc != AH_OK;
}

/* The number of calls of each name without faults. It varies, as timing decides how often the host looks at events. */
struct called {
    const char *name;
    uint64_t n;
};

static size_t list_calls(struct called *ret_calls, size_t max)
{
    struct ah_error err = {0};
    size_t n = 0;
    be_plain();
    CHECK_OK(live(&err), err);
    for (const char *name; (name = cuda_double_called((unsigned)n)); n++) {
        assert_true(n < max);
        ret_calls[n] = (struct called){name, cuda_double_calls(name)};
    }
    return n;
}

static void fail_each(cudaError_t code)
{
    struct called calls[CALLS_MAX];
    uint64_t all = 0, told = 0;
    const size_t n = list_calls(calls, CALLS_MAX);
    for (size_t i = 0; i < n; i++)
        for (uint64_t nth = 1; nth <= calls[i].n && nth <= OF_EACH; nth++, all++)
            told += fail_one(calls[i].name, nth, code);
    if (!(n > 30 && told > all / 4)) /* faults while closing are not reported */
        fail_msg("%zu names, %d of %d calls told of", n, (int)told, (int)all);
}

TEST(faults, of_calls_are_survived)
{
    fail_each(cudaErrorInvalidValue);
}

TEST(faults, of_memory_are_survived)
{
    fail_each(cudaErrorMemoryAllocation);
}

TEST(faults, of_the_gpu_are_survived)
{
    fail_each(cudaErrorECCUncorrectable);
}
