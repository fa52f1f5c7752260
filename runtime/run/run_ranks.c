/* SPDX-License-Identifier: Apache-2.0
 *
 * If ranks are threads, each rank except 0 is a job on a lane of its own.
 *
 * If the plan is for GPUs, each rank has one of its own: as threads, rank r has GPU r; as processes, the r-th rank on a
 * host has GPU r of those that it sees, or the only one. Messages between GPUs are NCCL's (runtime/comm/nccl.h).
 */
#include "runtime/run/run_ranks.h"

#include "base/lane.h"
#include "base/units.h"
#include "runtime/comm/driver.h"
#include "runtime/comm/loop/loop.h"
#include "runtime/comm/nccl.h"
#include "runtime/device/device_plugin.h"
#include "runtime/schedule/names.h"
#include "runtime/train/follower.h"
#include "runtime/train/paced_nics.h"
#include "runtime/train/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct follower {
    struct ah_lane *lane; /* owned; NULL: not started */
    struct ah_run_ranks *ranks;
    uint32_t rank;
};

struct ah_run_ranks {
    const struct ah_cluster_plan *plan;
    struct ah_arena arena;
    struct ah_world world;
    struct ah_plan_training step;
    uint32_t rank; /* the rank of this process */
    struct ah_plan lead;
    char sha256[AH_DOCUMENT_DIGEST_MAX];
    struct ah_comm_hub *hub; /* owned; NULL if ranks are processes */
    const struct ah_device_driver *device;
    const struct ah_comm_driver *nccl; /* NULL: ranks are on processors */
    struct ah_comm_nccl *boots;        /* by rank: boot of its messages between GPUs */
    uint32_t gpu;                      /* if ranks are processes: the GPU of this one */
    struct follower *followers;        /* by rank: its thread; entry 0 is unused */
    struct ah_links links;
    bool linked, paces;
    struct ah_device_watch watch; /* for the devices of ranks other than 0 */
    /* By rank of this process: what it waited for when the world was lost. */
    struct ah_buffer *waits;
    struct ah_follower_host *hosts; /* by rank: its host, once rank 0 knows it */
};

static struct ah_trainer_rank *place_of(const struct ah_run_ranks *ranks)
{
    return &ranks->world.places[ranks->rank];
}

bool ah_run_ranks_launched(const char **ret_variable)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) {
            *ret_variable = variables[i];
            return true;
        }
    return false;
}

uint64_t ah_run_ranks_started(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        const long long n = text ? atoll(text) : 0;
        if (n > 0)
            return (uint64_t)n;
    }
    return 1;
}

/* ---- the world ---- */

/* Returns the number of the rank's device. */
static uint32_t gpu_of(const struct ah_run_ranks *ranks, uint32_t rank)
{
    return ranks->hub && ranks->boots ? rank : ranks->gpu;
}

/* Puts NCCL on top of the driver, if ranks are on GPUs. */
static void add_nccl(struct ah_run_ranks *ranks, uint32_t rank, struct ah_comm_options *options)
{
    if (!ranks->nccl)
        return;
    ranks->boots[rank] =
        (struct ah_comm_nccl){options->driver, options->boot, AH_LINKS_CONTROL, gpu_of(ranks, rank), 0};
    options->driver = ranks->nccl;
    options->boot = &ranks->boots[rank];
}

static int join_threads(struct ah_run_ranks *ranks, struct ah_trainer_rank *place, struct ah_error *err)
{
    struct ah_comm_options options = {
        .driver = ah_comm_loop(), .rank = place->rank, .ranks = place->ranks, .boot = ranks->hub};
    add_nccl(ranks, place->rank, &options);
    return ah_comm_open(&place->comm, &options, err);
}

/* Finds which of its host's ranks this process is. */
static int place_on_host(uint32_t *ret_place, struct ah_error *err)
{
    static const char *const variables[] = {
        "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
        "PALS_LOCAL_RANKID",          "FLUX_TASK_LOCAL_ID",        "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) {
            *ret_place = (uint32_t)strtoul(getenv(variables[i]), NULL, 10);
            return AH_OK;
        }
    return ah_error_set(
        err, AH_E_USAGE,
        "the launcher does not say which of this host's ranks a process is, so its GPU is not known; "
        "show each process one GPU with CUDA_VISIBLE_DEVICES");
}

/* Chooses the GPU of this process, or checks that there is one for each thread. */
static int choose_gpus(struct ah_run_ranks *ranks, bool local, struct ah_error *err)
{
    size_t n = 0;
    int rc = ranks->device->probe(NULL, 0, &n, err);
    if (!rc && !local && n > 1)
        rc = place_on_host(&ranks->gpu, err);
    if (rc || (local ? ranks->world.ranks : ranks->gpu + 1) <= n)
        return rc;
    if (local)
        return ah_error_set(err, AH_E_MISSING,
                            "has %" PRIu32
                            " ranks, each on a GPU of its own, but this machine has %zu GPU%s; "
                            "plan for fewer ranks, or run it on several machines ('--hosts FILE')",
                            ranks->world.ranks, n, n == 1 ? "" : "s");
    return ah_error_set(err, AH_E_MISSING,
                        "rank %" PRIu32
                        " of this host needs a GPU of its own, but the host has %zu; start at "
                        "most %zu ranks here",
                        ranks->gpu, n, n);
}

static int find_drivers(struct ah_run_ranks *ranks, bool local, struct ah_error *err)
{
    ranks->device = ah_device_cpu();
    if (ranks->world.programs[0]->numeric_signature.device == AH_DEVICE_CPU)
        return AH_OK;
    /* GPUs need a queue for each stream (device/cuda/cuda_lanes.c). Read when the first GPU is opened. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    ranks->boots = ah_arena_array(&ranks->arena, ranks->world.ranks, sizeof *ranks->boots);
    int rc = ranks->boots ? ah_plugin_load("cuda", &ranks->device, err) : ah_error_memory(err);
    rc = rc ? rc : choose_gpus(ranks, local, err);
    return rc ? rc : ah_comm_load("nccl", &ranks->nccl, err);
}

static int join_processes(struct ah_run_ranks *ranks, struct ah_error *err)
{
    struct ah_comm_options options = {0};
    struct ah_comm *comm = NULL;
    int rc = ah_comm_load("mpi", &options.driver, err);
    add_nccl(ranks, 0, &options);
    rc = rc ? rc : ah_comm_open(&comm, &options, err);
    if (rc)
        return rc;
    const uint32_t started = ah_comm_ranks(comm);
    if (started != ranks->world.ranks) {
        rc = ah_error_set(err, AH_E_MISMATCH,
                          "the plan is for %" PRIu32 " ranks, but %" PRIu32 " were started: mpirun -n "
                          "%" PRIu32,
                          ranks->world.ranks, started, ranks->world.ranks);
        ah_comm_close(comm);
        return rc;
    }
    ranks->rank = ah_comm_rank(comm);
    place_of(ranks)->comm = comm;
    return AH_OK;
}

void ah_run_ranks_pace(struct ah_run_ranks *ranks)
{
    ranks->paces = true;
}

bool ah_run_ranks_paced(const struct ah_run_ranks *ranks)
{
    return ranks && ranks->paces;
}

void ah_run_ranks_tell_pace(const struct ah_run_ranks *ranks, const struct ah_run_host *host)
{
    char by[AH_UNITS_TEXT_MAX];
    if (!ranks || !place_of(ranks)->nics)
        return;
    const struct ah_paced_nics_totals totals = ah_paced_nics_totals(place_of(ranks)->nics);
    if (totals.late)
        ah_run_tell(host, AH_RUN_NOTE,
                    "paced: %" PRIu64 " of %" PRIu64
                    " ops and messages took longer than planned, by %s in all",
                    totals.late, totals.ops, ah_units_print_time(by, (double)totals.late_ns * 1e-3));
    else
        ah_run_tell(host, AH_RUN_NOTE, "paced: none of %" PRIu64 " ops and messages took longer than planned",
                    totals.ops);
}

const struct ah_plan_training *ah_run_ranks_step(const struct ah_run_ranks *ranks)
{
    return &ranks->step;
}

uint32_t ah_run_ranks_n(const struct ah_run_ranks *ranks)
{
    return ranks->world.ranks;
}

const char *ah_run_ranks_host(const struct ah_run_ranks *ranks, uint32_t rank)
{
    return ranks->hosts[rank].name;
}

const char *ah_run_ranks_node(const struct ah_run_ranks *ranks, uint32_t rank)
{
    return ranks->world.nodes[rank];
}

const struct ah_cluster_plan *ah_run_ranks_cluster_plan(const struct ah_run_ranks *ranks)
{
    return ranks->plan;
}

const struct ah_world *ah_run_ranks_world(const struct ah_run_ranks *ranks)
{
    return &ranks->world;
}

/* Copies rank 0's program, and sets its step time to that of all programs together in consecutive steps. */
static void choose_program(struct ah_run_ranks *ranks)
{
    const struct ah_cluster_plan *plan = ranks->plan;
    const double period_us = plan->predicted.programs_period_us;
    ranks->lead = *ranks->world.programs[ranks->rank];
    ranks->lead.time.step_us = period_us > 0 ? period_us : plan->predicted.step_us;
    ranks->lead.tokens_per_s =
        1e6 * (double)(plan->training.batch * plan->training.seq) / ranks->lead.time.step_us;
}

static int digest(struct ah_run_ranks *ranks, struct ah_error *err)
{
    struct ah_cluster_plan plan = *ranks->plan;
    const struct ah_document document = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = &plan}};
    return ah_document_digest(&document, ranks->sha256, err);
}

int ah_run_ranks_new(struct ah_run_ranks **ret_ranks, const struct ah_cluster_plan *plan, bool local,
                     struct ah_error *err)
{
    struct ah_run_ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks)
        return ah_error_memory(err);
    ranks->plan = plan;
    int rc = ah_world_init(&ranks->world, plan, &ranks->arena, err);
    rc = rc ? rc : digest(ranks, err);
    rc = rc ? rc : find_drivers(ranks, local, err);
    rc = rc ? rc : ah_cluster_plan_step(plan, &ranks->arena, &ranks->step, err);
    if (!rc) {
        ranks->followers = ah_arena_array(&ranks->arena, ranks->world.ranks, sizeof *ranks->followers);
        ranks->hosts = ah_arena_array(&ranks->arena, ranks->world.ranks, sizeof *ranks->hosts);
        ranks->waits = ah_arena_array(&ranks->arena, ranks->world.ranks, sizeof *ranks->waits);
        rc = ranks->followers && ranks->hosts && ranks->waits ? AH_OK : ah_error_memory(err);
    }
    if (!rc)
        rc = local ? ah_comm_hub_new(&ranks->hub, ranks->world.ranks, NULL, err) : join_processes(ranks, err);
    if (rc) {
        ah_run_ranks_free(ranks);
        return rc;
    }
    choose_program(ranks);
    *ret_ranks = ranks;
    return AH_OK;
}

uint64_t ah_run_ranks_of_plan(const struct ah_cluster_plan *plan)
{
    uint64_t n = 0;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        for (size_t s = 0; s < plan->pipelines[p].n_stages; s++)
            n += plan->pipelines[p].stages[s].n_ranks;
    return n;
}

int ah_run_ranks_check(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_world world;
    int rc = ah_world_init(&world, plan, &arena, err);
    ah_arena_release(&arena);
    return rc;
}

bool ah_run_ranks_leads(const struct ah_run_ranks *ranks)
{
    return !ranks->rank;
}

const struct ah_plan *ah_run_ranks_plan(const struct ah_run_ranks *ranks)
{
    return &ranks->lead;
}

/* ---- a lost world ---- */

/* Notes what a rank waits for, if the world is lost. The rank's comm must still be open. */
static void keep_waits(struct ah_run_ranks *ranks, uint32_t rank)
{
    struct ah_comm *comm = ranks->waits ? ranks->world.places[rank].comm : NULL;
    uint32_t culprit;
    if (comm && !ranks->waits[rank].size && ah_comm_fault(comm, &culprit, NULL) && culprit != rank)
        ah_links_waits(comm, ranks->lead.training.micro_batches, ranks->paces ? 3 : 1, &ranks->waits[rank]);
}

void ah_run_ranks_tell_waits(const struct ah_run_ranks *ranks, const struct ah_run_host *host)
{
    for (uint32_t rank = 0; ranks && rank < ranks->world.ranks; rank++)
        if (ranks->waits[rank].size && !ranks->waits[rank].failed)
            ah_run_tell(host, AH_RUN_NOTE, "rank %" PRIu32 " waited for %s meanwhile", rank,
                        ranks->waits[rank].data);
}

void ah_run_ranks_give_up(struct ah_run_ranks *ranks, int rc, const struct ah_error *why)
{
    if (rc && ranks && !ranks->linked && place_of(ranks)->comm)
        ah_comm_revoke(place_of(ranks)->comm, why);
}

/* ---- ranks other than 0 ---- */

static int run_follower(struct ah_run_ranks *ranks, uint32_t rank, struct ah_error *err)
{
    const struct ah_follower_options options = {.place = &ranks->world.places[rank],
                                                .program = ranks->world.programs[rank],
                                                .driver = ranks->device,
                                                .device_index = gpu_of(ranks, rank),
                                                .nccl = ranks->boots ? &ranks->boots[ranks->hub ? rank : 0]
                                                                     : NULL,
                                                .plan_sha256 = ranks->sha256,
                                                .watch = ranks->watch};
    return ah_follower_run(&options, err);
}

int ah_run_ranks_follow(struct ah_run_ranks *ranks, struct ah_device_watch watch, struct ah_error *err)
{
    ranks->watch = watch;
    const int rc = run_follower(ranks, ranks->rank, err);
    keep_waits(ranks, ranks->rank);
    return rc;
}

static void follow_as_thread(void *payload)
{
    const struct follower *f = *(struct follower **)payload;
    struct ah_trainer_rank *place = &f->ranks->world.places[f->rank];
    struct ah_error err = {0}; /* not printed, because rank 0 reports the failure */
    if (!join_threads(f->ranks, place, &err))
        (void)run_follower(f->ranks, f->rank, &err);
    keep_waits(f->ranks, f->rank);
    ah_comm_close(place->comm);
    place->comm = NULL;
}

static int start_thread(struct ah_run_ranks *ranks, uint32_t rank, struct ah_error *err)
{
    struct follower *f = &ranks->followers[rank];
    char name[24];
    *f = (struct follower){.ranks = ranks, .rank = rank};
    snprintf(name, sizeof name, "rank %" PRIu32, rank);
    const struct ah_lane_options options = {.name = name, .cpu = -1, .queue = 1, .spans = 1};
    const struct ah_lane_job job = {.run = follow_as_thread, .payload = &f, .payload_bytes = sizeof f};
    int rc = ah_lane_new(&f->lane, &options, err);
    return rc ? rc : ah_lane_submit(f->lane, &job, NULL);
}

/* ---- rank 0 ---- */

static int start_threads(struct ah_run_ranks *ranks, struct ah_error *err)
{
    int rc = AH_OK;
    for (uint32_t rank = 1; rank < ranks->world.ranks && !rc; rank++)
        rc = start_thread(ranks, rank, err);
    return rc ? rc : join_threads(ranks, place_of(ranks), err);
}

/* Makes the NICs, with a turn for each rank's messages and for each sum. A node is numbered by one of its ranks. */
static int open_nics(struct ah_run_ranks *ranks, struct ah_error *err)
{
    struct ah_trainer_rank *place = place_of(ranks);
    return ah_paced_nics_new(&place->nics, place->ranks + (uint32_t)place->n_shares, place->ranks, err);
}

int ah_run_ranks_start(struct ah_run_ranks *ranks, const struct ah_run *run,
                       struct ah_trainer_options *options, struct ah_error *err)
{
    struct ah_trainer_rank *place = place_of(ranks);
    const struct ah_run_options *given = run->options;
    char nics[AH_PACED_NICS_NAME_MAX];
    struct ah_follower_task task = {.trainer = options,
                                    .held_out = run->held_out ? &run->held_out_batches : NULL,
                                    .data = given->data.items,
                                    .n_data = given->data.n,
                                    .valid = given->valid.items,
                                    .n_valid = given->valid.n,
                                    .format = given->data_format,
                                    .plan_sha256 = ranks->sha256,
                                    .nodes = ranks->world.nodes};
    ranks->watch = options->device.watch;
    int rc = ranks->hub ? start_threads(ranks, err) : AH_OK;
    if (!rc && ranks->paces)
        rc = open_nics(ranks, err);
    if (rc)
        return rc;
    if (ranks->paces) {
        ah_paced_nics_name(place->nics, nics);
        task.nics = nics;
    }
    place->hosts = ah_follower_names(ranks->hosts, ranks->world.ranks, &ranks->arena);
    rc = ah_links_open(&ranks->links, place, ranks->world.programs[0], err);
    ranks->linked = !rc;
    rc = rc ? rc : ah_follower_lead(&ranks->links, &task, ranks->hosts, err);
    if (rc)
        return ah_links_fail(place, rc, err);
    place->links = &ranks->links;
    options->rank = place;
    options->device.index = gpu_of(ranks, 0);
    options->device.messages_bytes = ranks->boots ? ranks->boots[0].taken_bytes : 0;
    options->device.shared = ranks->hosts[0].crowded;
    options->device.product_forms = ah_follower_forms(ranks->hosts, ranks->world.ranks);
    return AH_OK;
}

/* Threads end untold: rank 0 has closed its trainer, or the world is lost, if only by closing the comm here. */
void ah_run_ranks_end(struct ah_run_ranks *ranks)
{
    if (!ranks || ranks->rank)
        return;
    keep_waits(ranks, 0);
    if (!ranks->hub)
        return;
    ah_comm_close(place_of(ranks)->comm);
    place_of(ranks)->comm = NULL;
    for (uint32_t rank = 1; rank < ranks->world.ranks; rank++) {
        ah_lane_free(ranks->followers[rank].lane);
        ranks->followers[rank].lane = NULL;
    }
}

int ah_run_ranks_renew(struct ah_run_ranks *ranks, struct ah_error *err)
{
    if (!ranks->hub)
        return AH_E_UNSUPPORTED;
    if (ranks->linked)
        ah_links_release(&ranks->links);
    ranks->linked = false;
    ranks->links = (struct ah_links){0};
    ah_paced_nics_free(place_of(ranks)->nics);
    place_of(ranks)->nics = NULL;
    for (uint32_t rank = 0; rank < ranks->world.ranks; rank++)
        ah_buffer_clear(&ranks->waits[rank]);
    ah_comm_hub_free(ranks->hub);
    ranks->hub = NULL;
    return ah_comm_hub_new(&ranks->hub, ranks->world.ranks, NULL, err);
}

bool ah_run_ranks_failed_elsewhere(const struct ah_run_ranks *ranks)
{
    struct ah_comm *comm = ranks ? place_of(ranks)->comm : NULL;
    uint32_t culprit;
    return comm && ah_comm_fault(comm, &culprit, NULL) && culprit != ranks->rank;
}

bool ah_run_ranks_are_threads(const struct ah_run_ranks *ranks)
{
    return ranks->hub;
}

bool ah_run_ranks_products(const struct ah_run_ranks *ranks, char *ret_text, size_t bytes)
{
    const uint32_t last = ah_follower_forms(ranks->hosts, ranks->world.ranks) - 1;
    uint32_t rank = 0;
    if (ranks->lead.training.dtype != AH_BF16)
        return false;
    while (rank < ranks->world.ranks && ranks->hosts[rank].product_form == last)
        rank++;
    if (rank == ranks->world.ranks)
        return false;
    snprintf(ret_text, bytes,
             "bf16 products are added up in the form '%s', which all ranks have; rank %" PRIu32 " could use "
             "'%s', whose bits differ",
             ah_words_product_form[last], rank, ah_words_product_form[ranks->hosts[rank].product_form]);
    return true;
}

void ah_run_ranks_free(struct ah_run_ranks *ranks)
{
    if (!ranks)
        return;
    ah_run_ranks_end(ranks);
    if (ranks->linked)
        ah_links_release(&ranks->links);
    if (ranks->world.places)
        ah_comm_close(place_of(ranks)->comm);
    if (ranks->world.places && !ranks->rank)
        ah_paced_nics_free(place_of(ranks)->nics);
    ah_comm_hub_free(ranks->hub);
    for (uint32_t rank = 0; ranks->waits && rank < ranks->world.ranks; rank++)
        ah_buffer_release(&ranks->waits[rank]);
    ah_arena_release(&ranks->arena);
    free(ranks);
}
