/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of the CUPTI calls that recording makes, filled when recording begins.
 *
 * Source: CUPTI manual, "CUPTI Activity API"; cupti_activity.h and cupti_callbacks.h of CUDA 13.0.
 */
#ifndef AH_RUNTIME_DEVICE_CUDA_CUPTI_CALLS_H
#define AH_RUNTIME_DEVICE_CUDA_CUPTI_CALLS_H

#include "base/error.h"

#include <cupti.h>

/* Field, function. */
/* clang-format off */
#define AH_CUPTI_CALLS(X)                                           \
    X(version, cuptiGetVersion)                                     \
    X(result_text, cuptiGetResultString)                            \
    X(subscribe, cuptiSubscribe_v2)                                 \
    X(unsubscribe, cuptiUnsubscribe)                                \
    X(set_attribute, cuptiActivitySetAttribute)                     \
    X(set_clock, cuptiActivityRegisterTimestampCallback)            \
    X(set_buffers, cuptiActivityRegisterCallbacks)                  \
    X(enable, cuptiActivityEnable)                                  \
    X(disable, cuptiActivityDisable)                                \
    X(enable_runtime_call, cuptiActivityEnableRuntimeApi)           \
    X(enable_driver_call, cuptiActivityEnableDriverApi)             \
    X(flush, cuptiActivityFlushAll)                                 \
    X(next_record, cuptiActivityGetNextRecord)                      \
    X(count_dropped, cuptiActivityGetNumDroppedRecords)             \
    X(push_id, cuptiActivityPushExternalCorrelationId)              \
    X(pop_id, cuptiActivityPopExternalCorrelationId)                \
    X(stream_id, cuptiGetStreamIdEx)
/* clang-format on */

struct ah_cupti {
#define AH_CUPTI_FIELD(field, function) __typeof__(&function) field;
    AH_CUPTI_CALLS(AH_CUPTI_FIELD)
#undef AH_CUPTI_FIELD
    uint32_t api_version; /* the library's version, in the form of CUPTI_API_VERSION */
};

/* Loads the library. AH_E_MISSING if it is not found, or lacks a function or the records of this build's headers. */
int ah_cupti_load(struct ah_cupti *ret_calls, struct ah_error *err);

/* Returns AH_OK, or the error of a call that returned `result`. */
int ah_cupti_check(const struct ah_cupti *calls, CUptiResult result, const char *call, struct ah_error *err);

#endif
