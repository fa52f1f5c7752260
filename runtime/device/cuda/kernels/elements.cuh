/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements: reads and writes operands of fp32 and bf16 in kernels, eight elements at a time.
 *
 * A kernel has a version for bf16, one for fp32, and AH_ANY for everything else (a template's argument). The first two
 * read and write eight elements with instructions of 16 bytes; rows begin at multiples of 16 bytes and have 8 n
 * elements. AH_ANY learns the type when it runs, reads elements one by one, and allows the last eight of a row to be
 * incomplete. The version changes no bits: an element has the same thread and arithmetic.
 *
 *     template <int D> __global__ void twice(struct ah_rows x)
 *     {
 *         struct ah_eight<D> eight;
 *         float v[8];
 *         ah_load(&eight, ah_row<D>(x, blockIdx.x), 8 * threadIdx.x, 8);
 *         ah_floats(eight, v);
 *         ...
 *         ah_store(ah_row<D>(x, blockIdx.x), 8 * threadIdx.x, 8, v);
 *     }
 *
 * Loading and converting to floats are separate steps, so that many loads can be in flight at once.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_KERNELS_ELEMENTS_CUH
#define AH_RUNTIME_DEVICE_CUDA_KERNELS_ELEMENTS_CUH

#include "runtime/device/cuda/kernels/kernels.h"
#include "runtime/device/cuda/kernels/simt.cuh"
#include "schemas/vocabulary.h"

#ifndef __CUDACC__
#include "base/bf16.h"
#endif

enum { AH_ANY = -1 };

/* An operand: rows `stride` elements apart. */
struct ah_rows {
    unsigned char *data; /* NULL: absent */
    uint64_t stride;
    uint32_t dtype;
};

static inline struct ah_rows ah_rows_of(const struct ah_cuda_launch *launch, size_t arg, uint64_t width)
{
    const struct ah_ref *ref = &launch->op->arg[arg];
    struct ah_rows rows = {static_cast<unsigned char *>(launch->arg[arg]),
                           ref->row_stride ? ref->row_stride : width, ref->dtype};
    return rows;
}

/* Returns the version that an operand needs: its dtype, or AH_ANY. For an absent operand, returns `others`. */
static inline int ah_rows_version(const struct ah_rows *rows, uint64_t width, int others)
{
    const uint64_t bytes = rows->dtype == AH_BF16 ? 2 : 4;
    const bool aligned = reinterpret_cast<uintptr_t>(rows->data) % 16 == 0 && rows->stride * bytes % 16 == 0;
    if (!rows->data)
        return others;
    return aligned && width % 8 == 0 ? static_cast<int>(rows->dtype) : static_cast<int>(AH_ANY);
}

/* Returns the version that all operands need; AH_ANY if they need different ones. */
static inline int ah_rows_versions(const struct ah_rows *const *rows, size_t n, uint64_t width)
{
    const int first = ah_rows_version(rows[0], width, AH_ANY);
    int version = first;
    for (size_t i = 1; i < n; i++)
        if (ah_rows_version(rows[i], width, first) != first)
            version = AH_ANY;
    return version;
}

static __device__ inline float ah_bf16_float(unsigned bits)
{
    return __uint_as_float(bits << 16);
}

/* Returns `low` (in the lower half) and `high` as bf16, rounded to nearest even. */
#ifdef __CUDACC__
static __device__ inline unsigned ah_bf16_pair(float low, float high)
{
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#else
static inline unsigned ah_bf16_pair(float low, float high)
{
    return ah_bf16_from_fp32(low) | static_cast<unsigned>(ah_bf16_from_fp32(high)) << 16;
}
#endif

static __device__ inline float ah_element(const void *data, uint32_t dtype, uint64_t i)
{
    if (dtype == AH_BF16)
        return ah_bf16_float(static_cast<const uint16_t *>(data)[i]);
    return static_cast<const float *>(data)[i];
}

static __device__ inline void ah_element_set(void *data, uint32_t dtype, uint64_t i, float value)
{
    if (dtype == AH_BF16)
        static_cast<uint16_t *>(data)[i] = static_cast<uint16_t>(ah_bf16_pair(value, 0));
    else
        static_cast<float *>(data)[i] = value;
}

/* The address of some elements of a row. */
template <int D> struct ah_address {
    unsigned char *data;
};

template <> struct ah_address<AH_ANY> {
    unsigned char *data;
    uint32_t dtype;
};

static __device__ inline void ah_address_at(struct ah_address<AH_BF16> *ret_address, const struct ah_rows *rows,
                                          uint64_t at)
{
    ret_address->data = rows->data + 2 * at;
}

static __device__ inline void ah_address_at(struct ah_address<AH_FP32> *ret_address, const struct ah_rows *rows,
                                          uint64_t at)
{
    ret_address->data = rows->data + 4 * at;
}

static __device__ inline void ah_address_at(struct ah_address<AH_ANY> *ret_address, const struct ah_rows *rows,
                                          uint64_t at)
{
    ret_address->data = rows->data + (rows->dtype == AH_BF16 ? 2 : 4) * at;
    ret_address->dtype = rows->dtype;
}

/* Returns the address of element `column` of row `row`. */
template <int D>
__device__ inline struct ah_address<D> ah_row(const struct ah_rows &rows, uint64_t row, uint64_t column) {
    struct ah_address<D> address;
    ah_address_at(&address, &rows, row *rows.stride + column);
    return address;
}

/* Eight elements as stored in memory. */
template <int D>
struct ah_eight;

template <> struct ah_eight<AH_BF16> {
    uint4 bits;
};

template <> struct ah_eight<AH_FP32> {
    float4 low, high;
};

template <> struct ah_eight<AH_ANY> {
    float of[8];
};

/* Loads elements [i, i + 8) of a row, of which only the first n exist; the others become +0. */
static __device__ inline void ah_load(struct ah_eight<AH_BF16> *ret_eight, struct ah_address<AH_BF16> from,
                                      uint64_t i, uint64_t)
{
    ret_eight->bits = reinterpret_cast<const uint4 *>(from.data)[i / 8];
}

static __device__ inline void ah_load(struct ah_eight<AH_FP32> *ret_eight, struct ah_address<AH_FP32> from,
                                      uint64_t i, uint64_t)
{
    ret_eight->low = reinterpret_cast<const float4 *>(from.data)[i / 4];
    ret_eight->high = reinterpret_cast<const float4 *>(from.data)[i / 4 + 1];
}

static __device__ inline void ah_load(struct ah_eight<AH_ANY> *ret_eight, struct ah_address<AH_ANY> from,
                                      uint64_t i, uint64_t n)
{
    for (unsigned j = 0; j < 8; j++)
        ret_eight->of[j] = j < n ? ah_element(from.data, from.dtype, i + j) : 0.0f;
}

static __device__ inline void ah_floats(const struct ah_eight<AH_BF16> &eight, float ret_values[8])
{
    const unsigned pairs[4] = {eight.bits.x, eight.bits.y, eight.bits.z, eight.bits.w};
    for (unsigned j = 0; j < 4; j++) {
        ret_values[2 * j] = ah_bf16_float(pairs[j]);
        ret_values[2 * j + 1] = __uint_as_float(pairs[j] & 0xffff0000u);
    }
}

static __device__ inline void ah_floats(const struct ah_eight<AH_FP32> &eight, float ret_values[8])
{
    const float values[8] = {eight.low.x,  eight.low.y,  eight.low.z,  eight.low.w,
                             eight.high.x, eight.high.y, eight.high.z, eight.high.w};
    for (unsigned j = 0; j < 8; j++)
        ret_values[j] = values[j];
}

static __device__ inline void ah_floats(const struct ah_eight<AH_ANY> &eight, float ret_values[8])
{
    for (unsigned j = 0; j < 8; j++)
        ret_values[j] = eight.of[j];
}

/* Stores the first n of eight values as elements [i, i + n), each rounded once. */
static __device__ inline void ah_store(struct ah_address<AH_BF16> to, uint64_t i, uint64_t,
                                       const float values[8])
{
    reinterpret_cast<uint4 *>(to.data)[i / 8] =
        make_uint4(ah_bf16_pair(values[0], values[1]), ah_bf16_pair(values[2], values[3]),
                   ah_bf16_pair(values[4], values[5]), ah_bf16_pair(values[6], values[7]));
}

static __device__ inline void ah_store(struct ah_address<AH_FP32> to, uint64_t i, uint64_t,
                                       const float values[8])
{
    reinterpret_cast<float4 *>(to.data)[i / 4] = make_float4(values[0], values[1], values[2], values[3]);
    reinterpret_cast<float4 *>(to.data)[i / 4 + 1] = make_float4(values[4], values[5], values[6], values[7]);
}

static __device__ inline void ah_store(struct ah_address<AH_ANY> to, uint64_t i, uint64_t n,
                                       const float values[8])
{
    for (unsigned j = 0; j < 8; j++)
        if (j < n)
            ah_element_set(to.data, to.dtype, i + j, values[j]);
}

/* Return the sum of eight numbers, or of their products, added as a tree. */
static __device__ inline float ah_eight_sum(const float a[8])
{
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}

static __device__ inline float ah_eight_dot(const float a[8], const float b[8])
{
    const float first = fmaf(a[1], b[1], a[0] * b[0]) + fmaf(a[3], b[3], a[2] * b[2]);
    return first + (fmaf(a[5], b[5], a[4] * b[4]) + fmaf(a[7], b[7], a[6] * b[6]));
}

/* The grid for elementwise work on rows. A thread has eight neighbouring columns of every gridDim.y-th row. */
struct ah_rows_grid {
    dim3 grid;
    dim3 block;
};

static inline struct ah_rows_grid ah_rows_grid(uint64_t rows, uint64_t width)
{
    const uint64_t eights = (width + 7) / 8;
    const unsigned threads = eights < 256 ? static_cast<unsigned>((eights + 31) / 32 * 32) : 256;
    const unsigned most = 65535;
    struct ah_rows_grid shape = {dim3(static_cast<unsigned>((eights + threads - 1) / threads),
                                      rows < most ? static_cast<unsigned>(rows) : most),
                                 dim3(threads)};
    return shape;
}

#endif
