/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on oneDNN (matmul.h). The operand b is packed into the layout that oneDNN's kernels read, once
 * for all rows, and so is a where it does not lie in rows; then the pool computes tiles of c, each a
 * single-threaded primitive. Packing b once for all tiles is what makes many small primitives as fast as one
 * large one, which packs inside.
 *
 *     for each group of rows, group of columns, chunk of k (blocking.h)
 *         pack what is not packed yet      pieces, on the pool
 *         compute                          tiles, on the pool
 *
 * 1. What a tile computes depends on the shape only, not on the thread or on other tiles.
 * 2. A tile writes straight into c where its rows are c's rows; else into its thread's scratch, and stores from
 *    there: copied, added to c, or added to `sums`, which hold fp32 partial sums of a bf16 c cut along k.
 * 3. The bias is added by the last chunk of k.
 */
#include "runtime/device/cpu/matmul.h"

#include "base/isa.h"
#include "runtime/device/cpu/blocking.h"
#include "runtime/device/cpu/convert.h"
#include "runtime/device/cpu/onednn.h"
#include "runtime/device/cpu/pack.h"
#include "runtime/device/cpu/region.h"
#include "runtime/device/op.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Index of a variant: one for all parts but the last, and the last. */
enum { INNER, LAST, VARIANTS };

/* Offsets in the workspace; the scratch of worker w is at scratch + w * scratch_bytes. */
struct layout {
    size_t a;
    size_t b;
    size_t sums;
    size_t scratch;
    size_t scratch_bytes; /* of one worker: oneDNN's at 0, then the tile */
    size_t tile;
    size_t end;
};

struct ah_matmul_product {
    struct ah_matmul_product *next; /* owned */
    struct ah_matmul *matmul;       /* borrowed */
    struct ah_matmul_shape shape;
    struct ah_blocking blocking;
    struct ah_onednn_tile tiles[VARIANTS][VARIANTS][VARIANTS];           /* by m, n, k */
    struct ah_onednn_pack packs[VARIANTS][VARIANTS][AH_BLOCKING_PIECES]; /* by n, k, piece */
    struct ah_onednn_work turns[VARIANTS][VARIANTS];                     /* by m, k */
    struct layout layout;
};

struct ah_matmul {
    struct ah_onednn dnn;
    enum ah_isa isa;
    unsigned threads;
    struct ah_matmul_product *products; /* owned */
    struct ah_region workspace;         /* of the product that runs */
};

bool ah_matmul_has_bf16(void)
{
    return ah_isa_detect() == AH_ISA_AVX512;
}

int ah_matmul_new(struct ah_matmul **ret_matmul, unsigned threads, struct ah_error *err)
{
    struct ah_matmul *matmul = calloc(1, sizeof *matmul);
    if (!matmul)
        return ah_error_memory(err);
    matmul->threads = threads;
    matmul->isa = ah_isa_detect();
    int rc = ah_onednn_init(&matmul->dnn, threads, err);
    if (rc) {
        free(matmul);
        return rc;
    }
    *ret_matmul = matmul;
    return AH_OK;
}

struct ah_matmul_product *ah_matmul_find(const struct ah_matmul *matmul, const struct ah_matmul_shape *shape)
{
    struct ah_matmul_product *product = matmul->products;
    while (product && !ah_matmul_shapes_equal(&product->shape, shape))
        product = product->next;
    return product;
}

uint64_t ah_matmul_workspace_bytes(const struct ah_matmul *matmul)
{
    return matmul->workspace.bytes;
}

static bool is_cut(const struct ah_matmul_product *product)
{
    return product->blocking.chunk_k < product->shape.k;
}

/* Tiles of one column of tiles whose rows are c's rows, and nothing to add. */
static bool is_direct(const struct ah_matmul_product *product)
{
    return product->blocking.tile_n == product->shape.n && !is_cut(product) && !product->shape.accumulate;
}

/* Whether the variant occurs, and the size of the part. */
static uint64_t part_size(uint64_t whole, uint64_t part, int variant)
{
    uint64_t parts = ah_blocking_parts(whole, part);
    if (variant == INNER)
        return parts > 1 ? part : 0;
    return ah_blocking_part(whole, part, parts - 1);
}

static int prepare_tile(struct ah_matmul_product *product, int m, int n, int k, struct ah_error *err)
{
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_blocking *blocking = &product->blocking;
    struct ah_onednn_tile *tile = &product->tiles[m][n][k];
    const struct ah_onednn_tile *last = &product->tiles[LAST][n][k];
    const struct ah_onednn_tile *inner = &product->tiles[INNER][n][k];
    struct ah_onednn_tile_shape wanted = {
        .m = part_size(shape->m, blocking->tile_m, m),
        .n = part_size(shape->n, blocking->tile_n, n),
        .k = ah_blocking_padded_k(shape, part_size(shape->k, blocking->chunk_k, k)),
        .in = shape->in,
        .out = is_cut(product) || shape->accumulate ? AH_FP32 : shape->out,
        .has_bias = shape->has_bias && k == LAST,
        .bias = shape->bias,
    };
    if (!wanted.m || !wanted.n || !wanted.k)
        return AH_OK;
    bool follows = tile == last && inner->packed_bytes > 0;
    return ah_onednn_tile_init(tile, &product->matmul->dnn, &wanted, follows ? inner : NULL, err);
}

/* Whether pack.h packs b; oneDNN's reorders pack into layouts that are no panels, and these are not padded. */
static bool packs_itself(const struct ah_matmul_product *product, const struct ah_onednn_tile *tile)
{
    return product->matmul->isa == AH_ISA_AVX512 && tile->panels.columns;
}

static int prepare_packs(struct ah_matmul_product *product, int n, int k, struct ah_error *err)
{
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_onednn_tile *tile = &product->tiles[LAST][n][k];
    bool turned = shape->form == AH_MATMUL_NT;
    int rc = AH_OK;
    if (packs_itself(product, tile))
        return AH_OK;
    for (uint64_t i = 0, first = 0; first < tile->shape.n && !rc; i++, first += AH_BLOCKING_PIECE)
        rc = ah_onednn_pack_init(&product->packs[n][k][i], &product->matmul->dnn, tile, first,
                                 ah_blocking_part(tile->shape.n, AH_BLOCKING_PIECE, i), turned ? 1 : shape->n,
                                 turned ? shape->k : 1, err);
    return rc;
}

static int prepare_turn(struct ah_matmul_product *product, int m, int k, struct ah_error *err)
{
    const struct ah_matmul_shape *shape = &product->shape;
    uint64_t rows = part_size(shape->m, product->blocking.tile_m, m);
    uint64_t columns = part_size(shape->k, product->blocking.chunk_k, k);
    bool turned = shape->form == AH_MATMUL_TN;
    if (!rows || !columns || !product->blocking.packs_a || product->matmul->isa == AH_ISA_AVX512)
        return AH_OK;
    return ah_onednn_turn_init(&product->turns[m][k], &product->matmul->dnn, shape->in, rows, columns,
                               turned ? 1 : shape->k, turned ? shape->m : 1, err);
}

static int prepare_work(struct ah_matmul_product *product, struct ah_error *err)
{
    int rc = AH_OK;
    for (int k = INNER; k < VARIANTS && !rc; k++)
        for (int n = INNER; n < VARIANTS && !rc; n++) {
            rc = prepare_tile(product, INNER, n, k, err);
            if (!rc)
                rc = prepare_tile(product, LAST, n, k, err);
            if (!rc && product->tiles[LAST][n][k].packed_bytes)
                rc = prepare_packs(product, n, k, err);
        }
    for (int k = INNER; k < VARIANTS && !rc; k++)
        for (int m = INNER; m < VARIANTS && !rc; m++)
            rc = prepare_turn(product, m, k, err);
    return rc;
}

/* Bytes between packed tiles of b: the largest, on a page of its own. */
static size_t packed_stride(const struct ah_matmul_product *product)
{
    size_t most = 0;
    for (int k = INNER; k < VARIANTS; k++)
        for (int n = INNER; n < VARIANTS; n++)
            if (product->tiles[LAST][n][k].packed_bytes > most)
                most = product->tiles[LAST][n][k].packed_bytes;
    return (most + 4095) / 4096 * 4096;
}

static size_t onednn_scratch(const struct ah_matmul_product *product)
{
    size_t most = 0;
    for (int k = INNER; k < VARIANTS; k++)
        for (int x = INNER; x < VARIANTS; x++) {
            const size_t sizes[] = {product->tiles[INNER][x][k].work.scratch_bytes,
                                    product->tiles[LAST][x][k].work.scratch_bytes,
                                    product->turns[x][k].scratch_bytes};
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                most = sizes[i] > most ? sizes[i] : most;
            for (int i = 0; i < AH_BLOCKING_PIECES; i++)
                if (product->packs[x][k][i].work.scratch_bytes > most)
                    most = product->packs[x][k][i].work.scratch_bytes;
        }
    return (most + 4095) / 4096 * 4096;
}

/* `bytes` more at the end of the layout, on whole pages; returns where. */
static size_t place(struct layout *layout, size_t bytes)
{
    size_t at = layout->end;
    layout->end += (bytes + 4095) / 4096 * 4096;
    return at;
}

static void plan_layout(struct ah_matmul_product *product)
{
    const struct ah_blocking *blocking = &product->blocking;
    const struct ah_matmul_shape *shape = &product->shape;
    struct layout *layout = &product->layout;
    bool has_sums = is_cut(product) && shape->out == AH_BF16;
    layout->a = place(
        layout, blocking->packs_a ? blocking->group_m * blocking->row_k * ah_dtype_bytes(shape->in) : 0);
    layout->b =
        place(layout, ah_blocking_parts(blocking->group_n, blocking->tile_n) * packed_stride(product));
    layout->sums = place(layout, has_sums ? blocking->group_m * blocking->group_n * sizeof(float) : 0);
    layout->scratch = layout->end;
    layout->tile = onednn_scratch(product);
    layout->scratch_bytes = layout->tile;
    if (!is_direct(product))
        layout->scratch_bytes += (blocking->tile_m * blocking->tile_n * sizeof(float) + 4095) / 4096 * 4096;
    layout->end += product->matmul->threads * layout->scratch_bytes;
}

static void product_free(struct ah_matmul_product *product)
{
    const struct ah_onednn *dnn = &product->matmul->dnn;
    for (int i = 0; i < VARIANTS; i++)
        for (int j = 0; j < VARIANTS; j++) {
            for (int k = 0; k < VARIANTS; k++)
                ah_onednn_tile_release(&product->tiles[i][j][k], dnn);
            for (int piece = 0; piece < AH_BLOCKING_PIECES; piece++)
                ah_onednn_work_release(&product->packs[i][j][piece].work, dnn);
            ah_onednn_work_release(&product->turns[i][j], dnn);
        }
    free(product);
}

/* Makes the workspace hold at least `bytes`. */
static int grow_workspace(struct ah_matmul *matmul, size_t bytes, struct ah_error *err)
{
    struct ah_region larger;
    if (bytes <= matmul->workspace.bytes)
        return AH_OK;
    int rc = ah_region_init(&larger, bytes, false, err);
    if (rc)
        return rc;
    ah_region_release(&matmul->workspace);
    matmul->workspace = larger;
    return AH_OK;
}

int ah_matmul_prepare(struct ah_matmul *matmul, const struct ah_matmul_shape *shape, struct ah_error *err)
{
    if (ah_matmul_find(matmul, shape))
        return AH_OK;
    struct ah_matmul_product *product = calloc(1, sizeof *product);
    if (!product)
        return ah_error_memory(err);
    product->matmul = matmul;
    product->shape = *shape;
    product->blocking = ah_blocking_of(shape);
    int before = ah_onednn_enter(&matmul->dnn);
    int rc = prepare_work(product, err);
    ah_onednn_leave(&matmul->dnn, before);
    if (!rc) {
        plan_layout(product);
        rc = grow_workspace(matmul, product->layout.end, err);
    }
    if (rc) {
        product_free(product);
        return rc;
    }
    product->next = matmul->products;
    matmul->products = product;
    return AH_OK;
}

void ah_matmul_free(struct ah_matmul *matmul)
{
    if (!matmul)
        return;
    struct ah_matmul_product *product = matmul->products;
    while (product) {
        struct ah_matmul_product *next = product->next;
        product_free(product);
        product = next;
    }
    ah_region_release(&matmul->workspace);
    ah_onednn_release(&matmul->dnn);
    free(matmul);
}

/* One group of rows, group of columns and chunk of k on its way. Numbers of tiles are within the group. */
struct stage {
    struct ah_matmul_product *product;
    const struct ah_matmul_args *args;
    uint64_t first_m, first_n, first_k; /* elements */
    uint64_t m, n, chunk_k;             /* elements of the groups and the chunk */
    uint64_t tiles_m, tiles_n;
    int k; /* variant */
    size_t pieces_a, pieces_b;
    atomic_int failed;
};

static unsigned char *workspace(const struct stage *stage, size_t at)
{
    return stage->product->matmul->workspace.data + at;
}

static int variant_m(const struct stage *stage, uint64_t tile)
{
    const struct ah_matmul_product *product = stage->product;
    uint64_t first = stage->first_m + tile * product->blocking.tile_m;
    return first + product->blocking.tile_m >= product->shape.m ? LAST : INNER;
}

static int variant_n(const struct stage *stage, uint64_t tile)
{
    const struct ah_matmul_product *product = stage->product;
    uint64_t first = stage->first_n + tile * product->blocking.tile_n;
    return first + product->blocking.tile_n >= product->shape.n ? LAST : INNER;
}

static const void *at_element(const void *base, enum ah_dtype dtype, uint64_t index)
{
    return (const unsigned char *)base + index * ah_dtype_bytes(dtype);
}

/* oneDNN takes all arguments as pointers to change. */
static void *argument(const void *in)
{
    union {
        const void *in;
        void *argument;
    } pointer = {.in = in};
    return pointer.argument;
}

static unsigned char *packed_a(const struct stage *stage, uint64_t tile)
{
    const struct ah_matmul_product *product = stage->product;
    uint64_t elements = tile * product->blocking.tile_m * product->blocking.row_k;
    return workspace(stage, product->layout.a) + elements * ah_dtype_bytes(product->shape.in);
}

static void stage_run(struct stage *stage, const struct ah_onednn_work *work, unsigned worker,
                      void *const arguments[])
{
    const struct ah_onednn *dnn = &stage->product->matmul->dnn;
    (void)ah_onednn_enter(dnn);
    if (ah_onednn_run(dnn, work, worker, arguments))
        atomic_store_explicit(&stage->failed, 1, memory_order_relaxed);
}

static void *scratch_of(const struct stage *stage, unsigned worker)
{
    const struct layout *layout = &stage->product->layout;
    return workspace(stage, layout->scratch + worker * layout->scratch_bytes);
}

static void pack_rows(struct stage *stage, uint64_t tile, unsigned worker)
{
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_onednn_tile_shape *part = &product->tiles[variant_m(stage, tile)][LAST][stage->k].shape;
    uint64_t row = stage->first_m + tile * product->blocking.tile_m;
    bool turned = shape->form == AH_MATMUL_TN;
    uint64_t at = turned ? stage->first_k * shape->m + row : row * shape->k + stage->first_k;
    const void *from = at_element(stage->args->a, shape->in, at);
    if (product->matmul->isa == AH_ISA_AVX512) {
        struct ah_pack_matrix a = {from,  shape->in, stage->chunk_k, part->m, turned ? shape->m : shape->k,
                                   turned};
        ah_pack_a(packed_a(stage, tile), part->k, &a);
        return;
    }
    void *const arguments[] = {argument(from), packed_a(stage, tile), scratch_of(stage, worker)};
    stage_run(stage, &product->turns[variant_m(stage, tile)][stage->k], worker, arguments);
}

static void pack_columns(struct stage *stage, uint64_t tile, uint64_t piece, unsigned worker)
{
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_onednn_tile *like = &product->tiles[LAST][variant_n(stage, tile)][stage->k];
    uint64_t columns = ah_blocking_part(like->shape.n, AH_BLOCKING_PIECE, piece);
    uint64_t column = stage->first_n + tile * product->blocking.tile_n + piece * AH_BLOCKING_PIECE;
    bool turned = shape->form == AH_MATMUL_NT;
    uint64_t at = turned ? column * shape->k + stage->first_k : stage->first_k * shape->n + column;
    const void *from = at_element(stage->args->b, shape->in, at);
    unsigned char *to = workspace(stage, product->layout.b + tile * packed_stride(product));
    if (packs_itself(product, like)) {
        struct ah_pack_matrix b = {from,   shape->in, stage->chunk_k, columns, turned ? shape->k : shape->n,
                                   !turned};
        to += piece * (AH_BLOCKING_PIECE / like->panels.columns) * like->panels.bytes;
        ah_pack_b(to, &like->panels, &b);
        return;
    }
    const struct ah_onednn_pack *pack = &product->packs[variant_n(stage, tile)][stage->k][piece];
    void *const arguments[] = {argument(from), to + pack->at_bytes, scratch_of(stage, worker)};
    stage_run(stage, &pack->work, worker, arguments);
}

static void pack_piece(void *context, size_t chunk, unsigned worker)
{
    struct stage *stage = context;
    if (chunk < stage->pieces_a) {
        pack_rows(stage, chunk, worker);
        return;
    }
    uint64_t pieces_per_tile = ah_blocking_parts(stage->product->blocking.tile_n, AH_BLOCKING_PIECE);
    uint64_t piece = chunk - stage->pieces_a;
    pack_columns(stage, piece / pieces_per_tile, piece % pieces_per_tile, worker);
}

/* Stores row `row` of a tile (invariant 2); `column` and `n` are the tile's. */
static void store_row(const struct stage *stage, const void *from, uint64_t row, uint64_t column, uint64_t n)
{
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    enum ah_isa isa = product->matmul->isa;
    uint64_t at = row * shape->n + column;
    struct ah_convert_out c = {(unsigned char *)stage->args->c + at * ah_dtype_bytes(shape->out), shape->out};
    struct ah_convert_in tile = {from, AH_FP32};
    struct ah_convert_out sum = c;
    if (is_cut(product) && shape->out == AH_BF16) {
        uint64_t in_group = (row - stage->first_m) * stage->n + column - stage->first_n;
        sum.data = workspace(stage, product->layout.sums + in_group * sizeof(float));
        sum.dtype = AH_FP32;
    }
    struct ah_convert_in before = {sum.data, sum.dtype};
    if (stage->first_k == 0 && !shape->accumulate)
        memcpy(sum.data, from, n * ah_dtype_bytes(sum.dtype));
    else
        ah_convert_add(isa, is_cut(product) && stage->k == LAST ? c : sum, before, tile, 0, n);
}

static void compute_tile(void *context, size_t chunk, unsigned worker)
{
    struct stage *stage = context;
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    uint64_t i = chunk % stage->tiles_m;
    uint64_t j = chunk / stage->tiles_m;
    uint64_t row = stage->first_m + i * product->blocking.tile_m;
    uint64_t column = stage->first_n + j * product->blocking.tile_n;
    const struct ah_onednn_tile *tile = &product->tiles[variant_m(stage, i)][variant_n(stage, j)][stage->k];
    bool direct = is_direct(product);
    unsigned char *scratch = scratch_of(stage, worker);
    void *arguments[AH_ONEDNN_ARGS] = {
        product->blocking.packs_a ? packed_a(stage, i)
                                  : argument(at_element(stage->args->a, shape->in, row * shape->k)),
        workspace(stage, product->layout.b + j * packed_stride(product)),
        direct ? (unsigned char *)stage->args->c + row * shape->n * ah_dtype_bytes(shape->out)
               : scratch + product->layout.tile,
        tile->shape.has_bias ? argument(at_element(stage->args->bias, shape->bias, column)) : scratch,
        scratch,
    };
    stage_run(stage, &tile->work, worker, arguments);
    for (uint64_t r = 0; r < tile->shape.m && !direct; r++)
        store_row(stage, (unsigned char *)arguments[2] + r * tile->shape.n * ah_dtype_bytes(tile->shape.out),
                  row + r, column, tile->shape.n);
}

/* What lies packed in the workspace: group and chunk. */
struct packed {
    uint64_t group;
    uint64_t chunk;
    bool valid;
};

static bool is_packed(struct packed *packed, uint64_t group, uint64_t chunk)
{
    bool is = packed->valid && packed->group == group && packed->chunk == chunk;
    *packed = (struct packed){group, chunk, true};
    return is;
}

static void stage_set(struct stage *stage, uint64_t group_m, uint64_t group_n, uint64_t chunk)
{
    const struct ah_matmul_product *product = stage->product;
    const struct ah_blocking *blocking = &product->blocking;
    stage->first_m = group_m * blocking->group_m;
    stage->first_n = group_n * blocking->group_n;
    stage->first_k = chunk * blocking->chunk_k;
    stage->m = ah_blocking_part(product->shape.m, blocking->group_m, group_m);
    stage->n = ah_blocking_part(product->shape.n, blocking->group_n, group_n);
    stage->chunk_k = ah_blocking_part(product->shape.k, blocking->chunk_k, chunk);
    stage->tiles_m = ah_blocking_parts(stage->m, blocking->tile_m);
    stage->tiles_n = ah_blocking_parts(stage->n, blocking->tile_n);
    stage->k = chunk + 1 == ah_blocking_parts(product->shape.k, blocking->chunk_k) ? LAST : INNER;
}

/* Pieces of b in the group: full tiles have as many each, so that a chunk's number tells tile and piece. */
static size_t count_pieces_b(const struct stage *stage)
{
    uint64_t tile = stage->product->blocking.tile_n;
    uint64_t last = ah_blocking_part(stage->n, tile, stage->tiles_n - 1);
    return (stage->tiles_n - 1) * ah_blocking_parts(tile, AH_BLOCKING_PIECE) +
           ah_blocking_parts(last, AH_BLOCKING_PIECE);
}

int ah_matmul_run(struct ah_matmul_product *product, const struct ah_matmul_args *args, struct ah_pool *pool,
                  struct ah_error *err)
{
    const struct ah_blocking *blocking = &product->blocking;
    uint64_t groups_m = ah_blocking_parts(product->shape.m, blocking->group_m);
    uint64_t groups_n = ah_blocking_parts(product->shape.n, blocking->group_n);
    uint64_t chunks = ah_blocking_parts(product->shape.k, blocking->chunk_k);
    struct stage stage = {.product = product, .args = args};
    struct packed a = {0};
    struct packed b = {0};
    for (uint64_t i = 0; i < groups_m * groups_n * chunks; i++) {
        uint64_t group_m = i / chunks / groups_n;
        uint64_t group_n = i / chunks % groups_n;
        uint64_t chunk = i % chunks;
        stage_set(&stage, group_m, group_n, chunk);
        stage.pieces_a = is_packed(&a, group_m, chunk) || !blocking->packs_a ? 0 : stage.tiles_m;
        stage.pieces_b = is_packed(&b, group_n, chunk) ? 0 : count_pieces_b(&stage);
        ah_pool_run(pool, pack_piece, &stage, stage.pieces_a + stage.pieces_b);
        ah_pool_run(pool, compute_tile, &stage, stage.tiles_m * stage.tiles_n);
    }
    if (atomic_load(&stage.failed))
        return ah_error_set(err, AH_E_FAILED, "oneDNN failed");
    return AH_OK;
}
