/* SPDX-License-Identifier: Apache-2.0
 *
 * Planner: finds the best plan it can for a model, a machine and a training, together with its gap to the bound. If
 * there is no plan, it says why. docs/planning.md explains the method; docs/policies/ describes the other policies.
 *
 *     struct ah_plan_request request = {.model = model, .model_sha256 = ..., .machine = machine, ...};
 *     request.training = (struct ah_plan_training){.batch = 8, .micro_batches = 1, .seq = 1024, ...};
 *     rc = ah_planner_plan(&request, &arena, &plan, &diagnosis, err);
 *     if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN) ... diagnosis says what is short and what helps
 *
 * The same request gives the same plan, byte for byte, on every machine and with any number of threads. The budget of a
 * search is a number of evaluations, never a time.
 */
#ifndef AH_PLANNER_PLANNER_H
#define AH_PLANNER_PLANNER_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/policies/restriction.h"
#include "schemas/cluster_plan.h"
#include "schemas/machine.h"
#include "schemas/model.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request may ask for more memory than the machine has; the plan then lists the difference in `what_if`. In that case
 * `host_bytes` counts all of the host's memory, including the system's share. A CPU's device memory is part of host
 * memory, so more for the device raises the host's, too, unless the request sets `host_bytes`. */

/* Evaluations by level of effort: AH_EFFORT_QUICK, AH_EFFORT_DEFAULT, or a larger number. */
enum { AH_EFFORT_QUICK = 1, AH_EFFORT_DEFAULT = 2, AH_EFFORT_MOST = 5 };

struct ah_plan_request {
    const struct ah_model *model;
    const char *model_sha256; /* digest of the model's canonical text */
    const struct ah_machine *machine;
    const char *machine_sha256;
    struct ah_plan_training training; /* a step of all GPUs; trainable NULL: all tensors are trained */
    bool any_micro_batches;           /* the planner chooses training.micro_batches: the fastest ... */
    bool least_micro_batches;         /* ... or the least that has a plan */
    bool training_stays;              /* remedies must leave the training as it is */
    uint64_t device_bytes;            /* budget for arena and reserve; 0: all of the device's memory */
    uint64_t host_bytes;              /* 0: all of the host's memory, less the system's share */

    /* GPUs like the machine's that train together and share its host; each owns an equal part of all states. 0 or 1:
     * one GPU. Micro-batches are dealt to them in turn. The plan is that of each GPU. */
    uint64_t gpus;
    double fabric_bytes_per_s; /* rate at which each GPU sends to the others, and receives */
    enum ah_policy policy;
    enum ah_scheduling scheduling;
    uint32_t without;      /* bit i: no policy may use enum ah_technique i; noted in the plan */
    uint32_t effort;       /* 0: AH_EFFORT_DEFAULT */
    bool alternatives;     /* plan the other policies, too, and list the results */
    bool no_remedies;      /* if there is no plan, do not look for changes that help */
    const char *generator; /* program name to put in the plan document */

    /* (optional) Called now and then with the evaluations done and planned; true stops with AH_E_INTERRUPTED. */
    bool (*progress)(void *context, uint64_t done, uint64_t planned);
    void *context;
};

enum ah_remedy_kind {
    AH_REMEDY_POLICY,        /* value: an enum ah_policy that has a plan */
    AH_REMEDY_DEVICE_MEMORY, /* value: bytes for --device-memory */
    AH_REMEDY_HOST_MEMORY,   /* value: bytes for --host-memory */
    AH_REMEDY_BOTH_MEMORIES, /* value: --device-memory, host_bytes: --host-memory */
    AH_REMEDY_MICRO_BATCHES, /* value: --micro-batches; changes only the rounding of sums */
    AH_REMEDY_BATCH,         /* value: --batch; changes the mathematics */
    AH_REMEDY_SEQ,           /* value: --seq; changes the mathematics */
    AH_REMEDY_STATE_DTYPE,   /* --state-dtype bf16: changes the mathematics */
    AH_REMEDIES
};

/* A change with which there is a plan. An amount of memory is a value for device_bytes or host_bytes of a request. */
struct ah_remedy {
    enum ah_remedy_kind kind;
    uint64_t value;
    uint64_t host_bytes;
    bool changes_mathematics;
    bool beyond_machine; /* true: needs a machine with more memory (a what-if) */
    double step_us;      /* step time of the plan with this change */
};

/* Which memory is short. It is enough to add `resource` or, if it is named, to add `other_resource` instead. With
 * `both`, a plan needs `needed_bytes` of the first and `other_needed_bytes` of the second together. With `at_least`, no
 * plan needs less: for `optimal` the relaxation proves it, for another policy all its settings were tried. Otherwise
 * the amounts are those of the choices tried. 0: unknown. */
struct ah_diagnosis {
    bool proven; /* true: proven that the policy has no plan; false: none was found */
    bool at_least;
    const char
        /* "device memory" or "host memory"; static */
        *resource;
    uint64_t needed_bytes;
    uint64_t available_bytes;
    bool both;
    const char *other_resource; /* NULL: adding only the other memory does not help */
    uint64_t other_needed_bytes;
    uint64_t other_available_bytes;
    struct ah_remedy remedies[AH_REMEDIES];
    size_t n_remedies;
};

/* Makes a plan. AH_E_INFEASIBLE: no plan exists. AH_E_NO_PLAN: none was found. Both errors fill the diagnosis.
 * AH_E_USAGE: the training or the budget is invalid. AH_E_DOCUMENT: the machine document lacks a number. `ret_plan`
 * points into `arena` and the request. */
int ah_planner_plan(const struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                    struct ah_diagnosis *ret_diagnosis, struct ah_error *err);

/* Makes a cluster plan for a request with several GPUs, each of which is a pipeline of one stage. Errors: as above. */
int ah_planner_plan_gpus(const struct ah_plan_request *request, struct ah_arena *arena,
                         struct ah_cluster_plan *ret_plan, struct ah_diagnosis *ret_diagnosis,
                         struct ah_error *err);

/* True if the policy follows the request's `scheduling`. The other policies dispatch fifo. */
bool ah_planner_takes_scheduling(enum ah_policy policy);

struct ah_comparison {
    enum ah_policy policy;
    bool feasible;
    double step_us, tokens_per_s;
    uint64_t micro_batches;
    uint64_t device_bytes; /* size of the arena, of each GPU */
    uint64_t host_bytes;   /* of each GPU */
    struct ah_plan *plan;  /* NULL: infeasible; points into arena and the request */
    const char *setting;   /* text with the knobs of its best setting; in arena */
    bool proven;           /* infeasible: proven that the policy has no plan; false: none was found */
    const char *resource;  /* infeasible: the memory that is short; static */
    uint64_t short_bytes;  /* infeasible: bytes lacking; 0: unknown */
    bool at_least;         /* true: every plan lacks short_bytes or more; false: the plans tried do */
};

enum { AH_POLICIES = AH_POLICY_OPTIMAL + 1 };

/* Finds the rates to which an emulating machine was slowed, in `arena`; NULL if it emulates none. AH_E_MEMORY. */
int ah_planner_emulated(const struct ah_machine *machine, enum ah_dtype dtype, struct ah_arena *arena,
                        struct ah_plan_emulated **ret_emulated, struct ah_error *err);

/* Plans every policy at its best setting, in the order of enum ah_policy. */
int ah_planner_compare(const struct ah_plan_request *request, struct ah_arena *arena,
                       struct ah_comparison ret_rows[AH_POLICIES], struct ah_error *err);

#endif
