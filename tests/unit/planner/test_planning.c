/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the budgets given to a request by its machine, what-if memory, and the split of a CPU's cores.
 */
#include "planner/planner_internal.h"

#include "planner/search/optimize.h"
#include "runtime/schedule/reserve.h"
#include "tests/property/planner/requests.h"

static void open_with(struct test_request *t, struct ah_planning *planning, uint64_t device_bytes,
                      uint64_t host_bytes)
{
    test_request_open(t, "tiny", "a100-40g-epyc7713");
    t->request.device_bytes = device_bytes;
    t->request.host_bytes = host_bytes;
    CHECK_OK(ah_planning_init(planning, &t->request, &t->arena, &t->err), t->err);
}

TEST(planning, takes_what_the_machine_has)
{
    struct test_request t;
    struct ah_planning p;
    open_with(&t, &p, 0, 0);
    assert_int_equal(p.device_capacity_bytes, t.request.machine->device.memory_bytes);
    assert_int_equal(p.host_capacity_bytes, t.request.machine->host.memory_bytes - 8 * TEST_GIB);
    assert_int_equal(p.splits[0].evaluator.limits.device_bytes,
                     p.device_capacity_bytes - t.request.machine->device.reserve_bytes);
    assert_int_equal(p.splits[0].evaluator.limits.host_bytes, p.host_capacity_bytes);
    ah_planning_release(&p);
    test_request_close(&t);
    open_with(&t, &p, 3 * TEST_GIB, 5 * TEST_GIB);
    assert_int_equal(p.device_capacity_bytes, 3 * TEST_GIB);
    assert_int_equal(p.host_capacity_bytes, 5 * TEST_GIB);
    ah_planning_release(&p);
    test_request_close(&t);
}

TEST(planning, leaves_memory_to_the_system)
{
    struct ah_machine machine = {.device.kind = AH_DEVICE_CUDA};
    assert_int_equal(ah_planning_host_budget(&machine, 16 * TEST_GIB, 1, 9 * TEST_GIB), 15 * TEST_GIB);
    assert_int_equal(ah_planning_host_budget(&machine, 512 * TEST_GIB, 1, 9 * TEST_GIB), 504 * TEST_GIB);
    machine.device.kind = AH_DEVICE_CPU; /* a CPU's arena is host memory */
    assert_int_equal(ah_planning_host_budget(&machine, 16 * TEST_GIB, 1, 9 * TEST_GIB), 6 * TEST_GIB);
    assert_int_equal(ah_planning_host_budget(&machine, 16 * TEST_GIB, 1, 15 * TEST_GIB), 0);
    assert_int_equal(ah_planning_host_budget(&machine, 16 * TEST_GIB, 1, 16 * TEST_GIB), 0);
    assert_int_equal(ah_planning_host_budget(&machine, 64 * TEST_GIB, 3, 9 * TEST_GIB), 33 * TEST_GIB);
    machine.host.process_bytes = 15 << 20; /* the budget is never less than this */
    assert_int_equal(ah_planning_host_budget(&machine, 16 * TEST_GIB, 1, 16 * TEST_GIB), 15 << 20);
    assert_int_equal(ah_planning_host_budget(&machine, 16 * TEST_GIB, 1, 9 * TEST_GIB), 6 * TEST_GIB);
}

static void has_what_if(const struct ah_planning *p, size_t i, enum ah_what_if_field field,
                        uint64_t planned_bytes)
{
    assert_true(i < p->n_what_if && p->what_if[i].field == field);
    assert_int_equal(p->what_if[i].planned_bytes, planned_bytes);
    assert_true(p->what_if[i].machine_bytes < planned_bytes);
}

/* A request for more memory than the machine has is planned for a larger machine. Its system also keeps a share. */
TEST(planning, takes_more_than_there_is_as_a_what_if)
{
    struct test_request t;
    struct ah_planning p;
    const uint64_t device = 64 * TEST_GIB, host = 1024 * TEST_GIB;
    open_with(&t, &p, 0, host);
    const uint64_t all = t.request.machine->device.memory_bytes;
    assert_int_equal(p.n_what_if, 1);
    has_what_if(&p, 0, AH_WHAT_IF_HOST_MEMORY, host);
    assert_int_equal(p.host_capacity_bytes, host - 8 * TEST_GIB);
    ah_planning_release(&p);
    test_request_close(&t);
    open_with(&t, &p, device, host);
    assert_int_equal(p.n_what_if, 2);
    has_what_if(&p, 0, AH_WHAT_IF_DEVICE_MEMORY, device);
    has_what_if(&p, 1, AH_WHAT_IF_HOST_MEMORY, host);
    assert_int_equal(p.device_capacity_bytes, device);
    ah_planning_release(&p);
    test_request_close(&t);
    open_with(&t, &p, all, 5 * TEST_GIB);
    assert_int_equal(p.n_what_if, 0);
    ah_planning_release(&p);
    test_request_close(&t);
}

TEST(planning, the_process_takes_of_the_host)
{
    enum { PROCESS = 15 << 20 };
    struct test_request t;
    struct ah_planning p;
    test_request_open(&t, "tiny", "a100-40g-epyc7713");
    struct ah_machine machine = *t.request.machine;
    machine.host.process_bytes = PROCESS;
    t.request.machine = &machine;
    t.request.host_bytes = PROCESS - 1;
    CHECK_FAILS(ah_planning_init(&p, &t.request, &t.arena, &t.err), t.err, AH_E_USAGE,
                "is less than the 15728640 bytes that the process takes");
    t.request.host_bytes = 5 * TEST_GIB;
    CHECK_OK(ah_planning_init(&p, &t.request, &t.arena, &t.err), t.err);
    assert_int_equal(p.host_capacity_bytes, 5 * TEST_GIB);
    assert_int_equal(p.splits[0].evaluator.limits.host_bytes, 5 * TEST_GIB - PROCESS);
    ah_planning_release(&p);
    test_request_close(&t);
}

TEST(planning, finds_the_fastest_split)
{
    struct test_request t;
    struct ah_planning p;
    open_with(&t, &p, 700 * TEST_MIB, 0);
    CHECK_OK(ah_planning_solve(&p, &t.err), t.err);
    assert_non_null(p.winner);
    assert_false(p.infeasible);
    for (size_t i = 0; i < p.n_splits; i++)
        assert_true(!p.splits[i].evaluator.found ||
                    p.winner->evaluator.best.score.period_us <=
                        p.splits[i].evaluator.best.score.period_us * (1 + 1e-9));
    assert_true(p.bound_us > 0 && p.bound_us <= p.winner->evaluator.best.score.period_us);
    assert_true(p.evaluations >= p.winner->evaluator.evaluations);
    ah_planning_release(&p);
    ah_planning_release(&p); /* a second release does nothing */
    test_request_close(&t);
}

enum { WAYS = 3 };

/* Turns the machine into a CPU of 4 cores, with products and host Adam measured on 1, 2 and 4 threads. */
static void make_cpu(struct ah_machine *machine, struct ah_machine_matmul *matmul,
                     struct ah_machine_adam *adam)
{
    size_t n = 0;
    for (uint64_t i = 0; i < WAYS; i++) {
        matmul[i] = machine->matmul[0];
        matmul[i].threads = UINT64_C(1) << i;
        matmul[i].flops_per_s.median = 1e11 * (double)(1 << i);
    }
    for (size_t k = 0; k < machine->n_adam; k++) {
        for (uint64_t i = 0; i < WAYS; i++) {
            adam[n] = machine->adam[k];
            adam[n].threads = UINT64_C(1) << i;
            adam[n++].params_per_s.median *= 0.1 * (double)(1 << i);
        }
    }
    machine->device.kind = AH_DEVICE_CPU;
    machine->device.reserve_bytes = 0;
    machine->host.cores = 4;
    machine->matmul = matmul;
    machine->n_matmul = WAYS;
    machine->adam = adam;
    machine->n_adam = n;
}

/* A CPU's device memory is host memory, so both grow together. */
TEST(planning, a_what_if_of_a_cpu_is_of_its_host)
{
    struct test_request t;
    struct ah_planning p;
    struct ah_machine_matmul matmul[WAYS];
    struct ah_machine_adam adam[16];
    test_request_open(&t, "tiny", "rtx4090-64g");
    struct ah_machine machine = *t.request.machine;
    make_cpu(&machine, matmul, adam);
    machine.device.memory_bytes = machine.host.memory_bytes = 16 * TEST_GIB;
    t.request.machine = &machine;
    t.request.device_bytes = 20 * TEST_GIB;
    CHECK_OK(ah_planning_init(&p, &t.request, &t.arena, &t.err), t.err);
    has_what_if(&p, 0, AH_WHAT_IF_DEVICE_MEMORY, 20 * TEST_GIB);
    has_what_if(&p, 1, AH_WHAT_IF_HOST_MEMORY, 20 * TEST_GIB);
    ah_planning_release(&p);
    t.request.host_bytes = 30 * TEST_GIB;
    CHECK_OK(ah_planning_init(&p, &t.request, &t.arena, &t.err), t.err);
    has_what_if(&p, 1, AH_WHAT_IF_HOST_MEMORY, 30 * TEST_GIB);
    assert_int_equal(p.host_capacity_bytes,
                     ah_planning_host_budget(&machine, 30 * TEST_GIB, 1, 20 * TEST_GIB));
    ah_planning_release(&p);
    test_request_close(&t);
}

/* Lanes share the cores. The plan uses the fastest split, and its bound is the smallest bound of any split. */
TEST(planning, chooses_among_splits)
{
    struct test_request t;
    struct ah_planning p;
    struct ah_machine_matmul matmul[WAYS];
    struct ah_machine_adam adam[16];
    struct ah_machine machine;
    double least_us = 0, bound_us = 0;
    test_request_open(&t, "tiny", "rtx4090-64g");
    assert_true(t.request.machine->n_adam * WAYS <= 16);
    machine = *t.request.machine;
    make_cpu(&machine, matmul, adam);
    t.request.machine = &machine;
    t.request.device_bytes = 40 * TEST_MIB;
    CHECK_OK(ah_planning_init(&p, &t.request, &t.arena, &t.err), t.err);
    CHECK_OK(ah_planning_solve(&p, &t.err), t.err);
    assert_true(p.n_splits > 1 && p.winner);
    for (size_t i = 0; i < p.n_splits; i++) {
        uint64_t needed_bytes = 0;
        CHECK_OK(
            ah_reserve_find(&p.job, AH_DEVICE_CPU, p.splits[i].costs.threads.compute, &needed_bytes, &t.err),
            t.err);
        assert_true(needed_bytes && needed_bytes <= p.reserve_bytes);
        const struct ah_optimize optimize = {.evaluator = &p.splits[i].evaluator};
        struct ah_optimize_result result;
        CHECK_OK(ah_optimize_bound(&optimize, &t.arena, &result, &t.err), t.err);
        double us = p.splits[i].evaluator.found ? p.splits[i].evaluator.best.score.period_us : 0;
        bound_us = !bound_us || result.bound_us < bound_us ? result.bound_us : bound_us;
        least_us = us > 0 && (!least_us || us < least_us) ? us : least_us;
    }
    assert_true(p.winner->evaluator.best.score.period_us == least_us);
    assert_true(p.bound_us == bound_us);
    ah_planning_release(&p);
    CHECK_OK(test_request_plan(&t), t.err);
    assert_int_equal(t.plan.memory.reserved_bytes, p.reserve_bytes);
    assert_true(t.plan.threads && t.plan.threads->compute + t.plan.threads->host <= 4);
    assert_true(t.plan.memory.device_capacity_bytes + t.plan.memory.host_capacity_bytes <=
                machine.host.memory_bytes);
    test_request_close(&t);
}

TEST(planning, gives_up_half_built)
{
    struct test_request t;
    struct ah_planning p;
    test_request_open(&t, "tiny", "rtx4090-64g");
    t.machine.body.machine->n_adam = 0;
    CHECK_FAILS(ah_planning_init(&p, &t.request, &t.arena, &t.err), t.err, AH_E_DOCUMENT, "dam");
    test_request_close(&t);
}
