/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN as matmul.c uses it: single-threaded pieces of work on our memory. The one user of oneDNN's headers.
 *
 * A TILE is c (m,n) = a (m,k) times b (k,n), plus a bias over n. a and c are dense; b is packed: in the layout
 * that oneDNN likes best for the tile, which is_packed tells the size of. A PACK brings a matrix into
 * a tile's packed b; a TURN brings a strided matrix into a dense one.
 *
 * Debian's oneDNN runs on OpenMP. Each thread that calls it here first limits its own OpenMP to one thread, so
 * that none is ever started; code is generated for one thread too (ah_onednn_enter/leave around building).
 * Memory handles belong to one worker each, so workers may run the same tile at the same time. oneDNN takes
 * some hundred bytes of heap for its argument lists at every run; its scratch is ours.
 */
#ifndef AH_RUNTIME_DEVICE_CPU_ONEDNN_H
#define AH_RUNTIME_DEVICE_CPU_ONEDNN_H

#include "base/error.h"
#include "runtime/device/cpu/pack.h"
#include "schemas/vocabulary.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_onednn {
    dnnl_engine_t engine; /* owned */
    dnnl_stream_t stream; /* owned */
    unsigned workers;
    bool has_amx;
    void (*set_threads)(int); /* omp_set_num_threads(); NULL where oneDNN has no OpenMP */
    int (*max_threads)(void);
};

/* Whether products of bf16 can be done at all. */
bool ah_onednn_has_bf16(void);

int ah_onednn_init(struct ah_onednn *dnn, unsigned workers, struct ah_error *err);
void ah_onednn_release(struct ah_onednn *dnn);

/* Limits the calling thread's OpenMP to one thread. Returns what it was, for the caller to restore. */
int ah_onednn_enter(const struct ah_onednn *dnn);
void ah_onednn_leave(const struct ah_onednn *dnn, int threads);

enum { AH_ONEDNN_ARGS = 5 };

/* A primitive with its arguments for each worker. */
struct ah_onednn_work {
    dnnl_primitive_t primitive; /* owned */
    dnnl_memory_t *memories;    /* owned; (workers, n_args) */
    int n_args;
    int names[AH_ONEDNN_ARGS]; /* DNNL_ARG_..., the last is the scratch */
    size_t scratch_bytes;
};

struct ah_onednn_tile_shape {
    uint64_t m, n, k;
    enum ah_dtype in;
    enum ah_dtype out;
    bool has_bias;
    enum ah_dtype bias;
};

struct ah_onednn_tile {
    struct ah_onednn_tile_shape shape;
    struct ah_onednn_work work; /* arguments: a, b, c, (bias,) scratch */
    dnnl_memory_desc_t packed;  /* layout of b */
    size_t packed_bytes;
    struct ah_pack_panels panels; /* where b is packed as pack.h packs; else 0 columns */
};

/* `like` (optional): a tile of the same n, k and in, whose packed b this one reads too. */
int ah_onednn_tile_init(struct ah_onednn_tile *tile, const struct ah_onednn *dnn,
                        const struct ah_onednn_tile_shape *shape, const struct ah_onednn_tile *like,
                        struct ah_error *err);
void ah_onednn_tile_release(struct ah_onednn_tile *tile, const struct ah_onednn *dnn);

/* Brings a matrix (k, n) with these strides (in elements) into the packed b of `tile`; arguments: from, to,
 * scratch. */
int ah_onednn_pack_init(struct ah_onednn_work *pack, const struct ah_onednn *dnn,
                        const struct ah_onednn_tile *tile, uint64_t k_stride, uint64_t n_stride,
                        struct ah_error *err);

/* A matrix (rows, columns) with these strides into a dense one. */
int ah_onednn_turn_init(struct ah_onednn_work *turn, const struct ah_onednn *dnn, enum ah_dtype dtype,
                        uint64_t rows, uint64_t columns, uint64_t row_stride, uint64_t column_stride,
                        struct ah_error *err);
void ah_onednn_work_release(struct ah_onednn_work *work, const struct ah_onednn *dnn);

/* Runs `work` on the calling thread with the arguments in the order of `names`. */
int ah_onednn_run(const struct ah_onednn *dnn, const struct ah_onednn_work *work, unsigned worker,
                  void *const arguments[]);

#endif
