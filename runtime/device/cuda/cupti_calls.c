/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads CUPTI. Its soname contains the major version. Within a major version, the fields of records keep their places
 * and records only grow at the end. So a library at least as new as the headers has the records described by them.
 */
#include "runtime/device/cuda/cupti_calls.h"

#include "runtime/device/cuda/library.h"

#define SONAME "libcupti.so.13"

enum { OF_MAJOR = 10000, OF_MINOR = 100 };

_Static_assert(CUPTI_API_VERSION / OF_MAJOR == 13, "the soname and the records that are read are of CUDA 13");

int ah_cupti_load(struct ah_cupti *ret_calls, struct ah_error *err)
{
    struct ah_cupti calls = {0};
    const struct ah_cuda_symbol symbols[] = {
#define SYMBOL(field, function) {#function, &calls.field},
        AH_CUPTI_CALLS(SYMBOL)
#undef SYMBOL
    };
    int rc = ah_cuda_library_open(SONAME, symbols, sizeof symbols / sizeof symbols[0], err);
    if (!rc)
        rc = ah_cupti_check(&calls, calls.version(&calls.api_version), "cuptiGetVersion", err);
    if (rc)
        return rc;
    uint32_t version = calls.api_version;
    if (version / OF_MAJOR != CUPTI_API_VERSION / OF_MAJOR ||
        version / OF_MINOR < CUPTI_API_VERSION / OF_MINOR)
        return ah_error_set(
            err, AH_E_MISSING,
            "library '%s' writes records of version %u, but this build reads version %d; install the CUPTI "
            "of this CUDA toolkit",
            SONAME, version, CUPTI_API_VERSION);
    *ret_calls = calls;
    return AH_OK;
}

int ah_cupti_check(const struct ah_cupti *calls, CUptiResult result, const char *call, struct ah_error *err)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS)
        return AH_OK;
    if (calls->result_text(result, &text) != CUPTI_SUCCESS || !text)
        text = "an unknown error";
    if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ||
        result == CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
        return ah_error_set(err, AH_E_FAILED,
                            "'%s': the NVIDIA driver lets only administrators profile; load it with "
                            "NVreg_RestrictProfilingToAdminUsers=0",
                            call);
    return ah_error_set(err, result == CUPTI_ERROR_OUT_OF_MEMORY ? AH_E_MEMORY : AH_E_FAILED,
                        "'%s' failed: %s (%d); check that the NVIDIA driver supports the toolkit that CUPTI "
                        "came with",
                        call, text, (int)result);
}
