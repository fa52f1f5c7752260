/* SPDX-License-Identifier: Apache-2.0
 *
 * PTX machine: runs what nvcc made of kernels, on the processor. The emulator (emulator.h) runs the source as the
 * host's compiler takes it; here it is the code that GPUs get, with its inline instructions, read from the files that
 * `nvcc -ptx` writes, by the letter of the PTX ISA and independent of mma_double.cuh and of simt_*.cuh.
 *
 * A warp's lanes that are at the same instruction go together; of several such groups the one that is furthest behind
 * goes first, so that lanes meet again where their ways do. What hardware leaves open is made hard on purpose:
 *
 *   - approximations (ex2, rcp) are off by what the ISA allows, up or down by their argument's bits;
 *   - matrix units add 16 products and the sum so far on a common exponent, cut off and not rounded, as was measured on
 *     several generations of GPUs (Fasi, Higham, Mikaitis, Pranesh, 2021);
 *   - copies in the background are made when they are waited for, and their places are poisoned until then.
 *
 * Ends the launch, with the line of the file: places that are not aligned or not inside of shared memory; bytes of
 * shared memory that two threads touch, one of them writing, with no barrier between; functions of the warp whose lanes
 * never come; a matrix instruction or a barrier that lanes of a warp do not reach together; an instruction that is not
 * known.
 *
 * It counts what launches do: instructions by kind, turns of shared memory and sectors of global memory beside the
 * fewest that would do (ptx_counts()).
 *
 *   ptx_parse.c     files to instructions
 *   ptx_decode.c    an instruction's name, to what it does
 *   ptx_scalar.c    what a lane does alone
 *   ptx_warp.c      what lanes of a warp do together
 *   ptx_memory.c    loads, stores, copies in the background
 *   ptx_shared.c    who touched shared memory since when
 *   ptx_machine.c   warps, divergence, barriers, blocks
 *   ptx_library.c   folders of files, and which entry a kernel's address is
 *
 * Source: NVIDIA, PTX ISA 9.0.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_PTX_H
#define AH_TESTS_DOUBLE_CUDA_PTX_H

#include "tests/double/cuda/emulator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The entry of a kernel, by its address in this program, among the files *.ptx of a folder, which are read once. NULL:
 * there is none; then `ret_report` (EMULATOR_REPORT_MAX bytes) says why. */
const struct ptx_kernel *ptx_find(const char *folder, const void *kernel, char *ret_report);

/* Bytes of shared memory that a block has beside the dynamic ones. */
size_t ptx_static_shared_bytes(const struct ptx_kernel *kernel);

/* emulator_run() of a launch that has code and parameters. */
enum emulator_result ptx_run(const struct emulator_launch *launch, char *ret_report);

/* What all launches so far did, a line a kernel, into a file. */
int ptx_counts(const char *path);

/* The one entry of a file's text, for tests of the machine; the caller frees it. */
struct ptx_kernel *ptx_read(const char *text, char *ret_report);
void ptx_free(struct ptx_kernel *kernel); /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
