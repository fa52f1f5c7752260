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
    const struct ah_cluster_costs_input input = {.model = s->request->model,
                                                 .model_sha256 = s->request->model_sha256,
                                                 .cluster = s->request->cluster,
                                                 .training = setting->training,
                                                 .tp = setting->tp,
                                                 .units = s->units,
                                                 .without = s->request->without};
    int rc = ah_cluster_costs_build(&input, s->arena, &setting->instance, &setting->estimated, s->err);
    setting->instance.update_limit_us = INFINITY;
    s->settings->n += !rc;
    return rc;
}

int ah_shares_add(const struct ah_cluster_request *request, struct ah_arena *arena,
                  struct ah_settings *settings, bool *ret_all, struct ah_error *err)
{
    struct sharing s = {request, arena, settings, request->cluster->n_nodes, NULL, NULL, err};
    size_t room = settings->n;
    int rc = AH_OK;
    s.units = ah_arena_array(arena, s.n_nodes, sizeof *s.units);
    s.most = ah_arena_array(arena, s.n_nodes, sizeof *s.most);
    if (!s.units || !s.most)
        return ah_error_memory(err);
    *ret_all = true;
    for (size_t i = 0, n = settings->n; i < n && !rc; i++) {
        if (!settings->items[i].away)
            continue;
        size_t ways = count_units(&s, &settings->items[i].instance);
        bool all = ways <= ALL_MOST && settings->n - n + ways <= SETTINGS_MOST;
        *ret_all &= all;
        while (!rc && settings->n - n < SETTINGS_MOST && (all ? next_units(&s) : halve_units(&s)))
            rc = add(&s, i, &room);
    }
    return rc;
}
