/* SPDX-License-Identifier: Apache-2.0
 *
 * Follower: runs any rank except 0, from the opening of the world to the end of the run. It needs no command line,
 * because rank 0 sends it the task.
 *
 *     rank 0:      rc = ah_follower_lead(links, &task, err);      then ah_trainer_open(), and the rest of a run
 *     the others:  rc = ah_follower_run(&options, err);           returns when rank 0 closes its trainer
 *
 * Before any rank opens a device, ranks compare build, plan, weights and data. If a rank differs, it says so in one
 * sentence, and all ranks end. Rank 0 checks that each rank has the device and the free memory that the plan needs.
 */
#ifndef AH_RUNTIME_TRAIN_FOLLOWER_H
#define AH_RUNTIME_TRAIN_FOLLOWER_H

#include "runtime/comm/nccl.h"
#include "runtime/train/links.h"

enum { AH_FOLLOWER_HOST_MAX = 64 };

/* The task that rank 0 sends to the others; texts are borrowed during the call. */
struct ah_follower_task {
    const struct ah_trainer_options *trainer; /* those of rank 0 */
    const struct ah_batches *held_out;        /* (optional) */
    const char *const *data, *const *valid;   /* paths, valid on each rank */
    size_t n_data, n_valid;
    const char *format;       /* (optional) format of the data */
    const char *plan_sha256;  /* of the cluster plan */
    const char *const *nodes; /* (optional) by rank: name of its node in the plan */
    const char *nics; /* (optional) name of the NICs (paced_nics.h); if set, all ranks are paced (pace.h) */
};

/* What rank 0 knows about a rank. */
struct ah_follower_host {
    char name[AH_FOLLOWER_HOST_MAX];
    bool crowded;          /* another rank runs on the same host */
    uint32_t product_form; /* enum ah_product_form of its device */
    enum ah_device_kind device, planned;
    /* bytes of host memory; includes the device's if the device is a CPU */
    uint64_t free_bytes, needs_bytes;
};

/* Returns the largest n such that every rank has the first n forms of enum ah_product_form. */
uint32_t ah_follower_forms(const struct ah_follower_host *hosts, uint32_t ranks);

/* Returns host names by rank, for ah_trainer_rank.hosts, in `arena`, with texts of `hosts`. NULL: no memory. */
const char *const *ah_follower_names(const struct ah_follower_host *hosts, uint32_t ranks,
                                     struct ah_arena *arena);

/* Checks that every rank has the device and memory that the plan needs. Ranks on one host share its memory.
 * AH_E_MISMATCH names the rank and host, what exists and what is needed. `nodes` (optional) is indexed by rank. */
int ah_follower_check_hosts(const struct ah_follower_host *hosts, uint32_t ranks, const char *const *nodes,
                            struct ah_error *err);

/* Sends the task to all ranks. `ret_hosts` has room for all. AH_E_MISMATCH, AH_E_PEER, or the error of another rank. */
int ah_follower_lead(const struct ah_links *links, const struct ah_follower_task *task,
                     struct ah_follower_host *ret_hosts, struct ah_error *err);

struct ah_follower_options {
    struct ah_trainer_rank *place; /* with its comm set; borrowed */
    const struct ah_plan *program;
    const struct ah_device_driver *driver;
    uint32_t device_index;
    const struct ah_comm_nccl *nccl; /* NULL: its messages are not NCCL's */
    const char *plan_sha256;
    struct ah_device_watch watch; /* for its device; rank 0 sets the patience */
};

/* Follows rank 0 until the run ends. Returns AH_OK if rank 0 ended it, otherwise the error of the first failed rank;
 * the caller must then close the world. */
int ah_follower_run(const struct ah_follower_options *options, struct ah_error *err);

#endif
