/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/sim/event_tree.h"

#include <math.h>
#include <stdlib.h>

int ah_event_tree_init(struct ah_event_tree *ret_tree, size_t n, struct ah_error *err)
{
    struct ah_event_tree tree = {.slots = 2};
    while (tree.slots < n)
        tree.slots *= 2;
    tree.us = malloc(tree.slots * sizeof *tree.us);
    tree.winners = malloc(tree.slots * sizeof *tree.winners);
    if (!tree.us || !tree.winners) {
        ah_event_tree_release(&tree);
        return ah_error_memory(err);
    }
    for (size_t i = 0; i < tree.slots; i++)
        tree.us[i] = INFINITY;
    for (size_t i = tree.slots; i-- > 1;)
        tree.winners[i] = 2 * i < tree.slots ? tree.winners[2 * i] : (uint32_t)(2 * i - tree.slots);
    *ret_tree = tree;
    return AH_OK;
}

void ah_event_tree_release(struct ah_event_tree *tree)
{
    if (!tree)
        return;
    free(tree->us);
    free(tree->winners);
    *tree = (struct ah_event_tree){0};
}

void ah_event_tree_set(struct ah_event_tree *tree, size_t thing, double us)
{
    uint32_t left = (uint32_t)(thing & ~(size_t)1), right = left + 1;
    if (tree->us[thing] <= us && tree->us[thing] >= us)
        return;
    tree->us[thing] = us;
    for (size_t i = (tree->slots + thing) / 2; i > 0; i /= 2) {
        if (2 * i < tree->slots) {
            left = tree->winners[2 * i];
            right = tree->winners[2 * i + 1];
        }
        uint32_t before = tree->winners[i], winner = tree->us[right] < tree->us[left] ? right : left;
        tree->winners[i] = winner;
        if (before == winner && winner != thing) /* all nodes above are unchanged, too */
            return;
    }
}
