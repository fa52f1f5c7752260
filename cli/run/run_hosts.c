/* SPDX-License-Identifier: Apache-2.0
 *
 * Matches the hosts with the plan's nodes, and starts the command line on them.
 */
#include "cli/run/run_hosts.h"

#include "cli/profile/mpirun.h"
#include "runtime/train/world.h"

#include <inttypes.h>
#include <string.h>

/* For each rank, its node in the plan and its host. */
struct slots {
    const char **node, **host;
    uint64_t n, ranks; /* number of slots in the file, and of ranks in the plan */
};

/* Sets the node of each rank. Each stage has one rank (world.h). */
static int fill_nodes(const struct ah_cluster_plan *plan, struct ah_arena *arena, struct slots *slots,
                      struct ah_error *err)
{
    for (size_t p = 0; p < plan->n_pipelines; p++)
        slots->ranks += plan->pipelines[p].n_stages;
    slots->node = ah_arena_array(arena, slots->ranks, sizeof *slots->node);
    slots->host = ah_arena_array(arena, slots->ranks, sizeof *slots->host);
    if (!slots->node || !slots->host)
        return ah_error_memory(err);
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t i = 0; i < plan->pipelines[p].n_stages; i++) {
            const struct ah_cluster_plan_stage *stage = &plan->pipelines[p].stages[i];
            slots->node[ah_world_rank(plan, stage->ranks[0])] = stage->node;
        }
    return AH_OK;
}

/* Uses up a slot of the host called `name`; false: it has no slot left. */
static bool take_slot(struct ah_hosts *hosts, const char *name)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (hosts->entries[i].slots && !strcmp(hosts->entries[i].name, name)) {
            hosts->entries[i].slots--;
            return true;
        }
    return false;
}

/* Places each rank on the host that has its node's name, as after 'profile --hosts'. Hosts without a node get no rank.
 * `ret_named` false: a node is not named like a host. `ret_hosts`: the hosts of all ranks, in order. */
static int place_by_name(const struct ah_hosts *given, const struct slots *slots, struct ah_arena *arena,
                         struct ah_hosts *ret_hosts, bool *ret_named, struct ah_error *err)
{
    struct ah_hosts left = *given;
    struct ah_hosts placed = {.slots = slots->ranks};
    bool named = true;
    left.entries = ah_arena_array(arena, given->n, sizeof *left.entries);
    placed.entries = ah_arena_array(arena, slots->ranks, sizeof *placed.entries);
    if (!left.entries || !placed.entries)
        return ah_error_memory(err);
    memcpy(left.entries, given->entries, given->n * sizeof *left.entries);
    for (uint64_t rank = 0; rank < slots->ranks && named; rank++) {
        named = take_slot(&left, slots->node[rank]);
        placed.entries[placed.n++] = (struct ah_hosts_entry){slots->node[rank], 1};
    }
    *ret_named = named;
    if (named)
        *ret_hosts = placed;
    return AH_OK;
}

/* Assigns slots to ranks in the order of the file; slots after the last rank are only counted. */
static void place_in_order(const struct ah_hosts *hosts, struct slots *slots)
{
    for (size_t i = 0; i < hosts->n; i++)
        for (uint64_t k = 0; k < hosts->entries[i].slots; k++, slots->n++)
            if (slots->n < slots->ranks)
                slots->host[slots->n] = hosts->entries[i].name;
}

/* Checks that the ranks of a node are on one host, because they share its memory and links. */
static int check_node(const struct slots *slots, uint64_t rank, const char *path, struct ah_error *err)
{
    uint64_t first = 0;
    while (strcmp(slots->node[first], slots->node[rank]) != 0)
        first++;
    if (!strcmp(slots->host[first], slots->host[rank]))
        return AH_OK;
    return ah_error_set(err, AH_E_MISMATCH,
                        "%s: ranks %" PRIu64 " and %" PRIu64 " belong to node '%s' of the plan, but would "
                        "run on hosts '%s' and '%s'; list the hosts in the order of the plan's nodes",
                        path, first, rank, slots->node[rank], slots->host[first], slots->host[rank]);
}

static int check_hosts(const struct slots *slots, const char *path, struct ah_error *err)
{
    int rc = AH_OK;
    if (slots->n != slots->ranks)
        return ah_error_set(err, AH_E_MISMATCH,
                            "%s: has %" PRIu64 " slot%s, but the plan has %" PRIu64 " ranks; give each host "
                            "as many slots as its node has ranks",
                            path, slots->n, slots->n == 1 ? "" : "s", slots->ranks);
    for (uint64_t rank = 0; rank < slots->ranks && !rc; rank++)
        rc = check_node(slots, rank, path, err);
    return rc;
}

int ah_run_hosts_place(const struct ah_hosts *given, const struct ah_cluster_plan *plan, const char *path,
                       struct ah_arena *arena, struct ah_hosts *ret_hosts, struct ah_error *err)
{
    struct slots slots = {0};
    bool named = false;
    int rc = fill_nodes(plan, arena, &slots, err);
    rc = rc ? rc : place_by_name(given, &slots, arena, ret_hosts, &named, err);
    if (rc || named)
        return rc;
    place_in_order(given, &slots);
    rc = check_hosts(&slots, path, err);
    if (!rc)
        *ret_hosts = *given;
    return rc;
}

/* Returns the command line without '--hosts'; NULL: out of memory. */
static const char *const *words_of(struct ah_cli *cli)
{
    size_t n = 0, at = 0;
    while (cli->words[n])
        n++;
    const char **words = ah_arena_array(&cli->arena, n + 1, sizeof *words);
    for (size_t i = 0; i < n && words; i++) {
        if (!strcmp(cli->words[i], "--hosts"))
            i++;
        else if (strncmp(cli->words[i], "--hosts=", 8) != 0)
            words[at++] = cli->words[i];
    }
    return words;
}

int ah_run_hosts_launch(struct ah_cli *cli, const char *path, const struct ah_cluster_plan *plan,
                        int *ret_status, struct ah_error *err)
{
    struct ah_hosts given = {0}, hosts = {0};
    const char *const *command = NULL;
    int rc = ah_hosts_read(path, &cli->arena, &given, err);
    rc = rc ? rc : ah_run_hosts_place(&given, plan, path, &cli->arena, &hosts, err);
    const char *const *words = rc ? NULL : words_of(cli);
    if (!rc && !words)
        return ah_error_memory(err);
    rc = rc ? rc : ah_mpirun_words(&hosts, false, words, &cli->arena, &command, err);
    return rc ? rc : ah_mpirun_launch(command, NULL, ret_status, err);
}
