/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests building a cluster from profiles and links: ranks, types, network cards and pairs.
 */
#include "profiler/cluster_measured.h"

#include "schemas/machine.h"
#include "tests/support/check.h"

#include <string.h>

enum { MOST = 4 };

struct scene {
    struct ah_document documents[MOST];
    struct ah_measured_host hosts[MOST];
    struct ah_measured_link links[MOST * MOST];
    struct ah_cluster_measured measured;
    struct ah_arena arena;
    struct ah_cluster cluster;
    struct ah_error err;
};

static const char *const names[MOST] = {"a", "b", "c", "d"};

/* Makes `n` hosts with equal profiles, each on its own machine. All links are equal. */
static void begin(struct scene *scene, size_t n, const char *path)
{
    size_t n_links = 0;
    memset(scene, 0, sizeof *scene);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(ah_document_load(&scene->documents[i], path, AH_DOCUMENT_MACHINE, &scene->err), scene->err);
        scene->hosts[i] = (struct ah_measured_host){names[i], 1, i, &scene->documents[i]};
        for (size_t j = 0; j < i; j++)
            scene->links[n_links++] = (struct ah_measured_link){j, i, {1.1e9, 40, 0.1}};
    }
    scene->measured = (struct ah_cluster_measured){scene->hosts, n, scene->links, n_links};
}

static void begin_cpus(struct scene *scene, size_t n)
{
    begin(scene, n, "tests/cli/documents/machine-cpu.json");
}

static int make(struct scene *scene)
{
    return ah_cluster_measured(&scene->measured, &scene->arena, &scene->cluster, &scene->err);
}

static void end(struct scene *scene)
{
    for (size_t i = 0; i < MOST; i++)
        ah_document_release(&scene->documents[i]);
    ah_arena_release(&scene->arena);
}

static void check_valid(struct scene *scene)
{
    const struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER, .body = {.cluster = &scene->cluster}};
    struct ah_document read = {0};
    struct ah_buffer text = {0};
    CHECK_OK(ah_document_print(&document, &text, &scene->err), scene->err);
    CHECK_OK(ah_document_parse(&read, "it", text.data, text.size, AH_DOCUMENT_CLUSTER, &scene->err),
             scene->err);
    ah_document_release(&read);
    ah_buffer_release(&text);
}

static void scale_products(struct scene *scene, size_t host, double by)
{
    struct ah_machine *machine = scene->documents[host].body.machine;
    for (size_t i = 0; i < machine->n_matmul; i++)
        machine->matmul[i].flops_per_s.median *= by;
}

TEST(cluster_measured, gives_equal_machines_one_type)
{
    struct scene scene;
    begin_cpus(&scene, 3);
    scale_products(&scene, 1, 0.94);
    scale_products(&scene, 2, 1.09);
    CHECK_OK(make(&scene), scene.err);
    assert_int_equal(scene.cluster.n_gpus, 1);
    assert_int_equal(scene.cluster.n_nodes, 3);
    assert_null(scene.cluster.gpus[0].machine_sha256); /* a mean of several profiles */
    struct ah_cluster_gpu mean = scene.cluster.gpus[0];
    check_valid(&scene);
    scene.measured.n_hosts = 2; /* the link of the first two hosts comes first */
    scene.measured.n_links = 1;
    scale_products(&scene, 1, 1 / 0.94);
    CHECK_OK(make(&scene), scene.err);
    check_near(mean.fp32_flops_per_s / scene.cluster.gpus[0].fp32_flops_per_s, (1 + 0.94 + 1.09) / 3, 1e-9);
    end(&scene);
}

TEST(cluster_measured, gives_unequal_machines_types_of_their_own)
{
    struct scene scene;
    begin_cpus(&scene, 4);
    scale_products(&scene, 1, 0.89);
    scene.documents[2].body.machine->host.memory_bytes /= 2;
    CHECK_OK(make(&scene), scene.err);
    assert_int_equal(scene.cluster.n_gpus, 3);
    assert_string_equal(scene.cluster.nodes[0].gpu, "two-cores");
    assert_string_equal(scene.cluster.nodes[1].gpu, "two-cores-2");
    assert_string_equal(scene.cluster.nodes[2].gpu, "two-cores-3");
    assert_string_equal(scene.cluster.nodes[3].gpu, "two-cores");
    assert_null(scene.cluster.gpus[0].machine_sha256);
    assert_int_equal(strlen(scene.cluster.gpus[1].machine_sha256), AH_DOCUMENT_DIGEST_MAX - 1);
    check_valid(&scene);
    end(&scene);
}

TEST(cluster_measured, gives_a_slot_its_share)
{
    struct scene scene;
    begin_cpus(&scene, 2);
    scene.hosts[1].slots = 2;
    CHECK_OK(make(&scene), scene.err);
    assert_int_equal(scene.cluster.n_gpus, 2);
    const struct ah_cluster_gpu *whole = &scene.cluster.gpus[0], *half = &scene.cluster.gpus[1];
    assert_int_equal(scene.cluster.nodes[0].gpus, 1);
    assert_int_equal(scene.cluster.nodes[1].gpus, 2);
    assert_int_equal(half->memory_bytes, whole->memory_bytes / 2);
    check_valid(&scene);
    scene.hosts[1].slots = 3;
    CHECK_FAILS(make(&scene), scene.err, AH_E_USAGE, "host 'b' has 2 threads for 3 slots");
    end(&scene);
}

/* Two hosts on one machine, with one slot each, get the same shares as a single host with two slots. */
TEST(cluster_measured, shares_a_machine_among_its_hosts)
{
    struct scene apart, together;
    begin_cpus(&apart, 3);
    begin_cpus(&together, 2);
    apart.hosts[1].first = 0;
    apart.hosts[1].name = "a"; /* a hosts file may repeat a name */
    together.hosts[0].slots = 2;
    CHECK_OK(make(&apart), apart.err);
    CHECK_OK(make(&together), together.err);
    const struct ah_cluster_node *one = &apart.cluster.nodes[0], *two = &together.cluster.nodes[0];
    assert_int_equal(apart.cluster.gpus[0].memory_bytes, together.cluster.gpus[0].memory_bytes);
    assert_int_equal(one->gpus, 1);
    assert_int_equal(one->host_memory_bytes, two->host_memory_bytes / 2);
    check_near(one->host_memory_bytes_per_s, two->host_memory_bytes_per_s / 2, 1);
    assert_string_equal(apart.cluster.nodes[1].id, "a-2");
    assert_string_equal(apart.cluster.nodes[1].gpu, one->gpu);
    check_valid(&apart);
    end(&apart);
    end(&together);
}

/* The links are a-b, a-c and b-c, in this order. */
TEST(cluster_measured, has_pairs_where_cards_say_something_else)
{
    struct scene scene;
    begin_cpus(&scene, 3);
    scene.links[1].link.bytes_per_s = 1.0e9; /* 9 % less than the other links */
    scene.links[1].link.latency_us = 49;     /* 22 % and 9 us more */
    scene.links[2].link.bytes_per_s = 1.02e9;
    CHECK_OK(make(&scene), scene.err);
    assert_int_equal(scene.cluster.n_pairs, 0);
    check_near(scene.cluster.nodes[2].nic_bytes_per_s, 1.02e9, 1);
    check_near(scene.cluster.nodes[0].nic_latency_us, 40, 1e-9);
    scene.links[1].link.bytes_per_s = 0.9e9;
    scene.links[2].link.latency_us = 65;
    CHECK_OK(make(&scene), scene.err);
    assert_int_equal(scene.cluster.n_pairs, 2);
    for (size_t i = 0; i < scene.measured.n_links; i++) {
        const struct ah_measured_link *link = &scene.links[i];
        const struct ah_cluster_link found = ah_cluster_link_of(&scene.cluster, link->a, link->b);
        check_near(found.bytes_per_s, link->link.bytes_per_s, 0.1 * link->link.bytes_per_s);
        check_near(found.latency_us, link->link.latency_us, 10);
    }
    check_valid(&scene);
    end(&scene);
}

/* The rate between two ranks of one machine is no measure of the machine's network card. */
TEST(cluster_measured, a_card_has_no_links_inside_a_machine)
{
    struct scene scene;
    begin_cpus(&scene, 3);
    scene.hosts[1].first = 0;
    scene.links[0].link.bytes_per_s = 7e9;
    CHECK_OK(make(&scene), scene.err);
    check_near(scene.cluster.nodes[0].nic_bytes_per_s, 1.1e9, 1);
    assert_int_equal(scene.cluster.n_pairs, 1);
    check_near(scene.cluster.pairs[0].bytes_per_s, 7e9, 1);
    scene.measured.n_hosts = 2;
    scene.measured.n_links = 1;
    CHECK_OK(make(&scene), scene.err);
    check_near(scene.cluster.nodes[1].nic_bytes_per_s, 7e9, 1);
    assert_int_equal(scene.cluster.n_pairs, 0);
    end(&scene);
}

TEST(cluster_measured, takes_one_gpu_of_a_host)
{
    struct scene scene;
    begin(&scene, 2, "examples/machines/rtx4090-64g.json");
    CHECK_OK(make(&scene), scene.err);
    assert_int_equal(scene.cluster.device, AH_DEVICE_CUDA);
    assert_int_equal(scene.cluster.n_gpus, 1);
    check_valid(&scene);
    scene.hosts[0].slots = 2;
    CHECK_FAILS(make(&scene), scene.err, AH_E_USAGE, "write 'slots=1'");
    scene.hosts[0].slots = 1;
    struct ah_document cpu = {0};
    CHECK_OK(ah_document_load(&cpu, "tests/cli/documents/machine-cpu.json", AH_DOCUMENT_MACHINE, &scene.err),
             scene.err);
    scene.hosts[1].document = &cpu;
    CHECK_FAILS(make(&scene), scene.err, AH_E_DOCUMENT, "hosts 'a' and 'b' have different kinds of device");
    ah_document_release(&cpu);
    end(&scene);
}
