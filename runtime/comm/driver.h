/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver: how bytes get from one rank to another, as a const table of functions. `loop` connects threads of one
 * process; other drivers are plugins. A driver adds nothing, buffers nothing and retries nothing.
 *
 * THREADS. Each rank's engine thread makes all calls, from `open` to `close`; only `wake` may come from any thread.
 *
 * COMPLETION. At most one message of a channel is posted at a time. Every posted message comes back from `poll` once,
 * with AH_OK or AH_E_PEER; from then on the driver does not touch its memory. A failing driver loses the world.
 */
#ifndef AH_RUNTIME_COMM_DRIVER_H
#define AH_RUNTIME_COMM_DRIVER_H

#include "runtime/comm/comm.h"

enum { AH_COMM_ABI = 1 };

/* A rank's end; a driver's own struct begins with it. */
struct ah_comm_end {
    uint32_t rank, ranks;
    bool is_independent; /* a posted message progresses even while others wait */
    uint32_t
        moving; /* number of messages whose bytes were in transit at the last `poll`; if any, the engine polls often */
};

struct ah_comm_message {
    uint32_t channel;
    bool more; /* progresses together with the next message in the array */
    void *data;
    uint64_t bytes;
};

struct ah_comm_done {
    uint32_t channel;
    int rc; /* AH_OK or AH_E_PEER */
};

struct ah_comm_driver {
    uint32_t abi;    /* AH_COMM_ABI */
    uint32_t layout; /* AH_COMM_LAYOUT */
    const char *name;

    /* (optional; NULL: always there) Describes the driver in a line. AH_E_MISSING: what is missing, how to get it. */
    int (*probe)(char *ret_text, size_t bytes, struct ah_error *err);

    /* Joins the world; collective. If options->ranks is 0, the launcher gives rank and ranks; AH_E_USAGE: there is no
     * launcher. AH_E_MISMATCH: the launcher's rank or ranks differ. AH_E_PEER names ranks that are absent after
     * options->deadline_s. `options` is valid until close. */
    int (*open)(struct ah_comm_end **ret_end, const struct ah_comm_options *options, struct ah_error *err);

    /* Opens channels; collective, once. `channels` is valid until close. All ranks fail alike (ah_comm_agree()). */
    int (*channels)(struct ah_comm_end *end, const struct ah_comm_channel *channels, size_t n,
                    struct ah_error *err);

    /* Begins `n` messages, none larger than its channel's most_bytes. Never blocks, allocates nothing. */
    void (*post)(struct ah_comm_end *end, const struct ah_comm_message *messages, size_t n);

    /* Writes at most `max` finished messages and returns their number. Never blocks. */
    size_t (*poll)(struct ah_comm_end *end, struct ah_comm_done *ret_done, size_t max);

    /* (optional, both or none) `wait` sleeps until `poll` or `fault` may have news, or `wake` was called since the last
     * sleep. Without these functions, the engine polls, and sleeps in between. */
    void (*wait)(struct ah_comm_end *end);
    void (*wake)(struct ah_comm_end *end);

    /* Returns AH_E_PEER if the world is lost, with the rank that lost it first and the reason. Never blocks. */
    int (*fault)(struct ah_comm_end *end, uint32_t *ret_rank, struct ah_error *ret_why);

    /* Loses the world; only the first call in the world counts. May end the process instead of returning. */
    void (*revoke)(struct ah_comm_end *end, const struct ah_error *why);

    /* Leaves the world; collective unless the world is lost. Nothing is posted afterwards. */
    void (*close)(struct ah_comm_end *end);
};

/* A number that changes with the size of any struct that a plugin shares with us. */
/* clang-format off */
#define AH_COMM_LAYOUT \
    ((uint32_t)(sizeof(struct ah_comm_driver) + 1009 * sizeof(struct ah_comm_end) + \
                10007 * sizeof(struct ah_comm_options) + 100003 * sizeof(struct ah_comm_channel) + \
                1000003 * sizeof(struct ah_comm_message) + 10000019 * sizeof(struct ah_comm_done)))
/* clang-format on */

#define AH_COMM_PLUGIN_SYMBOL "ah_comm_plugin"

typedef const struct ah_comm_driver *ah_comm_plugin_fn(void);

/* Loads the driver in plugin `name`, such as "mpi". *Borrowed* until the process ends. Fails as ah_plugin_open(). */
int ah_comm_load(const char *name, const struct ah_comm_driver **ret_driver, struct ah_error *err);

/* Checks `abi` and `layout`. AH_E_MISMATCH: another build made the table; `origin` names the driver in messages. */
int ah_comm_check_driver(const struct ah_comm_driver *driver, const char *origin, struct ah_error *err);

/* The channels that one rank requests. */
struct ah_comm_wishes {
    const struct ah_comm_channel *channels;
    size_t n;
};

/* Returns AH_OK if the channels of all ranks match; else AH_E_MISMATCH, with the same message on every rank. */
int ah_comm_agree(const struct ah_comm_wishes *wishes, uint32_t ranks, struct ah_error *err);

/* What an error message needs in order to name the ranks that missed a deadline. */
struct ah_comm_absent {
    uint32_t ranks; /* number of ranks in the world */
    bool (*is_absent)(const void *world, uint32_t rank);
    const void *world;
    const char *did_not; /* what absent ranks failed to do: "come" */
    double deadline_s;
};

/* Sets AH_E_PEER with a message that names the absent ranks. */
int ah_comm_say_absent(const struct ah_comm_absent *absent, struct ah_error *err);

/* Finds the other end of `channel` of `rank`. Returns its index in the peer's wishes; SIZE_MAX: there is none. */
size_t ah_comm_other_end(const struct ah_comm_wishes *peer, uint32_t rank,
                         const struct ah_comm_channel *channel);

#endif
