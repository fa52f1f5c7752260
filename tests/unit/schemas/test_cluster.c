/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the peak rates of the example clusters, published with HexiScale, add up to the paper's sums.
 */
#include "schemas/cluster.h"
#include "tests/support/documents.h"

#include <stdio.h>
#include <string.h>

TEST(cluster, examples_have_the_published_sums)
{
    static const struct {
        const char *name;
        uint64_t gpus;
        double tflops;
    } rows[] = {{"cluster-a", 40, 5060}, {"cluster-b", 32, 4912.8}, {"cluster-c", 56, 9744}};
    for (size_t i = 0; i < 3; i++) {
        struct ah_document document;
        load_example(&document, AH_DOCUMENT_CLUSTER, rows[i].name);
        const struct ah_cluster *cluster = document.body.cluster;
        assert_string_equal(cluster->name, rows[i].name);
        assert_int_equal(ah_cluster_gpus(cluster), rows[i].gpus);
        check_near(ah_cluster_flops_per_s(cluster) / 1e12, rows[i].tflops, 0.001 / rows[i].tflops);
        assert_string_equal(ah_cluster_gpu_of(cluster, &cluster->nodes[0])->name, cluster->nodes[0].gpu);
        ah_document_release(&document);
    }
}
