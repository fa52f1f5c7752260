/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the items of an iteration written by hand. Of three blocks, the middle one is updated on the host in two tiles.
 */
#include "runtime/schedule/schedule_internal.h"
#include "tests/support/check.h"

#include <string.h>

enum { FORWARD_0, FORWARD_1, HEAD, BACKWARD_1, BACKWARD_0, SEND, ADAM, UPLOAD, NORM, OPS, POSITIONS = 5 };

struct written {
    struct ah_plan_op ops[OPS];
    uint32_t compute[POSITIONS];
    struct ah_iteration iteration;
    struct ah_items_memory memory;
    struct ah_items items;
};

static void compute_op(struct written *w, size_t op, enum ah_plan_op_kind kind, uint64_t block)
{
    w->ops[op] = (struct ah_plan_op){.op = kind,
                                     .block = block,
                                     .position = op,
                                     .issue_after = AH_PLAN_NOWHERE,
                                     .due_before = AH_PLAN_NOWHERE,
                                     .tiles = 1};
    w->compute[op] = (uint32_t)op;
}

static void other_op(struct written *w, size_t op, enum ah_plan_op_kind kind, enum ah_plan_lane lane,
                     uint64_t issue, uint64_t due)
{
    w->ops[op] = (struct ah_plan_op){.op = kind,
                                     .lane = lane,
                                     .block = op == NORM ? 0 : 1,
                                     .position = AH_PLAN_NOWHERE,
                                     .issue_after = issue,
                                     .due_before = due,
                                     .tiles = op == NORM ? 1 : 2};
}

static void write_iteration(struct written *w)
{
    *w = (struct written){.memory = {{0}}};
    compute_op(w, FORWARD_0, AH_PLAN_FORWARD, 0);
    compute_op(w, FORWARD_1, AH_PLAN_FORWARD, 1);
    compute_op(w, HEAD, AH_PLAN_FORWARD, 2);
    compute_op(w, BACKWARD_1, AH_PLAN_BACKWARD, 1);
    compute_op(w, BACKWARD_0, AH_PLAN_BACKWARD, 0);
    other_op(w, SEND, AH_PLAN_SEND_GRADIENTS, AH_PLAN_LANE_D2H, BACKWARD_1, FORWARD_0);
    other_op(w, ADAM, AH_PLAN_HOST_ADAM, AH_PLAN_LANE_HOST, BACKWARD_0, FORWARD_1);
    other_op(w, UPLOAD, AH_PLAN_UPLOAD, AH_PLAN_LANE_H2D, BACKWARD_0, FORWARD_1);
    other_op(w, NORM, AH_PLAN_NORM, AH_PLAN_LANE_HOST, BACKWARD_0, FORWARD_1);
    w->iteration = (struct ah_iteration){.ops = w->ops,
                                         .n_ops = OPS,
                                         .compute = w->compute,
                                         .positions = POSITIONS,
                                         .n_blocks = 3,
                                         .micro_batches = 1,
                                         .weight_bytes = 4,
                                         .state_bytes = 8,
                                         .clip = true,
                                         .slots = {[AH_RING_HOST_GRADIENTS] = 1, [AH_RING_HOST_WEIGHTS] = 1},
                                         .head = HEAD};
}

static void build(struct written *w)
{
    struct ah_error err = {0};
    CHECK_OK(ah_items_build(&w->memory, &w->iteration, &w->items, &err), err);
}

static uint32_t item(const struct written *w, size_t op, size_t tile)
{
    return w->items.of_tile[w->items.first_tile[op] + tile];
}

static bool waits(const struct written *w, uint32_t v, uint32_t u, uint32_t back)
{
    for (uint32_t e = w->items.first_edge[v]; e < w->items.first_edge[v + 1]; e++)
        if (w->items.edges[e].from == u && w->items.edges[e].back == back)
            return true;
    return false;
}

static size_t count(const struct written *w, uint32_t v)
{
    return w->items.first_edge[v + 1] - w->items.first_edge[v];
}

TEST(items, tile_by_tile)
{
    static struct written w;
    write_iteration(&w);
    build(&w);
    assert_int_equal(w.items.n, POSITIONS + 7);
    assert_true(waits(&w, item(&w, SEND, 0), BACKWARD_1, 0));
    assert_true(waits(&w, item(&w, SEND, 1), item(&w, SEND, 0), 0));
    assert_true(waits(&w, item(&w, ADAM, 0), item(&w, SEND, 0), 0));
    assert_true(waits(&w, item(&w, ADAM, 1), item(&w, SEND, 1), 0));
    assert_true(waits(&w, item(&w, ADAM, 0), item(&w, NORM, 0), 0));
    assert_true(waits(&w, item(&w, UPLOAD, 1), item(&w, ADAM, 1), 0));
    assert_int_equal(count(&w, item(&w, UPLOAD, 1)), 2);
    assert_true(waits(&w, FORWARD_1, item(&w, UPLOAD, 1), 1));
    assert_true(waits(&w, FORWARD_1, item(&w, ADAM, 1), 1));
    assert_true(waits(&w, FORWARD_0, item(&w, SEND, 1), 1));
    assert_int_equal(count(&w, HEAD), 0);
    ah_items_release(&w.memory);
}

/* Equal positions are in the same iteration. An op issued after a compute op waits for that op. */
TEST(items, wait_for_the_latest)
{
    static struct written w;
    write_iteration(&w);
    w.ops[ADAM].issue_after = FORWARD_0; /* issued before the copy: waits for the previous copy */
    w.ops[UPLOAD].due_before = BACKWARD_0;
    w.ops[UPLOAD].issue_after = HEAD;
    build(&w);
    assert_true(waits(&w, item(&w, ADAM, 0), item(&w, SEND, 0), 1));
    assert_true(waits(&w, item(&w, ADAM, 0), item(&w, NORM, 0), 1));
    assert_true(waits(&w, item(&w, UPLOAD, 0), item(&w, ADAM, 0), 0));
    assert_true(waits(&w, BACKWARD_0, item(&w, UPLOAD, 1), 0));
    ah_items_release(&w.memory);
}

TEST(items, all_of_what_is_cut_otherwise)
{
    static struct written w;
    write_iteration(&w);
    w.ops[UPLOAD].tiles = 1;
    build(&w);
    assert_true(waits(&w, item(&w, UPLOAD, 0), item(&w, ADAM, 1), 0));
    assert_false(waits(&w, item(&w, UPLOAD, 0), item(&w, ADAM, 0), 0));
    ah_items_release(&w.memory);
}

TEST(items, take_and_give_places)
{
    static struct written w;
    write_iteration(&w);
    build(&w);
    for (size_t tile = 0; tile < 2; tile++) {
        assert_int_equal(w.items.takes[item(&w, SEND, tile)], AH_RING_HOST_GRADIENTS);
        assert_int_equal(w.items.gives[item(&w, ADAM, tile)], AH_RING_HOST_GRADIENTS);
        assert_int_equal(w.items.takes[item(&w, ADAM, tile)], AH_RING_HOST_WEIGHTS);
        assert_int_equal(w.items.gives[item(&w, UPLOAD, tile)], AH_RING_HOST_WEIGHTS);
    }
    assert_int_equal(w.items.takes[HEAD], AH_CLOCK_NO_RING);
    memset(w.iteration.slots, 0, sizeof w.iteration.slots);
    build(&w);
    assert_int_equal(w.items.takes[item(&w, SEND, 0)], AH_CLOCK_NO_RING);
    ah_items_release(&w.memory);
}

/* In these cases the middle block's weights are on the host, and fetched soon after the block's gradient is sent. */
enum { FETCH = UPLOAD, ELEMENTS = 1000 };

static void write_fetched(struct written *w, uint64_t fetched)
{
    write_iteration(w);
    other_op(w, FETCH, AH_PLAN_FETCH, AH_PLAN_LANE_H2D, BACKWARD_0, FORWARD_1);
    w->ops[SEND].bytes = ELEMENTS * w->iteration.weight_bytes;
    w->ops[FETCH].bytes = fetched * w->iteration.weight_bytes;
}

/* If more weights are fetched than trained, the tiles differ. So a fetch waits for the update's last tile. */
TEST(items, fetch_what_is_updated)
{
    static struct written w;
    write_fetched(&w, ELEMENTS);
    build(&w);
    for (size_t tile = 0; tile < 2; tile++) {
        assert_true(waits(&w, item(&w, FETCH, tile), item(&w, ADAM, tile), 0));
        assert_false(waits(&w, item(&w, FETCH, tile), item(&w, ADAM, !tile), 0));
    }
    ah_items_release(&w.memory);
    write_fetched(&w, ELEMENTS + 1);
    build(&w);
    assert_true(waits(&w, item(&w, FETCH, 0), item(&w, ADAM, 1), 0));
    assert_false(waits(&w, item(&w, FETCH, 0), item(&w, ADAM, 0), 0));
    ah_items_release(&w.memory);
}

/* Weights fetched after a gradient's last position may use its memory, so the fetch waits for the gradient's copy. */
TEST(items, fetch_into_a_place_that_is_left)
{
    static struct written w;
    write_fetched(&w, ELEMENTS);
    build(&w); /* the copy is due at FORWARD_0, the next position */
    assert_true(waits(&w, item(&w, FETCH, 0), item(&w, SEND, 1), 0));
    ah_items_release(&w.memory);
    write_fetched(&w, ELEMENTS);
    w.ops[SEND].due_before = FORWARD_1;
    build(&w);
    assert_false(waits(&w, item(&w, FETCH, 0), item(&w, SEND, 1), 0));
    ah_items_release(&w.memory);
}

/* In these cases the middle block is streamed. Its update follows BACKWARD_0 in two tiles, one in the next step. */
enum {
    STREAMED_UPDATE = SEND,
    STREAMED_IN,
    STREAMED_OUT,
    STREAMED_NORM,
    STREAMED_OPS,
    STREAMED_POSITIONS = 7
};

static void write_streamed(struct written *w, uint32_t compute[STREAMED_POSITIONS])
{
    static const uint32_t order[STREAMED_POSITIONS] = {FORWARD_0,  STREAMED_UPDATE, FORWARD_1,      HEAD,
                                                       BACKWARD_1, BACKWARD_0,      STREAMED_UPDATE};
    write_iteration(w);
    memcpy(compute, order, sizeof order);
    w->ops[STREAMED_UPDATE] = (struct ah_plan_op){.op = AH_PLAN_DEVICE_ADAM,
                                                  .block = 1,
                                                  .position = 6,
                                                  .issue_after = AH_PLAN_NOWHERE,
                                                  .due_before = AH_PLAN_NOWHERE,
                                                  .tiles = 2};
    other_op(w, STREAMED_IN, AH_PLAN_STATES_IN, AH_PLAN_LANE_H2D, 3, 6);
    other_op(w, STREAMED_OUT, AH_PLAN_STATES_OUT, AH_PLAN_LANE_D2H, 6, 6);
    other_op(w, STREAMED_NORM, AH_PLAN_NORM, AH_PLAN_LANE_HOST, 5, 2);
    w->ops[STREAMED_NORM].block = 0;
    w->ops[STREAMED_NORM].tiles = 1;
    w->iteration.compute = compute;
    w->iteration.positions = STREAMED_POSITIONS;
    w->iteration.n_ops = STREAMED_OPS;
    w->iteration.head = 3;
    w->iteration.slots[AH_RING_DEVICE_STATES] = 2;
}

TEST(items, states_visit_the_device)
{
    static struct written w;
    uint32_t compute[STREAMED_POSITIONS];
    write_streamed(&w, compute);
    build(&w);
    uint32_t update[] = {6, 1}; /* the tile that comes after the head is tile 0 */
    for (size_t tile = 0; tile < 2; tile++) {
        uint32_t in = item(&w, STREAMED_IN, tile), out = item(&w, STREAMED_OUT, tile);
        assert_int_equal(item(&w, STREAMED_UPDATE, tile), update[tile]);
        assert_int_equal(w.items.issue[out], update[tile]);
        assert_true(waits(&w, update[tile], in, tile != 0));
        assert_true(waits(&w, out, update[tile], 0));
        assert_true(waits(&w, in, out, tile == 0));
        assert_int_equal(w.items.takes[in], AH_RING_DEVICE_STATES);
        assert_int_equal(w.items.gives[out], AH_RING_DEVICE_STATES);
    }
    assert_true(waits(&w, item(&w, STREAMED_IN, 1), item(&w, STREAMED_IN, 0), 0));
    assert_true(waits(&w, update[0], item(&w, STREAMED_NORM, 0), 0));
    assert_int_equal(w.items.update_of[1], STREAMED_UPDATE);
    ah_items_release(&w.memory);
}
