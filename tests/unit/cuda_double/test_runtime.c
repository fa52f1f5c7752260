/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the double of the CUDA runtime: it orders work exactly as far as CUDA guarantees, counts memory, refuses
 * misuse, and fails where a test asks for failure.
 */
#include "tests/double/cuda/double.h"
#include "tests/support/check.h"
#include "tests/unit/cuda_double/kernels.h"

#include <cudaTypedefs.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 4096, BYTES = WORDS * 4, DELAY_US = 20000, STREAMS = 2 };

/* Two streams, device memory and pinned memory. */
struct scene {
    cudaStream_t streams[STREAMS];
    unsigned *device;
    unsigned *pinned;
};

static void be(unsigned copy_delay_us)
{
    struct cuda_double settings = cuda_double_default();
    settings.copy_delay_us = copy_delay_us;
    cuda_double_set(&settings);
}

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    be(0);
    for (size_t i = 0; i < STREAMS; i++)
        assert_int_equal(cudaStreamCreateWithFlags(&s->streams[i], cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&s->device, BYTES), cudaSuccess);
    assert_int_equal(cudaHostAlloc((void **)&s->pinned, BYTES, cudaHostAllocDefault), cudaSuccess);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    be(0);
    for (size_t i = 0; i < STREAMS; i++)
        assert_int_equal(cudaStreamDestroy(s->streams[i]), cudaSuccess);
    assert_int_equal(cudaFree(s->device), cudaSuccess);
    assert_int_equal(cudaFreeHost(s->pinned), cudaSuccess);
    assert_int_equal(cuda_double_alive().device_bytes, 0);
    assert_int_equal(cuda_double_alive().pinned_ranges, 0);
    assert_int_equal(cuda_double_alive().streams, 0);
    assert_int_equal(cuda_double_alive().events, 0);
    free(s);
    return 0;
}

static cudaEvent_t new_event(unsigned flags)
{
    cudaEvent_t event = NULL;
    assert_int_equal(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
}

static cudaError_t write_words(const struct scene *s, cudaStream_t stream, unsigned value)
{
    const struct kernel_case c = {.grid = {2, 1, 1}, .block = {64, 1, 1}, .stream = stream, .out = s->device};
    return kernel_writes(&c, value, WORDS);
}

static void expect_misuse(unsigned before, const char *text)
{
    char report[CUDA_DOUBLE_REPORT_MAX];
    cuda_double_report(report);
    check_text_has(report, text);
    assert_int_equal(cuda_double_misuses(), before + 1);
}

/* ---- order ---- */

TEST_IN(runtime, a_stream_runs_its_work_in_order, set_up, tear_down)
{
    struct scene *s = *state;
    be(100);
    for (unsigned round = 1; round < 20; round++) {
        assert_int_equal(write_words(s, s->streams[0], round), cudaSuccess);
        assert_int_equal(cudaMemcpyAsync(s->pinned, s->device, BYTES, cudaMemcpyDeviceToHost, s->streams[0]),
                         cudaSuccess);
        assert_int_equal(cudaMemsetAsync(s->device, 0, BYTES, s->streams[0]), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaSuccess);
        for (size_t i = 0; i < WORDS; i++)
            assert_int_equal(s->pinned[i], round);
    }
}

/* A stream reads memory as it was before if it does not wait for the stream that changes it. */
TEST_IN(runtime, streams_do_not_wait_for_each_other, set_up, tear_down)
{
    struct scene *s = *state;
    be(DELAY_US);
    s->pinned[0] = 1;
    assert_int_equal(cudaMemcpyAsync(s->device, s->pinned, 4, cudaMemcpyHostToDevice, s->streams[0]),
                     cudaSuccess);
    assert_int_equal(write_words(s, s->streams[1], 7), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(s->streams[1]), cudaSuccess);
    assert_int_equal(cudaStreamQuery(s->streams[0]), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaSuccess);
    assert_int_equal(s->device[0], 1); /* the copy ran after the kernel */
    assert_int_equal(s->device[1], 7);
}

TEST_IN(runtime, a_stream_waits_for_an_event_as_it_was_recorded, set_up, tear_down)
{
    struct scene *s = *state;
    cudaEvent_t event = new_event(cudaEventDisableTiming);
    be(DELAY_US);
    s->pinned[0] = 1;
    assert_int_equal(cudaMemcpyAsync(s->device, s->pinned, 4, cudaMemcpyHostToDevice, s->streams[0]),
                     cudaSuccess);
    assert_int_equal(cudaEventRecord(event, s->streams[0]), cudaSuccess);
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    assert_int_equal(cudaStreamWaitEvent(s->streams[1], event, 0), cudaSuccess);
    assert_int_equal(cudaEventRecord(event, s->streams[1]), cudaSuccess); /* the wait above is unchanged */
    assert_int_equal(cudaEventDestroy(event), cudaSuccess);
    assert_int_equal(write_words(s, s->streams[1], 7), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(s->streams[1]), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaSuccess);
    assert_int_equal(s->device[0], 7); /* the kernel ran after the copy */
}

TEST_IN(runtime, events_measure_time, set_up, tear_down)
{
    struct scene *s = *state;
    cudaEvent_t begin = new_event(cudaEventDefault), end = new_event(cudaEventDefault);
    float ms = -1;
    be(DELAY_US);
    assert_int_equal(cudaEventRecord(begin, s->streams[0]), cudaSuccess);
    assert_int_equal(cudaMemsetAsync(s->device, 0, BYTES, s->streams[0]), cudaSuccess);
    assert_int_equal(cudaEventRecord(end, s->streams[0]), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
    assert_int_equal(cudaEventSynchronize(end), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
    assert_true(ms >= DELAY_US / 1000.0f);
    assert_int_equal(cudaEventDestroy(begin), cudaSuccess);
    assert_int_equal(cudaEventDestroy(end), cudaSuccess);
}

static void *entry_point(const char *name)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
    void *function = NULL;
    assert_int_equal(cudaGetDriverEntryPointByVersion(name, &function, 11070, cudaEnableDefault, &found),
                     cudaSuccess);
    assert_int_equal(found, function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound);
    return function;
}

TEST_IN(runtime, a_stream_waits_for_a_value_and_writes_one, set_up, tear_down)
{
    struct scene *s = *state;
    union {
        void *place;
        PFN_cuStreamWaitValue64_v11070 wait;
        PFN_cuStreamWriteValue64_v11070 write;
    } wait = {entry_point("cuStreamWaitValue64")}, write = {entry_point("cuStreamWriteValue64")};
    uint64_t *words = (uint64_t *)(void *)s->pinned;
    words[0] = words[1] = 0;
    assert_int_equal(wait.wait(s->streams[0], (uintptr_t)&words[0], 5, CU_STREAM_WAIT_VALUE_GEQ),
                     CUDA_SUCCESS);
    assert_int_equal(write.write(s->streams[0], (uintptr_t)&words[1], 9, 0), CUDA_SUCCESS);
    const struct timespec moment = {0, 5000000};
    __atomic_store_n(&words[0], 4, __ATOMIC_RELEASE);
    (void)nanosleep(&moment, NULL);
    assert_int_equal(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&words[0], 6, __ATOMIC_RELEASE);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaSuccess);
    assert_int_equal(words[1], 9);
    assert_null(entry_point("cuStreamFlyAway"));
}

/* ---- memory ---- */

TEST_IN(runtime, memory_is_counted_and_ends, set_up, tear_down)
{
    struct cuda_double settings = cuda_double_default();
    size_t free_bytes = 0, total_bytes = 0;
    unsigned *place = NULL, *more = NULL;
    settings.devices[0].memory_bytes = 1 << 20;
    settings.devices[0].others_bytes = 1 << 18;
    cuda_double_set(&settings);
    const size_t there = cuda_double_alive().device_bytes, most = (1 << 20) - (1 << 18) - there;
    assert_int_equal(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    assert_int_equal(free_bytes, most);
    assert_int_equal(total_bytes, 1 << 20);
    assert_int_equal(cudaMalloc((void **)&place, most + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&place, most), cudaSuccess);
    assert_int_equal(place[0], 0xffffffffu); /* new memory is not zeroed */
    assert_int_equal(cudaMalloc((void **)&more, 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaFree(place), cudaSuccess);
    assert_int_equal(cuda_double_alive().device_bytes, there);
}

static size_t free_now(void)
{
    size_t free_bytes = 0, total_bytes = 0;
    assert_int_equal(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    return free_bytes;
}

/* A kernel's code takes memory at its first launch and keeps it. A first launch without room for the code fails. */
TEST_IN(runtime, code_takes_memory, set_up, tear_down)
{
    enum { CODE = 1 << 18 };
    struct scene *s = *state;
    struct cuda_double settings = cuda_double_default();
    const struct kernel_case places = {{1, 1, 1}, {32, 1, 1}, 0, s->streams[1], s->device};
    unsigned *rest = NULL;
    settings.kernel_bytes = CODE;
    cuda_double_set(&settings);
    const size_t before = free_now();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(write_words(s, s->streams[1], i), cudaSuccess);
        assert_int_equal(free_now(), before - CODE);
    }
    assert_int_equal(cudaMalloc((void **)&rest, before - CODE - CODE / 2), cudaSuccess);
    assert_int_equal(kernel_places(&places), cudaErrorMemoryAllocation);
    assert_int_equal(cudaFree(rest), cudaSuccess);
    assert_int_equal(kernel_places(&places), cudaSuccess);
    assert_int_equal(free_now(), before - (size_t)(2 * CODE));
    assert_int_equal(cudaStreamSynchronize(s->streams[1]), cudaSuccess);
}

static cudaError_t copy_up(const struct scene *s, void *to, const void *from, size_t bytes)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->streams[0]);
}

TEST_IN(runtime, refuses_copies_of_the_wrong_memory, set_up, tear_down)
{
    struct scene *s = *state;
    unsigned plain[4] = {0}, *gone = NULL;
    assert_int_equal(cudaMalloc((void **)&gone, 64), cudaSuccess);
    assert_int_equal(cudaFree(gone), cudaSuccess);
    assert_int_equal(copy_up(s, s->device, plain, 16), cudaErrorInvalidValue);
    expect_misuse(0, "from memory that is neither the device's nor pinned");
    assert_int_equal(copy_up(s, s->pinned, s->pinned, 16), cudaErrorInvalidValue);
    expect_misuse(1, "to pinned memory");
    assert_int_equal(copy_up(s, s->device + WORDS - 3, s->pinned, 16), cudaErrorInvalidValue);
    expect_misuse(2, "to memory that reaches over the end");
    assert_int_equal(copy_up(s, gone, s->pinned, 16), cudaErrorInvalidValue);
    expect_misuse(3, "to memory that was freed");
    assert_int_equal(cudaMemcpy(s->device, plain, 16, cudaMemcpyHostToDevice), cudaSuccess); /* waits */
    assert_int_equal(cudaMemsetAsync(s->pinned, 0, 16, s->streams[0]), cudaErrorInvalidValue);
    expect_misuse(4, "to pinned memory");
}

TEST_IN(runtime, pins_memory_once_and_while_it_is_used, set_up, tear_down)
{
    struct scene *s = *state;
    unsigned *plain = aligned_alloc(4096, BYTES);
    void *place = NULL;
    assert_non_null(plain);
    memset(plain, 1, BYTES);
    assert_int_equal(cudaHostRegister(plain, BYTES, cudaHostRegisterDefault), cudaSuccess);
    assert_int_equal(cudaHostRegister(plain + 100, 16, cudaHostRegisterDefault),
                     cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostGetDevicePointer(&place, plain + 7, 0), cudaSuccess);
    assert_ptr_equal(place, plain + 7);
    assert_int_equal(copy_up(s, s->device, plain, BYTES), cudaSuccess);
    assert_int_equal(cudaHostUnregister(plain), cudaSuccess);
    assert_int_equal(s->device[WORDS - 1], 0x01010101);
    assert_int_equal(copy_up(s, s->device, plain, BYTES), cudaErrorInvalidValue);
    expect_misuse(0, "no longer pinned");
    assert_int_equal(cudaHostUnregister(plain), cudaErrorHostMemoryNotRegistered);
    free(plain);
}

/* ---- misuse ---- */

TEST_IN(runtime, refuses_events_and_streams_that_are_none, set_up, tear_down)
{
    struct scene *s = *state;
    cudaEvent_t event = new_event(cudaEventDefault);
    cudaStream_t stream = NULL;
    float ms = 0;
    assert_int_equal(cudaStreamWaitEvent(s->streams[0], event, 0), cudaErrorInvalidResourceHandle);
    expect_misuse(0, "cudaStreamWaitEvent of an event that was never recorded");
    assert_int_equal(cudaEventElapsedTime(&ms, event, event), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaEventDestroy(event), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamDefault), cudaErrorInvalidValue);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

/* A launch runs on the current device. An event belongs to the device on which it was created. */
TEST_IN(runtime, refuses_streams_of_another_device, set_up, tear_down)
{
    struct scene *s = *state;
    struct cuda_double settings = cuda_double_default();
    settings.n = 2;
    cuda_double_set(&settings);
    assert_int_equal(write_words(s, s->streams[0], 1), cudaSuccess);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    assert_int_equal(write_words(s, s->streams[0], 1), cudaErrorInvalidResourceHandle);
    expect_misuse(0, "a launch of GPU 1 and a stream of GPU 0");
    cudaEvent_t event = new_event(cudaEventDefault);
    assert_int_equal(cudaEventRecord(event, s->streams[0]), cudaErrorInvalidResourceHandle);
    expect_misuse(1, "an event of GPU 1 and a stream of GPU 0");
    assert_int_equal(cudaEventDestroy(event), cudaSuccess);
}

TEST_IN(runtime, refuses_launches_beyond_the_hardware, set_up, tear_down)
{
    struct scene *s = *state;
    static const struct {
        dim3 grid, block;
        size_t shared_bytes;
        cudaError_t code;
    } cases[] = {
        {{1, 1, 1}, {1025, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {33, 32, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 65}, 0, cudaErrorInvalidConfiguration},
        {{1, 65536, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{0, 1, 1}, {32, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {32, 1, 1}, (48 << 10) + 1, cudaErrorInvalidValue},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct kernel_case c = {cases[i].grid, cases[i].block, cases[i].shared_bytes, s->streams[0],
                                      s->device};
        assert_int_equal(kernel_looks_at_shared(&c), cases[i].code);
        assert_int_equal(cuda_double_misuses(), i + 1);
    }
    const struct kernel_case large = {{1, 1, 1}, {32, 1, 1}, 100 << 10, s->streams[0], s->device};
    assert_int_equal(kernel_allow_shared((227 << 10) + 1), cudaErrorInvalidValue);
    assert_int_equal(kernel_allow_shared(100 << 10), cudaSuccess);
    assert_int_equal(kernel_looks_at_shared(&large), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaSuccess);
}

/* A first launch loads the kernel's code, and that may wait for the stream. So may calls that allocate memory. */
TEST_IN(runtime, refuses_a_first_launch_while_a_stream_waits_for_the_host, set_up, tear_down)
{
    struct scene *s = *state;
    const struct kernel_case places = {{1, 1, 1}, {32, 1, 1}, 0, s->streams[1], s->device};
    union {
        void *place;
        PFN_cuStreamWaitValue64_v11070 wait;
    } wait = {entry_point("cuStreamWaitValue64")};
    uint64_t *word = (uint64_t *)(void *)s->pinned;
    *word = 0;
    assert_int_equal(write_words(s, s->streams[1], 1), cudaSuccess);
    assert_int_equal(wait.wait(s->streams[0], (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    assert_int_equal(write_words(s, s->streams[1], 2), cudaSuccess);
    assert_int_equal(kernel_places(&places), cudaErrorNotPermitted);
    expect_misuse(0, "launched for the first time while a stream waits for the host");
    void *more = NULL;
    assert_int_equal(cudaMalloc(&more, 64), cudaErrorNotPermitted);
    expect_misuse(1, "cudaMalloc while a stream waits for the host");
    assert_int_equal(cudaHostAlloc(&more, 64, cudaHostAllocDefault), cudaErrorNotPermitted);
    expect_misuse(2, "cudaHostAlloc while a stream waits for the host");
    assert_int_equal(cudaMemset(s->device, 0, 64), cudaErrorNotPermitted);
    expect_misuse(3, "cudaMemset while a stream waits for the host");
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaSuccess);
    assert_int_equal(kernel_places(&places), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(s->streams[1]), cudaSuccess);
}

/* ---- faults ---- */

TEST_IN(runtime, fails_the_call_that_it_is_told_to, set_up, tear_down)
{
    struct scene *s = *state;
    void *place = NULL;
    be(0); /* counting of calls starts here */
    cuda_double_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    cuda_double_fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    assert_int_equal(cudaMalloc(&place, 16), cudaSuccess);
    assert_int_equal(cudaFree(place), cudaSuccess);
    assert_int_equal(write_words(s, s->streams[0], 1), cudaErrorLaunchOutOfResources);
    assert_int_equal(cudaMalloc(&place, 16), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&place, 16), cudaSuccess);
    assert_int_equal(cudaFree(place), cudaSuccess);
    assert_int_equal(write_words(s, s->streams[0], 1), cudaSuccess);
    assert_int_equal(cuda_double_calls("cudaMalloc"), 3);
    assert_int_equal(cuda_double_calls("cudaLaunchKernel"), 2);
    assert_int_equal(cuda_double_calls("any"), 7);
    assert_string_equal(cuda_double_called(0), "cudaMalloc");
    cuda_double_fail("any", 8, cudaErrorUnknown);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaErrorUnknown);
}

/* Every call to a broken device returns the error that broke it. No call waits for the device's streams. */
TEST_IN(runtime, a_broken_device_stays_so, set_up, tear_down)
{
    struct scene *s = *state;
    cudaEvent_t event = new_event(cudaEventDefault);
    be(DELAY_US);
    assert_int_equal(cudaMemsetAsync(s->device, 0, BYTES, s->streams[0]), cudaSuccess);
    assert_int_equal(cudaEventRecord(event, s->streams[0]), cudaSuccess);
    cuda_double_fail("cudaStreamQuery", 1, cudaErrorIllegalAddress);
    assert_int_equal(cudaStreamQuery(s->streams[1]), cudaErrorIllegalAddress);
    assert_int_equal(cudaEventQuery(event), cudaErrorIllegalAddress);
    assert_int_equal(cudaEventSynchronize(event), cudaErrorIllegalAddress);
    assert_int_equal(cudaStreamSynchronize(s->streams[0]), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaEventDestroy(event),
                     cudaErrorIllegalAddress); /* destroyed despite the error: tear_down checks */
}

TEST_IN(runtime, reads_the_environment, set_up, tear_down)
{
    setenv("AUTOHETE_CUDA_DOUBLE",
           "memory=3MiB,others=1KiB,kernel=2KiB,devices=2,copy_delay_us=5,order=9,fail=any:4:719,missing="
           "cuDeviceGet,"
           "capability=8.6",
           1);
    const struct cuda_double settings = cuda_double_default();
    unsetenv("AUTOHETE_CUDA_DOUBLE");
    assert_int_equal(settings.n, 2);
    assert_int_equal(settings.devices[1].memory_bytes, 3 << 20);
    assert_int_equal(settings.devices[0].others_bytes, 1 << 10);
    assert_int_equal(settings.devices[0].major * 10 + settings.devices[0].minor, 86);
    assert_int_equal(settings.kernel_bytes, 2 << 10);
    assert_int_equal(settings.copy_delay_us, 5);
    assert_int_equal(settings.order, 9);
    assert_string_equal(settings.faults[0].call, "any");
    assert_int_equal(settings.faults[0].nth, 4);
    assert_int_equal(settings.faults[0].code, cudaErrorLaunchFailure);
    assert_string_equal(settings.missing[0], "cuDeviceGet");
}
