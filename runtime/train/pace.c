/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes are timed as in the replay (cluster_replay_stage.c), but on the host's clock. An item's remaining time shrinks
 * at the speed of its lane, and speeds change when a lane begins or ends an item. A send is an item of compute.
 */
#include "runtime/train/pace.h"

#include "base/threads.h"
#include "runtime/train/trainer_internal.h"

#include <inttypes.h>
#include <sys/prctl.h>
#include <time.h>

/* If a wake-up is later than this, the machine is at fault, and the next item does not make up for the delay. */
enum { SLACK_NS = 200000 };

/* ---- lanes ---- */

static double planned_ns(const struct ah_trainer *t, uint64_t item)
{
    const struct ah_plan_op *op = &t->options.plan->ops[t->graph.items[item].op];
    return 1e3 * op->us / (double)op->tiles;
}

/* Asks for precise timers of this thread. Otherwise Linux may fire a timer 50 us late. */
static void sleep_precisely(struct pace_lane *lane)
{
    if (!lane->keen)
        (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    lane->keen = true;
}

/* Updates remaining times and speeds at `now_ns`, after the set of working lanes changed. Call under the lock. */
static void set_speeds(struct pace *pace, uint64_t now_ns)
{
    unsigned set = 0;
    for (size_t i = 0; i < AH_PLAN_LANES; i++)
        set |= (unsigned)pace->lanes[i].works << i;
    for (size_t i = 0; i < AH_PLAN_LANES; i++) {
        struct pace_lane *lane = &pace->lanes[i];
        if (!lane->works)
            continue;
        if (now_ns > lane->since_ns) {
            lane->left_ns -= (double)(now_ns - lane->since_ns) * lane->speed;
            lane->since_ns = now_ns;
        }
        lane->speed = lane->is_message ? 1 : pace->speeds[set][i];
    }
    pthread_cond_broadcast(&pace->changed);
}

static uint64_t end_ns(const struct pace_lane *lane)
{
    return lane->since_ns + (uint64_t)(int64_t)(lane->left_ns / lane->speed);
}

static void begin_item(struct pace *pace, size_t lane, double duration_ns, uint64_t start_ns, bool is_message)
{
    struct pace_lane *l = &pace->lanes[lane];
    sleep_precisely(l);
    pthread_mutex_lock(&pace->lock);
    const bool closely = start_ns >= l->ended_ns && start_ns - l->ended_ns <= SLACK_NS;
    l->since_ns = closely ? l->ended_ns : start_ns;
    l->left_ns = duration_ns;
    l->speed = 1;
    l->works = true;
    l->is_message = is_message;
    set_speeds(pace, ah_threads_now_ns());
    pthread_mutex_unlock(&pace->lock);
}

static struct timespec moment(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* Sleeps for the item's remaining time. If none is left, the item was late. */
static void end_item(struct pace *pace, size_t lane)
{
    struct pace_lane *l = &pace->lanes[lane];
    pthread_mutex_lock(&pace->lock);
    uint64_t now_ns = ah_threads_now_ns(), until_ns = end_ns(l);
    const uint64_t late_ns = now_ns > until_ns ? now_ns - until_ns : 0;
    __atomic_fetch_add(&pace->asleep, 1, __ATOMIC_RELAXED);
    while (now_ns < until_ns) {
        const struct timespec deadline = moment(until_ns);
        pthread_cond_timedwait(&pace->changed, &pace->lock, &deadline);
        now_ns = ah_threads_now_ns();
        until_ns = end_ns(l);
    }
    __atomic_fetch_sub(&pace->asleep, 1, __ATOMIC_RELAXED);
    l->ended_ns = late_ns ? now_ns : until_ns;
    l->works = false;
    set_speeds(pace, now_ns);
    pthread_mutex_unlock(&pace->lock);
    ah_paced_nics_count(pace->nics, late_ns);
}

static void sleep_until(struct pace *pace, uint64_t until_ns)
{
    __atomic_fetch_add(&pace->asleep, 1, __ATOMIC_RELAXED);
    ah_threads_sleep_until_ns(until_ns);
    __atomic_fetch_sub(&pace->asleep, 1, __ATOMIC_RELAXED);
}

uint64_t ah_pace_pulse(const struct ah_trainer *t)
{
    return t->pace.nics && __atomic_load_n(&t->pace.asleep, __ATOMIC_RELAXED) ? ah_threads_now_ns() : 0;
}

/* ---- messages ---- */

static uint64_t pass_ns(double bytes, const struct ah_trainer_stage *stage)
{
    return stage->nic_bytes_per_s > 0 ? (uint64_t)(1e9 * bytes / stage->nic_bytes_per_s) : 0;
}

/* Returns the planned bytes of a message. A word has no bytes, but is priced like any other message. */
static double boundary_bytes(const struct ah_plan *plan)
{
    const struct ah_plan_training *training = &plan->training;
    return (double)(training->batch / training->micro_batches * training->seq * plan->model.width *
                    ah_dtype_bytes(training->dtype));
}

/* Acquires the NICs of both ranks' nodes, if these are two. Lower ranks are served first. Returns the starting time. */
static uint64_t take_ways(const struct ah_trainer *t, uint32_t peer)
{
    const double bytes = boundary_bytes(t->options.plan);
    const struct ah_trainer_rank *place = t->options.rank;
    const struct ah_trainer_stage *from = &place->stages[place->rank], *to = &place->stages[peer];
    const struct ah_paced_nics_use uses[] = {{from->node, pass_ns(bytes, from), 0},
                                             {to->node, 0, pass_ns(bytes, to)}};
    uint64_t start_ns = ah_threads_now_ns();
    if (from->node != to->node)
        ah_paced_nics_take(t->pace.nics, place->rank, uses, 2, &start_ns);
    return start_ns;
}

static int send_paced(struct ah_trainer *t, uint32_t channel, uint32_t peer, const struct ah_op_moved *moved,
                      struct ah_error *err)
{
    struct pace *pace = &t->pace;
    int rc = ah_links_move(t->ranks.links, channel, NULL, 0, err);
    if (rc)
        return rc;
    const double duration_ns = planned_ns(t, pace->sending);
    const uint64_t start_ns = take_ways(t, peer);
    uint64_t until_ns = start_ns + (uint64_t)duration_ns;
    begin_item(pace, AH_PLAN_LANE_COMPUTE, duration_ns, start_ns, true);
    rc = ah_links_move(t->ranks.links, channel, &until_ns, sizeof until_ns, err);
    rc = rc ? rc : ah_links_move(t->ranks.links, channel, moved->data, moved->bytes, err);
    end_item(pace, AH_PLAN_LANE_COMPUTE);
    return rc;
}

static int receive(struct ah_trainer *t, uint32_t channel, const struct ah_op_moved *moved,
                   struct ah_error *err)
{
    uint64_t until_ns = 0;
    int rc = ah_links_move(t->ranks.links, channel, NULL, 0, err);
    rc = rc ? rc : ah_links_move(t->ranks.links, channel, &until_ns, sizeof until_ns, err);
    rc = rc ? rc : ah_links_move(t->ranks.links, channel, moved->data, moved->bytes, err);
    if (!rc)
        sleep_until(&t->pace, until_ns);
    return rc;
}

int ah_pace_move(struct ah_trainer *t, const struct ah_op_moved *moved, struct ah_error *err)
{
    const uint32_t channel = t->ranks.links->channel[moved->channel];
    switch ((enum ah_channel)moved->channel) {
    case AH_CHANNEL_OUTPUT_OUT:
        return send_paced(t, channel, t->options.rank->behind, moved, err);
    case AH_CHANNEL_GRADIENT_OUT:
        return send_paced(t, channel, t->options.rank->before, moved, err);
    case AH_CHANNEL_OUTPUT_IN:
    case AH_CHANNEL_GRADIENT_IN:
    case AH_CHANNELS:
        break;
    }
    return receive(t, channel, moved, err);
}

/* ---- sums over pipelines ---- */

static int move_time(const struct ah_trainer *t, uint32_t peer, bool sends, uint64_t *ns,
                     struct ah_error *err)
{
    const enum ah_bind_sum sum = sends ? AH_SUM_PARTIAL_OUT : AH_SUM_PARTIAL_IN;
    return ah_links_move(t->ranks.links, t->ranks.links->sums[ah_bind_sum_channel(peer, sum) - AH_CHANNELS],
                         ns, sizeof *ns, err);
}

static uint64_t take_all_ways(const struct ah_trainer *t, size_t share)
{
    const struct ah_trainer_rank *place = t->options.rank;
    const struct ah_trainer_share *it = &place->shares[share];
    struct ah_paced_nics_use *uses = t->pace.uses;
    uint64_t start_ns;
    uint32_t n = 0;
    for (uint32_t m = 0; m < ah_trainer_share_members(place, it); m++) {
        const struct ah_trainer_stage *stage = &place->stages[it->ranks[m]];
        const uint64_t ns = pass_ns(it->volume_bytes, stage);
        if (ah_trainer_share_is_first(it, m))
            uses[n++] = (struct ah_paced_nics_use){stage->node, ns, ns};
    }
    ah_paced_nics_take(t->pace.nics, place->ranks + (uint32_t)share, uses, n, &start_ns);
    return start_ns;
}

/* Sends a time to the ranks of a share's members, or receives one from each of them. Skips the first member's rank. */
static int tell_all(const struct ah_trainer *t, const struct ah_trainer_share *it, bool sends, uint64_t *ns,
                    struct ah_error *err)
{
    int rc = AH_OK;
    for (uint32_t m = 1; m < ah_trainer_share_members(t->options.rank, it) && !rc; m++)
        if (ah_trainer_share_is_first(it, m))
            rc = move_time(t, it->ranks[m], sends, ns, err);
    return rc;
}

/* Starts a sum at the first owner: waits until all owners have reached it, and tells them when it will end. */
static int lead_share(struct ah_trainer *t, size_t share, struct ah_error *err)
{
    const struct ah_trainer_rank *place = t->options.rank;
    const struct ah_trainer_share *it = &place->shares[share];
    uint64_t ns = 0;
    int rc = tell_all(t, it, false, &ns, err);
    ns = !rc && it->volume_bytes > 0 ? take_all_ways(t, share) : ah_threads_now_ns();
    ns += (uint64_t)(1e3 * it->time_us);
    rc = rc ? rc : tell_all(t, it, true, &ns, err);
    t->pace.until_ns = ns;
    return rc;
}

static int begin_share(struct ah_trainer *t, struct ah_error *err)
{
    struct pace *pace = &t->pace;
    const struct ah_trainer_rank *place = t->options.rank;
    while (!t->shares.of[pace->share % t->shares.n].is_ours)
        pace->share++;
    const size_t share = pace->share++ % t->shares.n;
    const uint32_t first = place->shares[share].ranks[0];
    if (first == place->rank)
        return lead_share(t, share, err);
    uint64_t ns = 0;
    int rc = move_time(t, first, true, &ns, err);
    return rc ? rc : move_time(t, first, false, &pace->until_ns, err);
}

static void end_share(struct pace *pace)
{
    const uint64_t now_ns = ah_threads_now_ns();
    ah_paced_nics_count(pace->nics, now_ns > pace->until_ns ? now_ns - pace->until_ns : 0);
    sleep_until(pace, pace->until_ns);
}

/* ---- for the device ---- */

static size_t plan_lane(uint32_t lane)
{
    static const uint8_t lanes[] = {[AH_LANE_COMPUTE] = AH_PLAN_LANE_COMPUTE,
                                    [AH_LANE_H2D] = AH_PLAN_LANE_H2D,
                                    [AH_LANE_D2H] = AH_PLAN_LANE_D2H,
                                    [AH_LANE_HOST] = AH_PLAN_LANE_HOST};
    return lanes[lane];
}

/* True if the plan has a time for the item. The norm has none, because it mostly waits for other ranks. */
static bool has_time(const struct ah_trainer *t, uint32_t lane, uint64_t tag)
{
    return lane < AH_DEVICE_LANES && planned_ns(t, tag) > 0;
}

static int on_begin(void *context, uint32_t lane, uint64_t tag, struct ah_error *err)
{
    struct ah_trainer *t = context;
    if (lane == AH_LANE_SUMS)
        return begin_share(t, err);
    if (lane == AH_LANE_SEND)
        t->pace.sending = tag;
    else if (has_time(t, lane, tag))
        begin_item(&t->pace, plan_lane(lane), planned_ns(t, tag), ah_threads_now_ns(), false);
    return AH_OK;
}

static void on_end(void *context, uint32_t lane, uint64_t tag)
{
    struct ah_trainer *t = context;
    if (lane == AH_LANE_SUMS)
        end_share(&t->pace);
    else if (has_time(t, lane, tag))
        end_item(&t->pace, plan_lane(lane));
}

struct ah_device_pace ah_pace_hooks(struct ah_trainer *t)
{
    return t->pace.nics ? (struct ah_device_pace){on_begin, on_end, t} : (struct ah_device_pace){0};
}

/* ---- life ---- */

int ah_pace_init(struct ah_trainer *t, struct ah_error *err)
{
    struct pace *pace = &t->pace;
    pthread_condattr_t monotonic;
    const struct ah_trainer_rank *place = t->options.rank;
    if (!place || !place->nics)
        return AH_OK;
    if (!ah_comm_independent(place->comm))
        return ah_error_set(err, AH_E_UNSUPPORTED, "ranks cannot be paced if their messages take turns");
    for (unsigned set = 0; set < PACE_SETS; set++)
        ah_graph_speeds(&t->options.plan->sharing, set, pace->speeds[set]);
    pthread_mutex_init(&pace->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pace->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pace->uses = ah_arena_array(&t->arena, 2 * (size_t)place->pipelines, sizeof *pace->uses);
    pace->nics = place->nics;
    return pace->uses ? AH_OK : ah_error_memory(err);
}

void ah_pace_release(struct ah_trainer *t)
{
    if (!t->pace.nics)
        return;
    pthread_cond_destroy(&t->pace.changed);
    pthread_mutex_destroy(&t->pace.lock);
}
