/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads NCCL. Its soname has been libnccl.so.2 since 2017, and functions keep their form within it.
 */
#include "runtime/device/cuda/nccl_calls.h"

#include "runtime/device/cuda/library.h"

#include <stdio.h>

#define SONAME "libnccl.so.2"

/* Before this version, threads of one process could write into each other's messages even after an abort. */
enum { VERSION_LEAST = NCCL_VERSION(2, 26, 2) };

int ah_nccl_load(struct ah_nccl *ret_calls, struct ah_error *err)
{
    struct ah_nccl calls = {0};
    const struct ah_cuda_symbol symbols[] = {
#define SYMBOL(field, function) {#function, &calls.field},
        AH_NCCL_CALLS(SYMBOL)
#undef SYMBOL
    };
    int version = 0;
    int rc = ah_cuda_library_open(SONAME, symbols, sizeof symbols / sizeof symbols[0], err);
    rc = rc ? rc : ah_nccl_check(&calls, NULL, calls.version(&version), "ncclGetVersion", err);
    if (rc)
        return rc;
    snprintf(calls.name, sizeof calls.name, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    if (version < VERSION_LEAST)
        return ah_error_set(err, AH_E_MISSING,
                            "library '%s' is %s, but messages between GPUs need 2.26.2 or later; install a "
                            "later NCCL",
                            SONAME, calls.name);
    *ret_calls = calls;
    return AH_OK;
}

int ah_nccl_check(const struct ah_nccl *calls, ncclComm_t comm, ncclResult_t result, const char *call,
                  struct ah_error *err)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return AH_OK;
    const char *last = calls->last_error ? calls->last_error(comm) : NULL;
    return ah_error_set(
        err, result == ncclSystemError ? AH_E_MISSING : AH_E_FAILED,
        "'%s' failed: %s (%d)%s%.300s; NCCL_DEBUG=WARN in the environment makes NCCL say more", call,
        calls->text(result), (int)result, last && last[0] ? ": " : "", last ? last : "");
}
