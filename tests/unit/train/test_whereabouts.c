/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests for what a rank waits, according to the ops of its lanes, while messages of all kinds are in progress.
 */
#include "runtime/comm/loop/loop.h"
#include "runtime/train/trainer_internal.h"
#include "tests/support/check.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MESSAGES = 4, MICRO_BATCHES = 2 };

/* The channels of rank 1. All lead to or from rank 0, which moves no message. */
static const struct ah_comm_channel asked[MESSAGES] = {
    {.purpose = AH_LINKS_OUTPUT, .most_bytes = 8},
    {.purpose = AH_LINKS_GRADIENT, .most_bytes = 8},
    {.purpose = AH_LINKS_OUTPUT, .sends = true, .most_bytes = 8},
    {.purpose = AH_LINKS_DOWN, .most_bytes = 8}};

struct moving {
    struct ah_comm *comm;
    uint32_t channel;
    pthread_t thread;
};

struct scene {
    struct ah_comm_hub *hub;
    struct ah_comm *comms[2];
    struct moving moving[MESSAGES];
    struct ah_trainer_rank place;
    struct ah_trainer trainer;
};

static struct scene scene;
static struct ah_device_head heads[AH_DEVICE_LANES_ALL];

static void head_of(struct ah_device *device, uint32_t lane, struct ah_device_head *ret_head)
{
    (void)device;
    *ret_head = heads[lane];
}

static const struct ah_device_driver driver = {.name = "made up", .head = head_of};
static struct ah_device device = {.driver = &driver, .lanes = AH_DEVICE_LANES_ALL};

static void *move_one(void *context)
{
    const struct moving *moving = context;
    char data[8] = "";
    (void)ah_comm_move(moving->comm, moving->channel, data, sizeof data, NULL);
    return NULL;
}

static void *open_other(void *context)
{
    const struct ah_comm_options options = {
        .driver = ah_comm_loop(), .rank = 1, .ranks = 2, .boot = scene.hub};
    (void)context;
    if (!ah_comm_open(&scene.comms[1], &options, NULL))
        (void)ah_comm_channels(scene.comms[1], asked, MESSAGES, NULL);
    return NULL;
}

static void open_world(void)
{
    struct ah_comm_channel mirrored[MESSAGES];
    pthread_t other;
    assert_int_equal(ah_comm_hub_new(&scene.hub, 2, NULL, NULL), AH_OK);
    const struct ah_comm_options options = {
        .driver = ah_comm_loop(), .rank = 0, .ranks = 2, .boot = scene.hub};
    for (size_t i = 0; i < MESSAGES; i++) {
        mirrored[i] = asked[i];
        mirrored[i].peer = 1;
        mirrored[i].sends = !asked[i].sends;
    }
    pthread_create(&other, NULL, open_other, NULL);
    assert_int_equal(ah_comm_open(&scene.comms[0], &options, NULL), AH_OK);
    assert_int_equal(ah_comm_channels(scene.comms[0], mirrored, MESSAGES, NULL), AH_OK);
    pthread_join(other, NULL);
}

/* Opens both ranks. If bit i of `messages` is set, a message of channel asked[i] is in progress. */
static void open_scene(unsigned messages)
{
    struct ah_comm_under_way under_way[MESSAGES];
    size_t n = 0;
    memset(&scene, 0, sizeof scene);
    memset(heads, 0, sizeof heads);
    open_world();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (!(messages >> i & 1))
            continue;
        scene.moving[i] = (struct moving){.comm = scene.comms[1], .channel = i};
        pthread_create(&scene.moving[i].thread, NULL, move_one, &scene.moving[i]);
        n++;
    }
    while (ah_comm_under_way(scene.comms[1], under_way, MESSAGES) < n)
        sched_yield();
    scene.place = (struct ah_trainer_rank){.comm = scene.comms[1], .rank = 1, .ranks = 2};
    scene.trainer.device = &device;
    scene.trainer.options.rank = &scene.place;
    scene.trainer.ranks.options = &scene.place;
    scene.trainer.job.training.micro_batches = MICRO_BATCHES;
    scene.trainer.reported_step = 7;
}

static void close_scene(void)
{
    ah_comm_revoke(scene.comms[0], &(struct ah_error){.code = AH_E_FAILED});
    for (size_t i = 0; i < MESSAGES; i++)
        if (scene.moving[i].comm)
            pthread_join(scene.moving[i].thread, NULL);
    ah_comm_close(scene.comms[1]);
    ah_comm_close(scene.comms[0]);
    ah_comm_hub_free(scene.hub);
}

/* Submits an op to `lane`. If `n` is 0, it runs. Otherwise it waits for the unfinished first op of each of `lanes`. */
static void put_op(uint32_t lane, uint32_t n, const uint32_t *lanes)
{
    heads[lane] = (struct ah_device_head){.submitted = 1, .any = true, .n_waits = n};
    for (uint32_t i = 0; i < n; i++)
        heads[lane].waits[i] = (struct ah_wait){lanes[i], 1};
}

enum { WORKS = -1 };

/* Checks that the rank waits for asked[message], or that it works if `message` is WORKS. */
static void expect(int message)
{
    struct ah_trainer_beat beat;
    ah_whereabouts_read(&scene.trainer, &beat);
    assert_int_equal(beat.step, 7);
    if (message == WORKS) {
        assert_false(beat.waits);
        return;
    }
    assert_true(beat.waits);
    assert_int_equal(beat.purpose, asked[message].purpose);
    assert_int_equal(beat.sends, asked[message].sends);
    assert_int_equal(beat.peer, 0);
}

enum { OUTPUT, GRADIENT, SENT, WORD, ALL = 15 };

TEST(whereabouts, who_computes_waits_for_nobody)
{
    open_scene(ALL);
    put_op(AH_LANE_RECEIVE_BEFORE, 0, NULL);
    put_op(AH_LANE_RECEIVE_BEHIND, 0, NULL);
    put_op(AH_LANE_SEND, 0, NULL);
    put_op(AH_LANE_COMPUTE, 0, NULL);
    expect(WORKS);
    close_scene();
}

TEST(whereabouts, of_all_messages_the_one_that_compute_needs_counts)
{
    static const uint32_t lanes[] = {AH_LANE_RECEIVE_BEFORE, AH_LANE_RECEIVE_BEHIND, AH_LANE_SEND};
    static const int messages[] = {OUTPUT, GRADIENT, SENT};
    open_scene(ALL);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        put_op(lanes[i], 0, NULL);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        put_op(AH_LANE_COMPUTE, 1, &lanes[i]);
        expect(messages[i]);
        put_op(AH_LANE_H2D, 1, &lanes[i]); /* compute waits for this lane through h2d */
        put_op(AH_LANE_COMPUTE, 1, &(const uint32_t){AH_LANE_H2D});
        expect(messages[i]);
    }
    close_scene();
}

TEST(whereabouts, own_work_counts_before_messages)
{
    static const uint32_t both[] = {AH_LANE_RECEIVE_BEFORE, AH_LANE_D2H};
    open_scene(ALL);
    put_op(AH_LANE_RECEIVE_BEFORE, 0, NULL);
    put_op(AH_LANE_D2H, 0, NULL);
    put_op(AH_LANE_COMPUTE, 2, both);
    expect(WORKS);
    heads[AH_LANE_D2H] = (struct ah_device_head){.submitted = 1, .done = 1};
    expect(OUTPUT);
    heads[AH_LANE_COMPUTE] = (struct ah_device_head){.submitted = 0};
    put_op(AH_LANE_HOST, 0, NULL); /* the host works, compute is idle */
    expect(WORKS);
    close_scene();
}

/* A receive starts when its memory is free, long before an op needs the message. So the receive does not count. */
TEST(whereabouts, a_word_counts_where_compute_has_nothing_to_do)
{
    open_scene(ALL);
    put_op(AH_LANE_RECEIVE_BEFORE, 0, NULL);
    expect(WORD);
    put_op(AH_LANE_COMPUTE, 1, &(const uint32_t){AH_LANE_H2D}); /* h2d has no op at this point */
    expect(WORD);
    close_scene();
    open_scene(1u << OUTPUT);
    put_op(AH_LANE_RECEIVE_BEFORE, 0, NULL);
    expect(OUTPUT);
    close_scene();
    open_scene(0);
    expect(WORKS);
    close_scene();
}
