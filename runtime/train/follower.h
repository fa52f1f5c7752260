/* SPDX-License-Identifier: Apache-2.0
 *
 * Follower: any rank except 0, from the opening of the world to the end of the run. It needs no command line: rank 0
 * sends it the task.
 *
 *     rank 0:      rc = ah_follower_lead(links, &task, err);      then ah_trainer_open(), and the rest of a run
 *     the others:  rc = ah_follower_run(&options, err);           returns when rank 0 closes its trainer
 *
 * Before anyone opens a device, ranks compare build, plan, weights and data. A rank that differs says so in one
 * sentence, and all end. Rank 0 checks that each has the device and the free memory that the plan needs.
 */
#ifndef AH_RUNTIME_TRAIN_FOLLOWER_H
#define AH_RUNTIME_TRAIN_FOLLOWER_H

#include "runtime/train/links.h"

enum { AH_FOLLOWER_HOST_MAX = 64 };

/* The task that rank 0 sends to the others; texts are borrowed during the call. */
struct ah_follower_task {
    const struct ah_trainer_options *trainer; /* rank 0's own */
    const struct ah_batches *held_out;        /* (optional) */
    const char *const *data, *const *valid;   /* paths as each rank finds them */
    size_t n_data, n_valid;
    const char *format;       /* (optional) format of the data */
    const char *plan_sha256;  /* of the cluster plan */
    const char *const *nodes; /* (optional) by rank: the node's name in the plan */
    const char *nics;         /* (optional) name of the NICs (paced_nics.h): all ranks are paced (pace.h) */
};

/* What rank 0 knows about each rank. */
struct ah_follower_host {
    char name[AH_FOLLOWER_HOST_MAX];
    bool crowded;          /* another rank runs on the same host */
    uint32_t product_form; /* enum ah_product_form of its device */
    enum ah_device_kind device, planned;
    uint64_t free_bytes, needs_bytes;               /* host memory; includes the device's if that is a CPU */
    uint64_t device_free_bytes, device_needs_bytes; /* memory of a GPU; else 0 */
};

/* Returns how many forms of enum ah_product_form, starting with the first, every rank has. */
uint32_t ah_follower_forms(const struct ah_follower_host *hosts, uint32_t ranks);

/* Host names by rank, for ah_trainer_rank.hosts: in `arena`, with texts borrowed from `hosts`. NULL: no memory. */
const char *const *ah_follower_names(const struct ah_follower_host *hosts, uint32_t ranks,
                                     struct ah_arena *arena);

/* Checks that every rank has what the plan wants. Ranks on one host share its memory. AH_E_MISMATCH names the rank and
 * host, what exists and what is needed. `nodes` (optional): by rank. */
int ah_follower_check_hosts(const struct ah_follower_host *hosts, uint32_t ranks, const char *const *nodes,
                            struct ah_error *err);

/* Runs at rank 0; `ret_hosts` has room for all ranks. AH_E_MISMATCH, AH_E_PEER, or the error of a rank that differs. */
int ah_follower_lead(const struct ah_links *links, const struct ah_follower_task *task,
                     struct ah_follower_host *ret_hosts, struct ah_error *err);

struct ah_follower_options {
    struct ah_trainer_rank *place; /* with its comm; borrowed */
    const struct ah_plan *program;
    const struct ah_device_driver *driver;
    const char *plan_sha256;
    struct ah_device_watch watch; /* watch of its device; rank 0 sets the patience */
};

/* AH_OK if rank 0 ended the run; otherwise the error of the first failed rank, and the caller must close the world. */
int ah_follower_run(const struct ah_follower_options *options, struct ah_error *err);

#endif
