/* SPDX-License-Identifier: Apache-2.0
 *
 * Recoveries on random clusters, checked against the inventory itself: every need is met once, of one step, from a place that
 * has it; nearer places first; bytes and time follow from the moves.
 *
 * AH_TEST_INSTANCES: how many; 30.
 */
#include "planner/recovery/recovery.h"

#include "planner/recovery/states.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTANCES = 30, NODES = 6, HOLDINGS = 96, SLICES = 2, LAST_STEP = 90 };

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random % below;
}

/* ---- instances ---- */

struct instance {
    struct ah_document model;
    char model_sha256[AH_DOCUMENT_DIGEST_MAX];
    struct ah_cluster_gpu gpus[2];
    struct ah_cluster_node nodes[NODES], left[NODES];
    struct ah_cluster_cloud cloud;
    struct ah_cluster cluster, now;
    struct ah_cluster_plan old;
    struct ah_inventory inventory;
    struct ah_inventory_node listed[NODES];
    struct ah_inventory_holding holdings[HOLDINGS];
    struct ah_recovery_request request;
    struct ah_arena arena;
    struct ah_states states;
};

static const char model_text[] =
    "{\"kind\": \"model\", \"format_version\": \"1.0\", \"generator\": \"test\", \"name\": \"small\", "
    "\"family\": \"llama\", \"layers\": 4, \"width\": 32, \"heads\": 2, \"kv_heads\": 2, \"head_dim\": 16, "
    "\"mlp_width\": 64, \"vocabulary\": 64, \"max_positions\": 64, \"position\": \"rope\", "
    "\"rope\": {\"theta\": 10000}, \"norm\": \"rms\", \"norm_epsilon\": 1e-05, \"activation\": "
    "\"silu_gated\", "
    "\"tied\": true}";
static const char *const patterns[] = {"*"};
static const char *const ids[NODES] = {"n0", "n1", "n2", "n3", "n4", "n5"};

static void draw_cluster(struct instance *c, uint64_t *random)
{
    size_t n = 2 + draw(random, NODES - 2);
    for (size_t g = 0; g < 2; g++)
        c->gpus[g] = (struct ah_cluster_gpu){.name = g ? "b" : "a",
                                             .memory_bytes = (2 + draw(random, 5)) * 200000,
                                             .flops_per_s = 1e9 * (double)(1 + draw(random, 3))};
    for (size_t i = 0; i < n; i++)
        c->nodes[i] = (struct ah_cluster_node){.id = ids[i],
                                               .gpu = draw(random, 2) ? "a" : "b",
                                               .gpus = 1 + draw(random, 2),
                                               .intra_bytes_per_s = 1e9,
                                               .nic_bytes_per_s = 1e7 * (double)(1 + draw(random, 3)),
                                               .host_memory_bytes = 1000000000,
                                               .disk_bytes_per_s = 1e6 * (double)draw(random, 4)};
    double storage = 1e6 * (double)(1 + draw(random, 40));
    c->cloud = (struct ah_cluster_cloud){storage, 2 * storage};
    c->cluster = (struct ah_cluster){.generator = "test",
                                     .name = "before",
                                     .gpus = c->gpus,
                                     .n_gpus = 2,
                                     .nodes = c->nodes,
                                     .n_nodes = n,
                                     .cloud = &c->cloud};
}

static struct ah_cluster_request plan_request(struct instance *c, const struct ah_cluster *cluster)
{
    return (struct ah_cluster_request){.model = c->model.body.model,
                                       .model_sha256 = c->model_sha256,
                                       .cluster = cluster,
                                       .cluster_sha256 = c->model_sha256,
                                       .training = {.batch = 4,
                                                    .micro_batches = 4,
                                                    .seq = 8,
                                                    .dtype = AH_BF16,
                                                    .trainable = (const char **)(uintptr_t)patterns,
                                                    .n_trainable = 1},
                                       .effort = 1,
                                       .generator = "test"};
}

static void hold(struct instance *c, struct ah_inventory_holding holding)
{
    assert_true(c->inventory.n_holdings < HOLDINGS);
    c->holdings[c->inventory.n_holdings++] = holding;
}

/* Every rank's shards in its GPU, on its host or its node's disk, as is drawn. */
static void hold_stages(struct instance *c, uint64_t step, enum ah_medium medium)
{
    for (size_t p = 0; p < c->old.n_pipelines; p++)
        for (size_t i = 0; i < c->old.pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &c->old.pipelines[p].stages[i];
            for (size_t r = 0; r < stage->tp; r++) {
                uint64_t first = 0, gpu = stage->ranks[r];
                for (size_t n = 0; strcmp(c->nodes[n].id, stage->node) != 0; n++)
                    first += c->nodes[n].gpus;
                gpu -= first;
                hold(c,
                     (struct ah_inventory_holding){.medium = medium,
                                                   .node = stage->node,
                                                   .gpu = medium == AH_MEDIUM_GPU ? gpu : AH_INVENTORY_NO_GPU,
                                                   .step = step,
                                                   .first_block = stage->first_block,
                                                   .blocks = stage->blocks,
                                                   .first_slice = r * SLICES / stage->tp,
                                                   .slices = SLICES / stage->tp});
            }
        }
}

static void begin_inventory(struct instance *c)
{
    c->inventory = (struct ah_inventory){.generator = "test",
                                         .model = {c->model.body.model->name, c->model_sha256},
                                         .blocks = c->old.blocks,
                                         .slices = SLICES,
                                         .step = LAST_STEP,
                                         .nodes = c->listed,
                                         .n_nodes = c->cluster.n_nodes,
                                         .holdings = c->holdings};
    for (size_t n = 0; n < c->cluster.n_nodes; n++)
        c->listed[n] = (struct ah_inventory_node){c->nodes[n].id, c->nodes[n].gpus};
}

static void hold_in_storage(struct instance *c, uint64_t step)
{
    hold(c,
         (struct ah_inventory_holding){
             .medium = AH_MEDIUM_STORAGE, .gpu = AH_INVENTORY_NO_GPU, .step = step, .blocks = c->old.blocks});
}

/* The nodes of the cluster without those of a mask. */
static void lose(struct instance *c, unsigned lost)
{
    c->now = c->cluster;
    c->now.name = "now";
    c->now.nodes = c->left;
    c->now.n_nodes = 0;
    for (size_t n = 0; n < c->cluster.n_nodes; n++)
        if (!(lost & 1U << n))
            c->left[c->now.n_nodes++] = c->nodes[n];
    c->request = (struct ah_recovery_request){.cluster = plan_request(c, &c->now),
                                              .old_plan = &c->old,
                                              .inventory = &c->inventory,
                                              .horizon_steps = 100};
}

/* False: the model fits no plan of this cluster. */
static bool begin(struct instance *c, uint64_t *random)
{
    struct ah_error err = {0};
    struct ah_cluster_shortage shortage;
    memset(c, 0, sizeof *c);
    CHECK_OK(
        ah_document_parse(&c->model, "model", model_text, sizeof model_text - 1, AH_DOCUMENT_MODEL, &err),
        err);
    CHECK_OK(ah_document_digest(&c->model, c->model_sha256, &err), err);
    draw_cluster(c, random);
    struct ah_cluster_request request = plan_request(c, &c->cluster);
    int rc = ah_cluster_planner_plan(&request, &c->arena, &c->old, &shortage, &err);
    if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN)
        return false;
    CHECK_OK(rc, err);
    CHECK_OK(ah_states_init(&c->states, c->model.body.model, &request.training, SLICES, &c->arena, &err),
             err);
    begin_inventory(c);
    return true;
}

static void end(struct instance *c)
{
    ah_document_release(&c->model);
    ah_arena_release(&c->arena);
}

/* ---- the oracle: who has what, read off the inventory ---- */

static const struct ah_cluster_node *node_now(const struct instance *c, const char *id)
{
    for (size_t n = 0; n < c->now.n_nodes; n++)
        if (id && strcmp(c->now.nodes[n].id, id) == 0)
            return &c->now.nodes[n];
    return NULL;
}

static bool covers(const struct instance *c, uint64_t first, uint64_t blocks, const struct ah_shard *shard)
{
    bool ends = first == 0 || first + blocks == c->states.n_blocks;
    return shard->row == c->states.n_blocks ? ends : shard->row >= first && shard->row < first + blocks;
}

/* Is it there, in reach; `node` NULL: anywhere but storage. */
static bool has(const struct instance *c, const struct ah_shard *shard, uint64_t step, enum ah_medium medium,
                const char *node, uint64_t gpu)
{
    for (size_t i = 0; i < c->inventory.n_holdings; i++) {
        const struct ah_inventory_holding *h = &c->holdings[i];
        const struct ah_cluster_node *at = node_now(c, h->node);
        if (h->step != step || h->medium != medium || !covers(c, h->first_block, h->blocks, shard))
            continue;
        uint64_t slices = h->slices ? h->slices : SLICES;
        if (shard->slice < h->first_slice || shard->slice >= h->first_slice + slices)
            continue;
        if (medium == AH_MEDIUM_STORAGE)
            return true;
        if (!at || (medium == AH_MEDIUM_DISK && at->disk_bytes_per_s <= 0))
            continue;
        if ((!node || strcmp(node, h->node) == 0) &&
            (medium != AH_MEDIUM_GPU || gpu == UINT64_MAX || gpu == h->gpu))
            return true;
    }
    return false;
}

static bool on_any_node(const struct instance *c, const struct ah_shard *shard, uint64_t step)
{
    return has(c, shard, step, AH_MEDIUM_GPU, NULL, UINT64_MAX) ||
           has(c, shard, step, AH_MEDIUM_HOST, NULL, UINT64_MAX) ||
           has(c, shard, step, AH_MEDIUM_DISK, NULL, UINT64_MAX);
}

static bool is_complete(const struct instance *c, uint64_t step)
{
    for (size_t i = 0; i < ah_states_shards(&c->states); i++) {
        struct ah_shard shard = ah_states_shard(&c->states, i);
        if (ah_states_bytes(&c->states, i) && !on_any_node(c, &shard, step) &&
            !has(c, &shard, step, AH_MEDIUM_STORAGE, NULL, 0))
            return false;
    }
    return true;
}

/* ---- a result ---- */

struct result {
    struct ah_cluster_plan plan;
    struct ah_moves moves;
    uint64_t needed, kept;
    double port_s;
};

static bool moves_shard(const struct ah_move *move, const struct instance *c, const struct ah_shard *shard)
{
    bool row = shard->row == c->states.n_blocks ? move->tied
                                                : !move->tied && shard->row >= move->first_block &&
                                                      shard->row < move->first_block + move->blocks;
    bool kind = false;
    for (size_t k = 0; k < move->n_kinds; k++)
        kind |= move->kinds[k] == (unsigned)shard->kind;
    return row && kind && shard->slice >= move->first_slice &&
           shard->slice < move->first_slice + move->slices;
}

static const struct ah_cluster_node *node_of_rank(const struct instance *c, uint64_t rank, uint64_t *ret_gpu)
{
    size_t n = 0;
    for (; rank >= c->now.nodes[n].gpus; n++) {
        rank -= c->now.nodes[n].gpus;
        assert_true(n + 1 < c->now.n_nodes);
    }
    *ret_gpu = rank;
    return &c->now.nodes[n];
}

/* Does a rank on `node` get the shard from elsewhere, and not from one that gets it so itself? */
static bool receives(const struct instance *c, const struct result *r, const char *node,
                     const struct ah_shard *shard, bool inside)
{
    for (size_t i = 0; i < r->moves.n_moves; i++) {
        const struct ah_move *move = &r->moves.moves[i];
        uint64_t gpu;
        if (moves_shard(move, c, shard) && strcmp(node_of_rank(c, move->rank, &gpu)->id, node) == 0 &&
            move->tier != AH_TIER_NODE && (inside || !move->relayed))
            return true;
    }
    return false;
}

/* The source of a move has the shard, and no nearer place does. */
static void check_source(const struct instance *c, const struct result *r, const struct ah_move *move,
                         const char *node, const struct ah_shard *shard)
{
    uint64_t step = r->moves.step;
    bool memory = has(c, shard, step, AH_MEDIUM_GPU, node, UINT64_MAX) ||
                  has(c, shard, step, AH_MEDIUM_HOST, node, UINT64_MAX);
    bool disk = has(c, shard, step, AH_MEDIUM_DISK, node, 0);
    if (move->relayed) {
        assert_true(receives(c, r, move->node, shard, move->tier == AH_TIER_NODE));
    } else {
        assert_true(has(c, shard, step, move->medium, move->node, move->gpu));
    }
    if (move->tier == AH_TIER_NODE) {
        assert_string_equal(move->node, node);
        return;
    }
    assert_false(memory);
    if (r->moves.sources == AH_SOURCES_NEAR) {
        assert_true(move->tier == AH_TIER_DISK || !disk);
        assert_true(move->tier != AH_TIER_STORAGE || !on_any_node(c, shard, step));
    }
    if (move->tier == AH_TIER_PEER)
        assert_string_not_equal(move->node, node);
}

/* One rank of a stage: each of its shards is kept or comes by one move. */
static void check_rank(const struct instance *c, struct result *r, const struct ah_cluster_plan_stage *stage,
                       size_t part, uint64_t *covered)
{
    uint64_t gpu = 0, rank = stage->ranks[part], into = 0;
    const struct ah_cluster_node *node = node_of_rank(c, rank, &gpu);
    assert_string_equal(node->id, stage->node);
    for (size_t i = 0; i < ah_states_shards(&c->states); i++) {
        struct ah_shard shard = ah_states_shard(&c->states, i);
        uint64_t bytes = ah_states_bytes(&c->states, i);
        size_t times = 0;
        bool needed = bytes && covers(c, stage->first_block, stage->blocks, &shard) &&
                      shard.slice * stage->tp / SLICES == part;
        for (size_t m = 0; m < r->moves.n_moves; m++)
            if (r->moves.moves[m].rank == rank && bytes && moves_shard(&r->moves.moves[m], c, &shard)) {
                times++;
                covered[m] += bytes;
                check_source(c, r, &r->moves.moves[m], node->id, &shard);
            }
        bool kept = needed && has(c, &shard, r->moves.step, AH_MEDIUM_GPU, node->id, gpu);
        assert_int_equal(times, needed && !kept);
        r->needed += needed ? bytes : 0;
        r->kept += kept ? bytes : 0;
        into += needed && !kept ? bytes : 0;
    }
    r->port_s = fmax(r->port_s, (double)into / node->intra_bytes_per_s);
}

/* The longest of NICs, disks and storage, from the moves alone. */
static double busiest_s(const struct instance *c, const struct result *r)
{
    double out[NODES] = {0}, in[NODES] = {0}, disk[NODES] = {0}, storage[NODES] = {0}, all = 0, longest = 0;
    for (size_t i = 0; i < r->moves.n_moves; i++) {
        const struct ah_move *move = &r->moves.moves[i];
        uint64_t gpu;
        size_t to = (size_t)(node_of_rank(c, move->rank, &gpu) - c->now.nodes);
        size_t from = move->node ? (size_t)(node_now(c, move->node) - c->now.nodes) : 0;
        double bytes = (double)move->bytes;
        if (move->tier == AH_TIER_PEER)
            out[from] += bytes;
        if (move->medium == AH_MEDIUM_DISK)
            disk[from] += bytes;
        if (move->tier == AH_TIER_STORAGE) {
            size_t via = move->via ? (size_t)(node_now(c, move->via) - c->now.nodes) : to;
            storage[via] += bytes;
            all += bytes;
            in[via] += via == to ? 0 : bytes;
            out[via] += via == to ? 0 : bytes;
        }
        in[to] += move->tier == AH_TIER_PEER || move->tier == AH_TIER_STORAGE ? bytes : 0;
    }
    for (size_t n = 0; n < c->now.n_nodes; n++) {
        const struct ah_cluster_node *node = &c->now.nodes[n];
        longest = fmax(longest, fmax(out[n], in[n]) / node->nic_bytes_per_s);
        longest = fmax(longest, storage[n] / c->cloud.node_bytes_per_s);
        longest = fmax(longest, disk[n] > 0 ? disk[n] / node->disk_bytes_per_s : 0);
    }
    return fmax(longest, all / c->cloud.total_bytes_per_s);
}

static void check(const struct instance *c, struct result *r)
{
    uint64_t *covered = calloc(r->moves.n_moves + 1, sizeof *covered), moved = 0;
    const struct ah_moves_predicted *told = &r->moves.predicted;
    for (size_t p = 0; p < r->plan.n_pipelines; p++)
        for (size_t i = 0; i < r->plan.pipelines[p].n_stages; i++)
            for (size_t part = 0; part < r->plan.pipelines[p].stages[i].tp; part++)
                check_rank(c, r, &r->plan.pipelines[p].stages[i], part, covered);
    for (size_t m = 0; m < r->moves.n_moves; m++) {
        assert_int_equal(covered[m], r->moves.moves[m].bytes);
        moved += r->moves.moves[m].bytes;
    }
    assert_int_equal(r->needed, r->moves.bytes.needed);
    assert_int_equal(r->kept, r->moves.bytes.kept);
    assert_int_equal(r->needed, r->kept + moved);
    check_near(told->time_us / 1e6, fmax(busiest_s(c, r), r->port_s), 1e-9);
    assert_true(told->bound_us <= told->time_us);
    free(covered);
}

/* Recovers; false where no plan fits what is left. */
static bool recover(struct instance *c, struct result *r)
{
    struct ah_error err = {0};
    struct ah_cluster_shortage shortage;
    memset(r, 0, sizeof *r);
    int rc = ah_recovery_plan(&c->request, &c->arena, &r->plan, &r->moves, &shortage, &err);
    if (rc == AH_E_NO_PLAN || (rc == AH_E_INFEASIBLE && !strstr(err.text, "holdings")))
        return false;
    CHECK_OK(rc, err);
    check(c, r);
    return true;
}

static size_t instances(void)
{
    const char *text = getenv("AH_TEST_INSTANCES");
    return text ? strtoul(text, NULL, 10) : INSTANCES;
}

/* ---- tests ---- */

/* What no node has of the step, each shard once. */
static uint64_t missing_bytes(const struct instance *c, uint64_t step)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < ah_states_shards(&c->states); i++) {
        struct ah_shard shard = ah_states_shard(&c->states, i);
        bytes += on_any_node(c, &shard, step) ? 0 : ah_states_bytes(&c->states, i);
    }
    return bytes;
}

static void test_recovery__meets_every_need_once(void **state)
{
    static struct instance c;
    struct result r;
    size_t done = 0, tiers[AH_TIERS] = {0}, relayed = 0, passed_on = 0;
    (void)state;
    for (size_t i = 0; i < instances(); i++) {
        uint64_t random = 88172645463325252u + 7919 * i;
        if (!begin(&c, &random)) {
            end(&c);
            continue;
        }
        hold_stages(&c, LAST_STEP, draw(&random, 2) ? AH_MEDIUM_GPU : AH_MEDIUM_DISK);
        hold_stages(&c, 80, draw(&random, 2) ? AH_MEDIUM_HOST : AH_MEDIUM_DISK);
        hold_in_storage(&c, draw(&random, 2) ? 80 : 70);
        hold_in_storage(&c, 60);
        lose(&c, (unsigned)draw(&random, (1U << c.cluster.n_nodes) - 1));
        c.request.sources = draw(&random, 2) ? AH_SOURCES_NEAR : AH_SOURCES_FAST;
        if (recover(&c, &r)) {
            uint64_t newest = LAST_STEP;
            while (!is_complete(&c, newest))
                newest--;
            assert_int_equal(r.moves.step, newest);
            assert_int_equal(r.moves.predicted.lost_steps, LAST_STEP - newest);
            struct ah_shard any = {0};
            if (c.request.sources == AH_SOURCES_NEAR)
                assert_int_equal(r.moves.bytes.storage, missing_bytes(&c, newest));
            else if (has(&c, &any, newest, AH_MEDIUM_STORAGE, NULL, 0)) /* then it has all */
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
    assert_true(passed_on > 0 || instances() < INSTANCES);
    assert_true(done >= instances() / 4);
    for (size_t t = 0; t < AH_TIERS && instances() >= INSTANCES; t++)
        assert_true(tiers[t] > 0);
}

static void test_recovery__moves_nothing_where_nothing_is_lost(void **state)
{
    static struct instance c;
    struct result r;
    size_t done = 0;
    (void)state;
    for (size_t i = 0; i < instances() / 2; i++) {
        uint64_t random = 362436069362436069u + 104729 * i;
        if (begin(&c, &random)) {
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

/* All live, and all in storage, of the last step: only what had one replica comes from there, and that once. */
static void test_recovery__takes_from_storage_what_no_node_has(void **state)
{
    static struct instance c;
    struct result r;
    size_t replicas = 0, parts = 0;
    (void)state;
    for (size_t i = 0; i < instances(); i++) {
        uint64_t random = 521288629546311u + 15485863 * i;
        if (begin(&c, &random) && c.cluster.n_nodes > 2) {
            hold_stages(&c, LAST_STEP, AH_MEDIUM_GPU);
            hold_in_storage(&c, LAST_STEP);
            lose(&c, 1U << draw(&random, c.cluster.n_nodes));
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

/* A node is new: with few steps to come nothing moves for it, with many the faster plan is taken. */
static void test_recovery__weighs_speed_against_moves(void **state)
{
    static struct instance c;
    struct result few, many;
    size_t differ = 0;
    (void)state;
    for (size_t i = 0; i < instances() / 2; i++) {
        uint64_t random = 1181783497276652981u + 6700417 * i;
        if (begin(&c, &random)) {
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
    assert_true(differ > 0 || instances() < INSTANCES);
}

static void print_moves(const struct instance *c, struct result *r, struct ah_buffer *out)
{
    struct ah_error err = {0};
    const struct ah_document document = {.kind = AH_DOCUMENT_MOVES, .body = {.moves = &r->moves}};
    r->moves.inputs.old_plan_sha256 = r->moves.inputs.inventory_sha256 = c->model_sha256;
    r->moves.inputs.plan_sha256 = c->model_sha256;
    CHECK_OK(ah_document_print(&document, out, &err), err);
}

static void test_recovery__is_the_same_every_time(void **state)
{
    static struct instance c;
    struct result first, second;
    struct ah_buffer a = {0}, b = {0};
    uint64_t random = 123456789;
    (void)state;
    for (;; end(&c)) {
        if (!begin(&c, &random))
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recovery__meets_every_need_once),
        cmocka_unit_test(test_recovery__moves_nothing_where_nothing_is_lost),
        cmocka_unit_test(test_recovery__takes_from_storage_what_no_node_has),
        cmocka_unit_test(test_recovery__weighs_speed_against_moves),
        cmocka_unit_test(test_recovery__is_the_same_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
