/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of convert.h: they split arrays into ranges and call the kernels of the instruction set.
 */
#include "runtime/device/host/convert.h"

#include "base/bf16.h"
#include "runtime/device/host/kernels_internal.h"

#include <string.h>

static void *element_at(struct ah_convert_out out, uint64_t i)
{
    return (char *)out.data + i * ah_dtype_bytes(out.dtype);
}

static const void *from(struct ah_convert_in in, uint64_t i)
{
    return (const char *)in.data + i * ah_dtype_bytes(in.dtype);
}

void ah_convert_cast(enum ah_isa isa, struct ah_convert_out dst, struct ah_convert_in src, uint64_t begin,
                     uint64_t end)
{
    if (begin < end)
        ah_kernels_of(isa)->cast[dst.dtype][src.dtype](element_at(dst, begin), from(src, begin), end - begin);
}

void ah_convert_stream_bf16(enum ah_isa isa, uint16_t *dst, const float *src, uint64_t begin, uint64_t end)
{
    if (begin < end)
        ah_kernels_of(isa)->stream_bf16(dst + begin, src + begin, end - begin);
}

void ah_convert_add(enum ah_isa isa, struct ah_convert_out dst, struct ah_convert_in a,
                    struct ah_convert_in b, uint64_t begin, uint64_t end)
{
    if (begin < end)
        ah_kernels_of(isa)->add[dst.dtype][a.dtype][b.dtype](element_at(dst, begin), from(a, begin),
                                                             from(b, begin), end - begin);
}

void ah_convert_scale(enum ah_isa isa, float *data, float factor, uint64_t begin, uint64_t end)
{
    if (begin < end)
        ah_kernels_of(isa)->scale(data + begin, factor, end - begin);
}

void ah_convert_fill(struct ah_convert_out dst, float value, uint64_t begin, uint64_t end)
{
    if (dst.dtype == AH_BF16) {
        uint16_t *to = dst.data;
        const uint16_t bits = ah_bf16_from_fp32(value);
        for (uint64_t i = begin; i < end; i++)
            to[i] = bits;
    } else {
        float *to = dst.data;
        for (uint64_t i = begin; i < end; i++)
            to[i] = value;
    }
}

void ah_convert_column_sum(enum ah_isa isa, struct ah_convert_out dst, const struct ah_convert_matrix *matrix,
                           uint64_t begin, uint64_t end)
{
    float sums[AH_KERNELS_STRIP];
    for (uint64_t c = begin; c < end; c += AH_KERNELS_STRIP) {
        uint64_t stop = end - c < AH_KERNELS_STRIP ? end : c + AH_KERNELS_STRIP;
        ah_kernels_of(isa)->columns[matrix->src.dtype](sums, matrix, c, stop);
        ah_convert_cast(isa, (struct ah_convert_out){element_at(dst, c), dst.dtype},
                        (struct ah_convert_in){sums, AH_FP32}, 0, stop - c);
    }
}

void ah_convert_copy(enum ah_isa isa, void *dst, const void *src, size_t bytes)
{
    if (bytes < AH_CONVERT_STREAM_BYTES) {
        if (bytes)
            memcpy(dst, src, bytes);
        return;
    }
    size_t head = (64 - (uintptr_t)dst % 64) % 64;
    size_t lines = (bytes - head) / 64;
    size_t done = head + lines * 64;
    memcpy(dst, src, head);
    ah_kernels_of(isa)->copy((char *)dst + head, (const char *)src + head, lines);
    memcpy((char *)dst + done, (const char *)src + done, bytes - done);
}
