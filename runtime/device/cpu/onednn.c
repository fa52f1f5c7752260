/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: oneDNN 2.6 developer guide, "Matrix Multiplication", "Reorder", "Memory Format Propagation".
 */
#include "runtime/device/cpu/onednn.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int onednn_failed(struct ah_error *err, dnnl_status_t status, const char *what)
{
    if (status == dnnl_out_of_memory)
        return ah_error_memory(err);
    if (status == dnnl_unimplemented)
        return ah_error_set(err, AH_E_UNSUPPORTED, "oneDNN cannot do %s on this processor", what);
    return ah_error_set(err, AH_E_FAILED, "oneDNN failed at %s (status %d)", what, (int)status);
}

static dnnl_data_type_t type_of(enum ah_dtype dtype)
{
    return dtype == AH_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* What oneDNN finds in the processor and is allowed to use (ONEDNN_MAX_CPU_ISA). */
static bool has_isa(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

bool ah_onednn_has_bf16(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core);
}

int ah_onednn_init(struct ah_onednn *dnn, unsigned workers, struct ah_error *err)
{
    union {
        void *symbol;
        void (*set)(int);
        int (*max)(void);
    } set = {.symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")},
      max = {.symbol = dlsym(RTLD_DEFAULT, "omp_get_max_threads")};
    *dnn = (struct ah_onednn){.workers = workers, .has_amx = has_isa(dnnl_cpu_isa_avx512_core_amx)};
    if (set.symbol && max.symbol) {
        dnn->set_threads = set.set;
        dnn->max_threads = max.max;
    }
    dnnl_status_t status = dnnl_engine_create(&dnn->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        return AH_OK;
    ah_onednn_release(dnn);
    return onednn_failed(err, status, "starting");
}

void ah_onednn_release(struct ah_onednn *dnn)
{
    if (dnn->stream)
        dnnl_stream_destroy(dnn->stream);
    if (dnn->engine)
        dnnl_engine_destroy(dnn->engine);
    *dnn = (struct ah_onednn){0};
}

int ah_onednn_enter(const struct ah_onednn *dnn)
{
    int before = dnn->max_threads ? dnn->max_threads() : 1;
    if (dnn->set_threads)
        dnn->set_threads(1);
    return before;
}

void ah_onednn_leave(const struct ah_onednn *dnn, int threads)
{
    if (dnn->set_threads)
        dnn->set_threads(threads);
}

/* Memory handles of every worker for the arguments `descs`, and the scratch last. */
static dnnl_status_t work_memories(struct ah_onednn_work *work, const struct ah_onednn *dnn,
                                   const dnnl_memory_desc_t *const descs[])
{
    size_t n = (size_t)work->n_args;
    work->memories = calloc(dnn->workers * n, sizeof *work->memories);
    if (!work->memories)
        return dnnl_out_of_memory;
    for (size_t i = 0; i < dnn->workers * n; i++) {
        dnnl_status_t status = dnnl_memory_create(&work->memories[i], descs[i % n], dnn->engine, NULL);
        if (status != dnnl_success)
            return status;
    }
    return dnnl_success;
}

/* Turns a primitive descriptor, which is destroyed, into work. `names` and `descs` lack the scratch. */
static dnnl_status_t work_init(struct ah_onednn_work *work, const struct ah_onednn *dnn,
                               dnnl_primitive_desc_t primitive_desc, const int *names,
                               const dnnl_memory_desc_t *const *descs, int n)
{
    const dnnl_memory_desc_t *all[AH_ONEDNN_ARGS];
    dnnl_memory_desc_t scratch = *dnnl_primitive_desc_query_md(primitive_desc, dnnl_query_scratchpad_md, 0);
    for (int i = 0; i < n; i++) {
        all[i] = descs[i];
        work->names[i] = names[i];
    }
    all[n] = &scratch;
    work->names[n] = DNNL_ARG_SCRATCHPAD;
    work->n_args = n + 1;
    work->scratch_bytes = dnnl_memory_desc_get_size(&scratch);
    dnnl_status_t status = dnnl_primitive_create(&work->primitive, primitive_desc);
    dnnl_primitive_desc_destroy(primitive_desc);
    return status == dnnl_success ? work_memories(work, dnn, all) : status;
}

static dnnl_status_t dense(dnnl_memory_desc_t *desc, uint64_t rows, uint64_t columns, enum ah_dtype dtype)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    return dnnl_memory_desc_init_by_tag(desc, 2, dims, type_of(dtype), dnnl_ab);
}

static dnnl_status_t tile_desc(dnnl_primitive_desc_t *ret_desc, struct ah_onednn_tile *tile,
                               const struct ah_onednn *dnn, const struct ah_onednn_tile *like,
                               dnnl_memory_desc_t descs[4])
{
    const struct ah_onednn_tile_shape *shape = &tile->shape;
    const dnnl_dims_t b_dims = {(dnnl_dim_t)shape->k, (dnnl_dim_t)shape->n};
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = dense(&descs[0], shape->m, shape->k, shape->in);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&descs[1], 2, b_dims, type_of(shape->in), dnnl_format_tag_any);
    if (like)
        descs[1] = like->packed;
    if (status == dnnl_success)
        status = dense(&descs[2], shape->m, shape->n, shape->out);
    if (status == dnnl_success && shape->has_bias)
        status = dense(&descs[3], 1, shape->n, shape->bias);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&matmul, &descs[0], &descs[1], shape->has_bias ? &descs[3] : NULL,
                                       &descs[2]);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(ret_desc, &matmul, attr, dnn->engine, NULL);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

/* The panels (pack.h) that a layout consists of; none where it is another. */
static struct ah_pack_panels panels_of(const dnnl_memory_desc_t *packed, enum ah_dtype dtype)
{
    const struct ah_pack_panels none = {0};
    const dnnl_blocking_desc_t *blocking = &packed->format_desc.blocking;
    const int levels = dtype == AH_BF16 ? 3 : 2;
    const size_t element = dtype == AH_BF16 ? 2 : 4;
    if (packed->format_kind != dnnl_blocked || blocking->inner_nblks != levels)
        return none;
    for (int i = 0; i < levels; i++)
        if (blocking->inner_idxs[i] != i % 2)
            return none;
    uint64_t columns = (uint64_t)blocking->inner_blks[1];
    if (blocking->inner_blks[0] != AH_PACK_WORDS || (levels == 3 && blocking->inner_blks[2] != 2) ||
        columns % 16 || (size_t)blocking->strides[0] * element != AH_PACK_WORDS * columns * 4)
        return none;
    return (struct ah_pack_panels){columns, (size_t)blocking->strides[1] * element};
}

int ah_onednn_tile_init(struct ah_onednn_tile *tile, const struct ah_onednn *dnn,
                        const struct ah_onednn_tile_shape *shape, const struct ah_onednn_tile *like,
                        struct ah_error *err)
{
    static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    dnnl_memory_desc_t descs[4];
    const dnnl_memory_desc_t *const used[] = {&descs[0], &tile->packed, &descs[2], &descs[3]};
    dnnl_primitive_desc_t primitive_desc;
    *tile = (struct ah_onednn_tile){.shape = *shape};
    dnnl_status_t status = tile_desc(&primitive_desc, tile, dnn, like, descs);
    if (status == dnnl_success) {
        tile->packed = *dnnl_primitive_desc_query_md(primitive_desc, dnnl_query_weights_md, 0);
        tile->packed_bytes = dnnl_memory_desc_get_size(&tile->packed);
        tile->panels = panels_of(&tile->packed, shape->in);
        status = work_init(&tile->work, dnn, primitive_desc, names, used, shape->has_bias ? 4 : 3);
    }
    if (status == dnnl_success)
        return AH_OK;
    ah_onednn_tile_release(tile, dnn);
    return onednn_failed(err, status, "a matrix product");
}

void ah_onednn_tile_release(struct ah_onednn_tile *tile, const struct ah_onednn *dnn)
{
    ah_onednn_work_release(&tile->work, dnn);
}

static dnnl_status_t reorder_init(struct ah_onednn_work *work, const struct ah_onednn *dnn,
                                  const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to)
{
    static const int names[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
    const dnnl_memory_desc_t *const descs[] = {from, to};
    dnnl_primitive_desc_t primitive_desc;
    dnnl_primitive_attr_t attr;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status =
            dnnl_reorder_primitive_desc_create(&primitive_desc, from, dnn->engine, to, dnn->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    return status == dnnl_success ? work_init(work, dnn, primitive_desc, names, descs, 2) : status;
}

int ah_onednn_pack_init(struct ah_onednn_work *pack, const struct ah_onednn *dnn,
                        const struct ah_onednn_tile *tile, uint64_t k_stride, uint64_t n_stride,
                        struct ah_error *err)
{
    const struct ah_onednn_tile_shape *shape = &tile->shape;
    const dnnl_dims_t dims = {(dnnl_dim_t)shape->k, (dnnl_dim_t)shape->n};
    const dnnl_dims_t strides = {(dnnl_dim_t)k_stride, (dnnl_dim_t)n_stride};
    dnnl_memory_desc_t from;
    *pack = (struct ah_onednn_work){0};
    dnnl_status_t status = dnnl_memory_desc_init_by_strides(&from, 2, dims, type_of(shape->in), strides);
    if (status == dnnl_success)
        status = reorder_init(pack, dnn, &from, &tile->packed);
    if (status == dnnl_success)
        return AH_OK;
    ah_onednn_work_release(pack, dnn);
    return onednn_failed(err, status, "packing a matrix");
}

int ah_onednn_turn_init(struct ah_onednn_work *turn, const struct ah_onednn *dnn, enum ah_dtype dtype,
                        uint64_t rows, uint64_t columns, uint64_t row_stride, uint64_t column_stride,
                        struct ah_error *err)
{
    const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    const dnnl_dims_t strides = {(dnnl_dim_t)row_stride, (dnnl_dim_t)column_stride};
    dnnl_memory_desc_t from;
    dnnl_memory_desc_t to;
    *turn = (struct ah_onednn_work){0};
    dnnl_status_t status = dnnl_memory_desc_init_by_strides(&from, 2, dims, type_of(dtype), strides);
    if (status == dnnl_success)
        status = dense(&to, rows, columns, dtype);
    if (status == dnnl_success)
        status = reorder_init(turn, dnn, &from, &to);
    if (status == dnnl_success)
        return AH_OK;
    ah_onednn_work_release(turn, dnn);
    return onednn_failed(err, status, "turning a matrix");
}

void ah_onednn_work_release(struct ah_onednn_work *work, const struct ah_onednn *dnn)
{
    if (work->primitive)
        dnnl_primitive_destroy(work->primitive);
    for (size_t i = 0; work->memories && i < dnn->workers * (size_t)work->n_args; i++)
        if (work->memories[i])
            dnnl_memory_destroy(work->memories[i]);
    free(work->memories);
    *work = (struct ah_onednn_work){0};
}

int ah_onednn_run(const struct ah_onednn *dnn, const struct ah_onednn_work *work, unsigned worker,
                  void *const arguments[])
{
    dnnl_exec_arg_t list[AH_ONEDNN_ARGS];
    for (int i = 0; i < work->n_args; i++) {
        list[i].arg = work->names[i];
        list[i].memory = work->memories[worker * (unsigned)work->n_args + (unsigned)i];
        if (dnnl_memory_set_data_handle(list[i].memory, arguments[i]) != dnnl_success)
            return AH_E_FAILED;
    }
    if (dnnl_primitive_execute(work->primitive, dnn->stream, work->n_args, list) != dnnl_success)
        return AH_E_FAILED;
    return AH_OK;
}
