/* SPDX-License-Identifier: Apache-2.0
 *
 * Planner: model + machine + training -> the best plan that it can find and its gap to the bound, or why there is none.
 * docs/planning.md says how; docs/policies/ describes the other policies.
 *
 *     struct ah_plan_request request = {.model = model, .model_sha256 = ..., .machine = machine, ...};
 *     request.training = (struct ah_plan_training){.batch = 8, .micro_batches = 1, .seq = 1024, ...};
 *     rc = ah_planner_plan(&request, &arena, &plan, &diagnosis, err);
 *     if (rc == AH_E_INFEASIBLE || rc == AH_E_NO_PLAN) ... diagnosis says what is short and what helps
 *
 * The same request gives the same plan, to the byte, on every machine and with any number of threads: the budget is a
 * number of evaluations, never a clock.
 */
#ifndef AH_PLANNER_PLANNER_H
#define AH_PLANNER_PLANNER_H

#include "base/arena.h"
#include "base/error.h"
#include "planner/policies/restriction.h"
#include "schemas/machine.h"
#include "schemas/model.h"
#include "schemas/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request for more memory than the machine has is planned as if it had that; the plan's `what_if` says so.
 * `host_bytes` is then all of the host's memory, and the system needs its share. A CPU's device memory is the host's:
 * more for the device is more for the host, unless the request says how much the host has. */

/* Evaluations by level of effort: AH_EFFORT_QUICK, AH_EFFORT_DEFAULT, or any number above. */
enum { AH_EFFORT_QUICK = 1, AH_EFFORT_DEFAULT = 2, AH_EFFORT_MOST = 5 };

struct ah_plan_request {
    const struct ah_model *model;
    const char *model_sha256; /* of its canonical text */
    const struct ah_machine *machine;
    const char *machine_sha256;
    struct ah_plan_training training; /* trainable NULL: everything */
    bool any_micro_batches;           /* the planner chooses training.micro_batches */
    bool training_stays;              /* no remedy changes it */
    uint64_t device_bytes;            /* arena and reserve together; 0: what the machine has */
    uint64_t host_bytes;              /* 0: what the machine has, less what the system needs */
    enum ah_policy policy;
    enum ah_scheduling scheduling;
    uint32_t
        without; /* bit i: without enum ah_technique i, whatever the policy; the plan's annotations say so */
    uint32_t effort;       /* 0: AH_EFFORT_DEFAULT */
    bool alternatives;     /* plan the other policies too and list them */
    bool no_remedies;      /* if there is no plan, do not look for changes that help */
    const char *generator; /* of the plan document */

    /* (optional) Called now and then with the evaluations done and planned; true stops with AH_E_INTERRUPTED. */
    bool (*progress)(void *context, uint64_t done, uint64_t planned);
    void *context;
};

enum ah_remedy_kind {
    AH_REMEDY_POLICY,        /* value: enum ah_policy that has a plan */
    AH_REMEDY_DEVICE_MEMORY, /* value: bytes for --device-memory */
    AH_REMEDY_HOST_MEMORY,   /* bytes for --host-memory */
    AH_REMEDY_BOTH_MEMORIES, /* value: of the device, host_bytes: of the host, each as above */
    AH_REMEDY_MICRO_BATCHES, /* for --micro-batches: changes the rounding of sums only */
    AH_REMEDY_BATCH,         /* for --batch: changes the mathematics */
    AH_REMEDY_SEQ,           /* for --seq: changes the mathematics */
    AH_REMEDY_STATE_DTYPE,   /* --state-dtype bf16: changes the mathematics */
    AH_REMEDIES
};

/* A change that was planned and works, alone. An amount of memory is device_bytes or host_bytes of the request. */
struct ah_remedy {
    enum ah_remedy_kind kind;
    uint64_t value;
    uint64_t host_bytes;
    bool changes_mathematics;
    bool beyond_machine; /* a what-if: it takes another machine */
    double step_us;      /* of the plan that it gives */
};

/* Which memory is short. More of `resource` alone is enough, and so is more of `other_resource` alone if it is named.
 * If `both` are short at once, `other_needed_bytes` is needed together with `needed_bytes` of the first. With
 * `at_least`, these are what any plan needs (`optimal`: by the relaxation; another policy: by all its settings);
 * without it, what tried choices need. 0: unknown. */
struct ah_diagnosis {
    bool proven; /* no plan of the policy exists; else none was found */
    bool at_least;
    const char
        *resource; /* "device memory", "host memory": static; if two, the one that lacks the smaller share */
    uint64_t needed_bytes;
    uint64_t available_bytes;
    bool both;
    const char *other_resource; /* NULL: more of it alone does not help */
    uint64_t other_needed_bytes;
    uint64_t other_available_bytes;
    struct ah_remedy remedies[AH_REMEDIES];
    size_t n_remedies;
};

/* AH_E_INFEASIBLE: no plan exists; AH_E_NO_PLAN: none was found; both fill the diagnosis. AH_E_USAGE: training or
 * budget makes no sense. AH_E_DOCUMENT: the machine lacks a number. `ret_plan` points into `arena` and the request. */
int ah_planner_plan(const struct ah_plan_request *request, struct ah_arena *arena, struct ah_plan *ret_plan,
                    struct ah_diagnosis *ret_diagnosis, struct ah_error *err);

/* True if the policy follows the request's `scheduling`. All others dispatch fifo. */
bool ah_planner_takes_scheduling(enum ah_policy policy);

struct ah_comparison {
    enum ah_policy policy;
    bool feasible;
    double step_us, tokens_per_s;
    uint64_t micro_batches;
    uint64_t device_bytes; /* of the arena */
    uint64_t host_bytes;
    struct ah_plan *plan; /* NULL: infeasible; points into arena and the request */
    const char *setting;  /* the knobs of its best setting, in words; in arena */
    bool proven;          /* infeasible: no plan of the policy exists; else none was found */
    const char *resource; /* infeasible: what is short; static */
    uint64_t short_bytes; /* infeasible; 0: unknown */
    bool at_least;        /* short_bytes: any plan lacks that much; else only what was tried does */
};

enum { AH_POLICIES = AH_POLICY_OPTIMAL + 1 };

/* The rates to which an emulating machine was slowed, in `arena`; NULL: it emulates none. AH_E_MEMORY. */
int ah_planner_emulated(const struct ah_machine *machine, enum ah_dtype dtype, struct ah_arena *arena,
                        struct ah_plan_emulated **ret_emulated, struct ah_error *err);

/* Every policy at its best setting, in the order of enum ah_policy. */
int ah_planner_compare(const struct ah_plan_request *request, struct ah_arena *arena,
                       struct ah_comparison ret_rows[AH_POLICIES], struct ah_error *err);

#endif
