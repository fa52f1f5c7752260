/* SPDX-License-Identifier: Apache-2.0
 *
 * World: turns a cluster plan into what trainers need: each rank's program and neighbours, and the owner of each block.
 *
 *     rc = ah_world_init(&world, cluster_plan, &arena, err);
 *     options.plan = world.programs[rank];
 *     options.rank = &world.places[rank];       // with its `comm` set
 */
#ifndef AH_RUNTIME_TRAIN_WORLD_H
#define AH_RUNTIME_TRAIN_WORLD_H

#include "base/arena.h"
#include "base/error.h"
#include "runtime/train/trainer.h"
#include "schemas/cluster_plan.h"

#include <stdint.h>

struct ah_world {
    uint32_t ranks;
    const struct ah_plan **programs; /* by rank; borrowed from the plan */
    struct ah_trainer_rank *places;  /* by rank; the caller sets their `comm` */
    const char **nodes;              /* by rank: name of its node in the plan */
};

/* Returns the number under which a rank of the plan runs. Idle ranks are not started and do not count. */
uint64_t ah_world_rank(const struct ah_cluster_plan *plan, uint64_t rank);

/* Makes the world, in `arena`; the plan stays borrowed. AH_E_UNSUPPORTED names what trainers cannot do yet: tensor
 * parallelism, GPUs. AH_E_DOCUMENT: a plan has no programs, or its programs cannot run their steps together. */
int ah_world_init(struct ah_world *ret_world, const struct ah_cluster_plan *plan, struct ah_arena *arena,
                  struct ah_error *err);

#endif
