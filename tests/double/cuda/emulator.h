/* SPDX-License-Identifier: Apache-2.0
 *
 * Emulator: runs the thread blocks of a kernel on the processor. Each thread of a block is a fiber, and a block's
 * fibers share one thread of the system. Several system threads may share the blocks of a launch (crew.h).
 *
 * A thread runs until it waits for others, at a barrier of the block or where lanes of a warp act together. Next,
 * another ready thread runs. So warps diverge as freely as on hardware that schedules threads independently. If a
 * barrier can never complete, all remaining threads are waiting. This is noticed at once, and the block fails with a
 * list of these waits. Nobody waits for threads that have returned.
 *
 * LANES ACT TOGETHER through one primitive, emulator_warp(). Every lane of the mask passes a pointer to its own data.
 * When all are there, one of them calls `act` once with all the pointers, and all continue. Shuffles, votes and tiles
 * of the matrix units are built on emulator_warp():
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
 * When a block begins, every byte of shared memory is EMULATOR_POISON, which makes floats NaN and integers huge.
 * Nothing of an earlier block is left.
 *
 * A kernel must not wait for another block in a loop, because the wait would never end.
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

/* A thread of a kernel, as it sees itself. */
struct emulator_thread {
    uint3 index;
    unsigned number; /* number within the block; x varies fastest */
    const struct emulator_block *block;
};

/* The running thread. Its address is taken anew after every call that may switch threads, so it is never a constant. */
extern __thread struct emulator_thread *emulator_self __attribute__((tls_model("initial-exec")));

/* Acts for the lanes of `mask`. `lanes` has NULL for lanes not asked for, not existing or already returned. */
typedef void emulator_act_fn(void *const lanes[EMULATOR_WARP], unsigned mask);

void emulator_warp(unsigned mask, emulator_act_fn *act, void *mine);

/* Votes of all threads at a barrier. */
struct emulator_votes {
    unsigned yes;
    unsigned all;
};

/* Waits for all threads of the block that have not returned. */
struct emulator_votes emulator_barrier(bool vote);

/* Ends the launch as failed; `why` goes into the report. */
__attribute__((noreturn)) void emulator_trap(const char *why);

struct ptx_kernel;

struct emulator_launch {
    const char *name;
    void (*run)(const void *arguments); /* one thread of the kernel */
    const void *arguments;
    const struct ptx_kernel *code; /* runs in place of `run` (ptx/ptx.h); NULL: none */
    const void *parameters;        /* the parameters of `code` */
    size_t parameters_bytes;
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    uint64_t order; /* 0: the thread that waited longest runs next; otherwise the seed of a random order */
    uint64_t *next_block; /* shared by all threads that run the launch, used atomically; 0 at first */
};

enum emulator_result { EMULATOR_DONE, EMULATOR_STUCK, EMULATOR_TRAPPED, EMULATOR_NO_MEMORY };

/* Runs blocks on the calling thread until all have begun or one has failed. If the result is not EMULATOR_DONE, the
 * report (EMULATOR_REPORT_MAX bytes) is a sentence naming kernel, block and threads. Sizes must be within limits. */
enum emulator_result emulator_run(const struct emulator_launch *launch, char *ret_report);

/* Frees the stacks kept by the calling thread for further launches. */
void emulator_release(void);

#ifdef __cplusplus
}
#endif
#endif
