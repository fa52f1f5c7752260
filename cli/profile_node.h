/* SPDX-License-Identifier: Apache-2.0
 *
 * Node: one of the ranks of 'profile --hosts', which mpirun starts, one a host. Each measures its machine when rank 0 says so,
 * all at the same time, but for ranks on one machine, which take turns; then pairs of ranks measure their link, one pair at a
 * time, so that no two share a network card.
 *
 * A rank that cannot measure tells rank 0, whose report names it; nobody is lost by that.
 *
 *     rc = ah_profile_node_open(&node, &options, err);     // joins the others
 *     if (!ah_comm_rank(node.comm))
 *         rc = ah_profile_node_lead(&node, &report, err);  // rank 0
 *     else
 *         rc = ah_profile_node_follow(&node, err);
 *     ah_profile_node_close(&node, rc, err);
 */
#ifndef AH_CLI_PROFILE_NODE_H
#define AH_CLI_PROFILE_NODE_H

#include "base/build_id.h"
#include "cli/profile_report.h"

#include <stdatomic.h>

enum { AH_PROFILE_HOST_MAX = 256, AH_PROFILE_BOOT_MAX = 64 };

/* Who a rank is. The boot id is that of the kernel, so that of the machine; empty: unknown. */
struct ah_profile_hello {
    char host[AH_PROFILE_HOST_MAX];
    char boot[AH_PROFILE_BOOT_MAX];
    char build[AH_BUILD_ID_TEXT_MAX];
};

void ah_profile_hello_fill(struct ah_profile_hello *ret_hello);

/* When each rank measures, from 0 on: ranks of one machine after each other. And the first rank that shares its machine under
 * the same name; containers of one machine have names, and limits, of their own. */
struct ah_profile_turn {
    uint32_t turn, first;
};
void ah_profile_node_turns(const struct ah_profile_hello *hellos, uint32_t n,
                           struct ah_profile_turn *ret_turns);

struct ah_profile_node_options {
    struct ah_comm_options comm;
    const struct ah_profile_hello *hello;
    bool quick;
    /* Measures this machine and appends the document. */
    int (*measure)(void *context, struct ah_buffer *out, struct ah_error *err);
    void *context;
    /* (optional) Of rank 0: its own measuring takes a part of the whole, from `begin` to `end`, of which `measure` tells. */
    void (*tell)(void *context, double begin, double end, const char *what);
    const atomic_int *cancel; /* (optional) set: stop before the next link */
};

struct ah_profile_node {
    struct ah_profile_node_options options;
    struct ah_comm *comm; /* owned */
};

int ah_profile_node_open(struct ah_profile_node *node, const struct ah_profile_node_options *options,
                         struct ah_error *err);

/* The report is in `arena`; failures of single ranks are in it. AH_E_PEER: the world is lost. */
int ah_profile_node_lead(struct ah_profile_node *node, struct ah_arena *arena,
                         struct ah_profile_report *ret_report, struct ah_error *err);
int ah_profile_node_follow(struct ah_profile_node *node, struct ah_error *err);

/* `rc` not AH_OK: the others are told why, and end. */
void ah_profile_node_close(struct ah_profile_node *node, int rc, const struct ah_error *why);

#endif
