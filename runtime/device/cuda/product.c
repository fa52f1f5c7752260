/* SPDX-License-Identifier: Apache-2.0
 *
 * One product: its key, its descriptors, its algorithm. See products_internal.h.
 *
 * So that bits depend only on the key, a product must meet these requirements:
 * 1. a workspace of fixed size; alignments by the key;
 * 2. K is split only if fp32 partial sums are added in a separate step (reduction scheme COMPUTE_TYPE), because the
 *    other schemes round partial sums to c's type;
 * 3. for fp32, "pedantic" arithmetic: no TF32, no sums of bf16 products, even if the environment asks for them.
 *
 * Source: cuBLAS manual, cublasLtMatmul() (supported types), cublasLtMatmulPreferenceAttributes_t, "Results
 * reproducibility".
 */
#include "runtime/device/cuda/products_internal.h"

#include <stdio.h>
#include <string.h>

enum { LONG_SUM = 4096 };

static const char *const form_names[] = {[AH_MATMUL_NN] = "nn", [AH_MATMUL_NT] = "nt", [AH_MATMUL_TN] = "tn"};

static uint64_t element_bytes(uint32_t dtype)
{
    return dtype == AH_FP32 ? 4 : 2;
}

static cudaDataType_t type_of(uint32_t dtype)
{
    return dtype == AH_FP32 ? CUDA_R_32F : CUDA_R_16BF;
}

static bool is_aligned(const struct ah_op *op)
{
    for (size_t i = 0; i < 5; i++)
        if (op->arg[i].arena != AH_ARENA_NONE && op->arg[i].offset_bytes % AH_CUDA_PRODUCT_ALIGN)
            return false;
    return true;
}

static uint64_t pitch_of(const struct ah_ref *ref, uint64_t width)
{
    return ref->row_stride ? ref->row_stride : width;
}

struct ah_cuda_product_key ah_cuda_product_key(const struct ah_op *op)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    bool has_bias = matmul->epilogue != AH_EPILOGUE_NONE;
    bool has_aux = op->arg[4].arena != AH_ARENA_NONE;
    return (struct ah_cuda_product_key){
        .m = matmul->m,
        .n = matmul->n,
        .k = matmul->k,
        .c_pitch = pitch_of(&op->arg[0], matmul->n),
        .a_pitch = pitch_of(&op->arg[1], matmul->form == AH_MATMUL_TN ? matmul->m : matmul->k),
        .b_pitch = pitch_of(&op->arg[2], matmul->form == AH_MATMUL_NT ? matmul->k : matmul->n),
        .aux_pitch = has_aux ? pitch_of(&op->arg[4], matmul->n) : 0,
        .form = matmul->form,
        .epilogue = matmul->epilogue,
        .in = op->arg[1].dtype,
        .out = op->arg[0].dtype,
        .bias = has_bias ? op->arg[3].dtype : 0,
        .aux = has_aux ? op->arg[4].dtype : 0,
        .has_aux = has_aux,
        .accumulates = matmul->accumulate,
        .aligned = is_aligned(op),
    };
}

void ah_cuda_product_print(const struct ah_cuda_product_key *key, char ret_text[AH_DEVICE_NAME_MAX])
{
    static const char *const epilogues[] = {
        [AH_EPILOGUE_NONE] = "", [AH_EPILOGUE_BIAS] = "bias ", [AH_EPILOGUE_BIAS_GELU] = "bias_gelu "};
    snprintf(ret_text, AH_DEVICE_NAME_MAX, "%s%s %llux%llux%llu %s%s", epilogues[key->epilogue],
             form_names[key->form], (unsigned long long)key->m, (unsigned long long)key->n,
             (unsigned long long)key->k, key->in == AH_FP32 ? "fp32" : "bf16",
             key->aligned ? "" : ", not aligned");
}

/* True if cuBLASLt can compute the product's epilogue. It reads a bias of c's type, and writes an aux of c's type with
 * rows a multiple of 8 elements apart. Unaligned operands are left to our own kernel: some of cuBLASLt's read a bias
 * eight elements at a time, whatever the descriptor says, and crash. */
static bool library_has_epilogue(const struct ah_cuda_product_key *key)
{
    if (key->epilogue == AH_EPILOGUE_NONE)
        return true;
    return key->aligned && key->bias == key->out &&
           (!key->has_aux || (key->aux == key->out && key->aux_pitch % 8 == 0));
}

static cublasLtEpilogue_t epilogue_of(const struct ah_cuda_product_key *key)
{
    switch ((enum ah_epilogue)key->epilogue) {
    case AH_EPILOGUE_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case AH_EPILOGUE_BIAS_GELU:
        return key->has_aux ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
    case AH_EPILOGUE_NONE:
        break;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

/* An attribute of a descriptor, and its value. */
struct setting {
    int attribute;
    const void *value;
    size_t bytes;
};

static cublasStatus_t set_desc(const struct ah_cublaslt *calls, cublasLtMatmulDesc_t desc,
                               const struct setting *settings, size_t n)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < n && status == CUBLAS_STATUS_SUCCESS; i++)
        status = calls->desc_set(desc, (cublasLtMatmulDescAttributes_t)settings[i].attribute,
                                 settings[i].value, settings[i].bytes);
    return status;
}

/* Makes a descriptor, with the epilogue if `fused`. Its pointers are dummies: heuristics only read their alignment. */
static cublasStatus_t make_desc(const struct ah_cublaslt *calls, const struct ah_cuda_product_key *key,
                                bool fused, cublasLtMatmulDesc_t *ret_desc)
{
    const cublasOperation_t op_a = key->form == AH_MATMUL_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = key->form == AH_MATMUL_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(key);
    const uintptr_t place = AH_CUDA_PRODUCT_ALIGN;
    const int32_t type = type_of(key->out);
    const int64_t aux_pitch = (int64_t)key->aux_pitch;
    const struct setting settings[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a},
        {CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &place, sizeof place},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &type, sizeof type},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_pitch, sizeof aux_pitch},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &place, sizeof place},
    };
    const size_t n = !fused || key->epilogue == AH_EPILOGUE_NONE ? 2 : key->has_aux ? 8 : 5;
    cublasStatus_t status = calls->desc_create(
        ret_desc, key->in == AH_FP32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    return status == CUBLAS_STATUS_SUCCESS ? set_desc(calls, *ret_desc, settings, n) : status;
}

/* Makes the layouts of a, b and c, or of the stage in place of c if `staged`. Each covers only `part`. */
static cublasStatus_t make_layouts(const struct ah_cublaslt *calls, const struct ah_cuda_product_key *key,
                                   bool staged, struct ah_cuda_product_part *part)
{
    const bool nt = key->form == AH_MATMUL_NT;
    const bool tn = key->form == AH_MATMUL_TN;
    const cudaDataType_t in = type_of(key->in);
    const cudaDataType_t out = staged ? CUDA_R_32F : type_of(key->out);
    const int64_t d_pitch = (int64_t)(staged ? key->n : key->c_pitch);
    cublasStatus_t status = calls->layout_create(&part->a, in, nt ? part->k : part->n, nt ? part->n : part->k,
                                                 (int64_t)key->b_pitch);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->layout_create(&part->b, in, tn ? part->m : part->k, tn ? part->k : part->m,
                                      (int64_t)key->a_pitch);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = calls->layout_create(&part->d, out, part->n, part->m, d_pitch);
    return status;
}

static int make_part(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_key *key,
                     bool staged, struct ah_cuda_product_part *part, struct ah_error *err)
{
    cublasStatus_t status = make_desc(&maker->calls, key, !staged, &part->desc);
    if (status != CUBLAS_STATUS_SUCCESS)
        return ah_cublaslt_error(&maker->calls, status, "cublasLtMatmulDescCreate", err);
    status = make_layouts(&maker->calls, key, staged, part);
    if (status != CUBLAS_STATUS_SUCCESS)
        return ah_cublaslt_error(&maker->calls, status, "cublasLtMatrixLayoutCreate", err);
    part->d_align = staged || key->aligned ? AH_CUDA_PRODUCT_ALIGN : (uint32_t)element_bytes(key->out);
    return AH_OK;
}

static void release_part(const struct ah_cuda_product_maker *maker, struct ah_cuda_product_part *part)
{
    const cublasLtMatrixLayout_t layouts[] = {part->a, part->b, part->d};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            (void)maker->calls.layout_destroy(layouts[i]);
    if (part->desc)
        (void)maker->calls.desc_destroy(part->desc);
    *part = (struct ah_cuda_product_part){0};
}

static cublasStatus_t prefer(const struct ah_cublaslt *calls, const struct ah_cuda_product_key *key,
                             const struct ah_cuda_product_part *part, cublasLtMatmulPreference_t preference)
{
    const size_t workspace_bytes = AH_CUDA_PRODUCT_WORKSPACE_BYTES;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t in_align = key->aligned ? AH_CUDA_PRODUCT_ALIGN : (uint32_t)element_bytes(key->in);
    const struct setting settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof workspace_bytes},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &in_align, sizeof in_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &in_align, sizeof in_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &part->d_align, sizeof part->d_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &part->d_align, sizeof part->d_align},
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0] && status == CUBLAS_STATUS_SUCCESS; i++)
        status =
            calls->preference_set(preference, (cublasLtMatmulPreferenceAttributes_t)settings[i].attribute,
                                  settings[i].value, settings[i].bytes);
    return status;
}

/* Puts the usable results first and returns their number. */
static int keep_usable(cublasLtMatmulHeuristicResult_t *results, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS &&
            results[i].workspaceSize <= AH_CUDA_PRODUCT_WORKSPACE_BYTES)
            results[kept++] = results[i];
    return kept;
}

/* True if `status` means that the library lacks this product. For an epilogue with unsupported types or addresses, the
 * heuristic may also return CUBLAS_STATUS_INVALID_VALUE. */
static bool is_refusal(const struct ah_cuda_product_key *key, cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ||
           (status == CUBLAS_STATUS_INVALID_VALUE && key->epilogue != AH_EPILOGUE_NONE);
}

int ah_cuda_product_offers(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_key *key,
                           const struct ah_cuda_product_part *part,
                           cublasLtMatmulHeuristicResult_t ret_results[AH_CUDA_PRODUCT_OFFERS], int *ret_n,
                           struct ah_error *err)
{
    const struct ah_cublaslt *calls = &maker->calls;
    cublasLtMatmulPreference_t preference = NULL;
    const char *call = "cublasLtMatmulPreferenceCreate";
    int n = 0;
    cublasStatus_t status = calls->preference_create(&preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = prefer(calls, key, part, preference);
    if (status == CUBLAS_STATUS_SUCCESS) {
        call = "cublasLtMatmulAlgoGetHeuristic";
        status = calls->heuristic(maker->handle, part->desc, part->a, part->b, part->d, part->d, preference,
                                  AH_CUDA_PRODUCT_OFFERS, ret_results, &n);
        if (is_refusal(key, status)) {
            status = CUBLAS_STATUS_SUCCESS;
            n = 0;
        }
    }
    if (preference)
        (void)calls->preference_destroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        return ah_cublaslt_error(calls, status, call, err);
    *ret_n = keep_usable(ret_results, n);
    return AH_OK;
}

bool ah_cuda_product_takes(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_part *part,
                           const cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulHeuristicResult_t result = {0};
    cublasStatus_t status =
        maker->calls.algo_check(maker->handle, part->desc, part->a, part->b, part->d, part->d, algo, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= AH_CUDA_PRODUCT_WORKSPACE_BYTES;
}

/* Returns the table's entry for the product, or NULL. Tables only have entries for aligned operands. */
static const struct ah_device_algorithm *find_entry(const struct ah_cuda_product_maker *maker,
                                                    const struct ah_cuda_product_key *key)
{
    for (size_t i = 0; i < maker->n_algorithms; i++) {
        struct ah_cuda_product_key entry = ah_cuda_product_key(&maker->algorithms[i].product);
        entry.aligned = true;
        if (memcmp(&entry, key, sizeof entry) == 0)
            return &maker->algorithms[i];
    }
    return NULL;
}

static int take_entry(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_key *key,
                      const struct ah_device_algorithm *entry, struct ah_cuda_product_part *part,
                      struct ah_error *err)
{
    _Static_assert(sizeof part->algo == sizeof entry->words, "an algorithm is eight words");
    memcpy(&part->algo, entry->words, sizeof part->algo);
    if (ah_cuda_product_takes(maker, part, &part->algo))
        return AH_OK;
    return ah_error_set(
        err, AH_E_MISMATCH,
        "the machine's table has an algorithm for matmul %s (%llu, %llu, %llu) that '%s' rejects on this "
        "GPU; measure again with 'autohete profile'",
        form_names[key->form], (unsigned long long)key->m, (unsigned long long)key->n,
        (unsigned long long)key->k, maker->library);
}

/* Chooses `part`'s algorithm: the table's `entry`, else the heuristic's first. Sets `ret_found` if there is one. */
static int choose_algorithm(const struct ah_cuda_product_maker *maker, const struct ah_cuda_product_key *key,
                            const struct ah_device_algorithm *entry, struct ah_cuda_product_part *part,
                            bool *ret_found, struct ah_error *err)
{
    *ret_found = true;
    if (entry)
        return take_entry(maker, key, entry, part, err);
    cublasLtMatmulHeuristicResult_t results[AH_CUDA_PRODUCT_OFFERS];
    int n = 0;
    int rc = ah_cuda_product_offers(maker, key, part, results, &n, err);
    *ret_found = n > 0;
    if (!rc && n > 0)
        part->algo = results[0].algo;
    return rc;
}

static int build_whole(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker,
                       bool *ret_found, struct ah_error *err)
{
    const struct ah_cuda_product_key *key = &product->key;
    product->n_parts = 1;
    product->parts[0] = (struct ah_cuda_product_part){.m = key->m, .n = key->n, .k = key->k};
    int rc = make_part(maker, key, false, &product->parts[0], err);
    return rc ? rc : choose_algorithm(maker, key, find_entry(maker, key), &product->parts[0], ret_found, err);
}

/* Splits `size` into the largest multiple of 8 and the rest. Returns false if one of them is 0. */
static bool split_even(uint64_t size, uint64_t *ret_even, uint64_t *ret_rest)
{
    if (size % AH_CUDA_PRODUCT_EVEN == 0 || size < AH_CUDA_PRODUCT_EVEN)
        return false;
    *ret_rest = size % AH_CUDA_PRODUCT_EVEN;
    *ret_even = size - *ret_rest;
    return true;
}

/* Sets the sizes of a cut product's two parts; returns false if the product is not cut. It is cut if exactly one of the
 * sizes along rows of a, b or c is no multiple of 8, and nothing else rules out a fast kernel. If that size is a short
 * k and c is bf16, the product is not cut, because the extra rounding of a partial sum would be visible. */
static bool find_cut(const struct ah_cuda_product_key *key, struct ah_cuda_product_part parts[2])
{
    const uint64_t pitches = key->c_pitch | key->a_pitch | key->b_pitch;
    parts[0] = parts[1] = (struct ah_cuda_product_part){.m = key->m, .n = key->n, .k = key->k};
    if (key->k % AH_CUDA_PRODUCT_EVEN != 0 && key->k < LONG_SUM && key->out == AH_BF16)
        return false;
    if (key->in != AH_BF16 || key->epilogue != AH_EPILOGUE_NONE || !key->aligned ||
        pitches % AH_CUDA_PRODUCT_EVEN != 0)
        return false;
    return (key->form == AH_MATMUL_TN && split_even(key->m, &parts[0].m, &parts[1].m)) +
               split_even(key->n, &parts[0].n, &parts[1].n) + split_even(key->k, &parts[0].k, &parts[1].k) ==
           1;
}

static int build_cut(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker,
                     bool *ret_found, struct ah_error *err)
{
    int rc = AH_OK;
    if (!find_cut(&product->key, product->parts))
        return AH_OK;
    product->way = AH_CUDA_PRODUCT_CUT;
    product->n_parts = 2;
    *ret_found = true;
    for (size_t i = 0; i < 2 && !rc && *ret_found; i++) {
        rc = make_part(maker, &product->key, false, &product->parts[i], err);
        rc = rc ? rc
                : choose_algorithm(maker, &product->key, i ? NULL : find_entry(maker, &product->key),
                                   &product->parts[i], ret_found, err);
    }
    return rc;
}

/* Returns the rows of a step: as many as fit the workspace, but at least AH_CUDA_PRODUCT_STEP and at most m. */
static uint64_t step_rows(const struct ah_cuda_product_key *key)
{
    uint64_t rows = AH_CUDA_PRODUCT_WORKSPACE_BYTES / sizeof(float) / key->n;
    rows -= rows % AH_CUDA_PRODUCT_STEP;
    rows = rows ? rows : AH_CUDA_PRODUCT_STEP;
    return rows < key->m ? rows : key->m;
}

static int build_staged(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker,
                        bool *ret_found, struct ah_error *err)
{
    uint64_t step = step_rows(&product->key);
    uint64_t rest = product->key.m % step;
    product->way = AH_CUDA_PRODUCT_STAGED;
    product->n_parts = rest ? 2 : 1;
    product->parts[0] = (struct ah_cuda_product_part){.m = step, .n = product->key.n, .k = product->key.k};
    product->parts[1] = (struct ah_cuda_product_part){.m = rest, .n = product->key.n, .k = product->key.k};
    product->stage_bytes = step * product->key.n * sizeof(float);
    *ret_found = true;
    int rc = AH_OK;
    for (size_t i = 0; i < product->n_parts && !rc && *ret_found; i++) {
        rc = make_part(maker, &product->key, true, &product->parts[i], err);
        rc = rc ? rc : choose_algorithm(maker, &product->key, NULL, &product->parts[i], ret_found, err);
    }
    return rc;
}

/* Releases a failed attempt. */
static void drop_attempt(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker)
{
    ah_cuda_product_release(product, maker);
    product->way = AH_CUDA_PRODUCT_WHOLE;
    product->n_parts = 0;
}

int ah_cuda_product_init(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker,
                         const struct ah_cuda_product_key *key, struct ah_error *err)
{
    bool found = false;
    int rc = AH_OK;
    *product = (struct ah_cuda_product){.key = *key};
    rc = build_cut(product, maker, &found, err);
    if (!rc && !found && library_has_epilogue(key)) {
        drop_attempt(product, maker);
        rc = build_whole(product, maker, &found, err);
    }
    if (!rc && !found && key->epilogue != AH_EPILOGUE_NONE) {
        drop_attempt(product, maker);
        rc = build_staged(product, maker, &found, err);
    }
    if (!rc && !found)
        rc = ah_error_set(err, AH_E_UNSUPPORTED,
                          "'%s' has no algorithm on this GPU for matmul %s (%llu, %llu, %llu)",
                          maker->library, form_names[key->form], (unsigned long long)key->m,
                          (unsigned long long)key->n, (unsigned long long)key->k);
    if (rc)
        ah_cuda_product_release(product, maker);
    return rc;
}

void ah_cuda_product_release(struct ah_cuda_product *product, const struct ah_cuda_product_maker *maker)
{
    release_part(maker, &product->parts[0]);
    release_part(maker, &product->parts[1]);
}
