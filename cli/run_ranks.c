/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rank but the first is a job of a lane of its own.
 */
#include "cli/run_ranks.h"

#include "base/lane.h"
#include "cli/cli.h"
#include "runtime/comm/loop/loop.h"
#include "runtime/schedule/names.h"
#include "runtime/train/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct follower {
    struct ah_lane *lane; /* owned; NULL: not started */
    const struct ah_run *run;
    struct ah_comm_hub *hub;
    struct ah_trainer_rank *place; /* of the world */
    struct ah_trainer_options options;
    struct ah_dataset *data, *held_out;
    struct ah_batches batches, held_out_batches;
};

struct ah_run_ranks {
    const struct ah_cluster_plan *plan;
    struct ah_arena arena;
    struct ah_world world;
    struct ah_plan lead;
    struct ah_comm_hub *hub;
    struct follower *followers; /* by rank; the first is not used */
};

int ah_run_ranks_new(struct ah_run_ranks **ret_ranks, const struct ah_cluster_plan *plan,
                     struct ah_error *err)
{
    struct ah_run_ranks *ranks = calloc(1, sizeof *ranks);
    if (!ranks)
        return ah_error_memory(err);
    ranks->plan = plan;
    int rc = ah_world_init(&ranks->world, plan, &ranks->arena, err);
    if (!rc) {
        ranks->followers = ah_arena_array(&ranks->arena, ranks->world.ranks, sizeof *ranks->followers);
        rc = ranks->followers ? AH_OK : ah_error_memory(err);
    }
    if (rc) {
        ah_run_ranks_free(ranks);
        return rc;
    }
    ranks->lead = *ranks->world.programs[0];
    ranks->lead.time.step_us = plan->predicted.step_us;
    ranks->lead.tokens_per_s = plan->predicted.tokens_per_s;
    *ret_ranks = ranks;
    return AH_OK;
}

const struct ah_plan *ah_run_ranks_plan(const struct ah_run_ranks *ranks)
{
    return &ranks->lead;
}

/* ---- a rank ---- */

static int join_world(struct ah_comm_hub *hub, struct ah_trainer_rank *place, struct ah_error *err)
{
    const struct ah_comm_options options = {
        .driver = ah_comm_loop(), .rank = place->rank, .ranks = place->ranks, .boot = hub};
    return ah_comm_open(&place->comm, &options, err);
}

/* One thread at a time uses a data set: each rank has its own. */
static int open_batches(const struct ah_run *run, const struct ah_option_list *paths,
                        const struct ah_batches *of, struct ah_dataset **ret_data,
                        struct ah_batches *ret_batches, struct ah_error *err)
{
    struct ah_batches_options options = of->options;
    int rc = ah_run_open_data(run, paths, true, ret_data, err);
    options.data = *ret_data;
    return rc ? rc : ah_batches_init(ret_batches, &options, err);
}

static int open_data(struct follower *f, struct ah_error *err)
{
    const struct ah_run *run = f->run;
    int rc = open_batches(run, &run->options->data, &run->batches, &f->data, &f->batches, err);
    if (!rc && run->held_out)
        rc = open_batches(run, &run->options->valid, &run->held_out_batches, &f->held_out,
                          &f->held_out_batches, err);
    return rc;
}

/* Whatever fails here, rank 0 is told: by whoever fails, or when it asks for channels. */
static void follow(void *payload)
{
    struct follower *f = *(struct follower **)payload;
    struct ah_error err = {0};
    struct ah_trainer *trainer = NULL;
    int rc = join_world(f->hub, f->place, &err);
    if (!rc) {
        rc = open_data(f, &err);
        if (rc)
            ah_comm_revoke(f->place->comm, &err);
    }
    rc = rc ? rc : ah_trainer_open(&trainer, &f->options, &err);
    if (!rc)
        (void)ah_trainer_follow(trainer, f->held_out ? &f->held_out_batches : NULL, &err);
    ah_trainer_close(trainer);
    ah_comm_close(f->place->comm);
    ah_batches_release(&f->batches);
    ah_batches_release(&f->held_out_batches);
    ah_dataset_close(f->data);
    ah_dataset_close(f->held_out);
}

/* ---- all ---- */

static int start_follower(struct ah_run_ranks *ranks, const struct ah_run *run, uint32_t rank,
                          const struct ah_trainer_options *options, struct ah_error *err)
{
    struct follower *f = &ranks->followers[rank];
    const struct ah_plan *program = ranks->world.programs[rank];
    char name[24];
    *f = (struct follower){
        .run = run, .hub = ranks->hub, .place = &ranks->world.places[rank], .options = *options};
    f->options.plan = program;
    f->options.rank = f->place;
    f->options.batches = &f->batches;
    f->options.pool = NULL;
    f->options.device.memory_bytes = program->memory.device_capacity_bytes;
    f->options.device.compute_threads = program->threads ? (uint32_t)program->threads->compute : 0;
    f->options.device.host_threads = program->threads ? (uint32_t)program->threads->host : 0;
    snprintf(name, sizeof name, "rank %" PRIu32, rank);
    int rc = ah_lane_new(&f->lane, &(struct ah_lane_options){.name = name, .cpu = -1, .queue = 1, .spans = 1},
                         err);
    const struct ah_lane_job job = {.run = follow, .payload = &f, .payload_bytes = sizeof f};
    return rc ? rc : ah_lane_submit(f->lane, &job, NULL);
}

int ah_run_ranks_start(struct ah_run_ranks *ranks, const struct ah_run *run,
                       struct ah_trainer_options *options, struct ah_error *err)
{
    struct ah_trainer_rank *place = &ranks->world.places[0];
    options->device.shared = true;
    int rc = ah_comm_hub_new(&ranks->hub, ranks->world.ranks, NULL, err);
    for (uint32_t rank = 1; rank < ranks->world.ranks && !rc; rank++)
        rc = start_follower(ranks, run, rank, options, err);
    rc = rc ? rc : join_world(ranks->hub, place, err);
    options->rank = place;
    return rc;
}

void ah_run_ranks_end(struct ah_run_ranks *ranks)
{
    if (!ranks)
        return;
    ah_comm_close(ranks->world.places[0].comm);
    for (uint32_t rank = 1; rank < ranks->world.ranks; rank++) {
        ah_lane_free(ranks->followers[rank].lane);
        ranks->followers[rank].lane = NULL;
    }
    ah_comm_hub_free(ranks->hub);
    ranks->world.places[0].comm = NULL;
    ranks->hub = NULL;
}

void ah_run_ranks_print(const struct ah_run_ranks *ranks, struct ah_cli *cli, struct ah_buffer *out)
{
    for (uint32_t rank = 0; rank < ranks->world.ranks; rank++) {
        const struct ah_plan *program = ranks->world.programs[rank];
        struct ah_buffer blocks = {0};
        ah_name_range(ah_names_of_plan(program), 0, program->n_blocks, &blocks);
        ah_buffer_printf(out, "%s%" PRIu32 ": %s",
                         rank ? " | " : "ranks, all of them threads of this machine: ", rank,
                         blocks.failed ? "?" : ah_cli_clean(cli, blocks.data));
        ah_buffer_release(&blocks);
    }
    ah_buffer_printf(out, "\n");
}

void ah_run_ranks_free(struct ah_run_ranks *ranks)
{
    if (!ranks)
        return;
    ah_run_ranks_end(ranks);
    ah_arena_release(&ranks->arena);
    free(ranks);
}
