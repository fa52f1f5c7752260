/* SPDX-License-Identifier: Apache-2.0
 *
 * Node: a rank of 'profile --hosts'; mpirun starts one on each host. At rank 0's command, all ranks measure their
 * machines at the same time, except that ranks on one machine measure one after another. Then pairs of ranks measure
 * their links, one pair at a time, so that no two pairs share a network card.
 *
 * A rank that cannot measure tells rank 0, whose report names it. The other ranks stay connected.
 *
 *     rc = ah_profile_node_open(&node, &options, err);     // joins the others
 *     if (!ah_comm_rank(node.comm))
 *         rc = ah_profile_node_lead(&node, &report, err);  // rank 0
 *     else
 *         rc = ah_profile_node_follow(&node, err);
 *     ah_profile_node_close(&node, rc, err);
 */
#ifndef AH_CLI_PROFILE_PROFILE_NODE_H
#define AH_CLI_PROFILE_PROFILE_NODE_H

#include "base/build_id.h"
#include "cli/profile/profile_report.h"

#include <stdatomic.h>

enum { AH_PROFILE_HOST_MAX = 256, AH_PROFILE_BOOT_MAX = 64 };

/* The identity of a rank. The kernel's boot id identifies the machine; empty: unknown. */
struct ah_profile_hello {
    char host[AH_PROFILE_HOST_MAX];
    char boot[AH_PROFILE_BOOT_MAX];
    char build[AH_BUILD_ID_TEXT_MAX];
};

void ah_profile_hello_fill(struct ah_profile_hello *ret_hello);

/* The turn (from 0) in which a rank measures; ranks on one machine have different turns. `first`: the first rank with
 * the same machine and host name. Containers on one machine have different names and limits. */
struct ah_profile_turn {
    uint32_t turn, first;
};
void ah_profile_node_turns(const struct ah_profile_hello *hellos, uint32_t n,
                           struct ah_profile_turn *ret_turns);

struct ah_profile_node_options {
    struct ah_comm_options comm;
    const struct ah_profile_hello *hello;
    bool quick;
    /* Measures this machine and appends its document to `out`. */
    int (*measure)(void *context, struct ah_buffer *out, struct ah_error *err);
    void *context;
    /* (optional) Called on rank 0: from now on, `measure` covers the part from `begin` to `end` of all work. */
    void (*tell)(void *context, double begin, double end, const char *what);
    const atomic_int *cancel; /* (optional) if it is set, no further link is measured */
};

struct ah_profile_node {
    struct ah_profile_node_options options;
    struct ah_comm *comm; /* owned */
};

int ah_profile_node_open(struct ah_profile_node *node, const struct ah_profile_node_options *options,
                         struct ah_error *err);

/* Directs the measurements from rank 0. The report, in `arena`, has single ranks' failures. AH_E_PEER: lost a rank. */
int ah_profile_node_lead(struct ah_profile_node *node, struct ah_arena *arena,
                         struct ah_profile_report *ret_report, struct ah_error *err);
int ah_profile_node_follow(struct ah_profile_node *node, struct ah_error *err);

/* Closes the node. If `rc` is not AH_OK, first tells the other ranks why, and they end. */
void ah_profile_node_close(struct ah_profile_node *node, int rc, const struct ah_error *why);

#endif
