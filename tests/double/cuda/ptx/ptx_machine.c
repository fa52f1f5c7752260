/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs blocks one after another. A block's warps run alternately, each until it waits.
 *
 * 1. A lane has returned (not in `alive`), waits for lanes of its warp, waits at the block's barrier, or is ready, at
 *    an instruction of its own (`at`).
 * 2. The ready lanes that run are those furthest behind in the text, all at the same instruction. They stop in front of
 *    a label, where other lanes might join them.
 * 3. Lanes that act together wait until all lanes of their mask that have not returned are at the same instruction.
 *    An act of the whole warp, or a barrier, is an error if a lane of the warp is somewhere else.
 * 4. The barrier opens when all threads of the block that have not returned are there: a new epoch begins.
 *
 * Source: PTX ISA, "bar", "Independent Thread Scheduling" in the CUDA C++ Programming Guide.
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_ALIGN = 128 };

void ptx_trap(struct ptx_block *block, const struct ptx_insn *insn, const char *format, ...)
{
    va_list arguments;
    if (block->why[0])
        return;
    const int n = snprintf(block->why, sizeof block->why, "line %u, '%s': ", insn->line, insn->op.name);
    va_start(arguments, format);
    (void)vsnprintf(block->why + n, sizeof block->why - (size_t)n, format, arguments);
    va_end(arguments);
}

static uint64_t special(const struct ptx_block *block, const struct ptx_warp *warp, uint64_t which,
                        uint32_t lane)
{
    const uint32_t thread = warp->number * EMULATOR_WARP + lane, x = block->special[PTX_NTID_X],
                   y = block->special[PTX_NTID_Y];
    switch (which) {
    case PTX_TID_X:
        return thread % x;
    case PTX_TID_Y:
        return thread / x % y;
    case PTX_TID_Z:
        return thread / x / y;
    default:
        return block->special[which];
    }
}

uint64_t ptx_value(const struct ptx_block *block, const struct ptx_warp *warp,
                   const struct ptx_operand *operand, uint32_t lane)
{
    switch (operand->kind) {
    case PTX_REGISTER:
        return warp->reg[operand->reg][lane];
    case PTX_PLACE:
        return (operand->reg == PTX_NO_REGISTER ? 0 : warp->reg[operand->reg][lane]) + operand->number;
    case PTX_SPECIAL:
        return special(block, warp, operand->number, lane);
    case PTX_NUMBER:
        break;
    }
    return operand->number;
}

static void run_alone(const struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                      uint32_t lanes)
{
    PTX_EACH_LANE(lane, lanes)
    {
        uint64_t value[4] = {0};
        for (uint32_t i = 1; i < insn->n && i <= 4; i++)
            value[i - 1] = ptx_value(block, warp, &insn->operand[i], lane);
        ptx_set(warp, &insn->operand[0], lane, insn->op.scalar(value[0], value[1], value[2], value[3]));
    }
}

static uint32_t guarded(const struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes)
{
    uint32_t passed = 0;
    if (insn->guard == PTX_NO_REGISTER)
        return lanes;
    PTX_EACH_LANE(lane, lanes)
    passed |= (uint32_t)((warp->reg[insn->guard][lane] & 1) != insn->guard_not) << lane;
    return passed;
}

static void put(struct ptx_warp *warp, uint32_t lanes, uint32_t at)
{
    PTX_EACH_LANE(lane, lanes)
    warp->at[lane] = at;
}

/* Returns the lanes in an act's mask that have not returned. */
static uint32_t wanted(struct ptx_block *block, const struct ptx_warp *warp, const struct ptx_insn *insn,
                       uint32_t lanes)
{
    if (insn->op.whole)
        return PTX_ALL_LANES;
    const uint32_t first = (uint32_t)__builtin_ctz(lanes);
    const uint32_t mask = (uint32_t)ptx_value(block, warp, &insn->operand[insn->n - 1], first);
    PTX_EACH_LANE(lane, lanes)
    if ((uint32_t)ptx_value(block, warp, &insn->operand[insn->n - 1], lane) != mask || !(mask >> lane & 1)) {
        ptx_trap(block, insn, "lane %u has a mask of its own, or one that leaves it out", lane);
        return 0;
    }
    return mask & warp->alive;
}

/* Acts if all lanes are there. Returns true if they acted. */
static bool act_together(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                         uint32_t at, uint32_t lanes)
{
    uint32_t here = lanes;
    PTX_EACH_LANE(lane, warp->waiting)
    here |= (uint32_t)(warp->at[lane] == at) << lane;
    const uint32_t all = wanted(block, warp, insn, here);
    if (block->why[0])
        return false;
    if (insn->op.whole && here != all) {
        ptx_trap(block, insn, "takes the whole warp, and lanes 0x%08x of warp %u are here", here,
                 warp->number);
        return false;
    }
    warp->waiting |= here;
    put(warp, here, at);
    if ((here & all) != all)
        return false;
    warp->waiting &= ~here;
    insn->op.act(block, warp, insn, here);
    put(warp, here, at + 1);
    return true;
}

static void arrive(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t at,
                   uint32_t lanes)
{
    if (lanes != warp->alive) {
        ptx_trap(block, insn, "lanes 0x%08x of warp %u are at the barrier, of 0x%08x", lanes, warp->number,
                 warp->alive);
        return;
    }
    put(warp, lanes, at);
    warp->at_barrier |= lanes;
}

static void leave(struct ptx_warp *warp, uint32_t lanes)
{
    warp->alive &= ~lanes;
    warp->waiting = 0; /* lanes that waited for these lanes look once more */
}

/* Runs one instruction on lanes at `at`. Returns true if all of these lanes are at the next instruction. */
static bool step(struct ptx_block *block, struct ptx_warp *warp, uint32_t *at, uint32_t lanes)
{
    const struct ptx_insn *insn = &block->kernel->insns[*at];
    const uint32_t active = guarded(warp, insn, lanes);
    block->tally.insns[insn->op.sort]++;
    if (active != lanes)
        put(warp, lanes & ~active, *at + 1);
    switch (active ? insn->op.way : PTX_ACTS) {
    case PTX_ALONE:
        run_alone(block, warp, insn, active);
        break;
    case PTX_ACTS:
        if (active)
            insn->op.act(block, warp, insn, active);
        break;
    case PTX_TOGETHER:
        (void)act_together(block, warp, insn, *at, active);
        return false;
    case PTX_BRANCHES:
        put(warp, active, insn->target);
        if (active != lanes)
            return false;
        *at = insn->target;
        return lanes == warp->alive;
    case PTX_RETURNS:
        leave(warp, active);
        return false;
    case PTX_BARRIER:
        arrive(block, warp, insn, *at, active);
        return false;
    }
    ++*at;
    if (lanes == warp->alive)
        return true;
    put(warp, lanes, *at);
    return !block->kernel->insns[*at].joins;
}

static void run_warp(struct ptx_block *block, struct ptx_warp *warp)
{
    uint32_t ready;
    while (!block->why[0] && (ready = warp->alive & ~warp->waiting & ~warp->at_barrier)) {
        uint32_t at = UINT32_MAX, lanes = 0;
        PTX_EACH_LANE(lane, ready)
        at = warp->at[lane] < at ? warp->at[lane] : at;
        PTX_EACH_LANE(lane, ready)
        lanes |= (uint32_t)(warp->at[lane] == at) << lane;
        while (!block->why[0] && step(block, warp, &at, lanes))
            ;
    }
}

static bool is_open(const struct ptx_block *block)
{
    bool any = false;
    for (uint32_t i = 0; i < block->n_warps; i++) {
        if (block->warps[i].alive != block->warps[i].at_barrier)
            return false;
        any = any || block->warps[i].alive;
    }
    return any;
}

/* True if all threads that have not returned voted yes. */
static bool all_say_yes(const struct ptx_block *block)
{
    bool yes = true;
    for (uint32_t i = 0; i < block->n_warps; i++)
        PTX_EACH_LANE(lane, block->warps[i].alive)
        {
            const struct ptx_insn *insn = &block->kernel->insns[block->warps[i].at[lane]];
            if (insn->op.results)
                yes = yes && (ptx_value(block, &block->warps[i], &insn->operand[2], lane) & 1);
        }
    return yes;
}

static void open_barrier(struct ptx_block *block)
{
    const bool yes = all_say_yes(block);
    for (uint32_t i = 0; i < block->n_warps; i++) {
        struct ptx_warp *warp = &block->warps[i];
        PTX_EACH_LANE(lane, warp->alive)
        {
            const struct ptx_insn *insn = &block->kernel->insns[warp->at[lane]++];
            if (insn->op.results)
                ptx_set(warp, &insn->operand[0], lane, yes);
        }
        warp->at_barrier = 0;
    }
    block->epoch++;
}

static bool is_done(const struct ptx_block *block)
{
    for (uint32_t i = 0; i < block->n_warps; i++)
        if (block->warps[i].alive)
            return false;
    return true;
}

static void report_stuck(struct ptx_block *block)
{
    for (uint32_t i = 0; i < block->n_warps; i++) {
        const struct ptx_warp *warp = &block->warps[i];
        const uint32_t lanes = warp->waiting ? warp->waiting : warp->alive & ~warp->at_barrier;
        if (lanes) {
            const uint32_t first = (uint32_t)__builtin_ctz(lanes);
            ptx_trap(block, &block->kernel->insns[warp->at[first]],
                     "none can go on; lanes 0x%08x of warp %u wait here for others of 0x%08x", lanes, i,
                     warp->alive);
            return;
        }
    }
    ptx_trap(block, &block->kernel->insns[0], "none can go on: some threads wait at the barrier");
}

static void begin_warp(const struct ptx_block *block, struct ptx_warp *warp, uint32_t number)
{
    const uint32_t left = block->threads - number * EMULATOR_WARP;
    warp->number = number;
    warp->alive = left < EMULATOR_WARP ? (1u << left) - 1 : PTX_ALL_LANES;
    warp->waiting = warp->at_barrier = warp->meetings = warp->n_copies = 0;
    memset(warp->at, 0, sizeof warp->at);
    memset(warp->group, 0, sizeof warp->group);
    /* Registers begin with neither 0 nor a small number, so that a read before a write is noticed. */
    memset(warp->reg, EMULATOR_POISON, block->kernel->registers * sizeof *warp->reg);
}

static bool run_block(struct ptx_block *block, uint32_t x, uint32_t y, uint32_t z)
{
    block->special[PTX_CTAID_X] = x;
    block->special[PTX_CTAID_Y] = y;
    block->special[PTX_CTAID_Z] = z;
    block->epoch++;
    memset(block->shared, EMULATOR_POISON, block->shared_bytes);
    for (uint32_t i = 0; i < block->n_warps; i++)
        begin_warp(block, &block->warps[i], i);
    while (!is_done(block) && !block->why[0]) {
        for (uint32_t i = 0; i < block->n_warps; i++)
            run_warp(block, &block->warps[i]);
        if (block->why[0] || is_done(block))
            break;
        if (is_open(block))
            open_barrier(block);
        else
            report_stuck(block);
    }
    return !block->why[0];
}

static void close_block(struct ptx_block *block)
{
    for (uint32_t i = 0; block->warps && i < block->n_warps; i++) {
        free(block->warps[i].reg);
        free(block->warps[i].copies);
    }
    free(block->warps);
    free(block->touches);
    free(block->shared);
}

size_t ptx_static_shared_bytes(const struct ptx_kernel *kernel)
{
    return (kernel->shared_bytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
}

static bool open_block(struct ptx_block *block, const struct emulator_launch *launch)
{
    const struct ptx_kernel *kernel = block->kernel;
    const uint32_t fixed = (uint32_t)ptx_static_shared_bytes(kernel);
    const dim3 b = launch->block, g = launch->grid;
    const uint32_t special_of_launch[] = {b.x, b.y, b.z, 0, 0, 0, g.x, g.y, g.z};
    memcpy(&block->special[PTX_NTID_X], special_of_launch, sizeof special_of_launch);
    block->threads = b.x * b.y * b.z;
    block->n_warps = (block->threads + EMULATOR_WARP - 1) / EMULATOR_WARP;
    block->shared_bytes = fixed + (uint32_t)launch->shared_bytes;
    block->shared = malloc(block->shared_bytes + 1);
    block->touches = calloc(block->shared_bytes / 2 + 1, sizeof *block->touches);
    block->warps = calloc(block->n_warps, sizeof *block->warps);
    bool done = block->shared && block->touches && block->warps;
    for (uint32_t i = 0; i < block->n_warps && done; i++) {
        block->warps[i].reg = malloc((kernel->registers + 1) * sizeof *block->warps[i].reg);
        block->warps[i].copies = malloc(PTX_COPIES * sizeof *block->warps[i].copies);
        done = block->warps[i].reg && block->warps[i].copies;
    }
    return done;
}

static void add_counts(const struct ptx_block *block)
{
    struct ptx_counts *counts = block->kernel->counts;
    const struct ptx_tally *tally = &block->tally;
    for (size_t i = 0; i < PTX_SORTS; i++)
        counts->insns[i] += tally->insns[i];
    counts->shared_turns += tally->shared_turns;
    counts->shared_least += tally->shared_least;
    counts->global_sectors += tally->global_sectors;
    counts->global_least += tally->global_least;
}

static enum emulator_result fail(const struct ptx_kernel *kernel, const struct ptx_block *block,
                                 char *ret_report)
{
    (void)snprintf(ret_report, EMULATOR_REPORT_MAX,
                   "kernel '%.200s', block (%u, %u, %u) of %u threads: %.600s", kernel->name,
                   block->special[PTX_CTAID_X], block->special[PTX_CTAID_Y], block->special[PTX_CTAID_Z],
                   block->threads, block->why[0] ? block->why : "no memory to run it");
    return block->why[0] ? EMULATOR_TRAPPED : EMULATOR_NO_MEMORY;
}

static bool is_too_large(struct ptx_block *block, const struct ptx_kernel *kernel)
{
    if (kernel->threads_max && block->threads > kernel->threads_max)
        (void)snprintf(block->why, sizeof block->why, "it was compiled for %u threads at most",
                       kernel->threads_max);
    else if (block->parameters_bytes < kernel->parameters_bytes)
        (void)snprintf(block->why, sizeof block->why, "it has %llu bytes of parameters, and %llu are given",
                       (unsigned long long)kernel->parameters_bytes,
                       (unsigned long long)block->parameters_bytes);
    return block->why[0];
}

enum emulator_result ptx_run(const struct emulator_launch *launch, char *ret_report)
{
    const struct ptx_kernel *kernel = launch->code;
    struct ptx_block block = {
        .kernel = kernel, .parameters = launch->parameters, .parameters_bytes = launch->parameters_bytes};
    const dim3 grid = launch->grid;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    enum emulator_result result = EMULATOR_DONE;
    kernel->counts->launches++;
    if (!open_block(&block, launch) || is_too_large(&block, kernel))
        result = fail(kernel, &block, ret_report);
    for (uint64_t b; result == EMULATOR_DONE &&
                     (b = __atomic_fetch_add(launch->next_block, 1, __ATOMIC_ACQ_REL)) < blocks;) {
        kernel->counts->warps += block.n_warps;
        if (!run_block(&block, (uint32_t)(b % grid.x), (uint32_t)(b / grid.x % grid.y),
                       (uint32_t)(b / grid.x / grid.y)))
            result = fail(kernel, &block, ret_report);
    }
    if (result != EMULATOR_DONE)
        __atomic_store_n(launch->next_block, blocks, __ATOMIC_RELEASE);
    add_counts(&block);
    close_block(&block);
    return result;
}
