/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX machine: runs kernels on the processor, as nvcc compiled them. The emulator (emulator.h) runs kernels compiled by
 * the host's compiler. The PTX machine runs the code for GPUs, including inline instructions, from the files written by
 * `nvcc -ptx`. It follows the PTX ISA to the letter and is independent of mma_double.cuh and simt_*.cuh.
 *
 * A warp's lanes at the same instruction run together. The group furthest behind in the text runs first, so that
 * diverged lanes meet again. Where the ISA leaves a choice to hardware, the machine takes the most demanding one:
 *
 *   - approximations (ex2, rcp) are off by what the ISA allows; bits of the argument decide whether up or down;
 *   - matrix units add 16 products and the sum so far on a common exponent, cut off and not rounded, as was measured on
 *     several generations of GPUs (Fasi, Higham, Mikaitis, Pranesh, 2021);
 *   - copies in the background are made when they are waited for, and their places are poisoned until then.
 *
 * Errors end the launch and name the line of the file. Places must be aligned and inside shared memory. If two threads
 * touch the same bytes of it and one of them writes, a barrier must be between. All lanes of a warp function must
 * arrive. The lanes of a warp must reach a matrix instruction or a barrier together. No instruction may be unknown.
 *
 * The machine counts what launches do: instructions by kind, turns of shared memory, and sectors of global memory.
 * Turns and sectors are counted next to the least possible number (ptx_counts()).
 *
 *   ptx_parse.c     files to instructions
 *   ptx_decode.c    what an instruction does, from its name
 *   ptx_scalar.c    what a lane does alone
 *   ptx_warp.c      what lanes of a warp do together
 *   ptx_memory.c    loads, stores, copies in the background
 *   ptx_shared.c    who touched shared memory, and when
 *   ptx_machine.c   warps, divergence, barriers, blocks
 *   ptx_library.c   folders of files, and the entry for a kernel's address
 *
 * Source: NVIDIA, PTX ISA 9.0.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_PTX_H
#define AH_TESTS_DOUBLE_CUDA_PTX_H

#include "tests/double/cuda/emulator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a kernel's entry by its address in this program. Searches the *.ptx files of a folder, read only once. Returns
 * NULL if there is none; `ret_report` (EMULATOR_REPORT_MAX bytes) then says why. */
const struct ptx_kernel *ptx_find(const char *folder, const void *kernel, char *ret_report);

/* Returns the bytes of a block's shared memory besides dynamic memory. */
size_t ptx_static_shared_bytes(const struct ptx_kernel *kernel);

/* Does what emulator_run() does, for a launch with code and parameters. */
enum emulator_result ptx_run(const struct emulator_launch *launch, char *ret_report);

/* Appends a line for each kernel to a file, with counts of all its launches. Returns -1 if the file cannot be
 * written. */
int ptx_counts(const char *path);

/* Reads a text with one entry, for tests of the machine. The caller frees the kernel. NULL: `ret_report` says why. */
struct ptx_kernel *ptx_read(const char *text, char *ret_report);
void ptx_free(struct ptx_kernel *kernel); /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
