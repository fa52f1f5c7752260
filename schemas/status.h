/* SPDX-License-Identifier: Apache-2.0
 *
 * The `status` document, LOG.status beside a run's log: the last known position of each rank. It is replaced about once
 * a second during the run; the last one says how the run ended. It is the only document with a time of day.
 */
#ifndef AH_SCHEMAS_STATUS_H
#define AH_SCHEMAS_STATUS_H

#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AH_STATUS_SUFFIX ".status"

/* clang-format off */
#define AH_STATUS_ENDED_WORDS(X)                                                                             \
    X(AH_STATUS_RUNS, "no") X(AH_STATUS_DONE, "done") X(AH_STATUS_INTERRUPTED, "interrupted")                \
    X(AH_STATUS_FAILED, "failed")
/* Messages between ranks; the first two belong to a micro-batch. */
#define AH_STATUS_MESSAGE_WORDS(X)                                                                           \
    X(AH_STATUS_OUTPUT, "output") X(AH_STATUS_GRADIENT, "gradient") X(AH_STATUS_PARTIAL, "partial_sum")      \
    X(AH_STATUS_TOTAL, "total_sum") X(AH_STATUS_NORM, "norm") X(AH_STATUS_REPORT, "report")                  \
    X(AH_STATUS_ORDER, "order")
/* clang-format on */

#define AH_WORD_VALUE(value, word) value,
enum ah_status_ended { AH_STATUS_ENDED_WORDS(AH_WORD_VALUE) };
enum ah_status_message { AH_STATUS_MESSAGE_WORDS(AH_WORD_VALUE) };
#undef AH_WORD_VALUE

extern const char *const ah_words_status_ended[];
extern const char *const ah_words_status_message[];

/* A kind of op of a plan (enum ah_plan_op_kind), or none. */
enum { AH_STATUS_NO_OP = AH_PLAN_OP_KINDS };
#define AH_STATUS_NO_MICRO_BATCH 16777216 /* above every micro-batch */

struct ah_status_wait {
    uint64_t rank;
    enum ah_status_message message;
    bool sends;           /* true: waits for the other rank to receive the message; false: to send it */
    uint64_t micro_batch; /* of the pipeline; AH_STATUS_NO_MICRO_BATCH: none */
    double us;            /* length of the wait so far, updated about once a second */
};

struct ah_status_rank {
    uint64_t rank;
    const char *host;
    const char *node; /* NULL: the plan is for one machine */
    uint64_t step;    /* the last step that the rank knows to be done */
    unsigned op;      /* the op on the lane compute that runs or is next; AH_STATUS_NO_OP: none */
    const char *block;
    uint64_t micro_batch;
    struct ah_status_wait *waits_for; /* NULL: the rank works */
    double silent_us; /* time since its last answer, which gave the fields above; 0: the rank answers */
};

struct ah_status {
    const char *generator;
    const char *model;
    uint64_t step, steps; /* steps done, including those before a resume; steps of the whole run */
    uint64_t updated_us;  /* since 1970, UTC */
    enum ah_status_ended ended;
    struct ah_status_rank *ranks; /* in order */
    size_t n_ranks;
    struct ah_text_pair *annotations;
    size_t n_annotations;
};

#endif
