/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills. Both ends are checked by the call, and once more when the copy runs, to notice freed memory.
 */
#include "tests/double/cuda/double_internal.h"

#include <stdio.h>
#include <string.h>

struct copy {
    unsigned char *to;
    const unsigned char *from; /* NULL: a fill */
    size_t bytes;
    int value;
    enum cudaMemcpyKind kind;
    bool pageable; /* if true, a host end may be any memory, and the caller waits */
};

/* Returns what is wrong with one end of a copy, or NULL. */
static const char *wrong_end(const void *place, size_t bytes, bool on_device, bool pageable)
{
    enum double_place found = double_place_of(place, bytes);
    bool right =
        on_device ? found == PLACE_DEVICE : found == PLACE_PINNED || (pageable && found != PLACE_DEVICE);
    return right ? NULL : double_place_name(found);
}

static cudaError_t check(const struct copy *copy, char *text)
{
    bool to_device = copy->kind == cudaMemcpyHostToDevice || copy->kind == cudaMemcpyDeviceToDevice;
    bool from_device = copy->kind == cudaMemcpyDeviceToHost || copy->kind == cudaMemcpyDeviceToDevice;
    const char *wrong = wrong_end(copy->to, copy->bytes, to_device, copy->pageable);
    const char *end = "to";
    if (!wrong && copy->from) {
        wrong = wrong_end(copy->from, copy->bytes, from_device, copy->pageable);
        end = "from";
    }
    if (!wrong)
        return cudaSuccess;
    (void)snprintf(text, CUDA_DOUBLE_REPORT_MAX, "a copy of %zu bytes, of kind %d, goes %s %s", copy->bytes,
                   (int)copy->kind, end, wrong);
    return cudaErrorInvalidValue;
}

static cudaError_t run(void *payload, char *report)
{
    const struct copy *copy = payload;
    double_sleep_us(double_settings().copy_delay_us);
    if (double_lost())
        return cudaSuccess;
    if (check(copy, report))
        return cudaErrorIllegalAddress;
    if (copy->from)
        memcpy(copy->to, copy->from, copy->bytes);
    else
        memset(copy->to, copy->value, copy->bytes);
    return cudaSuccess;
}

static cudaError_t enqueue(const struct copy *copy, cudaStream_t stream)
{
    char text[CUDA_DOUBLE_REPORT_MAX];
    if (!copy->bytes)
        return cudaSuccess;
    cudaError_t rc = check(copy, text);
    const struct double_activity activity = {
        .kind = copy->from ? ACTIVITY_COPY : ACTIVITY_FILL, .bytes = copy->bytes, .way = copy->kind};
    const struct double_work work = {run, copy, sizeof *copy, &activity};
    return rc ? double_misuse(rc, "%s", text) : double_enqueue(stream, &work);
}

static cudaError_t copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                        cudaStream_t stream, bool pageable)
{
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice)
        return double_misuse(cudaErrorInvalidMemcpyDirection, "a copy's kind is %d", (int)kind);
    if (!to || !from)
        return bytes ? cudaErrorInvalidValue : cudaSuccess;
    struct copy copy = {.to = to, .from = from, .bytes = bytes, .kind = kind, .pageable = pageable};
    return enqueue(&copy, stream);
}

static cudaError_t fill(void *to, int value, size_t bytes, cudaStream_t stream)
{
    struct copy fill = {.to = to, .value = value & 255, .bytes = bytes, .kind = cudaMemcpyDeviceToDevice};
    return enqueue(&fill, stream);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                      cudaStream_t stream)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : copy(to, from, bytes, kind, stream, false));
}

cudaError_t CUDARTAPI cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t rc = double_enter(__func__);
    rc = rc ? rc : double_idle(__func__);
    rc = rc ? rc : copy(to, from, bytes, kind, NULL, true);
    if (!rc)
        double_wait_for_all_streams();
    return double_leave(rc ? rc : double_lost());
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t rc = double_enter(__func__);
    return double_leave(rc ? rc : fill(to, value, bytes, stream));
}

cudaError_t CUDARTAPI cudaMemset(void *to, int value, size_t bytes)
{
    cudaError_t rc = double_enter(__func__);
    rc = rc ? rc : double_idle(__func__);
    return double_leave(rc ? rc : fill(to, value, bytes, NULL));
}
