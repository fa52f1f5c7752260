/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on oneDNN (matmul.h). The pool works on units (blocking.h): a thread packs some columns of b into
 * the layout that oneDNN's kernels read, in memory of its own, and computes tiles with them, each a single-threaded
 * primitive. No thread reads what another one has just packed, except a, where it does not lie in rows.
 *
 *     for each group of rows, chunk of k
 *         pack a, if it must be    tiles, on the pool
 *         pack b and compute       units, on the pool
 *
 * 1. What a tile computes depends on the shape only, not on the thread or on other tiles.
 * 2. A tile writes straight into c where its rows are c's rows; else into its thread's scratch, and stores from
 *    there: copied, added to c, or added to `sums`, which hold fp32 partial sums of a bf16 c cut along k.
 * 3. The bias is added by the last chunk of k.
 */
#include "runtime/device/cpu/matmul.h"

#include "base/isa.h"
#include "runtime/device/cpu/blocking.h"
#include "runtime/device/cpu/onednn.h"
#include "runtime/device/cpu/pack.h"
#include "runtime/device/host/convert.h"
#include "runtime/device/host/region.h"
#include "runtime/device/op.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Index of a variant: one for all parts but the last, and the last. */
enum { INNER, LAST, VARIANTS };

/* Offsets in the workspace; the scratch of worker w is at scratch + w * scratch_bytes. */
struct layout {
    size_t a;
    size_t sums;
    size_t scratch;
    size_t scratch_bytes; /* of one worker: oneDNN's at 0, b, the tile */
    size_t b;
    size_t tile;
    size_t end;
};

struct ah_matmul_product {
    struct ah_matmul_product *next; /* owned */
    struct ah_matmul *matmul;       /* borrowed */
    struct ah_matmul_shape shape;
    struct ah_blocking blocking;
    struct ah_onednn_tile tiles[VARIANTS][VARIANTS][VARIANTS]; /* by m, n, k */
    struct ah_onednn_work packs[VARIANTS][VARIANTS];           /* by n, k */
    struct ah_onednn_work turns[VARIANTS][VARIANTS];           /* by m, k */
    struct layout layout;
};

/* What a worker has packed last, so that it need not be packed again for the next rows. */
struct packed {
    uint64_t run; /* number of the run; 0: nothing yet */
    uint64_t column;
    uint64_t first_k;
    uint64_t unused[5]; /* a cache line each */
};

struct ah_matmul {
    struct ah_onednn dnn;
    enum ah_isa isa;
    unsigned threads;
    struct ah_matmul_product *products; /* owned */
    struct ah_region workspace;         /* of the product that runs */
    struct packed *packed;              /* owned; of each worker */
    uint64_t runs;
};

bool ah_matmul_has_bf16(void)
{
    return ah_isa_detect() == AH_ISA_AVX512 && ah_onednn_has_bf16();
}

int ah_matmul_new(struct ah_matmul **ret_matmul, unsigned threads, struct ah_error *err)
{
    struct ah_matmul *matmul = calloc(1, sizeof *matmul);
    if (!matmul)
        return ah_error_memory(err);
    matmul->threads = threads;
    matmul->isa = ah_isa_detect();
    matmul->packed = calloc(threads, sizeof *matmul->packed);
    int rc = matmul->packed ? ah_onednn_init(&matmul->dnn, threads, err) : ah_error_memory(err);
    if (rc) {
        ah_matmul_free(matmul);
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
        .k = ah_blocking_padded_k(shape, product->matmul->dnn.has_amx,
                                  part_size(shape->k, blocking->chunk_k, k)),
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

static int prepare_pack(struct ah_matmul_product *product, int n, int k, struct ah_error *err)
{
    const struct ah_matmul_shape *shape = &product->shape;
    const struct ah_onednn_tile *tile = &product->tiles[LAST][n][k];
    bool turned = shape->form == AH_MATMUL_NT;
    if (!tile->packed_bytes || packs_itself(product, tile))
        return AH_OK;
    return ah_onednn_pack_init(&product->packs[n][k], &product->matmul->dnn, tile, turned ? 1 : shape->n,
                               turned ? shape->k : 1, err);
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
            if (!rc)
                rc = prepare_pack(product, n, k, err);
        }
    for (int k = INNER; k < VARIANTS && !rc; k++)
        for (int m = INNER; m < VARIANTS && !rc; m++)
            rc = prepare_turn(product, m, k, err);
    return rc;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* Bytes of the largest packed tile of b. */
static size_t packed_bytes(const struct ah_matmul_product *product)
{
    size_t most = 0;
    for (int k = INNER; k < VARIANTS; k++)
        for (int n = INNER; n < VARIANTS; n++)
            if (product->tiles[LAST][n][k].packed_bytes > most)
                most = product->tiles[LAST][n][k].packed_bytes;
    return most;
}

static size_t onednn_scratch(const struct ah_matmul_product *product)
{
    size_t most = 0;
    for (int k = INNER; k < VARIANTS; k++)
        for (int x = INNER; x < VARIANTS; x++) {
            const size_t sizes[] = {product->tiles[INNER][x][k].work.scratch_bytes,
                                    product->tiles[LAST][x][k].work.scratch_bytes,
                                    product->packs[x][k].scratch_bytes, product->turns[x][k].scratch_bytes};
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                most = sizes[i] > most ? sizes[i] : most;
        }
    return most;
}

/* `bytes` more at `*end`, on whole pages; returns where. */
static size_t place(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += whole_pages(bytes);
    return at;
}

static void plan_layout(struct ah_matmul_product *product)
{
    const struct ah_blocking *blocking = &product->blocking;
    const struct ah_matmul_shape *shape = &product->shape;
    struct layout *layout = &product->layout;
    uint64_t row_bytes = blocking->row_k * ah_dtype_bytes(shape->in);
    bool has_sums = is_cut(product) && shape->out == AH_BF16;
    uint64_t tile_elements = is_direct(product) ? 0 : blocking->tile_m * blocking->tile_n;
    layout->a = place(&layout->end, blocking->packs_a ? blocking->group_m * row_bytes : 0);
    layout->sums = place(&layout->end, has_sums ? blocking->group_m * shape->n * sizeof(float) : 0);
    (void)place(&layout->scratch_bytes, onednn_scratch(product));
    layout->b = place(&layout->scratch_bytes, packed_bytes(product));
    layout->tile = place(&layout->scratch_bytes, tile_elements * sizeof(float));
    layout->scratch = place(&layout->end, product->matmul->threads * layout->scratch_bytes);
}

static void product_free(struct ah_matmul_product *product)
{
    const struct ah_onednn *dnn = &product->matmul->dnn;
    for (int i = 0; i < VARIANTS; i++)
        for (int j = 0; j < VARIANTS; j++) {
            for (int k = 0; k < VARIANTS; k++)
                ah_onednn_tile_release(&product->tiles[i][j][k], dnn);
            ah_onednn_work_release(&product->packs[i][j], dnn);
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
    int rc = ah_region_init(&larger, bytes, err);
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
    product->blocking = ah_blocking_of(shape, matmul->dnn.has_amx);
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
    free(matmul->packed);
    free(matmul);
}

/* One group of rows and chunk of k on its way. */
struct stage {
    struct ah_matmul_product *product;
    const struct ah_matmul_args *args;
    uint64_t first_m, first_k; /* elements */
    uint64_t m, chunk_k;       /* elements of the group and the chunk */
    uint64_t units_m;
    int k; /* variant */
    atomic_int failed;
};

static unsigned char *workspace(const struct stage *stage, size_t at)
{
    return stage->product->matmul->workspace.data + at;
}

/* Variant of the part that begins at `first`. */
static int variant_of(uint64_t first, uint64_t part, uint64_t whole)
{
    return first + part >= whole ? LAST : INNER;
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

static unsigned char *packed_a(const struct stage *stage, uint64_t row)
{
    const struct ah_matmul_product *product = stage->product;
    uint64_t elements = (row - stage->first_m) * product->blocking.row_k;
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

static unsigned char *scratch_of(const struct stage *stage, unsigned worker)
{
    const struct layout *layout = &stage->product->layout;
    return workspace(stage, layout->scratch + worker * layout->scratch_bytes);
}

/* Packs the rows of one tile of a. */
static void pack_rows(void *context, size_t chunk, unsigned worker)
{
    struct stage *stage = context;
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    uint64_t row = stage->first_m + chunk * product->blocking.tile_m;
    int m = variant_of(row, product->blocking.tile_m, shape->m);
    const struct ah_onednn_tile_shape *part = &product->tiles[m][LAST][stage->k].shape;
    bool turned = shape->form == AH_MATMUL_TN;
    uint64_t at = turned ? stage->first_k * shape->m + row : row * shape->k + stage->first_k;
    const void *from = at_element(stage->args->a, shape->in, at);
    if (product->matmul->isa == AH_ISA_AVX512) {
        uint64_t stride = turned ? shape->m : shape->k;
        struct ah_pack_matrix a = {from, shape->in, stage->chunk_k, part->m, stride, turned};
        ah_pack_a(packed_a(stage, row), part->k, &a);
        return;
    }
    void *const arguments[] = {argument(from), packed_a(stage, row), scratch_of(stage, worker)};
    stage_run(stage, &product->turns[m][stage->k], worker, arguments);
}

/* Packs the columns of b that tiles from `column` on need; returns where they are. */
static unsigned char *pack_columns(struct stage *stage, uint64_t column, unsigned worker)
{
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    int n = variant_of(column, product->blocking.tile_n, shape->n);
    const struct ah_onednn_tile *like = &product->tiles[LAST][n][stage->k];
    bool turned = shape->form == AH_MATMUL_NT;
    uint64_t at = turned ? column * shape->k + stage->first_k : stage->first_k * shape->n + column;
    const void *from = at_element(stage->args->b, shape->in, at);
    unsigned char *scratch = scratch_of(stage, worker);
    unsigned char *to = scratch + product->layout.b;
    struct packed *packed = &product->matmul->packed[worker];
    if (packed->run == product->matmul->runs && packed->column == column && packed->first_k == stage->first_k)
        return to;
    *packed = (struct packed){.run = product->matmul->runs, .column = column, .first_k = stage->first_k};
    if (packs_itself(product, like)) {
        uint64_t stride = turned ? shape->k : shape->n;
        struct ah_pack_matrix b = {from, shape->in, stage->chunk_k, like->shape.n, stride, !turned};
        ah_pack_b(to, &like->panels, &b);
    } else {
        void *const arguments[] = {argument(from), to, scratch};
        stage_run(stage, &product->packs[n][stage->k], worker, arguments);
    }
    return to;
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
        uint64_t in_group = (row - stage->first_m) * shape->n + column;
        sum.data = workspace(stage, product->layout.sums + in_group * sizeof(float));
        sum.dtype = AH_FP32;
    }
    struct ah_convert_in before = {sum.data, sum.dtype};
    if (stage->first_k == 0 && !shape->accumulate)
        memcpy(sum.data, from, n * ah_dtype_bytes(sum.dtype));
    else
        ah_convert_add(isa, is_cut(product) && stage->k == LAST ? c : sum, before, tile, 0, n);
}

static void compute_tile(struct stage *stage, uint64_t row, uint64_t column, unsigned char *b,
                         unsigned worker)
{
    const struct ah_matmul_product *product = stage->product;
    const struct ah_matmul_shape *shape = &product->shape;
    int m = variant_of(row, product->blocking.tile_m, shape->m);
    int n = variant_of(column, product->blocking.tile_n, shape->n);
    const struct ah_onednn_tile *tile = &product->tiles[m][n][stage->k];
    unsigned char *scratch = scratch_of(stage, worker);
    unsigned char *c = (unsigned char *)stage->args->c + row * shape->n * ah_dtype_bytes(shape->out);
    unsigned char *to = is_direct(product) ? c : scratch + product->layout.tile;
    void *const arguments[AH_ONEDNN_ARGS] = {
        product->blocking.packs_a ? packed_a(stage, row)
                                  : argument(at_element(stage->args->a, shape->in, row * shape->k)),
        b,
        to,
        tile->shape.has_bias ? argument(at_element(stage->args->bias, shape->bias, column)) : scratch,
        scratch,
    };
    stage_run(stage, &tile->work, worker, arguments);
    for (uint64_t i = 0; i < tile->shape.m && !is_direct(product); i++)
        store_row(stage, to + i * tile->shape.n * ah_dtype_bytes(tile->shape.out), row + i, column,
                  tile->shape.n);
}

static void compute_unit(void *context, size_t chunk, unsigned worker)
{
    struct stage *stage = context;
    const struct ah_blocking *blocking = &stage->product->blocking;
    uint64_t unit = chunk % stage->units_m;
    uint64_t column = chunk / stage->units_m * blocking->tile_n;
    uint64_t first = unit * blocking->unit_m;
    uint64_t end = first + ah_blocking_part(stage->m, blocking->unit_m, unit);
    unsigned char *b = pack_columns(stage, column, worker);
    for (uint64_t row = first; row < end; row += blocking->tile_m)
        compute_tile(stage, stage->first_m + row, column, b, worker);
}

static void stage_set(struct stage *stage, uint64_t group, uint64_t chunk)
{
    const struct ah_matmul_shape *shape = &stage->product->shape;
    const struct ah_blocking *blocking = &stage->product->blocking;
    stage->first_m = group * blocking->group_m;
    stage->first_k = chunk * blocking->chunk_k;
    stage->m = ah_blocking_part(shape->m, blocking->group_m, group);
    stage->chunk_k = ah_blocking_part(shape->k, blocking->chunk_k, chunk);
    stage->units_m = ah_blocking_parts(stage->m, blocking->unit_m);
    stage->k = variant_of(stage->first_k, blocking->chunk_k, shape->k);
}

int ah_matmul_run(struct ah_matmul_product *product, const struct ah_matmul_args *args, struct ah_pool *pool,
                  struct ah_error *err)
{
    const struct ah_blocking *blocking = &product->blocking;
    uint64_t groups = ah_blocking_parts(product->shape.m, blocking->group_m);
    uint64_t chunks = ah_blocking_parts(product->shape.k, blocking->chunk_k);
    uint64_t columns = ah_blocking_parts(product->shape.n, blocking->tile_n);
    struct stage stage = {.product = product, .args = args};
    product->matmul->runs++;
    for (uint64_t i = 0; i < groups * chunks; i++) {
        stage_set(&stage, i / chunks, i % chunks);
        if (blocking->packs_a)
            ah_pool_run(pool, pack_rows, &stage, ah_blocking_parts(stage.m, blocking->tile_m));
        ah_pool_run(pool, compute_unit, &stage, stage.units_m * columns);
    }
    if (atomic_load(&stage.failed))
        return ah_error_set(err, AH_E_FAILED, "oneDNN failed");
    return AH_OK;
}
