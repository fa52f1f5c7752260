/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a device: the list of prepared products, the memory they share, and how one is launched.
 *
 * 1. The first product allocates the workspace, of fixed size; a staged product enlarges the stage if needed. Both
 *    count in ah_cuda_products_bytes().
 * 2. A product runs once when it is prepared, on temporary memory, to load its kernels: the driver loads a kernel, and
 *    takes memory for it, when it first runs. Without such memory, the product is not run.
 * 3. A launch writes the pointers of bias and aux into the product's descriptor; cuBLASLt reads it before it returns.
 */
#include "runtime/device/cuda/errors.h"
#include "runtime/device/cuda/kernels/epilogue.h"
#include "runtime/device/cuda/products_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ah_cuda_products {
    struct ah_cuda_product_maker maker;
    char library[64];
    struct ah_cuda_product *list; /* owned */
    size_t n;
    size_t room;
    void *workspace; /* on the GPU, like the stage */
    uint64_t workspace_bytes;
    void *stage; /* fp32 */
    uint64_t stage_bytes;
};

static int new_handle(struct ah_cuda_products *products, const struct ah_device_options *options,
                      struct ah_error *err)
{
    struct ah_cuda_product_maker *maker = &products->maker;
    size_t version = maker->calls.version();
    snprintf(products->library, sizeof products->library, "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    maker->library = products->library;
    if (options->library && strcmp(options->library, products->library) != 0)
        return ah_error_set(
            err, AH_E_MISMATCH,
            "matrix-product algorithms were chosen with '%s', but this machine has '%s'; measure again with "
            "'autohete profile', then plan again",
            options->library, products->library);
    cublasStatus_t status = maker->calls.create(&maker->handle);
    return status == CUBLAS_STATUS_SUCCESS ? AH_OK
                                           : ah_cublaslt_error(&maker->calls, status, "cublasLtCreate", err);
}

int ah_cuda_products_new(struct ah_cuda_products **ret_products, const struct ah_device_options *options,
                         struct ah_error *err)
{
    struct ah_cuda_products *products = calloc(1, sizeof *products);
    if (!products)
        return ah_error_memory(err);
    products->maker.algorithms = options->algorithms;
    products->maker.n_algorithms = options->n_algorithms;
    int rc = ah_cublaslt_load(&products->maker.calls, err);
    rc = rc ? rc : new_handle(products, options, err);
    if (rc) {
        free(products);
        return rc;
    }
    *ret_products = products;
    return AH_OK;
}

static struct ah_cuda_product *find_product(const struct ah_cuda_products *products,
                                            const struct ah_cuda_product_key *key)
{
    for (size_t i = 0; i < products->n; i++)
        if (memcmp(&products->list[i].key, key, sizeof *key) == 0)
            return &products->list[i];
    return NULL;
}

bool ah_cuda_products_has(const struct ah_cuda_products *products, const struct ah_op *op)
{
    const struct ah_cuda_product_key key = ah_cuda_product_key(op);
    return find_product(products, &key) != NULL;
}

/* Makes `*place` at least `bytes` long. Its contents are lost. */
static int grow_place(void **place, uint64_t *held_bytes, uint64_t bytes, const char *what,
                      struct ah_error *err)
{
    if (bytes <= *held_bytes)
        return AH_OK;
    (void)cudaFree(*place);
    *place = NULL;
    *held_bytes = 0;
    cudaError_t rc = cudaMalloc(place, bytes);
    if (rc == cudaSuccess) {
        *held_bytes = bytes;
        return AH_OK;
    }
    (void)cudaGetLastError(); /* the next call must not report this error a second time */
    *place = NULL;
    return ah_error_set(err, rc == cudaErrorMemoryAllocation ? AH_E_CAPACITY : AH_E_FAILED,
                        "cannot allocate %llu bytes on the GPU for the %s of matrix products: %s",
                        (unsigned long long)bytes, what, cudaGetErrorString(rc));
}

static struct ah_cuda_product *new_slot(struct ah_cuda_products *products)
{
    if (products->n == products->room) {
        size_t room = products->room ? 2 * products->room : 32;
        struct ah_cuda_product *list = realloc(products->list, room * sizeof *list);
        if (!list)
            return NULL;
        products->list = list;
        products->room = room;
    }
    return &products->list[products->n];
}

static int add_product(struct ah_cuda_products *products, const struct ah_cuda_product_key *key, bool asked,
                       struct ah_error *err)
{
    struct ah_cuda_product *product = find_product(products, key);
    if (product) {
        product->asked = product->asked || asked;
        return AH_OK;
    }
    product = new_slot(products);
    if (!product)
        return ah_error_memory(err);
    int rc = ah_cuda_product_init(product, &products->maker, key, err);
    if (rc)
        return rc;
    product->asked = asked;
    rc = grow_place(&products->workspace, &products->workspace_bytes, AH_CUDA_PRODUCT_WORKSPACE_BYTES,
                    "workspace", err);
    rc = rc ? rc
            : grow_place(&products->stage, &products->stage_bytes, product->stage_bytes, "intermediate sums",
                         err);
    if (rc)
        ah_cuda_product_release(product, &products->maker);
    else
        products->n++;
    return rc;
}

/* One launch of a part, whose descriptor is complete. */
struct launch {
    const struct ah_cuda_product_part *part;
    const void *a, *b; /* as in op.h */
    void *d;
    float alpha, beta;
    cudaStream_t stream;
};

static int multiply(struct ah_cuda_products *products, const struct launch *launch, struct ah_error *err)
{
    const struct ah_cuda_product_part *part = launch->part;
    const struct ah_cublaslt *calls = &products->maker.calls;
    cublasStatus_t status =
        calls->matmul(products->maker.handle, part->desc, &launch->alpha, launch->b, part->a, launch->a,
                      part->b, &launch->beta, launch->d, part->d, launch->d, part->d, &part->algo,
                      products->workspace, products->workspace_bytes, launch->stream);
    return status == CUBLAS_STATUS_SUCCESS ? AH_OK : ah_cublaslt_error(calls, status, "cublasLtMatmul", err);
}

static int set_places(const struct ah_cublaslt *calls, const struct ah_cuda_product *product,
                      const void *bias, const void *aux, struct ah_error *err)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (product->key.epilogue != AH_EPILOGUE_NONE)
        status =
            calls->desc_set(product->parts[0].desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (status == CUBLAS_STATUS_SUCCESS && product->key.has_aux)
        status = calls->desc_set(product->parts[0].desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux,
                                 sizeof aux);
    return status == CUBLAS_STATUS_SUCCESS
               ? AH_OK
               : ah_cublaslt_error(calls, status, "cublasLtMatmulDescSetAttribute", err);
}

static int run_whole(struct ah_cuda_products *products, const struct ah_cuda_product *product, float alpha,
                     void *const arg[AH_OP_ARGS], cudaStream_t stream, struct ah_error *err)
{
    const struct launch launch = {
        .part = &product->parts[0],
        .a = arg[1],
        .b = arg[2],
        .d = arg[0],
        .alpha = alpha,
        .beta = product->key.accumulates ? 1.0f : 0.0f,
        .stream = stream,
    };
    int rc = set_places(&products->maker.calls, product, arg[3], arg[4], err);
    return rc ? rc : multiply(products, &launch, err);
}

static uint64_t bytes_of(uint32_t dtype)
{
    return dtype == AH_FP32 ? 4 : 2;
}

/* Finishes `rows` rows of c, from row `row` on. */
static int finish_step(const struct ah_cuda_products *products, const struct ah_cuda_product *product,
                       uint64_t row, uint64_t rows, void *const arg[AH_OP_ARGS], cudaStream_t stream,
                       struct ah_error *err)
{
    const struct ah_cuda_product_key *key = &product->key;
    const struct ah_cuda_epilogue epilogue = {
        .product = products->stage,
        .bias = arg[3],
        .c = (unsigned char *)arg[0] + row * key->c_pitch * bytes_of(key->out),
        .aux = key->has_aux ? (unsigned char *)arg[4] + row * key->aux_pitch * bytes_of(key->aux) : NULL,
        .rows = rows,
        .width = key->n,
        .c_pitch = key->c_pitch,
        .aux_pitch = key->aux_pitch,
        .c_dtype = key->out,
        .bias_dtype = key->bias,
        .aux_dtype = key->aux,
        .accumulates = key->accumulates,
        .gelu = key->epilogue == AH_EPILOGUE_BIAS_GELU,
    };
    return ah_cuda_check(err, ah_cuda_epilogue(&epilogue, stream), "the epilogue of a matrix product");
}

static int run_staged(struct ah_cuda_products *products, const struct ah_cuda_product *product, float alpha,
                      void *const arg[AH_OP_ARGS], cudaStream_t stream, struct ah_error *err)
{
    const struct ah_cuda_product_key *key = &product->key;
    const uint64_t a_step = (key->form == AH_MATMUL_TN ? 1 : key->a_pitch) * bytes_of(key->in);
    int rc = AH_OK;
    for (uint64_t row = 0; row < key->m && !rc;) {
        const struct ah_cuda_product_part *part = &product->parts[key->m - row < product->parts[0].m];
        const struct launch launch = {
            .part = part,
            .a = (const unsigned char *)arg[1] + row * a_step,
            .b = arg[2],
            .d = products->stage,
            .alpha = alpha,
            .stream = stream,
        };
        rc = multiply(products, &launch, err);
        rc = rc ? rc : finish_step(products, product, row, part->m, arg, stream, err);
        row += part->m;
    }
    return rc;
}

/* Runs a cut product, the rest first. If k is cut, both parts add to one c; otherwise each writes its part. */
static int run_cut(struct ah_cuda_products *products, const struct ah_cuda_product *product, float alpha,
                   void *const arg[AH_OP_ARGS], cudaStream_t stream, struct ah_error *err)
{
    const struct ah_cuda_product_key *key = &product->key;
    const struct ah_cuda_product_part *even = &product->parts[0], *rest = &product->parts[1];
    const uint64_t m = even->m < key->m ? even->m : 0, n = even->n < key->n ? even->n : 0,
                   k = even->k < key->k ? even->k : 0;
    const uint64_t a = key->form == AH_MATMUL_TN ? m + k * key->a_pitch : m * key->a_pitch + k;
    const uint64_t b = key->form == AH_MATMUL_NT ? n * key->b_pitch + k : k * key->b_pitch + n;
    const struct launch launches[] = {
        {.part = rest,
         .a = (const unsigned char *)arg[1] + a * bytes_of(key->in),
         .b = (const unsigned char *)arg[2] + b * bytes_of(key->in),
         .d = (unsigned char *)arg[0] + (m * key->c_pitch + n) * bytes_of(key->out),
         .alpha = alpha,
         .beta = key->accumulates ? 1.0f : 0.0f,
         .stream = stream},
        {.part = even,
         .a = arg[1],
         .b = arg[2],
         .d = arg[0],
         .alpha = alpha,
         .beta = key->accumulates || k ? 1.0f : 0.0f,
         .stream = stream},
    };
    int rc = multiply(products, &launches[0], err);
    return rc ? rc : multiply(products, &launches[1], err);
}

static int run_product(struct ah_cuda_products *products, const struct ah_cuda_product *product, float alpha,
                       void *const arg[AH_OP_ARGS], cudaStream_t stream, struct ah_error *err)
{
    alpha = alpha == 0 ? 1 : alpha; /* op.h */
    switch (product->way) {
    case AH_CUDA_PRODUCT_STAGED:
        return run_staged(products, product, alpha, arg, stream, err);
    case AH_CUDA_PRODUCT_CUT:
        return run_cut(products, product, alpha, arg, stream, err);
    case AH_CUDA_PRODUCT_WHOLE:
        break;
    }
    return run_whole(products, product, alpha, arg, stream, err);
}

int ah_cuda_products_run(struct ah_cuda_products *products, const struct ah_cuda_launch *launch,
                         struct ah_error *err)
{
    const struct ah_cuda_product_key key = ah_cuda_product_key(launch->op);
    const struct ah_cuda_product *product = find_product(products, &key);
    if (!product)
        return ah_error_set(err, AH_E_USAGE, "a matrix product was submitted without being prepared");
    return run_product(products, product, launch->op->u.matmul.alpha, launch->arg, launch->stream, err);
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the size of the largest operand, at 4 bytes an element. */
static uint64_t largest_bytes(const struct ah_cuda_product_key *key)
{
    uint64_t a = (key->form == AH_MATMUL_TN ? key->k : key->m) * key->a_pitch;
    uint64_t b = (key->form == AH_MATMUL_NT ? key->n : key->k) * key->b_pitch;
    return 4 * max_of(max_of(a, b), key->m * max_of(key->c_pitch, key->aux_pitch));
}

/* Runs the products from index `first` to the last on arbitrary data, and ignores the results. All inputs share one
 * buffer, while c and aux have one each, so no thread writes what another thread reads. */
static int warm_products(struct ah_cuda_products *products, size_t first, struct ah_error *err)
{
    uint64_t bytes = 0;
    void *place = NULL;
    int rc = AH_OK;
    for (size_t i = first; i < products->n; i++)
        bytes = max_of(bytes, largest_bytes(&products->list[i].key));
    if (bytes == 0)
        return AH_OK;
    bytes = (bytes + AH_CUDA_PRODUCT_ALIGN - 1) / AH_CUDA_PRODUCT_ALIGN * AH_CUDA_PRODUCT_ALIGN;
    if (cudaMalloc(&place, 3 * bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return AH_OK;
    }
    unsigned char *const c = (unsigned char *)place + bytes, *const aux = c + bytes;
    void *const arg[AH_OP_ARGS] = {c, place, place, place, aux};
    for (size_t i = first; i < products->n && !rc; i++)
        rc = run_product(products, &products->list[i], 1, arg, NULL, err);
    cudaError_t done = cudaStreamSynchronize(NULL);
    (void)cudaFree(place);
    rc = rc ? rc : ah_cuda_check(err, done, "cudaStreamSynchronize");
    return rc;
}

int ah_cuda_products_prepare(struct ah_cuda_products *products, const struct ah_op *ops, size_t n,
                             struct ah_error *err)
{
    const size_t before = products->n;
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind != AH_OP_MATMUL)
            continue;
        struct ah_cuda_product_key key = ah_cuda_product_key(&ops[i]);
        int rc = add_product(products, &key, true, err);
        key.aligned = true;
        rc = rc ? rc : add_product(products, &key, false, err);
        if (rc)
            return rc;
    }
    return warm_products(products, before, err);
}

struct ah_device_products ah_cuda_products_count(const struct ah_cuda_products *products)
{
    struct ah_device_products count = {0};
    for (size_t i = 0; i < products->n; i++) {
        const struct ah_cuda_product *product = &products->list[i];
        if (product->asked && product->way == AH_CUDA_PRODUCT_STAGED && !count.in_steps)
            ah_cuda_product_print(&product->key, count.first);
        count.n += product->asked;
        count.in_steps += product->asked && product->way == AH_CUDA_PRODUCT_STAGED;
    }
    return count;
}

uint64_t ah_cuda_products_bytes(const struct ah_cuda_products *products)
{
    return products->workspace_bytes + products->stage_bytes;
}

/* Keeps the offers that a device would accept in its table of algorithms. Returns their number. */
static size_t keep_offers(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_part *part,
                          const cublasLtMatmulHeuristicResult_t *results, int n, const struct ah_op *op,
                          struct ah_device_algorithm *ret_algorithms, size_t max)
{
    size_t kept = 0;
    for (int i = 0; i < n && kept < max; i++) {
        if (!ah_cuda_product_takes(maker, part, &results[i].algo))
            continue;
        ret_algorithms[kept].product = *op;
        memcpy(ret_algorithms[kept].words, &results[i].algo, sizeof ret_algorithms[kept].words);
        kept++;
    }
    return kept;
}

int ah_cuda_products_candidates(struct ah_cuda_products *products, const struct ah_op *op,
                                struct ah_device_algorithm *ret_algorithms, size_t max, size_t *ret_n,
                                struct ah_error *err)
{
    const struct ah_cuda_product_maker *maker = &products->maker;
    cublasLtMatmulHeuristicResult_t results[AH_CUDA_PRODUCT_OFFERS];
    struct ah_cuda_product product;
    int n = 0;
    struct ah_cuda_product_key key = ah_cuda_product_key(op);
    key.aligned = true;
    int rc = ah_cuda_product_init(&product, maker, &key, err);
    if (rc)
        return rc;
    if (product.way != AH_CUDA_PRODUCT_STAGED)
        rc = ah_cuda_product_offers(maker, &key, &product.parts[0], results, &n, err);
    if (!rc)
        *ret_n = keep_offers(maker, &product.parts[0], results, n, op, ret_algorithms, max);
    ah_cuda_product_release(&product, maker);
    return rc;
}

const char *ah_cuda_products_library(const struct ah_cuda_products *products)
{
    return products->library;
}

void ah_cuda_products_free(struct ah_cuda_products *products)
{
    if (!products)
        return;
    for (size_t i = 0; i < products->n; i++)
        ah_cuda_product_release(&products->list[i], &products->maker);
    (void)cudaFree(products->workspace);
    (void)cudaFree(products->stage);
    (void)products->maker.calls.destroy(products->maker.handle);
    free(products->list);
    free(products);
}
