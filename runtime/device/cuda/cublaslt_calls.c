/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads cuBLASLt. Its soname contains the major version, within which functions and descriptors keep their meaning.
 */
#include "runtime/device/cuda/cublaslt_calls.h"

#include "runtime/device/cuda/library.h"

#define SONAME_OF(major)     SONAME_OF_TEXT(major)
#define SONAME_OF_TEXT(text) "libcublasLt.so." #text

int ah_cublaslt_load(struct ah_cublaslt *ret_calls, struct ah_error *err)
{
    struct ah_cublaslt calls = {0};
    const struct ah_cuda_symbol symbols[] = {
#define SYMBOL(field, function) {#function, &calls.field},
        AH_CUBLASLT_CALLS(SYMBOL)
#undef SYMBOL
    };
    int rc =
        ah_cuda_library_open(SONAME_OF(CUBLAS_VER_MAJOR), symbols, sizeof symbols / sizeof symbols[0], err);
    if (rc)
        return rc;
    size_t major = calls.version() / 10000;
    if (major != CUBLAS_VER_MAJOR)
        return ah_error_set(
            err, AH_E_MISSING,
            "library '%s' is version %zu, but this build needs %d; install the libraries of CUDA %d",
            SONAME_OF(CUBLAS_VER_MAJOR), major, CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR);
    *ret_calls = calls;
    return AH_OK;
}

int ah_cublaslt_error(const struct ah_cublaslt *calls, cublasStatus_t status, const char *call,
                      struct ah_error *err)
{
    int code = status == CUBLAS_STATUS_ALLOC_FAILED ? AH_E_CAPACITY : AH_E_FAILED;
    return ah_error_set(err, code, "%s failed: %s (%s, %d)", call, calls->status_text(status),
                        calls->status_name(status), (int)status);
}
