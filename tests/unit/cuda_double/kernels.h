/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels to test the emulator (test_emulator.c) and the runtime double (test_runtime.c), each enqueued by a C
 * function. `out` has one word per thread, unless the function says otherwise.
 */
#ifndef AH_TESTS_UNIT_CUDA_DOUBLE_KERNELS_H
#define AH_TESTS_UNIT_CUDA_DOUBLE_KERNELS_H

#include <cuda_runtime_api.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernel_case {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    cudaStream_t stream;
    unsigned *out;
};

/* Each thread writes its place in the grid to one word, as a unique number. */
cudaError_t kernel_places(const struct kernel_case *c);

/* Passes values around the block through shared memory, `rounds` times, and writes each thread's last value. */
cudaError_t kernel_around(const struct kernel_case *c, unsigned rounds);

/* Sums thread numbers over each block, by shuffles and static shared memory, and writes one word per block. */
cudaError_t kernel_block_sums(const struct kernel_case *c);

/* Writes eight words per thread: the results of shuffling its number. The test computes the same shuffles. */
cudaError_t kernel_shuffles(const struct kernel_case *c, int width);

/* Writes five words per thread: ballot, any, all, sum and the lanes with an equal number. Votes are on thread numbers
 * mod 3, among lanes of equal parity. */
cudaError_t kernel_votes(const struct kernel_case *c);

/* Lanes shuffle among those of equal parity, odd and even lanes in different loops. Afterwards all lanes meet. */
cudaError_t kernel_diverges(const struct kernel_case *c);

/* Threads numbered `leaves` and above return before the barrier. The other threads count themselves, twice. */
cudaError_t kernel_returns_early(const struct kernel_case *c, unsigned leaves);

/* Writes two words per thread, the initial contents of dynamic and static shared memory, and then overwrites these. */
cudaError_t kernel_looks_at_shared(const struct kernel_case *c);

/* Hangs, because even threads wait at a barrier and odd threads wait for the even ones. */
cudaError_t kernel_sticks(const struct kernel_case *c);

/* Hangs, because lane 0 waits for lane 1 only, but lane 1 waits for all lanes. */
cudaError_t kernel_disagrees(const struct kernel_case *c);

cudaError_t kernel_traps(const struct kernel_case *c, unsigned thread);
cudaError_t kernel_misaligned(const struct kernel_case *c);
cudaError_t kernel_mask_without_itself(const struct kernel_case *c);

/* Every thread adds 1 to out[0] and writes the old value to out[1 + its number in the grid]. */
cudaError_t kernel_counts(const struct kernel_case *c);

/* Writes `value` to out[0 ... n). */
cudaError_t kernel_writes(const struct kernel_case *c, unsigned value, unsigned n);

/* Writes results of intrinsics for inputs that the test knows. `out` has 32 words. */
cudaError_t kernel_intrinsics(const struct kernel_case *c);

cudaError_t kernel_allow_shared(size_t bytes); /* lets kernel_looks_at_shared() use this much shared memory */

#ifdef __cplusplus
}
#endif
#endif
