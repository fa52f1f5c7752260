/* SPDX-License-Identifier: Apache-2.0
 *
 * Request for a cluster: turns the command line of `plan --cluster` or `compare --cluster` into a request.
 *
 *     struct ah_request_cluster request;
 *     rc = ah_request_cluster_init(&request, cli, &options, err);   // reads the documents, checks the numbers
 *     rc = ah_cluster_planner_plan(&request.planner, ...);
 *     ah_request_cluster_release(&request);
 */
#ifndef AH_CLI_PLAN_REQUEST_CLUSTER_H
#define AH_CLI_PLAN_REQUEST_CLUSTER_H

#include "cli/plan/request.h"
#include "planner/cluster/cluster_planner.h"

struct ah_request_cluster_options {
    const struct ah_request_options *request;
    const char *cluster; /* file */
    const char *tp;      /* one of ah_request_words_tp; NULL: symmetric */
    const char *policy;  /* NULL: optimal */
    const char *search;  /* NULL: both */
    const char *like;    /* (optional) file; ah_like_apply_cluster() */
};

struct ah_request_cluster {
    struct ah_request base; /* model, training, progress; its machine represents the cluster's GPUs */
    struct ah_machine gpu;
    struct ah_document cluster;
    char cluster_sha256[AH_DOCUMENT_DIGEST_MAX];
    struct ah_cluster_request planner; /* borrows the documents */
};

/* the policies for one machine and for clusters */
extern const char *const ah_request_words_any_policy[];

/* The modes of tensor parallelism, then its degrees. */
extern const char *const ah_request_words_tp[];

/* Reads the documents and options; the model is the first operand. Planning shows progress and stops at an interrupt.
 * Do not move the request. After a failure there is nothing to release. Errors: as ah_request_init(). */
int ah_request_cluster_init(struct ah_request_cluster *ret_request, struct ah_cli *cli,
                            const struct ah_request_cluster_options *options, struct ah_error *err);

void ah_request_cluster_release(struct ah_request_cluster *request);

/* Draws the progress of a search; `progress` is a struct ah_progress. Returns true after an interrupt. */
bool ah_request_cluster_searched(void *progress, uint64_t done, uint64_t planned);

/* Checks that `policy` is for one machine. AH_E_USAGE: it is only for clusters. */
int ah_request_cluster_check_machine(const char *policy, struct ah_error *err);

#endif
