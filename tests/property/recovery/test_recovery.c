/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests recoveries on random clusters whose plans keep everything on GPUs. recoveries.h checks each recovery, and this
 * file checks the sources of shards.
 */
#include "tests/property/recovery/recoveries.h"

enum { INSTANCES = 300 };

static size_t instances(void)
{
    return check_scaled(INSTANCES);
}

TEST(recovery, meets_every_need_once)
{
    static struct problem c;
    struct result r;
    size_t done = 0, tiers[AH_TIERS] = {0}, relayed = 0, passed_on = 0;
    for (size_t i = 0; i < instances(); i++) {
        uint64_t random = 88172645463325252u + 7919 * i;
        if (!begin(&c, &random, false)) {
            end(&c);
            continue;
        }
        hold_stages(&c, LAST_STEP, check_draw(&random, 2) ? AH_MEDIUM_GPU : AH_MEDIUM_DISK);
        hold_stages(&c, 80, check_draw(&random, 2) ? AH_MEDIUM_HOST : AH_MEDIUM_DISK);
        hold_in_storage(&c, check_draw(&random, 2) ? 80 : 70);
        hold_in_storage(&c, 60);
        lose(&c, (unsigned)check_draw(&random, (1U << c.cluster.n_nodes) - 1));
        c.request.sources = check_draw(&random, 2) ? AH_SOURCES_NEAR : AH_SOURCES_FAST;
        if (recover(&c, &r)) {
            uint64_t newest = LAST_STEP;
            while (!is_complete(&c, newest))
                newest--;
            assert_int_equal(r.moves.step, newest);
            assert_int_equal(r.moves.predicted.lost_steps, LAST_STEP - newest);
            struct ah_shard any = {0};
            if (c.request.sources == AH_SOURCES_NEAR)
                assert_int_equal(r.moves.bytes.storage, missing_bytes(&c, newest));
            else if (has(&c, &any, newest, AH_MEDIUM_STORAGE, NULL, 0)) /* if so, storage has every shard */
                assert_true(r.moves.predicted.time_us <= r.moves.predicted.baseline_us * (1 + 1e-9));
            for (size_t m = 0; m < r.moves.n_moves; m++) {
                tiers[r.moves.moves[m].tier]++;
                passed_on += r.moves.moves[m].via != NULL;
                relayed += r.moves.moves[m].relayed && r.moves.moves[m].tier == AH_TIER_PEER;
            }
            done++;
        }
        end(&c);
    }
    printf("%zu recoveries; moves from node %zu, disk %zu, peers %zu (%zu relayed), storage %zu (%zu passed "
           "on)\n",
           done, tiers[AH_TIER_NODE], tiers[AH_TIER_DISK], tiers[AH_TIER_PEER], relayed,
           tiers[AH_TIER_STORAGE], passed_on);
    assert_true(passed_on > 0);
    assert_true(done >= instances() / 4);
    for (size_t t = 0; t < AH_TIERS; t++)
        assert_true(tiers[t] > 0);
}

TEST(recovery, moves_nothing_where_nothing_is_lost)
{
    static struct problem c;
    struct result r;
    size_t done = 0;
    for (size_t i = 0; i < instances() / 2; i++) {
        uint64_t random = 362436069362436069u + 104729 * i;
        if (begin(&c, &random, false)) {
            hold_stages(&c, LAST_STEP, AH_MEDIUM_GPU);
            lose(&c, 0);
            assert_true(recover(&c, &r));
            assert_int_equal(r.moves.bytes.peer + r.moves.bytes.storage, 0);
            assert_int_equal(r.moves.predicted.lost_steps, 0);
            done++;
        }
        end(&c);
    }
    assert_true(done > 0);
}

/* The last step is live, and storage has all of it. Only shards that had one replica come from storage, once each. */
TEST(recovery, takes_from_storage_what_no_node_has)
{
    static struct problem c;
    struct result r;
    size_t replicas = 0, parts = 0;
    for (size_t i = 0; i < instances(); i++) {
        uint64_t random = 521288629546311u + 15485863 * i;
        if (begin(&c, &random, false) && c.cluster.n_nodes > 2) {
            hold_stages(&c, LAST_STEP, AH_MEDIUM_GPU);
            hold_in_storage(&c, LAST_STEP);
            lose(&c, 1U << check_draw(&random, c.cluster.n_nodes));
            if (recover(&c, &r)) {
                uint64_t missing = missing_bytes(&c, LAST_STEP);
                assert_int_equal(r.moves.bytes.storage, missing);
                replicas += !missing;
                parts += missing > 0 && missing < r.moves.bytes.needed;
            }
        }
        end(&c);
    }
    printf("%zu with all replicas, %zu with parts lost\n", replicas, parts);
    assert_true(replicas > 0 && parts > 0);
}

/* If few steps are left, nothing moves for a new node. If many are left, the faster plan is chosen. */
TEST(recovery, weighs_speed_against_moves)
{
    static struct problem c;
    struct result few, many;
    size_t differ = 0;
    for (size_t i = 0; i < instances() / 2; i++) {
        uint64_t random = 1181783497276652981u + 6700417 * i;
        if (begin(&c, &random, false)) {
            hold_stages(&c, LAST_STEP, AH_MEDIUM_GPU);
            lose(&c, 0);
            c.left[c.now.n_nodes] = c.nodes[0];
            c.left[c.now.n_nodes++].id = ids[NODES - 1];
            c.request.horizon_steps = 1;
            assert_true(recover(&c, &few));
            c.request.horizon_steps = 1000000000;
            assert_true(recover(&c, &many));
            assert_true(few.moves.predicted.time_us <= many.moves.predicted.time_us * (1 + 1e-9));
            assert_true(many.plan.predicted.step_us <= few.plan.predicted.step_us * (1 + 1e-9));
            differ += many.plan.predicted.step_us < few.plan.predicted.step_us * (1 - 1e-9);
        }
        end(&c);
    }
    printf("%zu with another plan where more steps follow\n", differ);
    assert_true(differ > 0);
}

static void print_moves(const struct problem *c, struct result *r, struct ah_buffer *out)
{
    struct ah_error err = {0};
    const struct ah_document document = {.kind = AH_DOCUMENT_MOVES, .body = {.moves = &r->moves}};
    r->moves.inputs.old_plan_sha256 = r->moves.inputs.inventory_sha256 = c->model_sha256;
    r->moves.inputs.plan_sha256 = c->model_sha256;
    CHECK_OK(ah_document_print(&document, out, &err), err);
}

TEST(recovery, is_the_same_every_time)
{
    static struct problem c;
    struct result first, second;
    struct ah_buffer a = {0}, b = {0};
    uint64_t random = 123456789;
    for (;; end(&c)) {
        if (!begin(&c, &random, false))
            continue;
        hold_stages(&c, LAST_STEP, AH_MEDIUM_DISK);
        hold_in_storage(&c, LAST_STEP);
        lose(&c, 1);
        if (recover(&c, &first) && first.moves.n_moves)
            break;
    }
    assert_true(recover(&c, &second));
    print_moves(&c, &first, &a);
    print_moves(&c, &second, &b);
    assert_string_equal(a.data, b.data);
    ah_buffer_release(&a);
    ah_buffer_release(&b);
    end(&c);
}
