/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of the NCCL calls that messages need, filled when a rank joins its world.
 *
 * Source: NCCL user guide, "Communicator Creation and Management Functions", "Point To Point Communication Functions";
 * nccl.h of NCCL 2.28.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_NCCL_CALLS_H
#define AH_RUNTIME_DEVICE_CUDA_NCCL_CALLS_H

#include "base/error.h"

#include <nccl.h>

/* Field, function. */
/* clang-format off */
#define AH_NCCL_CALLS(X)                    \
    X(version, ncclGetVersion)              \
    X(unique_id, ncclGetUniqueId)           \
    X(init, ncclCommInitRankConfig)         \
    X(async_error, ncclCommGetAsyncError)   \
    X(abort, ncclCommAbort)                 \
    X(finalize, ncclCommFinalize)           \
    X(destroy, ncclCommDestroy)             \
    X(group_start, ncclGroupStart)          \
    X(group_end, ncclGroupEnd)              \
    X(send, ncclSend)                       \
    X(receive, ncclRecv)                    \
    X(text, ncclGetErrorString)             \
    X(last_error, ncclGetLastError)
/* clang-format on */

enum { AH_NCCL_TEXT_MAX = 64 };

struct ah_nccl {
#define AH_NCCL_FIELD(field, function) __typeof__(&function) field;
    AH_NCCL_CALLS(AH_NCCL_FIELD)
#undef AH_NCCL_FIELD
    char name[AH_NCCL_TEXT_MAX]; /* "NCCL 2.28.9" */
};

/* Loads the library. AH_E_MISSING if it is not found, too old, or lacks a function. */
int ah_nccl_load(struct ah_nccl *ret_calls, struct ah_error *err);

/* Returns AH_OK, or the error of a call that returned `result`. `comm` may be NULL. A call in progress is no error. */
int ah_nccl_check(const struct ah_nccl *calls, ncclComm_t comm, ncclResult_t result, const char *call,
                  struct ah_error *err);

#endif
