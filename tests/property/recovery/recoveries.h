/* SPDX-License-Identifier: Apache-2.0
 *
 * Random clusters, plans and losses, and checks of a recovery against the inventory itself. Every needed shard arrives
 * once, from a place that has the shard, in the memory where the plan's configs keep it. All shards are of one step.
 * Nearer places are preferred, no host is overfull, and bytes and time follow from the moves.
 */
#ifndef AH_TESTS_PROPERTY_RECOVERY_RECOVERIES_H
#define AH_TESTS_PROPERTY_RECOVERY_RECOVERIES_H

#include "planner/recovery/recovery.h"

#include "planner/recovery/states.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 6, HOLDINGS = 512, SLICES = 2, LAST_STEP = 90 };

/* ---- instances ---- */

struct problem {
    bool hosts; /* hosts may hold blocks */
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

/* Makes hosts that may hold blocks, and GPUs too small to do without hosts. */
static inline void draw_hosts(struct problem *c, size_t n_nodes, uint64_t *random)
{
    for (size_t g = 0; g < 2; g++)
        c->gpus[g].memory_bytes = (2 + check_draw(random, 6)) * 80000;
    for (size_t i = 0; i < n_nodes; i++) {
        c->nodes[i].host_memory_bytes = (4 + check_draw(random, 10)) * 300000;
        c->nodes[i].host_memory_bytes_per_s = 1e8 * (double)(1 + check_draw(random, 20));
        c->nodes[i].host_link_bytes_per_s = 1e7 * (double)(1 + check_draw(random, 20));
    }
}

static inline void draw_cluster(struct problem *c, uint64_t *random, bool hosts)
{
    size_t n = 2 + check_draw(random, hosts ? 2 : NODES - 2);
    for (size_t g = 0; g < 2; g++)
        c->gpus[g] = (struct ah_cluster_gpu){.name = g ? "b" : "a",
                                             .memory_bytes = (2 + check_draw(random, 5)) * 200000,
                                             .flops_per_s = 1e9 * (double)(1 + check_draw(random, 3))};
    for (size_t i = 0; i < n; i++)
        c->nodes[i] = (struct ah_cluster_node){.id = ids[i],
                                               .gpu = check_draw(random, 2) ? "a" : "b",
                                               .gpus = 1 + check_draw(random, 2),
                                               .intra_bytes_per_s = 1e9,
                                               .nic_bytes_per_s = 1e7 * (double)(1 + check_draw(random, 3)),
                                               .host_memory_bytes = 1000000000,
                                               .disk_bytes_per_s = 1e6 * (double)check_draw(random, 4)};
    if (hosts)
        draw_hosts(c, n, random);
    double storage = 1e6 * (double)(1 + check_draw(random, 40));
    c->cloud = (struct ah_cluster_cloud){storage, 2 * storage};
    c->cluster = (struct ah_cluster){.generator = "test",
                                     .device = AH_DEVICE_CUDA,
                                     .name = "before",
                                     .gpus = c->gpus,
                                     .n_gpus = 2,
                                     .nodes = c->nodes,
                                     .n_nodes = n,
                                     .cloud = &c->cloud};
}

static inline struct ah_cluster_request plan_request(struct problem *c, const struct ah_cluster *cluster)
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
                                       .search = c->hosts ? AH_CLUSTER_SEARCH_GRAPH : AH_CLUSTER_SEARCH_BOTH,
                                       .generator = "test"};
}

static inline void hold(struct problem *c, struct ah_inventory_holding holding)
{
    assert_true(c->inventory.n_holdings < HOLDINGS);
    c->holdings[c->inventory.n_holdings++] = holding;
}

/* Puts every rank's shards on its GPU, its host or its node's disk, as `medium` says. */
static inline void hold_stages(struct problem *c, uint64_t step, enum ah_medium medium)
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

static inline void hold_config(struct problem *c, uint64_t step, struct ah_inventory_holding holding,
                               const struct ah_cluster_plan_config *config)
{
    static unsigned weight[] = {AH_SHARD_WEIGHT}, others[] = {AH_SHARD_MASTER, AH_SHARD_M, AH_SHARD_V};
    const uint64_t gpu = holding.gpu;
    holding.step = step;
    holding.first_block = config->first_block;
    holding.blocks = config->blocks;
    for (int rest = 0; rest < 2; rest++) {
        bool away = rest ? config->optimizer != AH_OPTIMIZER_DEVICE : config->weights == AH_WEIGHTS_HOST;
        holding.kinds = rest ? others : weight;
        holding.n_kinds = rest ? 3 : 1;
        holding.medium = away ? AH_MEDIUM_HOST : AH_MEDIUM_GPU;
        holding.gpu = away ? AH_INVENTORY_NO_GPU : gpu;
        hold(c, holding);
    }
}

/* Puts every rank's shards where the old plan keeps them. */
static inline void hold_live(struct problem *c, uint64_t step)
{
    for (size_t p = 0; p < c->old.n_pipelines; p++)
        for (size_t i = 0; i < c->old.pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &c->old.pipelines[p].stages[i];
            uint64_t first = 0;
            for (size_t n = 0; strcmp(c->nodes[n].id, stage->node) != 0; n++)
                first += c->nodes[n].gpus;
            for (size_t r = 0; r < stage->tp; r++)
                for (size_t k = 0; k < stage->n_configs; k++)
                    hold_config(c, step,
                                (struct ah_inventory_holding){.node = stage->node,
                                                              .gpu = stage->ranks[r] - first,
                                                              .first_slice = r * SLICES / stage->tp,
                                                              .slices = SLICES / stage->tp},
                                &stage->configs[k]);
        }
}

static inline void begin_inventory(struct problem *c)
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

static inline void hold_in_storage(struct problem *c, uint64_t step)
{
    hold(c,
         (struct ah_inventory_holding){
             .medium = AH_MEDIUM_STORAGE, .gpu = AH_INVENTORY_NO_GPU, .step = step, .blocks = c->old.blocks});
}

/* Removes the nodes of a mask from the cluster. */
static inline void lose(struct problem *c, unsigned lost)
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

/* Draws a cluster and plans for it. Returns false if no plan fits the model. */
static inline bool begin(struct problem *c, uint64_t *random, bool hosts)
{
    struct ah_error err = {0};
    struct ah_cluster_shortage shortage;
    memset(c, 0, sizeof *c);
    c->hosts = hosts;
    CHECK_OK(
        ah_document_parse(&c->model, "model", model_text, sizeof model_text - 1, AH_DOCUMENT_MODEL, &err),
        err);
    CHECK_OK(ah_document_digest(&c->model, c->model_sha256, &err), err);
    draw_cluster(c, random, hosts);
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

static inline void end(struct problem *c)
{
    ah_document_release(&c->model);
    ah_arena_release(&c->arena);
}

/* ---- the oracle: who has what, read off the inventory ---- */

static inline const struct ah_cluster_node *node_now(const struct problem *c, const char *id)
{
    for (size_t n = 0; n < c->now.n_nodes; n++)
        if (id && strcmp(c->now.nodes[n].id, id) == 0)
            return &c->now.nodes[n];
    return NULL;
}

static inline bool covers(const struct problem *c, uint64_t first, uint64_t blocks,
                          const struct ah_shard *shard)
{
    bool ends = first == 0 || first + blocks == c->states.n_blocks;
    return shard->row == c->states.n_blocks ? ends : shard->row >= first && shard->row < first + blocks;
}

/* True if the shard is there and can be reached. A `node` of NULL means any node. */
static inline bool has(const struct problem *c, const struct ah_shard *shard, uint64_t step,
                       enum ah_medium medium, const char *node, uint64_t gpu)
{
    for (size_t i = 0; i < c->inventory.n_holdings; i++) {
        const struct ah_inventory_holding *h = &c->holdings[i];
        const struct ah_cluster_node *at = node_now(c, h->node);
        bool kind = !h->n_kinds;
        for (size_t k = 0; k < h->n_kinds; k++)
            kind |= h->kinds[k] == (unsigned)shard->kind;
        if (!kind || h->step != step || h->medium != medium || !covers(c, h->first_block, h->blocks, shard))
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

static inline bool on_any_node(const struct problem *c, const struct ah_shard *shard, uint64_t step)
{
    return has(c, shard, step, AH_MEDIUM_GPU, NULL, UINT64_MAX) ||
           has(c, shard, step, AH_MEDIUM_HOST, NULL, UINT64_MAX) ||
           has(c, shard, step, AH_MEDIUM_DISK, NULL, UINT64_MAX);
}

static inline bool is_complete(const struct problem *c, uint64_t step)
{
    for (size_t i = 0; i < ah_states_shards(&c->states); i++) {
        struct ah_shard shard = ah_states_shard(&c->states, i);
        if (ah_states_bytes(&c->states, i) && !on_any_node(c, &shard, step) &&
            !has(c, &shard, step, AH_MEDIUM_STORAGE, NULL, 0))
            return false;
    }
    return true;
}

/* Returns the bytes of the step's shards that no node has. Each shard counts once. */
static inline uint64_t missing_bytes(const struct problem *c, uint64_t step)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < ah_states_shards(&c->states); i++) {
        struct ah_shard shard = ah_states_shard(&c->states, i);
        bytes += on_any_node(c, &shard, step) ? 0 : ah_states_bytes(&c->states, i);
    }
    return bytes;
}

/* ---- a result ---- */

struct result {
    struct ah_cluster_plan plan;
    struct ah_moves moves;
    uint64_t needed, kept;
    uint64_t host_bytes[NODES]; /* of states and weights, by node */
    double port_s;
};

static inline bool moves_shard(const struct ah_move *move, const struct problem *c,
                               const struct ah_shard *shard)
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

static inline const struct ah_cluster_node *node_of_rank(const struct problem *c, uint64_t rank,
                                                         uint64_t *ret_gpu)
{
    size_t n = 0;
    for (; rank >= c->now.nodes[n].gpus; n++) {
        rank -= c->now.nodes[n].gpus;
        assert_true(n + 1 < c->now.n_nodes);
    }
    *ret_gpu = rank;
    return &c->now.nodes[n];
}

/* True if a rank on `node` gets the shard from another place. Moves through another node count only if `inside`. */
static inline bool receives(const struct problem *c, const struct result *r, const char *node,
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

/* Checks that the source of a move has the shard and that no nearer place does. */
static inline void check_source(const struct problem *c, const struct result *r, const struct ah_move *move,
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

/* Returns the place where the stage keeps the shard, given by its block's config. For a tied table, the embedding's
 * config decides, or else the head's. */
static inline enum ah_medium lives(const struct problem *c, const struct ah_cluster_plan_stage *stage,
                                   const struct ah_shard *shard)
{
    uint64_t block = shard->row;
    if (block == c->states.n_blocks)
        block = stage->first_block ? c->states.n_blocks - 1 : 0;
    for (size_t i = 0; i < stage->n_configs; i++) {
        const struct ah_cluster_plan_config *config = &stage->configs[i];
        if (block < config->first_block || block >= config->first_block + config->blocks)
            continue;
        bool away = shard->kind == AH_SHARD_WEIGHT ? config->weights == AH_WEIGHTS_HOST
                                                   : config->optimizer != AH_OPTIMIZER_DEVICE;
        return away ? AH_MEDIUM_HOST : AH_MEDIUM_GPU;
    }
    fail_msg("no config has block %" PRIu64, block);
    return AH_MEDIUM_GPU;
}

/* Checks one rank of a stage: each of its shards is kept or arrives by one move. */
static inline void check_rank(const struct problem *c, struct result *r,
                              const struct ah_cluster_plan_stage *stage, size_t part, uint64_t *covered)
{
    uint64_t gpu = 0, rank = stage->ranks[part], into = 0, on_host = 0;
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
        enum ah_medium medium = needed ? lives(c, stage, &shard) : AH_MEDIUM_GPU;
        bool kept = needed && has(c, &shard, r->moves.step, medium, node->id, gpu);
        on_host += needed && medium == AH_MEDIUM_HOST ? bytes : 0;
        assert_int_equal(times, needed && !kept);
        r->needed += needed ? bytes : 0;
        r->kept += kept ? bytes : 0;
        into += needed && !kept && medium == AH_MEDIUM_GPU ? bytes : 0;
    }
    double rate = node->host_link_bytes_per_s > 0 ? node->host_link_bytes_per_s : node->intra_bytes_per_s;
    r->port_s = fmax(r->port_s, (double)into / rate);
    r->host_bytes[node - c->now.nodes] += on_host;
    assert_true(on_host <= stage->host_bytes / stage->tp);
}

/* Returns the longest busy time of any NIC, disk or storage, computed from the moves alone. */
static inline double busiest_s(const struct problem *c, const struct result *r)
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

static inline void check(const struct problem *c, struct result *r)
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
    for (size_t n = 0; n < c->now.n_nodes; n++) /* a sixteenth is left free */
        assert_true(r->host_bytes[n] <=
                    c->now.nodes[n].host_memory_bytes - c->now.nodes[n].host_memory_bytes / 16);
    assert_int_equal(r->needed, r->moves.bytes.needed);
    assert_int_equal(r->kept, r->moves.bytes.kept);
    assert_int_equal(r->needed, r->kept + moved);
    check_near(told->time_us / 1e6, fmax(busiest_s(c, r), r->port_s), 1e-9);
    assert_true(told->bound_us <= told->time_us);
    free(covered);
}

/* Recovers the run. Returns false if no plan fits the remaining nodes. */
static inline bool recover(struct problem *c, struct result *r)
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

#endif
