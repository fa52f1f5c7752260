/* SPDX-License-Identifier: Apache-2.0
 *
 * Rope: rotates elements p and p + h of the first 2 h elements of a head by the angle of pair p, in place:
 *
 *     y_p = x_p c - x_(p+h) s,      y_(p+h) = x_(p+h) c + x_p s,
 *
 * The second product is rounded, and the first is fused with the addition: bit for bit as on the CPU
 * (device/math/rope.inc).
 *
 * A thread rotates eight neighbouring pairs of up to HEADS heads of one row: x is read and written once, 4 bytes for
 * each bf16 element, and the row's cosines and sines are read from the caches once for these heads.
 */
#include "runtime/device/cuda/kernels/elements.cuh"

namespace
{

enum { THREADS = 256, HEADS = 4 };

struct task {
    struct ah_rows x;
    struct ah_rows table;      /* a cosine and a sine for each position and pair */
    const uint32_t *positions; /* NULL: row % seq */
    uint64_t rows, seq;
    unsigned heads, head_dim;
    unsigned half;       /* elements h of a head that turn with as many others */
    unsigned eights;     /* groups of eight of these */
    unsigned head_lanes; /* number of threads that share the heads of a row */
    bool inverse;
};

/* The cosines and sines of eight pairs. */
struct angles {
    float cosine[8], sine[8];
};

template <int D>
__device__ inline void angles_load(struct angles *ret_angles, const struct task *t, uint64_t position,
                                   unsigned p)
{
    constexpr int TABLE = D == AH_ANY ? D : static_cast<int>(AH_FP32);
    const float sign = t->inverse ? -1.0f : 1.0f;
    const uint64_t left = 2 * (t->half - p);
    struct ah_eight<TABLE> low, high;
    float pairs[16];
    ah_load(&low, ah_row<TABLE>(t->table, position, 0), 2 * p, left);
    ah_load(&high, ah_row<TABLE>(t->table, position, 0), 2 * p + 8, left > 8 ? left - 8 : 0);
    ah_floats(low, pairs);
    ah_floats(high, pairs + 8);
    for (unsigned j = 0; j < 8; j++) {
        ret_angles->cosine[j] = pairs[2 * j];
        ret_angles->sine[j] = sign * pairs[2 * j + 1];
    }
}

template <int D>
__device__ inline void turn(const struct angles *angles, const struct ah_eight<D> &first,
                            const struct ah_eight<D> &second, float ret_first[8], float ret_second[8])
{
    float a[8], b[8];
    ah_floats(first, a);
    ah_floats(second, b);
    for (unsigned j = 0; j < 8; j++) {
        ret_first[j] = fmaf(a[j], angles->cosine[j], -(b[j] * angles->sine[j]));
        ret_second[j] = fmaf(b[j], angles->cosine[j], a[j] * angles->sine[j]);
    }
}

template <int D>
__device__ inline void turn_heads(const struct task *t, const struct angles *angles, uint64_t row,
                                  unsigned first, unsigned p)
{
    struct ah_eight<D> low[HEADS], high[HEADS];
    float a[8], b[8];
    for (unsigned k = 0; k < HEADS; k++) {
        const unsigned head = first + k * t->head_lanes;
        const uint64_t column = static_cast<uint64_t>(head) * t->head_dim;
        if (head >= t->heads)
            continue;
        ah_load(&low[k], ah_row<D>(t->x, row, column), p, t->half - p);
        ah_load(&high[k], ah_row<D>(t->x, row, column + t->half), p, t->half - p);
    }
    for (unsigned k = 0; k < HEADS; k++) {
        const unsigned head = first + k * t->head_lanes;
        const uint64_t column = static_cast<uint64_t>(head) * t->head_dim;
        if (head >= t->heads)
            continue;
        turn(angles, low[k], high[k], a, b);
        ah_store(ah_row<D>(t->x, row, column), p, t->half - p, a);
        ah_store(ah_row<D>(t->x, row, column + t->half), p, t->half - p, b);
    }
}

template <int D> __global__ void __launch_bounds__(THREADS) rope(struct task t)
{
    const uint64_t place = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
    const uint64_t heads = place / t.eights, row = heads / t.head_lanes;
    const unsigned p = static_cast<unsigned>(place - heads * t.eights) * 8;
    const unsigned first = static_cast<unsigned>(heads - row * t.head_lanes);
    struct angles angles;
    if (row >= t.rows)
        return;
    const uint64_t position = t.positions ? t.positions[row] : row % t.seq;
    angles_load<D>(&angles, &t, position, p);
    turn_heads<D>(&t, &angles, row, first, p);
}

} // namespace

cudaError_t ah_cuda_rope(const struct ah_cuda_launch *launch)
{
    const struct ah_op_rope *op = &launch->op->u.rope;
    const uint64_t width = static_cast<uint64_t>(op->heads) * op->head_dim;
    const unsigned half = (op->rotated ? op->rotated : op->head_dim) / 2, eights = (half + 7) / 8;
    const unsigned lanes = (op->heads + HEADS - 1) / HEADS;
    const struct task t = {ah_rows_of(launch, 0, width),
                           ah_rows_of(launch, 1, op->head_dim),
                           static_cast<const uint32_t *>(launch->arg[2]),
                           op->rows,
                           op->seq,
                           op->heads,
                           op->head_dim,
                           half,
                           eights,
                           lanes,
                           op->inverse};
    const uint64_t blocks = (op->rows * lanes * eights + THREADS - 1) / THREADS;
    const bool aligned = ah_rows_version(&t.table, half, AH_ANY) == AH_FP32;
    const int version = aligned ? ah_rows_version(&t.x, half, AH_ANY) : static_cast<int>(AH_ANY);
    void (*const kernel)(struct task) = version == AH_BF16   ? rope<AH_BF16>
                                        : version == AH_FP32 ? rope<AH_FP32>
                                                             : rope<AH_ANY>;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return AH_LAUNCH(kernel, dim3(static_cast<unsigned>(blocks)), dim3(THREADS), 0, launch->stream, t);
}
