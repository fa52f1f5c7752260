/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of GPUs that share hosts: all of few, halves of more, and what bounds those that were left out. On two desktops
 * with more GPUs.
 */
#include "planner/cluster/shares.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <string.h>

#define DIGEST "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

enum { NODES = 2 };

static const char *everything[] = {"*"};

struct fixture {
    struct ah_document model, document;
    struct ah_cluster cluster;
    struct ah_cluster_node nodes[NODES];
    struct ah_cluster_request request;
    struct ah_arena arena;
    struct ah_settings settings;
    size_t n_before; /* settings of all GPUs */
};

static void make(struct fixture *f, uint64_t first, uint64_t second)
{
    struct ah_error err = {0};
    *f = (struct fixture){0};
    CHECK_OK(ah_document_load(&f->model, "examples/models/gpt2-124m.json", AH_DOCUMENT_MODEL, &err), err);
    CHECK_OK(ah_document_load(&f->document, "examples/clusters/desktops-4090-3090.json", AH_DOCUMENT_CLUSTER,
                              &err),
             err);
    f->cluster = *f->document.body.cluster;
    memcpy(f->nodes, f->cluster.nodes, sizeof f->nodes);
    f->nodes[0].gpus = first;
    f->nodes[1].gpus = second;
    f->cluster.nodes = f->nodes;
    f->request = (struct ah_cluster_request){.model = f->model.body.model,
                                             .model_sha256 = DIGEST,
                                             .cluster = &f->cluster,
                                             .cluster_sha256 = DIGEST,
                                             .training = {.batch = 8,
                                                          .micro_batches = 8,
                                                          .seq = 256,
                                                          .dtype = AH_BF16,
                                                          .trainable = everything,
                                                          .n_trainable = 1},
                                             .generator = "test"};
    CHECK_OK(ah_settings_make(&f->request, &f->arena, &f->settings, &err), err);
    f->n_before = f->settings.n;
    CHECK_OK(ah_shares_add(&f->request, &f->arena, &f->settings, &err), err);
}

static void release(struct fixture *f)
{
    ah_arena_release(&f->arena);
    ah_document_release(&f->document);
    ah_document_release(&f->model);
}

/* Settings with hosts, of GPUs by themselves, of which so many work in each node. */
static size_t count(const struct fixture *f, size_t first, size_t second)
{
    size_t n = 0;
    for (size_t i = 0; i < f->settings.n; i++) {
        const struct ah_setting *s = &f->settings.items[i];
        n += s->away && s->tp[0] == 1 && s->instance.classes[0].units == first &&
             s->instance.classes[1].units == second;
        assert_int_equal(s->index, i);
    }
    return n;
}

static void test_shares__are_all_of_few(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, 3, 9);
    for (size_t first = 1; first <= 3; first++)
        for (size_t second = 1; second <= 9; second++)
            assert_int_equal(count(&f, first, second), 1);
    assert_int_equal(f.settings.n_favoured, 0);
    release(&f);
}

static void test_shares__are_halves_of_more(void **state)
{
    (void)state;
    static const size_t halves[][NODES] = {{3, 10}, {3, 5}, {2, 2}, {1, 1}};
    struct fixture f;
    size_t n = 0;
    make(&f, 3, 10);
    for (size_t first = 1; first <= 3; first++)
        for (size_t second = 1; second <= 10; second++)
            n += count(&f, first, second);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        assert_int_equal(count(&f, halves[i][0], halves[i][1]), 1);
    assert_int_equal(n, sizeof halves / sizeof *halves);
    release(&f);
}

/* Each setting of which some were left out has one bound, with the whole host for every GPU; the others have none. */
static void test_shares__left_out_are_bounded_by_one(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, 3, 10);
    assert_int_equal(f.settings.n_favoured, 1);
    const struct ah_setting *favoured = &f.settings.favoured[0];
    for (size_t i = 0; i < f.settings.n; i++) {
        const struct ah_setting *s = &f.settings.items[i];
        bool halved = s->away && s->tp[0] == 1;
        assert_ptr_equal(s->favoured, halved ? favoured : NULL);
        if (!halved)
            continue;
        for (size_t c = 0; c < NODES; c++) {
            const struct ah_instance_block *mine = ah_instance_kind_of(&s->instance, c)->blocks;
            const struct ah_instance_kind *kind = ah_instance_kind_of(&favoured->instance, c);
            assert_int_equal(favoured->instance.classes[c].units, f.nodes[c].gpus);
            assert_true(kind->host_bytes >=
                        s->instance.classes[c].units * ah_instance_kind_of(&s->instance, c)->host_bytes);
            assert_true(kind->blocks[1].away[AH_AWAY_WEIGHTS].backward_us <=
                        mine[1].away[AH_AWAY_WEIGHTS].backward_us);
        }
    }
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares__are_all_of_few),
                                       cmocka_unit_test(test_shares__are_halves_of_more),
                                       cmocka_unit_test(test_shares__left_out_are_bounded_by_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
