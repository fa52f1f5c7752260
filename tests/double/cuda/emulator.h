/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulator: runs the thread blocks of a kernel on the processor. Each thread of a block is a fiber, all of a block's on
 * one thread of the system. Several of those may share the blocks of a launch (crew.h).
 *
 * A thread runs until it waits for others: at a barrier of the block, or where lanes of a warp act together. Then the
 * next one that can go on does. So warps diverge as freely as on hardware that schedules threads independently, and a
 * barrier that can never be complete is noticed at once: all that are left wait, and the block fails with a list of
 * who waits for what. Threads that have returned are not waited for.
 *
 * LANES ACTING TOGETHER is one primitive, emulator_warp(): every lane of the mask brings a pointer to data of its own;
 * when all are there, one of them calls `act` once with all the pointers, and all go on. Shuffles, votes, and tiles of
 * the matrix units are made of it:
 *
 *     struct rotate { float value, result; };
 *     static void rotate(void *const lanes[32], unsigned mask)
 *     {
 *         for (unsigned i = 0; i < 32; i++)
 *             if (mask >> i & 1)
 *                 ((struct rotate *)lanes[i])->result = ((struct rotate *)lanes[(i + 1) % 32])->value;
 *     }
 *     ...
 *         struct rotate mine = {x, 0};
 *         emulator_warp(0xffffffff, rotate, &mine);
 *
 * Shared memory holds no zeros and nothing of an earlier block when a block begins: every byte is EMULATOR_POISON,
 * which makes floats NaN and integers huge.
 *
 * A kernel must not wait for another block in a loop: it would wait forever.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_EMULATOR_H
#define AH_TESTS_DOUBLE_CUDA_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vector_types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATOR_WARP = 32, EMULATOR_THREADS_MAX = 1024, EMULATOR_POISON = 0xff };
enum { EMULATOR_SHARED_MAX = 227 << 10, EMULATOR_SHARED_ALIGN = 1024, EMULATOR_REPORT_MAX = 1024 };

struct emulator_block {
    uint3 index;
    dim3 size;
    dim3 grid;
    unsigned char *shared; /* dynamic shared memory */
};

/* What a thread of a kernel sees of itself. */
struct emulator_thread {
    uint3 index;
    unsigned number; /* within the block: x fastest */
    const struct emulator_block *block;
};

/* The thread that runs. Its address is taken anew after every call that may switch: it is never a constant. */
extern __thread struct emulator_thread *emulator_self __attribute__((tls_model("initial-exec")));

/* `lanes` has NULL where `mask` has no bit: lanes that were not asked for, do not exist or have returned. */
typedef void emulator_act_fn(void *const lanes[EMULATOR_WARP], unsigned mask);

void emulator_warp(unsigned mask, emulator_act_fn *act, void *mine);

/* What the threads at a barrier said, counted over all. */
struct emulator_votes {
    unsigned yes;
    unsigned all;
};

/* Waits for all threads of the block that have not returned. */
struct emulator_votes emulator_barrier(bool vote);

/* Ends the launch as failed; `why` goes into the report. */
__attribute__((noreturn)) void emulator_trap(const char *why);

struct ptx_kernel;

/* A launch, ready to run. */
struct emulator_launch {
    const char *name;
    void (*run)(const void *arguments); /* one thread of the kernel */
    const void *arguments;
    const struct ptx_kernel *code; /* that is run instead (ptx/ptx.h); NULL: none */
    const void *parameters;        /* of it */
    size_t parameters_bytes;
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    uint64_t order; /* who goes on of several threads: 0, who waited longest; else random, from this seed */
    uint64_t *next_block; /* of those who share the launch, used atomically; 0 at first */
};

enum emulator_result { EMULATOR_DONE, EMULATOR_STUCK, EMULATOR_TRAPPED, EMULATOR_NO_MEMORY };

/* Runs blocks on the calling thread until all have been begun or one has failed. The report (EMULATOR_REPORT_MAX bytes)
 * is written where the result is not EMULATOR_DONE: a sentence naming kernel, block and threads. Sizes are within the
 * limits above. */
enum emulator_result emulator_run(const struct emulator_launch *launch, char *ret_report);

/* Gives back the stacks that the calling thread keeps for further launches. */
void emulator_release(void);

#ifdef __cplusplus
}
#endif
#endif
