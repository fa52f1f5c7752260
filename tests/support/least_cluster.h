/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest request for a cluster plan: a model of three layers on two desktops, with a short search.
 */
#ifndef AH_TESTS_SUPPORT_LEAST_CLUSTER_H
#define AH_TESTS_SUPPORT_LEAST_CLUSTER_H

#include "planner/cluster/cluster_planner.h"
#include "tests/support/documents.h"

/* A stand-in for the digests of the model and of the cluster. */
#define LEAST_SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct least_cluster {
    struct ah_document model, cluster;
    const char *patterns[1];
    struct ah_cluster_request request; /* must not move, because it borrows the other members */
};

static inline void least_cluster_open(struct least_cluster *least)
{
    load_document(&least->model, "tests/cli/documents/model-least.json", AH_DOCUMENT_MODEL);
    load_document(&least->cluster, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER);
    least->patterns[0] = "*";
    least->request = (struct ah_cluster_request){.model = least->model.body.model,
                                                 .model_sha256 = LEAST_SHA256,
                                                 .cluster = least->cluster.body.cluster,
                                                 .cluster_sha256 = LEAST_SHA256,
                                                 .training = {.batch = 2,
                                                              .micro_batches = 2,
                                                              .seq = 8,
                                                              .trainable = least->patterns,
                                                              .n_trainable = 1},
                                                 .effort = 1,
                                                 .generator = "test"};
}

static inline void least_cluster_close(struct least_cluster *least)
{
    ah_document_release(&least->cluster);
    ah_document_release(&least->model);
}

#endif
