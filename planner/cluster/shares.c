/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/shares.h"

#include "planner/cluster/cluster_costs.h"

#include <math.h>
#include <string.h>

enum { ALL_MOST = 27, SETTINGS_MOST = 96 };

struct sharing {
    const struct ah_cluster_request *request;
    struct ah_arena *arena;
    struct ah_settings *settings; /* with room for one more */
    size_t n_nodes;
    uint64_t *units; /* (nodes): that may work; 0: all, the node has no host */
    uint64_t *most;  /* (nodes): that there are, likewise */
    struct ah_error *err;
};

/* The units of each node with a host; returns in how many ways one to all of each may work, or more than ALL_MOST. */
static size_t count_units(struct sharing *s, const struct ah_instance *instance)
{
    size_t ways = 1;
    memset(s->most, 0, s->n_nodes * sizeof *s->most);
    for (size_t c = 0; c < instance->n_classes; c++) {
        const struct ah_instance_class *class = &instance->classes[c];
        if (!ah_instance_kind_of(instance, c)->host_bytes)
            continue;
        s->most[class->node] = class->units;
        ways = ways > ALL_MOST || class->units > ALL_MOST ? ALL_MOST + 1 : ways * class->units;
    }
    memcpy(s->units, s->most, s->n_nodes * sizeof *s->units);
    return ways;
}

/* One unit fewer, node by node, as an odometer runs back. False: they are all there again. */
static bool next_units(struct sharing *s)
{
    for (size_t n = 0; n < s->n_nodes; n++) {
        if (s->units[n] > 1) {
            s->units[n]--;
            return true;
        }
        s->units[n] = s->most[n];
    }
    return false;
}

/* At most half as many of each as the most of any. False: that would be none. */
static bool halve_units(struct sharing *s)
{
    uint64_t most = 0;
    for (size_t n = 0; n < s->n_nodes; n++)
        most = s->units[n] > most ? s->units[n] : most;
    for (size_t n = 0; n < s->n_nodes; n++)
        s->units[n] = s->units[n] > most / 2 ? most / 2 : s->units[n];
    return most / 2 > 0;
}

static int reserve(struct sharing *s)
{
    size_t n = s->settings->n;
    struct ah_setting *items = ah_arena_array(s->arena, 2 * n, sizeof *items);
    if (!items)
        return ah_error_memory(s->err);
    memcpy(items, s->settings->items, n * sizeof *items);
    s->settings->items = items;
    return AH_OK;
}

/* Of a setting whose `units` work. */
static int build(const struct ah_cluster_request *request, struct ah_arena *arena, const uint64_t *units,
                 struct ah_setting *setting, struct ah_error *err)
{
    const struct ah_cluster_costs_input input = {.model = request->model,
                                                 .model_sha256 = request->model_sha256,
                                                 .cluster = request->cluster,
                                                 .training = setting->training,
                                                 .tp = setting->tp,
                                                 .units = units,
                                                 .alone = !units,
                                                 .without = request->without};
    int rc = ah_cluster_costs_build(&input, arena, &setting->instance, &setting->estimated, err);
    setting->instance.update_limit_us = INFINITY;
    return rc;
}

/* The setting `from`, with `units`. `room`: of items. */
static int add(struct sharing *s, size_t from, size_t *room)
{
    if (s->settings->n == *room) {
        int rc = reserve(s);
        if (rc)
            return rc;
        *room *= 2;
    }
    struct ah_setting *setting = &s->settings->items[s->settings->n];
    *setting = s->settings->items[from];
    setting->index = s->settings->n;
    int rc = build(s->request, s->arena, s->units, setting, s->err);
    s->settings->n += !rc;
    return rc;
}

/* Let u of a node's N units work. A unit's share of the host is less than the whole of it, of memory and of bandwidth, so
 * that what ah_stage_fit() may choose from with the share it may choose from with the whole, and none of it takes longer:
 * the passes f + g of a stage under an unlimited update are no longer. All else that the bounds ask of a unit (its kind's
 * blocks without a host, links, NICs) is the same; and there are u <= N of them. grouping.c, of units that may be away,
 * knows f + g alone (compositions.c, (3)), and everything that it takes from those grows with it; more units in a node, or
 * nodes that are of one kind, only make a unit's nearest neighbour nearer, cases possible, worths higher and room larger.
 * So what does not fit a time of favoured units does not fit that of any u of them. */
int ah_shares_favour(const struct ah_cluster_request *request, struct ah_arena *arena,
                     const struct ah_setting *setting, struct ah_setting *ret_favoured, struct ah_error *err)
{
    *ret_favoured = *setting;
    ret_favoured->away_as_well = ret_favoured->exhausted = false;
    return build(request, arena, NULL, ret_favoured, err);
}

/* The setting `of` favoured, which from now on bounds it and those made from it, `first` and behind. */
static int favour(struct sharing *s, size_t of, size_t first)
{
    struct ah_setting *favoured = &s->settings->favoured[s->settings->n_favoured];
    int rc = ah_shares_favour(s->request, s->arena, &s->settings->items[of], favoured, s->err);
    if (rc)
        return rc;
    s->settings->n_favoured++;
    s->settings->items[of].favoured = favoured;
    for (size_t i = first; i < s->settings->n; i++)
        s->settings->items[i].favoured = favoured;
    return AH_OK;
}

int ah_shares_add(const struct ah_cluster_request *request, struct ah_arena *arena,
                  struct ah_settings *settings, struct ah_error *err)
{
    struct sharing s = {request, arena, settings, request->cluster->n_nodes, NULL, NULL, err};
    size_t room = settings->n;
    int rc = AH_OK;
    s.units = ah_arena_array(arena, s.n_nodes, sizeof *s.units);
    s.most = ah_arena_array(arena, s.n_nodes, sizeof *s.most);
    settings->favoured = ah_arena_array(arena, settings->n, sizeof *settings->favoured);
    if (!s.units || !s.most || !settings->favoured)
        return ah_error_memory(err);
    for (size_t i = 0, n = settings->n; i < n && !rc; i++) {
        if (!settings->items[i].away)
            continue;
        size_t first = settings->n, ways = count_units(&s, &settings->items[i].instance);
        bool all = ways <= ALL_MOST && settings->n - n + ways <= SETTINGS_MOST;
        while (!rc && settings->n - n < SETTINGS_MOST && (all ? next_units(&s) : halve_units(&s)))
            rc = add(&s, i, &room);
        if (!rc && !all)
            rc = favour(&s, i, first);
    }
    return rc;
}
