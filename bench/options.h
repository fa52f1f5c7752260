/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the command lines of benchmarks.
 */
#ifndef AH_BENCH_OPTIONS_H
#define AH_BENCH_OPTIONS_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number after `name`, clamped to the range 1 to `max`, or `fallback` if it is not given. */
static inline size_t bench_option(int argc, char **argv, const char *name, size_t fallback, size_t max)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name)) {
            size_t value = strtoull(argv[i + 1], NULL, 10);
            return value < 1 ? 1 : value > max ? max : value;
        }
    return fallback;
}

#endif
