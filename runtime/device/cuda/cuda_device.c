/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA device: open, prepare, close.
 *
 * MEMORY of the GPU, as plans count it. `memory_bytes` is all of it, `free_bytes` what is free once the device is open.
 * `reserve_bytes` is the memory outside the arena: the context, the workspaces of products and kernels, and
 * AH_CUDA_CODE_BYTES for kernel code, which the driver loads at a kernel's first launch (warm.c). The context's size is
 * what is not free once all is open, rounded up to CONTEXT_STEP_BYTES. So a plan made in one process still fits in
 * another whose context has a few more pages. At most CONTEXT_MOST_BYTES is counted, since other processes may use the
 * rest. A process needs arena plus reserve, so a plan for 12 GiB runs on a GPU of 12 GiB.
 *
 * Memory that messages have taken before is not in `reserve_bytes`, since plans do not know of it. It is in
 * `outside_bytes`, so a run warns if the plan leaves too little. The GPU's free memory must hold the arena beside it.
 *
 * `reserve_bytes` is an estimate, made before kernels are loaded and host memory is locked. Afterwards arenas.c
 * measures what is in use outside the arena: `outside_bytes`.
 *
 * Each call makes this device current on the calling thread, and leaves it so.
 */
#include "base/units.h"
#include "runtime/device/cuda/cuda_internal.h"
#include "runtime/device/cuda/errors.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t CONTEXT_MOST_BYTES = UINT64_C(1) << 30, CONTEXT_STEP_BYTES = UINT64_C(32) << 20;

/* ---- the GPU ---- */

static int check_options(const struct ah_device_options *options, struct ah_error *err)
{
    const struct ah_device_throttle *throttle = &options->throttle;
    if (options->pace.begin)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "device 'cuda' cannot be paced; pace runs on the device 'cpu'");
    if (throttle->h2d_bytes_per_s > 0 || throttle->d2h_bytes_per_s > 0 || throttle->copy_latency_us > 0 ||
        throttle->host_adam_params_per_s > 0 || throttle->host_bytes_per_s > 0)
        return ah_error_set(err, AH_E_UNSUPPORTED,
                            "device 'cuda' cannot slow its lanes; emulate machines on the device 'cpu'");
    return AH_OK;
}

static int check_index(uint32_t index, struct ah_error *err)
{
    int n = 0;
    int rc = ah_cuda_count(&n, err);
    if (rc || index < (uint32_t)n)
        return rc;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return ah_error_set(err, AH_E_MISSING,
                        "there is no device 'cuda:%u': %d %s visible%s%.64s%s; choose 'cuda:0'%s", index, n,
                        n == 1 ? "GPU is" : "GPUs are", visible ? " (CUDA_VISIBLE_DEVICES is '" : "",
                        visible ? visible : "", visible ? "')" : "", n > 1 ? " or the next" : "");
}

static int check_properties(const struct cudaDeviceProp *properties, struct ah_error *err)
{
    if (properties->major >= 8)
        return AH_OK;
    return ah_error_set(
        err, AH_E_MISSING,
        "GPU '%.64s' has compute capability %d.%d, but 8.0 (Ampere) or later is needed; use another GPU or "
        "the device 'cpu'",
        properties->name, properties->major, properties->minor);
}

/* Checks that the driver lets streams wait for a value in memory, because that is how they wait for the host. */
static int check_waits(const struct ah_cuda_device *cuda, struct ah_error *err)
{
    CUdevice device;
    int able = 0;
    CUresult rc = cuda->driver.device_get(&device, cuda->index);
    if (rc == CUDA_SUCCESS)
        rc = cuda->driver.device_attribute(&able, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device);
    if (rc != CUDA_SUCCESS)
        return ah_cuda_error(err, (cudaError_t)rc, "cuDeviceGetAttribute");
    if (!able)
        return ah_error_set(
            err, AH_E_MISSING,
            "the NVIDIA driver offers no stream memory operations (cuStreamWaitValue64) on GPU '%s'; "
            "upgrade it",
            cuda->common.info.name);
    return AH_OK;
}

uint64_t ah_cuda_workspace_bytes(const struct ah_cuda_device *cuda)
{
    return (cuda->side.stream ? 2 : 1) * (uint64_t)AH_CUDA_KERNEL_WORKSPACE_BYTES;
}

/* Measures the memory of context and libraries. All else must be open already. */
static int measure_context(struct ah_cuda_device *cuda, struct ah_error *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    struct ah_cuda_kept *kept = cuda->kept;
    if (kept && kept->free_bytes) { /* measured before kernel code and locked memory were added */
        cuda->common.info.free_bytes = kept->free_bytes;
        cuda->context_bytes = kept->context_bytes;
        return AH_OK;
    }
    int rc = ah_cuda_check(err, cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    if (rc)
        return rc;
    uint64_t ours = ah_cuda_workspace_bytes(cuda) + ah_cuda_products_bytes(cuda->products);
    uint64_t taken = total_bytes > free_bytes + ours ? total_bytes - free_bytes - ours : 0;
    cuda->common.info.free_bytes = free_bytes;
    taken = taken > cuda->messages_bytes ? taken - cuda->messages_bytes : 0;
    taken = (taken + CONTEXT_STEP_BYTES - 1) / CONTEXT_STEP_BYTES * CONTEXT_STEP_BYTES;
    cuda->context_bytes = taken < CONTEXT_MOST_BYTES ? taken : CONTEXT_MOST_BYTES;
    if (kept) {
        kept->free_bytes = cuda->common.info.free_bytes;
        kept->context_bytes = cuda->context_bytes;
    }
    return AH_OK;
}

/* Leaves processors to the ranks on other GPUs: no thread is pinned, and the host lane has a part of the threads. */
static int share_processors(struct ah_cuda_device *cuda, const struct ah_device_options *options,
                            struct ah_error *err)
{
    int gpus = 1;
    const int rc = ah_cuda_count(&gpus, err);
    const unsigned part = cuda->near.threads / (unsigned)gpus;
    if (!options->host_threads)
        cuda->near.threads = part ? part : 1;
    for (unsigned i = 0; i < cuda->near.threads; i++)
        cuda->near.cpus[i] = -1;
    return rc;
}

static int open_gpu(struct ah_cuda_device *cuda, const struct ah_device_options *options,
                    struct ah_error *err)
{
    struct cudaDeviceProp properties;
    int rc = check_index(options->index, err);
    if (!rc)
        rc = ah_cuda_describe(cuda->index, &cuda->common.info, &properties, err);
    if (!rc)
        rc = check_properties(&properties, err);
    if (!rc)
        rc = ah_cuda_check(err, cudaSetDevice(cuda->index), "cudaSetDevice"); /* makes the context */
    if (!rc)
        rc = ah_cuda_driver_calls_find(&cuda->driver, err);
    if (!rc)
        rc = check_waits(cuda, err);
    if (rc)
        return rc;
    cuda->processors = (uint32_t)properties.multiProcessorCount;
    snprintf(cuda->common.info.address, sizeof cuda->common.info.address, "%04x:%02x:%02x.0",
             (unsigned)properties.pciDomainID, (unsigned)properties.pciBusID,
             (unsigned)properties.pciDeviceID);
    ah_cuda_near_find(
        &cuda->near, &(struct ah_cuda_near_options){.address = cuda->common.info.address,
                                                    .threads = options->host_threads,
                                                    .submitter = options->pin_submitter && !options->shared});
    return options->shared ? share_processors(cuda, options, err) : AH_OK;
}

static int open_products(struct ah_cuda_device *cuda, const struct ah_device_options *options,
                         struct ah_error *err)
{
    int rc = ah_cuda_products_new(&cuda->products, options, err);
    if (!rc)
        snprintf(cuda->common.info.library, sizeof cuda->common.info.library, "%s",
                 ah_cuda_products_library(cuda->products));
    return rc;
}

/* ---- lanes ---- */

static int open_lanes(struct ah_cuda_device *cuda, const struct ah_device_options *options,
                      struct ah_error *err)
{
    int rc = ah_cuda_check(err, cudaMalloc(&cuda->workspace, AH_CUDA_KERNEL_WORKSPACE_BYTES), "cudaMalloc");
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS && !rc; lane++)
        rc = ah_cuda_stream_init(&cuda->streams[lane], lane == AH_LANE_COMPUTE, options, err);
    if (!rc)
        rc = ah_cuda_clock_init(&cuda->clock, err);
    return rc ? rc : ah_cuda_workers_open(cuda, options, err);
}

/* ---- functions of the driver's table ---- */

static void count_reserve(struct ah_cuda_device *cuda)
{
    cuda->common.reserve_bytes = cuda->context_bytes + AH_CUDA_CODE_BYTES + ah_cuda_workspace_bytes(cuda) +
                                 ah_cuda_products_bytes(cuda->products);
}

int ah_cuda_open(struct ah_device **ret_device, const struct ah_device_options *options, struct ah_error *err)
{
    int rc = check_options(options, err);
    if (rc)
        return rc;
    struct ah_cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return ah_error_memory(err);
    pthread_mutex_init(&cuda->lock, NULL);
    pthread_mutex_init(&cuda->failure_lock, NULL);
    cuda->common.driver = ah_plugin_driver();
    cuda->index = (int)options->index;
    cuda->messages_bytes = options->messages_bytes;
    cuda->on_failure = options->failed;
    cuda->on_failure_context = options->failed_context;
    cuda->kept = options->keep ? ah_cuda_kept_find(options->keep, cuda->index) : NULL;
    atomic_store(&cuda->enqueueing, AH_CUDA_STREAMS);
    rc = open_gpu(cuda, options, err);
    if (!rc)
        rc = open_products(cuda, options, err);
    if (!rc)
        rc = open_lanes(cuda, options, err);
    if (!rc)
        rc = measure_context(cuda, err);
    if (rc) {
        ah_cuda_close(&cuda->common);
        return rc;
    }
    count_reserve(cuda);
    *ret_device = &cuda->common;
    return AH_OK;
}

int ah_cuda_prepare(struct ah_device *device, const struct ah_op *ops, size_t n, struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    int rc = ah_cuda_check(err, cudaSetDevice(cuda->index), "cudaSetDevice");
    if (!rc)
        rc = ah_cuda_products_prepare(cuda->products, ops, n, err);
    if (!rc)
        rc = ah_cuda_warm_add(cuda, ops, n, err);
    cuda->common.info.products = ah_cuda_products_count(cuda->products);
    count_reserve(cuda);
    return rc;
}

int ah_cuda_algorithms(struct ah_device *device, const struct ah_op *product,
                       struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                       struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    int rc = ah_cuda_check(err, cudaSetDevice(cuda->index), "cudaSetDevice");
    return rc ? rc : ah_cuda_products_candidates(cuda->products, product, ret_algorithms, max, ret_n, err);
}

/* Waits until nothing runs, even on lost streams. */
static void drain_device(struct ah_cuda_device *cuda)
{
    ah_cuda_workers_drain(cuda);
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        if (cuda->streams[lane].stream)
            (void)cudaStreamSynchronize(cuda->streams[lane].stream);
    (void)cudaDeviceSynchronize(); /* needed if one of the calls above failed */
}

/* ---- recording ---- */

int ah_cuda_record(struct ah_device *device, struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    cudaStream_t streams[AH_CUDA_STREAMS];
    if (cuda->recorder)
        return ah_error_set(err, AH_E_USAGE, "device 'cuda' is already recording; end that recording first");
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        streams[lane] = cuda->streams[lane].stream;
    (void)cudaSetDevice(cuda->index);
    /* CUPTI allocates; without draining, the driver might wait for streams that wait for the host */
    drain_device(cuda);
    (void)cudaGetLastError(); /* the caller that waits for the ops gets the error */
    int rc = ah_cuda_recorder_new(&cuda->recorder, streams, AH_CUDA_STREAMS, err);
    return rc ? ah_error_prefix(err, rc, "recording kernels and copies") : AH_OK;
}

int ah_cuda_recorded(struct ah_device *device, struct ah_device_recording *ret_recording,
                     struct ah_error *err)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    if (!cuda->recorder)
        return ah_error_set(err, AH_E_USAGE, "device 'cuda' is not recording; begin a recording first");
    (void)cudaSetDevice(cuda->index);
    drain_device(cuda);
    (void)cudaGetLastError(); /* the caller that waits for the ops gets the error */
    ah_cuda_recorder_free(cuda->recorded);
    cuda->recorded = cuda->recorder;
    cuda->recorder = NULL;
    int rc = ah_cuda_recorder_stop(cuda->recorded, ret_recording, err);
    return rc ? ah_error_prefix(err, rc, "recording kernels and copies") : AH_OK;
}

/* ---- close ---- */

void ah_cuda_drain(struct ah_device *device)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    (void)cudaSetDevice(cuda->index);
    drain_device(cuda);
    (void)cudaGetLastError();
}

void ah_cuda_close(struct ah_device *device)
{
    struct ah_cuda_device *cuda = ah_cuda_of(device);
    (void)cudaSetDevice(cuda->index);
    drain_device(cuda);
    ah_cuda_near_leave(&cuda->unpinned);
    ah_cuda_recorder_free(cuda->recorder);
    ah_cuda_recorder_free(cuda->recorded);
    ah_cuda_workers_release(cuda);
    ah_cuda_warm_release(&cuda->warm);
    ah_cuda_products_free(cuda->products);
    ah_cuda_clock_release(&cuda->clock);
    for (uint32_t lane = 0; lane < AH_CUDA_STREAMS; lane++)
        ah_cuda_stream_release(&cuda->streams[lane]);
    ah_cuda_release_arenas(cuda);
    if (cuda->workspace)
        (void)cudaFree(cuda->workspace);
    (void)cudaGetLastError(); /* no later call should report errors of closing */
    pthread_mutex_destroy(&cuda->lock);
    pthread_mutex_destroy(&cuda->failure_lock);
    free(cuda);
}
