/* SPDX-License-Identifier: Apache-2.0
 *
 * Crew: threads that share the blocks of a launch with its stream's thread. There is one crew. While the crew works for
 * one stream, other streams run their launches alone. Launches too small to share also run on the stream's thread
 * alone. Blocks of a kernel thus really run at the same time, and the thread sanitizer watches them.
 */
#ifndef AH_TESTS_DOUBLE_CUDA_CREW_H
#define AH_TESTS_DOUBLE_CUDA_CREW_H

#include "tests/double/cuda/emulator.h"

enum { CREW_MAX = 7 };

/* Does what emulator_run() does, on up to `threads` threads including the caller. */
enum emulator_result crew_run(const struct emulator_launch *launch, unsigned threads, char *ret_report);

#endif
