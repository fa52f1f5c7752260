/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy, fill, cast, add and accumulate: kernels that read each operand once, write once, and run at memory speed.
 *
 * 1. A thread processes `items` of a row: eight elements, or a unit of bytes moved unchanged. It loads several items
 *    before it stores any, and stores only where no other thread loads, so a result may also be an operand.
 * 2. Rows without gaps count as one row: whole items are moved 16 bytes at a time, the few remaining elements one by
 *    one. Rows with gaps are moved 16 bytes at a time if all begin and end at multiples of 16.
 * 3. Bits are those of runtime/device/host/convert.h. A converted NaN keeps its sign and upper payload; a NaN from an
 *    addition is the GPU's standard NaN.
 */
#include "base/bf16.h"
#include "runtime/device/cuda/kernels/elements.cuh"

enum { THREADS = 256, UNROLL = 4, BLOCKS_PER_PROCESSOR = 16, GRID_Y_MAX = 65535, ITEM = 8 };

/* Operands of an op, the result first. */
enum { OPERANDS = 3 };

struct each_task {
    struct ah_rows of[OPERANDS];
    uint64_t rows;
    uint64_t count; /* elements of a row */
};

template <class Body>
static __global__ void __launch_bounds__(THREADS) each(Body body, uint64_t rows, uint64_t items)
{
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x * UNROLL;
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x * UNROLL + threadIdx.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
         row += static_cast<uint64_t>(gridDim.y) * blockDim.y)
        for (uint64_t item = first; item < items; item += step) {
            typename Body::loaded loaded[UNROLL];
#pragma unroll
            for (unsigned u = 0; u < UNROLL; u++)
                if (item + u * blockDim.x < items)
                    body.load(&loaded[u], row, item + u * blockDim.x);
#pragma unroll
            for (unsigned u = 0; u < UNROLL; u++)
                if (item + u * blockDim.x < items)
                    body.store(loaded[u], row, item + u * blockDim.x);
        }
}

/* Launches `body` with threads along a row, up to its length, and the remaining threads across rows. */
template <class Body>
static cudaError_t each_launch(const struct ah_cuda_launch *launch, const Body &body, uint64_t rows,
                               uint64_t items)
{
    unsigned along = THREADS;
    while (along > 1 && along / 2 >= items)
        along /= 2;
    const unsigned across = THREADS / along;
    const uint64_t most = static_cast<uint64_t>(launch->processors) * BLOCKS_PER_PROCESSOR;
    const uint64_t wide = (items + along * UNROLL - 1) / (along * UNROLL),
                   high = (rows + across - 1) / across;
    const uint64_t x = wide < most ? wide : most;
    uint64_t y = most / x < high ? most / x : high;
    y = y < GRID_Y_MAX ? y : GRID_Y_MAX;
    return AH_LAUNCH(each<Body>, dim3(static_cast<unsigned>(x), static_cast<unsigned>(y)),
                     dim3(along, across), 0, launch->stream, body, rows, items);
}

/* ---- bytes as they are ---- */

template <class Unit> struct each_move {
    typedef Unit loaded;
    Unit *to;
    const Unit *from;
    uint64_t to_stride, from_stride;

    __device__ inline void load(Unit *ret_unit, uint64_t row, uint64_t item) const
    {
        *ret_unit = from[row * from_stride + item];
    }

    __device__ inline void store(const Unit &unit, uint64_t row, uint64_t item) const
    {
        to[row * to_stride + item] = unit;
    }
};

template <class Unit> struct each_set {
    typedef unsigned loaded;
    Unit *to;
    uint64_t to_stride;
    Unit value;

    __device__ inline void load(unsigned *, uint64_t, uint64_t) const
    {
    }

    __device__ inline void store(unsigned, uint64_t row, uint64_t item) const
    {
        to[row * to_stride + item] = value;
    }
};

/* Rows of bytes. If `from` is NULL, they are filled with the four bytes of `value`. */
struct each_bytes {
    unsigned char *to;
    const unsigned char *from;
    uint64_t to_stride, from_stride;
    uint64_t rows, width;
    unsigned value;
};

static inline uint4 repeated(unsigned value, const uint4 *)
{
    return make_uint4(value, value, value, value);
}

template <class Unit> static inline Unit repeated(unsigned value, const Unit *)
{
    return static_cast<Unit>(value);
}

template <class Unit>
static cudaError_t bytes_by(const struct ah_cuda_launch *launch, const struct each_bytes *b)
{
    Unit *to = reinterpret_cast<Unit *>(b->to);
    const Unit *from = reinterpret_cast<const Unit *>(b->from);
    const struct each_move<Unit> moved = {
        to, from, b->to_stride / sizeof(Unit), b->from_stride / sizeof(Unit)
    };
    const struct each_set<Unit> filled = {
        to, b->to_stride / sizeof(Unit), repeated(b->value, to)
    };
    if (!b->rows || b->width < sizeof(Unit))
        return cudaSuccess;
    return from ? each_launch(launch, moved, b->rows, b->width / sizeof(Unit))
                : each_launch(launch, filled, b->rows, b->width / sizeof(Unit));
}

/* Moves 16 bytes at a time where possible, and a Unit at a time for the rest. */
template <class Unit> static cudaError_t bytes_run(const struct ah_cuda_launch *launch, struct each_bytes b)
{
    if (b.rows == 1 || (b.to_stride == b.width && (!b.from || b.from_stride == b.width))) {
        b.width *= b.rows;
        b.rows = 1;
        b.to_stride = b.from_stride = 0;
    }
    const uint64_t odd = reinterpret_cast<uintptr_t>(b.to) | reinterpret_cast<uintptr_t>(b.from) |
                         b.to_stride | b.from_stride | (b.rows > 1 ? b.width : 0);
    if (odd % sizeof(uint4))
        return bytes_by<Unit>(launch, &b);
    const uint64_t even = b.width / sizeof(uint4) * sizeof(uint4);
    struct each_bytes rest = b;
    rest.to += even;
    rest.from += b.from ? even : 0;
    rest.width -= even;
    cudaError_t rc = bytes_by<uint4>(launch, &b);
    return rc ? rc : bytes_by<Unit>(launch, &rest);
}

cudaError_t ah_cuda_copy(const struct ah_cuda_launch *launch)
{
    const uint64_t n = launch->op->u.copy.bytes;
    return bytes_run<unsigned char>(launch,
                                    {static_cast<unsigned char *>(launch->arg[0]),
                                     static_cast<const unsigned char *>(launch->arg[1]), n, n, 1, n, 0});
}

static struct each_task task_of(const struct ah_cuda_launch *launch, size_t operands)
{
    const struct ah_op_elements *op = &launch->op->u.elements;
    struct each_task task = {{}, op->rows ? op->rows : 1, op->count};
    for (size_t i = 0; i < operands; i++)
        task.of[i] = ah_rows_of(launch, i, op->count);
    return task;
}

static uint64_t element_bytes(const struct ah_rows &rows)
{
    return ah_dtype_bytes(static_cast<enum ah_dtype>(rows.dtype));
}

cudaError_t ah_cuda_fill(const struct ah_cuda_launch *launch)
{
    const struct each_task task = task_of(launch, 1);
    const uint64_t size = element_bytes(task.of[0]);
    const float value = launch->op->u.elements.value;
    struct each_bytes b = {task.of[0].data,   NULL, task.of[0].stride * size, 0, task.rows,
                           task.count * size, 0};
    memcpy(&b.value, &value, sizeof b.value);
    if (size == sizeof(float))
        return bytes_run<unsigned>(launch, b);
    b.value = ah_bf16_from_fp32(value) * 0x10001u;
    return bytes_run<uint16_t>(launch, b);
}

/* ---- elements ---- */

/* Returns two floats as bf16. The hardware's conversion makes all NaNs equal; this one keeps them distinct. */
static __device__ inline unsigned pair_exact(float low, float high)
{
    unsigned pair = ah_bf16_pair(low, high);
    if (low != low)
        pair = (pair & 0xffff0000u) | __float_as_uint(low) >> 16 | 0x40u;
    if (high != high)
        pair = (pair & 0xffffu) | (__float_as_uint(high) & 0xffff0000u) | 0x400000u;
    return pair;
}

static __device__ inline void store_exact(struct ah_address<AH_FP32> to, uint64_t i, uint64_t n,
                                          const float v[ITEM])
{
    ah_store(to, i, n, v);
}

static __device__ inline void store_exact(struct ah_address<AH_BF16> to, uint64_t i, uint64_t,
                                          const float v[ITEM])
{
    reinterpret_cast<uint4 *>(to.data)[i / ITEM] = make_uint4(pair_exact(v[0], v[1]), pair_exact(v[2], v[3]),
                                                              pair_exact(v[4], v[5]), pair_exact(v[6], v[7]));
}

static __device__ inline void store_exact(struct ah_address<AH_ANY> to, uint64_t i, uint64_t n,
                                          const float v[ITEM])
{
    for (unsigned j = 0; j < ITEM && j < n; j++)
        if (to.dtype == AH_BF16)
            reinterpret_cast<uint16_t *>(to.data)[i + j] = static_cast<uint16_t>(pair_exact(v[j], 0));
        else
            reinterpret_cast<float *>(to.data)[i + j] = v[j];
}

template <int D, int S> struct each_cast {
    typedef struct ah_eight<S> loaded;
    struct each_task task;

    __device__ inline void load(loaded *ret_eight, uint64_t row, uint64_t item) const
    {
        ah_load(ret_eight, ah_row<S>(task.of[1], row, 0), ITEM * item, task.count - ITEM * item);
    }

    __device__ inline void store(const loaded &eight, uint64_t row, uint64_t item) const
    {
        float values[ITEM];
        ah_floats(eight, values);
        store_exact(ah_row<D>(task.of[0], row, 0), ITEM * item, task.count - ITEM * item, values);
    }
};

template <int D, int A, int B> struct each_sum {
    struct loaded {
        struct ah_eight<A> a;
        struct ah_eight<B> b;
    };
    struct each_task task;

    __device__ inline void load(loaded *ret_pair, uint64_t row, uint64_t item) const
    {
        const uint64_t left = task.count - ITEM * item;
        ah_load(&ret_pair->a, ah_row<A>(task.of[1], row, 0), ITEM * item, left);
        ah_load(&ret_pair->b, ah_row<B>(task.of[2], row, 0), ITEM * item, left);
    }

    __device__ inline void store(const loaded &pair, uint64_t row, uint64_t item) const
    {
        float a[ITEM], b[ITEM];
        ah_floats(pair.a, a);
        ah_floats(pair.b, b);
        for (unsigned j = 0; j < ITEM; j++)
            a[j] = a[j] + b[j];
        ah_store(ah_row<D>(task.of[0], row, 0), ITEM * item, task.count - ITEM * item, a);
    }
};

typedef cudaError_t task_fn(const struct ah_cuda_launch *launch, const struct each_task *task);

template <class Body>
static cudaError_t task_by(const struct ah_cuda_launch *launch, const struct each_task *task)
{
    const Body body = {*task};
    return each_launch(launch, body, task->rows, (task->count + ITEM - 1) / ITEM);
}

/* Runs `fast` on whole items if all rows start at multiples of 16 bytes, and `any` on the rest. */
static cudaError_t task_run(const struct ah_cuda_launch *launch, struct each_task task, size_t operands,
                            task_fn *fast, task_fn *any)
{
    bool dense = true, aligned = true;
    for (size_t i = 0; i < operands; i++) {
        dense = dense && (task.rows == 1 || task.of[i].stride == task.count);
        aligned = aligned && reinterpret_cast<uintptr_t>(task.of[i].data) % sizeof(uint4) == 0;
        aligned = aligned && (dense || task.of[i].stride * element_bytes(task.of[i]) % sizeof(uint4) == 0);
    }
    if (dense) {
        task.count *= task.rows;
        task.rows = 1;
    }
    struct each_task rest = task;
    rest.count = task.count % ITEM;
    if (!aligned || (!dense && rest.count))
        return any(launch, &task);
    task.count -= rest.count;
    for (size_t i = 0; i < operands; i++)
        rest.of[i].data += task.count * element_bytes(rest.of[i]);
    cudaError_t rc = task.count ? fast(launch, &task) : cudaSuccess;
    return !rc && dense && rest.count ? any(launch, &rest) : rc;
}

cudaError_t ah_cuda_cast(const struct ah_cuda_launch *launch)
{
    static task_fn *const by_dtypes[2][2] = {
        {task_by<each_cast<AH_FP32, AH_FP32>>, task_by<each_cast<AH_FP32, AH_BF16>>},
        {task_by<each_cast<AH_BF16, AH_FP32>>, task_by<each_cast<AH_BF16, AH_BF16>>}};
    const struct each_task task = task_of(launch, 2);
    const bool to = task.of[0].dtype == AH_BF16, from = task.of[1].dtype == AH_BF16;
    return task_run(launch, task, 2, by_dtypes[to][from], task_by<each_cast<AH_ANY, AH_ANY>>);
}

/* Picks the kernel by the dtypes of result and operands. */
static cudaError_t sum_run(const struct ah_cuda_launch *launch, const struct each_task *task)
{
    static task_fn *const by_dtypes[2][2][2] = {
        {{task_by<each_sum<AH_FP32, AH_FP32, AH_FP32>>, task_by<each_sum<AH_FP32, AH_FP32, AH_BF16>>},
         {task_by<each_sum<AH_FP32, AH_BF16, AH_FP32>>, task_by<each_sum<AH_FP32, AH_BF16, AH_BF16>>}},
        {{task_by<each_sum<AH_BF16, AH_FP32, AH_FP32>>, task_by<each_sum<AH_BF16, AH_FP32, AH_BF16>>},
         {task_by<each_sum<AH_BF16, AH_BF16, AH_FP32>>, task_by<each_sum<AH_BF16, AH_BF16, AH_BF16>>}}};
    const bool d = task->of[0].dtype == AH_BF16, a = task->of[1].dtype == AH_BF16,
               b = task->of[2].dtype == AH_BF16;
    return task_run(launch, *task, 3, by_dtypes[d][a][b], task_by<each_sum<AH_ANY, AH_ANY, AH_ANY>>);
}

cudaError_t ah_cuda_add(const struct ah_cuda_launch *launch)
{
    const struct each_task task = task_of(launch, 3);
    return sum_run(launch, &task);
}

cudaError_t ah_cuda_accumulate(const struct ah_cuda_launch *launch)
{
    struct each_task task = task_of(launch, 2);
    task.of[2] = task.of[1];
    task.of[1] = task.of[0];
    return sum_run(launch, &task);
}
