/* SPDX-License-Identifier: Apache-2.0
 *
 * Crew: threads that share the blocks of a launch with its stream's thread. There is one crew. While it works for one
 * stream, launches of other streams run on those streams' threads alone, and so do launches too small to share. Blocks
 * of a kernel thus really run at the same time, which the thread sanitizer watches.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CREW_H
#define AH_TESTS_DOUBLE_CUDA_CREW_H

#include "tests/double/cuda/emulator.h"

enum { CREW_MAX = 7 };

/* emulator_run() on up to `threads` threads, the caller among them. */
enum emulator_result crew_run(const struct emulator_launch *launch, unsigned threads, char *ret_report);

#endif
