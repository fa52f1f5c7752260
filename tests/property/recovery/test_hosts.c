/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests recoveries of plans with states and weights on hosts. recoveries.h checks each.
 */
#include "planner/recovery/adapt.h"
#include "tests/property/recovery/recoveries.h"

enum { INSTANCES = 160 };

static size_t instances(void)
{
    return check_scaled(INSTANCES);
}

static bool has_away(const struct ah_cluster_plan *plan, bool weights)
{
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
            for (size_t k = 0; k < plan->pipelines[p].stages[i].n_configs; k++) {
                const struct ah_cluster_plan_config *config = &plan->pipelines[p].stages[i].configs[k];
                if (weights ? config->weights == AH_WEIGHTS_HOST : config->optimizer != AH_OPTIMIZER_DEVICE)
                    return true;
            }
    return false;
}

/* Checks that adapting a plan to its own cluster, in any way, does not make it slower. */
static void check_adapted(struct problem *c)
{
    for (int way = 0; way < AH_ADAPT_WAYS; way++) {
        struct ah_cluster_plan plan;
        struct ah_error err = {0};
        bool fits = false;
        CHECK_OK(ah_adapt_plan(&c->request.cluster, &c->old, (enum ah_adapt_way)way, &c->arena, &plan, &fits,
                               &err),
                 err);
        assert_true(fits);
        if (plan.predicted.step_us > c->old.predicted.step_us * (1 + 1e-9))
            fail_msg("%.3f us, before %.3f", plan.predicted.step_us, c->old.predicted.step_us);
    }
}

TEST(hosts, nothing_lost_moves_nothing)
{
    static struct problem c;
    struct result r;
    size_t states = 0, weights = 0;
    for (size_t i = 0; i < instances(); i++) {
        uint64_t random = 362436069362436069u + 104729 * (i + 40); /* some of these clusters have idle GPUs */
        if (begin(&c, &random, true)) {
            hold_live(&c, LAST_STEP);
            lose(&c, 0);
            check_adapted(&c);
            assert_true(recover(&c, &r));
            assert_int_equal(r.moves.bytes.kept, r.moves.bytes.needed);
            states += has_away(&c.old, false);
            weights += has_away(&c.old, true);
        }
        end(&c);
    }
    printf("%zu plans with states on hosts, %zu with weights\n", states, weights);
    assert_true(states > 0 && weights > 0);
}

TEST(hosts, needs_are_met_where_the_plan_keeps_them)
{
    static struct problem c;
    struct result r;
    size_t done = 0, away = 0;
    for (size_t i = 0; i < instances(); i++) {
        uint64_t random = 88172645463325252u + 7919 * i;
        if (begin(&c, &random, true)) {
            hold_live(&c, LAST_STEP);
            hold_stages(&c, 80, check_draw(&random, 2) ? AH_MEDIUM_HOST : AH_MEDIUM_DISK);
            hold_in_storage(&c, check_draw(&random, 2) ? LAST_STEP : 80);
            hold_in_storage(&c, 60);
            lose(&c, 1U << check_draw(&random, c.cluster.n_nodes));
            c.request.sources = check_draw(&random, 2) ? AH_SOURCES_NEAR : AH_SOURCES_FAST;
            if (recover(&c, &r)) {
                done++;
                away += has_away(&r.plan, false);
                if (c.request.sources == AH_SOURCES_NEAR)
                    assert_int_equal(r.moves.bytes.storage, missing_bytes(&c, r.moves.step));
            }
        }
        end(&c);
    }
    printf("%zu recoveries, %zu of them to plans with blocks on hosts\n", done, away);
    assert_true(away > 0);
}
