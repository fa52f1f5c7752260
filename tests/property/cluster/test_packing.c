/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed pipelines: no more units than there are, as many pipelines as were asked for, the same ones every time; and searches
 * that begin with them, too, against those that do not, with the same budgets: random clusters of up to 30 units.
 */
#include "planner/cluster/hunt.h"
#include "planner/cluster/packing.h"
#include "tests/property/cluster/instances.h"

#include <math.h>
#include <stdio.h>

enum { INSTANCES = 100, UNITS = 30, MICRO_BATCHES = 128 };

struct visits {
    const struct ah_instance *instance;
    size_t n, pipelines;
    uint64_t sum; /* of what was seen, in its order */
};

static int visit(void *context, const uint8_t (*units)[AH_COMPOSITIONS_KINDS], size_t n, struct ah_error *err)
{
    struct visits *v = context;
    (void)err;
    for (size_t k = 0; k < v->instance->n_kinds; k++) {
        size_t used = 0, there = 0;
        for (size_t c = 0; c < v->instance->n_classes; c++)
            there += v->instance->classes[c].kind == k ? v->instance->classes[c].units : 0;
        for (size_t p = 0; p < n; p++) {
            used += units[p][k];
            v->sum = v->sum * 31 + units[p][k];
        }
        assert_true(used <= there);
    }
    for (size_t p = 0; p < n; p++) {
        size_t all = 0;
        for (size_t k = 0; k < v->instance->n_kinds; k++)
            all += units[p][k];
        assert_true(all > 0 && all <= v->instance->n_blocks);
    }
    assert_true(n <= v->instance->micro_batches);
    v->n++;
    v->pipelines += n;
    return AH_OK;
}

static double search_us(const struct ah_instance *in, double packed_us)
{
    const struct ah_hunt_limits limits = {.improvements = 2000, .shaking = 6000, .packed_us = packed_us};
    struct ah_error err = {0};
    struct ah_hunt_result result;
    struct ah_draft best;
    CHECK_OK(ah_draft_init(&best, in, &err), err);
    CHECK_OK(ah_hunt_run(in, &limits, INFINITY, &best, &result, &err), err);
    ah_draft_release(&best);
    return result.step_us;
}

static struct visits pack(const struct ah_instance *in, double step_us)
{
    struct visits visits = {.instance = in};
    struct ah_error err = {0};
    CHECK_OK(ah_packing_each(in, step_us, visit, &visits, &err), err);
    return visits;
}

TEST(packing, starts_better_searches)
{
    size_t instances = check_scaled(INSTANCES), better = 0, worse = 0, packs = 0;
    uint64_t random = 0x853c49e6748fea9b;
    for (size_t n = 0; n < instances;) {
        struct case_instance c;
        draw_instance(&c, &random, MOST_BLOCKS, UNITS, MICRO_BATCHES);
        double plain_us = search_us(&c.instance, 0);
        if (isinf(plain_us))
            continue;
        const struct visits once = pack(&c.instance, plain_us), twice = pack(&c.instance, plain_us);
        assert_true(once.n == twice.n && once.sum == twice.sum && once.pipelines >= once.n);
        double packed_us = search_us(&c.instance, plain_us);
        packs += once.n;
        better += packed_us < plain_us * (1 - 1e-9);
        worse += packed_us > plain_us * (1 + 1e-9);
        n++;
    }
    printf("%zu clusters: %zu packs, %zu searches end better with them, %zu worse\n", instances, packs,
           better, worse);
    if (instances >= INSTANCES)
        assert_true(better > 2 * worse && better >= instances / 6);
}
