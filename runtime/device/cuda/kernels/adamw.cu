/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW: the operations of device/host/adamw.h, bit for bit. Each operation, fma included, is rounded once, with IEEE
 * division and root, without flushing denormals; bf16 states use the same random words.
 *
 * A thread updates two quads (`four`: four elements), THREADS quads apart. It reads 16 bytes of each fp32 array and 8
 * of each bf16 array, beside those of the neighbouring threads, with eight loads in flight. One pass moves 28 bytes an
 * element with fp32 states and a bf16 gradient and weight. One draw of Philox yields the words for one quad, so with
 * bf16 states quads begin at multiples of four in the block's flat vector. Elements are updated one by one if an array
 * is unaligned or, with bf16 states, begins inside a quad.
 */
#include "runtime/device/cuda/kernels/elements.cuh"
#include "runtime/device/cuda/kernels/philox.cuh"

namespace
{

enum { THREADS = 256, FOURS = 2, NO_WEIGHT = 2 };

struct task {
    float *master;
    unsigned char *m, *v, *weight;
    const unsigned char *gradient;
    const struct ah_adamw_scalars *scalars;
    uint64_t count, first_element;
    unsigned head; /* number of elements of the first quad that lie before the arrays */
    uint32_t state, gradient_dtype, weight_dtype;
    uint32_t block;
    bool decay;
};

/* The scalars of the step that the update of an element needs. */
struct rates {
    float grad_scale, decay, neg_rate, root_scale, epsilon;
    float beta1, rest1, beta2, rest2;
};

struct element {
    float master, m, v;
};

__device__ inline struct rates rates_of(const struct ah_adamw_scalars *s, bool decay)
{
    const struct rates r = {s->grad_scale, decay ? s->decay : 1.0f,
                            s->neg_rate,   s->root_scale,
                            s->epsilon,    s->beta1,
                            s->rest1,      s->beta2,
                            s->rest2};
    return r;
}

__device__ inline struct element update(const struct rates *r, struct element e, float gradient)
{
    const float g = gradient * r->grad_scale;
    struct element n;
    n.m = fmaf(r->beta1, e.m, r->rest1 * g);
    n.v = fmaf(r->beta2, e.v, r->rest2 * g * g);
    n.master = fmaf(r->neg_rate, n.m / fmaf(sqrtf(n.v), r->root_scale, r->epsilon), e.master * r->decay);
    return n;
}

/* Rounds x to bf16: returns the upper half of its bits + 16 random bits. A NaN becomes quiet. */
__device__ inline uint16_t round_randomly(float x, unsigned random)
{
    const unsigned bits = __float_as_uint(x);
    const unsigned sum = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits + random;
    return static_cast<uint16_t>(sum >> 16);
}

/* Returns the random words of the quad that begins at `element` of the block's flat vector. */
__device__ inline uint4 words_of(const struct task *t, uint64_t element)
{
    const struct ah_adamw_scalars *s = t->scalars;
    const uint64_t draw = element / 4;
    const unsigned name = static_cast<unsigned>(AH_PHILOX_ROUNDING) << 8 | t->block << 16;
    return ah_philox_four(
        make_uint4(static_cast<unsigned>(draw), static_cast<unsigned>(draw >> 32) | name, s->step, 0),
        make_uint2(static_cast<unsigned>(s->seed), static_cast<unsigned>(s->seed >> 32)));
}

/* A quad: four elements as stored in memory. */
template <int D> struct four;

template <> struct four<AH_FP32> {
    float4 bits;
};

template <> struct four<AH_BF16> {
    uint2 bits;
};

__device__ inline void four_load(struct four<AH_FP32> *ret_four, const void *from, uint64_t i)
{
    ret_four->bits = static_cast<const float4 *>(from)[i / 4];
}

__device__ inline void four_load(struct four<AH_BF16> *ret_four, const void *from, uint64_t i)
{
    ret_four->bits = static_cast<const uint2 *>(from)[i / 4];
}

__device__ inline void four_floats(struct four<AH_FP32> four, float ret_values[4])
{
    ret_values[0] = four.bits.x;
    ret_values[1] = four.bits.y;
    ret_values[2] = four.bits.z;
    ret_values[3] = four.bits.w;
}

__device__ inline void four_floats(struct four<AH_BF16> four, float ret_values[4])
{
    ret_values[0] = ah_bf16_float(four.bits.x);
    ret_values[1] = __uint_as_float(four.bits.x & 0xffff0000u);
    ret_values[2] = ah_bf16_float(four.bits.y);
    ret_values[3] = __uint_as_float(four.bits.y & 0xffff0000u);
}

__device__ inline void four_store(float *to, uint64_t i, const float v[4])
{
    reinterpret_cast<float4 *>(to)[i / 4] = make_float4(v[0], v[1], v[2], v[3]);
}

__device__ inline void four_store(uint16_t *to, uint64_t i, const float v[4])
{
    reinterpret_cast<uint2 *>(to)[i / 4] = make_uint2(ah_bf16_pair(v[0], v[1]), ah_bf16_pair(v[2], v[3]));
}

__device__ inline void four_store_randomly(uint16_t *to, uint64_t i, const float v[4], uint4 words,
                                           unsigned shift)
{
    const unsigned random[4] = {words.x, words.y, words.z, words.w};
    unsigned halves[4];
    for (unsigned j = 0; j < 4; j++)
        halves[j] = round_randomly(v[j], random[j] >> shift & 0xffffu);
    reinterpret_cast<uint2 *>(to)[i / 4] =
        make_uint2(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16);
}

/* A thread's quad of each operand, as loaded. */
template <int STATE, int GRADIENT> struct held {
    struct four<AH_FP32> master;
    struct four<STATE> m, v;
    struct four<GRADIENT> gradient;
};

template <int STATE, int GRADIENT>
__device__ inline void held_load(struct held<STATE, GRADIENT> *h, const struct task *t, uint64_t i)
{
    four_load(&h->master, t->master, i);
    four_load(&h->m, t->m, i);
    four_load(&h->v, t->v, i);
    four_load(&h->gradient, t->gradient, i);
}

/* Writes the new elements of a quad; bf16 states are rounded with the quad's random words. */
template <int STATE, int WEIGHT>
__device__ inline void four_write(const struct task *t, uint64_t i, const float master[4], const float m[4],
                                  const float v[4])
{
    if (STATE == AH_BF16) {
        const uint4 words = words_of(t, t->first_element + i);
        four_store_randomly(reinterpret_cast<uint16_t *>(t->m), i, m, words, 0);
        four_store_randomly(reinterpret_cast<uint16_t *>(t->v), i, v, words, 16);
    } else {
        four_store(reinterpret_cast<float *>(t->m), i, m);
        four_store(reinterpret_cast<float *>(t->v), i, v);
    }
    four_store(t->master, i, master);
    if (WEIGHT == AH_BF16)
        four_store(reinterpret_cast<uint16_t *>(t->weight), i, master);
    else if (WEIGHT == AH_FP32)
        four_store(reinterpret_cast<float *>(t->weight), i, master);
}

template <int STATE, int GRADIENT, int WEIGHT>
__device__ inline void four_update(const struct task *t, const struct rates *r,
                                   const struct held<STATE, GRADIENT> &h, uint64_t i)
{
    float master[4], m[4], v[4], gradient[4];
    four_floats(h.master, master);
    four_floats(h.m, m);
    four_floats(h.v, v);
    four_floats(h.gradient, gradient);
    for (unsigned j = 0; j < 4; j++) {
        const struct element before = {master[j], m[j], v[j]}, after = update(r, before, gradient[j]);
        master[j] = after.master;
        m[j] = after.m;
        v[j] = after.v;
    }
    four_write<STATE, WEIGHT>(t, i, master, m, v);
}

/* Updates one element, of any alignment and types. */
__device__ inline void one_update(const struct task *t, const struct rates *r, uint64_t i, unsigned word)
{
    const struct element before = {t->master[i], ah_element(t->m, t->state, i),
                                   ah_element(t->v, t->state, i)};
    const struct element after = update(r, before, ah_element(t->gradient, t->gradient_dtype, i));
    t->master[i] = after.master;
    if (t->state == AH_BF16) {
        reinterpret_cast<uint16_t *>(t->m)[i] = round_randomly(after.m, word & 0xffffu);
        reinterpret_cast<uint16_t *>(t->v)[i] = round_randomly(after.v, word >> 16);
    } else {
        ah_element_set(t->m, AH_FP32, i, after.m);
        ah_element_set(t->v, AH_FP32, i, after.v);
    }
    if (t->weight)
        ah_element_set(t->weight, t->weight_dtype, i, after.master);
}

/* Updates the elements of one quad, which may begin before the arrays or end after them. */
__device__ inline void some_update(const struct task *t, const struct rates *r, uint64_t four)
{
    const uint64_t begin = 4 * four - t->head; /* wraps if the quad begins before the arrays */
    uint4 words = make_uint4(0, 0, 0, 0);
    if (t->state == AH_BF16)
        words = words_of(t, t->first_element + begin);
    const unsigned word[4] = {words.x, words.y, words.z, words.w};
    for (unsigned j = 0; j < 4; j++)
        if (begin + j < t->count)
            one_update(t, r, begin + j, word[j]);
}

template <int STATE, int GRADIENT, int WEIGHT> __global__ void __launch_bounds__(THREADS) adamw(struct task t)
{
    const struct rates rates = rates_of(t.scalars, t.decay);
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (FOURS * THREADS) + threadIdx.x;
    struct held<STATE, GRADIENT> held[FOURS];
#pragma unroll
    for (unsigned k = 0; k < FOURS; k++)
        if (4 * (first + k * THREADS) + 4 <= t.count)
            held_load(&held[k], &t, 4 * (first + k * THREADS));
#pragma unroll
    for (unsigned k = 0; k < FOURS; k++) {
        const uint64_t four = first + k * THREADS;
        if (4 * four + 4 <= t.count)
            four_update<STATE, GRADIENT, WEIGHT>(&t, &rates, held[k], 4 * four);
        else
            some_update(&t, &rates, four);
    }
}

__global__ void __launch_bounds__(THREADS) adamw_any(struct task t)
{
    const struct rates rates = rates_of(t.scalars, t.decay);
    for (unsigned k = 0; k < FOURS; k++)
        some_update(&t, &rates, (static_cast<uint64_t>(blockIdx.x) * FOURS + k) * THREADS + threadIdx.x);
}

typedef void kernel_fn(struct task);

#define WEIGHTS(state, gradient)                                                                             \
    {                                                                                                        \
        adamw<state, gradient, AH_FP32>, adamw<state, gradient, AH_BF16>, adamw<state, gradient, NO_WEIGHT>  \
    }
kernel_fn *const kernels[2][2][3] = {{WEIGHTS(AH_FP32, AH_FP32), WEIGHTS(AH_FP32, AH_BF16)},
                                     {WEIGHTS(AH_BF16, AH_FP32), WEIGHTS(AH_BF16, AH_BF16)}};
#undef WEIGHTS

/* True if every array can be read four elements at a time, and each quad begins where a random draw begins. */
bool is_whole(const struct task *t)
{
    const uintptr_t places = reinterpret_cast<uintptr_t>(t->master) | reinterpret_cast<uintptr_t>(t->m) |
                             reinterpret_cast<uintptr_t>(t->v) | reinterpret_cast<uintptr_t>(t->gradient) |
                             reinterpret_cast<uintptr_t>(t->weight);
    return places % 16 == 0 && t->head == 0;
}

} // namespace

cudaError_t ah_cuda_adamw(const struct ah_cuda_launch *launch)
{
    const struct ah_op *op = launch->op;
    const struct ah_op_adamw *adamw = &op->u.adamw;
    struct task t = {};
    t.master = static_cast<float *>(launch->arg[0]);
    t.m = static_cast<unsigned char *>(launch->arg[1]);
    t.v = static_cast<unsigned char *>(launch->arg[2]);
    t.gradient = static_cast<const unsigned char *>(launch->arg[3]);
    t.weight = static_cast<unsigned char *>(launch->arg[4]);
    t.scalars = static_cast<const struct ah_adamw_scalars *>(launch->arg[5]);
    t.count = adamw->count;
    t.first_element = adamw->first_element;
    t.state = op->arg[1].dtype;
    t.gradient_dtype = op->arg[3].dtype;
    t.weight_dtype = op->arg[4].dtype;
    t.block = adamw->block;
    t.decay = adamw->decay;
    t.head = t.state == AH_BF16 ? static_cast<unsigned>(adamw->first_element % 4) : 0;
    const uint64_t fours = (t.head + t.count + 3) / 4,
                   blocks = (fours + FOURS * THREADS - 1) / (FOURS * THREADS);
    kernel_fn *const kernel =
        is_whole(&t)
            ? kernels[t.state][t.gradient_dtype][t.weight ? t.weight_dtype : static_cast<uint32_t>(NO_WEIGHT)]
            : adamw_any;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    return AH_LAUNCH(kernel, dim3(static_cast<unsigned>(blocks)), dim3(THREADS), 0, launch->stream, t);
}
