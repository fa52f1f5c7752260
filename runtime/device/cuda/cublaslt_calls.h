/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of the cuBLASLt calls that matrix products make, filled when a device is opened.
 *
 * Source: cuBLAS manual, "Using the cuBLASLt API".
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_CUBLASLT_CALLS_H
#define AH_RUNTIME_DEVICE_CUDA_CUBLASLT_CALLS_H

#include "base/error.h"

#include <cublasLt.h>

/* Field, function. */
/* clang-format off */
#define AH_CUBLASLT_CALLS(X)                                        \
    X(version, cublasLtGetVersion)                                  \
    X(status_name, cublasLtGetStatusName)                           \
    X(status_text, cublasLtGetStatusString)                         \
    X(create, cublasLtCreate)                                       \
    X(destroy, cublasLtDestroy)                                     \
    X(layout_create, cublasLtMatrixLayoutCreate)                    \
    X(layout_destroy, cublasLtMatrixLayoutDestroy)                  \
    X(desc_create, cublasLtMatmulDescCreate)                        \
    X(desc_destroy, cublasLtMatmulDescDestroy)                      \
    X(desc_set, cublasLtMatmulDescSetAttribute)                     \
    X(preference_create, cublasLtMatmulPreferenceCreate)            \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy)          \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)         \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                    \
    X(algo_check, cublasLtMatmulAlgoCheck)                          \
    X(matmul, cublasLtMatmul)
/* clang-format on */

struct ah_cublaslt {
#define AH_CUBLASLT_FIELD(field, function) __typeof__(&function) field;
    AH_CUBLASLT_CALLS(AH_CUBLASLT_FIELD)
#undef AH_CUBLASLT_FIELD
};

/* Loads the library. AH_E_MISSING if it is not found, lacks a function, or is not of this build's major version. */
int ah_cublaslt_load(struct ah_cublaslt *ret_calls, struct ah_error *err);

/* Sets the error for a failed call that returned `status`: AH_E_CAPACITY if memory ran out, otherwise AH_E_FAILED. */
int ah_cublaslt_error(const struct ah_cublaslt *calls, cublasStatus_t status, const char *call,
                      struct ah_error *err);

#endif
