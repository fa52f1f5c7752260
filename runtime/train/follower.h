/* SPDX-License-Identifier: Apache-2.0
 *
 * Follower: a rank but 0, from the moment that the world is open to the end of the run. It needs no command line: rank 0 tells
 * it what is trained on, and how.
 *
 *     rank 0:      rc = ah_follower_lead(links, &task, err);      then ah_trainer_open(), and all that a run does
 *     the others:  rc = ah_follower_run(&options, err);           returns when rank 0 closes its trainer
 *
 * Ranks compare what they are made of before anyone opens a device: the build, the plan, weights, the data. Whoever differs says so
 * in one sentence, and all end. Rank 0 sees whether each has the device and the free memory that the plan wants of it.
 */
#ifndef AH_RUNTIME_TRAIN_FOLLOWER_H
#define AH_RUNTIME_TRAIN_FOLLOWER_H

#include "runtime/train/links.h"

enum { AH_FOLLOWER_HOST_MAX = 64 };

/* What rank 0 tells; texts are borrowed during the call. */
struct ah_follower_task {
    const struct ah_trainer_options *trainer; /* rank 0's own */
    const struct ah_batches *held_out;        /* (optional) */
    const char *const *data, *const *valid;   /* paths as each rank finds them */
    size_t n_data, n_valid;
    const char *format;       /* (optional) of the data */
    const char *plan_sha256;  /* of the cluster plan */
    const char *const *nodes; /* (optional) by rank: the node's name in the plan */
    const char *ways;         /* (optional) their name: all ranks are paced (pace.h) */
};

/* Of each rank, at rank 0. */
struct ah_follower_host {
    char name[AH_FOLLOWER_HOST_MAX];
    bool crowded;          /* another rank is on the same one */
    uint32_t product_form; /* of its device */
    enum ah_device_kind device, planned;
    uint64_t free_bytes, needs_bytes;               /* on the host, where the device's lie if it is a CPU */
    uint64_t device_free_bytes, device_needs_bytes; /* of a GPU; else 0 */
};

/* Forms of bf16 products that all of them have. */
uint32_t ah_follower_forms(const struct ah_follower_host *hosts, uint32_t ranks);

/* Their names, as a place has them; in `arena`, borrowed from `hosts`. NULL: no memory. */
const char *const *ah_follower_names(const struct ah_follower_host *hosts, uint32_t ranks,
                                     struct ah_arena *arena);

/* Whether all have what the plan wants of them; ranks of one host share its memory. AH_E_MISMATCH names who has not, where, what is
 * there and what is wanted. `nodes` (optional): by rank. */
int ah_follower_check_hosts(const struct ah_follower_host *hosts, uint32_t ranks, const char *const *nodes,
                            struct ah_error *err);

/* Of rank 0: `ret_hosts` has one for each rank. AH_E_MISMATCH, AH_E_PEER, or the error of whoever differs (ah_comm_fault()). */
int ah_follower_lead(const struct ah_links *links, const struct ah_follower_task *task,
                     struct ah_follower_host *ret_hosts, struct ah_error *err);

struct ah_follower_options {
    struct ah_trainer_rank *place; /* with its comm; borrowed */
    const struct ah_plan *program;
    const struct ah_device_driver *driver;
    const char *plan_sha256;
    struct ah_device_watch watch; /* of its device, with rank 0's patience */
};

/* AH_OK: rank 0 ended the run. Else why this rank ended; where another one failed first, its error. The world is lost then, and
 * still to be closed. */
int ah_follower_run(const struct ah_follower_options *options, struct ah_error *err);

#endif
