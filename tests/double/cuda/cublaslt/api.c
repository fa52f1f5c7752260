/* SPDX-License-Identifier: Apache-2.0
 *
 * A double of cuBLASLt: the calls that the plugin makes, in a library of the same soname. It multiplies on the
 * processor, in stream order. It is stricter than the real cuBLASLt, because it refuses every call that may fail by the
 * manual. So calls that work here are likely to work on a GPU.
 *
 * Objects have a mark and are counted. Using a destroyed one gives CUBLAS_STATUS_INVALID_VALUE. double.h counts them.
 *
 * ALGORITHMS give different bits. Each is a few words: a mark, its number, and its kind of problem.
 *
 *     0  sixteen sums along K, then a tree; needs operands and their rows at multiples of 16 bytes, and M and K that
 *        are multiples of EVEN: the limits of the real one's fast kernels, however far apart rows are (13.1 on an H100)
 *     1  K in ascending order
 *     2  K in four parts, whose sums are kept in the workspace and added last; needs the reduction scheme COMPUTE_TYPE
 *     3  is offered, and refused by cublasLtMatmulAlgoCheck()
 *
 * The first result offered has a state other than success, so nothing else in it is valid.
 *
 * Without "pedantic", fp32 operands lose 13 bits, as in TF32.
 *
 * Source: cublasLt.h of CUDA 13.0 and the cuBLAS manual, "cublasLtMatmul()".
 */
#include "double.h"
#include "internal.h"
#include "tests/double/cuda/double_internal.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { ALGORITHMS = 3, REFUSED = ALGORITHMS, ALIGN = 16, EVEN = 8, WORKSPACE_ALIGN = 256 };

enum mark { MARK_HANDLE = 0x48414e44, MARK_DESC, MARK_LAYOUT, MARK_PREFERENCE, MARK_ALGORITHM };

struct cublasLtContext {
    uint64_t mark;
    int device; /* the device that was current when the handle was made; it works on no other */
};

struct preference {
    uint64_t mark;
    uint64_t workspace_bytes;
    uint32_t schemes;
    uint32_t align[4]; /* for A, B, C, D */
};

_Static_assert(sizeof(struct desc) <= sizeof(cublasLtMatmulDescOpaque_t), "fits where the real one does");
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits where the real one does");
_Static_assert(sizeof(struct preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t),
               "fits where the real one does");

static atomic_int alive;

EXPORT int cublaslt_double_alive(void)
{
    return atomic_load(&alive);
}

/* Counts the call. Returns true if a test wants it to fail, as with the runtime's double. */
static bool fails(const char *call)
{
    return double_enter(call) != cudaSuccess;
}

/* ---- versions and words ---- */

EXPORT size_t cublasLtGetVersion(void)
{
    const unsigned told = double_settings().cublaslt_version;
    return told ? told : CUBLAS_VERSION;
}

EXPORT const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_OF_THE_DOUBLE";
}

EXPORT const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "the double was told to fail, or refuses";
}

/* ---- objects ---- */

static cublasStatus_t make(const char *call, size_t bytes, uint64_t mark, void **ret_object)
{
    if (fails(call))
        return CUBLAS_STATUS_ALLOC_FAILED;
    uint64_t *object = calloc(1, bytes);
    if (!object)
        return CUBLAS_STATUS_ALLOC_FAILED;
    object[0] = mark;
    atomic_fetch_add(&alive, 1);
    *ret_object = object;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(void *object, uint64_t mark)
{
    uint64_t *marked = object;
    if (!marked || marked[0] != mark)
        return CUBLAS_STATUS_INVALID_VALUE;
    marked[0] = 0;
    free(marked);
    atomic_fetch_sub(&alive, 1);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    void *object = NULL;
    cublasStatus_t status = make(__func__, sizeof **handle, MARK_HANDLE, &object);
    *handle = object;
    if (status == CUBLAS_STATUS_SUCCESS)
        (*handle)->device = double_device();
    return status == CUBLAS_STATUS_SUCCESS ? status : CUBLAS_STATUS_NOT_INITIALIZED;
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle, MARK_HANDLE);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret_layout, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld)
{
    void *object = NULL;
    cublasStatus_t status = make(__func__, sizeof(cublasLtMatrixLayoutOpaque_t), MARK_LAYOUT, &object);
    if (status == CUBLAS_STATUS_SUCCESS)
        *(struct layout *)object = (struct layout){MARK_LAYOUT, type, rows, columns, ld};
    *ret_layout = object;
    return status;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout, MARK_LAYOUT);
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret_desc, cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    void *object = NULL;
    if (scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t status = make(__func__, sizeof(cublasLtMatmulDescOpaque_t), MARK_DESC, &object);
    if (status == CUBLAS_STATUS_SUCCESS)
        *(struct desc *)object = (struct desc){.mark = MARK_DESC,
                                               .compute = compute,
                                               .op_a = CUBLAS_OP_N,
                                               .op_b = CUBLAS_OP_N,
                                               .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                               .bias_type = -1,
                                               .aux_type = -1};
    *ret_desc = object;
    return status;
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc, MARK_DESC);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret_preference)
{
    void *object = NULL;
    cublasStatus_t status =
        make(__func__, sizeof(cublasLtMatmulPreferenceOpaque_t), MARK_PREFERENCE, &object);
    if (status == CUBLAS_STATUS_SUCCESS)
        *(struct preference *)object =
            (struct preference){MARK_PREFERENCE, 0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
    *ret_preference = object;
    return status;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference, MARK_PREFERENCE);
}

/* ---- attributes ---- */

struct attribute {
    int number;
    size_t offset;
    size_t bytes;
};

static cublasStatus_t set(void *object, uint64_t mark, const struct attribute *attributes, size_t n,
                          int number, const void *value, size_t bytes)
{
    if (!object || *(uint64_t *)object != mark || !value)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        if (attributes[i].number == number && attributes[i].bytes == bytes) {
            memcpy((unsigned char *)object + attributes[i].offset, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_INVALID_VALUE;
}

#define ATTRIBUTE(number, type, member)                                                                      \
    {                                                                                                        \
        number, offsetof(struct type, member), sizeof(((struct type *)0)->member)                            \
    }

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t number, const void *value,
                                                     size_t bytes)
{
    static const struct attribute attributes[] = {
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, desc, op_a),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, desc, op_b),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, desc, epilogue),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, desc, bias),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, desc, bias_type),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, desc, aux),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, desc, aux_ld),
        ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, desc, aux_type),
    };
    if (fails(__func__))
        return CUBLAS_STATUS_INVALID_VALUE;
    return set(desc, MARK_DESC, attributes, sizeof attributes / sizeof attributes[0], number, value, bytes);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                           cublasLtMatmulPreferenceAttributes_t number,
                                                           const void *value, size_t bytes)
{
    static const struct attribute attributes[] = {
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference, workspace_bytes),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, preference, schemes),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference, align[0]),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference, align[1]),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference, align[2]),
        ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference, align[3]),
    };
    if (fails(__func__))
        return CUBLAS_STATUS_INVALID_VALUE;
    return set(preference, MARK_PREFERENCE, attributes, sizeof attributes / sizeof attributes[0], number,
               value, bytes);
}

/* ---- problems: the checked description of what a call multiplies ---- */

static uint64_t type_bytes(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static bool is_layout(const struct layout *layout)
{
    return layout && layout->mark == MARK_LAYOUT &&
           (layout->type == CUDA_R_32F || layout->type == CUDA_R_16BF) && layout->ld >= 1 &&
           (uint64_t)layout->ld >= layout->rows;
}

static bool same_layout(const struct layout *a, const struct layout *b)
{
    return a->type == b->type && a->rows == b->rows && a->columns == b->columns && a->ld == b->ld;
}

/* True if the types are in the manual's table. Bias and aux must have D's type. */
static bool is_supported(const struct problem *problem)
{
    const struct desc *desc = &problem->desc;
    bool fp32 = problem->a.type == CUDA_R_32F;
    if (problem->a.type != problem->b.type || (fp32 && problem->d.type != CUDA_R_32F))
        return false;
    if (desc->compute != CUBLAS_COMPUTE_32F && desc->compute != CUBLAS_COMPUTE_32F_PEDANTIC)
        return false;
    if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && desc->epilogue != CUBLASLT_EPILOGUE_BIAS &&
        desc->epilogue != CUBLASLT_EPILOGUE_GELU_BIAS && !has_aux(problem))
        return false;
    if (has_bias(problem) && desc->bias_type != -1 && desc->bias_type != (int32_t)problem->d.type)
        return false;
    return !has_aux(problem) || (desc->aux_ld % 8 == 0 && (uint64_t)desc->aux_ld >= problem->m &&
                                 (desc->aux_type == -1 || desc->aux_type == (int32_t)problem->d.type));
}

static cublasStatus_t read_problem(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   struct problem *ret_problem)
{
    const struct desc *given = (const void *)desc;
    const struct layout *layouts[] = {(const void *)a, (const void *)b, (const void *)c, (const void *)d};
    if (!handle || handle->mark != MARK_HANDLE || handle->device != double_device() || !given ||
        given->mark != MARK_DESC)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < 4; i++)
        if (!is_layout(layouts[i]))
            return CUBLAS_STATUS_INVALID_VALUE;
    struct problem problem = {.desc = *given, .a = *layouts[0], .b = *layouts[1], .d = *layouts[3]};
    bool turned_a = given->op_a == CUBLAS_OP_T;
    bool turned_b = given->op_b == CUBLAS_OP_T;
    problem.m = problem.d.rows;
    problem.n = problem.d.columns;
    problem.k = turned_a ? problem.a.rows : problem.a.columns;
    if (!same_layout(layouts[2], layouts[3]) ||
        (turned_a ? problem.a.columns : problem.a.rows) != problem.m ||
        (turned_b ? problem.b.columns : problem.b.rows) != problem.k ||
        (turned_b ? problem.b.rows : problem.b.columns) != problem.n)
        return CUBLAS_STATUS_INVALID_VALUE;
    *ret_problem = problem;
    return is_supported(&problem) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- algorithms ---- */

/* Returns the kind of problem for which an algorithm is made. */
static uint64_t kind_of(const struct problem *problem)
{
    return (uint64_t)problem->a.type | (uint64_t)problem->d.type << 8 | (uint64_t)problem->desc.op_a << 16 |
           (uint64_t)problem->desc.op_b << 20 | (uint64_t)problem->desc.compute << 24 |
           (uint64_t)problem->desc.epilogue << 32;
}

static size_t workspace_of(const struct problem *problem, uint64_t number)
{
    return number == 2 ? SPLITS * problem->m * problem->n * sizeof(float) : 0;
}

static bool is_multiple(const struct layout *layout)
{
    return (uint64_t)layout->ld * type_bytes(layout->type) % ALIGN == 0;
}

static bool rows_are_aligned(const struct problem *problem)
{
    return is_multiple(&problem->a) && is_multiple(&problem->b) && is_multiple(&problem->d);
}

static bool place_is_aligned(const void *place, uint64_t bytes)
{
    return (uintptr_t)place % bytes == 0;
}

/* True if the preferred alignment is too small for any kernel to read an element. */
static bool splits_elements(const struct problem *problem, const struct preference *preference)
{
    const cudaDataType_t types[] = {problem->a.type, problem->b.type, problem->d.type, problem->d.type};
    for (size_t i = 0; i < 4; i++)
        if (preference->align[i] < type_bytes(types[i]))
            return true;
    return false;
}

static bool offers(const struct problem *problem, const struct preference *preference, uint64_t number)
{
    if (splits_elements(problem, preference))
        return false;
    if (number == 0) {
        for (size_t i = 0; i < 4; i++)
            if (preference->align[i] < ALIGN)
                return false;
        return rows_are_aligned(problem) && problem->m % EVEN == 0 && problem->k % EVEN == 0 &&
               (!has_bias(problem) || place_is_aligned(problem->desc.bias, ALIGN));
    }
    return number != 2 ||
           ((preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && problem->k >= SPLITS &&
            workspace_of(problem, number) <= preference->workspace_bytes);
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int asked,
                                                     cublasLtMatmulHeuristicResult_t results[], int *ret_n)
{
    struct problem problem;
    const struct preference *prefer = (const void *)preference;
    int n = 0;
    if (fails(__func__))
        return CUBLAS_STATUS_INTERNAL_ERROR;
    cublasStatus_t status = read_problem(handle, desc, a, b, c, d, &problem);
    if (status == CUBLAS_STATUS_SUCCESS && (asked < 1 || !prefer || prefer->mark != MARK_PREFERENCE))
        status = CUBLAS_STATUS_INVALID_VALUE;
    /* The manual does not say which of two errors refuses an epilogue. */
    if (status == CUBLAS_STATUS_SUCCESS && double_settings().plain && has_bias(&problem))
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_SUCCESS && has_aux(&problem) &&
        (problem.d.type == CUDA_R_32F || !place_is_aligned(problem.desc.aux, ALIGN)))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    results[n++] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_NOT_SUPPORTED};
    for (uint64_t number = 0; number <= REFUSED && n < asked; number++) {
        if (!offers(&problem, prefer, number))
            continue;
        const cublasLtMatmulAlgo_t algo = {{MARK_ALGORITHM, number, kind_of(&problem)}};
        results[n++] = (cublasLtMatmulHeuristicResult_t){.algo = algo,
                                                         .workspaceSize = workspace_of(&problem, number),
                                                         .state = CUBLAS_STATUS_SUCCESS,
                                                         .wavesCount = 1};
    }
    *ret_n = n;
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_algorithm_for(const cublasLtMatmulAlgo_t *algo, const struct problem *problem)
{
    return algo && algo->data[0] == MARK_ALGORITHM && algo->data[1] < ALGORITHMS &&
           algo->data[2] == kind_of(problem) && (algo->data[1] != 0 || rows_are_aligned(problem)) &&
           (algo->data[1] != 2 || problem->k >= SPLITS);
}

EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              const cublasLtMatmulAlgo_t *algo,
                                              cublasLtMatmulHeuristicResult_t *ret_result)
{
    struct problem problem;
    if (fails(__func__))
        return CUBLAS_STATUS_INTERNAL_ERROR;
    cublasStatus_t status = read_problem(handle, desc, a, b, c, d, &problem);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!is_algorithm_for(algo, &problem))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    ret_result->workspaceSize = workspace_of(&problem, algo->data[1]);
    ret_result->state = CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_on_device(const void *place, uint64_t bytes)
{
    return double_place_of(place, bytes) == PLACE_DEVICE;
}

static bool holds(const void *place, const struct layout *layout)
{
    return is_on_device(place, ((layout->columns - 1) * (uint64_t)layout->ld + layout->rows) *
                                   type_bytes(layout->type));
}

/* True if all operands are in allocations. Hardware only notices an address outside of all allocations. */
static bool places_exist(const struct product *product)
{
    const struct problem *problem = &product->problem;
    const struct layout aux = {
        .type = problem->d.type, .rows = problem->m, .columns = problem->n, .ld = problem->desc.aux_ld};
    const uint64_t workspace_bytes = workspace_of(problem, product->number);
    return holds(product->a, &problem->a) && holds(product->b, &problem->b) &&
           holds(product->d, &problem->d) && (!has_aux(problem) || holds(problem->desc.aux, &aux)) &&
           (!has_bias(problem) ||
            is_on_device(problem->desc.bias, problem->m * type_bytes(problem->d.type))) &&
           (!workspace_bytes || is_on_device(product->workspace, workspace_bytes));
}

static bool places_fit(const struct product *product)
{
    const struct problem *problem = &product->problem;
    uint64_t in = product->number == 0 ? ALIGN : type_bytes(problem->a.type);
    uint64_t out = product->number == 0 ? ALIGN : type_bytes(problem->d.type);
    if (!product->a || !product->b || !product->d || (has_bias(problem) && !problem->desc.bias))
        return false;
    if (has_aux(problem) && (!problem->desc.aux || !place_is_aligned(problem->desc.aux, ALIGN)))
        return false;
    return place_is_aligned(product->a, in) && place_is_aligned(product->b, in) &&
           place_is_aligned(product->d, out) &&
           (!has_bias(problem) || place_is_aligned(problem->desc.bias, ALIGN));
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                                     cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t layout_c, void *d,
                                     cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algo,
                                     void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    struct product product = {
        .a = a, .b = b, .c = c, .d = d, .alpha = *(const float *)alpha, .beta = *(const float *)beta};
    if (fails(__func__))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    cublasStatus_t status =
        read_problem(handle, desc, layout_a, layout_b, layout_c, layout_d, &product.problem);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!is_algorithm_for(algo, &product.problem) || c != d)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    product.number = algo->data[1];
    product.kind = kind_of(&product.problem);
    product.workspace = workspace;
    if (workspace_of(&product.problem, product.number) > workspace_bytes ||
        !place_is_aligned(workspace, WORKSPACE_ALIGN) || !places_fit(&product) || !places_exist(&product))
        return CUBLAS_STATUS_INVALID_VALUE;
    return product_enqueue(&product, stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}
