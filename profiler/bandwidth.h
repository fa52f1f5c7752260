/* SPDX-License-Identifier: Apache-2.0
 *
 * Bandwidth: measures the host's memory bandwidth by simple passes of pinned threads over large arrays.
 *
 * There are two arrays, on huge pages if the kernel grants them, and written once so that their pages exist. A pass
 * continues where the last pass stopped, and returns to a slice only after the rest of the array. So a cache helps only
 * if it is as large as the array. Loads and stores are ordinary, so the processor reads each line before it writes it.
 * Only the bytes that the program itself reads and writes are counted:
 *
 *     read   8 bytes of each word (exclusive or)      bytes = n
 *     write  a number to each word                    bytes = n
 *     copy   one array to the other                   bytes = 2 n
 *     scale  x = a * x in place, fp32                 bytes = 2 n; an optimizer's pattern
 *
 *     rc = ah_bandwidth_new(&bandwidth, 1 << 30, err);
 *     rc = ah_bandwidth_use(bandwidth, 2, cpus, err);    // pins the calling thread
 *     rc = ah_bandwidth_run(bandwidth, AH_MEMORY_SCALE, repeats, &seconds, err);
 *     ah_bandwidth_free(bandwidth);                      // unpins it
 *
 * Only one thread may use an object.
 */
#ifndef AH_PROFILER_BANDWIDTH_H
#define AH_PROFILER_BANDWIDTH_H

#include "base/error.h"
#include "schemas/vocabulary.h"

#include <stdint.h>

struct ah_bandwidth;

enum { AH_BANDWIDTH_SLICE_BYTES = 4 << 20 };

/* Makes two arrays of `array_bytes` each, rounded up to whole slices. AH_E_MEMORY: there is no room for them. */
int ah_bandwidth_new(struct ah_bandwidth **ret_bandwidth, uint64_t array_bytes, struct ah_error *err);

/* Makes later passes use `threads` threads pinned to cpus[0..threads-1], of which the caller is the first. AH_E_USAGE:
 * no thread, or more than AH_BANDWIDTH_THREADS_MAX. */
enum { AH_BANDWIDTH_THREADS_MAX = 4096 };
int ah_bandwidth_use(struct ah_bandwidth *bandwidth, unsigned threads, const int *cpus, struct ah_error *err);

/* Ends the threads, and restores the caller's affinity. */
void ah_bandwidth_rest(struct ah_bandwidth *bandwidth);

/* Passes over `slices` slices of AH_BANDWIDTH_SLICE_BYTES each, in every array of the pattern. */
int ah_bandwidth_run(struct ah_bandwidth *bandwidth, enum ah_memory_pattern pattern, uint64_t slices,
                     double *ret_seconds, struct ah_error *err);

/* Returns the bytes that a pattern reads and writes in one slice. */
uint64_t ah_bandwidth_slice_bytes(enum ah_memory_pattern pattern);

/* Frees the arrays, and unpins the caller. NULL is fine. */
void ah_bandwidth_free(struct ah_bandwidth *bandwidth);

#endif
