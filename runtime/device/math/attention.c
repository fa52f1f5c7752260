/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that forward and backward attention share (attention_internal.h): reading an op, finding the keys that strips
 * see, and packing and storing operands of products.
 */
#include "runtime/device/math/attention_internal.h"

enum { LINE_BYTES = 64 };

void ah_attention_look(struct ah_attention_sight *ret_sight, const struct ah_attention *attention,
                       uint64_t sequence, uint64_t strip)
{
    const uint64_t keys = attention->keys, window = attention->sizes.window;
    const uint64_t position = attention->sizes.past + strip * AH_ATTENTION_STRIP;
    uint64_t least = keys, most = 0;
    ret_sight->strip = strip;
    ret_sight->position = position;
    for (uint64_t i = 0; i < AH_ATTENTION_STRIP; i++) {
        const uint64_t query = position + i < keys ? position + i : keys - 1;
        uint64_t first = window && query >= window ? query - window + 1 : 0;
        if (attention->docs && attention->docs[sequence * keys + query] > first)
            first = attention->docs[sequence * keys + query];
        ret_sight->first[i] = first;
        least = first < least ? first : least;
        most = first > most ? first : most;
    }
    const uint64_t last = position + AH_ATTENTION_STRIP < keys ? position + AH_ATTENTION_STRIP : keys;
    ret_sight->first_tile = least / AH_ATTENTION_TILE;
    ret_sight->last_tile = (last - 1) / AH_ATTENTION_TILE;
    ret_sight->masked_tiles = (most + AH_ATTENTION_TILE - 1) / AH_ATTENTION_TILE;
}

const struct ah_attention_limits *ah_attention_limit(struct ah_attention_limits *limits,
                                                     const struct ah_attention_sight *sight, uint64_t tile)
{
    const int64_t begin = (int64_t)(tile * AH_ATTENTION_TILE);
    if (tile >= sight->masked_tiles && tile < (sight->position + 1) / AH_ATTENTION_TILE)
        return NULL;
    for (uint64_t i = 0; i < AH_ATTENTION_STRIP; i++) {
        const int64_t query = (int64_t)(sight->position + i);
        limits->first[i] = (float)((int64_t)sight->first[i] - begin);
        limits->last[i] = (float)(query - begin);
    }
    return limits;
}

/* Returns the rows as stored in memory, from element `column` of the head on. */
static struct ah_pack_matrix lying(const struct ah_attention *attention, const struct ah_attention_rows *rows,
                                   uint64_t column)
{
    const uint64_t row = rows->sequence * rows->length + rows->first;
    return (struct ah_pack_matrix){
        .data = ah_math_at(rows->matrix, row, rows->head * attention->sizes.head_dim + column),
        .dtype = rows->matrix->dtype,
        .stride = rows->matrix->stride,
    };
}

void ah_attention_pack_a(unsigned char *dst, const struct ah_attention *attention,
                         const struct ah_attention_rows *rows)
{
    const uint64_t step = (uint64_t)AH_TILE_WORDS * (attention->kernel->words == AH_BF16 ? 2 : 1);
    for (uint64_t k = 0; k < attention->sizes.head_dim; k += step, dst += AH_ATTENTION_A_BYTES) {
        struct ah_pack_matrix a = lying(attention, rows, k);
        a.k = attention->sizes.head_dim - k < step ? attention->sizes.head_dim - k : step;
        a.other = rows->count;
        ah_pack_a(dst, attention->kernel, &a);
    }
}

void ah_attention_pack_a_transposed(unsigned char *dst, const struct ah_attention *attention,
                                    const struct ah_attention_rows *rows)
{
    for (uint64_t panel = 0; panel < attention->panels; panel++, dst += AH_ATTENTION_A_BYTES) {
        struct ah_pack_matrix a = lying(attention, rows, panel * AH_TILE_ROWS);
        a.k = rows->count;
        a.other = ah_attention_panel(attention, panel);
        a.k_in_rows = true;
        ah_pack_a(dst, attention->kernel, &a);
    }
}

void ah_attention_pack_b_transposed(uint32_t *dst, const struct ah_attention *attention,
                                    const struct ah_attention_rows *rows)
{
    struct ah_pack_matrix b = lying(attention, rows, 0);
    b.k = attention->sizes.head_dim;
    b.other = rows->count;
    ah_pack_b(dst, attention->kernel, &b);
}

void ah_attention_pack_b(uint32_t *dst, const struct ah_attention *attention,
                         const struct ah_attention_rows *rows)
{
    struct ah_pack_matrix b = lying(attention, rows, 0);
    b.k = rows->count;
    b.other = attention->sizes.head_dim;
    b.k_in_rows = true;
    ah_pack_b(dst, attention->kernel, &b);
}

void ah_attention_multiply(float *sums, const struct ah_attention *attention, const unsigned char *a,
                           uint64_t rows, const uint32_t *b)
{
    struct ah_tile_operands operands = {.a_bytes = AH_TILE_ROW_BYTES, .rows = rows};
    for (uint64_t word = 0; word < attention->words; word += AH_TILE_WORDS) {
        const uint64_t left = attention->words - word;
        operands.a = a + word / AH_TILE_WORDS * AH_ATTENTION_A_BYTES;
        operands.b = b + word * AH_TILE_COLUMNS;
        operands.words = left < AH_TILE_WORDS ? left : AH_TILE_WORDS;
        attention->kernel->multiply(sums, &operands, word == 0);
    }
}

static void store_panel(const struct ah_attention *attention, const struct ah_attention_rows *to,
                        const float *sums, uint64_t panel)
{
    const struct ah_pack_matrix at = lying(attention, to, panel * AH_TILE_COLUMNS);
    const struct ah_tile_out out = {
        .alpha = 1,
        .c = ah_math_at(to->matrix, to->sequence * to->length + to->first,
                        to->head * attention->sizes.head_dim + panel * AH_TILE_COLUMNS),
        .dtype = at.dtype,
        .stride = at.stride,
        .rows = to->count,
        .columns = ah_attention_panel(attention, panel),
    };
    attention->kernel->store(sums, &out);
}

void ah_attention_store(const struct ah_attention *attention, const struct ah_attention_rows *to,
                        const float *sums)
{
    for (uint64_t panel = 0; panel < attention->panels; panel++)
        store_panel(attention, to, sums + panel * AH_TILE_SUMS, panel);
}

void ah_attention_store_transposed(const struct ah_attention *attention, const struct ah_attention_rows *to,
                                   const float *sums, float *transposed)
{
    for (uint64_t panel = 0; panel < attention->panels; panel++) {
        const struct ah_pack_matrix tile = {
            .data = sums + panel * AH_TILE_SUMS,
            .dtype = AH_FP32,
            .k = AH_TILE_COLUMNS,
            .other = AH_TILE_ROWS,
            .stride = AH_TILE_COLUMNS,
        };
        ah_pack_b(transposed, attention->single, &tile);
        store_panel(attention, to, transposed, panel);
    }
}

#if defined(__x86_64__)

static const struct ah_attention_steps *steps_of(const struct ah_tile_kernel *kernel)
{
    static const struct ah_attention_steps *const of_isa[] = {[AH_ISA_PORTABLE] = &ah_attention_portable,
                                                              [AH_ISA_AVX2] = &ah_attention_avx2,
                                                              [AH_ISA_AVX512] = &ah_attention_avx512};
    return kernel->words == AH_BF16 ? &ah_attention_pairs : of_isa[kernel->isa];
}

#else

static const struct ah_attention_steps *steps_of(const struct ah_tile_kernel *kernel)
{
    (void)kernel;
    return &ah_attention_portable;
}

#endif

/* Returns the sizes that follow from the op and from the words of `kernel`. */
static struct ah_attention shape_of(const struct ah_op_attention *sizes, const struct ah_tile_kernel *kernel)
{
    struct ah_attention shape = {
        .sizes = *sizes,
        .kernel = kernel,
        .group = sizes->heads / sizes->kv_heads,
        .keys = (uint64_t)sizes->past + sizes->seq,
        .strips = ((uint64_t)sizes->seq + AH_ATTENTION_STRIP - 1) / AH_ATTENTION_STRIP,
        .panels = ((uint64_t)sizes->head_dim + AH_TILE_ROWS - 1) / AH_TILE_ROWS,
        .words = ah_pack_words(kernel, sizes->head_dim),
        .factor = (sizes->soft_cap > 0 ? sizes->soft_cap : sizes->scale) * 0x1.715476p+0f,
        .bend = sizes->soft_cap > 0 ? sizes->scale / sizes->soft_cap : 0,
    };
    shape.steps_per_head = (shape.words + AH_TILE_WORDS - 1) / AH_TILE_WORDS;
    return shape;
}

/* Computes the bytes for the kernel whose words hold one fp32, because no kernel needs more. */
uint64_t ah_attention_bytes(const struct ah_op *op)
{
    const struct ah_attention shape = shape_of(&op->u.attention, ah_tile_kernel(AH_TILE_PORTABLE, AH_FP32));
    return op->kind == AH_OP_ATTENTION ? ah_attention_forward_bytes(&shape)
                                       : ah_attention_backward_bytes(&shape);
}

void ah_attention_begin(struct ah_attention *ret_attention, const struct ah_host *host,
                        const struct ah_op *op, enum ah_dtype in)
{
    const struct ah_tile_kernel *kernel = ah_tile_kernel(host->workspace->level, in);
    *ret_attention = shape_of(&op->u.attention, kernel);
    ret_attention->single = ah_tile_kernel(host->workspace->level, AH_FP32);
    ret_attention->steps = steps_of(kernel);
    ret_attention->workspace = host->workspace->region.data;
    ret_attention->workspace_bytes = ah_workspace_bytes(op);
}

struct ah_math_matrix ah_attention_matrix(const struct ah_host *host, const struct ah_op *op, size_t arg,
                                          uint32_t heads)
{
    return ah_math_matrix(host, op, arg, (uint64_t)heads * op->u.attention.head_dim);
}
